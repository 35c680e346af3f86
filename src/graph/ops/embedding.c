/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows of a table by id. The gradient of a table is added up in f32 in the order of the rows; when the
 * table is also the output head (tying), it is added onto the head's gradient in place.
 */
#include "graph/ops/ops.h"

/* inputs: ids [rows] i32, table [count, cols] */
static cero_status embedding_infer(cero_op_infer *infer)
{
    int64_t rows = infer->input[0].shape.dim[0];

    CERO_TRY(cero_op_check_desc(infer, 0, CERO_DTYPE_I32, cero_shape_1d(rows)));
    CERO_TRY(cero_op_check_float(infer, 1, 2));
    cero_op_set_output(infer, 0, infer->input[1].dtype,
                       cero_shape_2d(rows, infer->input[1].shape.dim[1]));
    return CERO_OK;
}

static cero_status embedding_run(const cero_op_run *run)
{
    const cero_tensor_desc *table = &run->input_desc[1];

    cero_device_embedding_forward(run->device, table->dtype, run->input_desc[0].shape.dim[0],
                                  table->shape.dim[1], run->input[0], run->input[1],
                                  run->output[0]);
    return CERO_OK;
}

typedef struct embedding_grad_attr {
    int64_t count; /* rows of the table */
} embedding_grad_attr;

/* inputs: ids, dy [rows, cols], optional gradient so far [count, cols] f32 */
static cero_status embedding_grad_infer(cero_op_infer *infer)
{
    const embedding_grad_attr *attr = infer->attr;
    cero_shape shape = cero_shape_2d(attr->count, infer->input[1].shape.dim[1]);

    if (infer->input_count > 2) {
        CERO_TRY(cero_op_check_desc(infer, 2, CERO_DTYPE_F32, shape));
        infer->in_place[0] = 3;
    }
    cero_op_set_output(infer, 0, CERO_DTYPE_F32, shape);
    return CERO_OK;
}

static cero_status embedding_grad_run(const cero_op_run *run)
{
    const cero_tensor_desc *dy = &run->input_desc[1];
    int64_t numel = cero_shape_numel(&run->output_desc[0].shape);
    const void *so_far = run->input[2];

    if (so_far == NULL) {
        cero_device_fill(run->device, CERO_DTYPE_F32, numel, 0, run->output[0]);
    } else if (so_far != run->output[0]) {
        cero_device_convert(run->device, CERO_DTYPE_F32, CERO_DTYPE_F32, numel, so_far,
                            run->output[0]);
    }
    cero_device_embedding_backward(run->device, dy->dtype, dy->shape.dim[0], dy->shape.dim[1],
                                   run->input[0], run->input[1], run->output[0]);
    return CERO_OK;
}

static const cero_op embedding_grad_op = {.name = "embedding_grad",
                                          .attr_size = sizeof(embedding_grad_attr),
                                          .infer = embedding_grad_infer,
                                          .run = embedding_grad_run};

static cero_status embedding_differentiate(cero_graph *graph, const cero_node *node)
{
    cero_value *table = cero_node_input(node, 1);
    cero_value *dy = cero_graph_grad(graph, cero_node_output(node, 0));
    embedding_grad_attr attr = {.count = cero_value_desc(table).shape.dim[0]};

    if (!cero_graph_needs_grad(graph, table)) {
        return CERO_OK;
    }
    cero_value *so_far = cero_graph_grad(graph, table);
    so_far = so_far == NULL ? NULL : cero_graph_cast(graph, so_far, CERO_DTYPE_F32);
    cero_value *grad =
        cero_graph_append(graph, &embedding_grad_op, &attr,
                          (cero_value *[]){cero_node_input(node, 0), dy, so_far}, 3, NULL);
    cero_graph_set_grad(graph, table, grad);
    return cero_graph_status(graph);
}

static const cero_op embedding_op = {.name = "embedding",
                                     .infer = embedding_infer,
                                     .differentiate = embedding_differentiate,
                                     .run = embedding_run};

cero_value *cero_graph_embedding(cero_graph *graph, cero_value *ids, cero_value *table)
{
    return cero_graph_append(graph, &embedding_op, NULL, (cero_value *[]){ids, table}, 2, NULL);
}
