/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Faults of other trainers with model files, each with its right outcome, on whole model directories: tied heads,
 * shards that are missing or too many, bytes too many, empty tensors, dtypes of exports, old names and buffers,
 * second exports, padded vocabularies. SF-12 and SF-14 against logits are in test_hf_grid.c; SF-09, SF-12 and SF-15
 * with masters that were trained are in train/test_export.c.
 */
#include "cases.h"
#include "unit/ckpt/hf_logits.h"
#include "unit/ckpt/models.h"

#include "base/log.h"
#include "ckpt/shards.h"

static char dir[64];
static char log_lines[8192];

static void keep_line(void *context, cero_log_level level, const char *line)
{
    (void)context;
    (void)level;
    size_t used = strlen(log_lines);
    (void)snprintf(log_lines + used, sizeof(log_lines) - used, "%s\n", line);
}

static int setup(void **state)
{
    (void)state;
    files_make_dir(dir, sizeof(dir));
    cero_log_init();
    cero_log_set_level(CERO_LOG_INFO);
    cero_log_set_sink(keep_line, NULL);
    log_lines[0] = '\0';
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    files_remove(dir);
    return 0;
}

/* Reads every parameter, as an import on one rank does. */
static cero_status import_all(const cero_model_spec *spec)
{
    cero_status st = CERO_OK;
    cero_hf_import *import = NULL;

    CERO_TRY(cero_hf_import_open(dir, spec, &import));
    const cero_hf_table *table = cero_hf_import_table(import);
    for (int64_t i = 0; i < table->param_count && st == CERO_OK; i++) {
        int64_t n = cero_shape_numel(&table->entry[i].shape);
        float *x = cero_new((size_t)n, sizeof(float));
        float *wanted = cero_new((size_t)n, sizeof(float));
        assert_ok(models_values(NULL, table->entry[i].name, 0, n, wanted));
        st = cero_hf_import_read(import, table->entry[i].name, 0, n, x);
        if (st == CERO_OK) {
            assert_memory_equal(x, wanted, (size_t)n * sizeof(float));
        }
        cero_delete(x);
        cero_delete(wanted);
    }
    cero_hf_import_close(&import);
    return st;
}

static void export_model(const char *to, const cero_model_spec *spec, cero_dtype dtype,
                         int64_t max_shard_bytes)
{
    assert_ok(cero_hf_export(to,
                             &(cero_hf_export_params){.spec = spec,
                                                      .dtype = dtype,
                                                      .max_shard_bytes = max_shard_bytes,
                                                      .source = models_values},
                             NULL));
}

/* SF-01: tied G1, the head absent, present and equal, present and different. */
static void test_sf_01_tied_head(void **state)
{
    cero_model_spec g1 = case_g1();

    (void)state;
    models_write(dir, &g1, &(models_twist){.head = 0});
    assert_ok(import_all(&g1));
    models_write(dir, &g1, &(models_twist){.head = 1});
    assert_ok(import_all(&g1));
    models_write(dir, &g1, &(models_twist){.head = 2});
    assert_fails(import_all(&g1), CERO_ERR_CORRUPT,
                 "ties tensor \"lm_head.weight\" to \"transformer.wte.weight\", but they differ");
}

/* SF-04: a shard that the index names is absent. */
static void test_sf_04_missing_shard(void **state)
{
    cero_model_spec g1 = case_g1();
    cero_shards *shards = NULL;
    const char *second = files_in(dir, "model-00002-of-00003.safetensors");
    char wanted[160];
    cero_safetensors *file = NULL;

    (void)state;
    export_model(dir, &g1, CERO_DTYPE_F32, 200000);
    assert_ok(import_all(&g1));
    assert_ok(cero_safetensors_open(second, &file));
    (void)snprintf(wanted, sizeof(wanted), "%s is not there; ", second);
    char count[64];
    (void)snprintf(count, sizeof(count), " places %lld of 28 tensors in it",
                   (long long)cero_safetensors_count(file));
    cero_safetensors_close(&file);
    assert_int_equal(unlink(second), 0);
    assert_fails(import_all(&g1), CERO_ERR_IO, wanted);
    assert_non_null(strstr(cero_error_message(), count));
    assert_fails(cero_shards_open(dir, &shards), CERO_ERR_IO, wanted);
}

/* SF-05: a stray shard is ignored with a line; a tensor that its shard lacks is an error. */
static void test_sf_05_stray_shard(void **state)
{
    cero_model_spec g1 = case_g1();
    const char *stray = files_in(dir, "model-00009-of-00009.safetensors");
    char *bytes = NULL;
    size_t n = 0;

    (void)state;
    export_model(dir, &g1, CERO_DTYPE_F32, 200000);
    assert_ok(cero_file_read(files_in(dir, "model-00001-of-00003.safetensors"), 0, &bytes, &n));
    files_write(stray, bytes, n);
    assert_ok(import_all(&g1));
    assert_non_null(strstr(log_lines, "ignored "));
    assert_non_null(strstr(log_lines, "model-00009-of-00009.safetensors"));
    files_write(files_in(dir, "model-00003-of-00003.safetensors"), bytes, n);
    assert_fails(import_all(&g1), CERO_ERR_CORRUPT, "should be in");
    assert_non_null(strstr(cero_error_message(), "model-00003-of-00003.safetensors"));
    cero_delete(bytes);
}

/* SF-06: four bytes too many; both lengths are named. */
static void test_sf_06_trailing_bytes(void **state)
{
    cero_model_spec g1 = case_g1();
    char *bytes = NULL;
    char wanted[64];
    size_t n = 0;
    const char *path = files_in(dir, "model.safetensors");

    (void)state;
    models_write(dir, &g1, &(models_twist){0});
    assert_ok(cero_file_read(path, 0, &bytes, &n));
    FILE *f = fopen(path, "ab");
    assert_non_null(f);
    assert_int_equal(fwrite("\0\0\0\0", 1, 4, f), 4);
    assert_int_equal(fclose(f), 0);
    (void)snprintf(wanted, sizeof(wanted), "has %zu bytes, expected 474112 more", n + 4);
    assert_fails(import_all(&g1), CERO_ERR_CORRUPT, wanted);
    files_write(path, bytes, n);
    assert_ok(import_all(&g1));
    cero_delete(bytes);
}

static cero_status give_seven(void *context, int64_t index, int64_t begin, int64_t numel, void *out)
{
    (void)context;
    (void)index;
    (void)begin;
    for (int64_t i = 0; i < numel; i++) {
        ((float *)out)[i] = 7;
    }
    return CERO_OK;
}

/* SF-08: no elements, no dimensions, no tensors. */
static void test_sf_08_empty(void **state)
{
    static const cero_safetensors_decl decl[] = {
        {"none", CERO_SAFETENSORS_F32, {.ndim = 2, .dim = {0, 64}}},
        {"scalar", CERO_SAFETENSORS_F32, {.ndim = 0}},
        {"no_rows", CERO_SAFETENSORS_BF16, {.ndim = 1, .dim = {0}}},
    };
    const char *path = files_in(dir, "a.safetensors");
    cero_safetensors *file = NULL;
    float x = 0;
    int64_t nbytes = 0;

    (void)state;
    assert_ok(cero_safetensors_write(
        path, &(cero_safetensors_write_params){.tensors = decl, .count = 3, .source = give_seven}));
    assert_ok(cero_safetensors_open(path, &file));
    assert_int_equal(cero_safetensors_count(file), 3);
    for (int i = 0; i < 3; i++) {
        const cero_safetensors_tensor *t = cero_safetensors_find(file, decl[i].name);
        assert_non_null(t);
        assert_true(cero_safetensors_shape_equal(t, &decl[i].shape));
        assert_int_equal(t->dtype, decl[i].dtype);
        assert_ok(cero_safetensors_read_f32(file, t, 0, t->numel, &x));
    }
    assert_true(x == 7);
    cero_safetensors_close(&file);
    assert_ok(cero_safetensors_write(path, &(cero_safetensors_write_params){0}));
    (void)cero_file_stat(path, &nbytes);
    assert_int_equal(nbytes, 16);
    assert_ok(cero_safetensors_open(path, &file));
    cero_safetensors_close(&file);
}

/* Masters and their roundings to bf16, to nearest, ties to even. */
static const struct {
    uint32_t master;
    uint16_t half;
} roundings[] = {
    {0x3F800000, 0x3F80}, /* 1 */
    {0x3F808000, 0x3F80}, /* a tie, the lower is even */
    {0x3F818000, 0x3F82}, /* a tie, the upper is even */
    {0x3F808001, 0x3F81}, /* just above the tie */
    {0x3F807FFF, 0x3F80}, /* just below */
    {0xBF818000, 0xBF82}, /* ties are symmetric */
    {0x3FFFFFFF, 0x4000}, /* into the next power of two */
    {0x80000000, 0x8000}, /* -0 */
    {0x00008000, 0x0000}, /* subnormal tie */
    {0x00018000, 0x0002}, /* subnormal, to even */
    {0x00000001, 0x0000}, /* the smallest */
    {0x7F7F7FFF, 0x7F7F}, /* the largest that stays finite */
};

static cero_status give_masters(void *context, const char *name, int64_t begin, int64_t numel,
                                float *out)
{
    (void)context;
    (void)name;
    for (int64_t i = 0; i < numel; i++) {
        memcpy(&out[i], &roundings[(size_t)(begin + i) % CERO_COUNT_OF(roundings)].master,
               sizeof(float));
    }
    return CERO_OK;
}

static void expect_dtype(const char *dtype)
{
    char *config = NULL;
    char wanted[64];
    size_t n = 0;

    (void)snprintf(wanted, sizeof(wanted), "\"torch_dtype\": \"%s\"", dtype);
    assert_ok(cero_file_read(files_in(dir, "config.json"), 0, &config, &n));
    assert_non_null(strstr(config, wanted));
    cero_delete(config);
}

/* SF-09: bf16 values are the roundings of the masters, f32 their bits, and config.json says which. */
static void test_sf_09_dtypes(void **state)
{
    static const cero_dtype dtypes[] = {CERO_DTYPE_F32, CERO_DTYPE_BF16};
    cero_model_spec g1 = case_g1();

    (void)state;
    for (size_t d = 0; d < CERO_COUNT_OF(dtypes); d++) {
        cero_shards *shards = NULL;
        bool is_half = dtypes[d] == CERO_DTYPE_BF16;
        assert_ok(cero_hf_export(
            dir, &(cero_hf_export_params){.spec = &g1, .dtype = dtypes[d], .source = give_masters},
            NULL));
        expect_dtype(is_half ? "bfloat16" : "float32");
        assert_ok(cero_shards_open(dir, &shards));
        assert_int_equal(cero_shards_count(shards), 28);
        for (int64_t i = 0; i < 28; i++) {
            const cero_shards_entry *e = cero_shards_get(shards, i);
            unsigned char bytes[CERO_COUNT_OF(roundings) * 4];
            size_t size = is_half ? 2 : 4;
            assert_ok(cero_safetensors_read_raw(e->file, e->tensor, 0,
                                                (int64_t)(CERO_COUNT_OF(roundings) * size), bytes));
            for (size_t k = 0; k < CERO_COUNT_OF(roundings); k++) {
                assert_memory_equal(bytes + size * k,
                                    is_half ? (const void *)&roundings[k].half
                                            : (const void *)&roundings[k].master,
                                    size);
            }
        }
        cero_shards_close(&shards);
    }
}

/* SF-10: with and without prefix, with saved mask buffers, without head: the same logits, bit for bit. */
static void test_sf_10_old_names(void **state)
{
    static const models_twist twists[] = {
        {0},
        {.no_prefix = true},
        {.buffers = true},
        {.no_prefix = true, .buffers = true},
        {.no_prefix = true, .buffers = true, .head = 1},
        {.head = 1},
    };
    static const int32_t tokens[] = {1, 200, 7, 7, 255};
    static float first[5 * 256];
    static float logits[5 * 256];
    cero_model_spec g1 = case_g1();
    case_world machine;

    (void)state;
    case_open(&machine, 1, NULL);
    export_model(dir, &g1, CERO_DTYPE_F32, 0); // for its config.json
    for (size_t i = 0; i < CERO_COUNT_OF(twists); i++) {
        models_write(dir, &g1, &twists[i]);
        log_lines[0] = '\0';
        assert_int_equal(logits_of(machine.context, dir, tokens, 5, i == 0 ? first : logits), 256);
        assert_true(first[0] != first[1]);
        if (i > 0) {
            assert_memory_equal(first, logits, sizeof(first));
        }
        for (int b = 0; b < 4 && twists[i].buffers; b++) {
            char line[64];
            (void)snprintf(line, sizeof(line), "ignored the buffer \"%sh.%d.attn.%s\"",
                           twists[i].no_prefix ? "" : "transformer.", b / 2,
                           b % 2 == 0 ? "bias" : "masked_bias");
            assert_non_null(strstr(log_lines, line));
        }
    }
    case_close(&machine);
}

static cero_status give_imported(void *context, const char *name, int64_t begin, int64_t numel,
                                 float *out)
{
    return cero_hf_import_read(context, name, begin, numel, out);
}

/* SF-12: what came in goes out as it was, every file bit for bit; single and sharded, in every dtype. */
static void test_sf_12_second_export(void **state)
{
    static const cero_dtype dtypes[] = {CERO_DTYPE_F32, CERO_DTYPE_BF16, CERO_DTYPE_F16};
    cero_model_spec l1 = case_l1();

    (void)state;
    for (int i = 0; i < 6; i++) {
        cero_file_list list = {0};
        cero_hf_import *import = NULL;
        cero_model_spec read;
        char first[96];
        char second[96];
        (void)snprintf(first, sizeof(first), "%s/first-%d", dir, i);
        (void)snprintf(second, sizeof(second), "%s/second-%d", dir, i);
        export_model(first, &l1, dtypes[i / 2], i % 2 == 0 ? 0 : 70000);
        assert_ok(cero_model_spec_read(files_in(first, "config.json"), &read));
        assert_ok(cero_hf_import_open(first, &read, &import));
        assert_ok(cero_hf_export(second,
                                 &(cero_hf_export_params){.spec = &read,
                                                          .dtype = read.stored_dtype,
                                                          .max_shard_bytes = i % 2 == 0 ? 0 : 70000,
                                                          .source = give_imported,
                                                          .context = import},
                                 NULL));
        cero_hf_import_close(&import);
        assert_ok(cero_file_list_dir(first, false, &list));
        assert_true(i % 2 == 0 ? list.count == 3 : list.count > 4);
        for (int64_t k = 0; k < list.count; k++) {
            char *a = NULL;
            char *b = NULL;
            size_t a_length = 0;
            size_t b_length = 0;
            assert_ok(cero_file_read(list.path[k], 0, &a, &a_length));
            assert_ok(
                cero_file_read(files_in(second, strrchr(list.path[k], '/') + 1), 0, &b, &b_length));
            assert_int_equal(a_length, b_length);
            assert_memory_equal(a, b, a_length);
            cero_delete(a);
            cero_delete(b);
        }
        cero_file_list_cleanup(&list);
    }
}

/* SF-15: 257 rows, whatever the model is padded to inside. */
static void test_sf_15_vocabulary(void **state)
{
    cero_model_spec g2 = case_g2();
    cero_shards *shards = NULL;

    (void)state;
    export_model(dir, &g2, CERO_DTYPE_F32, 0);
    assert_ok(cero_shards_open(dir, &shards));
    const cero_shards_entry *wte = cero_shards_find(shards, "transformer.wte.weight");
    assert_non_null(wte);
    assert_true(
        cero_safetensors_shape_equal(wte->tensor, &(cero_shape){.ndim = 2, .dim = {257, 21}}));
    int64_t total = 0;
    for (int64_t i = 0; i < cero_shards_count(shards); i++) {
        total += cero_shards_get(shards, i)->tensor->numel;
    }
    assert_int_equal(total, 11277);
    cero_shards_close(&shards);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_sf_01_tied_head, setup, teardown),
        cmocka_unit_test_setup_teardown(test_sf_04_missing_shard, setup, teardown),
        cmocka_unit_test_setup_teardown(test_sf_05_stray_shard, setup, teardown),
        cmocka_unit_test_setup_teardown(test_sf_06_trailing_bytes, setup, teardown),
        cmocka_unit_test_setup_teardown(test_sf_08_empty, setup, teardown),
        cmocka_unit_test_setup_teardown(test_sf_09_dtypes, setup, teardown),
        cmocka_unit_test_setup_teardown(test_sf_10_old_names, setup, teardown),
        cmocka_unit_test_setup_teardown(test_sf_12_second_export, setup, teardown),
        cmocka_unit_test_setup_teardown(test_sf_15_vocabulary, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
