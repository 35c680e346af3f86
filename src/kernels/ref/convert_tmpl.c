/* SPDX-License-Identifier: Apache-2.0 */
/* Conversions and sums into f32, for one dtype. */

static void FN(to_f32)(int64_t n, const void *x, float *y)
{
    const ELEMENT *from = x;

    for (int64_t i = 0; i < n; i++) {
        y[i] = LOAD(from + i);
    }
}

static void FN(from_f32)(int64_t n, const float *x, void *y)
{
    ELEMENT *to = y;

    for (int64_t i = 0; i < n; i++) {
        STORE(to + i, x[i]);
    }
}

static void FN(accumulate)(int64_t n, const void *x, float *acc)
{
    const ELEMENT *from = x;

    for (int64_t i = 0; i < n; i++) {
        acc[i] += LOAD(from + i);
    }
}

static void FN(fill)(cero_kernels *k)
{
    k->to_f32[DTYPE_INDEX] = FN(to_f32);
    k->from_f32[DTYPE_INDEX] = FN(from_f32);
    k->accumulate[DTYPE_INDEX] = FN(accumulate);
}
