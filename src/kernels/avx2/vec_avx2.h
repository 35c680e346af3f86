/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Vectors of 8 floats for AVX2 with FMA and F16C: the words in which the templates of kernels/vector are
 * written.
 *
 * The operators + - * / work on vec. LOAD_PART and STORE_PART touch m <= VEC_WIDTH elements and nothing
 * else; what is not loaded is 0.
 */
#ifndef CERO_KERNELS_AVX2_VEC_AVX2_H
#define CERO_KERNELS_AVX2_VEC_AVX2_H

#include <immintrin.h>
#include <stdint.h>
#include <string.h>

#define ISA           avx2
#define KERNEL_INLINE static inline __attribute__((always_inline))

enum {
    VEC_WIDTH = 8
};

typedef __m256 vec;
typedef __m256i vec_int;
typedef __m256 vec_mask;

KERNEL_INLINE vec vec_set(float x)
{
    return _mm256_set1_ps(x);
}

/* a + b, for conditional expressions: the type of the operator's result is not quite vec. */
KERNEL_INLINE vec vec_add(vec a, vec b)
{
    return _mm256_add_ps(a, b);
}

/* a * b + c and c - a * b, rounded once */
KERNEL_INLINE vec vec_fma(vec a, vec b, vec c)
{
    return _mm256_fmadd_ps(a, b, c);
}

KERNEL_INLINE vec vec_fnma(vec a, vec b, vec c)
{
    return _mm256_fnmadd_ps(a, b, c);
}

/* The second operand when either is NaN. */
KERNEL_INLINE vec vec_max(vec a, vec b)
{
    return _mm256_max_ps(a, b);
}

KERNEL_INLINE vec vec_min(vec a, vec b)
{
    return _mm256_min_ps(a, b);
}

KERNEL_INLINE vec vec_abs(vec x)
{
    return _mm256_andnot_ps(vec_set(-0.0f), x);
}

KERNEL_INLINE vec vec_sqrt(vec x)
{
    return _mm256_sqrt_ps(x);
}

KERNEL_INLINE vec vec_copy_sign(vec x, vec sign)
{
    return _mm256_or_ps(x, _mm256_and_ps(sign, vec_set(-0.0f)));
}

KERNEL_INLINE vec vec_round(vec x)
{
    return _mm256_round_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

/* x * 2^n for whole |n| <= 252, in two factors so that subnormal results keep their digits. */
KERNEL_INLINE vec vec_scale2(vec x, vec n)
{
    __m256i whole = _mm256_cvtps_epi32(n);
    __m256i half = _mm256_srai_epi32(whole, 1);
    __m256i rest = _mm256_sub_epi32(whole, half);
    __m256i bias = _mm256_set1_epi32(127);
    vec a = _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(half, bias), 23));
    vec b = _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(rest, bias), 23));

    return x * a * b;
}

KERNEL_INLINE vec_mask vec_less(vec a, vec b)
{
    return _mm256_cmp_ps(a, b, _CMP_LT_OQ);
}

KERNEL_INLINE vec_mask vec_less_equal(vec a, vec b)
{
    return _mm256_cmp_ps(a, b, _CMP_LE_OQ);
}

KERNEL_INLINE vec vec_select(vec_mask mask, vec yes, vec no)
{
    return _mm256_blendv_ps(no, yes, mask);
}

KERNEL_INLINE __m256i part_mask(int64_t m)
{
    return _mm256_cmpgt_epi32(_mm256_set1_epi32((int)m), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

/* The first m lanes, 0 in the others. */
KERNEL_INLINE vec vec_part(vec x, int64_t m)
{
    return _mm256_and_ps(x, _mm256_castsi256_ps(part_mask(m)));
}

KERNEL_INLINE vec vec_fill_part(vec x, int64_t m, float others)
{
    return _mm256_blendv_ps(vec_set(others), x, _mm256_castsi256_ps(part_mask(m)));
}

/* Lanes are added (compared) in halves: 4 + 4, 2 + 2, 1 + 1. */
KERNEL_INLINE float vec_sum(vec x)
{
    __m128 b = _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    b = _mm_add_ps(b, _mm_movehl_ps(b, b));
    return _mm_cvtss_f32(_mm_add_ss(b, _mm_movehdup_ps(b)));
}

KERNEL_INLINE float vec_max_lane(vec x)
{
    __m128 b = _mm_max_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    b = _mm_max_ps(b, _mm_movehl_ps(b, b));
    return _mm_cvtss_f32(_mm_max_ss(b, _mm_movehdup_ps(b)));
}

/* Lane 0. */
KERNEL_INLINE float vec_first(vec x)
{
    return _mm256_cvtss_f32(x);
}

KERNEL_INLINE vec load_f32(const void *p)
{
    return _mm256_loadu_ps(p);
}

KERNEL_INLINE vec load_part_f32(const void *p, int64_t m)
{
    return m == VEC_WIDTH ? load_f32(p) : _mm256_maskload_ps(p, part_mask(m));
}

KERNEL_INLINE void store_f32(void *p, vec x)
{
    _mm256_storeu_ps(p, x);
}

KERNEL_INLINE void store_part_f32(void *p, int64_t m, vec x)
{
    if (m == VEC_WIDTH) {
        store_f32(p, x);
    } else {
        _mm256_maskstore_ps(p, part_mask(m), x);
    }
}

/* 8 elements of 16 bits as they are stored. AVX2 has no masked access of 16 bits: tails are copied. */
KERNEL_INLINE __m128i load_half(const void *p, int64_t m)
{
    if (m == VEC_WIDTH) {
        return _mm_loadu_si128(p);
    }
    uint16_t part[VEC_WIDTH] = {0};
    memcpy(part, p, (size_t)m * sizeof(part[0]));
    return _mm_loadu_si128((const void *)part);
}

KERNEL_INLINE void store_half(void *p, int64_t m, __m128i half)
{
    if (m == VEC_WIDTH) {
        _mm_storeu_si128(p, half);
    } else {
        uint16_t part[VEC_WIDTH];
        _mm_storeu_si128((void *)part, half);
        memcpy(p, part, (size_t)m * sizeof(part[0]));
    }
}

KERNEL_INLINE vec load_part_bf16(const void *p, int64_t m)
{
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(load_half(p, m)), 16));
}

KERNEL_INLINE vec load_bf16(const void *p)
{
    return load_part_bf16(p, VEC_WIDTH);
}

KERNEL_INLINE void store_part_bf16(void *p, int64_t m, vec x)
{
    __m256i u = _mm256_castps_si256(x);
    __m256i odd = _mm256_and_si256(_mm256_srli_epi32(u, 16), _mm256_set1_epi32(1));
    __m256i rounded = _mm256_add_epi32(u, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7FFF)));
    __m256i quiet = _mm256_or_si256(u, _mm256_set1_epi32(0x400000));
    __m256i is_nan = _mm256_castps_si256(_mm256_cmp_ps(x, x, _CMP_UNORD_Q));

    rounded = _mm256_srli_epi32(_mm256_blendv_epi8(rounded, quiet, is_nan), 16);
    store_half(
        p, m,
        _mm_packus_epi32(_mm256_castsi256_si128(rounded), _mm256_extracti128_si256(rounded, 1)));
}

KERNEL_INLINE void store_bf16(void *p, vec x)
{
    store_part_bf16(p, VEC_WIDTH, x);
}

KERNEL_INLINE vec load_part_f16(const void *p, int64_t m)
{
    return _mm256_cvtph_ps(load_half(p, m));
}

KERNEL_INLINE vec load_f16(const void *p)
{
    return load_part_f16(p, VEC_WIDTH);
}

KERNEL_INLINE void store_part_f16(void *p, int64_t m, vec x)
{
    store_half(p, m, _mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}

KERNEL_INLINE void store_f16(void *p, vec x)
{
    store_part_f16(p, VEC_WIDTH, x);
}

/* Sixteen sums in double: lane j adds the squares of elements j, j + 16, … */
typedef struct square_lanes {
    __m256d lane[4];
} square_lanes;

/* `at` is the place of x's first element in its block. The square of a float is exact in double. */
KERNEL_INLINE void square_lanes_add(square_lanes *sums, int64_t at, vec x)
{
    __m256d low = _mm256_cvtps_pd(_mm256_castps256_ps128(x));
    __m256d high = _mm256_cvtps_pd(_mm256_extractf128_ps(x, 1));
    __m256d *lane = sums->lane + (at % 16 == 0 ? 0 : 2);

    lane[0] = _mm256_fmadd_pd(low, low, lane[0]);
    lane[1] = _mm256_fmadd_pd(high, high, lane[1]);
}

KERNEL_INLINE void square_lanes_store(const square_lanes *sums, double out[16])
{
    for (int i = 0; i < 4; i++) {
        _mm256_storeu_pd(out + 4 * i, sums->lane[i]);
    }
}

KERNEL_INLINE vec_int vec_int_set(uint32_t x)
{
    return _mm256_set1_epi32((int)x);
}

KERNEL_INLINE vec_int vec_int_load(const uint32_t *p)
{
    return _mm256_loadu_si256((const void *)p);
}

KERNEL_INLINE vec_int vec_int_add(vec_int a, vec_int b)
{
    return _mm256_add_epi32(a, b);
}

KERNEL_INLINE vec_int vec_int_xor3(vec_int a, vec_int b, vec_int c)
{
    return _mm256_xor_si256(_mm256_xor_si256(a, b), c);
}

/* high + 1 where `sum` wrapped below `low`. */
KERNEL_INLINE vec_int vec_int_add_carry(vec_int high, vec_int low, vec_int sum)
{
    __m256i has_no_carry = _mm256_cmpeq_epi32(_mm256_max_epu32(sum, low), sum);
    return _mm256_add_epi32(high, _mm256_andnot_si256(has_no_carry, _mm256_set1_epi32(1)));
}

/* Low words of a * factor; *high gets the high words. */
KERNEL_INLINE vec_int vec_int_mul(vec_int a, uint32_t factor, vec_int *high)
{
    vec_int f = vec_int_set(factor);
    vec_int even = _mm256_mul_epu32(a, f);
    vec_int odd = _mm256_mul_epu32(_mm256_srli_epi64(a, 32), f);

    *high = _mm256_blend_epi32(_mm256_srli_epi64(even, 32), odd, 0xAA);
    return _mm256_blend_epi32(even, _mm256_slli_epi64(odd, 32), 0xAA);
}

/* The order of blocks in lanes that vec_int_store_interleaved undoes. */
KERNEL_INLINE vec_int vec_int_interleave_order(void)
{
    return _mm256_setr_epi32(0, 2, 4, 6, 1, 3, 5, 7);
}

/* Word j of each block comes in w<j>: transposes 4 x 4 inside each 128 bits. */
KERNEL_INLINE void vec_int_store_interleaved(uint32_t *out, vec_int w0, vec_int w1, vec_int w2,
                                             vec_int w3)
{
    vec_int a = _mm256_unpacklo_epi32(w0, w1);
    vec_int b = _mm256_unpackhi_epi32(w0, w1);
    vec_int c = _mm256_unpacklo_epi32(w2, w3);
    vec_int d = _mm256_unpackhi_epi32(w2, w3);

    _mm256_storeu_si256((void *)out, _mm256_unpacklo_epi64(a, c));
    _mm256_storeu_si256((void *)(out + 8), _mm256_unpackhi_epi64(a, c));
    _mm256_storeu_si256((void *)(out + 16), _mm256_unpacklo_epi64(b, d));
    _mm256_storeu_si256((void *)(out + 24), _mm256_unpackhi_epi64(b, d));
}

/* Lanes whose word is at least `threshold`. */
KERNEL_INLINE vec_mask vec_int_reaches(vec_int words, uint32_t threshold)
{
    __m256i most = _mm256_max_epu32(words, vec_int_set(threshold));
    return _mm256_castsi256_ps(_mm256_cmpeq_epi32(most, words));
}

#endif
