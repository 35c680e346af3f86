/* SPDX-License-Identifier: Apache-2.0 */
/* The small models that tests train (G1, G2, L1), and engines, configs and batches for them. */
#ifndef CERO_TESTS_CASES_H
#define CERO_TESTS_CASES_H

#include "harness.h"

#include "base/rng.h"
#include "engine/engine.h"
#include "spec/model.h"

/* GPT-2 type, 2 layers, width 64, 4 heads, context 32, vocabulary 256, tied: 118,528 elements. */
static inline cero_model_spec case_g1(void)
{
    return (cero_model_spec){
        .name = "G1",
        .arch = CERO_ARCH_GPT2,
        .vocab_size = 256,
        .context = 32,
        .hidden = 64,
        .layers = 2,
        .heads = 4,
        .kv_heads = 4,
        .head_dim = 16,
        .inner = 256,
        .norm_eps = 1e-5,
        .initializer_range = 0.02,
        .tie_word_embeddings = true,
        .attention_bias = true,
        .mlp_bias = true,
        .scale_attn_weights = true,
        .bos_token_id = -1,
    };
}

/* GPT-2 type, 1 layer, width 21, 3 heads, context 13, vocabulary 257, tied: 11,277 elements. */
static inline cero_model_spec case_g2(void)
{
    cero_model_spec spec = case_g1();

    (void)snprintf(spec.name, sizeof(spec.name), "G2");
    spec.vocab_size = 257;
    spec.context = 13;
    spec.hidden = 21;
    spec.layers = 1;
    spec.heads = 3;
    spec.kv_heads = 3;
    spec.head_dim = 7;
    spec.inner = 84;
    return spec;
}

/* Llama type, 2 layers, hidden 64, 4 and 2 heads, inner 172, vocabulary 259, untied: 124,096 elements. */
static inline cero_model_spec case_l1(void)
{
    return (cero_model_spec){
        .name = "L1",
        .arch = CERO_ARCH_LLAMA,
        .vocab_size = 259,
        .context = 64,
        .hidden = 64,
        .layers = 2,
        .heads = 4,
        .kv_heads = 2,
        .head_dim = 16,
        .inner = 172,
        .activation = CERO_ACTIVATION_SILU,
        .norm_eps = 1e-5,
        .initializer_range = 0.02,
        .scale_attn_weights = true,
        .rope_theta = 10000,
        .bos_token_id = -1,
    };
}

/*
 * A config of "key=value" texts, up to the first NULL, over defaults that suit the cases; later ones win, and
 * "key=-" leaves a default out.
 */
static inline cero_status case_config(const cero_context *context, const char *const *sets,
                                      cero_config **out)
{
    const char *all[32] = {"train_micro_batch_size_per_gpu=2",
                           "optimizer.type=AdamW",
                           "optimizer.params.lr=0.001",
                           "optimizer.params.betas=[0.9,0.95]",
                           "optimizer.params.eps=1e-8",
                           "optimizer.params.weight_decay=0.1",
                           "gradient_clipping=0"};
    int count = 7;

    for (; sets != NULL && *sets != NULL; sets++) {
        size_t key = strcspn(*sets, "=") + 1;
        int at = 0;
        while (at < count && strncmp(all[at], *sets, key) != 0) {
            at++;
        }
        if (strcmp(*sets + key, "-") == 0) {
            assert_true(at < count);
            all[at] = all[--count];
        } else {
            all[at] = *sets;
            count += at == count ? 1 : 0;
        }
        assert_true(count < 32);
    }
    return cero_config_create(context, NULL, all, count, out);
}

/* A context over the world, and a config of these texts. */
typedef struct case_world {
    cero_context *context;
    cero_config *config;
} case_world;

static inline void case_open(case_world *w, int threads, const char *const *sets)
{
    assert_ok(cero_context_create(&(cero_context_params){.threads = threads}, &w->context));
    assert_ok(case_config(w->context, sets, &w->config));
}

static inline void case_close(case_world *w)
{
    cero_config_destroy(&w->config);
    cero_context_destroy(&w->context);
}

static inline cero_status case_engine(case_world *w, const cero_model_spec *spec, int64_t seq_len,
                                      cero_engine **out)
{
    return cero_engine_create(w->context, w->config,
                              &(cero_engine_params){.build = cero_engine_build_model,
                                                    .context = spec,
                                                    .seq_len = seq_len},
                              out);
}

enum {
    CASE_MAX_TOKENS = 16 * 64
};

/* Tokens and targets of one step. */
typedef struct case_batch {
    int32_t tokens[CASE_MAX_TOKENS];
    int32_t targets[CASE_MAX_TOKENS];
    const char *names[2];
    const void *data[2];
    cero_batch batch;
} case_batch;

/* The batch that starts at sample `sample` of one endless fixed text over `vocab` ids. */
static inline const cero_batch *case_batch_fill(case_batch *b, int64_t sample, int64_t samples,
                                                int64_t seq_len, int64_t vocab)
{
    cero_rng_key key = cero_rng_make_key(17, CERO_RNG_TEST, 0, 0);

    assert_true(samples * seq_len <= CASE_MAX_TOKENS);
    for (int64_t i = 0; i < samples * seq_len; i++) {
        uint64_t at = (uint64_t)(sample * seq_len + i);
        b->tokens[i] = (int32_t)(cero_rng_word(key, 0, at) % (uint32_t)vocab);
        b->targets[i] = (int32_t)(cero_rng_word(key, 0, at + 1) % (uint32_t)vocab);
    }
    b->names[0] = "tokens";
    b->names[1] = "targets";
    b->data[0] = b->tokens;
    b->data[1] = b->targets;
    b->batch = (cero_batch){.input_count = 2, .name = b->names, .data = b->data, .sample = sample};
    return &b->batch;
}

/* Sets of bits of all weights, for comparing two engines. */
static inline float *case_weights(cero_engine *engine, int64_t *count)
{
    int64_t total = 0;

    for (int64_t i = 0; i < cero_engine_param_count(engine); i++) {
        cero_param_info info = cero_engine_param_info(engine, i);
        total += cero_shape_numel(&info.shape);
    }
    float *all = cero_new((size_t)total, sizeof(float));
    assert_non_null(all);
    *count = 0;
    for (int64_t i = 0; i < cero_engine_param_count(engine); i++) {
        cero_param_info info = cero_engine_param_info(engine, i);
        int64_t n = cero_shape_numel(&info.shape);
        assert_ok(cero_engine_get_param(engine, i, 0, n, all + *count));
        *count += n;
    }
    return all;
}

#endif
