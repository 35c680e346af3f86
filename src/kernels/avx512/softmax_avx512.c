/* SPDX-License-Identifier: Apache-2.0 */
/* Softmax and cross-entropy for AVX-512. */
#include "kernels/avx512/vec_avx512.h"
#include "kernels/isa.h"
#include "kernels/vector/math.h"

#include <math.h>
#include <string.h>

#define TEMPLATE "kernels/vector/cross_entropy_tmpl.c"
#include "kernels/twins.h"

static void softmax_avx512(int64_t n, const float *x, float *y)
{
    float max;
    float sum;
    int64_t i = 0;

    max_and_sum_f32_avx512(n, x, &max, &sum);
    vec offset = vec_set(max);
    vec total = vec_set(sum);
    for (; i + VEC_WIDTH <= n; i += VEC_WIDTH) {
        store_f32(y + i, vec_exp(load_f32(x + i) - offset) / total);
    }
    if (i < n) {
        store_part_f32(y + i, n - i, vec_exp(load_part_f32(x + i, n - i) - offset) / total);
    }
}

void cero_kernels_softmax_init_avx512(cero_kernels *k)
{
    k->softmax = softmax_avx512;
    fill_f32_avx512(k);
    fill_bf16_avx512(k);
    fill_f16_avx512(k);
}
