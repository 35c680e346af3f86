/* SPDX-License-Identifier: Apache-2.0 */
/* The fixed-point accumulator of exact.h. */
#include "base/exact.h"

#include <math.h>
#include <string.h>

enum {
    BIAS = 1088,
    MAX_PENDING = 1 << 29
};

void cero_exact_clear(cero_exact *sum)
{
    memset(sum, 0, sizeof(*sum));
}

/* Moves what exceeds 32 bits in each limb upwards; the top limb keeps the sign. */
static void carry(cero_exact *sum)
{
    int64_t up = 0;

    for (int i = 0; i < CERO_EXACT_LIMBS - 1; i++) {
        int64_t v = sum->limb[i] + up;
        int64_t digit = v & 0xFFFFFFFF;
        sum->limb[i] = digit;
        up = (v - digit) / 0x100000000;
    }
    sum->limb[CERO_EXACT_LIMBS - 1] += up;
    sum->pending = 1;
}

void cero_exact_add(cero_exact *sum, double x)
{
    uint64_t bits;

    memcpy(&bits, &x, sizeof(bits));
    int exponent = (int)((bits >> 52) & 0x7FF);
    uint64_t mantissa = bits & 0xFFFFFFFFFFFFFu;
    bool is_negative = (bits >> 63) != 0;

    if (exponent == 0x7FF) {
        sum->not_finite++;
        return;
    }
    if (exponent == 0) {
        exponent = 1; // subnormal
    } else {
        mantissa |= 0x10000000000000u;
    }
    // x = mantissa * 2^(exponent - 1075); shift = position of bit 0 above 2^-BIAS.
    int shift = exponent - 1075 + BIAS;
    int at = shift / 32;
    int by = shift % 32;
    uint64_t low = mantissa << by;
    uint64_t high = by == 0 ? 0 : mantissa >> (64 - by);
    int64_t digit[3] = {(int64_t)(low & 0xFFFFFFFFu), (int64_t)(low >> 32), (int64_t)high};

    for (int i = 0; i < 3 && at + i < CERO_EXACT_LIMBS; i++) {
        sum->limb[at + i] += is_negative ? -digit[i] : digit[i];
    }
    if (++sum->pending >= MAX_PENDING) {
        carry(sum);
    }
}

void cero_exact_merge(cero_exact *sum, const cero_exact *other)
{
    if (sum->pending + other->pending >= MAX_PENDING) {
        carry(sum);
    }
    for (int i = 0; i < CERO_EXACT_LIMBS; i++) {
        sum->limb[i] += other->limb[i];
    }
    sum->not_finite += other->not_finite;
    sum->pending += other->pending;
}

double cero_exact_round(const cero_exact *sum)
{
    cero_exact s = *sum;
    double value = 0;

    if (s.not_finite != 0) {
        return (double)NAN;
    }
    carry(&s);
    bool is_negative = s.limb[CERO_EXACT_LIMBS - 1] < 0;
    if (is_negative) {
        for (int i = 0; i < CERO_EXACT_LIMBS; i++) {
            s.limb[i] = -s.limb[i];
        }
        carry(&s);
    }
    // Digits are in [0, 2^32) now: the top three hold more than 53 bits, lower ones cannot matter
    // beyond one unit in the last place.
    int top = CERO_EXACT_LIMBS - 1;
    while (top > 0 && s.limb[top] == 0) {
        top--;
    }
    for (int i = top > 2 ? top - 2 : 0; i <= top; i++) {
        value += ldexp((double)s.limb[i], 32 * i - BIAS);
    }
    return is_negative ? -value : value;
}
