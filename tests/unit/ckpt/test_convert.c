/* SPDX-License-Identifier: Apache-2.0 */
/* Halves become f32 exactly and f32 becomes the nearest half, ties to even, for every half there is. */
#include "harness.h"

#include "ckpt/convert.h"

#include <math.h>

static float one_f16(uint16_t half)
{
    float x;

    cero_convert_f16_to_f32(&half, 1, &x);
    return x;
}

static uint16_t to_f16(float x)
{
    uint16_t half;

    cero_convert_f32_to_f16(&x, 1, &half);
    return half;
}

static float one_bf16(uint16_t half)
{
    float x;

    cero_convert_bf16_to_f32(&half, 1, &x);
    return x;
}

static uint16_t to_bf16(float x)
{
    uint16_t half;

    cero_convert_f32_to_bf16(&x, 1, &half);
    return half;
}

static void test_f16_values(void **state)
{
    (void)state;
    assert_true(one_f16(0x3C00) == 1.0F && one_f16(0xC000) == -2.0F && one_f16(0x7BFF) == 65504.0F);
    assert_true(one_f16(0x0001) == 0x1p-24F && one_f16(0x03FF) == 1023 * 0x1p-24F);
    assert_true(one_f16(0x0400) == 0x1p-14F && isinf(one_f16(0x7C00)) && isnan(one_f16(0x7C01)));
    assert_true(to_f16(65519.996F) == 0x7BFF && to_f16(65520.0F) == 0x7C00);
    assert_true(to_f16(-INFINITY) == 0xFC00 && to_f16(1e30F) == 0x7C00);
    assert_true(to_f16(0x1p-25F) == 0 && to_f16(nextafterf(0x1p-25F, 1)) == 1);
    assert_true(to_f16(-0.0F) == 0x8000 && to_f16(-1e-30F) == 0x8000);
    assert_true(isnan(one_f16(to_f16(NAN))));
}

/* For neighbours a < b: the middle goes to the even one, what is beside it to the nearer. */
static void check_neighbours(uint16_t low, float a, float b, uint16_t (*round)(float))
{
    float middle = a + (b - a) / 2;
    uint16_t even = (low & 1) == 0 ? low : (uint16_t)(low + 1);

    if (round(a) != low || round(middle) != even || round(nextafterf(middle, a)) != low ||
        round(nextafterf(middle, b)) != low + 1 || round(-middle) != (0x8000 | even)) {
        fail_msg("around the half 0x%04x", low);
    }
}

static void test_every_f16(void **state)
{
    (void)state;
    for (uint32_t h = 0; h < 0x7BFF; h++) {
        check_neighbours((uint16_t)h, one_f16((uint16_t)h), one_f16((uint16_t)(h + 1)), to_f16);
    }
    for (uint32_t h = 0x7C01; h < 0x8000; h++) {
        assert_true(isnan(one_f16((uint16_t)h)) && isnan(one_f16(to_f16(one_f16((uint16_t)h)))));
    }
}

static void test_every_bf16(void **state)
{
    (void)state;
    assert_true(one_bf16(0x3F80) == 1.0F && to_bf16(1.0F) == 0x3F80);
    for (uint32_t h = 0; h < 0x7F7F; h++) {
        check_neighbours((uint16_t)h, one_bf16((uint16_t)h), one_bf16((uint16_t)(h + 1)), to_bf16);
    }
    for (uint32_t h = 0x7F81; h < 0x8000; h++) {
        assert_true(isnan(one_bf16((uint16_t)h)) &&
                    isnan(one_bf16(to_bf16(one_bf16((uint16_t)h)))));
    }
    uint32_t quiet_in_the_low_bits = 0x7F800001;
    float x;
    memcpy(&x, &quiet_in_the_low_bits, sizeof(x));
    assert_true(isnan(one_bf16(to_bf16(x))));
    assert_true(to_bf16(3.4028235e38F) == 0x7F80);
}

static void test_count_not_finite(void **state)
{
    (void)state;
    const float x[] = {0, 1, NAN, -INFINITY, 3.4e38F, INFINITY};
    int64_t first = -1;

    assert_int_equal(cero_convert_count_not_finite(x, 2, &first), 0);
    assert_int_equal(first, -1);
    assert_int_equal(cero_convert_count_not_finite(x, 6, &first), 3);
    assert_int_equal(first, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_f16_values),
        cmocka_unit_test(test_every_f16),
        cmocka_unit_test(test_every_bf16),
        cmocka_unit_test(test_count_not_finite),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
