/* SPDX-License-Identifier: Apache-2.0 */
/* SwiGLU for AVX2. */
#include "kernels/avx2/vec_avx2.h"
#include "kernels/isa.h"
#include "kernels/vector/math.h"

#define TEMPLATE "kernels/vector/swiglu_tmpl.c"
#include "kernels/twins.h"

void cero_kernels_swiglu_init_avx2(cero_kernels *k)
{
    fill_f32_avx2(k);
    fill_bf16_avx2(k);
    fill_f16_avx2(k);
}
