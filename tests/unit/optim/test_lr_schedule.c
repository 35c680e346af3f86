/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every schedule gives the rates of DeepSpeed's schedulers update by update: the tables were computed
 * from the formulas in DeepSpeed's own form (position x in the cycle, ratio r), which differs from
 * the form in the source.
 */
#include "harness.h"

#include "optim/lr_schedule.h"

#include <inttypes.h>
#include <math.h>

enum {
    MAX_ROWS = 20
};

typedef struct row {
    int64_t update;
    double value;
} row;

typedef struct table {
    const char *name;
    cero_lr_schedule_spec spec;
    int count;
    row rows[MAX_ROWS];
} table;

static const table lr_tables[] = {
    {"LR-02: linear warm-up of 4",
     {.type = CERO_LR_WARMUP,
      .warmup_max_lr = 0.1,
      .warmup_num_steps = 4,
      .warmup_is_linear = true},
     7,
     {{1, 0}, {2, 0}, {3, 0.025}, {4, 0.05}, {5, 0.075}, {6, 0.1}, {7, 0.1}}},
    {"log warm-up of 8",
     {.type = CERO_LR_WARMUP, .warmup_min_lr = 0.01, .warmup_max_lr = 0.1, .warmup_num_steps = 8},
     11,
     {{1, 0.01},
      {2, 0.01},
      {3, 0.04},
      {4, 0.0575488750216347},
      {5, 0.07},
      {6, 0.0796578428466209},
      {7, 0.0875488750216347},
      {8, 0.0942206476617281},
      {9, 0.1},
      {10, 0.1},
      {11, 0.1}}},
    {"linear warm-up of 4, decay to 10",
     {.type = CERO_LR_WARMUP_DECAY,
      .warmup_min_lr = 0.01,
      .warmup_max_lr = 0.1,
      .warmup_num_steps = 4,
      .warmup_is_linear = true,
      .total_num_steps = 10},
     14,
     {{1, 0.01},
      {2, 0.01},
      {3, 0.0325},
      {4, 0.055},
      {5, 0.0775},
      {6, 0.1},
      {7, 0.085},
      {8, 0.07},
      {9, 0.055},
      {10, 0.04},
      {11, 0.025},
      {12, 0.01},
      {13, 0.01},
      {14, 0.01}}},
    {"log warm-up as long as the whole run",
     {.type = CERO_LR_WARMUP_DECAY,
      .warmup_max_lr = 0.1,
      .warmup_num_steps = 4,
      .total_num_steps = 4},
     8,
     {{1, 0}, {2, 0}, {3, 0.05}, {4, 0.0792481250360578}, {5, 0.1}, {6, 0}, {7, 0}, {8, 0}}},
    {"cosine, log warm-up of 4 of 10, ratios 0.25 and 0.1",
     {.type = CERO_LR_WARMUP_COSINE,
      .base_lr = 0.02,
      .warmup_num_steps = 4,
      .total_num_steps = 10,
      .warmup_min_ratio = 0.25,
      .cos_min_ratio = 0.1},
     14,
     {{1, 0},
      {2, 0.005},
      {3, 0.0125},
      {4, 0.0168872187554087},
      {5, 0.02},
      {6, 0.01879422863406},
      {7, 0.0155},
      {8, 0.011},
      {9, 0.0065},
      {10, 0.00320577136594005},
      {11, 0.002},
      {12, 0.002},
      {13, 0.002},
      {14, 0.002}}},
    {"cosine, warm-up as long as the whole run",
     {.type = CERO_LR_WARMUP_COSINE,
      .base_lr = 0.02,
      .warmup_num_steps = 4,
      .warmup_is_linear = true,
      .total_num_steps = 4,
      .cos_min_ratio = 0.1},
     8,
     {{1, 0}, {2, 0}, {3, 0.005}, {4, 0.01}, {5, 0.015}, {6, 0.002}, {7, 0.002}, {8, 0.002}}},
    {"LR-07: cosine, linear warm-up of 8 of 40, held after the end",
     {.type = CERO_LR_WARMUP_COSINE,
      .base_lr = 0.001,
      .warmup_num_steps = 8,
      .warmup_is_linear = true,
      .total_num_steps = 40,
      .cos_min_ratio = 1e-4},
     11,
     {{1, 0},
      {2, 0},
      {3, 0.000125},
      {9, 0.000875},
      {10, 0.000997592604099765},
      {11, 0.000990393600937595},
      {26, 0.000451046330692236},
      {40, 2.5073959002352e-06},
      {41, 1e-07},
      {42, 1e-07},
      {100, 1e-07}}},
    {"one cycle of 4 + 6 with decay",
     {.type = CERO_LR_ONE_CYCLE,
      .cycle_min_lr = 0.01,
      .cycle_max_lr = 0.1,
      .cycle_first_step_size = 4,
      .cycle_second_step_size = 6,
      .decay_step_size = 2,
      .decay_lr_rate = 0.5},
     16,
     {{1, 0.01},
      {2, 0.0325},
      {3, 0.055},
      {4, 0.0775},
      {5, 0.1},
      {6, 0.085},
      {7, 0.07},
      {8, 0.055},
      {9, 0.04},
      {10, 0.025},
      {11, 0.01},
      {12, 0.008},
      {13, 0.00666666666666667},
      {14, 0.00571428571428571},
      {15, 0.005},
      {16, 0.00444444444444444}}},
    {"one cycle of 6 + 8 in 3 and 2 stairs, no decay size",
     {.type = CERO_LR_ONE_CYCLE,
      .cycle_max_lr = 1.0,
      .cycle_first_step_size = 6,
      .cycle_second_step_size = 8,
      .cycle_first_stair_count = 3,
      .cycle_second_stair_count = 2,
      .decay_lr_rate = 0.5},
     19,
     {{1, 0},
      {2, 0},
      {3, 0.333333333333333},
      {4, 0.333333333333333},
      {5, 0.666666666666667},
      {6, 0.666666666666667},
      {7, 1},
      {8, 0.5},
      {9, 0.5},
      {10, 0.5},
      {11, 0.5},
      {12, 0},
      {13, 0},
      {14, 0},
      {15, 0},
      {16, 0},
      {17, 0},
      {18, 0},
      {19, 0}}},
    {"range test",
     {.type = CERO_LR_RANGE_TEST,
      .lr_range_test_min_lr = 0.001,
      .lr_range_test_step_size = 4,
      .lr_range_test_step_rate = 2.0},
     8,
     {{1, 0.001},
      {2, 0.0015},
      {3, 0.002},
      {4, 0.0025},
      {5, 0.003},
      {6, 0.0035},
      {7, 0.004},
      {8, 0.0045}}},
    {"range test in stairs",
     {.type = CERO_LR_RANGE_TEST,
      .lr_range_test_min_lr = 0.001,
      .lr_range_test_step_size = 4,
      .lr_range_test_step_rate = 2.0,
      .lr_range_test_staircase = true},
     11,
     {{1, 0.001},
      {2, 0.001},
      {3, 0.001},
      {4, 0.001},
      {5, 0.003},
      {6, 0.003},
      {7, 0.003},
      {8, 0.003},
      {9, 0.005},
      {10, 0.005},
      {11, 0.005}}},
    {"constant", {.base_lr = 5e-5}, 3, {{1, 5e-5}, {2, 5e-5}, {1000000, 5e-5}}},
};

static const table momentum_tables[] = {
    {"one cycle of 4 + 6 with decay",
     {.type = CERO_LR_ONE_CYCLE,
      .cycle_first_step_size = 4,
      .cycle_second_step_size = 6,
      .decay_step_size = 2,
      .cycle_momentum = true,
      .cycle_min_mom = 0.8,
      .cycle_max_mom = 0.9,
      .decay_mom_rate = 0.1},
     16,
     {{1, 0.8},
      {2, 0.875},
      {3, 0.85},
      {4, 0.825},
      {5, 0.8},
      {6, 0.816666666666667},
      {7, 0.833333333333333},
      {8, 0.85},
      {9, 0.866666666666667},
      {10, 0.883333333333333},
      {11, 0.9},
      {12, 0.945},
      {13, 0.99},
      {14, 1.035},
      {15, 1.08},
      {16, 1.125}}},
    {"one cycle of 6 + 8 in 3 and 2 stairs, no decay size",
     {.type = CERO_LR_ONE_CYCLE,
      .cycle_first_step_size = 6,
      .cycle_second_step_size = 8,
      .cycle_first_stair_count = 3,
      .cycle_second_stair_count = 2,
      .cycle_momentum = true,
      .cycle_min_mom = 0.85,
      .cycle_max_mom = 0.95,
      .decay_mom_rate = 0.1},
     19,
     {{1, 0.85},
      {2, 0.95},
      {3, 0.916666666666667},
      {4, 0.916666666666667},
      {5, 0.883333333333333},
      {6, 0.883333333333333},
      {7, 0.85},
      {8, 0.9},
      {9, 0.9},
      {10, 0.9},
      {11, 0.9},
      {12, 0.95},
      {13, 0.95},
      {14, 0.95},
      {15, 0.95},
      {16, 0.95},
      {17, 0.95},
      {18, 0.95},
      {19, 0.95}}},
};

static void assert_value(const table *t, row expected, double found)
{
    if (!(fabs(found - expected.value) <= 1e-14 + 1e-13 * fabs(expected.value))) {
        fail_msg("%s, update %" PRId64 ": %.17g, expected %.17g", t->name, expected.update, found,
                 expected.value);
    }
}

static void test_lr_tables(void **unused)
{
    (void)unused;
    for (size_t i = 0; i < CERO_COUNT_OF(lr_tables); i++) {
        const table *t = &lr_tables[i];
        for (int r = 0; r < t->count; r++) {
            assert_value(t, t->rows[r], cero_lr_schedule_at(&t->spec, t->rows[r].update));
        }
    }
}

static void test_momentum_tables(void **unused)
{
    (void)unused;
    for (size_t i = 0; i < CERO_COUNT_OF(momentum_tables); i++) {
        const table *t = &momentum_tables[i];
        for (int r = 0; r < t->count; r++) {
            double beta1 = 0.0;
            double beta2 = 0.0;
            assert_true(cero_lr_schedule_momentum_at(&t->spec, t->rows[r].update, &beta1, &beta2));
            assert_value(t, t->rows[r], beta1);
            assert_true(beta2 == 0.99);
        }
    }
}

/* LR-01: warm-ups of 0, 1 and 2 count as 2: the minimum twice, then the peak. */
static void test_short_warmup(void **unused)
{
    (void)unused;
    for (int64_t steps = 0; steps <= 2; steps++) {
        for (int is_linear = 0; is_linear <= 1; is_linear++) {
            cero_lr_schedule_spec spec = {.type = CERO_LR_WARMUP,
                                          .warmup_min_lr = 0.001,
                                          .warmup_max_lr = 0.1,
                                          .warmup_num_steps = steps,
                                          .warmup_is_linear = is_linear != 0};
            double third = is_linear != 0 ? 0.0505 : 0.1;
            assert_true(cero_lr_schedule_at(&spec, 1) == 0.001);
            assert_true(cero_lr_schedule_at(&spec, 2) == 0.001);
            assert_true(fabs(cero_lr_schedule_at(&spec, 3) - third) < 1e-15);
            assert_true(cero_lr_schedule_at(&spec, 4) == 0.1);
        }
    }
}

/* Empty specs and far updates still give finite rates. */
static void test_finite(void **unused)
{
    static const int64_t updates[] = {INT64_MIN, -1, 0, 1, 2, 3, 1000, INT64_C(1) << 53};

    (void)unused;
    for (int type = 0; type < CERO_LR_COUNT; type++) {
        cero_lr_schedule_spec spec = {.type = (cero_lr_schedule_type)type};
        for (size_t i = 0; i < CERO_COUNT_OF(updates); i++) {
            assert_true(isfinite(cero_lr_schedule_at(&spec, updates[i])));
        }
    }
}

/* LR-10: before the first update the rate is the one that update 1 will use. */
static void test_before_first(void **unused)
{
    (void)unused;
    for (size_t i = 0; i < CERO_COUNT_OF(lr_tables); i++) {
        const cero_lr_schedule_spec *spec = &lr_tables[i].spec;
        assert_true(cero_lr_schedule_at(spec, 0) == cero_lr_schedule_at(spec, 1));
    }
}

static void test_no_momentum(void **unused)
{
    double beta1 = 0.5;
    double beta2 = 0.25;
    cero_lr_schedule_spec spec = lr_tables[0].spec;

    (void)unused;
    spec.cycle_momentum = true;
    assert_false(cero_lr_schedule_momentum_at(&spec, 3, &beta1, &beta2));
    spec.type = CERO_LR_ONE_CYCLE;
    spec.cycle_momentum = false;
    assert_false(cero_lr_schedule_momentum_at(&spec, 3, &beta1, &beta2));
    assert_true(beta1 == 0.5 && beta2 == 0.25);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lr_tables),    cmocka_unit_test(test_momentum_tables),
        cmocka_unit_test(test_short_warmup), cmocka_unit_test(test_finite),
        cmocka_unit_test(test_before_first), cmocka_unit_test(test_no_momentum),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
