/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the tests of the second front door share: a model of parameters whose gradients are given, as numbers that
 * follow from step, micro-batch, parameter and element; a program that registers it in one of several ways and
 * hands these gradients in; and worlds of some of the ranks.
 */
#ifndef CERO_TESTS_MPI_EXTERNAL_CASES_H
#define CERO_TESTS_MPI_EXTERNAL_CASES_H

#include "unit/zero/toy.h"

#include "cero/mpi.h"

enum {
    PARAMS = 6,
    MOST = 3000, /* elements of all parameters */
    GLOBAL_BATCH =
        12, /* micro-batches of a step over all ranks, for orders of 1, 2, 3 and 4 ranks */
    MOST_MICRO_BATCHES = GLOBAL_BATCH
};

/* Sizes that nothing divides, a frozen parameter, a unit of one element, a unit larger than the rest. */
static const toy_model external_model = {
    .params = {{.name = "first.weight", .shape = {2, {19, 17}}},
               {.name = "first.scale", .shape = {1, {1}}, .is_frozen = true},
               {.name = "first.bias", .shape = {1, {19}}},
               {.name = "second", .shape = {1, {1}}, .is_apart = true},
               {.name = "third.0.table", .shape = {2, {2, 256}}, .is_apart = true},
               {.name = "third.0.more", .shape = {1, {509}}}},
    .param_count = PARAMS};
static const char *const external_units[PARAMS] = {"first",  "first",         "first",
                                                   "second", "third.0.table", "third.0.table"};

static inline int64_t external_numel(int i)
{
    return cero_shape_numel(&external_model.params[i].shape);
}

static inline double external_draw(uint64_t a, uint64_t b)
{
    uint32_t word = cero_rng_word(cero_rng_make_key(7, CERO_RNG_TEST, 0, 0), a, b);

    return (double)cero_rng_uniform_f32(word) - 0.5;
}

/* Gradient of element k of parameter i in micro-batch `micro` (over all ranks) of step `step`, from 0. */
static inline float external_given(int64_t step, int64_t micro, int i, int64_t k)
{
    uint64_t place = (uint64_t)((step * GLOBAL_BATCH + micro) * PARAMS + i);

    return (float)(external_draw(place, (uint64_t)k) * (k % 7 == 0 ? 3.0 : 0.25));
}

static inline float external_initial(int i, int64_t k)
{
    return (float)external_draw(1000000u + (uint64_t)i, (uint64_t)k);
}

/* A world, with a config for it. */
typedef struct external_world {
    MPI_Comm comm;
    cero_context *context;
    cero_config *config;
    int rank;
    int size;
} external_world;

/* A world of the ranks of `comm` and a config of "key=value" texts, up to the first NULL. */
static inline void external_open_as(external_world *w, MPI_Comm comm,
                                    const cero_context_params *params, const char *const *sets)
{
    static const char *const defaults[] = {
        "train_micro_batch_size_per_gpu=1",
        "optimizer.params.lr=0.01",
        "optimizer.params.weight_decay=0.1",
        "gradient_clipping=0.5",
        "fp16.initial_scale_power=6",
        "zero_optimization.stage3_param_persistence_threshold=0"};
    const char *all[32];
    int count = 0;

    for (size_t i = 0; i < CERO_COUNT_OF(defaults); i++) {
        all[count++] = defaults[i];
    }
    bool has_optimizer = false;
    for (; *sets != NULL; sets++) {
        if ((*sets)[0] != '\0') {
            all[count++] = *sets;
            has_optimizer = has_optimizer || strncmp(*sets, "optimizer.type=", 15) == 0;
        }
        assert_true(count < 30);
    }
    if (!has_optimizer) {
        all[count++] = "optimizer.type=AdamW";
    }
    w->comm = comm;
    assert_ok(cero_context_create_mpi(comm, params, &w->context));
    assert_ok(cero_config_create(w->context, NULL, all, count, &w->config));
    w->rank = cero_context_rank(w->context);
    w->size = cero_context_size(w->context);
}

static inline void external_open(external_world *w, MPI_Comm comm, const char *const *sets)
{
    external_open_as(w, comm, &(cero_context_params){.threads = 1}, sets);
}

static inline void external_close(external_world *w)
{
    cero_config_destroy(&w->config);
    cero_context_destroy(&w->context);
}

/* How the program holds its parameters, and tells that gradients are ready. */
typedef enum external_memory {
    OWN_F32 = 0,   /* all memory is the program's, of f32 */
    OWN_DTYPE = 1, /* the same, of the compute dtype */
    ENGINES = 2,   /* all memory is the engine's */
    MIXED = 3      /* of every second parameter the engine's */
} external_memory;

typedef enum external_ready {
    READY_NEVER = 0,
    READY_BACKWARD = 1, /* the last parameter first */
    READY_FORWARD = 2,
    READY_OWN = 3 /* in an order of each rank's own, some not at all */
} external_ready;

/* A program with the model. */
typedef struct external_program {
    external_world *world;
    cero_engine *engine;
    external_memory memory;
    external_ready ready;
    cero_dtype dtype; /* the config's */
    cero_external_param params[PARAMS];
    float data[MOST]; /* f32, or 16 bits in the first half */
    float grad[MOST];
    int64_t begin[PARAMS]; /* of a parameter in both */
    cero_step_stats stats;
} external_program;

static inline bool external_is_own(const external_program *p, int i)
{
    return p->memory <= OWN_DTYPE || (p->memory == MIXED && i % 2 == 0);
}

static inline void external_write(const external_program *p, int i, void *to, const float *values)
{
    cero_device_from_f32(cero_context_device(p->world->context), p->params[i].dtype,
                         external_numel(i), values, to);
}

static inline void external_read(const external_program *p, int i, const void *from, float *values)
{
    cero_device_to_f32(cero_context_device(p->world->context), p->params[i].dtype,
                       external_numel(i), from, values);
}

/* Fills the table: initial weights where the memory is the program's, on rank 0; the others have anything. */
static inline void external_fill_params(external_program *p)
{
    int64_t at = 0;

    for (int i = 0; i < PARAMS; i++) {
        const toy_param *t = &external_model.params[i];
        bool is_own = external_is_own(p, i);
        float values[TOY_MAX_NUMEL + 1];
        p->begin[i] = at;
        at += external_numel(i);
        assert_true(at <= MOST);
        p->params[i] = (cero_external_param){
            .name = t->name,
            .shape = t->shape,
            .dtype = p->memory == OWN_F32 ? CERO_DTYPE_F32 : p->dtype,
            .data = is_own ? p->data + p->begin[i] : NULL,
            .grad = is_own && !t->is_frozen ? p->grad + p->begin[i] : NULL,
            .unit = external_units[i],
            .is_frozen = t->is_frozen,
        };
        for (int64_t k = 0; k < external_numel(i); k++) {
            values[k] = p->world->rank == 0 ? external_initial(i, k) : 77.0f;
        }
        if (is_own) {
            external_write(p, i, p->params[i].data, values);
        }
    }
}

/* The engine of a program; all weights are the initial ones then, rounded where the program's memory is. */
static inline void external_create(external_program *p, external_world *w, external_memory memory,
                                   external_ready ready)
{
    memset(p, 0, sizeof(*p));
    p->world = w;
    p->memory = memory;
    p->ready = ready;
    p->dtype = cero_train_config_spec(w->config)->compute_dtype;
    external_fill_params(p);
    assert_ok(cero_engine_create_external(w->context, w->config, p->params, PARAMS, &p->engine));
    for (int i = 0; i < PARAMS; i++) {
        float values[TOY_MAX_NUMEL + 1];
        for (int64_t k = 0; k < external_numel(i); k++) {
            values[k] = external_initial(i, k);
        }
        if (!external_is_own(p, i) || p->params[i].dtype != CERO_DTYPE_F32) {
            assert_ok(cero_engine_set_param(p->engine, i, 0, external_numel(i), values));
        }
    }
}

/* Weights as forward sees them are the compute dtype's roundings of what the engine says they are. */
static inline void external_check_weights(const external_program *p, int i)
{
    float seen[TOY_MAX_NUMEL + 1];
    float master[TOY_MAX_NUMEL + 1];
    float rounded[TOY_MAX_NUMEL + 1];
    const void *data = cero_engine_param_data(p->engine, i);
    int64_t n = external_numel(i);
    cero_device *device = cero_context_device(p->world->context);

    assert_non_null(data);
    external_read(p, i, data, seen);
    assert_ok(cero_engine_get_param(p->engine, i, 0, n, master));
    cero_device_from_f32(device, p->dtype, n, master, rounded);
    cero_device_to_f32(device, p->dtype, n, rounded, master);
    assert_memory_equal(seen, master, (size_t)n * sizeof(float));
}

/* Forward of the model: looks at every unit's weights, at stage 3 while it is gathered. */
static inline void external_forward(external_program *p)
{
    for (int i = 0; i < PARAMS; i++) {
        if (i == 0 || strcmp(external_units[i], external_units[i - 1]) != 0) {
            assert_ok(cero_engine_gather_unit(p->engine, external_units[i]));
        }
        external_check_weights(p, i);
        if (i + 1 == PARAMS || strcmp(external_units[i], external_units[i + 1]) != 0) {
            assert_ok(cero_engine_release_unit(p->engine, external_units[i]));
        }
    }
}

/* Gradients of a micro-batch (its number over all ranks), with what is ready said on the way. */
static inline void external_backward(external_program *p, int64_t step, int64_t micro, double bad)
{
    double scale = cero_engine_loss_scale(p->engine);

    for (int turn = 0; turn < PARAMS; turn++) {
        int i = p->ready == READY_BACKWARD ? PARAMS - 1 - turn
                : p->ready == READY_OWN    ? (int)((turn + micro + p->world->rank) % PARAMS)
                                           : turn;
        float values[TOY_MAX_NUMEL + 1];
        if (cero_engine_param_grad(p->engine, i) == NULL) {
            assert_true(cero_engine_param_info(p->engine, i).is_frozen);
            continue;
        }
        for (int64_t k = 0; k < external_numel(i); k++) {
            values[k] = (float)((double)external_given(step, micro, i, k) * scale);
        }
        if (i == 3) {
            values[0] += (float)bad;
        }
        external_write(p, i, cero_engine_param_grad(p->engine, i), values);
        bool is_told = p->ready != READY_OWN || (turn + p->world->rank) % 3 != 0;
        if (p->ready != READY_NEVER && is_told) {
            assert_ok(cero_engine_grad_ready(p->engine, i));
        }
    }
}

/* The loss that a micro-batch reports; a power of two is exact in every sum. */
static inline double external_loss(int64_t step, int64_t micro)
{
    return (double)(1 + (step + micro) % 4);
}

/* One whole step, with a number added to a gradient of this rank's last micro-batch. */
static inline void external_step(external_program *p, int64_t step, double bad)
{
    int64_t count = cero_engine_micro_batch_count(p->engine);

    for (int64_t m = 0; m < count; m++) {
        int64_t micro = m * p->world->size + p->world->rank;
        bool is_told = p->ready == READY_NEVER && m == count - 1; // a step follows each micro-batch
        assert_int_equal(cero_engine_is_boundary(p->engine), is_told || count == 1);
        external_forward(p);
        external_backward(p, step, micro, m == count - 1 ? bad : 0);
        assert_ok(cero_engine_backward(p->engine, external_loss(step, micro)));
        assert_int_equal(cero_engine_is_boundary(p->engine), m == count - 1);
        if (p->ready == READY_NEVER || m == count - 1) { // as DeepSpeed's users do, or once
            assert_ok(cero_engine_step(p->engine, &p->stats));
        }
    }
}

/* Runs the tests on all ranks. A rank whose test fails ends them all: the others would wait for it. */
static inline int external_run(const struct CMUnitTest *tests, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (_cmocka_run_group_tests(tests[i].name, &tests[i], 1, NULL, NULL) != 0) {
            (void)MPI_Abort(MPI_COMM_WORLD, EXIT_FAILURE);
        }
    }
    (void)MPI_Finalize();
    return EXIT_SUCCESS;
}

#endif
