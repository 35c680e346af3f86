/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fills the kernel table: ref first, then each instruction set the CPU has, lowest first, up to what
 * CERO_ISA allows. Compiled with no instruction-set flag. The lists below are the only place that knows
 * which families an instruction set improves.
 */
#include "kernels/isa.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* Families in alphabetical order, one a line; add one line here for each file. NULL ends a list. */
// clang-format off
static const cero_kernels_init ref_inits[] = {
    cero_kernels_activation_init_ref,
    cero_kernels_attention_init_ref,
    cero_kernels_convert_init_ref,
    cero_kernels_dropout_init_ref,
    cero_kernels_elementwise_init_ref,
    cero_kernels_gemv_init_ref,
    cero_kernels_norm_init_ref,
    cero_kernels_optim_init_ref,
    cero_kernels_reduce_init_ref,
    cero_kernels_rotary_init_ref,
    cero_kernels_softmax_init_ref,
    cero_kernels_stream_init_ref,
    cero_kernels_swiglu_init_ref,
    NULL,
};
static const cero_kernels_init avx2_inits[] = {
    cero_kernels_activation_init_avx2,
    cero_kernels_attention_init_avx2,
    cero_kernels_convert_init_avx2,
    cero_kernels_dropout_init_avx2,
    cero_kernels_elementwise_init_avx2,
    cero_kernels_gemv_init_avx2,
    cero_kernels_norm_init_avx2,
    cero_kernels_optim_init_avx2,
    cero_kernels_reduce_init_avx2,
    cero_kernels_rotary_init_avx2,
    cero_kernels_softmax_init_avx2,
    cero_kernels_stream_init_avx2,
    cero_kernels_swiglu_init_avx2,
    NULL,
};
static const cero_kernels_init avx512_inits[] = {
    cero_kernels_activation_init_avx512,
    cero_kernels_attention_init_avx512,
    cero_kernels_convert_init_avx512,
    cero_kernels_dropout_init_avx512,
    cero_kernels_elementwise_init_avx512,
    cero_kernels_gemv_init_avx512,
    cero_kernels_norm_init_avx512,
    cero_kernels_optim_init_avx512,
    cero_kernels_reduce_init_avx512,
    cero_kernels_rotary_init_avx512,
    cero_kernels_softmax_init_avx512,
    cero_kernels_stream_init_avx512,
    cero_kernels_swiglu_init_avx512,
    NULL,
};
static const cero_kernels_init avx512bf16_inits[] = {
    cero_kernels_activation_init_avx512bf16,
    cero_kernels_attention_init_avx512bf16,
    cero_kernels_convert_init_avx512bf16,
    cero_kernels_dropout_init_avx512bf16,
    cero_kernels_elementwise_init_avx512bf16,
    cero_kernels_norm_init_avx512bf16,
    cero_kernels_rotary_init_avx512bf16,
    cero_kernels_softmax_init_avx512bf16,
    cero_kernels_swiglu_init_avx512bf16,
    NULL,
};
// clang-format on

enum {
    ISA_REF,
    ISA_AVX2,
    ISA_AVX512,
    ISA_AVX512BF16,
    ISA_COUNT
};

static const char *const names[ISA_COUNT] = {"ref", "avx2", "avx512", "avx512bf16"};
static const cero_kernels_init *const inits[ISA_COUNT] = {ref_inits, avx2_inits, avx512_inits,
                                                          avx512bf16_inits};

/* The kernel tables: the global state that CONVENTIONS allows, filled once. */
static cero_kernels tables[ISA_COUNT];
static int highest;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void fill_tables(void)
{
    cero_cpu_features f = cero_cpu_detect();

    highest = f.has_avx512bf16 ? ISA_AVX512BF16
              : f.has_avx512   ? ISA_AVX512
              : f.has_avx2     ? ISA_AVX2
                               : ISA_REF;
    for (int isa = 0; isa <= highest; isa++) {
        for (int level = 0; level <= isa; level++) {
            for (const cero_kernels_init *init = inits[level]; *init != NULL; init++) {
                (*init)(&tables[isa]);
            }
        }
        tables[isa].isa = names[isa];
    }
}

const char *cero_kernels_isa_name(int i)
{
    return i >= 0 && i < ISA_COUNT ? names[i] : NULL;
}

cero_status cero_kernels_get_isa(const char *isa, const cero_kernels **out)
{
    (void)pthread_once(&once, fill_tables);
    for (int i = 0; i < ISA_COUNT; i++) {
        if (strcmp(isa, names[i]) != 0) {
            continue;
        }
        if (i > highest) {
            return CERO_FAIL(CERO_ERR_UNSUPPORTED,
                             "instruction set %s: this CPU has %s at most; choose that or lower",
                             isa, names[highest]);
        }
        *out = &tables[i];
        return CERO_OK;
    }
    return CERO_FAIL(CERO_ERR_INVALID,
                     "instruction set '%s' is unknown; known are ref, avx2, avx512, avx512bf16",
                     isa);
}

cero_status cero_kernels_get(const cero_kernels **out)
{
    const char *wanted = getenv("CERO_ISA");

    (void)pthread_once(&once, fill_tables);
    if (wanted == NULL || wanted[0] == '\0') {
        *out = &tables[highest];
        return CERO_OK;
    }
    cero_status st = cero_kernels_get_isa(wanted, out);
    if (st == CERO_ERR_UNSUPPORTED) {
        st = CERO_ERR_INVALID;
    }
    return st == CERO_OK ? st : cero_error_prefix(st, "CERO_ISA=%s: ", wanted);
}
