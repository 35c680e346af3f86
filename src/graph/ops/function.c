/* SPDX-License-Identifier: Apache-2.0 */
/* Elementwise functions: gelu (both forms), relu, silu, tanh; backward reads the input, not the output. */
#include "graph/ops/ops.h"

typedef struct function_attr {
    cero_function function;
} function_attr;

static cero_status function_infer(cero_op_infer *infer)
{
    const function_attr *attr = infer->attr;

    if ((unsigned)attr->function >= CERO_KERNEL_ACTIVATIONS) {
        return CERO_FAIL(CERO_ERR_INVALID, "function %d is unknown", (int)attr->function);
    }
    CERO_TRY(cero_op_check_float(infer, 0, infer->input[0].shape.ndim));
    cero_op_set_output(infer, 0, infer->input[0].dtype, infer->input[0].shape);
    return CERO_OK;
}

static cero_status function_run(const cero_op_run *run)
{
    const function_attr *attr = run->attr;
    const cero_tensor_desc *d = &run->output_desc[0];

    cero_device_activation_forward(run->device, d->dtype, (int)attr->function,
                                   cero_shape_numel(&d->shape), run->input[0], run->output[0]);
    return CERO_OK;
}

/* inputs: x, dy */
static cero_status function_grad_infer(cero_op_infer *infer)
{
    CERO_TRY(cero_op_check_float(infer, 0, infer->input[0].shape.ndim));
    CERO_TRY(cero_op_check_desc(infer, 1, infer->input[0].dtype, infer->input[0].shape));
    cero_op_set_output(infer, 0, infer->input[0].dtype, infer->input[0].shape);
    infer->in_place[0] = 2;
    return CERO_OK;
}

static cero_status function_grad_run(const cero_op_run *run)
{
    const function_attr *attr = run->attr;
    const cero_tensor_desc *d = &run->output_desc[0];

    cero_device_activation_backward(run->device, d->dtype, (int)attr->function,
                                    cero_shape_numel(&d->shape), run->input[0], run->input[1],
                                    run->output[0]);
    return CERO_OK;
}

static const cero_op function_grad_op = {.name = "function_grad",
                                         .attr_size = sizeof(function_attr),
                                         .infer = function_grad_infer,
                                         .run = function_grad_run};

static cero_status function_differentiate(cero_graph *graph, const cero_node *node)
{
    cero_value *x = cero_node_input(node, 0);
    cero_value *dy = cero_graph_grad(graph, cero_node_output(node, 0));

    return cero_graph_add_grad(graph, x,
                               cero_graph_append(graph, &function_grad_op, cero_node_attr(node),
                                                 (cero_value *[]){x, dy}, 2, NULL));
}

static const cero_op function_op = {.name = "function",
                                    .attr_size = sizeof(function_attr),
                                    .infer = function_infer,
                                    .differentiate = function_differentiate,
                                    .run = function_run};

cero_value *cero_graph_apply_function(cero_graph *graph, cero_value *x, cero_function function)
{
    return cero_graph_append(graph, &function_op, &(function_attr){.function = function}, &x, 1,
                             NULL);
}
