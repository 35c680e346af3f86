/* SPDX-License-Identifier: Apache-2.0 */
/* What all language models share: ids in, loss or logits out, and the caches of a decoder. */
#include "models/models.h"

#include <stdio.h>

cero_value *cero_model_tokens(cero_graph *graph, const cero_model_shape *shape)
{
    int64_t rows = shape->micro_batch * shape->seq_len;

    return cero_graph_input(graph, "tokens", CERO_DTYPE_I32,
                            (cero_shape){.ndim = 1, .dim = {rows}});
}

void cero_model_finish(cero_graph *graph, const cero_model_shape *shape, cero_value *x,
                       cero_value *head)
{
    int64_t rows = shape->micro_batch * shape->seq_len;

    if (shape->mode == CERO_MODEL_DECODE) {
        cero_value *logits = cero_graph_linear(graph, x, head, NULL, true);
        cero_graph_set_output(graph, "logits", cero_graph_cast(graph, logits, CERO_DTYPE_F32));
        return;
    }
    cero_value *targets =
        cero_graph_input(graph, "targets", CERO_DTYPE_I32, (cero_shape){.ndim = 1, .dim = {rows}});
    cero_graph_set_output(graph, "loss", cero_graph_head_loss(graph, x, head, targets));
}

void cero_model_caches(cero_graph *graph, const cero_model_shape *shape, int64_t layer,
                       int64_t cols, cero_attention_params *attention)
{
    char name[64];
    cero_shape cache = {.ndim = 2, .dim = {shape->cache_len, cols}};

    if (shape->mode != CERO_MODEL_DECODE) {
        return;
    }
    (void)snprintf(name, sizeof(name), "cache.%lld.k", (long long)layer);
    attention->k_cache = cero_graph_state(graph, name, cero_graph_compute_dtype(graph), cache);
    (void)snprintf(name, sizeof(name), "cache.%lld.v", (long long)layer);
    attention->v_cache = cero_graph_state(graph, name, cero_graph_compute_dtype(graph), cache);
}
