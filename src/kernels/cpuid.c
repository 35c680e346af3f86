/* SPDX-License-Identifier: Apache-2.0 */
/* Asks the CPU what it has. Compiled with no instruction-set flag. */
#include "kernels/isa.h"

#if defined(__x86_64__)
    #include <cpuid.h>
#endif

cero_cpu_features cero_cpu_detect(void)
{
    cero_cpu_features f = {0};

#if defined(__x86_64__)
    // The builtins also ask the operating system (xgetbv) whether the registers are saved.
    unsigned a = 0;
    unsigned b = 0;
    unsigned c = 0;
    unsigned d = 0;

    __builtin_cpu_init();
    // Clang 14 has no name for f16c here: leaf 1, ecx bit 29.
    bool has_f16c = __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & (1u << 29)) != 0;
    f.has_avx2 = has_f16c && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    f.has_avx512 = f.has_avx2 && __builtin_cpu_supports("avx512f") &&
                   __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
                   __builtin_cpu_supports("avx512dq");
    f.has_avx512bf16 = f.has_avx512 && __builtin_cpu_supports("avx512bf16");
#endif
    return f;
}
