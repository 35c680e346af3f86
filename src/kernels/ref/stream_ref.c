/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel that measures memory: the oracle. */
#include "kernels/isa.h"

static void triad_ref(int64_t n, float s, const float *b, const float *c, float *a)
{
    for (int64_t i = 0; i < n; i++) {
        a[i] = b[i] + s * c[i];
    }
}

void cero_kernels_stream_init_ref(cero_kernels *k)
{
    k->triad = triad_ref;
}
