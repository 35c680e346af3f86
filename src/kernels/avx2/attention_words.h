/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The vector words of kernels/attention_*_tmpl.c for AVX2: 8 lanes of 32 bits, loads and stores of any
 * dtype, an 8 x 8 transposition, 2^x, and Philox over 4 queries at once.
 */
#ifndef CERO_KERNELS_AVX2_ATTENTION_WORDS_H
#define CERO_KERNELS_AVX2_ATTENTION_WORDS_H

#include "kernels/kernels.h"

#include <immintrin.h>
#include <math.h>
#include <string.h>

#define INLINE static inline __attribute__((always_inline))

enum {
    LANES = 8,
    TILE_ROWS = 4
};

typedef __m256 vf;

INLINE void prefetch(const void *x)
{
    _mm_prefetch((const char *)x, _MM_HINT_T0);
}

INLINE vf vf_load(const float *x)
{
    return _mm256_loadu_ps(x);
}

INLINE void vf_store(float *x, vf v)
{
    _mm256_storeu_ps(x, v);
}

INLINE vf vf_set1(float x)
{
    return _mm256_set1_ps(x);
}

INLINE vf vf_zero(void)
{
    return _mm256_setzero_ps();
}

INLINE vf vf_add(vf a, vf b)
{
    return _mm256_add_ps(a, b);
}

INLINE vf vf_sub(vf a, vf b)
{
    return _mm256_sub_ps(a, b);
}

INLINE vf vf_mul(vf a, vf b)
{
    return _mm256_mul_ps(a, b);
}

INLINE vf vf_div(vf a, vf b)
{
    return _mm256_div_ps(a, b);
}

/* a * b + c */
INLINE vf vf_fma(vf a, vf b, vf c)
{
    return _mm256_fmadd_ps(a, b, c);
}

/* The larger; b when one is NaN. */
INLINE vf vf_max(vf a, vf b)
{
    return _mm256_max_ps(a, b);
}

/* Lanes whose bit is set from a, the others from b. */
INLINE vf vf_where(uint32_t bits, vf a, vf b)
{
    const __m256i lane = _mm256_set_epi32(128, 64, 32, 16, 8, 4, 2, 1);
    __m256i set = _mm256_and_si256(_mm256_set1_epi32((int)bits), lane);
    return _mm256_blendv_ps(b, a, _mm256_castsi256_ps(_mm256_cmpeq_epi32(set, lane)));
}

/* x, and 0 where x is -inf. */
INLINE vf vf_finite_base(vf x)
{
    return _mm256_and_ps(x, _mm256_cmp_ps(x, _mm256_set1_ps(-INFINITY), _CMP_NEQ_UQ));
}

INLINE float vf_sum(vf x)
{
    __m128 four = _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}

INLINE float vf_largest(vf x)
{
    __m128 four = _mm_max_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
}

INLINE vf power_of_2(__m256i n)
{
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(n, _mm256_set1_epi32(127)), 23));
}

/*
 * 2^x with an error of 1 unit in the last place: a polynomial on the fraction (Chebyshev nodes, exact
 * at 0), scaled by the floor in two halves, since the floor may lie beyond the exponents of f32. Below
 * -160 the result is 0; NaN stays NaN.
 */
INLINE vf vf_exp2(vf x)
{
    vf y = _mm256_max_ps(_mm256_set1_ps(-160.0f), x);
    y = _mm256_min_ps(_mm256_set1_ps(129.0f), y);
    vf whole = _mm256_floor_ps(y);
    vf f = _mm256_sub_ps(y, whole);
    vf p = _mm256_set1_ps(0x1.b49554p-13f);
    p = _mm256_fmadd_ps(p, f, _mm256_set1_ps(0x1.4cb7b0p-10f));
    p = _mm256_fmadd_ps(p, f, _mm256_set1_ps(0x1.3c487cp-7f));
    p = _mm256_fmadd_ps(p, f, _mm256_set1_ps(0x1.c69f98p-5f));
    p = _mm256_fmadd_ps(p, f, _mm256_set1_ps(0x1.ebfc3ep-3f));
    p = _mm256_fmadd_ps(p, f, _mm256_set1_ps(0x1.62e430p-1f));
    p = _mm256_fmadd_ps(p, f, _mm256_set1_ps(1.0f));
    __m256i n = _mm256_cvtps_epi32(whole);
    __m256i half = _mm256_srai_epi32(n, 1);
    p = _mm256_mul_ps(p, power_of_2(half));
    return _mm256_mul_ps(p, power_of_2(_mm256_sub_epi32(n, half)));
}

INLINE __m256i first_lanes(int64_t count)
{
    const __m256i lane = _mm256_set_epi32(7, 6, 5, 4, 3, 2, 1, 0);
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(count < LANES ? (int)count : LANES), lane);
}

/* Elements at .. at+7 of x as f32; zeros from the count-th on. */
INLINE vf load_f32(cero_dtype dtype, const void *x, int64_t at, int64_t count)
{
    __m128i half = _mm_setzero_si128();

    if (dtype == CERO_DTYPE_F32) {
        return _mm256_maskload_ps((const float *)x + at, first_lanes(count));
    }
    const uint16_t *from = (const uint16_t *)x + at;
    if (count >= LANES) {
        half = _mm_loadu_si128((const __m128i *)(const void *)from);
    } else {
        memcpy(&half, from, (size_t)count * sizeof(*from));
    }
    if (dtype == CERO_DTYPE_F16) {
        return _mm256_cvtph_ps(half);
    }
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(half), 16));
}

/* To nearest even; NaN stays NaN. */
INLINE __m128i bf16_of_f32(vf x)
{
    __m256i bits = _mm256_castps_si256(x);
    __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    __m256i rounded = _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7FFF)));
    __m256i quiet = _mm256_or_si256(bits, _mm256_set1_epi32(0x400000));
    __m256i is_nan = _mm256_castps_si256(_mm256_cmp_ps(x, x, _CMP_UNORD_Q));
    __m256i upper = _mm256_srli_epi32(_mm256_blendv_epi8(rounded, quiet, is_nan), 16);
    return _mm_packus_epi32(_mm256_castsi256_si128(upper), _mm256_extracti128_si256(upper, 1));
}

/* Writes the first count lanes to elements at .. of x. */
INLINE void store_f32(cero_dtype dtype, void *x, int64_t at, int64_t count, vf v)
{
    if (dtype == CERO_DTYPE_F32) {
        _mm256_maskstore_ps((float *)x + at, first_lanes(count), v);
        return;
    }
    __m128i half = dtype == CERO_DTYPE_F16
                       ? _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)
                       : bf16_of_f32(v);
    uint16_t *to = (uint16_t *)x + at;
    memcpy(to, &half, (size_t)(count < LANES ? count : LANES) * sizeof(*to));
}

/* t[i] lane j becomes t[j] lane i. */
INLINE void transpose_lanes(vf t[LANES])
{
    vf a[LANES];

    for (int i = 0; i < LANES; i += 4) {
        vf lo01 = _mm256_unpacklo_ps(t[i], t[i + 1]);
        vf hi01 = _mm256_unpackhi_ps(t[i], t[i + 1]);
        vf lo23 = _mm256_unpacklo_ps(t[i + 2], t[i + 3]);
        vf hi23 = _mm256_unpackhi_ps(t[i + 2], t[i + 3]);
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

/* Four words for 4 blocks; only the lower 32 bits of each lane of `out` count. */
INLINE void philox(cero_rng_key key, uint64_t sample, __m256i block, __m256i out[4])
{
    const __m256i multiplier0 = _mm256_set1_epi64x(0xD2511F53);
    const __m256i multiplier1 = _mm256_set1_epi64x(0xCD9E8D57);
    uint32_t k0 = key.word[0];
    uint32_t k1 = key.word[1];

    out[0] = block;
    out[1] = _mm256_srli_epi64(block, 32);
    out[2] = _mm256_set1_epi64x((int64_t)sample);
    out[3] = _mm256_srli_epi64(out[2], 32);
    for (int round = 0; round < 10; round++) {
        __m256i p0 = _mm256_mul_epu32(multiplier0, out[0]);
        __m256i p1 = _mm256_mul_epu32(multiplier1, out[2]);
        __m256i n0 = _mm256_xor_si256(out[1], _mm256_set1_epi64x((int64_t)k0));
        __m256i n2 = _mm256_xor_si256(out[3], _mm256_set1_epi64x((int64_t)k1));
        out[0] = _mm256_xor_si256(_mm256_srli_epi64(p1, 32), n0);
        out[2] = _mm256_xor_si256(_mm256_srli_epi64(p0, 32), n2);
        out[1] = p1;
        out[3] = p0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
}

/* Bit l: the lower word of lane l is at least the threshold. */
INLINE uint32_t kept_of(__m256i words, __m128i threshold)
{
    const __m256i lower = _mm256_set_epi32(7, 5, 3, 1, 6, 4, 2, 0);
    __m128i x = _mm256_castsi256_si128(_mm256_permutevar8x32_epi32(words, lower));
    __m128i is_kept = _mm_cmpeq_epi32(_mm_max_epu32(x, threshold), x);
    return (uint32_t)_mm_movemask_ps(_mm_castsi128_ps(is_kept));
}

/*
 * Bit l of result[r] says that the probability of (query + l, key + r) is kept, l < 2 * LANES and
 * r < rows. The result points into `buffer` of rows + 7 words.
 */
static inline const uint32_t *keep_bits(const cero_attention_args *args, int64_t query, int64_t key,
                                        int64_t rows, uint32_t *buffer)
{
    const __m128i threshold = _mm_set1_epi32((int)args->drop_threshold);
    uint64_t stride = args->drop_stride;
    uint64_t first = args->drop_element + (uint64_t)query * stride + (uint64_t)key;
    int64_t phase = (int64_t)(first % 4);
    int64_t step = (int64_t)(stride / 4);
    const __m256i steps = _mm256_set_epi64x(3 * step, 2 * step, step, 0);

    // The stride is a multiple of 4, so all queries have the same phase in their blocks of four words.
    memset(buffer, 0, (size_t)(rows + 7) * sizeof(*buffer));
    for (int64_t group = 0; group < 2 * LANES; group += 4) {
        int64_t begin = (int64_t)(first / 4) + group * step;
        for (int64_t b = 0; 4 * b < phase + rows; b++) {
            __m256i words[4];
            __m256i block = _mm256_add_epi64(steps, _mm256_set1_epi64x(begin + b));
            philox(args->drop_key, args->drop_sample, block, words);
            for (int64_t w = 0; w < 4; w++) {
                buffer[4 * b + w] |= kept_of(words[w], threshold) << group;
            }
        }
    }
    return buffer + phase;
}

#endif
