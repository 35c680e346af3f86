/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel that measures memory, for AVX2. */
#include "kernels/avx2/vec_avx2.h"
#include "kernels/isa.h"

static void triad_avx2(int64_t n, float s, const float *b, const float *c, float *a)
{
    vec factor = vec_set(s);
    int64_t i = 0;

    for (; i + VEC_WIDTH <= n; i += VEC_WIDTH) {
        store_f32(a + i, vec_fma(factor, load_f32(c + i), load_f32(b + i)));
    }
    if (i < n) {
        int64_t m = n - i;
        store_part_f32(a + i, m, vec_fma(factor, load_part_f32(c + i, m), load_part_f32(b + i, m)));
    }
}

void cero_kernels_stream_init_avx2(cero_kernels *k)
{
    k->triad = triad_avx2;
}
