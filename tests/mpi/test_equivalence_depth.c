/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Neither the number of exchanges between two updates nor the number of units has a limit: many micro-batches, and
 * a model of 135 blocks, give the bits of one rank at every stage.
 */
// RUN: np=3
#include "mpi/equivalence.h"

/* Blocks of 244 elements, one block of 256 each: with three ranks two of them own nothing. */
static cero_model_spec deep(int64_t layers)
{
    cero_model_spec spec = case_g2();

    spec.layers = layers;
    spec.vocab_size = 29;
    spec.hidden = 4;
    spec.heads = spec.kv_heads = spec.head_dim = 2;
    spec.inner = 16;
    return spec;
}

/* Stages 0 to 3, and at stage 3 also with what users get: small units stay whole. */
static void check(equiv_run run, const char *name)
{
    static const char *const thresholds[] = {"0", "0", "0", "0", "300", "100000"};
    equiv_world w;
    equiv_outcome expected;
    equiv_tally tally = {0};

    equiv_open(&w, promised_ranks(), NULL);
    equiv_train_alone(&run, &expected);
    for (int i = 0; i < (int)CERO_COUNT_OF(thresholds); i++) {
        char text[96];
        equiv_run cut = run;
        int stage = i < 3 ? i : 3;
        equiv_set(&cut, "zero_optimization.stage=%d", stage);
        equiv_set(&cut, "zero_optimization.stage3_param_persistence_threshold=%s", thresholds[i]);
        (void)snprintf(text, sizeof(text), "%s, %d ranks, stage %d, threshold %s", name, w.size,
                       stage, thresholds[i]);
        assert_int_equal(equiv_row(&w, &tally, text, &cut, &expected).stage, stage);
    }
    equiv_cleanup(&expected);
    equiv_close(&w);
    equiv_finish(&tally, (int)CERO_COUNT_OF(thresholds));
}

/* 5 units and 60 micro-batches of each rank: 300 reductions from one update to the next. */
static void test_many_micro_batches(void **state)
{
    equiv_run run = equiv_run_of(equiv_gpt2(), 60 * promised_ranks(), 3);

    CERO_UNUSED(state);
    run.seq_len = 4;
    check(run, "60 micro-batches");
}

/* More units than may be on their way after an update. */
static void test_many_units(void **state)
{
    CERO_UNUSED(state);
    check(equiv_run_of(deep(135), promised_ranks(), 2), "137 units");
}

/* An eighth of the model may be gathered ahead: with this table all 135 blocks, twice in a micro-batch. */
static void test_many_units_ahead(void **state)
{
    equiv_run run = equiv_run_of(deep(135), promised_ranks(), 1);

    CERO_UNUSED(state);
    run.spec.vocab_size = 63000;
    check(run, "137 units, a large table");
}

/* Recomputed units are kept for as long as their group takes, unless there are too many of them. */
static void test_large_group(void **state)
{
    equiv_run run = equiv_run_of(deep(100), promised_ranks(), 2);

    CERO_UNUSED(state);
    equiv_set(&run, "cero.checkpoint_units=100");
    check(run, "group of 100");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_many_micro_batches),
        cmocka_unit_test(test_many_units),
        cmocka_unit_test(test_many_units_ahead),
        cmocka_unit_test(test_large_group),
    };
    return run_in_world(NULL, tests, CERO_COUNT_OF(tests));
}
