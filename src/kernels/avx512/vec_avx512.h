/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Vectors of 16 floats for AVX-512: the words in which the templates of kernels/vector are written.
 *
 * The operators + - * / work on vec. LOAD_PART and STORE_PART touch m <= VEC_WIDTH elements and nothing
 * else; what is not loaded is 0.
 */
#ifndef CERO_KERNELS_AVX512_VEC_AVX512_H
#define CERO_KERNELS_AVX512_VEC_AVX512_H

#include <immintrin.h>
#include <stdint.h>

/* vec_avx512bf16.h has its own name and its own rounding, and takes the rest from here. */
#ifndef ISA
    #define ISA        avx512
    #define ROUND_BF16 round_bf16
#endif
#define KERNEL_INLINE static inline __attribute__((always_inline))

enum {
    VEC_WIDTH = 16
};

typedef __m512 vec;
typedef __m512i vec_int;
typedef __mmask16 vec_mask;

KERNEL_INLINE vec vec_set(float x)
{
    return _mm512_set1_ps(x);
}

/* a + b, for conditional expressions: the type of the operator's result is not quite vec. */
KERNEL_INLINE vec vec_add(vec a, vec b)
{
    return _mm512_add_ps(a, b);
}

/* a * b + c and c - a * b, rounded once */
KERNEL_INLINE vec vec_fma(vec a, vec b, vec c)
{
    return _mm512_fmadd_ps(a, b, c);
}

KERNEL_INLINE vec vec_fnma(vec a, vec b, vec c)
{
    return _mm512_fnmadd_ps(a, b, c);
}

/* The second operand when either is NaN. */
KERNEL_INLINE vec vec_max(vec a, vec b)
{
    return _mm512_max_ps(a, b);
}

KERNEL_INLINE vec vec_min(vec a, vec b)
{
    return _mm512_min_ps(a, b);
}

KERNEL_INLINE vec vec_abs(vec x)
{
    return _mm512_abs_ps(x);
}

KERNEL_INLINE vec vec_sqrt(vec x)
{
    return _mm512_sqrt_ps(x);
}

KERNEL_INLINE vec vec_copy_sign(vec x, vec sign)
{
    return _mm512_or_ps(x, _mm512_and_ps(sign, vec_set(-0.0f)));
}

KERNEL_INLINE vec vec_round(vec x)
{
    return _mm512_roundscale_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

/* x * 2^n for whole n; the instruction takes the floor of others. */
KERNEL_INLINE vec vec_scale2(vec x, vec n)
{
    return _mm512_scalef_ps(x, n);
}

KERNEL_INLINE vec_mask vec_less(vec a, vec b)
{
    return _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ);
}

KERNEL_INLINE vec_mask vec_less_equal(vec a, vec b)
{
    return _mm512_cmp_ps_mask(a, b, _CMP_LE_OQ);
}

KERNEL_INLINE vec vec_select(vec_mask mask, vec yes, vec no)
{
    return _mm512_mask_blend_ps(mask, no, yes);
}

/* The first m lanes, 0 in the others. */
KERNEL_INLINE vec vec_part(vec x, int64_t m)
{
    return _mm512_maskz_mov_ps((vec_mask)((1u << m) - 1u), x);
}

KERNEL_INLINE vec vec_fill_part(vec x, int64_t m, float others)
{
    return _mm512_mask_mov_ps(vec_set(others), (vec_mask)((1u << m) - 1u), x);
}

/* Lanes are added (compared) in halves: 8 + 8, 4 + 4, 2 + 2, 1 + 1. */
KERNEL_INLINE float vec_sum(vec x)
{
    __m256 a = _mm256_add_ps(_mm512_castps512_ps256(x), _mm512_extractf32x8_ps(x, 1));
    __m128 b = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    b = _mm_add_ps(b, _mm_movehl_ps(b, b));
    return _mm_cvtss_f32(_mm_add_ss(b, _mm_movehdup_ps(b)));
}

KERNEL_INLINE float vec_max_lane(vec x)
{
    __m256 a = _mm256_max_ps(_mm512_castps512_ps256(x), _mm512_extractf32x8_ps(x, 1));
    __m128 b = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    b = _mm_max_ps(b, _mm_movehl_ps(b, b));
    return _mm_cvtss_f32(_mm_max_ss(b, _mm_movehdup_ps(b)));
}

/* Lane 0. */
KERNEL_INLINE float vec_first(vec x)
{
    return _mm512_cvtss_f32(x);
}

KERNEL_INLINE vec load_f32(const void *p)
{
    return _mm512_loadu_ps(p);
}

KERNEL_INLINE vec load_part_f32(const void *p, int64_t m)
{
    return m == VEC_WIDTH ? load_f32(p) : _mm512_maskz_loadu_ps((vec_mask)((1u << m) - 1u), p);
}

KERNEL_INLINE void store_f32(void *p, vec x)
{
    _mm512_storeu_ps(p, x);
}

KERNEL_INLINE void store_part_f32(void *p, int64_t m, vec x)
{
    if (m == VEC_WIDTH) {
        store_f32(p, x);
    } else {
        _mm512_mask_storeu_ps(p, (vec_mask)((1u << m) - 1u), x);
    }
}

/* 16 elements of 16 bits as they are stored. */
KERNEL_INLINE __m256i load_half(const void *p, int64_t m)
{
    return m == VEC_WIDTH ? _mm256_loadu_si256(p)
                          : _mm256_maskz_loadu_epi16((vec_mask)((1u << m) - 1u), p);
}

KERNEL_INLINE void store_half(void *p, int64_t m, __m256i half)
{
    if (m == VEC_WIDTH) {
        _mm256_storeu_si256(p, half);
    } else {
        _mm256_mask_storeu_epi16(p, (vec_mask)((1u << m) - 1u), half);
    }
}

KERNEL_INLINE vec load_part_bf16(const void *p, int64_t m)
{
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(load_half(p, m)), 16));
}

KERNEL_INLINE vec load_bf16(const void *p)
{
    return load_part_bf16(p, VEC_WIDTH);
}

/* Rounds to nearest even by integers, exact for every float. */
KERNEL_INLINE __m256i round_bf16(vec x)
{
    __m512i u = _mm512_castps_si512(x);
    __m512i odd = _mm512_and_si512(_mm512_srli_epi32(u, 16), _mm512_set1_epi32(1));
    __m512i rounded = _mm512_add_epi32(u, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7FFF)));
    vec_mask is_nan = _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q);

    rounded = _mm512_mask_or_epi32(rounded, is_nan, u, _mm512_set1_epi32(0x400000));
    return _mm512_cvtepi32_epi16(_mm512_srli_epi32(rounded, 16));
}

KERNEL_INLINE void store_part_bf16(void *p, int64_t m, vec x)
{
    store_half(p, m, ROUND_BF16(x));
}

KERNEL_INLINE void store_bf16(void *p, vec x)
{
    store_part_bf16(p, VEC_WIDTH, x);
}

KERNEL_INLINE vec load_part_f16(const void *p, int64_t m)
{
    return _mm512_cvtph_ps(load_half(p, m));
}

KERNEL_INLINE vec load_f16(const void *p)
{
    return load_part_f16(p, VEC_WIDTH);
}

KERNEL_INLINE void store_part_f16(void *p, int64_t m, vec x)
{
    store_half(p, m, _mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}

KERNEL_INLINE void store_f16(void *p, vec x)
{
    store_part_f16(p, VEC_WIDTH, x);
}

/* Sixteen sums in double: lane j adds the squares of elements j, j + 16, … */
typedef struct square_lanes {
    __m512d lane[2];
} square_lanes;

/* `at` is the place of x's first element in its block. The square of a float is exact in double. */
KERNEL_INLINE void square_lanes_add(square_lanes *sums, int64_t at, vec x)
{
    __m512d low = _mm512_cvtps_pd(_mm512_castps512_ps256(x));
    __m512d high = _mm512_cvtps_pd(_mm512_extractf32x8_ps(x, 1));

    (void)at;
    sums->lane[0] = _mm512_fmadd_pd(low, low, sums->lane[0]);
    sums->lane[1] = _mm512_fmadd_pd(high, high, sums->lane[1]);
}

KERNEL_INLINE void square_lanes_store(const square_lanes *sums, double out[16])
{
    _mm512_storeu_pd(out, sums->lane[0]);
    _mm512_storeu_pd(out + 8, sums->lane[1]);
}

KERNEL_INLINE vec_int vec_int_set(uint32_t x)
{
    return _mm512_set1_epi32((int)x);
}

KERNEL_INLINE vec_int vec_int_load(const uint32_t *p)
{
    return _mm512_loadu_si512(p);
}

KERNEL_INLINE vec_int vec_int_add(vec_int a, vec_int b)
{
    return _mm512_add_epi32(a, b);
}

KERNEL_INLINE vec_int vec_int_xor3(vec_int a, vec_int b, vec_int c)
{
    return _mm512_ternarylogic_epi32(a, b, c, 0x96);
}

/* high + 1 where `sum` wrapped below `low`. */
KERNEL_INLINE vec_int vec_int_add_carry(vec_int high, vec_int low, vec_int sum)
{
    return _mm512_mask_add_epi32(high, _mm512_cmplt_epu32_mask(sum, low), high,
                                 _mm512_set1_epi32(1));
}

/* Low words of a * factor; *high gets the high words. */
KERNEL_INLINE vec_int vec_int_mul(vec_int a, uint32_t factor, vec_int *high)
{
    vec_int f = vec_int_set(factor);
    vec_int even = _mm512_mul_epu32(a, f);
    vec_int odd = _mm512_mul_epu32(_mm512_srli_epi64(a, 32), f);

    *high = _mm512_mask_shuffle_epi32(odd, 0x5555, even, (_MM_PERM_ENUM)0xF5);
    return _mm512_mask_shuffle_epi32(even, 0xAAAA, odd, (_MM_PERM_ENUM)0xA0);
}

/* The order of blocks in lanes that vec_int_store_interleaved undoes. */
KERNEL_INLINE vec_int vec_int_interleave_order(void)
{
    return _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
}

/* Word j of each block comes in w<j>: transposes 4 x 4 inside each 128 bits. */
KERNEL_INLINE void vec_int_store_interleaved(uint32_t *out, vec_int w0, vec_int w1, vec_int w2,
                                             vec_int w3)
{
    vec_int a = _mm512_unpacklo_epi32(w0, w1);
    vec_int b = _mm512_unpackhi_epi32(w0, w1);
    vec_int c = _mm512_unpacklo_epi32(w2, w3);
    vec_int d = _mm512_unpackhi_epi32(w2, w3);

    _mm512_storeu_si512(out, _mm512_unpacklo_epi64(a, c));
    _mm512_storeu_si512(out + 16, _mm512_unpackhi_epi64(a, c));
    _mm512_storeu_si512(out + 32, _mm512_unpacklo_epi64(b, d));
    _mm512_storeu_si512(out + 48, _mm512_unpackhi_epi64(b, d));
}

/* Lanes whose word is at least `threshold`. */
KERNEL_INLINE vec_mask vec_int_reaches(vec_int words, uint32_t threshold)
{
    return _mm512_cmpge_epu32_mask(words, vec_int_set(threshold));
}

#endif
