/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The vector words of kernels/attention_*_tmpl.c for AVX-512: 16 lanes of 32 bits, loads and stores of
 * any dtype, a 16 x 16 transposition, 2^x, and Philox over 8 queries at once. What a product's step
 * is, one f32 or a pair of bf16, is said by the file that includes this.
 */
#ifndef CERO_KERNELS_AVX512_ATTENTION_WORDS_H
#define CERO_KERNELS_AVX512_ATTENTION_WORDS_H

#include "kernels/kernels.h"

#include <immintrin.h>
#include <math.h>
#include <string.h>

#define INLINE static inline __attribute__((always_inline))

enum {
    LANES = 16,
    TILE_ROWS = 8
};

typedef __m512 vf;

INLINE void prefetch(const void *x)
{
    _mm_prefetch((const char *)x, _MM_HINT_T0);
}

INLINE vf vf_load(const float *x)
{
    return _mm512_loadu_ps(x);
}

INLINE void vf_store(float *x, vf v)
{
    _mm512_storeu_ps(x, v);
}

INLINE vf vf_set1(float x)
{
    return _mm512_set1_ps(x);
}

INLINE vf vf_zero(void)
{
    return _mm512_setzero_ps();
}

INLINE vf vf_add(vf a, vf b)
{
    return _mm512_add_ps(a, b);
}

INLINE vf vf_sub(vf a, vf b)
{
    return _mm512_sub_ps(a, b);
}

INLINE vf vf_mul(vf a, vf b)
{
    return _mm512_mul_ps(a, b);
}

INLINE vf vf_div(vf a, vf b)
{
    return _mm512_div_ps(a, b);
}

/* a * b + c */
INLINE vf vf_fma(vf a, vf b, vf c)
{
    return _mm512_fmadd_ps(a, b, c);
}

/* The larger; b when one is NaN. */
INLINE vf vf_max(vf a, vf b)
{
    return _mm512_max_ps(a, b);
}

/* Lanes whose bit is set from a, the others from b. */
INLINE vf vf_where(uint32_t bits, vf a, vf b)
{
    return _mm512_mask_mov_ps(b, (__mmask16)bits, a);
}

/* x, and 0 where x is -inf. */
INLINE vf vf_finite_base(vf x)
{
    __mmask16 is_number = _mm512_cmp_ps_mask(x, _mm512_set1_ps(-INFINITY), _CMP_NEQ_UQ);
    return _mm512_maskz_mov_ps(is_number, x);
}

INLINE float vf_sum(vf x)
{
    return _mm512_reduce_add_ps(x);
}

INLINE float vf_largest(vf x)
{
    return _mm512_reduce_max_ps(x);
}

/*
 * 2^x with an error of 1 unit in the last place: a polynomial on the fraction (Chebyshev nodes, exact
 * at 0), scaled by the floor. Below -160 the result is 0; NaN stays NaN.
 */
INLINE vf vf_exp2(vf x)
{
    vf y = _mm512_max_ps(_mm512_set1_ps(-160.0f), x);
    vf f = _mm512_reduce_ps(y, 0x09);
    vf p = _mm512_set1_ps(0x1.b49554p-13f);
    p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(0x1.4cb7b0p-10f));
    p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(0x1.3c487cp-7f));
    p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(0x1.c69f98p-5f));
    p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(0x1.ebfc3ep-3f));
    p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(0x1.62e430p-1f));
    p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(1.0f));
    return _mm512_scalef_ps(p, y);
}

INLINE __mmask16 first_lanes(int64_t count)
{
    return count >= LANES ? (__mmask16)0xFFFF : (__mmask16)((1u << count) - 1u);
}

/* Elements at .. at+15 of x as f32; zeros from the count-th on. */
INLINE vf load_f32(cero_dtype dtype, const void *x, int64_t at, int64_t count)
{
    __mmask16 mask = first_lanes(count);

    if (dtype == CERO_DTYPE_F32) {
        return _mm512_maskz_loadu_ps(mask, (const float *)x + at);
    }
    __m256i half = _mm256_maskz_loadu_epi16(mask, (const uint16_t *)x + at);
    if (dtype == CERO_DTYPE_F16) {
        return _mm512_cvtph_ps(half);
    }
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(half), 16));
}

/* To nearest even; NaN stays NaN. Defined by the file that includes this. */
INLINE __m256i bf16_of_f32(vf x);

/* Writes the first count lanes to elements at .. of x. */
INLINE void store_f32(cero_dtype dtype, void *x, int64_t at, int64_t count, vf v)
{
    __mmask16 mask = first_lanes(count);

    if (dtype == CERO_DTYPE_F32) {
        _mm512_mask_storeu_ps((float *)x + at, mask, v);
        return;
    }
    __m256i half = dtype == CERO_DTYPE_F16
                       ? _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)
                       : bf16_of_f32(v);
    _mm256_mask_storeu_epi16((uint16_t *)x + at, mask, half);
}

/* t[i] lane j becomes t[j] lane i. */
INLINE void transpose_lanes(vf t[LANES])
{
    vf a[LANES];

    for (int i = 0; i < LANES; i += 4) {
        vf lo01 = _mm512_unpacklo_ps(t[i], t[i + 1]);
        vf hi01 = _mm512_unpackhi_ps(t[i], t[i + 1]);
        vf lo23 = _mm512_unpacklo_ps(t[i + 2], t[i + 3]);
        vf hi23 = _mm512_unpackhi_ps(t[i + 2], t[i + 3]);
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
        vf even01 = _mm512_shuffle_f32x4(a[c], a[4 + c], 0x88);
        vf odd01 = _mm512_shuffle_f32x4(a[c], a[4 + c], 0xDD);
        vf even23 = _mm512_shuffle_f32x4(a[8 + c], a[12 + c], 0x88);
        vf odd23 = _mm512_shuffle_f32x4(a[8 + c], a[12 + c], 0xDD);
        t[c] = _mm512_shuffle_f32x4(even01, even23, 0x88);
        t[4 + c] = _mm512_shuffle_f32x4(odd01, odd23, 0x88);
        t[8 + c] = _mm512_shuffle_f32x4(even01, even23, 0xDD);
        t[12 + c] = _mm512_shuffle_f32x4(odd01, odd23, 0xDD);
    }
}

/* Four words for 8 blocks; only the lower 32 bits of each lane of `out` count. */
INLINE void philox(cero_rng_key key, uint64_t sample, __m512i block, __m512i out[4])
{
    const __m512i multiplier0 = _mm512_set1_epi64(0xD2511F53);
    const __m512i multiplier1 = _mm512_set1_epi64(0xCD9E8D57);
    uint32_t k0 = key.word[0];
    uint32_t k1 = key.word[1];

    out[0] = block;
    out[1] = _mm512_srli_epi64(block, 32);
    out[2] = _mm512_set1_epi64((int64_t)sample);
    out[3] = _mm512_srli_epi64(out[2], 32);
    for (int round = 0; round < 10; round++) {
        __m512i p0 = _mm512_mul_epu32(multiplier0, out[0]);
        __m512i p1 = _mm512_mul_epu32(multiplier1, out[2]);
        out[0] = _mm512_ternarylogic_epi64(_mm512_srli_epi64(p1, 32), out[1],
                                           _mm512_set1_epi64((int64_t)k0), 0x96);
        out[2] = _mm512_ternarylogic_epi64(_mm512_srli_epi64(p0, 32), out[3],
                                           _mm512_set1_epi64((int64_t)k1), 0x96);
        out[1] = p1;
        out[3] = p0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
}

/*
 * Bit l of result[r] says that the probability of (query + l, key + r) is kept, l < 2 * LANES and
 * r < rows. The result points into `buffer` of rows + 7 words.
 */
static inline const uint32_t *keep_bits(const cero_attention_args *args, int64_t query, int64_t key,
                                        int64_t rows, uint32_t *buffer)
{
    const __m512i lane = _mm512_set_epi64(7, 6, 5, 4, 3, 2, 1, 0);
    const __m256i threshold = _mm256_set1_epi32((int)args->drop_threshold);
    uint64_t stride = args->drop_stride;
    uint64_t first = args->drop_element + (uint64_t)query * stride + (uint64_t)key;
    int64_t phase = (int64_t)(first % 4);

    // The stride is a multiple of 4, so all queries have the same phase in their blocks of four words.
    memset(buffer, 0, (size_t)(rows + 7) * sizeof(*buffer));
    for (int64_t group = 0; group < 2 * LANES; group += 8) {
        __m512i step = _mm512_mullo_epi64(lane, _mm512_set1_epi64((int64_t)(stride / 4)));
        uint64_t begin = first / 4 + (uint64_t)group * (stride / 4);
        for (int64_t b = 0; 4 * b < phase + rows; b++) {
            __m512i words[4];
            __m512i block = _mm512_add_epi64(step, _mm512_set1_epi64((int64_t)begin + b));
            philox(args->drop_key, args->drop_sample, block, words);
            for (int64_t w = 0; w < 4; w++) {
                __mmask8 kept = _mm256_cmpge_epu32_mask(_mm512_cvtepi64_epi32(words[w]), threshold);
                buffer[4 * b + w] |= (uint32_t)kept << group;
            }
        }
    }
    return buffer + phase;
}

#endif
