/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a run leaves is a Hugging Face model: exactly its names and shapes, the bits of the masters, and the same
 * bits when it comes back in. Frozen weights keep theirs.
 */
#include "train/run_fixture.h"

#include <math.h>

typedef struct tensor {
    const char *name;
    const char *shape;
} tensor;

/* What save_pretrained writes for each of the layers of G1. */
static const tensor g1_layer[] = {
    {"transformer.h.%d.ln_1.weight", "[64]"},
    {"transformer.h.%d.ln_1.bias", "[64]"},
    {"transformer.h.%d.attn.c_attn.weight", "[64, 192]"},
    {"transformer.h.%d.attn.c_attn.bias", "[192]"},
    {"transformer.h.%d.attn.c_proj.weight", "[64, 64]"},
    {"transformer.h.%d.attn.c_proj.bias", "[64]"},
    {"transformer.h.%d.ln_2.weight", "[64]"},
    {"transformer.h.%d.ln_2.bias", "[64]"},
    {"transformer.h.%d.mlp.c_fc.weight", "[64, 256]"},
    {"transformer.h.%d.mlp.c_fc.bias", "[256]"},
    {"transformer.h.%d.mlp.c_proj.weight", "[256, 64]"},
    {"transformer.h.%d.mlp.c_proj.bias", "[64]"},
    {NULL, NULL},
};
static const tensor g1_rest[] = {
    {"transformer.wte.weight", "[256, 64]"},
    {"transformer.wpe.weight", "[32, 64]"},
    {"transformer.ln_f.weight", "[64]"},
    {"transformer.ln_f.bias", "[64]"},
    {NULL, NULL},
};
static const tensor l1_layer[] = {
    {"model.layers.%d.input_layernorm.weight", "[64]"},
    {"model.layers.%d.self_attn.q_proj.weight", "[64, 64]"},
    {"model.layers.%d.self_attn.k_proj.weight", "[32, 64]"},
    {"model.layers.%d.self_attn.v_proj.weight", "[32, 64]"},
    {"model.layers.%d.self_attn.o_proj.weight", "[64, 64]"},
    {"model.layers.%d.post_attention_layernorm.weight", "[64]"},
    {"model.layers.%d.mlp.gate_proj.weight", "[172, 64]"},
    {"model.layers.%d.mlp.up_proj.weight", "[172, 64]"},
    {"model.layers.%d.mlp.down_proj.weight", "[64, 172]"},
    {NULL, NULL},
};
static const tensor l1_rest[] = {
    {"model.embed_tokens.weight", "[259, 64]"},
    {"model.norm.weight", "[64]"},
    {"lm_head.weight", "[259, 64]"},
    {NULL, NULL},
};

/* A scalar rounding to nearest even of its own. */
static uint16_t to_bf16(float x)
{
    uint32_t bits;

    memcpy(&bits, &x, sizeof(bits));
    uint32_t low = bits & 0xffff;
    uint32_t high = bits >> 16;
    return (uint16_t)(high + (low > 0x8000 || (low == 0x8000 && (high & 1) != 0) ? 1 : 0));
}

/* One tensor of the file against the engine's weight; returns its elements. */
static int64_t check_tensor(run *r, const archive *a, const char *name, const char *dtype,
                            const char *shape)
{
    cero_engine *engine = cero_trainer_engine(r->trainer);
    size_t nbytes = 0;
    const char *data = archive_tensor(a, name, dtype, shape, &nbytes);
    int64_t i = cero_engine_find_param(engine, name);
    bool is_bf16 = strcmp(dtype, "BF16") == 0;

    assert_true(i >= 0);
    cero_param_info info = cero_engine_param_info(engine, i);
    int64_t n = cero_shape_numel(&info.shape);
    assert_int_equal(nbytes, (size_t)n * (is_bf16 ? 2 : 4));
    float *values = cero_new((size_t)n, sizeof(float));
    assert_non_null(values);
    assert_ok(cero_engine_get_param(engine, i, 0, n, values));
    for (int64_t k = 0; is_bf16 && k < n; k++) {
        uint16_t found;
        memcpy(&found, data + 2 * k, 2);
        assert_int_equal(found, to_bf16(values[k]));
    }
    if (!is_bf16) {
        assert_memory_equal(data, values, nbytes);
    }
    cero_delete(values);
    return n;
}

static void check_file(run *r, const char *path, const char *dtype, const tensor *layer,
                       const tensor *rest)
{
    archive a;
    int64_t count = 0;
    int64_t numel = 0;

    archive_open(path, &a);
    for (int l = 0; l < 2; l++) {
        for (const tensor *t = layer; t->name != NULL; t++) {
            char name[96];
            const char *d = strchr(t->name, '%');
            (void)snprintf(name, sizeof(name), "%.*s%d%s", (int)(d - t->name), t->name, l, d + 2);
            numel += check_tensor(r, &a, name, dtype, t->shape);
            count++;
        }
    }
    for (const tensor *t = rest; t->name != NULL; t++) {
        numel += check_tensor(r, &a, t->name, dtype, t->shape);
        count++;
    }
    assert_int_equal(archive_count(&a), count); // and nothing else
    assert_int_equal(archive_data_bytes(&a), numel * (strcmp(dtype, "BF16") == 0 ? 2 : 4));
    assert_int_equal(numel, cero_engine_get_plan(cero_trainer_engine(r->trainer))->param_count);
    archive_close(&a);
}

/* All weights after import are those of the engine that exported. */
static void check_import(run *r, const char *dir, const run_params *p)
{
    run again = *r;
    int64_t count[2];

    again.data = NULL;
    again.eval_data = NULL;
    assert_ok(run_create(&again, p));
    float *before = case_weights(cero_trainer_engine(r->trainer), &count[0]);
    assert_ok(cero_trainer_import(again.trainer, dir));
    float *after = case_weights(cero_trainer_engine(again.trainer), &count[1]);
    assert_int_equal(count[0], count[1]);
    assert_memory_equal(before, after, (size_t)count[0] * sizeof(float));
    // Exported once more, the file is the same.
    assert_ok(cero_trainer_export(again.trainer, files_in(r->dir, "again"), CERO_DTYPE_F32, NULL));
    char *bytes[2];
    size_t length[2];
    assert_ok(cero_file_read(files_in(dir, "model.safetensors"), 0, &bytes[0], &length[0]));
    assert_ok(
        cero_file_read(files_in(r->dir, "again/model.safetensors"), 0, &bytes[1], &length[1]));
    assert_int_equal(length[0], length[1]);
    assert_memory_equal(bytes[0], bytes[1], length[0]);
    cero_delete(bytes[0]);
    cero_delete(bytes[1]);
    cero_delete(before);
    cero_delete(after);
    run_close(&again);
}

/* PM-06, CK-08, SF-09, SF-12, SF-15: a tied GPT-2 and an untied Llama, from fp32 and from bf16 training. */
static void check_export(cero_model_spec spec, const char *dtype, const tensor *layer,
                         const tensor *rest)
{
    run r;
    run_params p = {.sets = (const char *const[]){dtype, NULL}, .seq_len = 16, .steps = 3};
    cero_model_spec read;

    run_prepare(&r, spec);
    write_counting(files_in(r.dir, "train.u16"), 600);
    assert_ok(run_create(&r, &p));
    assert_ok(cero_trainer_run(r.trainer, NULL));
    assert_ok(cero_trainer_export(r.trainer, files_in(r.dir, "f32"), CERO_DTYPE_F32, NULL));
    assert_ok(cero_trainer_export(r.trainer, files_in(r.dir, "bf16"), CERO_DTYPE_BF16, NULL));
    check_file(&r, files_in(r.dir, "f32/model.safetensors"), "F32", layer, rest);
    check_file(&r, files_in(r.dir, "bf16/model.safetensors"), "BF16", layer, rest);
    assert_ok(cero_model_spec_read(files_in(r.dir, "bf16/config.json"), &read));
    assert_int_equal(read.stored_dtype, CERO_DTYPE_BF16);
    assert_ok(cero_model_spec_read(files_in(r.dir, "f32/config.json"), &read));
    assert_int_equal(read.stored_dtype, CERO_DTYPE_F32);
    assert_int_equal(cero_model_spec_param_count(&read), cero_model_spec_param_count(&spec));
    check_import(&r, files_in(r.dir, "f32"), &p);
    run_close(&r);
    run_remove(&r);
}

static void test_export(void **state)
{
    CERO_UNUSED(state);
    check_export(case_g1(), "bf16.enabled=false", g1_layer, g1_rest);
    check_export(case_g1(), "bf16.enabled=true", g1_layer, g1_rest);
    check_export(case_l1(), "bf16.enabled=true", l1_layer, l1_rest);
}

/* PM-06, CK-08: the exact numbers of G1. SF-15: G2 has 257 rows. */
static void test_sizes(void **state)
{
    run r;
    run_params p = {.seq_len = 8, .steps = 1};
    archive a;
    size_t nbytes;

    CERO_UNUSED(state);
    run_prepare(&r, case_g1());
    write_counting(files_in(r.dir, "train.u16"), 100);
    assert_ok(run_create(&r, &p));
    assert_ok(cero_trainer_export(r.trainer, files_in(r.dir, "g1"), CERO_DTYPE_F32, NULL));
    archive_open(files_in(r.dir, "g1/model.safetensors"), &a);
    assert_int_equal(archive_data_bytes(&a), 474112);
    archive_close(&a);
    run_close(&r);
    r.model = case_g2();
    assert_ok(run_create(&r, &p));
    assert_int_equal(cero_engine_get_plan(cero_trainer_engine(r.trainer))->param_count, 11277);
    assert_ok(cero_trainer_export(r.trainer, files_in(r.dir, "g2"), CERO_DTYPE_F32, NULL));
    archive_open(files_in(r.dir, "g2/model.safetensors"), &a);
    assert_int_equal(archive_data_bytes(&a), 11277 * 4);
    (void)archive_tensor(&a, "transformer.wte.weight", "F32", "[257, 21]", &nbytes);
    archive_close(&a);
    run_close(&r);
    run_remove(&r);
}

/* PM-08: ten updates leave a frozen table as it was; it is exported, and has no moments. */
static void test_frozen(void **state)
{
    static const char *const dtypes[] = {"bf16.enabled=false", "bf16.enabled=true"};
    static float before[256 * 64];
    static float after[256 * 64];

    CERO_UNUSED(state);
    for (int d = 0; d < 2; d++) {
        run r;
        run_params p = {
            .sets = (const char *const[]){"cero.frozen=[\"*.wte.weight\"]", dtypes[d], NULL},
            .seq_len = 16,
            .steps = 10};
        run_prepare(&r, case_g1());
        write_counting(files_in(r.dir, "train.u16"), 600);
        assert_ok(run_create(&r, &p));
        cero_engine *engine = cero_trainer_engine(r.trainer);
        int64_t wte = cero_engine_find_param(engine, "transformer.wte.weight");
        assert_true(cero_engine_param_info(engine, wte).is_frozen);
        assert_int_equal(cero_engine_get_plan(engine)->trained_count, 102144);
        assert_ok(cero_engine_get_param(engine, wte, 0, 256 * 64, before));
        assert_ok(cero_trainer_run(r.trainer, NULL));
        assert_ok(cero_engine_get_param(engine, wte, 0, 256 * 64, after));
        assert_memory_equal(before, after, sizeof(before));
        assert_ok(cero_trainer_export(r.trainer, files_in(r.dir, "model"), CERO_DTYPE_F32, NULL));
        check_file(&r, files_in(r.dir, "model/model.safetensors"), "F32", g1_layer, g1_rest);
        run_close(&r);
        run_remove(&r);
    }
}

/* LS-08: weights that are no numbers are refused with tensor and count. */
static void test_nan_in_weights(void **state)
{
    run r;
    run_params p = {.seq_len = 16, .steps = 1};
    archive a;
    size_t nbytes;
    const float bad = NAN;

    CERO_UNUSED(state);
    run_prepare(&r, case_g1());
    write_counting(files_in(r.dir, "train.u16"), 100);
    assert_ok(run_create(&r, &p));
    assert_ok(cero_trainer_export(r.trainer, files_in(r.dir, "model"), CERO_DTYPE_F32, NULL));
    const char *path = files_in(r.dir, "model/model.safetensors");
    archive_open(path, &a);
    const char *data =
        archive_tensor(&a, "transformer.h.0.mlp.c_fc.weight", "F32", "[64, 256]", &nbytes);
    memcpy(a.bytes + (data - a.bytes) + 4 * 777, &bad, sizeof(bad));
    files_write(path, a.bytes, a.length);
    archive_close(&a);
    assert_fails(cero_trainer_import(r.trainer, files_in(r.dir, "model")), CERO_ERR_NUMERIC,
                 "h.0.mlp.c_fc.weight");
    assert_non_null(strstr(cero_error_message(), "1 "));
    run_close(&r);
    run_remove(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_export),
        cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_frozen),
        cmocka_unit_test(test_nan_in_weights),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
