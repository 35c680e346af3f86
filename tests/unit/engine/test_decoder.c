/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decoding with a cache gives, after every prefix and however it came in, the logits of the model without one;
 * what was cut off is forgotten.
 */
#include "cases.h"

#include "engine/decoder.h"
#include "models/models.h"

#include <math.h>

enum {
    LENGTH = 150,
    MAX_VOCAB = 300
};

/* Wide enough a context for two blocks of the prompt and more. */
static cero_model_spec long_spec(cero_model_spec spec)
{
    spec.context = 160;
    spec.vocab_size = 61;
    return spec;
}

/* A weight that makes logits differ: 0.2 times a normal number, 1 for the scale of norms. */
static void fill_weights(const cero_param_info *info, int64_t i, float *out)
{
    int64_t n = cero_shape_numel(&info->shape);
    bool is_norm = info->shape.ndim == 1 && strstr(info->name, ".weight") != NULL;
    cero_rng_key key = cero_rng_make_key(3, CERO_RNG_TEST, (uint64_t)i, 1);

    cero_rng_fill_normal(key, 0, n, is_norm ? 1 : 0, 0.2, out);
}

static cero_decoder *make_decoder(cero_context *context, const cero_model_spec *spec,
                                  int64_t cache_len)
{
    cero_decoder *decoder = NULL;
    float *values = cero_new(1 << 16, sizeof(float));

    assert_non_null(values);
    assert_ok(cero_decoder_create(context,
                                  &(cero_decoder_params){.build = cero_engine_build_model,
                                                         .context = spec,
                                                         .dtype = CERO_DTYPE_F32,
                                                         .cache_len = cache_len},
                                  &decoder));
    for (int64_t i = 0; i < cero_decoder_param_count(decoder); i++) {
        cero_param_info info = cero_decoder_param_info(decoder, i);
        int64_t n = cero_shape_numel(&info.shape);
        assert_true(n <= 1 << 16);
        fill_weights(&info, i, values);
        assert_ok(cero_decoder_set_param(decoder, i, 0, n, values));
    }
    cero_delete(values);
    return decoder;
}

/* The model without a cache, as evaluation runs it: the loss of every row for one target at a time. */
typedef struct whole {
    cero_graph *graph;
    cero_program *program;
    cero_zero *zero;
    int64_t vocab;
} whole;

static void whole_open(whole *w, cero_context *context, const cero_model_spec *spec)
{
    const cero_model_shape shape = {.mode = CERO_MODEL_EVAL, .micro_batch = 1, .seq_len = LENGTH};
    float *values = cero_new(1 << 16, sizeof(float));

    assert_non_null(values);
    w->graph = NULL;
    w->program = NULL;
    w->zero = NULL;
    w->vocab = spec->vocab_size;
    assert_ok(cero_graph_create(context->device, CERO_DTYPE_F32, &w->graph));
    assert_ok(cero_model_build(w->graph, &shape, spec));
    assert_ok(cero_program_create(w->graph, &w->program));
    assert_ok(cero_zero_create(&(cero_zero_params){.device = context->device,
                                                   .mem = context->mem,
                                                   .comm = context->comm,
                                                   .graph = w->graph},
                               &w->zero));
    assert_ok(cero_zero_allocate(w->zero, 0));
    const cero_zero_layout *layout = cero_zero_get_layout(w->zero);
    for (int64_t i = 0; i < layout->param_count; i++) {
        cero_param_info info = {.name = layout->params[i].name, .shape = layout->params[i].shape};
        fill_weights(&info, i, values);
        assert_ok(cero_zero_set_param(w->zero, i, 0, layout->params[i].numel, values));
    }
    cero_delete(values);
    assert_ok(cero_program_bind(
        w->program, &(cero_program_bindings){.mem = context->mem,
                                             .param = cero_zero_param_addresses(w->zero)}));
}

static void whole_close(whole *w)
{
    cero_program_destroy(&w->program);
    cero_zero_destroy(&w->zero);
    cero_graph_destroy(&w->graph);
}

/* Log-probabilities [LENGTH, vocab] after each prefix of tokens. */
static void whole_run(const whole *w, const int32_t *tokens, float *log_probs)
{
    int32_t *targets = cero_program_data(w->program, "targets");
    const float *loss = cero_program_data(w->program, "loss");
    cero_step_env env = {0};

    memcpy(cero_program_data(w->program, "tokens"), tokens, LENGTH * sizeof(int32_t));
    for (int64_t v = 0; v < w->vocab; v++) {
        for (int i = 0; i < LENGTH; i++) {
            targets[i] = (int32_t)v;
        }
        assert_ok(cero_program_run(w->program, &env, CERO_PROGRAM_ALL));
        for (int i = 0; i < LENGTH; i++) {
            log_probs[i * w->vocab + v] = -loss[i];
        }
    }
}

/* Logits are log-probabilities but for a constant: compared after both are normalised. */
static void check_logits(const float *logits, const float *log_probs, int64_t vocab, int64_t length)
{
    double most = -HUGE_VAL;
    double sum = 0;
    double spread = 0;

    for (int64_t v = 0; v < vocab; v++) {
        most = fmax(most, (double)logits[v]);
    }
    for (int64_t v = 0; v < vocab; v++) {
        sum += exp((double)logits[v] - most);
    }
    for (int64_t v = 0; v < vocab; v++) {
        double found = (double)logits[v] - most - log(sum);
        double expected = (double)log_probs[(length - 1) * vocab + v];
        spread = fmax(spread, fabs(expected - (double)log_probs[(length - 1) * vocab]));
        if (!(fabs(found - expected) <= 1e-5 * fmax(1, fabs(expected)))) {
            fail_msg("prefix of %lld, token %lld: %.8g, expected %.8g", (long long)length,
                     (long long)v, found, expected);
        }
    }
    assert_true(spread > 0.5); // not all the same
}

static void append(cero_decoder *d, const int32_t *tokens, int64_t from, int64_t count,
                   const float *log_probs)
{
    const float *logits = NULL;

    assert_int_equal(cero_decoder_length(d), from);
    assert_ok(cero_decoder_append(d, tokens + from, count, &logits));
    assert_int_equal(cero_decoder_length(d), from + count);
    check_logits(logits, log_probs, cero_decoder_vocab(d), from + count);
}

static void check_model(const cero_model_spec *spec)
{
    case_world world;
    whole w;
    int32_t tokens[LENGTH];

    case_open(&world, 2, NULL);
    for (int i = 0; i < LENGTH; i++) {
        cero_rng_key key = cero_rng_make_key(4, CERO_RNG_TEST, 0, 0);
        tokens[i] = (int32_t)(cero_rng_word(key, 0, (uint64_t)i) % (uint32_t)spec->vocab_size);
    }
    float *log_probs = cero_new(LENGTH * MAX_VOCAB, sizeof(float));
    assert_non_null(log_probs);
    whole_open(&w, world.context, spec);
    whole_run(&w, tokens, log_probs);
    cero_decoder *d = make_decoder(world.context, spec, LENGTH);
    assert_int_equal(cero_decoder_vocab(d), spec->vocab_size);
    for (int i = 0; i < 10; i++) { // one by one
        append(d, tokens, i, 1, log_probs);
    }
    append(d, tokens, 10, 3, log_probs);   // fewer than a block
    append(d, tokens, 13, 130, log_probs); // two blocks and two
    append(d, tokens, 143, 7, log_probs);  // to the end
    cero_decoder_truncate(d, 200);         // nothing is there to forget
    assert_int_equal(cero_decoder_length(d), LENGTH);
    cero_decoder_truncate(d, 64);
    append(d, tokens, 64, 1, log_probs);
    cero_decoder_truncate(d, 0);
    append(d, tokens, 0, 64, log_probs); // a block alone
    append(d, tokens, 64, 64, log_probs);
    append(d, tokens, 128, 1, log_probs);
    cero_decoder_destroy(&d);
    whole_close(&w);
    cero_delete(log_probs);
    case_close(&world);
}

static void test_logits(void **state)
{
    cero_model_spec g1 = long_spec(case_g1());
    cero_model_spec g2 = long_spec(case_g2());
    cero_model_spec l1 = long_spec(case_l1());

    CERO_UNUSED(state);
    check_model(&g1);
    g2.scale_attn_by_inverse_layer_idx = true;
    g2.layers = 3;
    check_model(&g2);
    check_model(&l1);
    l1.rope_type = CERO_ROPE_LLAMA3;
    l1.rope_factor = 8;
    l1.rope_low_freq_factor = 1;
    l1.rope_high_freq_factor = 4;
    l1.rope_original_context = 40;
    l1.tie_word_embeddings = true;
    check_model(&l1);
}

/* What does not fit or is no token is refused, and the sequence stays as it was. */
static void test_refused(void **state)
{
    cero_model_spec spec = case_g2();
    case_world world;
    cero_decoder *d = NULL;
    const float *logits = NULL;
    const int32_t good[] = {1, 2, 3, 256};
    const int32_t high[] = {5, 257};
    const int32_t negative[] = {-1};
    float before[257];

    CERO_UNUSED(state);
    case_open(&world, 1, NULL);
    d = make_decoder(world.context, &spec, 6);
    assert_ok(cero_decoder_append(d, good, 4, &logits));
    memcpy(before, logits, sizeof(before));
    assert_fails(cero_decoder_append(d, high, 2, &logits), CERO_ERR_INVALID,
                 "token 257 at position 5: the vocabulary has 257 entries");
    assert_fails(cero_decoder_append(d, negative, 1, &logits), CERO_ERR_INVALID, "token -1");
    assert_fails(cero_decoder_append(d, good, 3, &logits), CERO_ERR_INVALID,
                 "3 tokens after 4: the cache holds 6 positions");
    assert_fails(cero_decoder_append(d, good, 0, &logits), CERO_ERR_INVALID, "no tokens");
    assert_int_equal(cero_decoder_length(d), 4);
    cero_decoder_truncate(d, 3);
    assert_ok(cero_decoder_append(d, good + 3, 1, &logits));
    assert_memory_equal(before, logits, sizeof(before));
    cero_decoder_destroy(&d);
    cero_decoder_params p = {.build = cero_engine_build_model, .context = &spec, .cache_len = 14};
    assert_fails(cero_decoder_create(world.context, &p, &d), CERO_ERR_INVALID,
                 "sequences of 14 tokens for model G2 of 13 positions");
    p.cache_len = 0;
    assert_fails(cero_decoder_create(world.context, &p, &d), CERO_ERR_INVALID, "0 positions");
    case_close(&world);
}

static void test_allocates_nothing(void **state)
{
    cero_model_spec spec = case_l1();
    case_world world;
    cero_decoder *d = NULL;
    const float *logits = NULL;
    const int32_t token = 7;

    CERO_UNUSED(state);
    case_open(&world, 2, NULL);
    d = make_decoder(world.context, &spec, 64);
    assert_ok(cero_decoder_append(d, &token, 1, &logits));
    uint64_t calls = cero_mem_calls();
    for (int i = 0; i < 63; i++) {
        assert_ok(cero_decoder_append(d, &token, 1, &logits));
    }
    assert_int_equal(cero_mem_calls(), calls);
    cero_decoder_destroy(&d);
    assert_int_equal(cero_mem_total(world.context->mem).current, 0);
    case_close(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_logits),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_allocates_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
