/* SPDX-License-Identifier: Apache-2.0 */
/* One activation over an array, for one dtype: the function comes in as a pointer. */

static void FN(map)(float (*f)(float), int64_t n, const void *x, void *y)
{
    const ELEMENT *from = x;
    ELEMENT *to = y;

    for (int64_t i = 0; i < n; i++) {
        STORE(to + i, f(LOAD(from + i)));
    }
}

static void FN(map_backward)(float (*slope)(float), int64_t n, const void *x, const void *dy,
                             void *dx)
{
    const ELEMENT *from = x;
    const ELEMENT *d = dy;
    ELEMENT *to = dx;

    for (int64_t i = 0; i < n; i++) {
        STORE(to + i, LOAD(d + i) * slope(LOAD(from + i)));
    }
}

#include "kernels/activation_tmpl.c"
