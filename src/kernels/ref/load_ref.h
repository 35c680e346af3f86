/* SPDX-License-Identifier: Apache-2.0 */
/* One element of each dtype to and from f32, by bits: round to nearest even, NaN kept quiet. */
#ifndef CERO_KERNELS_REF_LOAD_REF_H
#define CERO_KERNELS_REF_LOAD_REF_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define ISA ref

static inline uint32_t bits_of(float x)
{
    uint32_t u;
    memcpy(&u, &x, sizeof(u));
    return u;
}

static inline float float_of(uint32_t u)
{
    float x;
    memcpy(&x, &u, sizeof(x));
    return x;
}

static inline float load_f32(const float *p)
{
    return *p;
}

static inline void store_f32(float *p, float x)
{
    *p = x;
}

static inline float load_bf16(const uint16_t *p)
{
    return float_of((uint32_t)*p << 16);
}

static inline void store_bf16(uint16_t *p, float x)
{
    uint32_t u = bits_of(x);
    bool is_nan = (u & 0x7FFFFFFFu) > 0x7F800000u;

    *p = (uint16_t)(is_nan ? (u >> 16) | 0x40u : (u + 0x7FFFu + ((u >> 16) & 1u)) >> 16);
}

static inline float load_f16(const uint16_t *p)
{
    uint32_t sign = (uint32_t)(*p & 0x8000u) << 16;
    uint32_t exponent = (*p >> 10) & 0x1Fu;
    uint32_t mantissa = *p & 0x3FFu;

    if (exponent == 0) {
        return float_of(sign | bits_of((float)mantissa * 0x1p-24f));
    }
    if (exponent == 31) {
        return float_of(sign | 0x7F800000u | mantissa << 13 | (mantissa != 0 ? 0x400000u : 0u));
    }
    return float_of(sign | (exponent + 112) << 23 | mantissa << 13);
}

static inline uint16_t f16_magnitude(uint32_t u)
{
    if (u > 0x7F800000u) {
        return (uint16_t)(0x7E00u | ((u >> 13) & 0x3FFu));
    }
    if (u >= 0x477FF000u) {
        return 0x7C00u; // From 65520 up the nearest is infinity.
    }
    if (u < 0x38800000u) {
        // Below 2^-14 the step is 2^-24, which is the step of floats in [0.5, 1).
        return (uint16_t)(bits_of(float_of(u) + 0.5f) - 0x3F000000u);
    }
    return (uint16_t)((u - (112u << 23) + 0xFFFu + ((u >> 13) & 1u)) >> 13);
}

static inline void store_f16(uint16_t *p, float x)
{
    uint32_t u = bits_of(x);
    *p = (uint16_t)((u >> 16 & 0x8000u) | f16_magnitude(u & 0x7FFFFFFFu));
}

#endif
