/* SPDX-License-Identifier: Apache-2.0 */
/* Sums at the speed of memory, for AVX2. */
#include "kernels/avx2/vec_avx2.h"
#include "kernels/isa.h"

#define TEMPLATE "kernels/vector/stream_tmpl.c"
#include "kernels/single.h"

void cero_kernels_stream_init_avx2(cero_kernels *k)
{
    fill_avx2(k);
}
