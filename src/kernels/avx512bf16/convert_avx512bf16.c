/* SPDX-License-Identifier: Apache-2.0 */
/* Conversions and sums into f32 for AVX-512 with the native conversion to bf16. */
#include "kernels/avx512bf16/vec_avx512bf16.h"
#include "kernels/isa.h"

#define TWINS_BF16_ALONE
#define TEMPLATE "kernels/vector/convert_tmpl.c"
#include "kernels/twins.h"

void cero_kernels_convert_init_avx512bf16(cero_kernels *k)
{
    fill_bf16_avx512bf16(k);
}
