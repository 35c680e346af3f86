/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Closed tables: a grid of tiny models that differ in one field of config.json each. The field is used (the logits
 * are those of the reference, and others than the base model's), is about training or bookkeeping (the logits are
 * the base model's, bit for bit), or is refused by name. Every field that is known has its row. An exported model
 * gives the same logits as the one that came in. SF-12, SF-14.
 */
#include "cases.h"
#include "unit/ckpt/hf_logits.h"
#include "unit/ckpt/hf_reference.h"
#include "unit/ckpt/models.h"

#include "base/log.h"
#include "spec/model_fields.h"

#define TOLERANCE 1e-5 /* of the largest logit */
#define VISIBLE   1e-4 /* what a used field must change at least */

typedef enum verdict {
    USED = 0,   /* changes logits */
    SHAPES = 1, /* changes shapes as well */
    SAME = 2,   /* read, and changes no logits */
    REFUSED = 3
} verdict;

/* The base model with `key` set to `json`; for the reference, with the field at `at` set to `value`. */
typedef struct row {
    const char *key;
    const char *json;
    verdict verdict;
    size_t at; /* 0 with USED and SHAPES: see `change` */
    double value;
    void (*change)(reference_model *m);
    const char *without; /* fields of the base model that are left out besides, ",a,b," */
} row;

typedef struct member {
    const char *key;
    const char *json;
} member;

/* Both base models have T = 9 positions and more, and weights that make logits differ. */
static const member gpt2_base[] = {
    {"model_type", "\"gpt2\""}, {"vocab_size", "29"}, {"n_positions", "12"}, {"n_embd", "24"},
    {"n_layer", "2"},           {"n_head", "4"},      {NULL, NULL},
};
static const reference_model gpt2_reference = {
    .V = 29,
    .C = 12,
    .H = 24,
    .L = 2,
    .A = 4,
    .K = 4,
    .D = 6,
    .I = 96,
    .eps = 1e-5,
    .is_tied = 1,
    .scale_weights = 1,
};
static const member llama_base[] = {
    {"model_type", "\"llama\""},  {"vocab_size", "29"},         {"max_position_embeddings", "64"},
    {"hidden_size", "32"},        {"intermediate_size", "44"},  {"num_hidden_layers", "2"},
    {"num_attention_heads", "4"}, {"num_key_value_heads", "2"}, {NULL, NULL},
};
static const reference_model llama_reference = {
    .is_llama = 1,
    .V = 29,
    .C = 64,
    .H = 32,
    .L = 2,
    .A = 4,
    .K = 2,
    .D = 8,
    .I = 44,
    .activation = REFERENCE_SILU,
    .eps = 1e-6,
    .scale_weights = 1,
    .theta = 10000,
};

static void gpt2_two_heads(reference_model *m)
{
    m->A = m->K = 2;
    m->D = 12;
}

static void gpt2_wider(reference_model *m)
{
    m->H = 32;
    m->D = 8;
    m->I = 128;
}

static void llama_wider(reference_model *m)
{
    m->H = 48;
    m->D = 12;
}

static void llama_eight_heads(reference_model *m)
{
    m->A = 8;
    m->D = 4;
}

static void rope_linear(reference_model *m)
{
    m->rope = REFERENCE_ROPE_LINEAR;
    m->factor = 2.5;
}

/* Wavelengths of theta 10000 and D = 8: 6.3, 63, 628, 6283; the limits 16 and 640 lie between them. */
static void rope_llama3(reference_model *m)
{
    m->rope = REFERENCE_ROPE_LLAMA3;
    m->factor = 8;
    m->low = 0.1;
    m->high = 4;
    m->original = 64;
}

static void rope_new_default(reference_model *m)
{
    m->theta = 500;
}

#define AT(member) offsetof(reference_model, member)
#define COMMON_ROWS                                                                         \
    {.key = "vocab_size", .json = "31", .verdict = SHAPES, .at = AT(V), .value = 31},       \
        {.key = "initializer_range", .json = "0.5", .verdict = SAME},                       \
        {.key = "bos_token_id", .json = "3", .verdict = SAME},                              \
        {.key = "eos_token_id", .json = "[4, 5]", .verdict = SAME},                         \
        {.key = "torch_dtype", .json = "\"bfloat16\"", .verdict = SAME},                    \
        {.key = "dtype", .json = "\"torch.float16\"", .verdict = SAME},                     \
        {.key = "torch_dtype", .json = "\"int8\"", .verdict = REFUSED},                     \
        {.key = "dtype", .json = "\"float64\"", .verdict = REFUSED},                        \
        {.key = "architectures", .json = "null", .verdict = SAME},                          \
        {.key = "architectures", .json = "[\"BertModel\"]", .verdict = REFUSED},            \
        {.key = "model_type", .json = "\"gptj\"", .verdict = REFUSED},                      \
        {.key = "add_cross_attention", .json = "false", .verdict = SAME},                   \
        {.key = "add_cross_attention", .json = "true", .verdict = REFUSED},                 \
        {.key = "cross_attention_hidden_size", .json = "8", .verdict = REFUSED},            \
        {.key = "is_encoder_decoder", .json = "true", .verdict = REFUSED},                  \
        {.key = "tie_encoder_decoder", .json = "true", .verdict = REFUSED},                 \
        {.key = "pruned_heads", .json = "{}", .verdict = SAME},                             \
        {.key = "pruned_heads", .json = "{\"0\": [1]}", .verdict = REFUSED},                \
        {.key = "quantization_config", .json = "{\"bits\": 4}", .verdict = REFUSED},        \
        {.key = "auto_map", .json = "{\"AutoModel\": \"modeling.X\"}", .verdict = REFUSED}, \
    {                                                                                       \
        .key = "a_field_of_tomorrow", .json = "1", .verdict = REFUSED                       \
    }

static const row gpt2_rows[] = {
    COMMON_ROWS,
    {.key = "n_positions", .json = "14", .verdict = SHAPES, .at = AT(C), .value = 14},
    {.key = "max_position_embeddings",
     .json = "14",
     .verdict = SHAPES,
     .at = AT(C),
     .value = 14,
     .without = ",n_positions,"},
    {.key = "n_embd", .json = "32", .verdict = SHAPES, .change = gpt2_wider},
    {.key = "hidden_size",
     .json = "32",
     .verdict = SHAPES,
     .change = gpt2_wider,
     .without = ",n_embd,"},
    {.key = "n_layer", .json = "3", .verdict = SHAPES, .at = AT(L), .value = 3},
    {.key = "num_hidden_layers",
     .json = "1",
     .verdict = SHAPES,
     .at = AT(L),
     .value = 1,
     .without = ",n_layer,"},
    {.key = "n_head", .json = "2", .verdict = USED, .change = gpt2_two_heads},
    {.key = "num_attention_heads",
     .json = "2",
     .verdict = USED,
     .change = gpt2_two_heads,
     .without = ",n_head,"},
    {.key = "n_inner", .json = "40", .verdict = SHAPES, .at = AT(I), .value = 40},
    {.key = "n_inner", .json = "null", .verdict = SAME},
    {.key = "activation_function", .json = "\"gelu_new\"", .verdict = SAME},
    {.key = "activation_function", .json = "\"gelu_pytorch_tanh\"", .verdict = SAME},
    {.key = "activation_function", .json = "\"gelu_fast\"", .verdict = SAME},
    {.key = "activation_function",
     .json = "\"gelu\"",
     .verdict = USED,
     .at = AT(activation),
     .value = REFERENCE_GELU},
    {.key = "activation_function",
     .json = "\"relu\"",
     .verdict = USED,
     .at = AT(activation),
     .value = REFERENCE_RELU},
    {.key = "activation_function",
     .json = "\"silu\"",
     .verdict = USED,
     .at = AT(activation),
     .value = REFERENCE_SILU},
    {.key = "activation_function",
     .json = "\"tanh\"",
     .verdict = USED,
     .at = AT(activation),
     .value = REFERENCE_TANH},
    {.key = "activation_function", .json = "\"gleu\"", .verdict = REFUSED},
    {.key = "layer_norm_epsilon", .json = "0.5", .verdict = USED, .at = AT(eps), .value = 0.5},
    {.key = "embd_pdrop", .json = "0.3", .verdict = SAME},
    {.key = "attn_pdrop", .json = "0.3", .verdict = SAME},
    {.key = "resid_pdrop", .json = "0.3", .verdict = SAME},
    {.key = "scale_attn_weights", .json = "false", .verdict = USED, .at = AT(scale_weights)},
    {.key = "scale_attn_by_inverse_layer_idx",
     .json = "true",
     .verdict = USED,
     .at = AT(scale_by_layer),
     .value = 1},
    {.key = "reorder_and_upcast_attn", .json = "false", .verdict = SAME},
    {.key = "reorder_and_upcast_attn", .json = "true", .verdict = REFUSED},
    {.key = "tie_word_embeddings", .json = "false", .verdict = USED, .at = AT(is_tied)},
};

static const row llama_rows[] = {
    COMMON_ROWS,
    {.key = "max_position_embeddings", .json = "80", .verdict = SAME},
    {.key = "hidden_size", .json = "48", .verdict = SHAPES, .change = llama_wider},
    {.key = "intermediate_size", .json = "36", .verdict = SHAPES, .at = AT(I), .value = 36},
    {.key = "num_hidden_layers", .json = "1", .verdict = SHAPES, .at = AT(L), .value = 1},
    {.key = "num_attention_heads", .json = "8", .verdict = SHAPES, .change = llama_eight_heads},
    {.key = "num_key_value_heads", .json = "1", .verdict = SHAPES, .at = AT(K), .value = 1},
    {.key = "num_key_value_heads", .json = "null", .verdict = SHAPES, .at = AT(K), .value = 4},
    {.key = "head_dim", .json = "null", .verdict = SAME},
    {.key = "head_dim", .json = "12", .verdict = SHAPES, .at = AT(D), .value = 12},
    {.key = "hidden_act", .json = "\"swish\"", .verdict = SAME},
    {.key = "hidden_act",
     .json = "\"gelu\"",
     .verdict = USED,
     .at = AT(activation),
     .value = REFERENCE_GELU},
    {.key = "hidden_act",
     .json = "\"gelu_new\"",
     .verdict = USED,
     .at = AT(activation),
     .value = REFERENCE_GELU_TANH},
    {.key = "hidden_act", .json = "\"siluu\"", .verdict = REFUSED},
    {.key = "rms_norm_eps", .json = "0.5", .verdict = USED, .at = AT(eps), .value = 0.5},
    {.key = "attention_bias",
     .json = "true",
     .verdict = SHAPES,
     .at = AT(attention_bias),
     .value = 1},
    {.key = "mlp_bias", .json = "true", .verdict = SHAPES, .at = AT(mlp_bias), .value = 1},
    {.key = "attention_dropout", .json = "0.3", .verdict = SAME},
    {.key = "rope_theta", .json = "500", .verdict = USED, .at = AT(theta), .value = 500},
    {.key = "rope_scaling", .json = "null", .verdict = SAME},
    {.key = "rope_scaling",
     .json = "{\"type\": \"linear\", \"factor\": 2.5}",
     .verdict = USED,
     .change = rope_linear},
    {.key = "rope_scaling",
     .json = "{\"rope_type\": \"llama3\", \"factor\": 8.0, \"low_freq_factor\": 0.1, "
             "\"high_freq_factor\": 4.0, \"original_max_position_embeddings\": 64}",
     .verdict = USED,
     .change = rope_llama3},
    {.key = "rope_scaling",
     .json = "{\"rope_type\": \"llama9\", \"factor\": 8.0}",
     .verdict = REFUSED},
    {.key = "rope_scaling",
     .json = "{\"rope_type\": \"yarn\", \"factor\": 8.0}",
     .verdict = REFUSED},
    {.key = "rope_scaling", .json = "{\"type\": \"dynamic\", \"factor\": 8.0}", .verdict = REFUSED},
    {.key = "rope_scaling",
     .json = "{\"rope_type\": \"linear\", \"factor\": 2.0, \"beta\": 3}",
     .verdict = REFUSED},
    {.key = "rope_parameters",
     .json = "{\"rope_type\": \"llama3\", \"rope_theta\": 10000.0, \"factor\": 8.0, "
             "\"low_freq_factor\": 0.1, \"high_freq_factor\": 4.0, "
             "\"original_max_position_embeddings\": 64}",
     .verdict = USED,
     .change = rope_llama3},
    {.key = "rope_parameters",
     .json = "{\"rope_type\": \"default\", \"rope_theta\": 500.0}",
     .verdict = USED,
     .change = rope_new_default},
    {.key = "rope_parameters", .json = "{\"rope_type\": \"longrope\"}", .verdict = REFUSED},
    {.key = "pretraining_tp", .json = "1", .verdict = SAME},
    {.key = "pretraining_tp", .json = "2", .verdict = REFUSED},
    {.key = "layer_types", .json = "[\"full_attention\", \"full_attention\"]", .verdict = SAME},
    {.key = "layer_types",
     .json = "[\"full_attention\", \"sliding_attention\"]",
     .verdict = REFUSED},
    {.key = "sliding_window", .json = "null", .verdict = SAME},
    {.key = "sliding_window", .json = "4", .verdict = REFUSED},
    {.key = "use_sliding_window", .json = "true", .verdict = REFUSED},
    {.key = "rope_interleaved", .json = "true", .verdict = REFUSED},
    {.key = "attn_logit_softcapping", .json = "30.0", .verdict = REFUSED},
    {.key = "final_logit_softcapping", .json = "30.0", .verdict = REFUSED},
    {.key = "tie_word_embeddings", .json = "true", .verdict = USED, .at = AT(is_tied), .value = 1},
};

#undef AT
#undef COMMON_ROWS

/* A base model, its rows, and what it gives. */
typedef struct grid {
    const member *base;
    const reference_model *reference;
    const row *rows;
    size_t count;
    cero_arch arch;
    float logits[REFERENCE_T * REFERENCE_MAX_V];
    double expected[REFERENCE_T * REFERENCE_MAX_V];
} grid;

static char dir[64];
static case_world machine;

static const int32_t tokens[REFERENCE_T] = {3, 17, 17, 28, 0, 9, 22, 1, 14};

static int setup(void **state)
{
    (void)state;
    files_make_dir(dir, sizeof(dir));
    cero_log_set_level(CERO_LOG_ERROR);
    case_open(&machine, 1, NULL);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    case_close(&machine);
    files_remove(dir);
    return 0;
}

/* Weights by name: near 1 for the scale of norms, else within half of 0. Equal names have equal values. */
static cero_status give(void *context, const char *name, int64_t begin, int64_t numel, float *out)
{
    bool is_norm = strstr(name, "ln_") != NULL || strstr(name, "norm") != NULL;

    CERO_TRY(models_values(context, name, begin, numel, out));
    for (int64_t i = 0; i < numel; i++) {
        out[i] = is_norm && strstr(name, "bias") == NULL ? 1 + out[i] / 10 : out[i] / 6;
    }
    return CERO_OK;
}

static cero_status give_imported(void *context, const char *name, int64_t begin, int64_t numel,
                                 float *out)
{
    return cero_hf_import_read(context, name, begin, numel, out);
}

/* config.json of the base model with one field of `r` (NULL: none). */
static void write_config(const char *where, const grid *g, const row *r)
{
    cero_text text = {0};
    bool is_first = true;

    for (const member *m = g->base; m->key != NULL; m++) {
        char listed[64];
        (void)snprintf(listed, sizeof(listed), ",%s,", m->key);
        if (r != NULL && (strcmp(r->key, m->key) == 0 ||
                          (r->without != NULL && strstr(r->without, listed) != NULL))) {
            continue;
        }
        cero_text_printf(&text, "%s\"%s\": %s", is_first ? "{" : ",\n", m->key, m->json);
        is_first = false;
    }
    if (r != NULL) {
        cero_text_printf(&text, ",\n\"%s\": %s", r->key, r->json);
    }
    cero_text_printf(&text, "}\n");
    files_write(files_in(where, "config.json"), text.data, text.length);
    cero_text_cleanup(&text);
}

/* The weights of a model, in one file or in shards, beside the config.json that stands there. */
static void write_weights(const char *where, const cero_model_spec *spec, int64_t max_shard_bytes)
{
    size_t n = 0;
    char *config = NULL;

    assert_ok(cero_file_read(files_in(where, "config.json"), 0, &config, &n));
    assert_ok(cero_hf_export(
        where,
        &(cero_hf_export_params){.spec = spec, .max_shard_bytes = max_shard_bytes, .source = give},
        NULL));
    files_write(files_in(where, "config.json"), config, n);
    cero_delete(config);
}

static void run_model(const char *where, float *logits)
{
    (void)logits_of(machine.context, where, tokens, REFERENCE_T, logits);
}

/* The largest difference of two sets of logits, relative to the largest logit. */
static double distance(const double *a, const double *b, int n)
{
    double most = 0;
    double size = 0;

    for (int i = 0; i < n; i++) {
        most = fmax(most, fabs(a[i] - b[i]));
        size = fmax(size, fabs(b[i]));
    }
    assert_true(size > 0.1 && isfinite(most));
    return most / size;
}

static double distance_to(const float *found, const double *expected, int n)
{
    double wide[REFERENCE_T * REFERENCE_MAX_V];

    for (int i = 0; i < n; i++) {
        wide[i] = (double)found[i];
    }
    return distance(wide, expected, n);
}

/* What came in goes out: the same logits, and what is exported from that is the same file. */
static void check_export(const char *where, const float *logits, int n)
{
    float again[REFERENCE_T * REFERENCE_MAX_V];
    cero_model_spec spec;
    char out[2][96];
    char *bytes[2];
    size_t length[2];

    assert_ok(cero_model_spec_read(files_in(where, "config.json"), &spec));
    for (int i = 0; i < 2; i++) {
        cero_hf_import *import = NULL;
        (void)snprintf(out[i], sizeof(out[i]), "%s/out-%d", dir, i);
        assert_ok(cero_hf_import_open(i == 0 ? where : out[0], &spec, &import));
        assert_ok(cero_hf_export(
            out[i],
            &(cero_hf_export_params){.spec = &spec, .source = give_imported, .context = import},
            NULL));
        cero_hf_import_close(&import);
        assert_ok(cero_file_read(files_in(out[i], "model.safetensors"), 0, &bytes[i], &length[i]));
    }
    assert_int_equal(length[0], length[1]);
    assert_memory_equal(bytes[0], bytes[1], length[0]);
    cero_delete(bytes[0]);
    cero_delete(bytes[1]);
    run_model(out[0], again);
    assert_memory_equal(again, logits, (size_t)n * sizeof(float));
}

static reference_model reference_of(const grid *g, const row *r)
{
    reference_model m = *g->reference;

    if (r->change != NULL) {
        r->change(&m);
    } else if (r->at != 0) {
        *(double *)(void *)((char *)&m + r->at) = r->value;
    }
    return m;
}

static void check_refused(const row *r, const char *config)
{
    cero_model_spec spec;
    cero_status st = cero_model_spec_read(config, &spec);

    if (st != CERO_ERR_UNSUPPORTED && st != CERO_ERR_INVALID) {
        fail_msg("%s: %s gave %s", r->key, r->json, cero_status_name(st));
    }
    if (strstr(cero_error_message(), r->key) == NULL) {
        fail_msg("%s: %s: \"%s\" does not name the field", r->key, r->json, cero_error_message());
    }
}

static void check_row(const grid *g, const row *r, int number)
{
    char where[96];
    float logits[REFERENCE_T * REFERENCE_MAX_V];
    double expected[REFERENCE_T * REFERENCE_MAX_V];
    cero_model_spec spec;

    (void)snprintf(where, sizeof(where), "%s/row", dir);
    assert_ok(cero_file_make_dir(where));
    write_config(where, g, r);
    if (r->verdict == REFUSED) {
        check_refused(r, files_in(where, "config.json"));
        return;
    }
    assert_ok(cero_model_spec_read(files_in(where, "config.json"), &spec));
    int n = REFERENCE_T * (int)spec.vocab_size;
    write_weights(where, &spec, number % 2 == 0 ? 0 : 4000);
    run_model(where, logits);
    check_export(where, logits, n);
    if (r->verdict == SAME) {
        assert_memory_equal(logits, g->logits, (size_t)n * sizeof(float));
        return;
    }
    reference_model m = reference_of(g, r);
    reference_run(where, &m, tokens, expected);
    if (!(distance_to(logits, expected, n) < TOLERANCE)) {
        fail_msg("%s: %s: logits are off by %g", r->key, r->json, distance_to(logits, expected, n));
    }
    if (r->verdict == USED && !(distance(expected, g->expected, n) > VISIBLE)) {
        fail_msg("%s: %s changes nothing", r->key, r->json);
    }
}

static bool has_row(const grid *g, const char *key)
{
    for (size_t i = 0; i < g->count; i++) {
        if (strcmp(g->rows[i].key, key) == 0) {
            return true;
        }
    }
    return false;
}

/* The fields that change nothing, whatever they hold. */
static void check_ignorable(const grid *g)
{
    static const char *const values[] = {"null",     "true",         "7",
                                         "\"text\"", "[1, [2], {}]", "{\"a\": {\"b\": [0.5]}}"};
    cero_model_spec base;

    write_config(dir, g, NULL);
    assert_ok(cero_model_spec_read(files_in(dir, "config.json"), &base));
    for (size_t i = 0; cero_model_ignorable_field(i) != NULL; i++) {
        row r = {.key = cero_model_ignorable_field(i), .json = values[i % CERO_COUNT_OF(values)]};
        cero_model_spec spec;
        write_config(dir, g, &r);
        assert_ok(cero_model_spec_read(files_in(dir, "config.json"), &spec));
        assert_memory_equal(&spec, &base, sizeof(spec));
    }
}

static void check_grid(grid *g)
{
    size_t fields = 0;
    const cero_model_field *field = cero_model_fields(g->arch, &fields);
    char where[96];
    cero_model_spec spec;

    (void)snprintf(where, sizeof(where), "%s/base", dir);
    for (size_t i = 0; i < fields; i++) {
        if (!has_row(g, field[i].key)) {
            fail_msg("%s has no row", field[i].key);
        }
    }
    check_ignorable(g);
    assert_ok(cero_file_make_dir(where));
    write_config(where, g, NULL);
    assert_ok(cero_model_spec_read(files_in(where, "config.json"), &spec));
    write_weights(where, &spec, 0);
    run_model(where, g->logits);
    reference_run(where, g->reference, tokens, g->expected);
    int n = REFERENCE_T * (int)spec.vocab_size;
    assert_true(distance_to(g->logits, g->expected, n) < TOLERANCE);
    for (size_t i = 0; i < g->count; i++) {
        check_row(g, &g->rows[i], (int)i);
    }
}

static void test_gpt2(void **state)
{
    static grid g = {.base = gpt2_base,
                     .reference = &gpt2_reference,
                     .rows = gpt2_rows,
                     .count = CERO_COUNT_OF(gpt2_rows),
                     .arch = CERO_ARCH_GPT2};

    (void)state;
    check_grid(&g);
}

/* SF-12: grouped heads; SF-14: rope_scaling of type llama3 is applied, an invented type refused. */
static void test_llama(void **state)
{
    static grid g = {.base = llama_base,
                     .reference = &llama_reference,
                     .rows = llama_rows,
                     .count = CERO_COUNT_OF(llama_rows),
                     .arch = CERO_ARCH_LLAMA};

    (void)state;
    check_grid(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_gpt2, setup, teardown),
        cmocka_unit_test_setup_teardown(test_llama, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
