/* SPDX-License-Identifier: Apache-2.0 */
/*
 * y = x W (+ b) with W stored [in, out] (GPT-2's Conv1D) or [out, in] (torch.nn.Linear).
 *
 * Backward is three nodes, so that each can be dropped when its result is not wanted: dx = dy W^T,
 * dW = x^T dy (stored as W is), db = column sums of dy.
 */
#include "graph/ops/ops.h"

typedef struct linear_attr {
    bool is_out_in;
    const cero_matmul *matmul; /* planned by infer */
} linear_attr;

static cero_status plan(cero_op_infer *infer, const cero_matmul_desc *desc)
{
    linear_attr *attr = infer->attr;

    CERO_TRY(cero_device_matmul_plan(infer->device, desc, &attr->matmul));
    infer->scratch_bytes = cero_matmul_scratch(attr->matmul);
    return CERO_OK;
}

/* inputs: x [rows, in], W, optional b [out] */
static cero_status linear_infer(cero_op_infer *infer)
{
    const linear_attr *attr = infer->attr;
    char text[2][128];

    CERO_TRY(cero_op_check_float(infer, 0, 2));
    CERO_TRY(cero_op_check_float(infer, 1, 2));
    const cero_tensor_desc *x = &infer->input[0];
    const cero_tensor_desc *w = &infer->input[1];
    int64_t in = w->shape.dim[attr->is_out_in ? 1 : 0];
    int64_t out = w->shape.dim[attr->is_out_in ? 0 : 1];

    if (x->shape.dim[1] != in || x->dtype != w->dtype) {
        return CERO_FAIL(
            CERO_ERR_SHAPE, "input %s %s and weight %s %s (stored %s) do not fit together",
            cero_dtype_name(x->dtype), cero_shape_format(&x->shape, text[0], sizeof(text[0])),
            cero_dtype_name(w->dtype), cero_shape_format(&w->shape, text[1], sizeof(text[1])),
            attr->is_out_in ? "[out, in]" : "[in, out]");
    }
    if (infer->input_count > 2) {
        CERO_TRY(cero_op_check_desc(infer, 2, x->dtype, cero_shape_1d(out)));
    }
    cero_op_set_output(infer, 0, x->dtype, cero_shape_2d(x->shape.dim[0], out));
    return plan(infer, &(cero_matmul_desc){.M = x->shape.dim[0],
                                           .N = out,
                                           .K = in,
                                           .is_b_transposed = attr->is_out_in,
                                           .has_bias = infer->input_count > 2,
                                           .ab_dtype = x->dtype,
                                           .c_dtype = x->dtype});
}

static cero_status linear_run(const cero_op_run *run)
{
    const linear_attr *attr = run->attr;
    bool has_bias = run->input_desc[2].shape.ndim == 1;

    return cero_device_matmul_run(run->device, attr->matmul, run->input[0], run->input[1],
                                  has_bias ? run->input[2] : NULL, run->output[0], run->scratch);
}

static void linear_cost(const void *attr, const cero_tensor_desc *input,
                        const cero_tensor_desc *output, cero_cost *cost)
{
    CERO_UNUSED(attr);
    // Forward: in is x's width. The gradients multiply the same three sizes.
    cost->flops = 2.0 * (double)cero_shape_numel(&output->shape) * (double)input[0].shape.dim[1];
}

/* inputs: dy [rows, out], W */
static cero_status grad_input_infer(cero_op_infer *infer)
{
    const linear_attr *attr = infer->attr;
    const cero_tensor_desc *dy = &infer->input[0];
    const cero_tensor_desc *w = &infer->input[1];
    int64_t in = w->shape.dim[attr->is_out_in ? 1 : 0];

    cero_op_set_output(infer, 0, dy->dtype, cero_shape_2d(dy->shape.dim[0], in));
    return plan(infer, &(cero_matmul_desc){.M = dy->shape.dim[0],
                                           .N = in,
                                           .K = dy->shape.dim[1],
                                           .is_b_transposed = !attr->is_out_in,
                                           .ab_dtype = dy->dtype,
                                           .c_dtype = dy->dtype});
}

static const cero_op grad_input_op = {.name = "linear_grad_input",
                                      .attr_size = sizeof(linear_attr),
                                      .infer = grad_input_infer,
                                      .run = linear_run,
                                      .cost = linear_cost};

/* inputs: x [rows, in], dy [rows, out] */
static cero_status grad_weight_infer(cero_op_infer *infer)
{
    const linear_attr *attr = infer->attr;
    const cero_tensor_desc *x = &infer->input[0];
    const cero_tensor_desc *dy = &infer->input[1];
    int64_t in = x->shape.dim[1];
    int64_t out = dy->shape.dim[1];

    cero_op_set_output(infer, 0, x->dtype,
                       attr->is_out_in ? cero_shape_2d(out, in) : cero_shape_2d(in, out));
    return plan(infer, &(cero_matmul_desc){.M = attr->is_out_in ? out : in,
                                           .N = attr->is_out_in ? in : out,
                                           .K = x->shape.dim[0],
                                           .is_a_transposed = true,
                                           .ab_dtype = x->dtype,
                                           .c_dtype = x->dtype});
}

static cero_status grad_weight_run(const cero_op_run *run)
{
    const linear_attr *attr = run->attr;
    const void *x = run->input[0];
    const void *dy = run->input[1];

    return cero_device_matmul_run(run->device, attr->matmul, attr->is_out_in ? dy : x,
                                  attr->is_out_in ? x : dy, NULL, run->output[0], run->scratch);
}

static void grad_weight_cost(const void *attr, const cero_tensor_desc *input,
                             const cero_tensor_desc *output, cero_cost *cost)
{
    CERO_UNUSED(attr);
    cost->flops = 2.0 * (double)cero_shape_numel(&output->shape) * (double)input[0].shape.dim[0];
}

static const cero_op grad_weight_op = {.name = "linear_grad_weight",
                                       .attr_size = sizeof(linear_attr),
                                       .infer = grad_weight_infer,
                                       .run = grad_weight_run,
                                       .cost = grad_weight_cost};

static cero_status linear_differentiate(cero_graph *graph, const cero_node *node)
{
    const linear_attr *forward = cero_node_attr(node);
    linear_attr attr = {.is_out_in = forward->is_out_in};
    cero_value *x = cero_node_input(node, 0);
    cero_value *w = cero_node_input(node, 1);
    cero_value *b = cero_node_input(node, 2);
    cero_value *dy = cero_graph_grad(graph, cero_node_output(node, 0));

    if (cero_graph_needs_grad(graph, b)) {
        CERO_TRY(cero_graph_add_grad(graph, b, cero_op_column_sums_append(graph, dy)));
    }
    if (cero_graph_needs_grad(graph, w)) {
        CERO_TRY(cero_graph_add_grad(
            graph, w,
            cero_graph_append(graph, &grad_weight_op, &attr, (cero_value *[]){x, dy}, 2, NULL)));
    }
    if (cero_graph_needs_grad(graph, x)) {
        CERO_TRY(cero_graph_add_grad(
            graph, x,
            cero_graph_append(graph, &grad_input_op, &attr, (cero_value *[]){dy, w}, 2, NULL)));
    }
    return CERO_OK;
}

static const cero_op linear_op = {.name = "linear",
                                  .attr_size = sizeof(linear_attr),
                                  .infer = linear_infer,
                                  .differentiate = linear_differentiate,
                                  .run = linear_run,
                                  .cost = linear_cost};

cero_value *cero_graph_linear(cero_graph *graph, cero_value *x, cero_value *weight,
                              cero_value *bias, bool is_out_in)
{
    return cero_graph_append(graph, &linear_op, &(linear_attr){.is_out_in = is_out_in},
                             (cero_value *[]){x, weight, bias}, 3, NULL);
}
