/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Conversions give the nearest value, ties to even, for every bf16 and f16 and for random f32 bits, and
 * all instruction sets give the bits of ref.
 */
#include "kernels/check.h"

/* x rounded to a format of `digits` significant bits, by its definition. */
static double round_to(double x, int digits, int min_exponent, double overflow)
{
    int exponent = 0;

    if (!isfinite(x) || x == 0) {
        return x;
    }
    (void)frexp(x, &exponent);
    exponent = exponent - 1 < min_exponent ? min_exponent : exponent - 1;
    double step = ldexp(1.0, exponent - (digits - 1));
    double y = nearbyint(x / step) * step; // Exact: step is a power of two.
    return fabs(y) >= overflow ? copysign(HUGE_VAL, x) : y;
}

static double round_as(cero_dtype dtype, double x)
{
    return dtype == CERO_DTYPE_F32    ? x
           : dtype == CERO_DTYPE_BF16 ? round_to(x, 8, -126, ldexp(1.0, 128))
                                      : round_to(x, 11, -14, 65536.0);
}

/* Random bits, so that exponents, subnormals, infinities and NaNs all occur. */
static void fill_bits(check_tensor *t, uint64_t seed)
{
    cero_rng_key key = cero_rng_make_key(seed, CERO_RNG_TEST, 1, 0);
    unsigned char *bytes = t->data;

    for (int64_t i = 0; i < t->n; i++) {
        uint32_t word = cero_rng_word(key, 0, (uint64_t)i);
        if (t->dtype == CERO_DTYPE_F32 && i % 2 == 0) {
            // Half of them in the range of f16, and of these some halfway between two values.
            word = (word & 0x80FFE000u) | ((100u + word % 45u) << 23) | (i % 4 == 0 ? 0x1000u : 0u);
        }
        memcpy(bytes + (size_t)i * cero_dtype_size(t->dtype), &word, cero_dtype_size(t->dtype));
    }
}

static void check_from_f32(const check_case *c)
{
    check_tensor x = check_make_f32(c, c->n);
    check_tensor y = check_make(c, c->n);
    check_tensor expected = check_make(c, c->n);

    fill_bits(&x, 1);
    check_poison(&x);
    c->k->from_f32[c->dtype](c->n, x.data, y.data);
    c->ref->from_f32[c->dtype](c->n, x.data, expected.data);
    if (memcmp(y.data, expected.data, (size_t)c->n * cero_dtype_size(c->dtype)) != 0) {
        check_same("from_f32", &y, &expected);
        fail_msg("from_f32: isa %s gives NaN of other bits than ref", c->k->isa);
    }
    for (int64_t i = 0; i < c->n; i++) {
        double nearest = round_as(c->dtype, (double)check_get(&x, i));
        double got = (double)check_get(&y, i);
        if (!(isnan(nearest) ? isnan(got) : got == nearest)) {
            check_fail("from_f32 against the definition", i, got, nearest);
        }
    }
    check_free(&x);
    check_free(&y);
    check_free(&expected);
}

static void check_to_f32(const check_case *c)
{
    check_tensor x = check_make(c, c->n);
    check_tensor y = check_make_f32(c, c->n);
    check_tensor expected = check_make_f32(c, c->n);

    fill_bits(&x, 2);
    c->k->to_f32[c->dtype](c->n, x.data, y.data);
    c->ref->to_f32[c->dtype](c->n, x.data, expected.data);
    check_same("to_f32", &y, &expected);
    check_free(&x);
    check_free(&y);
    check_free(&expected);
}

static void check_accumulate(const check_case *c)
{
    check_tensor x = check_make(c, c->n);
    check_tensor y = check_make_f32(c, c->n);

    check_random(&x, 3, 2.0f);
    check_poison(&x);
    check_random(&y, 4, 2.0f);
    check_tensor expected = check_clone(&y);
    c->k->accumulate[c->dtype](c->n, x.data, y.data);
    for (int64_t i = 0; i < c->n; i++) {
        ((float *)expected.data)[i] += check_get(&x, i);
    }
    check_same("accumulate", &y, &expected);
    check_free(&x);
    check_free(&y);
    check_free(&expected);
}

/* The value of 16 bits by the definition of the format. */
static double half_value(cero_dtype dtype, uint32_t bits)
{
    int digits = dtype == CERO_DTYPE_BF16 ? 7 : 10;
    int bias = dtype == CERO_DTYPE_BF16 ? 127 : 15;
    int exponent = (int)((bits & 0x7FFFu) >> digits);
    double mantissa = (double)(bits & ((1u << digits) - 1u));
    double sign = (bits & 0x8000u) != 0 ? -1.0 : 1.0;

    if (exponent == 2 * bias + 1) {
        return mantissa != 0 ? (double)NAN : sign * HUGE_VAL;
    }
    return exponent == 0 ? sign * ldexp(mantissa, 1 - bias - digits)
                         : sign * ldexp(mantissa + ldexp(1.0, digits), exponent - bias - digits);
}

static void check_every_half(const check_case *c)
{
    if (c->n != 1 || c->place != 0 || c->dtype == CERO_DTYPE_F32) {
        return;
    }
    for (uint32_t bits = 0; bits < 0x10000u; bits += 16) {
        uint16_t half[16];
        uint16_t back[16];
        float value[16];

        for (uint32_t j = 0; j < 16; j++) {
            half[j] = (uint16_t)(bits + j);
        }
        c->k->to_f32[c->dtype](16, half, value);
        c->k->from_f32[c->dtype](16, value, back);
        for (uint32_t j = 0; j < 16; j++) {
            double expected = half_value(c->dtype, bits + j);
            bool is_nan = isnan(expected);
            if (is_nan ? !isnan(value[j]) : (double)value[j] != expected || back[j] != half[j]) {
                check_fail("all halves", bits + j, (double)value[j], expected);
            }
        }
    }
}

static void test_from_f32(void **state)
{
    CERO_UNUSED(state);
    check_all(check_from_f32);
}

static void test_to_f32(void **state)
{
    CERO_UNUSED(state);
    check_all(check_to_f32);
    check_all(check_every_half);
}

static void test_accumulate(void **state)
{
    CERO_UNUSED(state);
    check_all(check_accumulate);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_from_f32),
        cmocka_unit_test(test_to_f32),
        cmocka_unit_test(test_accumulate),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
