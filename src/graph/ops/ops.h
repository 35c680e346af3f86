/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What ops share: checks of inputs with one wording, and the nodes that autodiff itself appends.
 *
 * Each op is one file: infer, differentiate, run, cost, the table, and the function that appends it.
 */
#ifndef CERO_GRAPH_OPS_OPS_H
#define CERO_GRAPH_OPS_OPS_H

#include "graph/graph.h"

/* Zeros of a desc. */
cero_value *cero_op_zeros_append(cero_graph *graph, cero_tensor_desc desc);

/* The start of backward: every element is the run's loss_grad. */
cero_value *cero_op_seed_append(cero_graph *graph, cero_tensor_desc desc);

/* A copy in another (or the same) dtype: always a node, where cero_graph_cast may return x itself. */
cero_value *cero_op_cast_append(cero_graph *graph, cero_value *x, cero_dtype dtype);

/* Sum over rows of x [rows, cols] -> [cols], in x's dtype. */
cero_value *cero_op_column_sums_append(cero_graph *graph, cero_value *x);

/* SHAPE unless input i has `ndim` dimensions and dtype f32, bf16 or f16. */
CERO_NODISCARD cero_status cero_op_check_float(const cero_op_infer *infer, int i, int ndim);

/* SHAPE unless input i has exactly this dtype and shape. */
CERO_NODISCARD cero_status cero_op_check_desc(const cero_op_infer *infer, int i, cero_dtype dtype,
                                              cero_shape shape);

/* Output k has this desc. */
void cero_op_set_output(cero_op_infer *infer, int k, cero_dtype dtype, cero_shape shape);

#endif
