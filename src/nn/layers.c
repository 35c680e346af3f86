/* SPDX-License-Identifier: Apache-2.0 */
/* Linear layers, norms and tables: parameters registered under their names, one operation each. */
#include "nn/nn.h"

#include <stdio.h>

enum {
    MAX_NAME = 192
};

const char *cero_nn_name(char *text, size_t size, const char *prefix, const char *name)
{
    (void)snprintf(text, size, "%s.%s", prefix, name);
    return text;
}

static cero_value *vector(cero_graph *graph, const char *prefix, const char *name, int64_t n,
                          cero_init_kind init)
{
    char text[MAX_NAME];

    return cero_graph_param(graph, &(cero_param_params){
                                       .name = cero_nn_name(text, sizeof(text), prefix, name),
                                       .shape = {.ndim = 1, .dim = {n}},
                                       .init = init,
                                   });
}

static cero_value *matrix(cero_graph *graph, const char *prefix, int64_t rows, int64_t cols,
                          double std, bool is_embedding)
{
    char text[MAX_NAME];

    return cero_graph_param(graph, &(cero_param_params){
                                       .name = cero_nn_name(text, sizeof(text), prefix, "weight"),
                                       .shape = {.ndim = 2, .dim = {rows, cols}},
                                       .init = CERO_INIT_NORMAL,
                                       .std = std,
                                       .is_embedding = is_embedding,
                                   });
}

cero_value *cero_nn_linear(cero_graph *graph, cero_value *x, const cero_nn_linear_params *p)
{
    bool is_out_in = p->layout == CERO_NN_OUT_IN;
    cero_value *weight = matrix(graph, p->name, is_out_in ? p->out : p->in,
                                is_out_in ? p->in : p->out, p->init_std, false);
    cero_value *bias = p->has_bias ? vector(graph, p->name, "bias", p->out, CERO_INIT_ZEROS) : NULL;

    return cero_graph_linear(graph, x, weight, bias, is_out_in);
}

cero_value *cero_nn_layernorm(cero_graph *graph, cero_value *x, const char *name, int64_t cols,
                              double eps)
{
    cero_value *gamma = vector(graph, name, "weight", cols, CERO_INIT_ONES);
    cero_value *beta = vector(graph, name, "bias", cols, CERO_INIT_ZEROS);

    return cero_graph_layernorm(graph, x, gamma, beta, eps);
}

cero_value *cero_nn_rmsnorm(cero_graph *graph, cero_value *x, const char *name, int64_t cols,
                            double eps)
{
    return cero_graph_rmsnorm(graph, x, vector(graph, name, "weight", cols, CERO_INIT_ONES), eps);
}

cero_value *cero_nn_table(cero_graph *graph, const char *name, int64_t count, int64_t cols,
                          double init_std)
{
    return matrix(graph, name, count, cols, init_std, true);
}
