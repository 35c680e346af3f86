/* SPDX-License-Identifier: Apache-2.0 */
/* Softmax and cross-entropy for AVX-512. */
#include "kernels/avx512/vec_avx512.h"
#include "kernels/isa.h"
#include "kernels/vector/math.h"

#include <math.h>
#include <string.h>

#define TEMPLATE "kernels/vector/cross_entropy_tmpl.c"
#include "kernels/twins.h"

#define TEMPLATE "kernels/vector/softmax_tmpl.c"
#include "kernels/single.h"

void cero_kernels_softmax_init_avx512(cero_kernels *k)
{
    fill_avx512(k);
    fill_f32_avx512(k);
    fill_bf16_avx512(k);
    fill_f16_avx512(k);
}
