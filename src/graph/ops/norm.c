/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Layer normalisation (Ba, Kiros, Hinton 2016) and RMS normalisation (Zhang, Sennrich 2019) over rows.
 * Statistics are kept in f32 for backward.
 */
#include "graph/ops/ops.h"

typedef struct norm_attr {
    bool is_rms;
    double eps;
} norm_attr;

/* inputs: x [rows, cols], gamma [cols], optional beta [cols]; outputs: y, rstd [rows], mean [rows] */
static cero_status norm_infer(cero_op_infer *infer)
{
    const norm_attr *attr = infer->attr;

    CERO_TRY(cero_op_check_float(infer, 0, 2));
    const cero_tensor_desc *x = &infer->input[0];
    int64_t rows = x->shape.dim[0];
    int64_t cols = x->shape.dim[1];

    for (int i = 1; i < infer->input_count; i++) {
        CERO_TRY(cero_op_check_desc(infer, i, x->dtype, cero_shape_1d(cols)));
    }
    cero_op_set_output(infer, 0, x->dtype, x->shape);
    cero_op_set_output(infer, 1, CERO_DTYPE_F32, cero_shape_1d(rows));
    if (!attr->is_rms) {
        cero_op_set_output(infer, 2, CERO_DTYPE_F32, cero_shape_1d(rows));
    }
    return CERO_OK;
}

static cero_norm_args args_of(const cero_op_run *run, const cero_tensor_desc *x)
{
    const norm_attr *attr = run->attr;

    return (cero_norm_args){.dtype = x->dtype,
                            .is_rms = attr->is_rms,
                            .rows = x->shape.dim[0],
                            .cols = x->shape.dim[1],
                            .eps = (float)attr->eps,
                            .scratch = run->scratch};
}

static cero_status norm_run(const cero_op_run *run)
{
    cero_norm_args args = args_of(run, &run->input_desc[0]);

    args.x = run->input[0];
    args.gamma = run->input[1];
    args.beta = run->input[2];
    args.y = run->output[0];
    args.rstd = run->output[1];
    args.mean = run->output[2];
    cero_device_norm_forward(run->device, &args);
    return CERO_OK;
}

/* inputs: dy, x, gamma, rstd, optional mean; outputs: dx, dgamma, optional dbeta */
static cero_status norm_grad_infer(cero_op_infer *infer)
{
    const norm_attr *attr = infer->attr;
    const cero_tensor_desc *x = &infer->input[1];
    int64_t cols = x->shape.dim[1];

    cero_op_set_output(infer, 0, x->dtype, x->shape);
    cero_op_set_output(infer, 1, x->dtype, cero_shape_1d(cols));
    if (!attr->is_rms) {
        cero_op_set_output(infer, 2, x->dtype, cero_shape_1d(cols));
    }
    infer->scratch_bytes = cero_device_norm_scratch(x->shape.dim[0], cols);
    return CERO_OK;
}

static cero_status norm_grad_run(const cero_op_run *run)
{
    cero_norm_args args = args_of(run, &run->input_desc[1]);

    args.dy = run->input[0];
    args.x = run->input[1];
    args.gamma = run->input[2];
    args.rstd = run->input[3];
    args.mean = run->input[4];
    args.dx = run->output[0];
    args.dgamma = run->output[1];
    args.dbeta = run->output[2];
    cero_device_norm_backward(run->device, &args);
    return CERO_OK;
}

static const cero_op norm_grad_op = {.name = "norm_grad",
                                     .attr_size = sizeof(norm_attr),
                                     .infer = norm_grad_infer,
                                     .run = norm_grad_run};

static cero_status norm_differentiate(cero_graph *graph, const cero_node *node)
{
    cero_value *x = cero_node_input(node, 0);
    cero_value *gamma = cero_node_input(node, 1);
    cero_value *beta = cero_node_input(node, 2);
    cero_value *dy = cero_graph_grad(graph, cero_node_output(node, 0));
    cero_value *grads[CERO_MAX_OUTPUTS] = {0};

    (void)cero_graph_append(
        graph, &norm_grad_op, cero_node_attr(node),
        (cero_value *[]){dy, x, gamma, cero_node_output(node, 1), cero_node_output(node, 2)}, 5,
        grads);
    CERO_TRY(cero_graph_add_grad(graph, x, grads[0]));
    CERO_TRY(cero_graph_add_grad(graph, gamma, grads[1]));
    return beta == NULL ? CERO_OK : cero_graph_add_grad(graph, beta, grads[2]);
}

static const cero_op norm_op = {.name = "norm",
                                .attr_size = sizeof(norm_attr),
                                .infer = norm_infer,
                                .differentiate = norm_differentiate,
                                .run = norm_run};

cero_value *cero_graph_layernorm(cero_graph *graph, cero_value *x, cero_value *gamma,
                                 cero_value *beta, double eps)
{
    return cero_graph_append(graph, &norm_op, &(norm_attr){.is_rms = false, .eps = eps},
                             (cero_value *[]){x, gamma, beta}, 3, NULL);
}

cero_value *cero_graph_rmsnorm(cero_graph *graph, cero_value *x, cero_value *gamma, double eps)
{
    return cero_graph_append(graph, &norm_op, &(norm_attr){.is_rms = true, .eps = eps},
                             (cero_value *[]){x, gamma}, 2, NULL);
}
