/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Blocked causal attention of bf16 with products of bf16 pairs summed in f32 (vdpbf16ps). The scratch of
 * AVX-512's f32 steps is enough for pairs, so attention_scratch stays as it is.
 */
#include "kernels/avx512bf16/vec_avx512bf16.h"

#include "kernels/avx512/attention_words.h"
#include "kernels/isa.h"
#include "kernels/vector/any_dtype.h"

#define PAIR 2

KERNEL_INLINE vec vec_dot(vec acc, vec a, vec b)
{
    return _mm512_dpbf16_ps(acc, (__m512bh)_mm512_castps_si512(a),
                            (__m512bh)_mm512_castps_si512(b));
}

KERNEL_INLINE vec load_along(cero_dtype dtype, const void *row, int64_t at, int64_t count)
{
    __mmask32 mask = count >= 32 ? 0xFFFFFFFFu : (1u << count) - 1u;

    CERO_UNUSED(dtype);
    return _mm512_castsi512_ps(_mm512_maskz_loadu_epi16(mask, (const uint16_t *)row + at));
}

KERNEL_INLINE vec load_across(cero_dtype dtype, const void *row, const void *next, int64_t at,
                              int64_t count)
{
    int64_t m = count < VEC_WIDTH ? count : VEC_WIDTH;
    __m512i pairs = _mm512_cvtepu16_epi32(load_half((const uint16_t *)row + at, m));

    CERO_UNUSED(dtype);
    if (next != NULL) {
        __m512i odd = _mm512_cvtepu16_epi32(load_half((const uint16_t *)next + at, m));
        pairs = _mm512_or_si512(pairs, _mm512_slli_epi32(odd, 16));
    }
    return _mm512_castsi512_ps(pairs);
}

/* bf16 of a in the lower 16 elements, of b in the upper. */
KERNEL_INLINE __m512i narrow(vec a, vec b)
{
    return (__m512i)_mm512_cvtne2ps_pbh(b, a);
}

KERNEL_INLINE void put_along(float *to, const vec x[2])
{
    store_f32(to, _mm512_castsi512_ps(narrow(x[0], x[1])));
}

KERNEL_INLINE void put_across(float *to, const vec even[2], const vec odd[2])
{
    const __m512i interleave =
        _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7, 22, 6,
                         21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);

    for (int h = 0; h < 2; h++) {
        __m512i pairs = _mm512_permutexvar_epi16(interleave, narrow(even[h], odd[h]));
        store_f32(to + h * VEC_WIDTH, _mm512_castsi512_ps(pairs));
    }
}

#include "kernels/vector/attention_tmpl.c"

#define TWINS_BF16_ALONE
#define TEMPLATE "kernels/attention_tmpl.c"
#include "kernels/twins.h"

void cero_kernels_attention_init_avx512bf16(cero_kernels *k)
{
    fill_bf16_avx512bf16(k);
}
