/* SPDX-License-Identifier: Apache-2.0 */
/* Products of f32 for attention_blocks_tmpl.c, whatever the storage: a step is one number. */
#include "kernels/vector/any_dtype.h"

#define PAIR 1

KERNEL_INLINE vec vec_dot(vec acc, vec a, vec b)
{
    return vec_fma(a, b, acc);
}

KERNEL_INLINE vec load_along(cero_dtype dtype, const void *row, int64_t at, int64_t count)
{
    return load_any(dtype, row, at, count);
}

KERNEL_INLINE vec load_across(cero_dtype dtype, const void *row, const void *next, int64_t at,
                              int64_t count)
{
    CERO_UNUSED(next);
    return load_any(dtype, row, at, count);
}

KERNEL_INLINE void put_along(float *to, const vec x[2])
{
    store_f32(to, x[0]);
    store_f32(to + VEC_WIDTH, x[1]);
}

KERNEL_INLINE void put_across(float *to, const vec even[2], const vec odd[2])
{
    put_along(to, even);
    put_along(to + 2 * VEC_WIDTH, odd);
}
