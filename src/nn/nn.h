/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Layers: a few operations and their parameters under Hugging Face's names. A layer says what it is; how it
 * is cut over ranks comes from the config.
 *
 * B = sequences in a micro-batch, T = positions, C = width. Activations are [B*T, C].
 * Every function returns the new activation, or NULL when the graph has failed (sticky, see cero/graph.h).
 */
#ifndef CERO_NN_NN_H
#define CERO_NN_NN_H

#include "cero/graph.h"

/* How a weight matrix is stored. */
typedef enum cero_nn_layout {
    CERO_NN_IN_OUT = 0, /* GPT-2's Conv1D */
    CERO_NN_OUT_IN = 1  /* torch.nn.Linear */
} cero_nn_layout;

/* A linear layer: parameters "<name>.weight" and, if asked for, "<name>.bias". */
typedef struct cero_nn_linear_params {
    const char *name;
    int64_t in;
    int64_t out;
    cero_nn_layout layout;
    bool has_bias;
    double init_std; /* of the weight; the bias starts at 0 */
} cero_nn_linear_params;
cero_value *cero_nn_linear(cero_graph *graph, cero_value *x, const cero_nn_linear_params *params);

/* "<name>.weight" = 1, "<name>.bias" = 0, both [cols]. */
cero_value *cero_nn_layernorm(cero_graph *graph, cero_value *x, const char *name, int64_t cols,
                              double eps);
/* "<name>.weight" = 1 [cols]. */
cero_value *cero_nn_rmsnorm(cero_graph *graph, cero_value *x, const char *name, int64_t cols,
                            double eps);

/* The table "<name>.weight" [count, cols] itself; the same call again gives the same table (tying). */
cero_value *cero_nn_table(cero_graph *graph, const char *name, int64_t count, int64_t cols,
                          double init_std);

/* Rotary tables [positions, head_dim / 2] as constants "rope.cos", "rope.sin". */
typedef struct cero_nn_rope_params {
    int64_t positions;
    int64_t head_dim;
    double theta;
    double linear_factor; /* positions divided by it; 0 or 1: none */
    bool is_llama3;       /* smoothed by the four numbers below */
    double factor;
    double low_freq_factor;
    double high_freq_factor;
    int64_t original_context;
} cero_nn_rope_params;
typedef struct cero_nn_rope {
    cero_value *cos;
    cero_value *sin;
} cero_nn_rope;
cero_nn_rope cero_nn_rope_tables(cero_graph *graph, const cero_nn_rope_params *params);

/* "prefix.name" in `text`; returns text. */
const char *cero_nn_name(char *text, size_t size, const char *prefix, const char *name);

#endif
