/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers for the tests of devices: conversion by hand, random arrays and comparisons. */
#ifndef CERO_TESTS_DEVICE_NUMBERS_H
#define CERO_TESTS_DEVICE_NUMBERS_H

#include "harness.h"

#include "base/rng.h"
#include "device/device.h"

#include <math.h>

static inline float number_from_f16(uint16_t h)
{
    int sign = h >> 15;
    int exponent = (h >> 10) & 31;
    int fraction = h & 1023;
    double x = exponent == 0    ? ldexp(fraction, -24)
               : exponent == 31 ? (fraction != 0 ? (double)NAN : (double)INFINITY)
                                : ldexp(fraction + 1024, exponent - 25);
    return (float)(sign != 0 ? -x : x);
}

/* Element i of an array of any float type. */
static inline double number_get(cero_dtype dtype, const void *x, int64_t i)
{
    uint32_t bits;
    float f;

    if (dtype == CERO_DTYPE_F32) {
        return (double)((const float *)x)[i];
    }
    uint16_t h = ((const uint16_t *)x)[i];
    if (dtype == CERO_DTYPE_F16) {
        return (double)number_from_f16(h);
    }
    bits = (uint32_t)h << 16;
    memcpy(&f, &bits, sizeof(f));
    return (double)f;
}

/* Stores a number that all types hold exactly. */
static inline void number_set(cero_dtype dtype, void *x, int64_t i, float value)
{
    uint32_t bits;

    if (dtype == CERO_DTYPE_F32) {
        ((float *)x)[i] = value;
        return;
    }
    memcpy(&bits, &value, sizeof(bits));
    if (dtype == CERO_DTYPE_BF16) {
        ((uint16_t *)x)[i] = (uint16_t)(bits >> 16);
        return;
    }
    if (value == 0.0f) {
        ((uint16_t *)x)[i] = 0;
        return;
    }
    ((uint16_t *)x)[i] =
        (uint16_t)((bits >> 31) << 15 | (((bits >> 23) & 255) - 112) << 10 | ((bits >> 13) & 1023));
}

/* n multiples of 1/64 in (-2, 2): exact in every type. The caller frees. */
static inline void *number_random(cero_dtype dtype, int64_t n, uint64_t seed)
{
    void *x = malloc((size_t)(n + 1) * 4);
    cero_rng_key key = cero_rng_make_key(seed, CERO_RNG_TEST, 0, 0);

    assert_non_null(x);
    for (int64_t i = 0; i < n; i++) {
        int value = (int)(cero_rng_word(key, 0, (uint64_t)i) >> 24) - 128;
        number_set(dtype, x, i, (float)value / 64.0f);
    }
    return x;
}

/* 64-byte aligned memory full of a byte that makes NaNs; the caller frees. */
static inline void *number_scratch(size_t nbytes)
{
    void *x = NULL;

    assert_int_equal(posix_memalign(&x, 64, nbytes + 64), 0);
    memset(x, 0xFF, nbytes + 64);
    return x;
}

/* Relative step of a type's rounding. */
static inline double number_epsilon(cero_dtype dtype)
{
    return dtype == CERO_DTYPE_F32 ? 1e-6 : dtype == CERO_DTYPE_BF16 ? 1.0 / 256 : 1.0 / 2048;
}

static const cero_dtype number_dtypes[CERO_FLOAT_DTYPES] = {CERO_DTYPE_F32, CERO_DTYPE_BF16,
                                                            CERO_DTYPE_F16};

static inline cero_device *device_with(const char *name, int threads)
{
    cero_device *d = NULL;

    assert_ok(cero_device_create(&(cero_device_params){.name = name, .threads = threads}, &d));
    return d;
}

/*
 * Whether products were found to have the same bits for 1 and 2 threads, but for outputs too small to
 * share: so they are with this version of the library and AVX-512. Others split sums more often.
 */
static inline bool library_keeps_sums_whole(const cero_device *d)
{
    return strncmp(cero_device_matmul_library(), "oneDNN 2.6.", 11) == 0 &&
           strncmp(cero_device_kernels(d)->isa, "avx512", 6) == 0 &&
           getenv("DNNL_MAX_CPU_ISA") == NULL;
}

#endif
