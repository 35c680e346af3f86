/* SPDX-License-Identifier: Apache-2.0 */
/* Rotary positions in the half-split layout, for one dtype. */

/* Rotates m <= VEC_WIDTH pairs; the second of each stands `half` elements on. */
KERNEL_INLINE void FN(rotary_step)(int64_t m, int64_t half, const float *cos, const float *sin,
                                   float sin_sign, const ELEMENT *x, ELEMENT *y)
{
    vec a = LOAD_PART(x, m);
    vec b = LOAD_PART(x + half, m);
    vec c = load_part_f32(cos, m);
    vec s = load_part_f32(sin, m) * vec_set(sin_sign);

    STORE_PART(y, m, vec_fnma(b, s, a * c));
    STORE_PART(y + half, m, vec_fma(a, s, b * c));
}

static void FN(rotary)(int64_t heads, int64_t head_dim, const float *cos, const float *sin,
                       float sin_sign, const void *x, void *y)
{
    int64_t half = head_dim / 2;

    for (int64_t h = 0; h < heads; h++) {
        const ELEMENT *from = (const ELEMENT *)x + h * head_dim;
        ELEMENT *to = (ELEMENT *)y + h * head_dim;
        int64_t d = 0;

        for (; d + VEC_WIDTH <= half; d += VEC_WIDTH) {
            FN(rotary_step)(VEC_WIDTH, half, cos + d, sin + d, sin_sign, from + d, to + d);
        }
        if (d < half) {
            FN(rotary_step)(half - d, half, cos + d, sin + d, sin_sign, from + d, to + d);
        }
    }
}

static void FN(fill)(cero_kernels *k)
{
    k->rotary[DTYPE_INDEX] = FN(rotary);
}
