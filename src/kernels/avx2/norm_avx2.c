/* SPDX-License-Identifier: Apache-2.0 */
/* Layer and root-mean-square normalisation for AVX2. */
#include "kernels/avx2/vec_avx2.h"
#include "kernels/isa.h"

#include <math.h>
#include <string.h>

#define TEMPLATE "kernels/vector/norm_tmpl.c"
#include "kernels/twins.h"

void cero_kernels_norm_init_avx2(cero_kernels *k)
{
    fill_f32_avx2(k);
    fill_bf16_avx2(k);
    fill_f16_avx2(k);
}
