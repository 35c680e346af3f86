/* SPDX-License-Identifier: Apache-2.0 */
/* The last rows of a matrix: what generation needs of a prompt. Not differentiated. */
#include "graph/ops/ops.h"

#include <string.h>

typedef struct last_rows_attr {
    int64_t count;
} last_rows_attr;

static cero_status last_rows_infer(cero_op_infer *infer)
{
    const last_rows_attr *attr = infer->attr;

    CERO_TRY(cero_op_check_float(infer, 0, 2));
    const cero_tensor_desc *x = &infer->input[0];
    if (attr->count < 1 || attr->count > x->shape.dim[0]) {
        return CERO_FAIL(CERO_ERR_SHAPE, "last %lld rows of %lld", (long long)attr->count,
                         (long long)x->shape.dim[0]);
    }
    cero_op_set_output(infer, 0, x->dtype, cero_shape_2d(attr->count, x->shape.dim[1]));
    return CERO_OK;
}

static cero_status last_rows_run(const cero_op_run *run)
{
    const last_rows_attr *attr = run->attr;
    const cero_tensor_desc *x = &run->input_desc[0];
    size_t row_bytes = (size_t)x->shape.dim[1] * cero_dtype_size(x->dtype);
    size_t skip = (size_t)(x->shape.dim[0] - attr->count) * row_bytes;

    memcpy(run->output[0], (const char *)run->input[0] + skip, (size_t)attr->count * row_bytes);
    return CERO_OK;
}

static const cero_op last_rows_op = {.name = "last_rows",
                                     .attr_size = sizeof(last_rows_attr),
                                     .infer = last_rows_infer,
                                     .run = last_rows_run};

cero_value *cero_graph_last_rows(cero_graph *graph, cero_value *x, int64_t count)
{
    return cero_graph_append(graph, &last_rows_op, &(last_rows_attr){.count = count}, &x, 1, NULL);
}
