/* SPDX-License-Identifier: Apache-2.0 */
/* The conversions of convert.h, by integer arithmetic on the bits (IEEE 754 binary16, bfloat16). */
#include "ckpt/convert.h"

#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "model files are little-endian");

static uint32_t bits_of(float x)
{
    uint32_t bits;

    memcpy(&bits, &x, sizeof(bits));
    return bits;
}

static float float_of(uint32_t bits)
{
    float x;

    memcpy(&x, &bits, sizeof(x));
    return x;
}

void cero_convert_bf16_to_f32(const void *from, int64_t n, float *to)
{
    const unsigned char *p = from;

    for (int64_t i = 0; i < n; i++) {
        uint16_t half;
        memcpy(&half, p + 2 * i, sizeof(half));
        to[i] = float_of((uint32_t)half << 16);
    }
}

static float f32_from_f16(uint32_t half)
{
    uint32_t sign = (half & 0x8000u) << 16;
    uint32_t exponent = (half >> 10) & 31u;
    uint32_t fraction = half & 0x3FFu;

    if (exponent == 0) {
        // Zero and subnormals: fraction * 2^-24, exact in f32.
        return float_of(sign | bits_of((float)fraction * 0x1p-24F));
    }
    if (exponent == 31) {
        return float_of(sign | 0x7F800000u | (fraction << 13));
    }
    return float_of(sign | ((exponent + 112u) << 23) | (fraction << 13));
}

void cero_convert_f16_to_f32(const void *from, int64_t n, float *to)
{
    const unsigned char *p = from;

    for (int64_t i = 0; i < n; i++) {
        uint16_t half;
        memcpy(&half, p + 2 * i, sizeof(half));
        to[i] = f32_from_f16(half);
    }
}

void cero_convert_f64_to_f32(const void *from, int64_t n, float *to)
{
    const unsigned char *p = from;

    for (int64_t i = 0; i < n; i++) {
        double x;
        memcpy(&x, p + 8 * i, sizeof(x));
        // The cast of a value beyond f32 is undefined in C, not in IEEE 754.
        to[i] = x >= 0x1.ffffffp127    ? float_of(0x7F800000u)
                : x <= -0x1.ffffffp127 ? float_of(0xFF800000u)
                                       : (float)x;
    }
}

static uint16_t bf16_from_f32(uint32_t bits)
{
    if ((bits & 0x7FFFFFFFu) > 0x7F800000u) {
        return (uint16_t)((bits >> 16) | 0x40u); // quiet, so that the fraction cannot become zero
    }
    return (uint16_t)((bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16);
}

void cero_convert_f32_to_bf16(const float *from, int64_t n, void *to)
{
    unsigned char *p = to;

    for (int64_t i = 0; i < n; i++) {
        uint16_t half = bf16_from_f32(bits_of(from[i]));
        memcpy(p + 2 * i, &half, sizeof(half));
    }
}

static uint16_t f16_from_f32(uint32_t bits)
{
    uint32_t sign = (bits >> 16) & 0x8000u;
    uint32_t a = bits & 0x7FFFFFFFu;
    uint32_t half;

    if (a > 0x7F800000u) {
        half = 0x7E00u | ((a >> 13) & 0x3FFu);
    } else if (a >= 0x477FF000u) {
        half = 0x7C00u; // 65520 and above
    } else if (a >= 0x38800000u) {
        a -= 0x38000000u;
        half = (a + 0xFFFu + ((a >> 13) & 1u)) >> 13;
    } else if (a <= 0x33000000u) {
        half = 0; // 2^-25, half of the smallest subnormal, and below
    } else {
        uint32_t shift = 126u - (a >> 23); // 14 .. 24
        uint32_t fraction = (a & 0x7FFFFFu) | 0x800000u;
        uint32_t rest = fraction & ((1u << shift) - 1u);
        uint32_t middle = 1u << (shift - 1u);
        half = fraction >> shift;
        half += rest > middle || (rest == middle && (half & 1u) != 0);
    }
    return (uint16_t)(sign | half);
}

void cero_convert_f32_to_f16(const float *from, int64_t n, void *to)
{
    unsigned char *p = to;

    for (int64_t i = 0; i < n; i++) {
        uint16_t half = f16_from_f32(bits_of(from[i]));
        memcpy(p + 2 * i, &half, sizeof(half));
    }
}

static bool is_finite(float x)
{
    return (bits_of(x) & 0x7F800000u) != 0x7F800000u;
}

int64_t cero_convert_count_not_finite(const float *x, int64_t n, int64_t *first)
{
    int64_t count = 0;

    for (int64_t i = 0; i < n; i++) {
        count += !is_finite(x[i]);
    }
    for (int64_t i = 0; count > 0 && i < n; i++) {
        if (!is_finite(x[i])) {
            *first = i;
            break;
        }
    }
    return count;
}
