/* SPDX-License-Identifier: Apache-2.0 */
/* Softmax and cross-entropy for AVX2. */
#include "kernels/avx2/vec_avx2.h"
#include "kernels/isa.h"
#include "kernels/vector/math.h"

#include <math.h>
#include <string.h>

#define TEMPLATE "kernels/vector/cross_entropy_tmpl.c"
#include "kernels/twins.h"

#define TEMPLATE "kernels/vector/softmax_tmpl.c"
#include "kernels/single.h"

void cero_kernels_softmax_init_avx2(cero_kernels *k)
{
    fill_avx2(k);
    fill_f32_avx2(k);
    fill_bf16_avx2(k);
    fill_f16_avx2(k);
}
