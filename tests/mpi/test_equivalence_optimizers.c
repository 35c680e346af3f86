/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every optimizer gives the bits of one rank at every stage: those that treat elements alone, LAMB with its norms
 * of whole tensors, Muon with its whole matrices. So does fp16, whose loss scale falls and grows on all ranks at
 * the same steps.
 */
// RUN: np=4
#include "mpi/equivalence.h"

#include "base/log.h"

enum {
    MAX_RANKS = 4,
    STEPS = 5
};

/* Texts of the config, up to the first NULL. */
typedef struct variant {
    const char *name;
    const char *set[8];
} variant;

#define NO_BETAS "optimizer.params.betas=-"
#define NO_EPS   "optimizer.params.eps=-"

static const variant optimizers[] = {
    {"AdamW", {"optimizer.type=AdamW"}},
    {"Adam", {"optimizer.type=Adam", "optimizer.params.adam_w_mode=false"}},
    {"SGD", {"optimizer.type=SGD", NO_BETAS, NO_EPS, "optimizer.params.lr=0.1"}},
    {"SGD with momentum",
     {"optimizer.type=SGD", NO_BETAS, NO_EPS, "optimizer.params.lr=0.1",
      "optimizer.params.momentum=0.9", "optimizer.params.nesterov=true"}},
    {"Adagrad", {"optimizer.type=Adagrad", NO_BETAS}},
    {"Lion", {"optimizer.type=Lion", NO_EPS}},
    {"LAMB", {"optimizer.type=Lamb"}},
    {"Muon", {"optimizer.type=Muon"}},
    {"AdamW with OneCycle",
     {"scheduler.type=OneCycle", "scheduler.params.cycle_min_lr=0.001",
      "scheduler.params.cycle_max_lr=0.01", "scheduler.params.cycle_first_step_size=3"}},
};

static const char *const dtypes[] = {"bf16.enabled=false", "bf16.enabled=true"};

/* One block: Muon's products take most of the time. */
static cero_model_spec model(void)
{
    cero_model_spec spec = equiv_gpt2();

    spec.layers = 1;
    return spec;
}

static equiv_run make_run(const variant *v, const char *dtype)
{
    equiv_run run = equiv_run_of(model(), 12, STEPS);

    equiv_set(&run, "%s", dtype);
    for (int i = 0; i < (int)CERO_COUNT_OF(v->set) && v->set[i] != NULL; i++) {
        equiv_set(&run, "%s", v->set[i]);
    }
    return run;
}

/* All stages of two, three and four ranks against one; `row` counts on. */
static void check(const equiv_world *w, equiv_tally *tally, const char *name, const equiv_run *run,
                  int *row)
{
    equiv_outcome expected = {0};

    for (int stage = 0; stage < 4; stage++) {
        char text[96];
        if (!equiv_is_mine(w, (*row)++)) {
            continue;
        }
        if (expected.steps == 0) {
            equiv_train_alone(run, &expected);
        }
        (void)snprintf(text, sizeof(text), "%s, %d ranks, stage %d", name, w->size, stage);
        equiv_run cut = *run;
        equiv_set(&cut, "zero_optimization.stage=%d", stage);
        assert_int_equal(equiv_row(w, tally, text, &cut, &expected).stage, stage);
    }
    equiv_cleanup(&expected);
}

static void test_optimizers(void **state)
{
    equiv_tally tally = {0};
    int row = 0;

    CERO_UNUSED(state);
    for (int size = 2; size <= MAX_RANKS; size++) {
        equiv_world w;
        equiv_open(&w, size, NULL);
        for (int i = 0; i < (int)CERO_COUNT_OF(optimizers); i++) {
            for (int d = 0; d < (int)CERO_COUNT_OF(dtypes); d++) {
                equiv_run run = make_run(&optimizers[i], dtypes[d]);
                char name[64];
                (void)snprintf(name, sizeof(name), "%s, %s", optimizers[i].name, dtypes[d]);
                check(&w, &tally, name, &run, &row);
            }
        }
        equiv_close(&w);
    }
    equiv_finish(&tally, row);
    assert_int_equal(row, 3 * (int)CERO_COUNT_OF(optimizers) * 2 * 4);
}

/* Two optimizers with the same bits would mean that one of them was not in force. */
static void test_optimizers_differ(void **state)
{
    equiv_outcome o[CERO_COUNT_OF(optimizers)];

    CERO_UNUSED(state);
    for (int i = 0; i < (int)CERO_COUNT_OF(optimizers); i++) {
        char text[512];
        equiv_run run = make_run(&optimizers[i], dtypes[0]);
        equiv_train_alone(&run, &o[i]);
        for (int k = 0; k < i; k++) {
            assert_true(equiv_weights_differ(&o[k], &o[i], text, sizeof(text)));
        }
    }
    for (int i = 0; i < (int)CERO_COUNT_OF(optimizers); i++) {
        equiv_cleanup(&o[i]);
    }
}

/* The scale starts too high, falls with the first steps, and grows again every second one until it overflows. */
static equiv_run make_fp16_run(const char *optimizer)
{
    equiv_run run = equiv_run_of(model(), 12, EQUIV_MAX_STEPS);

    equiv_set(&run, "optimizer.type=%s", optimizer);
    equiv_set(&run, "fp16.enabled=true");
    equiv_set(&run, "fp16.initial_scale_power=22");
    equiv_set(&run, "fp16.loss_scale_window=2");
    equiv_set(&run, "fp16.hysteresis=1");
    return run;
}

/* An overflow before the first applied step, and one after it. */
static void check_overflows(const equiv_run *run)
{
    equiv_outcome o;
    int first = 0;
    int later = 0;

    equiv_train_alone(run, &o);
    while (first < o.steps && !o.stats[first].is_applied) {
        assert_true(o.bad_tensor[first][0] != '\0');
        first++;
    }
    for (int s = first; s < o.steps; s++) {
        later += o.stats[s].is_applied ? 0 : 1;
    }
    assert_in_range(first, 1, o.steps - 3);
    assert_true(later > 0);
    equiv_cleanup(&o);
}

static void test_fp16(void **state)
{
    static const char *const names[] = {"AdamW", "Lamb", "Muon"};
    equiv_tally tally = {0};
    int row = 0;

    CERO_UNUSED(state);
    cero_log_set_level(CERO_LOG_ERROR); // skipped steps are expected
    for (int i = 0; i < (int)CERO_COUNT_OF(names); i++) {
        equiv_run run = make_fp16_run(names[i]);
        check_overflows(&run);
    }
    for (int size = 2; size <= MAX_RANKS; size++) {
        equiv_world w;
        equiv_open(&w, size, NULL);
        for (int i = 0; i < (int)CERO_COUNT_OF(names); i++) {
            equiv_run run = make_fp16_run(names[i]);
            check(&w, &tally, names[i], &run, &row);
        }
        equiv_close(&w);
    }
    cero_log_set_level(CERO_LOG_WARN);
    equiv_finish(&tally, row);
    assert_int_equal(row, 3 * 3 * 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_optimizers_differ),
        cmocka_unit_test(test_optimizers),
        cmocka_unit_test(test_fp16),
    };
    return run_in_world(NULL, tests, CERO_COUNT_OF(tests));
}
