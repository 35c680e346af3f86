/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compiles the file that TEMPLATE names once for each dtype, so that a kernel is written once.
 *
 * The includer has defined ISA (avx512) and, for each dtype, the functions LOAD and STORE stand for. In
 * the template, ELEMENT is the stored type, DTYPE_INDEX its place in the table, and FN(add) is the name
 * add_bf16_avx512. Each template ends with FN(fill), which puts its kernels into the table. There is no
 * include guard: a file may compile several templates.
 */
#define JOIN2_(a, b)    a##_##b
#define JOIN2(a, b)     JOIN2_(a, b)
#define JOIN3_(a, b, c) a##_##b##_##c
#define JOIN3(a, b, c)  JOIN3_(a, b, c)
#define FN(name)        JOIN3(name, DTYPE, ISA)
#define LOAD            JOIN2(load, DTYPE)
#define LOAD_PART       JOIN2(load_part, DTYPE)
#define STORE           JOIN2(store, DTYPE)
#define STORE_PART      JOIN2(store_part, DTYPE)

#ifndef TWINS_BF16_ALONE
    #define DTYPE       f32
    #define DTYPE_INDEX CERO_DTYPE_F32
    #define ELEMENT     float
    #include TEMPLATE
    #undef DTYPE
    #undef DTYPE_INDEX
    #undef ELEMENT
#endif

#define ELEMENT     uint16_t
#define DTYPE       bf16
#define DTYPE_INDEX CERO_DTYPE_BF16
#include TEMPLATE
#undef DTYPE
#undef DTYPE_INDEX

#ifndef TWINS_BF16_ALONE
    #define DTYPE       f16
    #define DTYPE_INDEX CERO_DTYPE_F16
    #include TEMPLATE
    #undef DTYPE
    #undef DTYPE_INDEX
#endif
#undef ELEMENT

#undef JOIN2_
#undef JOIN2
#undef JOIN3_
#undef JOIN3
#undef FN
#undef LOAD
#undef LOAD_PART
#undef STORE
#undef STORE_PART
#undef TEMPLATE
