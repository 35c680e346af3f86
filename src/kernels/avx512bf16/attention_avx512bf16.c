/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Blocked causal attention of bf16 with products of bf16 pairs summed in f32 (vdpbf16ps). The scratch of
 * AVX-512's f32 steps is enough for pairs, so attention_scratch stays as it is.
 */
#include "kernels/avx512/attention_words.h"
#include "kernels/isa.h"

#define PAIR 2

INLINE __m256i bf16_of_f32(vf x)
{
    return (__m256i)_mm512_cvtneps_pbh(x);
}

INLINE vf vf_dot(vf acc, vf a, vf b)
{
    return _mm512_dpbf16_ps(acc, (__m512bh)_mm512_castps_si512(a),
                            (__m512bh)_mm512_castps_si512(b));
}

INLINE vf load_along(cero_dtype dtype, const void *row, int64_t at, int64_t count)
{
    __mmask32 mask = count >= 32 ? 0xFFFFFFFFu : (1u << count) - 1u;

    CERO_UNUSED(dtype);
    return _mm512_castsi512_ps(_mm512_maskz_loadu_epi16(mask, (const uint16_t *)row + at));
}

INLINE vf load_across(cero_dtype dtype, const void *row, const void *next, int64_t at,
                      int64_t count)
{
    __mmask16 mask = first_lanes(count);
    __m256i even = _mm256_maskz_loadu_epi16(mask, (const uint16_t *)row + at);
    __m512i pairs = _mm512_cvtepu16_epi32(even);

    CERO_UNUSED(dtype);
    if (next != NULL) {
        __m256i odd = _mm256_maskz_loadu_epi16(mask, (const uint16_t *)next + at);
        pairs = _mm512_or_si512(pairs, _mm512_slli_epi32(_mm512_cvtepu16_epi32(odd), 16));
    }
    return _mm512_castsi512_ps(pairs);
}

/* bf16 of a in the lower 16 elements, of b in the upper. */
INLINE __m512i narrow(vf a, vf b)
{
    return (__m512i)_mm512_cvtne2ps_pbh(b, a);
}

INLINE void put_along(float *to, const vf x[2])
{
    vf_store(to, _mm512_castsi512_ps(narrow(x[0], x[1])));
}

INLINE void put_across(float *to, const vf even[2], const vf odd[2])
{
    const __m512i interleave =
        _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7, 22, 6,
                         21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);

    for (int h = 0; h < 2; h++) {
        __m512i pairs = _mm512_permutexvar_epi16(interleave, narrow(even[h], odd[h]));
        vf_store(to + h * LANES, _mm512_castsi512_ps(pairs));
    }
}

#include "kernels/attention_blocks_tmpl.c"

#include "kernels/attention_row_tmpl.c"

#include "kernels/attention_forward_tmpl.c"

#include "kernels/attention_backward_tmpl.c"

static void attention_forward_bf16_avx512bf16(const cero_attention_args *args)
{
    forward(CERO_DTYPE_BF16, args);
}

static void attention_backward_bf16_avx512bf16(const cero_attention_args *args)
{
    backward(CERO_DTYPE_BF16, args);
}

void cero_kernels_attention_init_avx512bf16(cero_kernels *k)
{
    k->attention_forward[CERO_DTYPE_BF16] = attention_forward_bf16_avx512bf16;
    k->attention_backward[CERO_DTYPE_BF16] = attention_backward_bf16_avx512bf16;
}
