/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rotary positions (Su et al., "RoFormer", 2021) in Hugging Face's half-split layout: pairs are (d,
 * d + head_dim / 2). Tables are f32 constants; backward rotates the other way.
 */
#include "graph/ops/ops.h"

typedef struct rotary_attr {
    int64_t seq_len;
    int64_t head_dim;
    bool is_backward;
} rotary_attr;

/* inputs: x [rows, heads * head_dim], cos, sin [positions, head_dim / 2] f32 */
static cero_status rotary_infer(cero_op_infer *infer)
{
    const rotary_attr *attr = infer->attr;

    CERO_TRY(cero_op_check_float(infer, 0, 2));
    const cero_tensor_desc *x = &infer->input[0];
    if (attr->head_dim <= 0 || attr->head_dim % 2 != 0 || x->shape.dim[1] % attr->head_dim != 0 ||
        attr->seq_len <= 0 || x->shape.dim[0] % attr->seq_len != 0) {
        return CERO_FAIL(CERO_ERR_SHAPE,
                         "%lld rows of %lld elements: expected whole sequences of %lld and whole "
                         "heads of an even size (%lld)",
                         (long long)x->shape.dim[0], (long long)x->shape.dim[1],
                         (long long)attr->seq_len, (long long)attr->head_dim);
    }
    int64_t positions = infer->input[1].shape.dim[0];
    if (positions < attr->seq_len) {
        return CERO_FAIL(CERO_ERR_SHAPE, "a table of %lld positions for sequences of %lld",
                         (long long)positions, (long long)attr->seq_len);
    }
    cero_shape table = cero_shape_2d(positions, attr->head_dim / 2);
    CERO_TRY(cero_op_check_desc(infer, 1, CERO_DTYPE_F32, table));
    CERO_TRY(cero_op_check_desc(infer, 2, CERO_DTYPE_F32, table));
    cero_op_set_output(infer, 0, x->dtype, x->shape);
    infer->in_place[0] = 1;
    return CERO_OK;
}

static cero_status rotary_run(const cero_op_run *run)
{
    const rotary_attr *attr = run->attr;
    const cero_shape *shape = &run->input_desc[0].shape;
    cero_rotary_args args = {
        .dtype = run->input_desc[0].dtype,
        .batch = shape->dim[0] / attr->seq_len,
        .seq_len = attr->seq_len,
        .heads = shape->dim[1] / attr->head_dim,
        .head_dim = attr->head_dim,
        .position = run->env->position,
        .is_backward = attr->is_backward,
        .cos = run->input[1],
        .sin = run->input[2],
        .x = run->input[0],
        .y = run->output[0],
    };

    cero_device_rotary(run->device, &args);
    return CERO_OK;
}

static cero_status rotary_differentiate(cero_graph *graph, const cero_node *node);

static const cero_op rotary_op = {.name = "rotary",
                                  .attr_size = sizeof(rotary_attr),
                                  .infer = rotary_infer,
                                  .differentiate = rotary_differentiate,
                                  .run = rotary_run};

static cero_status rotary_differentiate(cero_graph *graph, const cero_node *node)
{
    rotary_attr attr = *(const rotary_attr *)cero_node_attr(node);
    cero_value *dy = cero_graph_grad(graph, cero_node_output(node, 0));

    attr.is_backward = !attr.is_backward;
    return cero_graph_add_grad(
        graph, cero_node_input(node, 0),
        cero_graph_append(graph, &rotary_op, &attr,
                          (cero_value *[]){dy, cero_node_input(node, 1), cero_node_input(node, 2)},
                          3, NULL));
}

cero_value *cero_graph_rotary(cero_graph *graph, cero_value *x, cero_value *cos, cero_value *sin,
                              int64_t seq_len, int64_t head_dim)
{
    return cero_graph_append(graph, &rotary_op,
                             &(rotary_attr){.seq_len = seq_len, .head_dim = head_dim},
                             (cero_value *[]){x, cos, sin}, 3, NULL);
}
