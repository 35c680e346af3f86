/* SPDX-License-Identifier: Apache-2.0 */
/* The optimizers' inner loops: the oracle. */
#include "kernels/isa.h"
#include "kernels/ref/load_ref.h"

#include <math.h>

static void store_any(cero_dtype dtype, void *y, int64_t i, float value)
{
    if (dtype == CERO_DTYPE_BF16) {
        store_bf16((uint16_t *)y + i, value);
    } else if (dtype == CERO_DTYPE_F16) {
        store_f16((uint16_t *)y + i, value);
    } else {
        ((float *)y)[i] = value;
    }
}

#define TEMPLATE "kernels/ref/optim_tmpl.c"
#include "kernels/twins.h"

void cero_kernels_optim_init_ref(cero_kernels *k)
{
    fill_f32_ref(k);
    fill_bf16_ref(k);
    fill_f16_ref(k);
}
