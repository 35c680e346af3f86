/* SPDX-License-Identifier: Apache-2.0 */
/* The checks that ops share. */
#include "graph/ops/ops.h"

cero_status cero_op_check_float(const cero_op_infer *infer, int i, int ndim)
{
    char text[128];
    const cero_tensor_desc *d = &infer->input[i];
    bool is_float =
        d->dtype == CERO_DTYPE_F32 || d->dtype == CERO_DTYPE_BF16 || d->dtype == CERO_DTYPE_F16;

    if (i >= infer->input_count || !is_float || d->shape.ndim != ndim) {
        return CERO_FAIL(CERO_ERR_SHAPE,
                         "input %d is %s %s; expected %d dimensions of f32, bf16 or f16", i,
                         i < infer->input_count ? cero_dtype_name(d->dtype) : "missing",
                         cero_shape_format(&d->shape, text, sizeof(text)), ndim);
    }
    return CERO_OK;
}

cero_status cero_op_check_desc(const cero_op_infer *infer, int i, cero_dtype dtype,
                               cero_shape shape)
{
    char found[128];
    char expected[128];
    const cero_tensor_desc *d = &infer->input[i];

    if (i >= infer->input_count || d->dtype != dtype || !cero_shape_equal(&d->shape, &shape)) {
        return CERO_FAIL(CERO_ERR_SHAPE, "input %d is %s %s; expected %s %s", i,
                         i < infer->input_count ? cero_dtype_name(d->dtype) : "missing",
                         cero_shape_format(&d->shape, found, sizeof(found)), cero_dtype_name(dtype),
                         cero_shape_format(&shape, expected, sizeof(expected)));
    }
    return CERO_OK;
}

void cero_op_set_output(cero_op_infer *infer, int k, cero_dtype dtype, cero_shape shape)
{
    infer->output[k] = (cero_tensor_desc){.dtype = dtype, .shape = shape};
    if (infer->output_count <= k) {
        infer->output_count = k + 1;
    }
}
