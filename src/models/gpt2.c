/* SPDX-License-Identifier: Apache-2.0 */
/*
 * GPT-2 (Radford et al. 2019) with Hugging Face's semantics: pre-norm blocks, learned positions, packed
 * q|k|v, Conv1D weights [in, out], tied output head. Residual projections start smaller by 1/sqrt(2 layers).
 */
#include "models/models.h"

#include "nn/nn.h"

#include <math.h>
#include <stdio.h>

enum {
    MAX_NAME = 96
};

typedef struct gpt2 {
    cero_graph *graph;
    const cero_model_spec *spec;
    const cero_model_shape *shape;
    double std;
    double residual_std;
} gpt2;

static cero_value *conv1d(const gpt2 *m, cero_value *x, const char *prefix, const char *name,
                          int64_t in, int64_t out, double std)
{
    char text[MAX_NAME];

    return cero_nn_linear(m->graph, x,
                          &(cero_nn_linear_params){
                              .name = cero_nn_name(text, sizeof(text), prefix, name),
                              .in = in,
                              .out = out,
                              .layout = CERO_NN_IN_OUT,
                              .has_bias = true,
                              .init_std = std,
                          });
}

static cero_value *layernorm(const gpt2 *m, cero_value *x, const char *prefix, const char *name)
{
    char text[MAX_NAME];

    return cero_nn_layernorm(m->graph, x, cero_nn_name(text, sizeof(text), prefix, name),
                             m->spec->hidden, m->spec->norm_eps);
}

/* x [B*T, C] -> [B*T, C] */
static cero_value *attention(const gpt2 *m, cero_value *x, const char *prefix, int64_t layer)
{
    const cero_model_spec *s = m->spec;
    int64_t cols = s->heads * s->head_dim;
    double scale = s->scale_attn_weights ? 1 / sqrt((double)s->head_dim) : 1;

    if (s->scale_attn_by_inverse_layer_idx) {
        scale /= (double)(layer + 1);
    }
    cero_attention_params params = {.seq_len = m->shape->seq_len,
                                    .heads = s->heads,
                                    .head_dim = s->head_dim,
                                    .scale = scale,
                                    .dropout = s->attn_dropout};
    cero_model_caches(m->graph, m->shape, layer, cols, &params);
    x = conv1d(m, x, prefix, "attn.c_attn", s->hidden, 3 * cols, m->std);
    x = cero_graph_attention(m->graph, x, NULL, NULL, &params);
    x = conv1d(m, x, prefix, "attn.c_proj", cols, s->hidden, m->residual_std);
    return cero_graph_dropout(m->graph, x, s->resid_dropout, m->shape->seq_len);
}

/* x [B*T, C] -> [B*T, C] */
static cero_value *feed_forward(const gpt2 *m, cero_value *x, const char *prefix)
{
    const cero_model_spec *s = m->spec;

    x = conv1d(m, x, prefix, "mlp.c_fc", s->hidden, s->inner, m->std);
    x = cero_graph_apply_function(m->graph, x, (cero_function)s->activation);
    x = conv1d(m, x, prefix, "mlp.c_proj", s->inner, s->hidden, m->residual_std);
    return cero_graph_dropout(m->graph, x, s->resid_dropout, m->shape->seq_len);
}

static cero_value *block(const gpt2 *m, cero_value *x, int64_t layer)
{
    char prefix[MAX_NAME];

    (void)snprintf(prefix, sizeof(prefix), "transformer.h.%lld", (long long)layer);
    cero_graph_begin_unit(m->graph, prefix, true);
    cero_value *y = layernorm(m, x, prefix, "ln_1");
    x = cero_graph_add(m->graph, x, attention(m, y, prefix, layer));
    y = layernorm(m, x, prefix, "ln_2");
    x = cero_graph_add(m->graph, x, feed_forward(m, y, prefix));
    cero_graph_end_unit(m->graph);
    return x;
}

void cero_model_gpt2_build(cero_graph *graph, const cero_model_spec *spec,
                           const cero_model_shape *shape)
{
    gpt2 m = {.graph = graph,
              .spec = spec,
              .shape = shape,
              .std = spec->initializer_range,
              .residual_std = spec->initializer_range / sqrt(2.0 * (double)spec->layers)};
    cero_value *tokens = cero_model_tokens(graph, shape);

    cero_graph_begin_unit(graph, "transformer.embedding", false);
    cero_value *wte =
        cero_nn_table(graph, "transformer.wte", spec->vocab_size, spec->hidden, m.std);
    cero_value *wpe = cero_nn_table(graph, "transformer.wpe", spec->context, spec->hidden, m.std);
    cero_value *x = cero_graph_embedding(graph, tokens, wte);
    x = cero_graph_add_position(graph, x, wpe, shape->seq_len);
    x = cero_graph_dropout(graph, x, spec->embd_dropout, shape->seq_len);
    cero_graph_end_unit(graph);

    for (int64_t layer = 0; layer < spec->layers; layer++) {
        x = block(&m, x, layer);
    }

    cero_graph_begin_unit(graph, "transformer.head", false);
    if (shape->mode == CERO_MODEL_DECODE) {
        x = cero_graph_last_rows(graph, x, 1);
    }
    x = layernorm(&m, x, "transformer", "ln_f");
    cero_value *head = spec->tie_word_embeddings
                           ? wte
                           : cero_nn_table(graph, "lm_head", spec->vocab_size, spec->hidden, m.std);
    cero_model_finish(graph, shape, x, head);
    cero_graph_end_unit(graph);
}
