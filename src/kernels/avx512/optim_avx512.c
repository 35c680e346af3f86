/* SPDX-License-Identifier: Apache-2.0 */
/* The optimizers' inner loops for AVX-512. */
#include "kernels/avx512/vec_avx512.h"
#include "kernels/isa.h"
#include "kernels/vector/any_dtype.h"

#define TEMPLATE "kernels/vector/optim_tmpl.c"
#include "kernels/twins.h"

void cero_kernels_optim_init_avx512(cero_kernels *k)
{
    fill_f32_avx512(k);
    fill_bf16_avx512(k);
    fill_f16_avx512(k);
}
