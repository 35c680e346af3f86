/* SPDX-License-Identifier: Apache-2.0 */
/* Softmax and cross-entropy: the oracle. */
#include "kernels/isa.h"
#include "kernels/ref/load_ref.h"

#include <math.h>

#define TEMPLATE "kernels/ref/cross_entropy_tmpl.c"
#include "kernels/twins.h"

static void softmax_ref(int64_t n, const float *x, float *y)
{
    float max = -INFINITY;
    float sum = 0.0f;

    for (int64_t i = 0; i < n; i++) {
        max = x[i] > max ? x[i] : max;
    }
    for (int64_t i = 0; i < n; i++) {
        y[i] = expf(x[i] - max);
        sum += y[i];
    }
    for (int64_t i = 0; i < n; i++) {
        y[i] /= sum;
    }
}

void cero_kernels_softmax_init_ref(cero_kernels *k)
{
    k->softmax = softmax_ref;
    fill_f32_ref(k);
    fill_bf16_ref(k);
    fill_f16_ref(k);
}
