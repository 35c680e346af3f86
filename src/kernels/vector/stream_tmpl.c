/* SPDX-License-Identifier: Apache-2.0 */
/* Sums of f32 arrays at the speed of memory. */

static void FN(triad)(int64_t n, float s, const float *b, const float *c, float *a)
{
    vec factor = vec_set(s);
    int64_t i = 0;

    for (; i + VEC_WIDTH <= n; i += VEC_WIDTH) {
        store_f32(a + i, vec_fma(factor, load_f32(c + i), load_f32(b + i)));
    }
    if (i < n) {
        int64_t m = n - i;
        store_part_f32(a + i, m, vec_fma(factor, load_part_f32(c + i, m), load_part_f32(b + i, m)));
    }
}

static void FN(axpy)(int64_t n, float s, const float *x, float *y)
{
    FN(triad)(n, s, y, x, y);
}

static void FN(fill)(cero_kernels *k)
{
    k->axpy = FN(axpy);
    k->triad = FN(triad);
}
