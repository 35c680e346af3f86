/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A model as the engine sees it: a function that appends it to a graph, for a shape and a purpose.
 */
#ifndef CERO_MODEL_H
#define CERO_MODEL_H

#include "cero/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum cero_model_mode {
    CERO_MODEL_TRAIN = 0,
    CERO_MODEL_EVAL = 1,
    CERO_MODEL_DECODE = 2 /* one sequence with a cache; optional: a model may refuse it */
} cero_model_mode;

/* What the graph is for. Rows of activations are micro_batch * seq_len. */
typedef struct cero_model_shape {
    cero_model_mode mode;
    int64_t micro_batch;
    int64_t seq_len;
    int64_t cache_len; /* decoding: most positions the cache holds */
} cero_model_shape;

/*
 * Appends the model. Called once for training and again for evaluation or decoding; the same parameters in
 * the same order each time. `context` is what the caller gave to the engine.
 */
typedef cero_status (*cero_build)(cero_graph *graph, const cero_model_shape *shape,
                                  const void *context);

#ifdef __cplusplus
}
#endif

#endif
