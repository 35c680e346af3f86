/* SPDX-License-Identifier: Apache-2.0 */
/* y = silu(gate) * up, the gated feed-forward of Llama (Shazeer, "GLU variants improve transformer", 2020). */
#include "graph/ops/ops.h"

static cero_status swiglu_infer(cero_op_infer *infer)
{
    CERO_TRY(cero_op_check_float(infer, 0, infer->input[0].shape.ndim));
    CERO_TRY(cero_op_check_desc(infer, 1, infer->input[0].dtype, infer->input[0].shape));
    cero_op_set_output(infer, 0, infer->input[0].dtype, infer->input[0].shape);
    return CERO_OK;
}

static cero_status swiglu_run(const cero_op_run *run)
{
    const cero_tensor_desc *d = &run->output_desc[0];

    cero_device_swiglu_forward(run->device, d->dtype, cero_shape_numel(&d->shape), run->input[0],
                               run->input[1], run->output[0]);
    return CERO_OK;
}

/* inputs: gate, up, dy; outputs: dgate, dup */
static cero_status swiglu_grad_infer(cero_op_infer *infer)
{
    CERO_TRY(swiglu_infer(infer));
    CERO_TRY(cero_op_check_desc(infer, 2, infer->input[0].dtype, infer->input[0].shape));
    cero_op_set_output(infer, 1, infer->input[0].dtype, infer->input[0].shape);
    return CERO_OK;
}

static cero_status swiglu_grad_run(const cero_op_run *run)
{
    const cero_tensor_desc *d = &run->output_desc[0];

    cero_device_swiglu_backward(run->device, d->dtype, cero_shape_numel(&d->shape), run->input[0],
                                run->input[1], run->input[2], run->output[0], run->output[1]);
    return CERO_OK;
}

static const cero_op swiglu_grad_op = {.name = "swiglu_grad",
                                       .infer = swiglu_grad_infer,
                                       .run = swiglu_grad_run};

static cero_status swiglu_differentiate(cero_graph *graph, const cero_node *node)
{
    cero_value *gate = cero_node_input(node, 0);
    cero_value *up = cero_node_input(node, 1);
    cero_value *dy = cero_graph_grad(graph, cero_node_output(node, 0));
    cero_value *grads[CERO_MAX_OUTPUTS] = {0};

    (void)cero_graph_append(graph, &swiglu_grad_op, NULL, (cero_value *[]){gate, up, dy}, 3, grads);
    CERO_TRY(cero_graph_add_grad(graph, gate, grads[0]));
    return cero_graph_add_grad(graph, up, grads[1]);
}

static const cero_op swiglu_op = {.name = "swiglu",
                                  .infer = swiglu_infer,
                                  .differentiate = swiglu_differentiate,
                                  .run = swiglu_run};

cero_value *cero_graph_swiglu(cero_graph *graph, cero_value *gate, cero_value *up)
{
    return cero_graph_append(graph, &swiglu_op, NULL, (cero_value *[]){gate, up}, 2, NULL);
}
