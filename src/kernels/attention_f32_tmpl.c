/* SPDX-License-Identifier: Apache-2.0 */
/* Products of f32 for attention_blocks_tmpl.c, whatever the storage: a step is one number. */
#define PAIR 1

INLINE vf vf_dot(vf acc, vf a, vf b)
{
    return vf_fma(a, b, acc);
}

INLINE vf load_along(cero_dtype dtype, const void *row, int64_t at, int64_t count)
{
    return load_f32(dtype, row, at, count);
}

INLINE vf load_across(cero_dtype dtype, const void *row, const void *next, int64_t at,
                      int64_t count)
{
    CERO_UNUSED(next);
    return load_f32(dtype, row, at, count);
}

INLINE void put_along(float *to, const vf x[2])
{
    vf_store(to, x[0]);
    vf_store(to + LANES, x[1]);
}

INLINE void put_across(float *to, const vf even[2], const vf odd[2])
{
    put_along(to, even);
    put_along(to + 2 * LANES, odd);
}
