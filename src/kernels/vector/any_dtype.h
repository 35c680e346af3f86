/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loads and stores whose dtype is an argument, for templates that are not compiled once for each dtype.
 *
 * Included after the vec_<isa>.h of an instruction set; where the dtype is a constant, only its branch
 * is left. There is no include guard: it is a template that each file compiles once with its own vectors.
 */

/* Elements from at on as f32, `count` of them or VEC_WIDTH if that is less; what is not loaded is 0. */
KERNEL_INLINE vec load_any(cero_dtype dtype, const void *x, int64_t at, int64_t count)
{
    int64_t m = count < VEC_WIDTH ? count : VEC_WIDTH;

    if (dtype == CERO_DTYPE_F32) {
        return load_part_f32((const float *)x + at, m);
    }
    const uint16_t *half = (const uint16_t *)x + at;
    return dtype == CERO_DTYPE_F16 ? load_part_f16(half, m) : load_part_bf16(half, m);
}

/* Writes the first `count` lanes, or all if there are fewer, to elements from at on. */
KERNEL_INLINE void store_any(cero_dtype dtype, void *y, int64_t at, int64_t count, vec x)
{
    int64_t m = count < VEC_WIDTH ? count : VEC_WIDTH;

    if (dtype == CERO_DTYPE_F32) {
        store_part_f32((float *)y + at, m, x);
    } else if (dtype == CERO_DTYPE_F16) {
        store_part_f16((uint16_t *)y + at, m, x);
    } else {
        store_part_bf16((uint16_t *)y + at, m, x);
    }
}
