/* SPDX-License-Identifier: Apache-2.0 */
/* SwiGLU for AVX-512 with the native conversion to bf16. */
#include "kernels/avx512bf16/vec_avx512bf16.h"
#include "kernels/isa.h"
#include "kernels/vector/math.h"

#define TWINS_BF16_ALONE
#define TEMPLATE "kernels/vector/swiglu_tmpl.c"
#include "kernels/twins.h"

void cero_kernels_swiglu_init_avx512bf16(cero_kernels *k)
{
    fill_bf16_avx512bf16(k);
}
