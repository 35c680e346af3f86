/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program that hands its own gradients in gets the bits of a model of ours with the same gradients: at every
 * stage, in every dtype, with its own memory and the engine's, whatever order gradients become ready in, with
 * steps that are skipped; it holds what was planned, and its steps allocate nothing.
 */
// RUN: np=1,2,3,4
#include "mpi/external_cases.h"

#include <math.h>

enum {
    STEPS = 3
};

/* The first front door's engine of the same model, with the same weights. */
static cero_engine *create_model(external_world *w)
{
    cero_engine *engine = NULL;
    float values[TOY_MAX_NUMEL + 1];

    assert_ok(cero_engine_create(
        w->context, w->config,
        &(cero_engine_params){.build = toy_build, .context = &external_model, .seq_len = 1},
        &engine));
    for (int i = 0; i < PARAMS; i++) {
        for (int64_t k = 0; k < external_numel(i); k++) {
            values[k] = external_initial(i, k);
        }
        assert_ok(cero_engine_set_param(engine, i, 0, external_numel(i), values));
    }
    return engine;
}

static cero_step_stats step_model(cero_engine *engine, const external_world *w, int64_t step,
                                  double bad)
{
    static float given[PARAMS][MOST_MICRO_BATCHES * (TOY_MAX_NUMEL + 1)];
    char names[PARAMS][64];
    const char *name[PARAMS];
    const void *data[PARAMS];
    int64_t count = cero_engine_micro_batch_count(engine);
    cero_step_stats stats;

    assert_true(count <= MOST_MICRO_BATCHES);
    for (int i = 0; i < PARAMS; i++) {
        int64_t n = external_numel(i);
        for (int64_t m = 0; m < count; m++) {
            for (int64_t k = 0; k < n; k++) {
                given[i][m * n + k] = external_given(step, m * w->size + w->rank, i, k);
            }
        }
        given[i][(count - 1) * n] += i == 3 ? (float)bad : 0;
        (void)snprintf(names[i], sizeof(names[i]), "given.%s", external_model.params[i].name);
        name[i] = names[i];
        data[i] = given[i];
    }
    cero_batch batch = {.input_count = PARAMS, .name = name, .data = data};
    assert_ok(cero_engine_train_batch(engine, &batch, &stats));
    return stats;
}

static void assert_same_weights(cero_engine *a, cero_engine *b)
{
    float x[TOY_MAX_NUMEL + 1];
    float y[TOY_MAX_NUMEL + 1];

    for (int i = 0; i < PARAMS; i++) {
        int64_t n = external_numel(i);
        assert_ok(cero_engine_get_param(a, i, 0, n, x));
        assert_ok(cero_engine_get_param(b, i, 0, n, y));
        assert_memory_equal(x, y, (size_t)n * sizeof(float));
    }
}

static void assert_same_stats(const cero_step_stats *a, const cero_step_stats *b)
{
    assert_int_equal(a->step, b->step);
    assert_true(a->lr == b->lr);
    assert_true(a->grad_norm == b->grad_norm || (isnan(a->grad_norm) && isnan(b->grad_norm)));
    assert_true(a->clip_coef == b->clip_coef || (isnan(a->clip_coef) && isnan(b->clip_coef)));
    assert_true(a->loss_scale == b->loss_scale);
    assert_int_equal(a->is_applied, b->is_applied);
    assert_int_equal(a->applied, b->applied);
    assert_int_equal(a->skipped, b->skipped);
}

/* One way of doing it. */
typedef struct variant {
    const char *sets[5];
    external_memory memory;
    external_ready ready;
    cero_context_params world; /* how ranks reach each other */
} variant;

static const variant variants[] = {
    {{"gradient_accumulation_steps=1", "cero.share_within_node=true", NULL},
     ENGINES,
     READY_NEVER,
     {0}},
    {{"gradient_accumulation_steps=2", "zero_optimization.overlap_comm=true", NULL},
     OWN_DTYPE,
     READY_BACKWARD,
     {.ranks_per_node = 2}},
    {{"gradient_accumulation_steps=3", "cero.gradient_order=global",
      "zero_optimization.overlap_comm=true", NULL},
     ENGINES,
     READY_OWN,
     {0}},
    {{"gradient_accumulation_steps=1", "zero_optimization.overlap_comm=true", NULL},
     MIXED,
     READY_FORWARD,
     {.no_shared_memory = true}},
    {{"gradient_accumulation_steps=3", "zero_optimization.overlap_comm=true",
      "zero_optimization.reduce_bucket_size=300", NULL},
     OWN_F32,
     READY_OWN,
     {.ranks_per_node = 1}},
    {{"gradient_accumulation_steps=2", "zero_optimization.overlap_comm=false",
      "cero.frozen=[\"first.bias\"]", NULL},
     MIXED,
     READY_BACKWARD,
     {.ranks_per_node = 3}},
};

static void check_variant(const variant *v, const char *dtype, const char *stage, bool has_skip)
{
    external_world w;
    external_program p;
    const char *sets[8] = {dtype, stage, v->sets[0], v->sets[1], v->sets[2], v->sets[3], NULL};

    external_open_as(&w, MPI_COMM_WORLD, &v->world, sets);
    cero_engine *model = create_model(&w);
    external_create(&p, &w, v->memory, v->ready);
    for (int64_t step = 0; step < STEPS; step++) {
        double bad = has_skip && step == 1 && w.rank == w.size - 1 ? (double)NAN : 0.0;
        cero_step_stats stats = step_model(model, &w, step, bad);
        external_step(&p, step, bad);
        assert_same_stats(&stats, &p.stats);
        assert_int_equal(p.stats.is_applied, !has_skip || step != 1);
        if (has_skip && step == 1) {
            assert_string_equal(p.stats.bad_tensor, "second");
        }
        assert_same_weights(model, p.engine);
        double loss = 0;
        int64_t count = cero_engine_micro_batch_count(p.engine) * w.size;
        for (int64_t k = 0; k < count; k++) {
            loss += external_loss(step, k) / (double)count;
        }
        assert_true(fabs(p.stats.loss - loss) <= 1e-15 * loss);
    }
    external_forward(&p);
    cero_engine_destroy(&p.engine);
    cero_engine_destroy(&model);
    external_close(&w);
}

static void check_stage(const char *stage)
{
    static const char *const dtypes[] = {"bf16.enabled=false", "bf16.enabled=true",
                                         "fp16.enabled=true"};

    for (size_t v = 0; v < CERO_COUNT_OF(variants); v++) {
        // Every variant in two dtypes, every dtype with a skip.
        check_variant(&variants[v], dtypes[v % 3], stage, v < 3);
        if (v != 5 || stage[strlen(stage) - 1] == '1') {
            check_variant(&variants[v], dtypes[(v + 1) % 3], stage, false);
        }
    }
}

static void test_stage_0(void **state)
{
    CERO_UNUSED(state);
    check_stage("zero_optimization.stage=0");
}

static void test_stage_1(void **state)
{
    CERO_UNUSED(state);
    check_stage("zero_optimization.stage=1");
}

static void test_stage_2(void **state)
{
    CERO_UNUSED(state);
    check_stage("zero_optimization.stage=2");
}

static void test_stage_3(void **state)
{
    CERO_UNUSED(state);
    check_stage("zero_optimization.stage=3");
}

/* Peak bytes of every category are the planned ones, on a rank and on a device without memory. */
static void check_plan(const char *const *sets, external_memory memory, external_ready ready)
{
    external_world w;
    external_program p;

    external_open(&w, MPI_COMM_WORLD, sets);
    external_create(&p, &w, memory, ready);
    const cero_engine_plan *plan = cero_engine_get_plan(p.engine);
    external_step(&p, 0, 0);
    external_step(&p, 1, 0);
    uint64_t calls = cero_mem_calls();
    external_step(&p, 2, 0);
    external_step(&p, 3, 0);
    assert_int_equal(cero_mem_calls(), calls);
    for (int c = 0; c < CERO_MEM_COUNT; c++) {
        size_t current;
        size_t peak;
        cero_context_memory(w.context, (cero_mem_category)c, &current, &peak);
        if (peak != plan->bytes[c] || current != peak) {
            fail_msg("%s: peak %zu, now %zu, planned %zu",
                     cero_mem_category_name((cero_mem_category)c), peak, current, plan->bytes[c]);
        }
    }
    cero_context *meta = NULL;
    cero_engine *planned = NULL;
    assert_ok(cero_context_create(
        &(cero_context_params){.device = "meta", .world_size = w.size, .world_rank = w.rank},
        &meta));
    assert_ok(cero_engine_create_external(meta, w.config, p.params, PARAMS, &planned));
    assert_memory_equal(cero_engine_get_plan(planned)->bytes, plan->bytes, sizeof(plan->bytes));
    assert_fails(cero_engine_backward(planned, 0), CERO_ERR_INVALID, "on the device meta");
    cero_engine_destroy(&planned);
    cero_context_destroy(&meta);
    cero_engine_destroy(&p.engine);
    external_close(&w);
}

static void test_plan(void **state)
{
    static const char *const stages[] = {"zero_optimization.stage=0", "zero_optimization.stage=1",
                                         "zero_optimization.stage=2", "zero_optimization.stage=3"};

    CERO_UNUSED(state);
    for (int s = 0; s < 4; s++) {
        const char *plain[] = {stages[s], "bf16.enabled=true", NULL};
        const char *more[] = {stages[s], "gradient_accumulation_steps=2",
                              "zero_optimization.overlap_comm=true",
                              "zero_optimization.stage3_max_live_parameters=600", NULL};
        check_plan(plain, OWN_F32, READY_NEVER);
        check_plan(more, OWN_F32, READY_BACKWARD);
        check_plan(more, ENGINES, READY_BACKWARD);
    }
}

/* Gradients in the program's memory take turns in two rooms; in the engine's, every unit has its own. */
static void test_rooms(void **state)
{
    external_world w;
    external_program own;
    external_program engines;

    CERO_UNUSED(state);
    external_open(&w, MPI_COMM_WORLD,
                  (const char *const[]){"gradient_accumulation_steps=2",
                                        "zero_optimization.overlap_comm=true", NULL});
    external_create(&own, &w, OWN_F32, READY_NEVER);
    external_create(&engines, &w, ENGINES, READY_NEVER);
    // first has 342 trained elements, second 1, third 1021: 512 + 256 + 1024 with padding.
    assert_int_equal(cero_engine_get_plan(own.engine)->exchange_bytes, (1024 + 256) * 4);
    assert_int_equal(cero_engine_get_plan(engines.engine)->exchange_bytes, 1792 * 4);
    for (int i = 0; i < PARAMS; i++) {
        assert_ptr_equal(cero_engine_param_grad(own.engine, i), own.params[i].grad);
        assert_ptr_equal(cero_engine_param_data(own.engine, i), own.params[i].data);
    }
    assert_null(cero_engine_param_grad(own.engine, PARAMS));
    assert_null(cero_engine_param_data(own.engine, -1));
    cero_engine_destroy(&own.engine);
    cero_engine_destroy(&engines.engine);
    external_close(&w);
}

/* Stage 3: units that are gathered together share the room that the config allows. */
static void test_gathered_together(void **state)
{
    external_world w;
    external_program p;

    CERO_UNUSED(state);
    external_open(&w, MPI_COMM_WORLD,
                  (const char *const[]){"zero_optimization.stage=3",
                                        "zero_optimization.stage3_max_live_parameters=1300", NULL});
    external_create(&p, &w, ENGINES, READY_NEVER);
    bool is_cut = w.size > 1;
    for (int round = 0; round < 3; round++) {
        // 1024 elements, then 256 beside them: 512 + 256 of the first unit do not fit.
        assert_ok(cero_engine_gather_unit(p.engine, "third.0.table"));
        assert_ok(cero_engine_gather_unit(p.engine, "second"));
        external_check_weights(&p, 3);
        external_check_weights(&p, 4);
        external_check_weights(&p, 5);
        if (is_cut) {
            assert_fails(cero_engine_gather_unit(p.engine, "first"), CERO_ERR_NOMEM,
                         "stage3_max_live_parameters");
            assert_fails(cero_engine_gather_unit(p.engine, "second"), CERO_ERR_INVALID,
                         "unit second is gathered already");
            assert_fails(cero_engine_set_param(p.engine, 3, 0, 1, &(float){1}), CERO_ERR_INVALID,
                         "unit second is gathered");
            assert_null(cero_engine_param_data(p.engine, 0));
        }
        assert_fails(cero_engine_gather_unit(p.engine, "fourth"), CERO_ERR_INVALID,
                     "there is no unit fourth");
        assert_ok(cero_engine_release_unit(p.engine, "third.0.table"));
        assert_int_equal(cero_engine_param_data(p.engine, 4) == NULL, is_cut);
        assert_ok(cero_engine_gather_unit(p.engine, "first"));
        for (int i = 0; i < 4; i++) {
            external_check_weights(&p, i);
        }
        assert_ok(cero_engine_release_unit(p.engine, "second"));
        assert_ok(cero_engine_release_unit(p.engine, "first"));
        external_step(&p, round, 0);
    }
    // What ranks do differently is named on all of them.
    if (is_cut) {
        const char *unit = w.rank == 1 ? "second" : "first";
        assert_fails(cero_engine_gather_unit(p.engine, unit), CERO_ERR_INVALID,
                     "rank 0 calls cero_engine_gather_unit(first) and rank 1 calls "
                     "cero_engine_gather_unit(second)");
    }
    cero_engine_destroy(&p.engine);
    external_close(&w);
}

/* Forward and backward gather the same units in other orders: each finds its old place, and nothing is planned. */
static void test_gathered_again(void **state)
{
    static const char *const order[][2] = {{"first", "second"}, {"second", "first"}};
    external_world w;
    external_program p;
    uint64_t calls = 0;

    CERO_UNUSED(state);
    external_open(&w, MPI_COMM_WORLD, (const char *const[]){"zero_optimization.stage=3", NULL});
    external_create(&p, &w, ENGINES, READY_NEVER);
    for (int round = 0; round < 4; round++) {
        for (int k = 0; k < 2; k++) {
            assert_ok(cero_engine_gather_unit(p.engine, order[round % 2][k]));
        }
        for (int k = 0; k < 2; k++) {
            assert_ok(cero_engine_release_unit(p.engine, order[round % 2][k]));
        }
        calls = round == 0 ? cero_mem_calls() : calls;
    }
    assert_int_equal(cero_mem_calls(), calls);
    cero_engine_destroy(&p.engine);
    external_close(&w);
}

/* Weights that are set show in the program's memory, rounded as compute copies are. */
static void test_set_param(void **state)
{
    external_world w;
    external_program p;
    const float values[] = {1.00001f, -3.3f};

    CERO_UNUSED(state);
    external_open(&w, MPI_COMM_WORLD, (const char *const[]){"bf16.enabled=true", NULL});
    external_create(&p, &w, OWN_F32, READY_NEVER);
    assert_ok(cero_engine_set_param(p.engine, 5, 507, 2, values));
    external_forward(&p);
    assert_true(p.data[p.begin[5] + 507] == 1.0f);
    float master;
    assert_ok(cero_engine_get_param(p.engine, 5, 507, 1, &master));
    assert_true(master == values[0]);
    assert_int_equal(cero_engine_rank(p.engine), w.rank);
    assert_int_equal(cero_engine_size(p.engine), w.size);
    assert_string_equal(cero_engine_param_info(p.engine, 4).unit, "third.0.table");
    cero_engine_destroy(&p.engine);
    external_close(&w);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_stage_0),
        cmocka_unit_test(test_stage_1),
        cmocka_unit_test(test_stage_2),
        cmocka_unit_test(test_stage_3),
        cmocka_unit_test(test_plan),
        cmocka_unit_test(test_rooms),
        cmocka_unit_test(test_gathered_together),
        cmocka_unit_test(test_gathered_again),
        cmocka_unit_test(test_set_param),
    };

    if (MPI_Init(&argc, &argv) != MPI_SUCCESS) {
        return EXIT_FAILURE;
    }
    return external_run(tests, CERO_COUNT_OF(tests));
}
