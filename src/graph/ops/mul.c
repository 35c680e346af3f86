/* SPDX-License-Identifier: Apache-2.0 */
/* y = a * b, and y = factor * x. */
#include "graph/ops/ops.h"

static cero_status mul_infer(cero_op_infer *infer)
{
    CERO_TRY(cero_op_check_float(infer, 0, infer->input[0].shape.ndim));
    CERO_TRY(cero_op_check_desc(infer, 1, infer->input[0].dtype, infer->input[0].shape));
    cero_op_set_output(infer, 0, infer->input[0].dtype, infer->input[0].shape);
    infer->in_place[0] = 1;
    return CERO_OK;
}

static cero_status mul_differentiate(cero_graph *graph, const cero_node *node)
{
    cero_value *a = cero_node_input(node, 0);
    cero_value *b = cero_node_input(node, 1);
    cero_value *dy = cero_graph_grad(graph, cero_node_output(node, 0));

    if (cero_graph_needs_grad(graph, a)) {
        CERO_TRY(cero_graph_add_grad(graph, a, cero_graph_mul(graph, dy, b)));
    }
    if (cero_graph_needs_grad(graph, b)) {
        CERO_TRY(cero_graph_add_grad(graph, b, cero_graph_mul(graph, dy, a)));
    }
    return CERO_OK;
}

static cero_status mul_run(const cero_op_run *run)
{
    const cero_tensor_desc *d = &run->output_desc[0];
    cero_device_mul(run->device, d->dtype, cero_shape_numel(&d->shape), run->input[0],
                    run->input[1], run->output[0]);
    return CERO_OK;
}

static const cero_op mul_op = {.name = "mul",
                               .infer = mul_infer,
                               .differentiate = mul_differentiate,
                               .run = mul_run};

cero_value *cero_graph_mul(cero_graph *graph, cero_value *a, cero_value *b)
{
    return cero_graph_append(graph, &mul_op, NULL, (cero_value *[]){a, b}, 2, NULL);
}

typedef struct scale_attr {
    double factor;
} scale_attr;

static cero_status scale_infer(cero_op_infer *infer)
{
    CERO_TRY(cero_op_check_float(infer, 0, infer->input[0].shape.ndim));
    cero_op_set_output(infer, 0, infer->input[0].dtype, infer->input[0].shape);
    infer->in_place[0] = 1;
    return CERO_OK;
}

static cero_status scale_differentiate(cero_graph *graph, const cero_node *node)
{
    const scale_attr *attr = cero_node_attr(node);
    cero_value *dy = cero_graph_grad(graph, cero_node_output(node, 0));

    return cero_graph_add_grad(graph, cero_node_input(node, 0),
                               cero_graph_scale(graph, dy, attr->factor));
}

static cero_status scale_run(const cero_op_run *run)
{
    const scale_attr *attr = run->attr;
    const cero_tensor_desc *d = &run->output_desc[0];

    cero_device_scale(run->device, d->dtype, cero_shape_numel(&d->shape), (float)attr->factor,
                      run->input[0], run->output[0]);
    return CERO_OK;
}

static const cero_op scale_op = {.name = "scale",
                                 .attr_size = sizeof(scale_attr),
                                 .infer = scale_infer,
                                 .differentiate = scale_differentiate,
                                 .run = scale_run};

cero_value *cero_graph_scale(cero_graph *graph, cero_value *x, double factor)
{
    return cero_graph_append(graph, &scale_op, &(scale_attr){.factor = factor}, &x, 1, NULL);
}
