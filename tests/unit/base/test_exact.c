/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Exact sums do not depend on order or partition, lose nothing to cancellation or range, and are
 * rounded to within one unit in the last place.
 */
#include "harness.h"

#include "base/exact.h"
#include "base/rng.h"

#include <float.h>
#include <math.h>

static double sum_of(const double *x, int n)
{
    cero_exact sum;
    cero_exact_clear(&sum);
    for (int i = 0; i < n; i++) {
        cero_exact_add(&sum, x[i]);
    }
    return cero_exact_round(&sum);
}

static void test_known_sums(void **state)
{
    CERO_UNUSED(state);
    static const struct {
        int n;
        double x[6];
        double sum;
    } cases[] = {
        {0, {0}, 0},
        {1, {0.1}, 0.1},
        {1, {-0.1}, -0.1},
        {3, {1e308, 1, -1e308}, 1},
        {4, {1e308, 1e308, -1e308, -1e308}, 0},
        {3, {DBL_MAX, DBL_MAX, -DBL_MAX}, DBL_MAX},
        {2, {DBL_MAX, DBL_MAX}, (double)INFINITY},
        {2, {-DBL_MAX, -DBL_MAX}, -(double)INFINITY},
        {2, {0x1p-1074, 0x1p-1074}, 0x1p-1073},
        {3, {1, 0x1p-1074, -1}, 0x1p-1074},
        {3, {-1, -0x1p-1074, 1}, -0x1p-1074},
        {2, {DBL_MIN, -0x1p-1074}, DBL_MIN - 0x1p-1074},
        {3, {DBL_MAX, 0x1p-1074, -DBL_MAX}, 0x1p-1074},
        {4, {1e16, 1, 1, -1e16}, 2},
        {3, {0x1p53, 1, 1}, 0x1p53 + 2},
        {2, {-5, 3}, -2},
        {2, {0x1p32, -1}, 4294967295.0},
        {2, {-0x1p32, 1}, -4294967295.0},
    };
    for (size_t i = 0; i < CERO_COUNT_OF(cases); i++) {
        assert_true(sum_of(cases[i].x, cases[i].n) == cases[i].sum);
    }
}

static void test_not_finite(void **state)
{
    CERO_UNUSED(state);
    assert_true(isnan(sum_of((double[]){1, (double)NAN}, 2)));
    assert_true(isnan(sum_of((double[]){(double)INFINITY, -(double)INFINITY}, 2)));
    cero_exact a;
    cero_exact b;
    cero_exact_clear(&a);
    cero_exact_clear(&b);
    cero_exact_add(&b, (double)INFINITY);
    cero_exact_merge(&a, &b);
    assert_int_equal(a.not_finite, 1);
    assert_true(isnan(cero_exact_round(&a)));
}

/* Values over the whole range of exponents, both signs. */
static double random_double(uint64_t i)
{
    uint32_t w[4];
    cero_rng_block(cero_rng_make_key(1, CERO_RNG_TEST, 0, 0), 0, i, w);
    double mantissa = cero_rng_uniform_f64(w[0], w[1]) * (w[3] % 2 == 0 ? 1 : -1);
    return ldexp(mantissa, (int)(w[2] % 1900) - 1000);
}

static void test_any_order_and_partition(void **state)
{
    enum {
        N = 1000
    };
    static double x[N];
    CERO_UNUSED(state);
    for (int i = 0; i < N; i++) {
        x[i] = random_double((uint64_t)i);
    }
    double forward = sum_of(x, N);
    for (int parts = 1; parts < 9; parts++) {
        cero_exact total;
        cero_exact_clear(&total);
        for (int p = parts - 1; p >= 0; p--) {
            cero_exact part;
            cero_exact_clear(&part);
            for (int i = N - 1; i >= 0; i--) {
                if ((i * 7) % parts == p) {
                    cero_exact_add(&part, x[i]);
                }
            }
            cero_exact_merge(&total, &part);
        }
        double sum = cero_exact_round(&total);
        assert_memory_equal(&sum, &forward, sizeof(sum));
    }
    // Taking everything away again leaves exactly nothing.
    cero_exact zero;
    cero_exact_clear(&zero);
    for (int i = 0; i < N; i++) {
        cero_exact_add(&zero, x[i]);
        cero_exact_add(&zero, -x[(i * 3) % N]);
    }
    assert_true(cero_exact_round(&zero) == 0);
}

/* Against integers: random numbers of 53 bits at one scale, whose sums fit into 64 bits. */
static void test_against_integers(void **state)
{
    CERO_UNUSED(state);
    for (int scale = -1074; scale < 900; scale += 31) {
        cero_exact sum;
        int64_t expected = 0;
        cero_exact_clear(&sum);
        for (uint64_t i = 0; i < 500; i++) {
            uint32_t w[4];
            cero_rng_block(cero_rng_make_key(2, CERO_RNG_TEST, 0, 0), (uint64_t)(scale + 2000), i,
                           w);
            int64_t v = (int64_t)((((uint64_t)w[0] << 32) | w[1]) >> 11);
            v = w[2] % 2 == 0 ? v : -v;
            expected += v;
            cero_exact_add(&sum, ldexp((double)v, scale));
        }
        double got = cero_exact_round(&sum);
        double want = ldexp((double)expected, scale);
        assert_true(got == want || got == nextafter(want, got));
    }
}

static void test_carries_in_long_sums(void **state)
{
    CERO_UNUSED(state);
    cero_exact sum;
    cero_exact_clear(&sum);
    cero_exact_add(&sum, 1.0 - DBL_EPSILON / 2);
    // Doubling by merging reaches 2^80 additions, far beyond what a limb holds without carries.
    for (int i = 0; i < 80; i++) {
        cero_exact copy = sum;
        cero_exact_merge(&sum, &copy);
    }
    assert_true(cero_exact_round(&sum) == ldexp(1.0 - DBL_EPSILON / 2, 80));
    for (int i = 0; i < 80; i++) {
        cero_exact_add(&sum, -ldexp(1.0 - DBL_EPSILON / 2, i));
    }
    assert_true(cero_exact_round(&sum) == 1.0 - DBL_EPSILON / 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_known_sums),
        cmocka_unit_test(test_not_finite),
        cmocka_unit_test(test_any_order_and_partition),
        cmocka_unit_test(test_against_integers),
        cmocka_unit_test(test_carries_in_long_sums),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
