/* SPDX-License-Identifier: Apache-2.0 */
/* Conversion between f32, bf16 and f16 (a plain copy when both are the same). */
#include "graph/ops/ops.h"

typedef struct cast_attr {
    cero_dtype dtype;
} cast_attr;

static cero_status cast_infer(cero_op_infer *infer)
{
    const cast_attr *attr = infer->attr;

    CERO_TRY(cero_op_check_float(infer, 0, infer->input[0].shape.ndim));
    if (attr->dtype != CERO_DTYPE_F32 && attr->dtype != CERO_DTYPE_BF16 &&
        attr->dtype != CERO_DTYPE_F16) {
        return CERO_FAIL(CERO_ERR_INVALID, "to %s; expected f32, bf16 or f16",
                         cero_dtype_name(attr->dtype));
    }
    cero_op_set_output(infer, 0, attr->dtype, infer->input[0].shape);
    return CERO_OK;
}

static cero_status cast_differentiate(cero_graph *graph, const cero_node *node)
{
    cero_value *x = cero_node_input(node, 0);
    cero_value *dy = cero_graph_grad(graph, cero_node_output(node, 0));

    return cero_graph_add_grad(graph, x, cero_graph_cast(graph, dy, cero_value_desc(x).dtype));
}

static cero_status cast_run(const cero_op_run *run)
{
    cero_device_convert(run->device, run->input_desc[0].dtype, run->output_desc[0].dtype,
                        cero_shape_numel(&run->input_desc[0].shape), run->input[0], run->output[0]);
    return CERO_OK;
}

static const cero_op cast_op = {.name = "cast",
                                .attr_size = sizeof(cast_attr),
                                .infer = cast_infer,
                                .differentiate = cast_differentiate,
                                .run = cast_run};

cero_value *cero_op_cast_append(cero_graph *graph, cero_value *x, cero_dtype dtype)
{
    return cero_graph_append(graph, &cast_op, &(cast_attr){.dtype = dtype}, &x, 1, NULL);
}

cero_value *cero_graph_cast(cero_graph *graph, cero_value *x, cero_dtype dtype)
{
    if (x == NULL || x->desc.dtype == dtype) {
        return x;
    }
    return cero_op_cast_append(graph, x, dtype);
}
