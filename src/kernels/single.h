/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compiles the file that TEMPLATE names once, for kernels of f32 alone; twins.h does it for each dtype.
 *
 * The includer has defined ISA (avx512). In the template, FN(softmax) is the name softmax_avx512. There
 * is no include guard: a file may compile several templates.
 */
#define JOIN2_(a, b) a##_##b
#define JOIN2(a, b)  JOIN2_(a, b)
#define FN(name)     JOIN2(name, ISA)

#include TEMPLATE

#undef JOIN2_
#undef JOIN2
#undef FN
#undef TEMPLATE
