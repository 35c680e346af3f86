/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An export holds exactly Hugging Face's names and shapes, reads back to the same bits (F32) or to their
 * nearest-even roundings (SF-09), and a failed one changes nothing in the directory.
 */
#include "unit/ckpt/models.h"

#include "ckpt/convert.h"
#include "ckpt/shards.h"

#include <sys/mount.h>

static char dir[64];

static int setup(void **state)
{
    (void)state;
    files_make_dir(dir, sizeof(dir));
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    files_remove(dir);
    return 0;
}

static void round_as(cero_dtype dtype, int64_t numel, float *x)
{
    uint16_t half[4096];

    assert_in_range(numel, 0, 4096);
    if (dtype == CERO_DTYPE_BF16) {
        cero_convert_f32_to_bf16(x, numel, half);
        cero_convert_bf16_to_f32(half, numel, x);
    } else if (dtype == CERO_DTYPE_F16) {
        cero_convert_f32_to_f16(x, numel, half);
        cero_convert_f16_to_f32(half, numel, x);
    }
}

/* What stands in `where` is the model of models_values in this dtype, and nothing else. */
static void check_model(const char *where, const cero_model_spec *spec, cero_dtype dtype)
{
    cero_model_spec read;
    cero_hf_import *import = NULL;
    cero_shards *shards = NULL;

    assert_ok(cero_model_spec_read(files_in(where, "config.json"), &read));
    assert_int_equal(read.stored_dtype, dtype);
    assert_int_equal(read.tie_word_embeddings, spec->tie_word_embeddings);
    assert_ok(cero_shards_open(where, &shards));
    assert_ok(cero_hf_import_open(where, &read, &import));
    const cero_hf_table *table = cero_hf_import_table(import);
    assert_int_equal(cero_shards_count(shards), table->param_count);
    for (int64_t i = 0; i < table->param_count; i++) {
        float found[4096];
        float wanted[4096];
        const char *name = table->entry[i].name;
        int64_t numel = cero_shape_numel(&table->entry[i].shape);
        const cero_shards_entry *e = cero_shards_find(shards, name);
        assert_non_null(e);
        assert_int_equal(e->tensor->dtype, cero_safetensors_dtype_of(dtype));
        assert_ok(models_values(NULL, name, 0, numel, wanted));
        round_as(dtype, numel, wanted);
        assert_ok(cero_hf_import_read(import, name, 0, numel, found));
        assert_memory_equal(found, wanted, (size_t)numel * sizeof(float));
    }
    cero_hf_import_close(&import);
    cero_shards_close(&shards);
}

static void test_every_dtype(void **state)
{
    (void)state;
    static const cero_dtype dtypes[] = {CERO_DTYPE_F32, CERO_DTYPE_BF16, CERO_DTYPE_F16};
    cero_model_spec specs[4] = {models_gpt2(), models_gpt2(), models_llama(), models_llama()};

    specs[1].tie_word_embeddings = false;
    specs[3].tie_word_embeddings = true;
    specs[3].attention_bias = true;
    for (size_t i = 0; i < CERO_COUNT_OF(specs) * CERO_COUNT_OF(dtypes); i++) {
        cero_hf_export_stats stats;
        const cero_model_spec *spec = &specs[i / 3];
        cero_hf_export_params params = {
            .spec = spec, .dtype = dtypes[i % 3], .source = models_values};
        assert_ok(cero_hf_export(dir, &params, &stats));
        assert_int_equal(stats.params, cero_model_spec_param_count(spec));
        assert_int_equal(stats.shards, 1);
        check_model(dir, spec, dtypes[i % 3]);
        assert_int_equal(cero_file_stat(files_in(dir, ".cero-export"), NULL), CERO_FILE_ABSENT);
        int64_t nbytes = 0;
        int64_t total = 0;
        static const char *const names[] = {"config.json", "generation_config.json",
                                            "model.safetensors"};
        for (size_t k = 0; k < CERO_COUNT_OF(names); k++) {
            (void)cero_file_stat(files_in(dir, names[k]), &nbytes);
            total += nbytes;
        }
        assert_int_equal(stats.nbytes, total);
    }
}

/* Sharded and single exports follow each other in one directory; no old weights stay. */
static void test_shards(void **state)
{
    (void)state;
    cero_model_spec g = models_gpt2();
    cero_hf_export_stats stats;
    cero_file_list list = {0};
    cero_hf_export_params params = {.spec = &g, .max_shard_bytes = 4096, .source = models_values};

    assert_ok(cero_hf_export(dir, &params, &stats));
    int64_t many = stats.shards;
    assert_true(many > 3);
    check_model(dir, &g, CERO_DTYPE_F32);
    assert_ok(cero_file_list_dir(dir, false, &list));
    assert_int_equal(list.count, many + 3);
    cero_file_list_cleanup(&list);

    params.max_shard_bytes = 0;
    files_write(files_in(dir, "notes.safetensors"), "mine", 4);
    assert_ok(cero_hf_export(dir, &params, &stats));
    check_model(dir, &g, CERO_DTYPE_F32);
    list = (cero_file_list){0};
    assert_ok(cero_file_list_dir(dir, false, &list));
    assert_int_equal(list.count, 4);
    cero_file_list_cleanup(&list);
    assert_int_equal(cero_file_stat(files_in(dir, "notes.safetensors"), NULL), CERO_FILE_REGULAR);

    params.max_shard_bytes = 9000;
    assert_ok(cero_hf_export(dir, &params, &stats));
    assert_true(stats.shards > 1 && stats.shards < many);
    check_model(dir, &g, CERO_DTYPE_F32);
    assert_int_equal(cero_file_stat(files_in(dir, "model.safetensors"), NULL), CERO_FILE_ABSENT);
}

static void test_tokenizer_files(void **state)
{
    (void)state;
    cero_model_spec g = models_gpt2();
    const char *from = files_in(dir, "tokenizer");
    const char *to = files_in(dir, "model");
    cero_hf_export_params params = {.spec = &g, .source = models_values, .tokenizer_dir = from};
    char *bytes;
    size_t n;

    assert_ok(cero_file_make_dir(from));
    assert_fails(cero_hf_export(to, &params, NULL), CERO_ERR_IO, "no file of a tokenizer");
    assert_int_equal(cero_file_stat(to, NULL), CERO_FILE_ABSENT);
    files_write(files_in(from, "tokenizer.json"), "{\"a\":\"\0b\"}", 10);
    files_write(files_in(from, "merges.txt"), "", 0);
    files_write(files_in(from, "other.txt"), "x", 1);
    assert_ok(cero_hf_export(to, &params, NULL));
    assert_ok(cero_file_read(files_in(to, "tokenizer.json"), 100, &bytes, &n));
    assert_int_equal(n, 10);
    assert_memory_equal(bytes, "{\"a\":\"\0b\"}", 10);
    cero_delete(bytes);
    assert_int_equal(cero_file_stat(files_in(to, "merges.txt"), NULL), CERO_FILE_REGULAR);
    assert_int_equal(cero_file_stat(files_in(to, "other.txt"), NULL), CERO_FILE_ABSENT);
    params.tokenizer_dir = to; // onto itself
    assert_ok(cero_hf_export(to, &params, NULL));
    assert_ok(cero_file_read(files_in(to, "tokenizer.json"), 100, &bytes, &n));
    assert_int_equal(n, 10);
    cero_delete(bytes);
}

static void test_generation_config(void **state)
{
    (void)state;
    cero_model_spec l = models_llama();
    cero_hf_export_params params = {.spec = &l, .source = models_values};
    char *bytes;
    size_t n;

    assert_ok(cero_hf_export(dir, &params, NULL));
    assert_ok(cero_file_read(files_in(dir, "generation_config.json"), 1000, &bytes, &n));
    assert_string_equal(bytes, "{\n  \"_from_model_config\": true,\n  \"bos_token_id\": 1,\n"
                               "  \"eos_token_id\": [2, 3]\n}\n");
    cero_delete(bytes);
    // One that came with the model is kept as it is, but is no tokenizer.
    const char *from = files_in(dir, "from");
    params.tokenizer_dir = from;
    assert_ok(cero_file_make_dir(from));
    files_write(files_in(from, "generation_config.json"), "{\"top_k\": 5}", 12);
    assert_fails(cero_hf_export(dir, &params, NULL), CERO_ERR_IO, "no file of a tokenizer");
    files_write(files_in(from, "tokenizer.json"), "{}", 2);
    files_write(files_in(from, "chat_template.jinja"), "{{ }}", 5);
    assert_ok(cero_hf_export(dir, &params, NULL));
    assert_ok(cero_file_read(files_in(dir, "generation_config.json"), 1000, &bytes, &n));
    assert_string_equal(bytes, "{\"top_k\": 5}");
    cero_delete(bytes);
    assert_int_equal(cero_file_stat(files_in(dir, "chat_template.jinja"), NULL), CERO_FILE_REGULAR);
}

/* Fields that change no arithmetic come through; those of the model, of its files, and unknown ones do not. */
static void test_carried_fields(void **state)
{
    static const char source[] =
        "{\"pad_token_id\": 5, \"task_specific_params\": {\"a\": [1.50, \"\\u00e9\", null]},\n"
        " \"use_cache\": false, \"_name_or_path\": \"x\", \"transformers_version\": \"4.1\",\n"
        " \"hidden_size\": 99, \"bos_token_id\": 99, \"of_tomorrow\": 1, \"do_sample\": true}";
    static const char wanted[] = ",\n  \"pad_token_id\": 5"
                                 ",\n  \"task_specific_params\": {\"a\":[1.50,\"\xC3\xA9\",null]}"
                                 ",\n  \"do_sample\": true\n}\n";
    cero_model_spec l = models_llama();
    char from[96];
    char *plain = NULL;
    char *carried = NULL;
    size_t n = 0;
    size_t longer = 0;
    cero_hf_export_params params = {.spec = &l, .source = models_values};

    (void)state;
    (void)snprintf(from, sizeof(from), "%s/source.json", dir);
    files_write(from, source, sizeof(source) - 1);
    assert_ok(cero_hf_export(dir, &params, NULL));
    assert_ok(cero_file_read(files_in(dir, "config.json"), 0, &plain, &n));
    params.config_from = from;
    assert_ok(cero_hf_export(dir, &params, NULL));
    assert_ok(cero_file_read(files_in(dir, "config.json"), 0, &carried, &longer));
    assert_memory_equal(carried, plain, n - 3);
    assert_string_equal(carried + n - 3, wanted);
    cero_delete(carried);
    check_model(dir, &l, CERO_DTYPE_F32);
    // A source that is gone, or is no JSON, costs its fields and not the model.
    for (int i = 0; i < 2; i++) {
        files_write(from, i == 0 ? "{" : "[1]", i == 0 ? 1 : 3);
        assert_ok(cero_hf_export(dir, &params, NULL));
        assert_ok(cero_file_read(files_in(dir, "config.json"), 0, &carried, &longer));
        assert_string_equal(carried, plain);
        cero_delete(carried);
    }
    assert_int_equal(unlink(from), 0);
    assert_ok(cero_hf_export(dir, &params, NULL));
    check_model(dir, &l, CERO_DTYPE_F32);
    cero_delete(plain);
}

/* A source with one value replaced. */
typedef struct spoilt {
    const char *name;
    int64_t at;
    float value;
} spoilt;

static cero_status spoilt_values(void *context, const char *name, int64_t begin, int64_t numel,
                                 float *out)
{
    const spoilt *s = context;

    CERO_TRY(models_values(NULL, name, begin, numel, out));
    if (strcmp(name, s->name) == 0 && s->at >= begin && s->at < begin + numel) {
        out[s->at - begin] = s->value;
    }
    return CERO_OK;
}

static cero_status failing_values(void *context, const char *name, int64_t begin, int64_t numel,
                                  float *out)
{
    if (strcmp(name, "transformer.h.1.ln_2.bias") == 0) {
        return CERO_FAIL(CERO_ERR_REMOTE, "the source gave up");
    }
    return models_values(context, name, begin, numel, out);
}

static void test_values_that_do_not_fit(void **state)
{
    (void)state;
    cero_model_spec g = models_gpt2();
    spoilt s = {.name = "transformer.h.1.mlp.c_fc.weight", .at = 77, .value = 65520.0F};
    const char *to = files_in(dir, "model");
    cero_hf_export_params params = {
        .spec = &g, .dtype = CERO_DTYPE_F16, .source = spoilt_values, .context = &s};

    assert_fails(cero_hf_export(to, &params, NULL), CERO_ERR_NUMERIC,
                 "tensor transformer.h.1.mlp.c_fc.weight has 1 values of 576");
    assert_non_null(strstr(cero_error_message(), "element 77"));
    assert_int_equal(cero_file_stat(to, NULL), CERO_FILE_ABSENT);
    s.value = 65519.0F;
    assert_ok(cero_hf_export(to, &params, NULL));
    s.value = 3.4e38F;
    params.dtype = CERO_DTYPE_BF16;
    assert_fails(cero_hf_export(to, &params, NULL), CERO_ERR_NUMERIC, "not finite as bf16");
    params.dtype = CERO_DTYPE_F32;
    assert_ok(cero_hf_export(to, &params, NULL));
    s.value = NAN;
    assert_fails(cero_hf_export(to, &params, NULL), CERO_ERR_NUMERIC, "not finite as f32");
    params.source = failing_values;
    assert_fails(cero_hf_export(to, &params, NULL), CERO_ERR_REMOTE, "the source gave up");
    params.dtype = CERO_DTYPE_F64;
    assert_fails(cero_hf_export(to, &params, NULL), CERO_ERR_INVALID, "not as f64");
}

/* A disk that loses a bit of this file, once it is there. */
typedef struct rot {
    const char *path;
    bool is_done;
} rot;

static cero_status rotting_values(void *context, const char *name, int64_t begin, int64_t numel,
                                  float *out)
{
    rot *r = context;

    if (!r->is_done && cero_file_stat(r->path, NULL) == CERO_FILE_REGULAR) {
        FILE *f = fopen(r->path, "r+b");
        assert_non_null(f);
        assert_int_equal(fseek(f, -1, SEEK_END), 0);
        int last = fgetc(f);
        assert_int_equal(fseek(f, -1, SEEK_END), 0);
        assert_int_equal(fputc(last ^ 1, f), last ^ 1);
        assert_int_equal(fclose(f), 0);
        r->is_done = true;
    }
    return models_values(NULL, name, begin, numel, out);
}

/* Pitfall 8: an export reads its own files before it lets go of what they replace. */
static void test_reads_back(void **state)
{
    (void)state;
    cero_model_spec g = models_gpt2();
    cero_hf_export_stats stats;
    char name[64];
    char path[160];
    rot r = {.path = path};
    cero_hf_export_params params = {.spec = &g, .max_shard_bytes = 9000, .source = models_values};

    assert_ok(cero_hf_export(dir, &params, &stats));
    assert_true(stats.shards > 1);
    (void)snprintf(path, sizeof(path), "%s/.cero-export/%s", dir,
                   cero_shards_name(0, stats.shards, name, sizeof(name)));
    params.source = rotting_values;
    params.context = &r;
    assert_fails(cero_hf_export(dir, &params, NULL), CERO_ERR_CORRUPT,
                 "reads back other than it was written");
    assert_true(r.is_done);
    check_model(dir, &g, CERO_DTYPE_F32);
    assert_ok(cero_hf_export(dir, &params, NULL));
}

/* Names and contents of all files of a directory as one hash. */
static uint64_t fingerprint(const char *where)
{
    cero_file_list list = {0};
    uint64_t hash = 17;

    assert_ok(cero_file_list_dir(where, true, &list));
    for (int64_t i = 0; i < list.count; i++) {
        char *bytes;
        size_t n;
        assert_ok(cero_file_read(list.path[i], 0, &bytes, &n));
        hash = hash * 31 + cero_rng_hash(list.path[i]);
        for (size_t k = 0; k < n; k++) {
            hash = (hash ^ (unsigned char)bytes[k]) * 0x100000001B3u;
        }
        cero_delete(bytes);
    }
    cero_file_list_cleanup(&list);
    return hash;
}

/* Every system call that fails, in turn: the directory is as it was, and then the export works. */
static void fail_every_call(const char *to, const cero_hf_export_params *params, const char *call)
{
    for (int n = 1;; n++) {
        char fault[64];
        bool was_there = cero_file_stat(to, NULL) == CERO_FILE_DIRECTORY;
        uint64_t before = was_there ? fingerprint(to) : 0;
        (void)snprintf(fault, sizeof(fault), "%s:%d:ENOSPC", call, n);
        setenv("CERO_FAULT", fault, 1);
        cero_status st = cero_hf_export(to, params, NULL);
        unsetenv("CERO_FAULT");
        if (st == CERO_OK) {
            assert_true(n > 1);
            return;
        }
        if (st != CERO_ERR_IO || strstr(cero_error_message(), "No space left") == NULL) {
            fail_msg("%s gave %s", fault, cero_error_string());
        }
        assert_int_equal(cero_file_stat(files_in(to, ".cero-export"), NULL), CERO_FILE_ABSENT);
        if (was_there) {
            assert_true(fingerprint(to) == before);
        } else {
            assert_int_equal(cero_file_stat(to, NULL), CERO_FILE_ABSENT);
        }
    }
}

static void test_every_failing_call(void **state)
{
    (void)state;
    static const char *const calls[] = {"mkdir", "open",   "write", "fsync",
                                        "close", "rename", "read",  "unlink"};
    cero_model_spec g = models_gpt2();
    cero_model_spec l = models_llama();

    for (size_t i = 0; i < CERO_COUNT_OF(calls); i++) {
        char to[128];
        (void)snprintf(to, sizeof(to), "%s/%s", dir, calls[i]);
        // First into nothing, then over a model in one file, then over the shards of that.
        cero_hf_export_params params = {.spec = &g, .source = models_values};
        fail_every_call(to, &params, calls[i]);
        params =
            (cero_hf_export_params){.spec = &l, .max_shard_bytes = 9000, .source = models_values};
        fail_every_call(to, &params, calls[i]);
        check_model(to, &l, CERO_DTYPE_F32);
        params.dtype = CERO_DTYPE_BF16;
        params.max_shard_bytes = 5000;
        fail_every_call(to, &params, calls[i]);
        check_model(to, &l, CERO_DTYPE_BF16);
    }
}

static void test_memory_faults(void **state)
{
    (void)state;
    cero_model_spec g = models_gpt2();
    const char *to = files_in(dir, "memory");
    cero_hf_export_params params = {.spec = &g, .max_shard_bytes = 8000, .source = models_values};

    assert_ok(cero_hf_export(to, &params, NULL));
    uint64_t before = fingerprint(to);
    params.dtype = CERO_DTYPE_BF16;
    for (uint64_t n = 1;; n++) {
        cero_mem_fail_at(n);
        cero_status st = cero_hf_export(to, &params, NULL);
        cero_mem_fail_at(0);
        if (st == CERO_OK) {
            assert_true(n > 100);
            break;
        }
        assert_true(fingerprint(to) == before);
    }
    check_model(to, &g, CERO_DTYPE_BF16);
}

/* What a killed export left is swept; what is not ours stops the export. */
static void test_leftovers(void **state)
{
    (void)state;
    cero_model_spec g = models_gpt2();
    const char *folder = files_in(dir, ".cero-export");
    const char *old = files_in(folder, "old");
    cero_hf_export_params params = {.spec = &g, .source = models_values};

    assert_ok(cero_file_make_dir(old));
    files_write(files_in(folder, "model.safetensors.tmp-1-2"), "x", 1);
    files_write(files_in(old, "config.json"), "x", 1);
    assert_ok(cero_hf_export(dir, &params, NULL));
    check_model(dir, &g, CERO_DTYPE_F32);
    assert_int_equal(symlink("/tmp", folder), 0);
    assert_fails(cero_hf_export(dir, &params, NULL), CERO_ERR_IO, "is in the way");
    assert_int_equal(unlink(folder), 0);
    assert_int_equal(unlink(files_in(dir, "config.json")), 0);
    assert_ok(cero_file_make_dir(files_in(dir, "config.json")));
    assert_fails(cero_hf_export(dir, &params, NULL), CERO_ERR_IO, "config.json is a directory");
    files_write(files_in(dir, "plain"), "x", 1);
    assert_fails(cero_hf_export(files_in(dir, "plain"), &params, NULL), CERO_ERR_IO, "plain");
}

/* A file system of 200 KiB: refused before a byte is written, with both numbers. */
static void test_small_file_system(void **state)
{
    (void)state;
    cero_model_spec g = models_gpt2();
    const char *to = files_in(dir, "small");
    cero_hf_export_params params = {.spec = &g, .source = models_values};

    assert_ok(cero_file_make_dir(to));
    if (mount("cero-test", to, "tmpfs", 0, "size=200k") != 0) {
        print_message("skipped: no right to mount a small file system\n");
        skip();
    }
    cero_status fits = cero_hf_export(to, &params, NULL);
    uint64_t before = fits == CERO_OK ? fingerprint(to) : 0;
    g.vocab_size = 5000;
    cero_status full = cero_hf_export(to, &params, NULL);
    const char *message = cero_error_message();
    bool names_both = strstr(message, "bytes (") != NULL && strstr(message, "free there") != NULL;
    uint64_t after = fingerprint(to);
    assert_int_equal(umount(to), 0);
    assert_int_equal(fits, CERO_OK);
    assert_int_equal(full, CERO_ERR_IO);
    assert_true(names_both);
    assert_true(before == after);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_every_dtype, setup, teardown),
        cmocka_unit_test_setup_teardown(test_shards, setup, teardown),
        cmocka_unit_test_setup_teardown(test_tokenizer_files, setup, teardown),
        cmocka_unit_test_setup_teardown(test_generation_config, setup, teardown),
        cmocka_unit_test_setup_teardown(test_carried_fields, setup, teardown),
        cmocka_unit_test_setup_teardown(test_values_that_do_not_fit, setup, teardown),
        cmocka_unit_test_setup_teardown(test_reads_back, setup, teardown),
        cmocka_unit_test_setup_teardown(test_every_failing_call, setup, teardown),
        cmocka_unit_test_setup_teardown(test_memory_faults, setup, teardown),
        cmocka_unit_test_setup_teardown(test_leftovers, setup, teardown),
        cmocka_unit_test_setup_teardown(test_small_file_system, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
