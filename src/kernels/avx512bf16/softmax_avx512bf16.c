/* SPDX-License-Identifier: Apache-2.0 */
/* Cross-entropy for AVX-512 with the native conversion to bf16. */
#include "kernels/avx512bf16/vec_avx512bf16.h"
#include "kernels/isa.h"
#include "kernels/vector/math.h"

#include <math.h>
#include <string.h>

#define TWINS_BF16_ALONE
#define TEMPLATE "kernels/vector/cross_entropy_tmpl.c"
#include "kernels/twins.h"

void cero_kernels_softmax_init_avx512bf16(cero_kernels *k)
{
    fill_bf16_avx512bf16(k);
}
