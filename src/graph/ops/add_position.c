/* SPDX-License-Identifier: Apache-2.0 */
/* Learned positions: adds row (position + r % seq_len) of a table to row r. */
#include "graph/ops/ops.h"

typedef struct position_attr {
    int64_t seq_len;
    int64_t positions; /* rows of the table */
} position_attr;

/* inputs: x [rows, cols], table [positions, cols] */
static cero_status position_infer(cero_op_infer *infer)
{
    const position_attr *attr = infer->attr;

    CERO_TRY(cero_op_check_float(infer, 0, 2));
    const cero_tensor_desc *x = &infer->input[0];
    CERO_TRY(
        cero_op_check_desc(infer, 1, x->dtype, cero_shape_2d(attr->positions, x->shape.dim[1])));
    if (attr->seq_len <= 0 || attr->seq_len > attr->positions ||
        x->shape.dim[0] % attr->seq_len != 0) {
        return CERO_FAIL(CERO_ERR_SHAPE,
                         "%lld rows as sequences of %lld with %lld positions: expected whole "
                         "sequences that are no longer than the table",
                         (long long)x->shape.dim[0], (long long)attr->seq_len,
                         (long long)attr->positions);
    }
    cero_op_set_output(infer, 0, x->dtype, x->shape);
    infer->in_place[0] = 1;
    return CERO_OK;
}

static cero_status position_run(const cero_op_run *run)
{
    const position_attr *attr = run->attr;
    const cero_tensor_desc *x = &run->input_desc[0];
    size_t row_bytes = (size_t)x->shape.dim[1] * cero_dtype_size(x->dtype);
    size_t block_bytes = row_bytes * (size_t)attr->seq_len;
    const char *table = (const char *)run->input[1] + (size_t)run->env->position * row_bytes;

    for (int64_t s = 0; s < x->shape.dim[0] / attr->seq_len; s++) {
        size_t at = (size_t)s * block_bytes;
        cero_device_add(run->device, x->dtype, attr->seq_len * x->shape.dim[1],
                        (const char *)run->input[0] + at, table, (char *)run->output[0] + at);
    }
    return CERO_OK;
}

/* inputs: dy [rows, cols]; output: [positions, cols], sequences added in order */
static cero_status position_grad_infer(cero_op_infer *infer)
{
    const position_attr *attr = infer->attr;
    int64_t cols = infer->input[0].shape.dim[1];

    cero_op_set_output(infer, 0, infer->input[0].dtype, cero_shape_2d(attr->positions, cols));
    infer->scratch_bytes = (size_t)(attr->seq_len * cols) * sizeof(float);
    return CERO_OK;
}

static cero_status position_grad_run(const cero_op_run *run)
{
    const position_attr *attr = run->attr;
    const cero_tensor_desc *dy = &run->input_desc[0];
    int64_t block = attr->seq_len * dy->shape.dim[1];
    int64_t rest = (attr->positions - attr->seq_len) * dy->shape.dim[1];
    size_t block_bytes = (size_t)block * cero_dtype_size(dy->dtype);
    float *sum = run->scratch;

    cero_device_to_f32(run->device, dy->dtype, block, run->input[0], sum);
    for (int64_t s = 1; s < dy->shape.dim[0] / attr->seq_len; s++) {
        cero_device_accumulate(run->device, dy->dtype, block,
                               (const char *)run->input[0] + (size_t)s * block_bytes, sum);
    }
    cero_device_from_f32(run->device, dy->dtype, block, sum, run->output[0]);
    cero_device_fill(run->device, dy->dtype, rest, 0, (char *)run->output[0] + block_bytes);
    return CERO_OK;
}

static const cero_op position_grad_op = {.name = "add_position_grad",
                                         .attr_size = sizeof(position_attr),
                                         .infer = position_grad_infer,
                                         .run = position_grad_run};

static cero_status position_differentiate(cero_graph *graph, const cero_node *node)
{
    cero_value *table = cero_node_input(node, 1);
    cero_value *dy = cero_graph_grad(graph, cero_node_output(node, 0));

    CERO_TRY(cero_graph_add_grad(graph, cero_node_input(node, 0), dy));
    if (!cero_graph_needs_grad(graph, table)) {
        return CERO_OK;
    }
    return cero_graph_add_grad(
        graph, table,
        cero_graph_append(graph, &position_grad_op, cero_node_attr(node), &dy, 1, NULL));
}

static const cero_op position_op = {.name = "add_position",
                                    .attr_size = sizeof(position_attr),
                                    .infer = position_infer,
                                    .differentiate = position_differentiate,
                                    .run = position_run};

cero_value *cero_graph_add_position(cero_graph *graph, cero_value *x, cero_value *table,
                                    int64_t seq_len)
{
    position_attr attr = {.seq_len = seq_len,
                          .positions = table == NULL ? 0 : table->desc.shape.dim[0]};
    return cero_graph_append(graph, &position_op, &attr, (cero_value *[]){x, table}, 2, NULL);
}
