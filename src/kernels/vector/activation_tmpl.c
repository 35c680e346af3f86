/* SPDX-License-Identifier: Apache-2.0 */
/* One activation over an array, for one dtype: the function comes in as a pointer and is inlined. */

KERNEL_INLINE void FN(map)(vec (*f)(vec), int64_t n, const void *x, void *y)
{
    const ELEMENT *from = x;
    ELEMENT *to = y;
    int64_t i = 0;

    for (; i + VEC_WIDTH <= n; i += VEC_WIDTH) {
        STORE(to + i, f(LOAD(from + i)));
    }
    if (i < n) {
        STORE_PART(to + i, n - i, f(LOAD_PART(from + i, n - i)));
    }
}

KERNEL_INLINE void FN(map_backward)(vec (*slope)(vec), int64_t n, const void *x, const void *dy,
                                    void *dx)
{
    const ELEMENT *from = x;
    const ELEMENT *d = dy;
    ELEMENT *to = dx;
    int64_t i = 0;

    for (; i + VEC_WIDTH <= n; i += VEC_WIDTH) {
        STORE(to + i, LOAD(d + i) * slope(LOAD(from + i)));
    }
    if (i < n) {
        STORE_PART(to + i, n - i, LOAD_PART(d + i, n - i) * slope(LOAD_PART(from + i, n - i)));
    }
}

#include "kernels/activation_tmpl.c"
