/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Import is a closed table: each file that save_pretrained or its predecessors wrote gives the same
 * values, and every other file is refused by the name of the tensor, before data is read where that is
 * possible (SF-01, SF-10, LS-08).
 */
#include "unit/ckpt/models.h"

#include "base/log.h"

static char dir[64];
static char log_lines[8192];

static void keep_line(void *context, cero_log_level level, const char *line)
{
    (void)context;
    (void)level;
    size_t used = strlen(log_lines);
    (void)snprintf(log_lines + used, sizeof(log_lines) - used, "%s\n", line);
}

static int make_dir(void **state)
{
    (void)state;
    files_make_dir(dir, sizeof(dir));
    cero_log_init();
    cero_log_set_level(CERO_LOG_INFO);
    cero_log_set_sink(keep_line, NULL);
    return 0;
}

static int remove_dir(void **state)
{
    (void)state;
    files_remove(dir);
    return 0;
}

/* All parameters, whole and in parts, have the values of models_values. */
static void check_values(cero_hf_import *import)
{
    const cero_hf_table *table = cero_hf_import_table(import);

    for (int64_t i = 0; i < table->param_count; i++) {
        float found[2048];
        float wanted[2048];
        const char *name = table->entry[i].name;
        int64_t numel = cero_shape_numel(&table->entry[i].shape);
        assert_in_range(numel, 1, 2048);
        assert_ok(models_values(NULL, name, 0, numel, wanted));
        assert_ok(cero_hf_import_read(import, name, 0, numel, found));
        assert_memory_equal(found, wanted, (size_t)numel * sizeof(float));
        assert_ok(cero_hf_import_read(import, name, numel / 3, numel / 2, found));
        assert_memory_equal(found, wanted + numel / 3, (size_t)(numel / 2) * sizeof(float));
        assert_ok(cero_hf_import_read(import, name, numel, 0, found));
    }
}

static void accepts(const cero_model_spec *spec, const models_twist *twist)
{
    cero_hf_import *import = NULL;

    log_lines[0] = '\0';
    models_write(dir, spec, twist);
    assert_ok(cero_hf_import_open(dir, spec, &import));
    check_values(import);
    cero_hf_import_close(&import);
}

static void refuses(const cero_model_spec *spec, const models_twist *twist, cero_status status,
                    const char *message)
{
    cero_hf_import *import = NULL;

    models_write(dir, spec, twist);
    assert_fails(cero_hf_import_open(dir, spec, &import), status, message);
    assert_null(import);
}

static void test_table_counts(void **state)
{
    (void)state;
    cero_model_spec specs[8];
    int n = 0;

    specs[n++] = models_gpt2();
    specs[n] = models_gpt2();
    specs[n++].tie_word_embeddings = false;
    specs[n++] = models_llama();
    specs[n] = models_llama();
    specs[n++].tie_word_embeddings = true;
    specs[n] = models_llama();
    specs[n++].attention_bias = true;
    specs[n] = models_llama();
    specs[n++].mlp_bias = true;
    for (int i = 0; i < n; i++) {
        cero_hf_table table;
        int64_t total = 0;
        assert_ok(cero_hf_table_init(&specs[i], &table));
        for (int64_t k = 0; k < table.count; k++) {
            const cero_hf_entry *e = &table.entry[k];
            assert_true((k < table.param_count) == (e->role == CERO_HF_PARAM));
            assert_ptr_equal(cero_hf_table_find(&table, e->name), e);
            total += e->role == CERO_HF_PARAM ? cero_shape_numel(&e->shape) : 0;
        }
        assert_int_equal(total, cero_model_spec_param_count(&specs[i]));
        assert_null(cero_hf_table_find(&table, "wte.weight"));
        cero_hf_table_cleanup(&table);
    }
}

/* The names of save_pretrained, spelt out once. */
static void test_names(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        int64_t rows;
        int64_t columns;
    } gpt2[] =
        {
            {"transformer.wte.weight", 17, 12},
            {"transformer.wpe.weight", 9, 12},
            {"transformer.h.1.attn.c_attn.weight", 12, 36},
            {"transformer.h.1.mlp.c_fc.weight", 12, 48},
            {"transformer.h.0.mlp.c_proj.weight", 48, 12},
            {"transformer.h.0.mlp.c_proj.bias", 12, 0},
            {"transformer.ln_f.bias", 12, 0},
        },
      llama[] = {
          {"model.embed_tokens.weight", 19, 12},
          {"model.layers.1.self_attn.q_proj.weight", 24, 12},
          {"model.layers.1.self_attn.k_proj.weight", 12, 12},
          {"model.layers.0.self_attn.o_proj.weight", 12, 24},
          {"model.layers.0.mlp.down_proj.weight", 12, 20},
          {"model.layers.0.post_attention_layernorm.weight", 12, 0},
          {"model.norm.weight", 12, 0},
          {"lm_head.weight", 19, 12},
      };
    cero_model_spec g = models_gpt2();
    cero_model_spec l = models_llama();
    cero_hf_table table;

    assert_ok(cero_hf_table_init(&g, &table));
    for (size_t i = 0; i < CERO_COUNT_OF(gpt2); i++) {
        const cero_hf_entry *e = cero_hf_table_find(&table, gpt2[i].name);
        assert_non_null(e);
        assert_int_equal(e->shape.dim[0], gpt2[i].rows);
        assert_int_equal(e->shape.ndim == 2 ? e->shape.dim[1] : 0, gpt2[i].columns);
    }
    cero_hf_table_cleanup(&table);
    assert_ok(cero_hf_table_init(&l, &table));
    for (size_t i = 0; i < CERO_COUNT_OF(llama); i++) {
        const cero_hf_entry *e = cero_hf_table_find(&table, llama[i].name);
        assert_non_null(e);
        assert_int_equal(e->shape.dim[0], llama[i].rows);
        assert_int_equal(e->shape.ndim == 2 ? e->shape.dim[1] : 0, llama[i].columns);
    }
    cero_hf_table_cleanup(&table);
}

/* SF-10 */
static void test_accepted_variants(void **state)
{
    (void)state;
    cero_model_spec g = models_gpt2();
    cero_model_spec l = models_llama();
    cero_model_spec tied = models_llama();

    accepts(&g, &(models_twist){0});
    accepts(&g, &(models_twist){.no_prefix = true});
    accepts(&g, &(models_twist){.buffers = true});
    assert_non_null(strstr(log_lines, "ignored the buffer \"transformer.h.1.attn.masked_bias\""));
    accepts(&g, &(models_twist){.no_prefix = true, .buffers = true, .head = 1});
    assert_non_null(strstr(log_lines, "ignored the buffer \"h.0.attn.bias\""));
    accepts(&l, &(models_twist){0});
    accepts(&l, &(models_twist){.buffers = true, .no_prefix = true});
    tied.tie_word_embeddings = true;
    accepts(&tied, &(models_twist){0});
    accepts(&tied, &(models_twist){.head = 1});
    tied.attention_bias = true;
    tied.mlp_bias = true;
    accepts(&tied, &(models_twist){0});
    g.tie_word_embeddings = false;
    accepts(&g, &(models_twist){0});
}

/* SF-01 */
static void test_tied_head_that_differs(void **state)
{
    (void)state;
    float x[17 * 12];
    cero_model_spec g = models_gpt2();
    cero_hf_import *import = NULL;

    accepts(&g, &(models_twist){.head = 1});
    assert_non_null(strstr(log_lines, "\"lm_head.weight\" is tied"));
    models_write(dir, &g, &(models_twist){.head = 2});
    assert_ok(cero_hf_import_open(dir, &g, &import));
    assert_ok(cero_hf_import_read(import, "transformer.wte.weight", 0, 20, x));
    assert_ok(cero_hf_import_read(import, "transformer.wte.weight", 21, 17 * 12 - 21, x));
    assert_fails(cero_hf_import_read(import, "transformer.wte.weight", 0, 17 * 12, x),
                 CERO_ERR_CORRUPT, "ties tensor \"lm_head.weight\" to \"transformer.wte.weight\"");
    assert_non_null(strstr(cero_error_message(), "element 20"));
    cero_hf_import_close(&import);
}

static void test_refused_files(void **state)
{
    (void)state;
    cero_model_spec g = models_gpt2();
    cero_model_spec l = models_llama();

    refuses(&g, &(models_twist){.skip = "transformer.h.1.ln_2.bias"}, CERO_ERR_CORRUPT,
            "1 of 28 tensors are missing: transformer.h.1.ln_2.bias");
    refuses(&l, &(models_twist){.skip = "lm_head.weight"}, CERO_ERR_CORRUPT,
            "missing: lm_head.weight");
    refuses(&g, &(models_twist){.rename = "transformer.h.1.ln_2.bias", .name = "h.1.ln_3.bias"},
            CERO_ERR_CORRUPT, "tensor \"h.1.ln_3.bias\" is no part of the model");
    refuses(
        &g,
        &(models_twist){.rename = "transformer.h.1.ln_2.bias", .name = "transformer.h.1.ln_2.bais"},
        CERO_ERR_CORRUPT, "the nearest name is transformer.h.1.ln_2.bias");
    refuses(&g, &(models_twist){.both_names = true}, CERO_ERR_CORRUPT,
            "\"transformer.wte.weight\" and \"wte.weight\" are two names");
    refuses(&g, &(models_twist){.reshape = "transformer.h.0.attn.c_proj.weight"}, CERO_ERR_SHAPE,
            "has the shape [144], config.json asks for [12, 12]");
    refuses(&l, &(models_twist){.not_real = "model.norm.weight"}, CERO_ERR_UNSUPPORTED,
            "\"model.norm.weight\" is stored as I32");
}

/* A model with more layers, other widths: nothing of its data is read. */
static void test_other_models(void **state)
{
    (void)state;
    cero_model_spec g = models_gpt2();
    cero_model_spec other = g;
    cero_model_spec l = models_llama();
    cero_hf_import *import = NULL;

    models_write(dir, &g, &(models_twist){0});
    other.layers = 1;
    assert_fails(cero_hf_import_open(dir, &other, &import), CERO_ERR_CORRUPT, "12 such tensors");
    other.layers = 3;
    assert_fails(cero_hf_import_open(dir, &other, &import), CERO_ERR_CORRUPT,
                 "12 of 40 tensors are missing: transformer.h.2.ln_1.weight");
    other = g;
    other.inner = 24;
    assert_fails(cero_hf_import_open(dir, &other, &import), CERO_ERR_SHAPE,
                 "\"transformer.h.0.mlp.c_fc.weight\" has the shape [12, 48], config.json asks for "
                 "[12, 24]");
    assert_fails(cero_hf_import_open(dir, &l, &import), CERO_ERR_CORRUPT, "no part of the model");
}

/* LS-08 */
static void test_values_that_are_not_finite(void **state)
{
    (void)state;
    float x[12 * 48];
    cero_model_spec g = models_gpt2();
    cero_hf_import *import = NULL;

    models_write(dir, &g, &(models_twist){.bad = "transformer.h.0.mlp.c_fc.weight"});
    assert_ok(cero_hf_import_open(dir, &g, &import));
    assert_ok(cero_hf_import_read(import, "transformer.h.0.mlp.c_fc.weight", 8, 500, x));
    assert_fails(cero_hf_import_read(import, "transformer.h.0.mlp.c_fc.weight", 4, 100, x),
                 CERO_ERR_NUMERIC,
                 "\"transformer.h.0.mlp.c_fc.weight\" has 3 values of 576 that are not finite");
    assert_non_null(strstr(cero_error_message(), "the first is element 2;"));
    assert_fails(cero_hf_import_read(import, "wte.weight", 0, 1, x), CERO_ERR_INVALID,
                 "not a parameter");
    assert_fails(cero_hf_import_read(import, "transformer.ln_f.bias", 0, 13, x), CERO_ERR_INVALID,
                 "13 from 0 on asked");
    cero_hf_import_close(&import);
}

/* A rank that keeps a tenth reads a tenth. */
static void test_reads_only_what_is_asked(void **state)
{
    (void)state;
    float x[20];
    cero_model_spec g = models_gpt2();
    cero_hf_import *import = NULL;

    models_write(dir, &g, &(models_twist){0});
    assert_ok(cero_hf_import_open(dir, &g, &import));
    int64_t before = cero_hf_import_bytes_read(import);
    assert_ok(cero_hf_import_read(import, "transformer.wte.weight", 100, 20, x));
    assert_int_equal(cero_hf_import_bytes_read(import) - before, 80);
    cero_hf_import_close(&import);
}

static void test_foreign_directories(void **state)
{
    (void)state;
    cero_model_spec g = models_gpt2();
    cero_hf_import *import = NULL;
    const char *empty = files_in(dir, "empty");

    assert_ok(cero_file_make_dir(empty));
    assert_fails(cero_hf_import_open(empty, &g, &import), CERO_ERR_IO,
                 "neither model.safetensors nor");
    files_write(files_in(empty, "pytorch_model.bin"), "x", 1);
    assert_fails(cero_hf_import_open(empty, &g, &import), CERO_ERR_UNSUPPORTED,
                 "safe_serialization=True");
    assert_fails(cero_hf_import_open(files_in(dir, "nowhere"), &g, &import), CERO_ERR_IO,
                 "nowhere");
}

static void test_memory_faults(void **state)
{
    (void)state;
    cero_model_spec g = models_gpt2();
    cero_hf_import *import = NULL;

    models_write(dir, &g, &(models_twist){.head = 1});
    for (uint64_t n = 1;; n++) {
        cero_mem_fail_at(n);
        cero_status st = cero_hf_import_open(dir, &g, &import);
        cero_mem_fail_at(0);
        if (st == CERO_OK) {
            assert_true(n > 10);
            break;
        }
        assert_null(import);
    }
    cero_hf_import_close(&import);
}

/* The reference models, as PyTorch wrote them. */
static void import_reference(const char *model)
{
    char config[512];
    char name[128];
    cero_model_spec spec;
    cero_hf_import *import = NULL;
    int64_t total = 0;

    (void)snprintf(name, sizeof(name), "reference/%s/config.json", model);
    (void)shared_path(name, config, sizeof(config));
    assert_ok(cero_model_spec_read(config, &spec));
    *strrchr(config, '/') = '\0';
    assert_ok(cero_hf_import_open(config, &spec, &import));
    const cero_hf_table *table = cero_hf_import_table(import);
    for (int64_t i = 0; i < table->param_count; i++) {
        int64_t numel = cero_shape_numel(&table->entry[i].shape);
        float *x = cero_new((size_t)numel, sizeof(float));
        assert_ok(cero_hf_import_read(import, table->entry[i].name, 0, numel, x));
        total += numel;
        cero_delete(x);
    }
    assert_int_equal(total, cero_model_spec_param_count(&spec));
    cero_hf_import_close(&import);
}

static void test_reference_gpt2(void **state)
{
    (void)state;
    import_reference("gpt2-tiny");
}

static void test_reference_llama(void **state)
{
    (void)state;
    import_reference("llama-tiny");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_table_counts),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_accepted_variants),
        cmocka_unit_test(test_tied_head_that_differs),
        cmocka_unit_test(test_refused_files),
        cmocka_unit_test(test_other_models),
        cmocka_unit_test(test_values_that_are_not_finite),
        cmocka_unit_test(test_reads_only_what_is_asked),
        cmocka_unit_test(test_foreign_directories),
        cmocka_unit_test(test_memory_faults),
        cmocka_unit_test(test_reference_gpt2),
        cmocka_unit_test(test_reference_llama),
    };
    return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
