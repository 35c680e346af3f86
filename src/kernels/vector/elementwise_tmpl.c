/* SPDX-License-Identifier: Apache-2.0 */
/* Sum, product and multiple of arrays, for one dtype. */

static void FN(add)(int64_t n, const void *a, const void *b, void *y)
{
    const ELEMENT *left = a;
    const ELEMENT *right = b;
    ELEMENT *to = y;
    int64_t i = 0;

    for (; i + VEC_WIDTH <= n; i += VEC_WIDTH) {
        STORE(to + i, LOAD(left + i) + LOAD(right + i));
    }
    if (i < n) {
        STORE_PART(to + i, n - i, LOAD_PART(left + i, n - i) + LOAD_PART(right + i, n - i));
    }
}

static void FN(mul)(int64_t n, const void *a, const void *b, void *y)
{
    const ELEMENT *left = a;
    const ELEMENT *right = b;
    ELEMENT *to = y;
    int64_t i = 0;

    for (; i + VEC_WIDTH <= n; i += VEC_WIDTH) {
        STORE(to + i, LOAD(left + i) * LOAD(right + i));
    }
    if (i < n) {
        STORE_PART(to + i, n - i, LOAD_PART(left + i, n - i) * LOAD_PART(right + i, n - i));
    }
}

static void FN(scale)(int64_t n, float s, const void *x, void *y)
{
    const ELEMENT *from = x;
    ELEMENT *to = y;
    vec factor = vec_set(s);
    int64_t i = 0;

    for (; i + VEC_WIDTH <= n; i += VEC_WIDTH) {
        STORE(to + i, factor * LOAD(from + i));
    }
    if (i < n) {
        STORE_PART(to + i, n - i, factor * LOAD_PART(from + i, n - i));
    }
}

static void FN(fill)(cero_kernels *k)
{
    k->add[DTYPE_INDEX] = FN(add);
    k->mul[DTYPE_INDEX] = FN(mul);
    k->scale[DTYPE_INDEX] = FN(scale);
}
