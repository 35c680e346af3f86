/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Llama (Touvron et al. 2023; Llama 3, 2024) with Hugging Face's semantics: RMS norms, rotary positions,
 * grouped-query attention, gated feed-forward, weights [out, in].
 */
#include "models/models.h"

#include "nn/nn.h"

#include <stdio.h>

enum {
    MAX_NAME = 96
};

typedef struct llama {
    cero_graph *graph;
    const cero_model_spec *spec;
    const cero_model_shape *shape;
    cero_nn_rope rope;
} llama;

static cero_value *linear(const llama *m, cero_value *x, const char *prefix, const char *name,
                          int64_t in, int64_t out, bool has_bias)
{
    char text[MAX_NAME];

    return cero_nn_linear(m->graph, x,
                          &(cero_nn_linear_params){
                              .name = cero_nn_name(text, sizeof(text), prefix, name),
                              .in = in,
                              .out = out,
                              .layout = CERO_NN_OUT_IN,
                              .has_bias = has_bias,
                              .init_std = m->spec->initializer_range,
                          });
}

static cero_value *rmsnorm(const llama *m, cero_value *x, const char *prefix, const char *name)
{
    char text[MAX_NAME];

    return cero_nn_rmsnorm(m->graph, x, cero_nn_name(text, sizeof(text), prefix, name),
                           m->spec->hidden, m->spec->norm_eps);
}

static cero_value *rotate(const llama *m, cero_value *x)
{
    return cero_graph_rotary(m->graph, x, m->rope.cos, m->rope.sin, m->shape->seq_len,
                             m->spec->head_dim);
}

/* x [B*T, C] -> [B*T, C] */
static cero_value *attention(const llama *m, cero_value *x, const char *prefix, int64_t layer)
{
    const cero_model_spec *s = m->spec;
    int64_t q_cols = s->heads * s->head_dim;
    int64_t kv_cols = s->kv_heads * s->head_dim;
    bool has_bias = s->attention_bias;
    cero_attention_params params = {.seq_len = m->shape->seq_len,
                                    .heads = s->heads,
                                    .kv_heads = s->kv_heads,
                                    .head_dim = s->head_dim,
                                    .dropout = s->attn_dropout};

    cero_model_caches(m->graph, m->shape, layer, kv_cols, &params);
    cero_value *q = linear(m, x, prefix, "self_attn.q_proj", s->hidden, q_cols, has_bias);
    cero_value *k = linear(m, x, prefix, "self_attn.k_proj", s->hidden, kv_cols, has_bias);
    cero_value *v = linear(m, x, prefix, "self_attn.v_proj", s->hidden, kv_cols, has_bias);
    x = cero_graph_attention(m->graph, rotate(m, q), rotate(m, k), v, &params);
    return linear(m, x, prefix, "self_attn.o_proj", q_cols, s->hidden, has_bias);
}

/* x [B*T, C] -> [B*T, C] */
static cero_value *feed_forward(const llama *m, cero_value *x, const char *prefix)
{
    const cero_model_spec *s = m->spec;
    cero_value *gate = linear(m, x, prefix, "mlp.gate_proj", s->hidden, s->inner, s->mlp_bias);
    cero_value *up = linear(m, x, prefix, "mlp.up_proj", s->hidden, s->inner, s->mlp_bias);

    if (s->activation == CERO_ACTIVATION_SILU) {
        x = cero_graph_swiglu(m->graph, gate, up);
    } else {
        gate = cero_graph_apply_function(m->graph, gate, (cero_function)s->activation);
        x = cero_graph_mul(m->graph, gate, up);
    }
    return linear(m, x, prefix, "mlp.down_proj", s->inner, s->hidden, s->mlp_bias);
}

static cero_value *block(const llama *m, cero_value *x, int64_t layer)
{
    char prefix[MAX_NAME];

    (void)snprintf(prefix, sizeof(prefix), "model.layers.%lld", (long long)layer);
    cero_graph_begin_unit(m->graph, prefix, true);
    cero_value *y = rmsnorm(m, x, prefix, "input_layernorm");
    x = cero_graph_add(m->graph, x, attention(m, y, prefix, layer));
    y = rmsnorm(m, x, prefix, "post_attention_layernorm");
    x = cero_graph_add(m->graph, x, feed_forward(m, y, prefix));
    cero_graph_end_unit(m->graph);
    return x;
}

static cero_nn_rope rope_of(cero_graph *graph, const cero_model_spec *spec,
                            const cero_model_shape *shape)
{
    bool is_decoding = shape->mode == CERO_MODEL_DECODE;

    return cero_nn_rope_tables(
        graph, &(cero_nn_rope_params){
                   .positions = is_decoding ? shape->cache_len : shape->seq_len,
                   .head_dim = spec->head_dim,
                   .theta = spec->rope_theta,
                   .linear_factor = spec->rope_type == CERO_ROPE_LINEAR ? spec->rope_factor : 0,
                   .is_llama3 = spec->rope_type == CERO_ROPE_LLAMA3,
                   .factor = spec->rope_factor,
                   .low_freq_factor = spec->rope_low_freq_factor,
                   .high_freq_factor = spec->rope_high_freq_factor,
                   .original_context = spec->rope_original_context,
               });
}

void cero_model_llama_build(cero_graph *graph, const cero_model_spec *spec,
                            const cero_model_shape *shape)
{
    llama m = {.graph = graph, .spec = spec, .shape = shape, .rope = rope_of(graph, spec, shape)};
    cero_value *tokens = cero_model_tokens(graph, shape);
    double std = spec->initializer_range;

    cero_graph_begin_unit(graph, "model.embedding", false);
    cero_value *table =
        cero_nn_table(graph, "model.embed_tokens", spec->vocab_size, spec->hidden, std);
    cero_value *x = cero_graph_embedding(graph, tokens, table);
    cero_graph_end_unit(graph);

    for (int64_t layer = 0; layer < spec->layers; layer++) {
        x = block(&m, x, layer);
    }

    cero_graph_begin_unit(graph, "model.head", false);
    if (shape->mode == CERO_MODEL_DECODE) {
        x = cero_graph_last_rows(graph, x, 1);
    }
    x = rmsnorm(&m, x, "model", "norm");
    cero_value *head = spec->tie_word_embeddings
                           ? table
                           : cero_nn_table(graph, "lm_head", spec->vocab_size, spec->hidden, std);
    cero_model_finish(graph, shape, x, head);
    cero_graph_end_unit(graph);
}
