/* SPDX-License-Identifier: Apache-2.0 */
/* Sums at the speed of memory: the oracle. */
#include "kernels/isa.h"

static void triad_ref(int64_t n, float s, const float *b, const float *c, float *a)
{
    for (int64_t i = 0; i < n; i++) {
        a[i] = b[i] + s * c[i];
    }
}

static void axpy_ref(int64_t n, float s, const float *x, float *y)
{
    triad_ref(n, s, y, x, y);
}

void cero_kernels_stream_init_ref(cero_kernels *k)
{
    k->axpy = axpy_ref;
    k->triad = triad_ref;
}
