/* SPDX-License-Identifier: Apache-2.0 */
/* Blocked causal attention for AVX-512: products in f32 whatever the storage. */
#include "kernels/avx512/attention_words.h"
#include "kernels/isa.h"

#define ISA avx512

/* To nearest even; NaN stays NaN. */
INLINE __m256i bf16_of_f32(vf x)
{
    __m512i bits = _mm512_castps_si512(x);
    __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    __m512i rounded = _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7FFF)));
    __mmask16 is_nan = _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q);
    rounded = _mm512_mask_or_epi32(rounded, is_nan, bits, _mm512_set1_epi32(0x400000));
    return _mm512_cvtepi32_epi16(_mm512_srli_epi32(rounded, 16));
}

#include "kernels/attention_f32_tmpl.c"

#include "kernels/attention_blocks_tmpl.c"

#include "kernels/attention_row_tmpl.c"

#include "kernels/attention_forward_tmpl.c"

#include "kernels/attention_backward_tmpl.c"

#define TEMPLATE "kernels/attention_twins_tmpl.c"
#include "kernels/twins.h"

void cero_kernels_attention_init_avx512(cero_kernels *k)
{
    k->attention_scratch = scratch;
    fill_f32_avx512(k);
    fill_bf16_avx512(k);
    fill_f16_avx512(k);
}
