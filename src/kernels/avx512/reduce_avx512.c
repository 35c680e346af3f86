/* SPDX-License-Identifier: Apache-2.0 */
/* Sums of squares and of columns for AVX-512. */
#include "kernels/avx512/vec_avx512.h"
#include "kernels/isa.h"

#include <string.h>

#define TEMPLATE "kernels/vector/reduce_tmpl.c"
#include "kernels/twins.h"

void cero_kernels_reduce_init_avx512(cero_kernels *k)
{
    fill_f32_avx512(k);
    fill_bf16_avx512(k);
    fill_f16_avx512(k);
}
