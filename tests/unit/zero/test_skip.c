/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A gradient that is not finite skips the step, in every dtype, and touches neither weights nor moments; the
 * loss scale moves to the letter; a run that only skips ends with the name of the tensor.
 */
#include "unit/zero/toy.h"

#include "base/log.h"

#include <math.h>

static const toy_model two = {.params = {{.name = "a", .shape = {1, {3}}},
                                         {.name = "b", .shape = {1, {1}}, .is_apart = true}},
                              .param_count = 2};

/* All that was logged. */
static char logged[8192];

static void keep_line(void *context, cero_log_level level, const char *line)
{
    size_t used = strlen(logged);

    CERO_UNUSED(context);
    CERO_UNUSED(level);
    (void)snprintf(logged + used, sizeof(logged) - used, "%s\n", line);
}

static int set_up(void **state)
{
    CERO_UNUSED(state);
    logged[0] = '\0';
    cero_log_set_sink(keep_line, NULL);
    return 0;
}

static int tear_down(void **state)
{
    CERO_UNUSED(state);
    cero_log_set_sink(NULL, NULL);
    return 0;
}

static int count_lines(const char *text)
{
    int count = 0;

    for (const char *at = strstr(logged, text); at != NULL; at = strstr(at + 1, text)) {
        count++;
    }
    return count;
}

static const float good[] = {0.5f, -1, 2};
static const float b_good = 3;
static const float b_nan = NAN;
static const float b_inf = INFINITY;

static void check_skip(const char *dtype, const float *bad)
{
    static const char *const sets[] = {"train_micro_batch_size_per_gpu=1",
                                       "fp16.initial_scale_power=4"};
    toy skips;
    toy plain;
    const char *const all[] = {sets[0], sets[1], dtype, NULL};

    logged[0] = '\0';
    toy_open(&skips, &two, all);
    toy_open(&plain, &two, all);
    for (int i = 0; i < 5; i++) {
        assert_ok(toy_step(&skips, good, i == 2 ? bad : &b_good));
        assert_int_equal(skips.stats.step, i + 1);
        assert_int_equal(skips.stats.is_applied, i != 2);
        assert_int_equal(skips.stats.applied, i < 2 ? i + 1 : i);
        assert_int_equal(skips.stats.skipped, i >= 2);
        if (i == 2) {
            assert_string_equal(skips.stats.bad_tensor, "b");
            continue;
        }
        assert_null(skips.stats.bad_tensor);
        assert_ok(toy_step(&plain, good, &b_good));
        // The same moments give the same weights.
        assert_true(toy_get(&skips, "a") == toy_get(&plain, "a"));
        assert_true(toy_get(&skips, "b") == toy_get(&plain, "b"));
    }
    assert_int_equal(count_lines("step skipped: non-finite gradient in b"), 1);
    toy_close(&skips);
    toy_close(&plain);
}

/* LS-03, LS-07 */
static void test_skip(void **state)
{
    CERO_UNUSED(state);
    check_skip("bf16.enabled=false", &b_nan);
    assert_null(strstr(logged, "scale"));
    check_skip("bf16.enabled=false", &b_inf);
    check_skip("bf16.enabled=true", &b_nan);
    assert_null(strstr(logged, "scale"));
    check_skip("bf16.enabled=true", &b_inf);
    check_skip("fp16.enabled=true", &b_nan);
    assert_non_null(strstr(logged, "scale"));
}

/* A NaN in one of several micro-batches, not the last. */
static void test_skip_in_a_sum(void **state)
{
    const float a[6] = {1, 1, 1, 1, 1, 1};
    const float b[2] = {NAN, 1};
    toy t;

    CERO_UNUSED(state);
    toy_open(&t, &two,
             (const char *const[]){"train_micro_batch_size_per_gpu=1",
                                   "gradient_accumulation_steps=2", NULL});
    assert_ok(toy_step(&t, a, b));
    assert_false(t.stats.is_applied);
    assert_string_equal(t.stats.bad_tensor, "b");
    assert_true(toy_get(&t, "a") == 1);
    assert_ok(toy_step(&t, a, a));
    assert_true(t.stats.is_applied);
    toy_close(&t);
}

/* LS-01: from 2^32 down to what fp16 holds, one skip for the hysteresis and one for each halving. */
static void test_scale_settles(void **state)
{
    toy t;
    const float given[] = {1, 1, 1};
    const float b = 1;

    CERO_UNUSED(state);
    toy_open(&t, &two,
             (const char *const[]){"train_micro_batch_size_per_gpu=1", "fp16.enabled=true",
                                   "fp16.initial_scale_power=32", NULL});
    for (int i = 0; i < 18; i++) {
        assert_ok(toy_step(&t, given, &b));
        assert_false(t.stats.is_applied);
        assert_true(t.stats.loss_scale == ldexp(1, i < 2 ? 32 : 33 - i));
        assert_int_equal(t.stats.skipped, i + 1);
        assert_int_equal(t.stats.applied, 0);
    }
    for (int i = 0; i < 3; i++) {
        double before = toy_get(&t, "a");
        assert_ok(toy_step(&t, given, &b));
        assert_true(t.stats.is_applied);
        assert_true(t.stats.loss_scale == 32768);
        assert_true(t.stats.grad_norm == 2);
        assert_int_equal(t.stats.applied, i + 1);
        assert_true(toy_get(&t, "a") < before);
    }
    toy_close(&t);
}

/* LS-09: fp16 with nothing else starts at 65,536. LS-10: the lines count the hysteresis. */
static void test_hysteresis(void **state)
{
    toy t;

    CERO_UNUSED(state);
    toy_open(&t, &two,
             (const char *const[]){"train_micro_batch_size_per_gpu=1", "fp16.enabled=true", NULL});
    assert_ok(toy_step(&t, (const float[]){1e-3f, 0, 0}, &b_inf));
    assert_true(t.stats.loss_scale == 65536);
    toy_close(&t);

    logged[0] = '\0';
    toy_open(&t, &two,
             (const char *const[]){"train_micro_batch_size_per_gpu=1", "fp16.enabled=true",
                                   "fp16.initial_scale_power=16", "fp16.hysteresis=3", NULL});
    for (int i = 0; i < 3; i++) {
        assert_ok(toy_step(&t, good, &b_inf));
        assert_true(t.stats.loss_scale == 65536);
    }
    const char *first = strstr(logged, "stays 65536, hysteresis 3 to 2");
    const char *second = strstr(logged, "stays 65536, hysteresis 2 to 1");
    const char *third = strstr(logged, "loss scale 65536 to 32768");
    assert_true(first != NULL && second > first && third > second);
    assert_int_equal(count_lines("step skipped"), 3);
    toy_close(&t);
}

/* The scale cannot fall below its floor: the run ends and says so. */
static void test_scale_floor(void **state)
{
    toy t;
    cero_status st = CERO_OK;

    CERO_UNUSED(state);
    toy_open(&t, &two,
             (const char *const[]){"train_micro_batch_size_per_gpu=1", "fp16.enabled=true",
                                   "fp16.initial_scale_power=2", "fp16.hysteresis=1", NULL});
    for (int i = 0; i < 8 && st == CERO_OK; i++) {
        st = toy_step(&t, good, &b_inf);
    }
    assert_int_equal(st, CERO_ERR_NUMERIC);
    toy_close(&t);
}

/* After so many skips in a row the run ends with the tensor's name, and the engine is of no more use. */
static void test_max_consecutive_skips(void **state)
{
    static const char *const dtypes[] = {"bf16.enabled=false", "bf16.enabled=true"};

    CERO_UNUSED(state);
    for (int d = 0; d < 2; d++) {
        toy t;
        toy_open(&t, &two,
                 (const char *const[]){"train_micro_batch_size_per_gpu=1", dtypes[d],
                                       "cero.max_consecutive_skips=3", NULL});
        for (int i = 0; i < 2; i++) { // one that is applied starts the count again
            assert_ok(toy_step(&t, good, &b_nan));
            assert_ok(toy_step(&t, good, &b_nan));
            assert_ok(toy_step(&t, good, &b_good));
        }
        assert_ok(toy_step(&t, good, &b_nan));
        assert_ok(toy_step(&t, good, &b_nan));
        assert_fails(
            toy_step(&t, good, &b_nan), CERO_ERR_NUMERIC,
            "step 9: 3 steps in a row had a gradient that is not finite (first tensor: b)");
        assert_fails(toy_step(&t, good, &b_good), CERO_ERR_INVALID, "can only be destroyed");
        toy_close(&t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_skip, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_skip_in_a_sum, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_scale_settles, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_hysteresis, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_scale_floor, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_max_consecutive_skips, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
