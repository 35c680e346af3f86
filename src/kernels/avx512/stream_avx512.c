/* SPDX-License-Identifier: Apache-2.0 */
/* Sums at the speed of memory, for AVX-512. */
#include "kernels/avx512/vec_avx512.h"
#include "kernels/isa.h"

#define TEMPLATE "kernels/vector/stream_tmpl.c"
#include "kernels/single.h"

void cero_kernels_stream_init_avx512(cero_kernels *k)
{
    fill_avx512(k);
}
