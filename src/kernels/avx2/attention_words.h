/* SPDX-License-Identifier: Apache-2.0 */
/* What kernels/vector/attention_*_tmpl.c alone need of AVX2, beside the words of vec_avx2.h. */
#ifndef CERO_KERNELS_AVX2_ATTENTION_WORDS_H
#define CERO_KERNELS_AVX2_ATTENTION_WORDS_H

#include "kernels/avx2/vec_avx2.h"

/* Rows of a product that the registers hold, of two vectors each. */
enum {
    TILE_ROWS = 4
};

KERNEL_INLINE void prefetch(const void *x)
{
    _mm_prefetch((const char *)x, _MM_HINT_T0);
}

/* Lane l is set where bit l is. */
KERNEL_INLINE vec_mask vec_mask_of(uint32_t bits)
{
    const __m256i lane = _mm256_set_epi32(128, 64, 32, 16, 8, 4, 2, 1);
    __m256i set = _mm256_and_si256(_mm256_set1_epi32((int)bits), lane);

    return _mm256_castsi256_ps(_mm256_cmpeq_epi32(set, lane));
}

KERNEL_INLINE uint32_t vec_mask_bits(vec_mask mask)
{
    return (uint32_t)_mm256_movemask_ps(mask);
}

/*
 * Returns what vec_scale2 takes for the floor of x >= -160, and sets *fraction = x - floor(x). All that is
 * too large for the exponents of f32 is one number.
 */
KERNEL_INLINE vec split_exponent(vec x, vec *fraction)
{
    vec y = vec_min(vec_set(129.0f), x);
    vec whole = _mm256_floor_ps(y);

    *fraction = y - whole;
    return whole;
}

/* t[i] lane j becomes t[j] lane i. */
KERNEL_INLINE void transpose_lanes(vec t[VEC_WIDTH])
{
    vec a[VEC_WIDTH];

    for (int i = 0; i < VEC_WIDTH; i += 4) {
        vec lo01 = _mm256_unpacklo_ps(t[i], t[i + 1]);
        vec hi01 = _mm256_unpackhi_ps(t[i], t[i + 1]);
        vec lo23 = _mm256_unpacklo_ps(t[i + 2], t[i + 3]);
        vec hi23 = _mm256_unpackhi_ps(t[i + 2], t[i + 3]);
        // a[i + c]: column c of each 4 x 4 block of rows i .. i+3
        a[i] = _mm256_shuffle_ps(lo01, lo23, 0x44);
        a[i + 1] = _mm256_shuffle_ps(lo01, lo23, 0xEE);
        a[i + 2] = _mm256_shuffle_ps(hi01, hi23, 0x44);
        a[i + 3] = _mm256_shuffle_ps(hi01, hi23, 0xEE);
    }
    for (int c = 0; c < 4; c++) {
        t[c] = _mm256_permute2f128_ps(a[c], a[4 + c], 0x20);
        t[4 + c] = _mm256_permute2f128_ps(a[c], a[4 + c], 0x31);
    }
}

#endif
