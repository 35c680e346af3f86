/* SPDX-License-Identifier: Apache-2.0 */
/* Conversions and sums into f32, for one dtype. */

static void FN(to_f32)(int64_t n, const void *x, float *y)
{
    const ELEMENT *from = x;
    int64_t i = 0;

    for (; i + VEC_WIDTH <= n; i += VEC_WIDTH) {
        store_f32(y + i, LOAD(from + i));
    }
    if (i < n) {
        store_part_f32(y + i, n - i, LOAD_PART(from + i, n - i));
    }
}

static void FN(from_f32)(int64_t n, const float *x, void *y)
{
    ELEMENT *to = y;
    int64_t i = 0;

    for (; i + VEC_WIDTH <= n; i += VEC_WIDTH) {
        STORE(to + i, load_f32(x + i));
    }
    if (i < n) {
        STORE_PART(to + i, n - i, load_part_f32(x + i, n - i));
    }
}

static void FN(accumulate)(int64_t n, const void *x, float *acc)
{
    const ELEMENT *from = x;
    int64_t i = 0;

    for (; i + VEC_WIDTH <= n; i += VEC_WIDTH) {
        store_f32(acc + i, load_f32(acc + i) + LOAD(from + i));
    }
    if (i < n) {
        int64_t m = n - i;
        store_part_f32(acc + i, m, load_part_f32(acc + i, m) + LOAD_PART(from + i, m));
    }
}

static void FN(fill)(cero_kernels *k)
{
    k->to_f32[DTYPE_INDEX] = FN(to_f32);
    k->from_f32[DTYPE_INDEX] = FN(from_f32);
    k->accumulate[DTYPE_INDEX] = FN(accumulate);
}
