/* SPDX-License-Identifier: Apache-2.0 */
/* Asks the CPU what it has. Compiled with no instruction-set flag. */
#include "kernels/isa.h"

cero_cpu_features cero_cpu_detect(void)
{
    cero_cpu_features f = {0};

#if defined(__x86_64__)
    // The builtins also ask the operating system (xgetbv) whether the registers are saved.
    __builtin_cpu_init();
    f.has_avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                 __builtin_cpu_supports("f16c");
    f.has_avx512 = f.has_avx2 && __builtin_cpu_supports("avx512f") &&
                   __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
                   __builtin_cpu_supports("avx512dq");
    f.has_avx512bf16 = f.has_avx512 && __builtin_cpu_supports("avx512bf16");
#endif
    return f;
}
