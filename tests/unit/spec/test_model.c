/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A config.json is read exactly or refused by field and place (no field is ignored unknowingly), what is
 * written reads back to the same description, and parameter counts are those of the published models.
 */
#include "harness.h"

#include "base/file.h"
#include "spec/model.h"

#include <unistd.h>

static cero_model_spec spec;

static cero_status read_text(const char *text)
{
    char path[64];
    (void)snprintf(path, sizeof(path), "/tmp/cero-test-model-%ld.json", (long)getpid());
    cero_file_writer *w = NULL;
    assert_ok(cero_file_writer_open(path, CERO_FILE_REPLACE, &w));
    assert_ok(cero_file_writer_write(w, text, strlen(text)));
    assert_ok(cero_file_writer_commit(w));
    cero_file_writer_close(&w);
    memset(&spec, 0, sizeof(spec));
    cero_status st = cero_model_spec_read(path, &spec);
    assert_int_equal(unlink(path), 0);
    return st;
}

#define GPT(members)   "{\"model_type\": \"gpt2\",\n" members "}"
#define LLAMA(members) "{\"model_type\": \"llama\",\n" members "}"
#define G1             "\"vocab_size\": 256, \"n_positions\": 32, \"n_embd\": 64, \"n_layer\": 2, \"n_head\": 4"
#define G2             "\"vocab_size\": 257, \"n_positions\": 13, \"n_embd\": 21, \"n_layer\": 1, \"n_head\": 3"
#define L1                                                                                          \
    "\"vocab_size\": 259, \"hidden_size\": 64, \"num_hidden_layers\": 2, \"num_attention_heads\": " \
    "4, \"num_key_value_heads\": 2, \"intermediate_size\": 172, \"tie_word_embeddings\": false"

static void test_counts(void **state)
{
    CERO_UNUSED(state);
    static const struct {
        const char *name;
        int64_t count;
    } cases[] = {
        {"gpt2", 124439808},         {"gpt2-medium", 354823168}, {"gpt2-large", 774030080},
        {"gpt2-xl", 1557611200},     {"llama-1b", 1235814400},   {"llama-3b", 3212749824},
        {"llama-8b", 8030261248},    {"llama-70b", 70553706496}, {"llama-2-7b", 6738415616},
        {"megatron-8b", 8317040640},
    };
    for (size_t i = 0; i < CERO_COUNT_OF(cases); i++) {
        assert_ok(cero_model_spec_resolve(cases[i].name, &spec));
        assert_string_equal(spec.name, cases[i].name);
        assert_int_equal(cero_model_spec_param_count(&spec), cases[i].count);
    }
    assert_ok(read_text(GPT(G1)));
    assert_int_equal(cero_model_spec_param_count(&spec), 118528);
    assert_ok(read_text(GPT(G2)));
    assert_int_equal(cero_model_spec_param_count(&spec), 11277);
    assert_ok(read_text(LLAMA(L1)));
    assert_int_equal(cero_model_spec_param_count(&spec), 124096);
}

static void test_builtins_are_sound(void **state)
{
    CERO_UNUSED(state);
    int i = 0;
    for (; cero_model_spec_builtin_name(i) != NULL; i++) {
        assert_ok(cero_model_spec_resolve(cero_model_spec_builtin_name(i), &spec));
        assert_ok(cero_model_spec_check(&spec));
    }
    assert_true(i >= 20);
    assert_null(cero_model_spec_builtin_name(-1));
    assert_ok(cero_model_spec_resolve("zero-170b", &spec));
    assert_true(cero_model_spec_param_count(&spec) > 170000000000);
    assert_ok(cero_model_spec_resolve("turing-nlg-17b", &spec));
    assert_int_equal(cero_model_spec_param_count(&spec) / 1000000000, 17);
    assert_ok(cero_model_spec_resolve("gpt-mini", &spec));
    assert_true(spec.layers == 4 && spec.hidden == 192 && spec.heads == 6 && spec.context == 128 &&
                spec.vocab_size == 2048 && spec.embd_dropout == 0 && spec.tie_word_embeddings);
    assert_fails(cero_model_spec_resolve("gpt2-xxl", &spec), CERO_ERR_INVALID,
                 "did you mean gpt2-xl?");
    assert_fails(cero_model_spec_resolve("", &spec), CERO_ERR_INVALID, "built in: gpt-mini, gpt2");
    assert_fails(cero_model_spec_resolve("/tmp", &spec), CERO_ERR_IO, "/tmp/config.json");
    assert_fails(cero_model_spec_resolve("no.json", &spec), CERO_ERR_IO, "no.json");
}

static void test_gpt2_fields(void **state)
{
    CERO_UNUSED(state);
    assert_ok(read_text(GPT("\"n_ctx\": 7")));
    assert_true(spec.hidden == 768 && spec.inner == 3072 && spec.kv_heads == 12 &&
                spec.head_dim == 64 && spec.attn_dropout == 0.1 && spec.tie_word_embeddings &&
                spec.norm_eps == 1e-5 && spec.scale_attn_weights && spec.eos_count == 1);
    assert_ok(read_text(
        GPT("\"n_inner\": null, \"hidden_size\": 32, \"num_attention_heads\": 2, "
            "\"num_hidden_layers\": 3, \"max_position_embeddings\": 8, \"vocab_size\": 2e2, "
            "\"activation_function\": \"gelu\", \"resid_pdrop\": 0.0, \"embd_pdrop\": 0.2, "
            "\"layer_norm_epsilon\": 1e-6, \"scale_attn_by_inverse_layer_idx\": true, "
            "\"scale_attn_weights\": false, \"tie_word_embeddings\": false, \"torch_dtype\": "
            "\"bfloat16\", \"eos_token_id\": [3, 4], \"bos_token_id\": null, \"pruned_heads\": {}, "
            "\"task_specific_params\": {\"a\": 1}, \"transformers_version\": \"4.2\", "
            "\"architectures\": [\"GPT2LMHeadModel\"]")));
    assert_true(spec.hidden == 32 && spec.heads == 2 && spec.layers == 3 && spec.context == 8 &&
                spec.vocab_size == 200 && spec.inner == 128);
    assert_int_equal(spec.activation, CERO_ACTIVATION_GELU_ERF);
    assert_int_equal(spec.stored_dtype, CERO_DTYPE_BF16);
    assert_true(spec.resid_dropout == 0 && spec.embd_dropout == 0.2 && spec.attn_dropout == 0.1);
    assert_true(spec.scale_attn_by_inverse_layer_idx && !spec.scale_attn_weights);
    assert_true(spec.eos_count == 2 && spec.eos_token_id[1] == 4 && spec.bos_token_id == -1);
    assert_ok(read_text(GPT("\"n_embd\": 64, \"hidden_size\": 64, \"n_head\": 4")));
    assert_ok(read_text("{\"architectures\": [\"GPT2LMHeadModel\"]}"));
    // PR-04, and transformers' default end-of-text id over a small vocabulary.
    assert_ok(read_text(GPT("\"activation_function\": \"gelu_new\", \"vocab_size\": 257, "
                            "\"eos_token_id\": 50256")));
    assert_int_equal(spec.activation, CERO_ACTIVATION_GELU_TANH);
    assert_int_equal(spec.eos_count, 0);
}

static void test_llama_fields(void **state)
{
    CERO_UNUSED(state);
    assert_ok(read_text(LLAMA("\"num_key_value_heads\": null, \"head_dim\": null, "
                              "\"rope_scaling\": null, \"pretraining_tp\": 1, \"sliding_window\": "
                              "null")));
    assert_true(spec.kv_heads == 32 && spec.head_dim == 128 && spec.rope_theta == 10000 &&
                !spec.tie_word_embeddings && spec.attn_dropout == 0 && spec.resid_dropout == 0);
    assert_ok(
        read_text(LLAMA(L1 ", \"head_dim\": 32, \"attention_bias\": true, \"mlp_bias\": true, "
                           "\"attention_dropout\": 0.1, \"hidden_act\": \"gelu_pytorch_tanh\", "
                           "\"dtype\": \"float16\", \"rms_norm_eps\": 1e-5, \"eos_token_id\": "
                           "[1, 2, 3]")));
    assert_true(spec.head_dim == 32 && spec.attention_bias && spec.mlp_bias &&
                spec.attn_dropout == 0.1 && spec.eos_count == 3 && spec.context == 2048);
    assert_int_equal(cero_model_spec_param_count(&spec),
                     2 * 259 * 64 + 64 +
                         2 * (128 + 64 * (128 + 2 * 64) + 128 * 64 + (128 + 128 + 64) +
                              3 * 64 * 172 + 2 * 172 + 64));
}

#define LLAMA3                                                               \
    "\"factor\": 8.0, \"low_freq_factor\": 1.0, \"high_freq_factor\": 4.0, " \
    "\"original_max_position_embeddings\": 8192"

/* SF-14 and both spellings. */
static void test_rope(void **state)
{
    CERO_UNUSED(state);
    static const char *const spellings[] = {
        LLAMA("\"rope_theta\": 5e5, \"rope_scaling\": {\"rope_type\": \"llama3\", " LLAMA3 "}"),
        LLAMA("\"rope_theta\": 5e5, \"rope_scaling\": {" LLAMA3 ", \"type\": \"llama3\"}"),
        LLAMA("\"rope_parameters\": {\"rope_type\": \"llama3\", \"rope_theta\": 500000, " LLAMA3
              "}"),
        LLAMA("\"rope_parameters\": {\"rope_type\": \"llama3\", \"rope_theta\": 5e5, " LLAMA3 "}, "
              "\"rope_theta\": 500000.0, \"rope_scaling\": {\"type\": \"llama3\", " LLAMA3 "}"),
    };
    for (size_t i = 0; i < CERO_COUNT_OF(spellings); i++) {
        assert_ok(read_text(spellings[i]));
        assert_int_equal(spec.rope_type, CERO_ROPE_LLAMA3);
        assert_true(spec.rope_theta == 500000 && spec.rope_factor == 8 &&
                    spec.rope_low_freq_factor == 1 && spec.rope_high_freq_factor == 4 &&
                    spec.rope_original_context == 8192);
    }
    assert_ok(read_text(LLAMA("\"rope_scaling\": {\"type\": \"linear\", \"factor\": 2}")));
    assert_int_equal(spec.rope_type, CERO_ROPE_LINEAR);
    assert_true(spec.rope_factor == 2);
    assert_ok(
        read_text(LLAMA("\"rope_parameters\": {\"rope_type\": \"default\"}, \"rope_theta\": 9")));
    assert_true(spec.rope_type == CERO_ROPE_DEFAULT && spec.rope_theta == 9);
}

static void test_refused(void **state)
{
    CERO_UNUSED(state);
    static const struct {
        const char *text;
        cero_status status;
        const char *message;
    } cases[] = {
        {"[1]", CERO_ERR_INVALID, "json:1:1: expected an object, found a list"},
        {"{}", CERO_ERR_INVALID, "\"model_type\" is missing"},
        {"{\"model_type\": \"bert\"}", CERO_ERR_UNSUPPORTED, "json:1:2: model_type: \"bert\""},
        {GPT("\"n_emdb\": 64"), CERO_ERR_UNSUPPORTED,
         "json:2:1: unknown field \"n_emdb\" for model_type gpt2, did you mean \"n_embd\"?"},
        {GPT("\"n_embd\": 64, \"n_embd\": 64"), CERO_ERR_CORRUPT, "second time"},
        {GPT("\"n_embd\": 64, \"hidden_size\": 65"), CERO_ERR_INVALID,
         "json:2:15: hidden_size is 65, but n_embd is 64"},
        {GPT("\"n_embd\": \"64\""), CERO_ERR_INVALID,
         "n_embd: expected an integer, found the string"},
        {GPT("\"n_embd\": -64"), CERO_ERR_INVALID, "n_embd: expected at least 1, found -64"},
        {GPT("\"n_embd\": null"), CERO_ERR_INVALID, "n_embd: expected an integer, found null"},
        {GPT("\"n_embd\": 65"), CERO_ERR_INVALID, "hidden size 65 is not a multiple of 12 heads"},
        {GPT("\"n_layer\": 1e18"), CERO_ERR_INVALID, "number of layers is 1000000000000000000"},
        {GPT("\"attn_pdrop\": 1.0"), CERO_ERR_INVALID, "attn_pdrop is 1"},
        {GPT("\"attn_pdrop\": -0.1"), CERO_ERR_INVALID, "attn_pdrop: expected at least 0"},
        {GPT("\"attn_pdrop\": true"), CERO_ERR_INVALID, "attn_pdrop: expected a number"},
        {GPT("\"layer_norm_epsilon\": 0"), CERO_ERR_INVALID, "epsilon is 0"},
        {GPT("\"tie_word_embeddings\": 1"), CERO_ERR_INVALID, "tie_word_embeddings: expected true"},
        {GPT("\"activation_function\": \"gleu\""), CERO_ERR_UNSUPPORTED,
         "unknown activation \"gleu\", did you mean \"gelu\"?"},
        {GPT("\"reorder_and_upcast_attn\": true"), CERO_ERR_UNSUPPORTED, "reorder_and_upcast_attn"},
        {GPT("\"add_cross_attention\": true"), CERO_ERR_UNSUPPORTED, "add_cross_attention"},
        {GPT("\"pruned_heads\": {\"0\": [1]}"), CERO_ERR_UNSUPPORTED, "pruned_heads"},
        {GPT("\"quantization_config\": {\"bits\": 4}"), CERO_ERR_UNSUPPORTED, "quantization"},
        {GPT("\"architectures\": [\"GPT2ForSequenceClassification\"]"), CERO_ERR_UNSUPPORTED,
         "GPT2ForSequenceClassification"},
        {GPT("\"eos_token_id\": 50257"), CERO_ERR_INVALID, "eos_token_id 50257 is outside"},
        {GPT("\"eos_token_id\": [1,2,3,4,5,6,7,8,9]"), CERO_ERR_UNSUPPORTED, "9 tokens"},
        {GPT("\"bos_token_id\": -2"), CERO_ERR_INVALID, "bos_token_id: expected at least 0"},
        {GPT("\"torch_dtype\": \"float8\""), CERO_ERR_UNSUPPORTED, "float8"},
        {GPT("\"rope_theta\": 1"), CERO_ERR_UNSUPPORTED, "rope_theta"},
        {LLAMA("\"sliding_window\": 4096"), CERO_ERR_UNSUPPORTED, "sliding_window"},
        {LLAMA("\"pretraining_tp\": 2"), CERO_ERR_UNSUPPORTED, "pretraining_tp is 2"},
        {LLAMA("\"layer_types\": [\"full_attention\", \"sliding_attention\"]"),
         CERO_ERR_UNSUPPORTED, "layer_types"},
        {LLAMA("\"num_key_value_heads\": 3"), CERO_ERR_INVALID, "not a multiple of"},
        {LLAMA("\"head_dim\": 63"), CERO_ERR_INVALID, "head_dim is 63"},
        {LLAMA("\"rope_scaling\": {\"type\": \"yarn\", \"factor\": 2}"), CERO_ERR_UNSUPPORTED,
         "rope_scaling: rope type \"yarn\" is not offered"},
        {LLAMA("\"rope_parameters\": {\"rope_type\": \"invented\"}"), CERO_ERR_UNSUPPORTED,
         "\"invented\""},
        {LLAMA("\"rope_scaling\": {\"factor\": 2}"), CERO_ERR_INVALID, "\"rope_type\" is missing"},
        {LLAMA("\"rope_scaling\": {\"type\": \"linear\"}"), CERO_ERR_INVALID,
         "\"factor\" is missing"},
        {LLAMA("\"rope_scaling\": {\"type\": \"linear\", \"factor\": 0.5}"), CERO_ERR_INVALID,
         "factor is 0.5"},
        {LLAMA("\"rope_scaling\": {\"type\": \"linear\", \"factor\": 2, \"low_freq_factor\": 1}"),
         CERO_ERR_UNSUPPORTED, "\"low_freq_factor\" has no meaning"},
        {LLAMA("\"rope_scaling\": {\"type\": \"llama3\", \"factor\": 8}"), CERO_ERR_INVALID,
         "\"low_freq_factor\" is missing"},
        {LLAMA("\"rope_scaling\": {\"type\": \"linear\", \"rope_type\": \"llama3\"}"),
         CERO_ERR_INVALID, "differ"},
        {LLAMA("\"rope_scaling\": {\"type\": \"linear\", \"factor\": 2}, \"rope_parameters\": "
               "{\"rope_type\": \"linear\", \"factor\": 3}"),
         CERO_ERR_INVALID, "rope_scaling and rope_parameters differ"},
        {LLAMA("\"rope_parameters\": {\"rope_type\": \"default\", \"rope_theta\": 5}, "
               "\"rope_theta\": 6"),
         CERO_ERR_INVALID, "rope_theta is 6, but rope_parameters has 5"},
        {LLAMA("\"rope_theta\": 0"), CERO_ERR_INVALID, "rope_theta is 0"},
        {LLAMA("\"n_embd\": 5"), CERO_ERR_UNSUPPORTED, "n_embd"},
    };
    for (size_t i = 0; i < CERO_COUNT_OF(cases); i++) {
        assert_fails(read_text(cases[i].text), cases[i].status, cases[i].message);
        assert_int_equal(spec.layers, 0);
    }
}

static void assert_same(const cero_model_spec *a, const cero_model_spec *b)
{
    assert_string_equal(a->name, b->name);
    assert_memory_equal(a->eos_token_id, b->eos_token_id, sizeof(a->eos_token_id));
    assert_int_equal(a->arch, b->arch);
    assert_true(a->vocab_size == b->vocab_size);
    assert_true(a->context == b->context);
    assert_true(a->hidden == b->hidden);
    assert_true(a->layers == b->layers);
    assert_true(a->heads == b->heads);
    assert_true(a->kv_heads == b->kv_heads);
    assert_true(a->head_dim == b->head_dim);
    assert_true(a->inner == b->inner);
    assert_true(a->activation == b->activation);
    assert_true(a->norm_eps == b->norm_eps);
    assert_true(a->initializer_range == b->initializer_range);
    assert_true(a->embd_dropout == b->embd_dropout);
    assert_true(a->attn_dropout == b->attn_dropout);
    assert_true(a->resid_dropout == b->resid_dropout);
    assert_true(a->tie_word_embeddings == b->tie_word_embeddings);
    assert_true(a->attention_bias == b->attention_bias);
    assert_true(a->mlp_bias == b->mlp_bias);
    assert_true(a->scale_attn_weights == b->scale_attn_weights);
    assert_true(a->scale_attn_by_inverse_layer_idx == b->scale_attn_by_inverse_layer_idx);
    assert_true(a->rope_type == b->rope_type);
    assert_true(a->rope_theta == b->rope_theta);
    assert_true(a->rope_factor == b->rope_factor);
    assert_true(a->rope_low_freq_factor == b->rope_low_freq_factor);
    assert_true(a->rope_high_freq_factor == b->rope_high_freq_factor);
    assert_true(a->rope_original_context == b->rope_original_context);
    assert_true(a->bos_token_id == b->bos_token_id);
    assert_true(a->eos_count == b->eos_count);
    assert_true(a->stored_dtype == b->stored_dtype);
}

static void check_round_trip(void)
{
    cero_text text = {0};
    cero_model_spec before = spec;
    assert_ok(cero_model_spec_write_json(&before, before.stored_dtype, &text));
    assert_ok(read_text(text.data));
    memcpy(spec.name, before.name, sizeof(spec.name));
    assert_same(&spec, &before);
    cero_text_cleanup(&text);
}

static void test_round_trips(void **state)
{
    CERO_UNUSED(state);
    for (int i = 0; cero_model_spec_builtin_name(i) != NULL; i++) {
        assert_ok(cero_model_spec_resolve(cero_model_spec_builtin_name(i), &spec));
        check_round_trip();
    }
    static const char *const texts[] = {
        GPT(G2 ", \"n_inner\": 50, \"activation_function\": \"gelu\", \"eos_token_id\": [1, 2]"),
        GPT(G1 ", \"attn_pdrop\": 0.3, \"scale_attn_by_inverse_layer_idx\": true, "
               "\"tie_word_embeddings\": false, \"torch_dtype\": \"float16\""),
        LLAMA(L1 ", \"head_dim\": 20, \"attention_bias\": true, \"mlp_bias\": true, "
                 "\"initializer_range\": 0.0123456789, \"rope_scaling\": {\"type\": \"linear\", "
                 "\"factor\": 2.5}"),
        LLAMA(
            L1
            ", \"rope_parameters\": {\"rope_type\": \"llama3\", \"rope_theta\": 12345.678, " LLAMA3
            "}"),
    };
    for (size_t i = 0; i < CERO_COUNT_OF(texts); i++) {
        assert_ok(read_text(texts[i]));
        check_round_trip();
    }
    cero_text text = {0};
    spec.heads = 0;
    assert_fails(cero_model_spec_write_json(&spec, CERO_DTYPE_F32, &text), CERO_ERR_INVALID,
                 "heads");
    cero_text_cleanup(&text);
}

static void test_references(void **state)
{
    CERO_UNUSED(state);
    char path[512];
    (void)shared_path("reference/gpt2-tiny/config.json", path, sizeof(path));
    assert_ok(cero_model_spec_read(path, &spec));
    assert_string_equal(spec.name, "gpt2-tiny");
    assert_true(spec.hidden == 64 && spec.vocab_size == 257 && spec.eos_count == 0);
    (void)shared_path("reference/llama-tiny/config.json", path, sizeof(path));
    *strrchr(path, '/') = '\0';
    assert_ok(cero_model_spec_resolve(path, &spec));
    assert_true(spec.kv_heads == 2 && spec.norm_eps == 1e-5 && !spec.tie_word_embeddings);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_counts),      cmocka_unit_test(test_builtins_are_sound),
        cmocka_unit_test(test_gpt2_fields), cmocka_unit_test(test_llama_fields),
        cmocka_unit_test(test_rope),        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_round_trips), cmocka_unit_test(test_references),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
