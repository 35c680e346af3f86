/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Faults of other trainers with gradients that the test chooses, over ranks: sums are divided once by what was
 * counted, the norm is that of the whole gradient, a gradient of one rank that is not finite skips the step on
 * all, and parameters that are frozen, unused or empty break nothing.
 */
// RUN: np=4
#include "mpi/equivalence.h"
#include "unit/zero/toy.h"

#include "base/log.h"

#include <math.h>

static const toy_model one = {.params = {{.name = "a", .shape = {1, {1}}}}, .param_count = 1};
static const toy_model two = {.params = {{.name = "a", .shape = {1, {1}}},
                                         {.name = "b", .shape = {1, {1}}, .is_apart = true}},
                              .param_count = 2};

/* Plain descent with rate 1: the weight moves by the gradient that was used. */
#define SGD                                                                    \
    "optimizer.type=SGD", "optimizer.params.lr=1", "optimizer.params.betas=-", \
        "optimizer.params.eps=-", "optimizer.params.weight_decay=0",           \
        "train_micro_batch_size_per_gpu=1",                                    \
        "zero_optimization.stage3_param_persistence_threshold=0"

static const char *const stages[] = {"zero_optimization.stage=0", "zero_optimization.stage=1",
                                     "zero_optimization.stage=2", "zero_optimization.stage=3"};

/* All that was logged at a level that this rank's terminal would show. */
static char logged[8192];

static void keep_line(void *context, cero_log_level level, const char *line)
{
    size_t used = strlen(logged);

    CERO_UNUSED(context);
    if (level <= CERO_LOG_WARN) {
        (void)snprintf(logged + used, sizeof(logged) - used, "%s\n", line);
    }
}

static cero_status create_in(const equiv_world *w, toy *t, const toy_model *model,
                             const char *const *sets)
{
    memset(t, 0, sizeof(*t));
    t->world.context = w->context;
    assert_ok(case_config(w->context, sets, &t->world.config));
    return cero_engine_create(
        w->context, t->world.config,
        &(cero_engine_params){.build = toy_build, .context = model, .seq_len = 1}, &t->engine);
}

/* The world stays. */
static void close_in(toy *t)
{
    cero_engine_destroy(&t->engine);
    cero_config_destroy(&t->world.config);
}

/* AC-02: gradient of micro-step i on rank r is 10 r + i; both ranks use 6.5. */
static void test_last_micro_step(void **state)
{
    equiv_world w;
    toy t;

    CERO_UNUSED(state);
    equiv_open(&w, 2, NULL);
    for (int i = 0; i < 8 && w.context != NULL; i++) {
        float first = 10.0f * (float)cero_context_rank(w.context);
        const float given[] = {first, first + 1, first + 2, first + 3};
        assert_ok(create_in(
            &w, &t, &one,
            (const char *const[]){SGD, stages[i / 2], "gradient_accumulation_steps=4",
                                  i % 2 == 0 ? "bf16.enabled=true" : "bf16.enabled=false", NULL}));
        assert_ok(toy_step(&t, given, NULL));
        assert_true(t.stats.grad_norm == 6.5 && t.stats.loss == 6.5);
        assert_int_equal(t.stats.rows, 8);
        assert_true(toy_get(&t, "a") == 1 - 6.5);
        close_in(&t);
    }
    equiv_close(&w);
}

enum {
    TOKENS = 40
};

/* AC-07: 30 tokens of loss 2 on one rank and 10 of loss 4 on the next; further ranks have none. */
static void test_token_mean(void **state)
{
    toy_model model = one;
    const char *names[] = {"targets", "given.a"};

    CERO_UNUSED(state);
    model.has_targets = true;
    for (int size = 2; size <= 4; size += 2) {
        equiv_world w;
        equiv_open(&w, size, NULL);
        for (int s = 0; s < 4; s++) {
            int rank = cero_context_rank(w.context);
            int counted = rank == 0 ? 30 : rank == 1 ? 10 : 0;
            float given[TOKENS];
            int32_t targets[TOKENS];
            const void *data[] = {targets, given};
            toy t;
            for (int i = 0; i < TOKENS; i++) {
                given[i] = i >= counted ? 1000.0f : rank == 0 ? 2.0f : 4.0f;
                targets[i] = i < counted ? i : -100;
            }
            assert_ok(create_in(
                &w, &t, &model,
                (const char *const[]){SGD, stages[s], "train_micro_batch_size_per_gpu=40", NULL}));
            assert_ok(cero_engine_train_batch(
                t.engine, &(cero_batch){.input_count = 2, .name = names, .data = data}, &t.stats));
            assert_true(t.stats.loss == 2.5);
            assert_int_equal(t.stats.rows, 40);
            assert_true(fabs(t.stats.grad_norm - 2.5) <= 1e-6);
            assert_true(fabs(1 - toy_get(&t, "a") - 2.5) <= 1e-6);
            close_in(&t);
        }
        equiv_close(&w);
    }
}

/* NO-01: 3 and 4, the same on both ranks or one of them on each alone, are 5. */
static void test_norm(void **state)
{
    equiv_world w;
    toy t;

    CERO_UNUSED(state);
    equiv_open(&w, 2, NULL);
    for (int i = 0; i < 8; i++) {
        int rank = cero_context_rank(w.context);
        // Twice as much on one rank is as much in the mean.
        const float a = i % 2 == 0 ? 3 : rank == 0 ? 6.0f : 0.0f;
        const float b = i % 2 == 0 ? 4 : rank == 1 ? 8.0f : 0.0f;
        assert_ok(create_in(&w, &t, &two, (const char *const[]){SGD, stages[i / 2], NULL}));
        assert_ok(toy_step(&t, &a, &b));
        assert_true(t.stats.grad_norm == 5.0);
        assert_true(toy_get(&t, "a") == 1 - 3 && toy_get(&t, "b") == 1 - 4);
        close_in(&t);
    }
    equiv_close(&w);
}

/*
 * LS-03: NaN in one gradient of rank 0 at step 3 alone. Moments that kept their bits give the weights of a run
 * that never met it.
 */
static void check_skip(const equiv_world *w, const char *stage, const char *dtype)
{
    bool is_first = cero_context_rank(w->context) == 0;
    const float a = is_first ? 0.5f : -2;
    const char *const sets[] = {stage, dtype, "train_micro_batch_size_per_gpu=1",
                                "zero_optimization.stage3_param_persistence_threshold=0", NULL};
    toy skips;
    toy plain;

    logged[0] = '\0';
    assert_ok(create_in(w, &skips, &two, sets));
    assert_ok(create_in(w, &plain, &two, sets));
    for (int step = 1; step <= 5; step++) {
        const float b = is_first && step == 3 ? NAN : 3;
        assert_ok(toy_step(&skips, &a, &b));
        assert_int_equal(skips.stats.is_applied, step != 3);
        assert_int_equal(skips.stats.skipped, step >= 3);
        assert_int_equal(skips.stats.applied, step < 3 ? step : step - 1);
        if (step == 3) {
            assert_string_equal(skips.stats.bad_tensor, "b");
        } else {
            assert_ok(toy_step(&plain, &a, &b));
            assert_true(skips.stats.is_applied && skips.stats.grad_norm == plain.stats.grad_norm);
        }
        assert_true(toy_get(&skips, "a") == toy_get(&plain, "a"));
        assert_true(toy_get(&skips, "b") == toy_get(&plain, "b"));
    }
    // One line of all ranks.
    const char *line = strstr(logged, "step skipped: non-finite gradient in b");
    assert_int_equal(line != NULL, is_first);
    assert_true(line == NULL || strstr(line + 1, "step skipped") == NULL);
    close_in(&plain);
    close_in(&skips);
}

static void test_skip(void **state)
{
    equiv_world w;

    CERO_UNUSED(state);
    equiv_open(&w, 2, NULL);
    cero_log_set_sink(keep_line, NULL);
    for (int i = 0; i < 8; i++) {
        check_skip(&w, stages[i / 2], i % 2 == 0 ? "bf16.enabled=true" : "bf16.enabled=false");
    }
    cero_log_set_sink(NULL, NULL);
    equiv_close(&w);
}

/* PM-03: an empty tensor is refused by name, on all ranks. */
static void test_empty_tensor(void **state)
{
    toy_model model = one;
    equiv_world w;
    toy t;

    CERO_UNUSED(state);
    model.params[0].shape = cero_shape_2d(0, 64);
    equiv_open(&w, 4, NULL);
    for (int s = 0; s < 4; s++) {
        cero_status st = create_in(&w, &t, &model, (const char *const[]){SGD, stages[s], NULL});
        assert_true(st == CERO_ERR_INVALID);
        assert_non_null(strstr(cero_error_message(), "parameter a has no elements"));
        close_in(&t);
    }
    equiv_close(&w);
}

/* PM-09: all tensors of the group without decay are frozen; then all tensors are. */
static void test_frozen_groups(void **state)
{
    const float given = 1;
    equiv_world w;
    toy t;

    CERO_UNUSED(state);
    equiv_open(&w, 4, NULL);
    for (int s = 0; s < 4; s++) {
        assert_ok(create_in(&w, &t, &two,
                            (const char *const[]){SGD, stages[s], "cero.no_decay=[\"b\"]",
                                                  "cero.frozen=[\"b\"]", NULL}));
        assert_ok(toy_step(&t, &given, &given));
        assert_true(t.stats.grad_norm == 1);
        assert_true(toy_get(&t, "a") == 0 && toy_get(&t, "b") == 1);
        close_in(&t);
        cero_status st = create_in(
            &w, &t, &two, (const char *const[]){SGD, stages[s], "cero.frozen=[\"*\"]", NULL});
        assert_true(st == CERO_ERR_INVALID);
        assert_non_null(strstr(cero_error_message(), "nothing to train"));
        close_in(&t);
    }
    equiv_close(&w);
}

/* PM-10: a tensor that takes no part in the loss, in a unit of its own. */
static void test_unused(void **state)
{
    const float given = 2;
    toy_model model = two;
    equiv_world w;
    toy t;

    CERO_UNUSED(state);
    model.params[1].is_unused = true;
    equiv_open(&w, 2, NULL);
    for (int s = 0; s < 4; s++) {
        assert_ok(create_in(&w, &t, &model, (const char *const[]){SGD, stages[s], NULL}));
        assert_string_equal(cero_engine_unused_param(t.engine, 0), "b");
        for (int step = 0; step < 3; step++) {
            assert_ok(toy_step(&t, &given, NULL));
            assert_true(t.stats.grad_norm == 2);
        }
        assert_true(toy_get(&t, "b") == 1 && toy_get(&t, "a") == 1 - 6);
        close_in(&t);
    }
    equiv_close(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_last_micro_step),
        cmocka_unit_test(test_token_mean),
        cmocka_unit_test(test_norm),
        cmocka_unit_test(test_skip),
        cmocka_unit_test(test_empty_tensor),
        cmocka_unit_test(test_frozen_groups),
        cmocka_unit_test(test_unused),
    };
    return run_in_world(NULL, tests, CERO_COUNT_OF(tests));
}
