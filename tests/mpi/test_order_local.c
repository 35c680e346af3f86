/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The order of additions is the one that is asked for. local is global where nothing is accumulated; else it
 * exchanges once per step, its bits depend on the number of ranks and on nothing else, and its losses stay close.
 * auto chooses as docs/design says, and what cannot be is refused.
 */
// RUN: np=4
#include "mpi/equivalence.h"

#include <math.h>

enum {
    STEPS = 10,
    UNITS = 5 /* of the model */
};

static equiv_run make_run(int64_t batch, const char *order, int stage)
{
    equiv_run run = equiv_run_of(equiv_gpt2(), batch, STEPS);

    equiv_set(&run, "cero.gradient_order=%s", order);
    equiv_set(&run, "zero_optimization.stage=%d", stage);
    return run;
}

/* One micro-batch per rank: the first addition is already between ranks. */
static void test_same_without_accumulation(void **state)
{
    equiv_tally tally = {0};
    int row = 0;

    CERO_UNUSED(state);
    for (int size = 2; size <= 4; size++) {
        equiv_world w;
        equiv_outcome expected;
        equiv_run alone = make_run(size, "global", 0);
        equiv_open(&w, size, NULL);
        equiv_train_alone(&alone, &expected);
        for (int i = 0; i < 4; i++) {
            char name[64];
            equiv_run run = make_run(size, "local", i % 2);
            if (!equiv_is_mine(&w, row++)) {
                continue;
            }
            equiv_set(&run, "bf16.enabled=false");
            equiv_set(&run, "zero_optimization.overlap_comm=%s", i < 2 ? "false" : "true");
            (void)snprintf(name, sizeof(name), "local, %d ranks, stage %d, overlap %d", size, i % 2,
                           i / 2);
            // There is nothing local about it then, and nothing is said of it.
            assert_string_equal(equiv_row(&w, &tally, name, &run, &expected).order, "global");
        }
        equiv_cleanup(&expected);
        equiv_close(&w);
    }
    equiv_finish(&tally, row);
    assert_int_equal(row, 3 * 4);
}

/* Losses of two runs that add in different orders. */
static void assert_near(const equiv_outcome *a, const equiv_outcome *b)
{
    assert_int_equal(a->steps, b->steps);
    for (int s = 0; s < a->steps; s++) {
        double difference = fabs(a->stats[s].loss - b->stats[s].loss);
        if (!(difference <= 1e-5 * fabs(a->stats[s].loss))) {
            fail_msg("step %d: losses %.9g and %.9g", s + 1, a->stats[s].loss, b->stats[s].loss);
        }
    }
}

/* The layouts of one number of ranks: all have the bits of the first. */
static int check_layouts(const equiv_world *w, equiv_tally *tally, int64_t batch,
                         const equiv_outcome *expected)
{
    static const char *const buckets[] = {"1", "1009", "1000000"};
    int rows = 0;

    for (int stage = 0; stage < 2; stage++) {
        for (int i = 0; i < 6; i++) {
            char name[96];
            equiv_run run = make_run(batch, "local", stage);
            if (!equiv_is_mine(w, rows++)) {
                continue;
            }
            equiv_set(&run, "zero_optimization.reduce_bucket_size=%s", buckets[i % 3]);
            equiv_set(&run, "zero_optimization.overlap_comm=%s", i % 2 == 0 ? "false" : "true");
            equiv_set(&run, "cero.checkpoint_units=%d", i / 3);
            (void)snprintf(name, sizeof(name), "local, %d ranks, stage %d, variant %d", w->size,
                           stage, i);
            assert_string_equal(equiv_row(w, tally, name, &run, expected).order, "local");
        }
    }
    return rows;
}

/* With accumulation: one exchange of each unit per step, bits of their own, losses that are near. */
static void test_accumulation(void **state)
{
    equiv_tally tally = {0};
    equiv_outcome alone;
    equiv_run run = make_run(12, "local", 0);
    int rows = 0;
    char text[512];

    CERO_UNUSED(state);
    equiv_train_alone(&run, &alone);
    assert_string_equal(alone.zero.order, "global");
    for (int size = 2; size <= 4; size++) {
        equiv_world w;
        equiv_outcome own;
        equiv_open(&w, size, NULL);
        if (w.context != NULL) {
            assert_ok(equiv_train(w.context, &run, &own));
            assert_int_equal(own.reduce.calls, STEPS * UNITS);
            assert_true(equiv_weights_differ(&alone, &own, text, sizeof(text)));
            assert_near(&alone, &own);
            rows += check_layouts(&w, &tally, 12, &own);
            equiv_cleanup(&own);
        } else {
            rows += 12;
        }
        equiv_close(&w);
    }
    equiv_cleanup(&alone);
    equiv_finish(&tally, rows);
    assert_int_equal(rows, 3 * 12);
}

/* Order global exchanges each micro-batch. */
static void test_global_counts(void **state)
{
    equiv_world w;
    equiv_outcome o;

    CERO_UNUSED(state);
    equiv_open(&w, 2, NULL);
    for (int stage = 0; stage < 4; stage++) {
        equiv_run run = make_run(12, "global", stage);
        assert_ok(equiv_train(w.context, &run, &o));
        assert_int_equal(o.reduce.calls, STEPS * UNITS * 6);
        equiv_cleanup(&o);
    }
    equiv_close(&w);
}

/*
 * AC-12. G1 with 3 accumulated micro-batches against one that is three times as large. SGD, as AdamW would turn
 * the rounding of a gradient near zero into steps of the rate's size.
 */
static void test_accumulation_against_large_batch(void **state)
{
    equiv_world w;

    CERO_UNUSED(state);
    equiv_open(&w, 2, NULL);
    for (int stage = 0; stage < 2; stage++) {
        equiv_outcome small;
        equiv_outcome large;
        equiv_run run = {.spec = case_g1(), .seq_len = 32, .steps = 5};
        equiv_set(&run, "optimizer.type=SGD");
        equiv_set(&run, "optimizer.params.betas=-");
        equiv_set(&run, "optimizer.params.eps=-");
        equiv_set(&run, "optimizer.params.lr=0.1");
        equiv_set(&run, "zero_optimization.stage=%d", stage);
        equiv_set(&run, "train_batch_size=12");
        assert_ok(equiv_train(w.context, &run, &small));
        assert_string_equal(small.zero.order, "local"); // by auto
        assert_int_equal(small.reduce.calls, 5 * 4);    // G1 has 4 units
        equiv_set(&run, "train_micro_batch_size_per_gpu=6");
        assert_ok(equiv_train(w.context, &run, &large));
        assert_int_equal(large.reduce.calls, 5 * 4);
        assert_near(&small, &large);
        for (int64_t i = 0; i < small.numel; i++) {
            assert_true(fabs((double)small.weights[i] - (double)large.weights[i]) < 1e-6);
        }
        equiv_cleanup(&small);
        equiv_cleanup(&large);
    }
    equiv_close(&w);
}

/* Sums of a rank's own need room for all gradients. */
static void test_refused(void **state)
{
    equiv_world w;
    equiv_outcome o;

    CERO_UNUSED(state);
    equiv_open(&w, 4, NULL);
    for (int stage = 2; stage < 4; stage++) {
        char text[96];
        equiv_run run = make_run(12, "local", stage);
        (void)snprintf(text, sizeof(text), "cero.gradient_order is local with ZeRO stage %d",
                       stage);
        assert_fails(equiv_train(w.context, &run, &o), CERO_ERR_INVALID, text);
    }
    equiv_close(&w);
}

typedef struct choice {
    int size;
    cero_context_params context;
    int stage;
    int64_t batch; /* samples, one by one */
    const char *order;
} choice;

static const choice choices[] = {
    // More than one micro-batch of a rank at stages 0 and 1: each rank adds first.
    {2, {0}, 0, 4, "local"},
    {2, {0}, 1, 4, "local"},
    {4, {.ranks_per_node = 2}, 1, 8, "local"},
    // Not where sums are cut, or one micro-batch is all there is; one node.
    {2, {0}, 2, 4, "global"},
    {2, {0}, 3, 4, "global"},
    {2, {0}, 0, 2, "global"},
    {4, {0}, 1, 4, "global"},
    {1, {0}, 0, 4, "global"},
    // Several nodes of several ranks.
    {4, {.ranks_per_node = 2}, 2, 8, "node"},
    {4, {.ranks_per_node = 2}, 3, 8, "node"},
    {4, {.ranks_per_node = 2}, 0, 4, "node"},
    {4, {.ranks_per_node = 3}, 2, 4, "node"},
    // Each rank a node of its own; no shared memory in which a node could add.
    {4, {.ranks_per_node = 1}, 2, 8, "global"},
    {4, {.ranks_per_node = 2, .no_shared_memory = true}, 2, 8, "global"},
};

static void test_auto(void **state)
{
    CERO_UNUSED(state);
    for (int i = 0; i < (int)CERO_COUNT_OF(choices); i++) {
        const choice *c = &choices[i];
        equiv_world w;
        equiv_outcome o;
        equiv_run run = make_run(c->batch, "auto", c->stage);
        run.steps = 1;
        equiv_open(&w, c->size, &c->context);
        if (w.context != NULL) {
            assert_ok(equiv_train(w.context, &run, &o));
            if (strcmp(o.zero.order, c->order) != 0) {
                fail_msg("choice %d: order %s, expected %s", i, o.zero.order, c->order);
            }
            equiv_cleanup(&o);
        }
        equiv_close(&w);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_without_accumulation),
        cmocka_unit_test(test_accumulation),
        cmocka_unit_test(test_global_counts),
        cmocka_unit_test(test_accumulation_against_large_batch),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_auto),
    };
    return run_in_world(NULL, tests, CERO_COUNT_OF(tests));
}
