/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The init functions of the kernel families: each fills the pointers of its family for one instruction
 * set. A family is one file per folder, <isa>/<family>_<isa>.c; ref/ has them all.
 */
#ifndef CERO_KERNELS_ISA_H
#define CERO_KERNELS_ISA_H

#include "kernels/kernels.h"

typedef void (*cero_kernels_init)(cero_kernels *k);

/* What the CPU and the operating system offer; filled without any instruction-set flag. */
typedef struct cero_cpu_features {
    bool has_avx2;       /* and fma, f16c */
    bool has_avx512;     /* f, bw, vl, dq */
    bool has_avx512bf16; /* and all of avx512 */
} cero_cpu_features;

cero_cpu_features cero_cpu_detect(void);

/* Families in alphabetical order. */
void cero_kernels_activation_init_avx2(cero_kernels *k);
void cero_kernels_attention_init_avx2(cero_kernels *k);
void cero_kernels_activation_init_avx512(cero_kernels *k);
void cero_kernels_activation_init_ref(cero_kernels *k);
void cero_kernels_attention_init_avx512(cero_kernels *k);
void cero_kernels_attention_init_avx512bf16(cero_kernels *k);
void cero_kernels_attention_init_ref(cero_kernels *k);
void cero_kernels_convert_init_avx2(cero_kernels *k);
void cero_kernels_convert_init_avx512(cero_kernels *k);
void cero_kernels_convert_init_ref(cero_kernels *k);
void cero_kernels_dropout_init_avx2(cero_kernels *k);
void cero_kernels_dropout_init_avx512(cero_kernels *k);
void cero_kernels_dropout_init_ref(cero_kernels *k);
void cero_kernels_elementwise_init_avx2(cero_kernels *k);
void cero_kernels_elementwise_init_avx512(cero_kernels *k);
void cero_kernels_elementwise_init_ref(cero_kernels *k);
void cero_kernels_gemv_init_avx2(cero_kernels *k);
void cero_kernels_gemv_init_avx512(cero_kernels *k);
void cero_kernels_gemv_init_ref(cero_kernels *k);
void cero_kernels_norm_init_avx2(cero_kernels *k);
void cero_kernels_norm_init_avx512(cero_kernels *k);
void cero_kernels_norm_init_ref(cero_kernels *k);
void cero_kernels_optim_init_avx2(cero_kernels *k);
void cero_kernels_optim_init_avx512(cero_kernels *k);
void cero_kernels_optim_init_ref(cero_kernels *k);
void cero_kernels_reduce_init_avx2(cero_kernels *k);
void cero_kernels_reduce_init_avx512(cero_kernels *k);
void cero_kernels_reduce_init_ref(cero_kernels *k);
void cero_kernels_rotary_init_avx2(cero_kernels *k);
void cero_kernels_rotary_init_avx512(cero_kernels *k);
void cero_kernels_rotary_init_ref(cero_kernels *k);
void cero_kernels_softmax_init_avx2(cero_kernels *k);
void cero_kernels_softmax_init_avx512(cero_kernels *k);
void cero_kernels_softmax_init_ref(cero_kernels *k);
void cero_kernels_stream_init_avx2(cero_kernels *k);
void cero_kernels_stream_init_avx512(cero_kernels *k);
void cero_kernels_stream_init_ref(cero_kernels *k);
void cero_kernels_swiglu_init_avx2(cero_kernels *k);
void cero_kernels_swiglu_init_avx512(cero_kernels *k);
void cero_kernels_swiglu_init_ref(cero_kernels *k);

void cero_kernels_activation_init_avx512bf16(cero_kernels *k);
void cero_kernels_convert_init_avx512bf16(cero_kernels *k);
void cero_kernels_dropout_init_avx512bf16(cero_kernels *k);
void cero_kernels_elementwise_init_avx512bf16(cero_kernels *k);
void cero_kernels_norm_init_avx512bf16(cero_kernels *k);
void cero_kernels_rotary_init_avx512bf16(cero_kernels *k);
void cero_kernels_softmax_init_avx512bf16(cero_kernels *k);
void cero_kernels_swiglu_init_avx512bf16(cero_kernels *k);

#endif
