/* SPDX-License-Identifier: Apache-2.0 */
/* y = a + b; the gradient passes to both as it is. */
#include "graph/ops/ops.h"

static cero_status add_infer(cero_op_infer *infer)
{
    CERO_TRY(cero_op_check_float(infer, 0, infer->input[0].shape.ndim));
    CERO_TRY(cero_op_check_desc(infer, 1, infer->input[0].dtype, infer->input[0].shape));
    cero_op_set_output(infer, 0, infer->input[0].dtype, infer->input[0].shape);
    infer->in_place[0] = 1;
    return CERO_OK;
}

static cero_status add_differentiate(cero_graph *graph, const cero_node *node)
{
    cero_value *dy = cero_graph_grad(graph, cero_node_output(node, 0));

    CERO_TRY(cero_graph_add_grad(graph, cero_node_input(node, 0), dy));
    return cero_graph_add_grad(graph, cero_node_input(node, 1), dy);
}

static cero_status add_run(const cero_op_run *run)
{
    const cero_tensor_desc *d = &run->output_desc[0];
    cero_device_add(run->device, d->dtype, cero_shape_numel(&d->shape), run->input[0],
                    run->input[1], run->output[0]);
    return CERO_OK;
}

static const cero_op add_op = {.name = "add",
                               .infer = add_infer,
                               .differentiate = add_differentiate,
                               .run = add_run};

cero_value *cero_graph_add(cero_graph *graph, cero_value *a, cero_value *b)
{
    return cero_graph_append(graph, &add_op, NULL, (cero_value *[]){a, b}, 2, NULL);
}
