/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What kernels/vector/attention_*_tmpl.c alone need of AVX-512, beside the words of vec_avx512.h. What a
 * product's step is, one f32 or a pair of bf16, is said by the file that includes this.
 */
#ifndef CERO_KERNELS_AVX512_ATTENTION_WORDS_H
#define CERO_KERNELS_AVX512_ATTENTION_WORDS_H

#include "kernels/avx512/vec_avx512.h"

/* Rows of a product that the registers hold, of two vectors each. */
enum {
    TILE_ROWS = 8
};

KERNEL_INLINE void prefetch(const void *x)
{
    _mm_prefetch((const char *)x, _MM_HINT_T0);
}

/* Lane l is set where bit l is. */
KERNEL_INLINE vec_mask vec_mask_of(uint32_t bits)
{
    return (vec_mask)bits;
}

KERNEL_INLINE uint32_t vec_mask_bits(vec_mask mask)
{
    return mask;
}

/* Returns what vec_scale2 takes for the floor of x, and sets *fraction = x - floor(x). */
KERNEL_INLINE vec split_exponent(vec x, vec *fraction)
{
    *fraction = _mm512_reduce_ps(x, 0x09);
    return x;
}

/* t[i] lane j becomes t[j] lane i. */
KERNEL_INLINE void transpose_lanes(vec t[VEC_WIDTH])
{
    vec a[VEC_WIDTH];

    for (int i = 0; i < VEC_WIDTH; i += 4) {
        vec lo01 = _mm512_unpacklo_ps(t[i], t[i + 1]);
        vec hi01 = _mm512_unpackhi_ps(t[i], t[i + 1]);
        vec lo23 = _mm512_unpacklo_ps(t[i + 2], t[i + 3]);
        vec hi23 = _mm512_unpackhi_ps(t[i + 2], t[i + 3]);
        // a[i + c]: column c of each 4 x 4 block of rows i .. i+3
        a[i] = _mm512_castpd_ps(_mm512_unpacklo_pd(_mm512_castps_pd(lo01), _mm512_castps_pd(lo23)));
        a[i + 1] =
            _mm512_castpd_ps(_mm512_unpackhi_pd(_mm512_castps_pd(lo01), _mm512_castps_pd(lo23)));
        a[i + 2] =
            _mm512_castpd_ps(_mm512_unpacklo_pd(_mm512_castps_pd(hi01), _mm512_castps_pd(hi23)));
        a[i + 3] =
            _mm512_castpd_ps(_mm512_unpackhi_pd(_mm512_castps_pd(hi01), _mm512_castps_pd(hi23)));
    }
    for (int c = 0; c < 4; c++) {
        vec even01 = _mm512_shuffle_f32x4(a[c], a[4 + c], 0x88);
        vec odd01 = _mm512_shuffle_f32x4(a[c], a[4 + c], 0xDD);
        vec even23 = _mm512_shuffle_f32x4(a[8 + c], a[12 + c], 0x88);
        vec odd23 = _mm512_shuffle_f32x4(a[8 + c], a[12 + c], 0xDD);
        t[c] = _mm512_shuffle_f32x4(even01, even23, 0x88);
        t[4 + c] = _mm512_shuffle_f32x4(odd01, odd23, 0x88);
        t[8 + c] = _mm512_shuffle_f32x4(even01, even23, 0xDD);
        t[12 + c] = _mm512_shuffle_f32x4(odd01, odd23, 0xDD);
    }
}

#endif
