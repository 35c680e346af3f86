/* SPDX-License-Identifier: Apache-2.0 */
/* The optimizers' inner loops for AVX2. */
#include "kernels/avx2/vec_avx2.h"
#include "kernels/isa.h"
#include "kernels/vector/any_dtype.h"

#define TEMPLATE "kernels/vector/optim_tmpl.c"
#include "kernels/twins.h"

void cero_kernels_optim_init_avx2(cero_kernels *k)
{
    fill_f32_avx2(k);
    fill_bf16_avx2(k);
    fill_f16_avx2(k);
}
