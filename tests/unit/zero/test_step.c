/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One step is exact where it can be: norms, clipping, sums over micro-batches, the token mean, and weights that
 * go in and out of the states unchanged.
 */
#include "unit/zero/toy.h"

#include <math.h>

static const toy_model two = {.params = {{.name = "a", .shape = {1, {1}}},
                                         {.name = "b", .shape = {1, {1}}, .is_apart = true}},
                              .param_count = 2};
static const toy_model one = {.params = {{.name = "a", .shape = {1, {1}}}}, .param_count = 1};

/* Plain descent with rate 1: the weight moves by the gradient that was used. */
#define SGD                                                                    \
    "optimizer.type=SGD", "optimizer.params.lr=1", "optimizer.params.betas=-", \
        "optimizer.params.eps=-", "optimizer.params.weight_decay=0",           \
        "train_micro_batch_size_per_gpu=1"

/* NO-01: tensors with gradients 3 and 4 have the norm 5, in any dtype. */
static void test_norm(void **state)
{
    static const char *const dtypes[] = {"bf16.enabled=false", "bf16.enabled=true",
                                         "fp16.enabled=true"};
    const float a = 3;
    const float b = 4;

    CERO_UNUSED(state);
    for (int i = 0; i < 3; i++) {
        toy t;
        toy_open(&t, &two,
                 (const char *const[]){SGD, "optimizer.params.lr=0.125",
                                       "fp16.initial_scale_power=8", dtypes[i], NULL});
        assert_ok(toy_step(&t, &a, &b));
        assert_true(t.stats.grad_norm == 5.0);
        assert_true(t.stats.clip_coef == 1.0);
        assert_true(t.stats.is_applied);
        assert_true(toy_get(&t, "a") == 1 - 0.375);
        assert_true(toy_get(&t, "b") == 1 - 0.5);
        toy_close(&t);
    }
}

/* NO-03, NO-04: the norm that is told is before clipping, the coefficient is applied, 10 changes no bit. */
static void test_clipping(void **state)
{
    const float a = 3;
    const float b = 4;
    double plain[2];
    toy t;

    CERO_UNUSED(state);
    toy_open(&t, &two, (const char *const[]){SGD, NULL});
    assert_ok(toy_step(&t, &a, &b));
    plain[0] = toy_get(&t, "a");
    plain[1] = toy_get(&t, "b");
    toy_close(&t);

    toy_open(&t, &two, (const char *const[]){SGD, "gradient_clipping=1", NULL});
    assert_ok(toy_step(&t, &a, &b));
    assert_true(t.stats.grad_norm == 5.0);
    assert_true(fabs(t.stats.grad_norm * t.stats.clip_coef - 1) <= 1e-5);
    assert_true(fabs(1 - toy_get(&t, "a") - 0.6) <= 1e-6);
    assert_true(fabs(1 - toy_get(&t, "b") - 0.8) <= 1e-6);
    toy_close(&t);

    toy_open(&t, &two, (const char *const[]){SGD, "gradient_clipping=10", NULL});
    assert_ok(toy_step(&t, &a, &b));
    assert_true(t.stats.clip_coef == 1.0);
    assert_true(toy_get(&t, "a") == plain[0] && toy_get(&t, "b") == plain[1]);
    toy_close(&t);
}

/* AC-02 on one rank: 0, 1, 2, 3, 10, 11, 12, 13 have the mean 6.5 in every dtype. */
static void test_sum_over_micro_batches(void **state)
{
    static const char *const dtypes[] = {"bf16.enabled=false", "bf16.enabled=true",
                                         "fp16.enabled=true"};
    const float given[] = {0, 1, 2, 3, 10, 11, 12, 13};

    CERO_UNUSED(state);
    for (int i = 0; i < 3; i++) {
        toy t;
        toy_open(&t, &one,
                 (const char *const[]){SGD, "gradient_accumulation_steps=8",
                                       "fp16.initial_scale_power=8", dtypes[i], NULL});
        assert_int_equal(cero_engine_micro_batch_count(t.engine), 8);
        assert_int_equal(cero_engine_global_batch(t.engine), 8);
        assert_ok(toy_step(&t, given, NULL));
        assert_true(t.stats.grad_norm == 6.5);
        assert_true(t.stats.loss == 6.5);
        assert_int_equal(t.stats.rows, 8);
        assert_true(toy_get(&t, "a") == 1 - 6.5);
        toy_close(&t);
    }
}

enum {
    TOKENS = 40
};

/* AC-06, AC-07: 30 tokens of loss 2 and 10 of loss 4 are 2.5 in the mean, however they are spread. */
static void check_token_mean(const int *counted, const float *loss, int batches)
{
    toy_model model = one;
    toy t;
    float given[4 * TOKENS];
    int32_t targets[4 * TOKENS];
    char steps[64];
    const char *names[] = {"targets", "given.a"};
    const void *data[] = {targets, given};

    model.has_targets = true;
    for (int k = 0; k < batches; k++) {
        for (int i = 0; i < TOKENS; i++) {
            given[k * TOKENS + i] = i < counted[k] ? loss[k] : 1000.0f;
            targets[k * TOKENS + i] = i < counted[k] ? i : -100;
        }
    }
    (void)snprintf(steps, sizeof(steps), "gradient_accumulation_steps=%d", batches);
    toy_open(&t, &model,
             (const char *const[]){SGD, steps, "train_micro_batch_size_per_gpu=40", NULL});
    assert_ok(cero_engine_train_batch(
        t.engine, &(cero_batch){.input_count = 2, .name = names, .data = data}, &t.stats));
    assert_true(t.stats.loss == 2.5);
    assert_int_equal(t.stats.rows, 40);
    assert_true(fabs(t.stats.grad_norm - 2.5) <= 1e-6);
    assert_true(fabs(1 - toy_get(&t, "a") - 2.5) <= 1e-6);
    toy_close(&t);
}

static void test_token_mean(void **state)
{
    CERO_UNUSED(state);
    check_token_mean((const int[]){30, 10}, (const float[]){2, 4}, 2);
    check_token_mean((const int[]){30, 10, 0, 0}, (const float[]){2, 4, 0, 0}, 4);
    check_token_mean((const int[]){0, 30, 0, 10}, (const float[]){0, 2, 0, 4}, 4);
}

/* A step in which no row counts has no loss, no gradient, and no NaN. */
static void test_no_tokens(void **state)
{
    toy_model model = one;
    toy t;
    const float given = 3;
    const int32_t target = -1;
    const char *names[] = {"targets", "given.a"};
    const void *data[] = {&target, &given};

    CERO_UNUSED(state);
    model.has_targets = true;
    toy_open(&t, &model, (const char *const[]){SGD, NULL});
    assert_ok(cero_engine_train_batch(
        t.engine, &(cero_batch){.input_count = 2, .name = names, .data = data}, &t.stats));
    assert_true(t.stats.loss == 0 && t.stats.grad_norm == 0 && t.stats.is_applied);
    assert_int_equal(t.stats.rows, 0);
    assert_true(toy_get(&t, "a") == 1);
    toy_close(&t);
}

/* CF-09: weight 1, gradient 0, rate 0.1, decay 0.1: 0.99 when decay is apart, 0.9 when it is in the gradient. */
static void test_adam_modes(void **state)
{
    static const char *const modes[] = {"optimizer.params.adam_w_mode=true",
                                        "optimizer.params.adam_w_mode=false"};
    static const double expected[] = {0.99, 0.9};
    const float given = 0;

    CERO_UNUSED(state);
    for (int i = 0; i < 2; i++) {
        toy t;
        toy_open(&t, &one,
                 (const char *const[]){"optimizer.type=Adam", "optimizer.params.lr=0.1",
                                       "train_micro_batch_size_per_gpu=1", modes[i], NULL});
        assert_ok(toy_step(&t, &given, NULL));
        assert_true(fabs(toy_get(&t, "a") - expected[i]) <= 1e-6);
        toy_close(&t);
    }
    toy t; // the default of the type Adam
    toy_open(&t, &one,
             (const char *const[]){"optimizer.type=Adam", "optimizer.params.lr=0.1",
                                   "train_micro_batch_size_per_gpu=1", NULL});
    assert_ok(toy_step(&t, &given, NULL));
    assert_true(fabs(toy_get(&t, "a") - 0.99) <= 1e-6);
    toy_close(&t);
}

/* PR-01: steps of a tenth of a bf16 spacing move the master, and in the end the copy. */
static void test_master_moves(void **state)
{
    toy t;
    const float given = 1;
    const char *name = "given.a";
    const void *data = &given;
    double loss = 0;
    int64_t rows = 0;

    CERO_UNUSED(state);
    toy_open(&t, &one,
             (const char *const[]){"optimizer.type=Adam", "optimizer.params.lr=1e-4",
                                   "optimizer.params.weight_decay=0", "bf16.enabled=true",
                                   "train_micro_batch_size_per_gpu=1", NULL});
    for (int i = 0; i < 40; i++) {
        assert_ok(toy_step(&t, &given, NULL));
    }
    assert_true(fabs(toy_get(&t, "a") - 0.996) <= 1e-6);
    assert_ok(cero_engine_eval_batch(
        t.engine, &(cero_batch){.input_count = 1, .name = &name, .data = &data}, &loss, &rows));
    assert_true(loss == 0.99609375); // the bf16 copy times 1
    toy_close(&t);
}

static const toy_model odd = {.params = {{.name = "a", .shape = {2, {7, 3}}},
                                         {.name = "b", .shape = {1, {36}}, .is_apart = true}},
                              .param_count = 2};

/* PM-01, and the idea of RS-08: 57 elements go in and come out, also over a step with rate 0. */
static void test_round_trip(void **state)
{
    static const char *const dtypes[] = {"bf16.enabled=false", "bf16.enabled=true",
                                         "fp16.enabled=true"};
    float zeros[36] = {0};
    float values[57];

    CERO_UNUSED(state);
    for (int i = 0; i < 57; i++) {
        values[i] = (float)(i - 28) / 7.0f;
    }
    for (int i = 0; i < 3; i++) {
        toy t;
        int64_t count = 0;
        toy_open(&t, &odd,
                 (const char *const[]){"optimizer.params.lr=0", dtypes[i],
                                       "fp16.initial_scale_power=4",
                                       "train_micro_batch_size_per_gpu=1", NULL});
        assert_int_equal(cero_engine_get_plan(t.engine)->param_count, 57);
        for (int64_t at = 0; at < 21; at += 4) { // in pieces
            assert_ok(
                cero_engine_set_param(t.engine, 0, at, at + 4 < 21 ? 4 : 21 - at, values + at));
        }
        assert_ok(cero_engine_set_param(t.engine, 1, 0, 36, values + 21));
        for (int k = 0; k < 36; k++) {
            zeros[k] = (float)k - 5;
        }
        assert_ok(toy_step(&t, zeros, zeros));
        assert_true(t.stats.is_applied && t.stats.lr == 0);
        float *all = case_weights(t.engine, &count);
        assert_int_equal(count, 57);
        assert_memory_equal(all, values, sizeof(values));
        cero_delete(all);
        assert_fails(cero_engine_set_param(t.engine, 0, 20, 2, values), CERO_ERR_INVALID,
                     "2 elements from 20 on of parameter a, which has 21");
        assert_fails(cero_engine_get_param(t.engine, 1, -1, 1, values), CERO_ERR_INVALID,
                     "of parameter b");
        assert_fails(cero_engine_get_param(t.engine, 2, 0, 1, values), CERO_ERR_INVALID,
                     "parameter 2 of 2");
        toy_close(&t);
    }
}

/* PM-03: an empty tensor is refused by name. */
static void test_empty_tensor(void **state)
{
    toy_model model = one;
    toy t;

    CERO_UNUSED(state);
    model.params[0].shape = cero_shape_2d(0, 64);
    assert_fails(toy_create(&t, &model, (const char *const[]){SGD, NULL}), CERO_ERR_INVALID,
                 "parameter a has no elements");
    toy_close(&t);
}

/* PM-09: a group without a parameter that is trained works; nothing to train is refused. */
static void test_frozen_groups(void **state)
{
    toy t;
    const float given[] = {1};

    CERO_UNUSED(state);
    toy_open(&t, &two,
             (const char *const[]){SGD, "cero.no_decay=[\"b\"]", "cero.frozen=[\"b\"]", NULL});
    assert_ok(toy_step(&t, given, given));
    assert_true(t.stats.grad_norm == 1);
    assert_true(toy_get(&t, "a") == 0 && toy_get(&t, "b") == 1);
    assert_int_equal(cero_engine_get_plan(t.engine)->trained_count, 1);
    toy_close(&t);
    assert_fails(toy_create(&t, &two, (const char *const[]){SGD, "cero.frozen=[\"*\"]", NULL}),
                 CERO_ERR_INVALID, "nothing to train");
    toy_close(&t);
    assert_fails(toy_create(&t, &two, (const char *const[]){SGD, "cero.frozen=[\"c*\"]", NULL}),
                 CERO_ERR_INVALID, "cero.frozen: the pattern \"c*\" matches none");
    toy_close(&t);
}

/* PM-10: a parameter outside the loss is known by name, has a gradient of zero, and stays. */
static void test_unused(void **state)
{
    toy_model model = two;
    toy t;
    const float given = 2;

    CERO_UNUSED(state);
    model.params[1].is_unused = true;
    toy_open(&t, &model,
             (const char *const[]){"optimizer.params.weight_decay=0",
                                   "gradient_accumulation_steps=2",
                                   "train_micro_batch_size_per_gpu=1", NULL});
    assert_string_equal(cero_engine_unused_param(t.engine, 0), "b");
    assert_null(cero_engine_unused_param(t.engine, 1));
    assert_ok(toy_step(&t, (const float[]){given, given}, NULL));
    assert_true(t.stats.grad_norm == 2);
    assert_true(toy_get(&t, "b") == 1);
    assert_true(toy_get(&t, "a") != 1);
    toy_close(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_norm),
        cmocka_unit_test(test_clipping),
        cmocka_unit_test(test_sum_over_micro_batches),
        cmocka_unit_test(test_token_mean),
        cmocka_unit_test(test_no_tokens),
        cmocka_unit_test(test_adam_modes),
        cmocka_unit_test(test_master_moves),
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_empty_tensor),
        cmocka_unit_test(test_frozen_groups),
        cmocka_unit_test(test_unused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
