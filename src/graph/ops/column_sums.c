/* SPDX-License-Identifier: Apache-2.0 */
/* Sums over rows: the gradient of a bias. Rows are added in an order that does not depend on threads. */
#include "graph/ops/ops.h"

static cero_status column_sums_infer(cero_op_infer *infer)
{
    CERO_TRY(cero_op_check_float(infer, 0, 2));
    const cero_tensor_desc *x = &infer->input[0];

    cero_op_set_output(infer, 0, x->dtype, cero_shape_1d(x->shape.dim[1]));
    infer->scratch_bytes = cero_device_column_sums_scratch(x->shape.dim[0], x->shape.dim[1]);
    return CERO_OK;
}

static cero_status column_sums_run(const cero_op_run *run)
{
    const cero_tensor_desc *x = &run->input_desc[0];

    cero_device_column_sums(run->device, x->dtype, x->shape.dim[0], x->shape.dim[1], run->input[0],
                            run->output_desc[0].dtype, run->output[0], run->scratch);
    return CERO_OK;
}

static const cero_op column_sums_op = {.name = "column_sums",
                                       .infer = column_sums_infer,
                                       .run = column_sums_run};

cero_value *cero_op_column_sums_append(cero_graph *graph, cero_value *x)
{
    return cero_graph_append(graph, &column_sums_op, NULL, &x, 1, NULL);
}
