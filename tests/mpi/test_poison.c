/* SPDX-License-Identifier: Apache-2.0 */
/*
 * With CERO_POISON=1 a parameter that is read after its release reads NaNs, and training, which reads none,
 * gives the same bits.
 */
// RUN: np=2,3
#include "mpi/layouts.h"
#include "unit/zero/toy.h"

#include <math.h>
#include <string.h>

enum {
    STEPS = 3,
    NUMEL = 500
};

static void set_poison(bool is_on)
{
    assert_int_equal(setenv("CERO_POISON", is_on ? "1" : "0", 1), 0);
}

/* Where the parameters were when they were last used. */
static const void *used[2];
static int uses;

static cero_status keep_run(const cero_op_run *run)
{
    used[uses++ % 2] = run->input[0];
    return toy_run(run);
}

static const cero_op keep_op = {.name = "keep",
                                .infer = toy_infer,
                                .differentiate = toy_differentiate,
                                .run = keep_run};

/* Two units of one parameter each. */
static cero_status keep_build(cero_graph *graph, const cero_model_shape *shape, const void *context)
{
    static const char *const names[] = {"a", "b"};
    cero_value *loss = NULL;
    int64_t rows = shape->micro_batch * shape->seq_len;

    CERO_UNUSED(context);
    for (int i = 0; i < 2; i++) {
        char name[16];
        cero_graph_begin_unit(graph, names[i], false);
        cero_value *p = cero_graph_param(
            graph,
            &(cero_param_params){.name = names[i], .shape = {1, {NUMEL}}, .init = CERO_INIT_ONES});
        (void)snprintf(name, sizeof(name), "given.%s", names[i]);
        cero_value *inputs[] = {
            p, cero_graph_input(graph, name, CERO_DTYPE_F32, cero_shape_2d(rows, NUMEL)), NULL};
        cero_value *part = cero_graph_append(graph, &keep_op, NULL, inputs, 3, NULL);
        loss = loss == NULL ? part : cero_graph_add(graph, loss, part);
        cero_graph_end_unit(graph);
    }
    cero_graph_set_output(graph, "loss", loss);
    return cero_graph_status(graph);
}

/* How many elements of what lies where the parameters lay are NaNs. */
static int count_nans(void)
{
    int count = 0;

    for (int i = 0; i < 2; i++) {
        for (int k = 0; k < NUMEL; k++) {
            float x;
            memcpy(&x, (const char *)used[i] + (size_t)k * sizeof(x), sizeof(x));
            count += isnan(x) ? 1 : 0;
        }
    }
    return count;
}

static int nans_after_a_step(bool is_poisoned)
{
    static float given[2 * NUMEL];
    const void *data[] = {given, given};
    const char *names[] = {"given.a", "given.b"};
    cero_batch batch = {.input_count = 2, .name = names, .data = data};
    cero_engine *engine = NULL;
    cero_step_stats stats;
    case_world w;

    set_poison(is_poisoned);
    uses = 0;
    case_open(&w, 1,
              (const char *const[]){"zero_optimization.stage=3",
                                    "zero_optimization.stage3_param_persistence_threshold=0",
                                    NULL});
    assert_ok(cero_engine_create(
        w.context, w.config, &(cero_engine_params){.build = keep_build, .seq_len = 1}, &engine));
    for (int i = 0; i < 2 * NUMEL; i++) {
        given[i] = (float)i;
    }
    assert_ok(cero_engine_train_batch(engine, &batch, &stats));
    assert_int_equal(uses, 2);
    int count = count_nans();
    cero_engine_destroy(&engine);
    case_close(&w);
    return count;
}

static void test_released_parameters_are_nans(void **state)
{
    CERO_UNUSED(state);
    assert_int_equal(nans_after_a_step(false), 0);
    assert_int_equal(nans_after_a_step(true), 2 * NUMEL);
}

/* Losses and weights of a run; weights are the caller's. */
typedef struct outcome {
    double loss[STEPS];
    double eval;
    float *weights;
    int64_t count;
} outcome;

static outcome train(const layout *l, bool is_poisoned)
{
    static layout_run r;
    outcome o = {0};

    set_poison(is_poisoned);
    layout_open(&r, l, MPI_COMM_WORLD);
    for (int i = 0; i < STEPS; i++) {
        cero_step_stats stats;
        int64_t rows;
        assert_ok(cero_engine_train_batch(r.engine, &r.batch.batch, &stats));
        assert_true(stats.is_applied);
        o.loss[i] = stats.loss;
        assert_ok(cero_engine_eval_batch(r.engine, &r.batch.batch, &o.eval, &rows));
    }
    o.weights = case_weights(r.engine, &o.count);
    layout_close(&r);
    return o;
}

static void test_same_bits(void **state)
{
    const cero_model_spec specs[] = {case_g1(), case_l1()};

    CERO_UNUSED(state);
    for (int i = 0; i < 16; i++) {
        layout l = {.spec = specs[i % 2],
                    .is_bf16 = i / 2 % 2 == 1,
                    .accumulation = i / 4 % 2 == 0 ? 1 : 2,
                    .order = "global"};
        outcome plain = train(&l, false);
        l.stage = i < 12 ? 3 : 2;
        l.overlaps = i / 2 % 2 == 0;
        l.no_shared_memory = i % 3 == 2;
        outcome poisoned = train(&l, true);
        assert_memory_equal(plain.loss, poisoned.loss, sizeof(plain.loss));
        assert_true(plain.eval == poisoned.eval);
        assert_memory_equal(plain.weights, poisoned.weights, (size_t)plain.count * sizeof(float));
        cero_delete(plain.weights);
        cero_delete(poisoned.weights);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_released_parameters_are_nans),
        cmocka_unit_test(test_same_bits),
    };

    return run_in_world(NULL, tests, CERO_COUNT_OF(tests));
}
