/* SPDX-License-Identifier: Apache-2.0 */
/* Blocked causal attention for AVX2: products in f32 whatever the storage. */
#include "kernels/avx2/attention_words.h"
#include "kernels/isa.h"

#define ISA avx2

#include "kernels/attention_f32_tmpl.c"

#include "kernels/attention_blocks_tmpl.c"

#include "kernels/attention_row_tmpl.c"

#include "kernels/attention_forward_tmpl.c"

#include "kernels/attention_backward_tmpl.c"

#define TEMPLATE "kernels/attention_twins_tmpl.c"
#include "kernels/twins.h"

void cero_kernels_attention_init_avx2(cero_kernels *k)
{
    k->attention_scratch = scratch;
    fill_f32_avx2(k);
    fill_bf16_avx2(k);
    fill_f16_avx2(k);
}
