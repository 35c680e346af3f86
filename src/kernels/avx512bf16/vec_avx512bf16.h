/* SPDX-License-Identifier: Apache-2.0 */
/* The vectors of AVX-512 with the native conversion to bf16. */
#ifndef CERO_KERNELS_AVX512BF16_VEC_AVX512BF16_H
#define CERO_KERNELS_AVX512BF16_VEC_AVX512BF16_H

#include "base/status.h"

#include <immintrin.h>

#define ISA        avx512bf16
#define ROUND_BF16 round_bf16_native

static inline __m256i round_bf16_native(__m512 x);

#include "kernels/avx512/vec_avx512.h"

/* The instruction takes subnormal numbers for zero: a vector with one goes the exact way. */
KERNEL_INLINE __m256i round_bf16_native(__m512 x)
{
    enum {
        SUBNORMAL = 0x20
    };

    if (CERO_UNLIKELY(_mm512_fpclass_ps_mask(x, SUBNORMAL) != 0)) {
        return round_bf16(x);
    }
    return (__m256i)_mm512_cvtneps_pbh(x);
}

#endif
