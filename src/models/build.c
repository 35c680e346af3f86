/* SPDX-License-Identifier: Apache-2.0 */
/* Chooses the family of a spec, and checks what all families need. */
#include "models/models.h"

cero_status cero_model_build(cero_graph *graph, const cero_model_shape *shape, const void *context)
{
    const cero_model_spec *spec = context;
    int64_t most = shape->mode == CERO_MODEL_DECODE ? shape->cache_len : shape->seq_len;

    if (most > spec->context) {
        (void)cero_graph_fail(graph, CERO_ERR_INVALID,
                              "sequences of %lld tokens for model %s of %lld positions; choose a "
                              "shorter --seq-len",
                              (long long)most, spec->name, (long long)spec->context);
        return cero_graph_status(graph);
    }
    switch (spec->arch) {
    case CERO_ARCH_GPT2:
        cero_model_gpt2_build(graph, spec, shape);
        break;
    case CERO_ARCH_LLAMA:
        cero_model_llama_build(graph, spec, shape);
        break;
    }
    return cero_graph_status(graph);
}
