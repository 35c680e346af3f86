/* SPDX-License-Identifier: Apache-2.0 */
/* Layer and root-mean-square normalisation: the oracle. */
#include "kernels/isa.h"
#include "kernels/ref/load_ref.h"

#include <math.h>

#define TEMPLATE "kernels/ref/norm_tmpl.c"
#include "kernels/twins.h"

void cero_kernels_norm_init_ref(cero_kernels *k)
{
    fill_f32_ref(k);
    fill_bf16_ref(k);
    fill_f16_ref(k);
}
