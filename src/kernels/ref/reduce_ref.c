/* SPDX-License-Identifier: Apache-2.0 */
/* Sums of squares and of columns: the oracle. */
#include "kernels/isa.h"
#include "kernels/ref/load_ref.h"

#define TEMPLATE "kernels/ref/reduce_tmpl.c"
#include "kernels/twins.h"

void cero_kernels_reduce_init_ref(cero_kernels *k)
{
    fill_f32_ref(k);
    fill_bf16_ref(k);
    fill_f16_ref(k);
}
