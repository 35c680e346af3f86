/* SPDX-License-Identifier: Apache-2.0 */
/* Blocked causal attention for AVX-512: products in f32 whatever the storage. */
#include "kernels/avx512/attention_words.h"
#include "kernels/isa.h"

#define ISA  avx512
#define PAIR 1

INLINE vf vf_dot(vf acc, vf a, vf b)
{
    return _mm512_fmadd_ps(a, b, acc);
}

INLINE vf load_along(cero_dtype dtype, const void *row, int64_t at, int64_t count)
{
    return load_f32(dtype, row, at, count);
}

INLINE vf load_across(cero_dtype dtype, const void *row, const void *next, int64_t at,
                      int64_t count)
{
    CERO_UNUSED(next);
    return load_f32(dtype, row, at, count);
}

INLINE void put_along(float *to, const vf x[2])
{
    vf_store(to, x[0]);
    vf_store(to + LANES, x[1]);
}

INLINE void put_across(float *to, const vf even[2], const vf odd[2])
{
    put_along(to, even);
    put_along(to + 2 * LANES, odd);
}

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
