/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Output head and cross-entropy over row chunks; logits are never whole.
 *
 * Logits would have to be computed twice if backward were a node of its own, so differentiation puts one
 * node in the place of the forward: it gives loss, dx and dW while each chunk of logits is at hand. The
 * plain forward stays for evaluation, and where forward nodes go on from the row losses.
 */
#include "graph/ops/ops.h"

typedef struct head_loss_attr {
    bool is_weight_frozen;
    const cero_head_loss *plan; /* by infer */
} head_loss_attr;

static cero_status check_inputs(const cero_op_infer *infer)
{
    char text[128];

    CERO_TRY(cero_op_check_float(infer, 0, 2));
    CERO_TRY(cero_op_check_float(infer, 1, 2));
    const cero_tensor_desc *x = &infer->input[0];
    const cero_tensor_desc *w = &infer->input[1];
    if (w->dtype != x->dtype || w->shape.dim[1] != x->shape.dim[1]) {
        return CERO_FAIL(CERO_ERR_SHAPE, "weight %s %s: expected %s [vocab, %lld]",
                         cero_dtype_name(w->dtype),
                         cero_shape_format(&w->shape, text, sizeof(text)),
                         cero_dtype_name(x->dtype), (long long)x->shape.dim[1]);
    }
    return cero_op_check_desc(infer, 2, CERO_DTYPE_I32, cero_shape_1d(x->shape.dim[0]));
}

static cero_status plan(cero_op_infer *infer, bool is_backward)
{
    head_loss_attr *attr = infer->attr;
    const cero_tensor_desc *x = &infer->input[0];

    CERO_TRY(cero_device_head_loss_plan(infer->device, x->dtype, x->shape.dim[0], x->shape.dim[1],
                                        infer->input[1].shape.dim[0], is_backward, &attr->plan));
    infer->scratch_bytes = cero_head_loss_scratch(attr->plan);
    cero_op_set_output(infer, 0, CERO_DTYPE_F32, cero_shape_1d(x->shape.dim[0]));
    return CERO_OK;
}

/* inputs: x [rows, cols], weight [vocab, cols], targets [rows] i32; output: row_loss [rows] f32 */
static cero_status head_loss_infer(cero_op_infer *infer)
{
    CERO_TRY(check_inputs(infer));
    return plan(infer, false);
}

static cero_head_loss_args args_of(const cero_op_run *run)
{
    const cero_tensor_desc *x = &run->input_desc[0];

    return (cero_head_loss_args){.dtype = x->dtype,
                                 .rows = x->shape.dim[0],
                                 .cols = x->shape.dim[1],
                                 .vocab = run->input_desc[1].shape.dim[0],
                                 .x = run->input[0],
                                 .weight = run->input[1],
                                 .targets = run->input[2],
                                 .row_loss = run->output[0],
                                 .scratch = run->scratch};
}

static cero_status head_loss_run(const cero_op_run *run)
{
    const head_loss_attr *attr = run->attr;
    cero_head_loss_args args = args_of(run);

    return cero_device_head_loss_run(run->device, attr->plan, &args);
}

static void head_loss_cost(const void *attr, const cero_tensor_desc *input,
                           const cero_tensor_desc *output, cero_cost *cost)
{
    CERO_UNUSED(attr);
    CERO_UNUSED(output);
    cost->flops = 2.0 * (double)input[0].shape.dim[0] * (double)input[0].shape.dim[1] *
                  (double)input[1].shape.dim[0];
}

/* inputs: x, weight, targets, row_grad [rows] f32; outputs: row_loss, dx, optional dweight f32 */
static cero_status head_loss_train_infer(cero_op_infer *infer)
{
    const head_loss_attr *attr = infer->attr;

    CERO_TRY(check_inputs(infer));
    CERO_TRY(plan(infer, true));
    cero_op_set_output(infer, 1, infer->input[0].dtype, infer->input[0].shape);
    if (!attr->is_weight_frozen) {
        cero_op_set_output(infer, 2, CERO_DTYPE_F32, infer->input[1].shape);
    }
    return CERO_OK;
}

static cero_status head_loss_train_run(const cero_op_run *run)
{
    const head_loss_attr *attr = run->attr;
    cero_head_loss_args args = args_of(run);

    args.row_grad = run->input[3];
    args.dx = run->output[1];
    args.dweight = attr->is_weight_frozen ? NULL : run->output[2];
    return cero_device_head_loss_run(run->device, attr->plan, &args);
}

static void head_loss_train_cost(const void *attr, const cero_tensor_desc *input,
                                 const cero_tensor_desc *output, cero_cost *cost)
{
    const head_loss_attr *a = attr;

    head_loss_cost(attr, input, output, cost);
    cost->flops *= a->is_weight_frozen ? 2 : 3;
}

static const cero_op head_loss_train_op = {.name = "head_loss_train",
                                           .attr_size = sizeof(head_loss_attr),
                                           .infer = head_loss_train_infer,
                                           .run = head_loss_train_run,
                                           .cost = head_loss_train_cost};

/* A row loss that comes with backward is too late for nodes of the forward. */
static bool is_read(const cero_graph *graph, const cero_value *value)
{
    for (int64_t i = 0; i < graph->node_count; i++) {
        const cero_node *node = graph->nodes[i];
        for (int k = 0; k < node->input_count; k++) {
            if (node->input[k] == value) {
                return true;
            }
        }
    }
    return false;
}

static cero_status head_loss_differentiate(cero_graph *graph, const cero_node *node)
{
    cero_value *x = cero_node_input(node, 0);
    cero_value *weight = cero_node_input(node, 1);
    cero_value *loss = cero_node_output(node, 0);
    head_loss_attr attr = {.is_weight_frozen = !cero_graph_needs_grad(graph, weight)};
    cero_value *outputs[CERO_MAX_OUTPUTS] = {0};

    (void)cero_graph_append(
        graph, &head_loss_train_op, &attr,
        (cero_value *[]){x, weight, cero_node_input(node, 2), cero_graph_grad(graph, loss)}, 4,
        outputs);
    CERO_TRY(cero_graph_status(graph));
    if (!is_read(graph, loss)) {
        cero_graph_replace_value(graph, loss, outputs[0]);
    }
    CERO_TRY(cero_graph_add_grad(graph, x, outputs[1]));
    return cero_graph_add_grad(graph, weight, outputs[2]);
}

static const cero_op head_loss_op = {.name = "head_loss",
                                     .attr_size = sizeof(head_loss_attr),
                                     .infer = head_loss_infer,
                                     .differentiate = head_loss_differentiate,
                                     .run = head_loss_run,
                                     .cost = head_loss_cost};

cero_value *cero_graph_head_loss(cero_graph *graph, cero_value *x, cero_value *weight,
                                 cero_value *targets)
{
    return cero_graph_append(graph, &head_loss_op, &(head_loss_attr){0},
                             (cero_value *[]){x, weight, targets}, 3, NULL);
}
