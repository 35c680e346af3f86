/* SPDX-License-Identifier: Apache-2.0 */
/* The measuring loops give rates that are positive, free what they took and refuse the meta device. */
#include "numbers.h"

#include "device/bench.h"

static void test_rates(void **state)
{
    cero_device *d = device_with("cpu", 2);
    const cero_matmul_desc desc = {.M = 33, .N = 40, .K = 50, .lda = 60, .has_bias = true};
    double rate = 0;

    (void)state;
    assert_ok(cero_device_bench_gemm(d, &desc, 0.001, &rate));
    assert_true(rate > 1e3);
    for (int t = 0; t < CERO_FLOAT_DTYPES; t++) {
        rate = 0;
        assert_ok(cero_device_bench_adamw(d, number_dtypes[t], 1000, 0.001, &rate));
        assert_true(rate > 1e3);
        rate = 0;
        assert_ok(cero_device_bench_head_loss(d, number_dtypes[t], 20, 8, 50, 0.001, &rate));
        assert_true(rate > 1);
    }
    rate = 0;
    assert_ok(cero_device_bench_triad(d, 1000, 0.001, &rate));
    assert_true(rate > 1e3);
    cero_device_destroy(&d);
}

static void test_meta_is_refused(void **state)
{
    cero_device *d = device_with("meta", 2);
    const cero_matmul_desc desc = {.M = 3, .N = 4, .K = 5};
    double rate = -1;

    (void)state;
    assert_fails(cero_device_bench_gemm(d, &desc, 0.001, &rate), CERO_ERR_INVALID, "meta");
    assert_fails(cero_device_bench_triad(d, 10, 0.001, &rate), CERO_ERR_INVALID, "meta");
    assert_true(rate == -1);
    cero_device_destroy(&d);
}

/* Whichever allocation fails, the error is passed on and nothing is kept (the sanitizer looks). */
static void test_without_memory(void **state)
{
    cero_device *d = device_with("cpu", 1);
    cero_status st = CERO_ERR_NOMEM;
    double rate = 0;

    (void)state;
    for (uint64_t n = 1; st != CERO_OK; n++) {
        cero_mem_fail_at(n);
        st = cero_device_bench_head_loss(d, CERO_DTYPE_F32, 20, 8, 50, 0.001, &rate);
        assert_true(st == CERO_OK || st == CERO_ERR_NOMEM);
        assert_true(n < 100);
    }
    cero_mem_fail_at(0);
    cero_device_destroy(&d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rates),
        cmocka_unit_test(test_meta_is_refused),
        cmocka_unit_test(test_without_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
