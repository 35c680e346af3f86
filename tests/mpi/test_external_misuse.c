/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a program does wrong at the second front door is said in words on all ranks, and no rank waits for ever:
 * tables that cannot be registered, ranks that differ, calls too many, too early, or by one rank alone.
 */
// RUN: np=1,2,3
// RUN: np=2 args=too_many
// RUN: np=2 args=step_alone
// RUN: np=2 args=ready_twice_alone
// RUN: np=2 args=release_alone
// RUN: np=2 args=not_gathered
#include "mpi/external_cases.h"

#include <math.h>

static const char *const none[] = {NULL};

/* The failing ranks get INVALID and the text, the others REMOTE and the text. */
static void assert_refused(cero_status st, const char *text)
{
    if (st != CERO_ERR_INVALID && st != CERO_ERR_REMOTE) {
        fail_msg("%s instead of a refusal: %s", cero_status_name(st), cero_error_message());
    }
    if (strstr(cero_error_message(), text) == NULL) {
        fail_msg("the message \"%s\" lacks \"%s\"", cero_error_message(), text);
    }
}

static void check_table(external_world *w, const cero_external_param *params, int64_t count,
                        const char *text)
{
    cero_engine *engine = NULL;

    assert_refused(cero_engine_create_external(w->context, w->config, params, count, &engine),
                   text);
    assert_null(engine);
}

static void test_tables(void **state)
{
    static float a[8];
    static float b[8];
    const cero_external_param good[] = {cero_external_matrix("a.w", 2, 2, a, a + 4),
                                        cero_external_matrix("b.w", 0, 4, b, b + 4),
                                        cero_external_matrix("c.w", 0, 4, NULL, NULL)};
    cero_external_param p[3];
    external_world w;

    CERO_UNUSED(state);
    external_open(&w, MPI_COMM_WORLD, none);
    assert_int_equal(good[0].shape.ndim, 2);
    assert_int_equal(good[1].shape.ndim, 1);
    check_table(&w, NULL, 2, "no parameters are given");
    check_table(&w, good, 0, "no parameters are given");
    memcpy(p, good, sizeof(p));
    p[1].name = NULL;
    check_table(&w, p, 3, "parameter 1 of the program has no name");
    p[1].name = "a.w";
    check_table(&w, p, 3, "parameter a.w is registered twice");
    p[1].name = "b.w";
    p[1].data = a + 3;
    check_table(&w, p, 3, "memory of parameter b.w is also registered as that of a.w");
    p[1].data = b + 4;
    check_table(&w, p, 3, "memory of parameter b.w is also registered as that of b.w");
    p[1] = good[1];
    p[1].dtype = CERO_DTYPE_BF16;
    check_table(&w, p, 3, "parameter b.w is registered as bf16, and the config computes in f32");
    p[1] = good[1];
    p[1].shape.dim[0] = 0;
    check_table(&w, p, 3, "parameter b.w: a shape of at most 6 dimensions");
    p[1].shape.ndim = 99;
    check_table(&w, p, 3, "parameter b.w: a shape of at most 6 dimensions");
    p[1] = good[1];
    p[2].name = "a.b";
    check_table(&w, p, 3,
                "parameter a.b belongs to the unit of a.w, and b.w between them does not");
    p[2].unit = "";
    check_table(&w, p, 3, "parameter a.b: its unit has an empty name");
    p[0].is_frozen = p[1].is_frozen = p[2].is_frozen = true;
    p[2].unit = "c";
    check_table(&w, p, 3, "nothing to train: all 3 parameters are frozen");
    external_close(&w);
    external_open(&w, MPI_COMM_WORLD, (const char *const[]){"bf16.enabled=true", NULL});
    check_table(&w, good, 3,
                "parameter c.w is registered as f32 with data in memory of the engine's");
    memcpy(p, good, sizeof(p));
    p[1].dtype = CERO_DTYPE_F16;
    check_table(&w, p, 2, "expected f32 or bf16");
    external_close(&w);
}

/* The rule of units that are not named. */
static void test_units(void **state)
{
    static const char *const names[][2] = {
        {"table", "table"},
        {"hidden1.weight", "hidden1"},
        {"hidden1.bias", "hidden1"},
        {"model.layers.0.mlp.up", "model.layers.0"},
        {"model.layers.0.7", "model.layers.0"},
        {"model.layers.12.norm", "model.layers.12"},
        {"h.3", "h.3"},
        {"h.3a.x", "h.3a"},
    };
    cero_external_param params[CERO_COUNT_OF(names)];
    external_world w;
    cero_engine *engine = NULL;

    CERO_UNUSED(state);
    external_open(&w, MPI_COMM_WORLD, none);
    for (size_t i = 0; i < CERO_COUNT_OF(names); i++) {
        params[i] = cero_external_matrix(names[i][0], 0, 3, NULL, NULL);
    }
    assert_ok(
        cero_engine_create_external(w.context, w.config, params, CERO_COUNT_OF(names), &engine));
    for (size_t i = 0; i < CERO_COUNT_OF(names); i++) {
        assert_string_equal(cero_engine_param_info(engine, (int64_t)i).unit, names[i][1]);
    }
    cero_engine_destroy(&engine);
    external_close(&w);
}

static void test_ranks_that_differ(void **state)
{
    static float memory[8];
    cero_external_param p[3] = {cero_external_matrix("a", 2, 2, NULL, NULL),
                                cero_external_matrix("b", 0, 4, NULL, NULL),
                                cero_external_matrix("c", 0, 4, NULL, NULL)};
    cero_external_param odd[3];
    external_world w;

    CERO_UNUSED(state);
    external_open(&w, MPI_COMM_WORLD, none);
    if (w.size > 1) {
        bool is_odd = w.rank == w.size - 1;
        memcpy(odd, p, sizeof(odd));
        odd[1].shape.dim[0] = 5;
        check_table(
            &w, is_odd ? odd : p, 3,
            "'b [5] f32 of unit b, data the engine's, grad the engine's' instead of 'b [4]");
        odd[1] = p[1];
        odd[1].name = "bb";
        check_table(&w, is_odd ? odd : p, 3, "'bb [4] f32 of unit bb");
        odd[1] = p[1];
        odd[1].data = memory;
        check_table(&w, is_odd ? odd : p, 3, "data the program's");
        check_table(&w, p, is_odd ? 2 : 3, "instead of 'c [4]");
        check_table(&w, is_odd ? NULL : p, 3, "no parameters are given");
    }
    external_close(&w);
}

/* Each door's calls at the other's engine. */
static void test_wrong_door(void **state)
{
    external_world w;
    external_program p;
    cero_engine *model = NULL;
    cero_step_stats stats;
    double loss;
    int64_t rows;

    CERO_UNUSED(state);
    external_open(&w, MPI_COMM_WORLD, none);
    external_create(&p, &w, OWN_F32, READY_NEVER);
    assert_fails(cero_engine_train_batch(p.engine, &(cero_batch){0}, &stats), CERO_ERR_INVALID,
                 "call cero_engine_backward and cero_engine_step");
    assert_fails(cero_engine_eval_batch(p.engine, &(cero_batch){0}, &loss, &rows), CERO_ERR_INVALID,
                 "evaluate with your own forward");
    external_step(&p, 0, 0);
    assert_ok(cero_engine_create(
        w.context, w.config,
        &(cero_engine_params){.build = toy_build, .context = &external_model, .seq_len = 1},
        &model));
    assert_fails(cero_engine_backward(model, 0), CERO_ERR_INVALID, "call cero_engine_train_batch");
    assert_fails(cero_engine_step(model, NULL), CERO_ERR_INVALID, "has a model of its own");
    assert_fails(cero_engine_grad_ready(model, 0), CERO_ERR_INVALID, "has a model of its own");
    assert_fails(cero_engine_gather_unit(model, "first"), CERO_ERR_INVALID, "of its own");
    assert_null(cero_engine_param_data(model, 0));
    assert_null(cero_engine_param_grad(model, 0));
    assert_false(cero_engine_is_boundary(model));
    cero_engine_destroy(&model);
    cero_engine_destroy(&p.engine);
    external_close(&w);
}

/* What ranks call together is compared before anything moves: the engine goes on. */
static void test_calls_that_differ(void **state)
{
    external_world w;
    external_program p;

    CERO_UNUSED(state);
    external_open(&w, MPI_COMM_WORLD, (const char *const[]){"zero_optimization.stage=3", NULL});
    external_create(&p, &w, ENGINES, READY_NEVER);
    if (w.size > 1) {
        external_step(&p, 0, 0);
        external_forward(&p);
        external_backward(&p, 1, w.rank, 0);
        assert_ok(cero_engine_backward(p.engine, 1));
        if (w.rank == 1) { // in the middle of a step, and of another call
            assert_refused(cero_engine_save(p.engine, "/nowhere", NULL),
                           "are in no checkpoint; call it after cero_engine_step");
        } else {
            assert_refused(cero_engine_step(p.engine, NULL), "are in no checkpoint");
        }
        assert_ok(cero_engine_gather_unit(p.engine, "second"));
        if (w.rank == 1) {
            assert_ok(cero_engine_release_unit(p.engine, "second"));
        }
        assert_refused(cero_engine_step(p.engine, NULL), "unit second is still gathered");
        assert_refused(cero_engine_gather_unit(p.engine, "first"),
                       "ranks have different units gathered");
        if (w.rank != 1) {
            assert_ok(cero_engine_release_unit(p.engine, "second"));
        }
        assert_ok(cero_engine_step(p.engine, &p.stats));
        assert_int_equal(p.stats.step, 2);
        cero_status st = w.rank == 0 ? cero_engine_load(p.engine, "/nowhere", "x", NULL)
                                     : cero_engine_save(p.engine, "/nowhere", "x");
        assert_fails(st, CERO_ERR_INVALID,
                     "rank 1 calls cero_engine_save() and rank 0 calls cero_engine_load()");
        external_step(&p, 2, 0);
    }
    cero_engine_destroy(&p.engine);
    external_close(&w);
}

static void test_open(void **state)
{
    static float memory[8];
    cero_external_param p = cero_external_matrix("a", 2, 2, memory, memory + 4);
    cero_engine *engine = NULL;
    cero_status st = cero_engine_open_external("/nowhere/ds_config.json", &p, 1, &engine);

    CERO_UNUSED(state);
    if (st != CERO_ERR_IO && st != CERO_ERR_REMOTE) {
        fail_msg("%s: %s", cero_status_name(st), cero_error_message());
    }
    assert_non_null(strstr(cero_error_message(), "/nowhere/ds_config.json"));
    assert_null(engine);
    assert_fails(cero_engine_backward(NULL, 0), CERO_ERR_INVALID, "the engine is NULL");
}

/* In a world of one: every wrong call by itself, after which the engine can only be destroyed. */
typedef cero_status (*wrong_call)(external_program *p);

static cero_status complete(external_program *p)
{
    external_backward(p, 0, 0, 0);
    return cero_engine_backward(p->engine, 1);
}

static cero_status backward_too_often(external_program *p)
{
    assert_ok(complete(p));
    return cero_engine_backward(p->engine, 1);
}

static cero_status ready_too_often(external_program *p)
{
    assert_ok(complete(p));
    return cero_engine_grad_ready(p->engine, 0);
}

static cero_status ready_twice(external_program *p)
{
    assert_ok(cero_engine_grad_ready(p->engine, 0));
    return cero_engine_grad_ready(p->engine, 0);
}

static cero_status ready_of_none(external_program *p)
{
    return cero_engine_grad_ready(p->engine, PARAMS);
}

static cero_status step_first(external_program *p)
{
    return cero_engine_step(p->engine, NULL);
}

static cero_status step_twice(external_program *p)
{
    assert_ok(complete(p));
    assert_ok(cero_engine_step(p->engine, NULL));
    return cero_engine_step(p->engine, NULL);
}

static cero_status unknown_unit(external_program *p)
{
    return cero_engine_release_unit(p->engine, "fourth");
}

static cero_status scale_not_asked(external_program *p)
{
    return cero_engine_backward(p->engine, 1);
}

static cero_status scale_not_asked_again(external_program *p)
{
    external_backward(p, 0, 0, HUGE_VAL); // an overflow: the scale is halved
    assert_ok(cero_engine_backward(p->engine, 1));
    assert_ok(cero_engine_step(p->engine, &p->stats));
    assert_false(p->stats.is_applied);
    return cero_engine_backward(p->engine, 1);
}

static void check_wrong_call(wrong_call call, const char *dtype, const char *text)
{
    external_world w;
    external_program p;

    external_open(&w, MPI_COMM_SELF, (const char *const[]){dtype, "fp16.hysteresis=1", NULL});
    external_create(&p, &w, OWN_F32, READY_NEVER);
    assert_fails(call(&p), CERO_ERR_INVALID, text);
    assert_fails(cero_engine_backward(p.engine, 1), CERO_ERR_INVALID,
                 "the engine failed before and can only be destroyed");
    assert_fails(cero_engine_save(p.engine, "/nowhere", NULL), CERO_ERR_INVALID, "failed before");
    cero_engine_destroy(&p.engine);
    external_close(&w);
}

static void test_wrong_calls(void **state)
{
    CERO_UNUSED(state);
    check_wrong_call(backward_too_often, "",
                     "the step's 1 micro-batches are complete; call cero_engine_step");
    check_wrong_call(ready_too_often, "", "the step's 1 micro-batches are complete");
    check_wrong_call(ready_twice, "", "the gradient of first.weight was ready before");
    check_wrong_call(ready_of_none, "", "parameter 6 of 6");
    check_wrong_call(step_first, "", "call cero_engine_backward first");
    check_wrong_call(step_twice, "", "call cero_engine_backward first");
    check_wrong_call(unknown_unit, "", "there is no unit fourth; the first of 3 is first");
    check_wrong_call(scale_not_asked, "fp16.enabled=true", "did not ask for the loss scale");
    check_wrong_call(scale_not_asked_again, "fp16.enabled=true", "did not ask for the loss scale");
}

/* Whichever allocation fails, the engine is made or nothing is left. In a world of one. */
static void test_no_memory(void **state)
{
    external_world w;
    external_program p = {0};
    cero_status st = CERO_ERR_NOMEM;
    uint64_t n = 0;

    CERO_UNUSED(state);
    external_open(
        &w, MPI_COMM_SELF,
        (const char *const[]){"gradient_accumulation_steps=2", "bf16.enabled=true", NULL});
    p.world = &w;
    p.memory = MIXED;
    p.dtype = CERO_DTYPE_BF16;
    external_fill_params(&p);
    while (st != CERO_OK) {
        cero_mem_fail_at(++n);
        st = cero_engine_create_external(w.context, w.config, p.params, PARAMS, &p.engine);
        cero_mem_fail_at(0);
        assert_true(st == CERO_OK || st == CERO_ERR_NOMEM);
        assert_int_equal(p.engine != NULL, st == CERO_OK);
    }
    assert_true(n > 40);
    external_step(&p, 0, 0);
    cero_engine_destroy(&p.engine);
    assert_int_equal(cero_mem_total(w.context->mem).current, 0);
    external_close(&w);
}

/* One rank alone, or all, do wrong in the midst of a step; each case has a run of its own. */
static const char *alone;

static bool is_case(const char *name)
{
    return alone != NULL && strcmp(alone, name) == 0;
}

static void test_alone(void **state)
{
    external_world w;
    external_program p;

    CERO_UNUSED(state);
    external_open(&w, MPI_COMM_WORLD,
                  (const char *const[]){is_case("release_alone") || is_case("not_gathered")
                                            ? "zero_optimization.stage=3"
                                            : "zero_optimization.stage=2",
                                        NULL});
    external_create(&p, &w, OWN_F32, READY_NEVER);
    // A rank that is told of a failure while it is still here would fail here.
    assert_int_equal(MPI_Barrier(MPI_COMM_WORLD), MPI_SUCCESS);
    if (is_case("too_many")) {
        assert_ok(cero_engine_backward(p.engine, 1));
        assert_int_equal(MPI_Barrier(MPI_COMM_WORLD), MPI_SUCCESS);
        assert_refused(cero_engine_backward(p.engine, 1), "micro-batches are complete");
    } else if (is_case("not_gathered")) {
        assert_refused(cero_engine_backward(p.engine, 1),
                       "unit first is cut at ZeRO stage 3 and was not gathered");
    } else if (is_case("release_alone")) {
        cero_status st = w.rank == 1 ? cero_engine_release_unit(p.engine, "second")
                                     : cero_engine_gather_unit(p.engine, "first");
        assert_refused(st, "unit second is not gathered");
    } else if (is_case("ready_twice_alone")) {
        cero_status st = cero_engine_grad_ready(p.engine, 0);
        assert_ok(st);
        st = w.rank == 1 ? cero_engine_grad_ready(p.engine, 0) : cero_engine_backward(p.engine, 1);
        assert_refused(st, "the gradient of first.weight was ready before");
    } else {
        assert_true(is_case("step_alone"));
        cero_status st =
            w.rank == 1 ? cero_engine_step(p.engine, NULL) : cero_engine_backward(p.engine, 1);
        assert_refused(st, "step 1, cero_engine_step: no micro-batch came in");
    }
    cero_engine_destroy(&p.engine);
    external_close(&w);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tables),
        cmocka_unit_test(test_units),
        cmocka_unit_test(test_ranks_that_differ),
        cmocka_unit_test(test_wrong_door),
        cmocka_unit_test(test_calls_that_differ),
        cmocka_unit_test(test_open),
        cmocka_unit_test(test_wrong_calls),
        cmocka_unit_test(test_no_memory),
    };
    const struct CMUnitTest cases[] = {cmocka_unit_test(test_alone)};

    if (MPI_Init(&argc, &argv) != MPI_SUCCESS) {
        return EXIT_FAILURE;
    }
    alone = argc > 1 ? argv[1] : NULL;
    return alone != NULL ? external_run(cases, 1) : external_run(tests, CERO_COUNT_OF(tests));
}
