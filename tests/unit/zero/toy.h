/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Models whose gradients the test chooses: the loss of a row is the sum of parameter times given number, so the
 * given numbers are the gradient. Built with an operation of the test's own.
 */
#ifndef CERO_TESTS_UNIT_ZERO_TOY_H
#define CERO_TESTS_UNIT_ZERO_TOY_H

#include "cases.h"

enum {
    TOY_MAX_PARAMS = 6,
    TOY_MAX_NUMEL = 512
};

typedef struct toy_param {
    const char *name;
    cero_shape shape;
    bool is_frozen;
    bool is_unused; /* takes no part in the loss */
    bool is_apart;  /* opens a unit of its own */
} toy_param;

/* Rows are micro_batch * seq_len. */
typedef struct toy_model {
    toy_param params[TOY_MAX_PARAMS];
    int param_count;
    bool has_targets; /* rows with a negative target do not count */
} toy_model;

/* inputs: p (any shape, numel n), given [rows, n] f32, optional targets [rows] i32; output: [rows] f32 */
static cero_status toy_infer(cero_op_infer *infer)
{
    int64_t rows = infer->input[1].shape.dim[0];

    infer->output_count = 1;
    infer->output[0] =
        (cero_tensor_desc){.dtype = CERO_DTYPE_F32, .shape = {.ndim = 1, .dim = {rows}}};
    return CERO_OK;
}

static bool toy_counts(const int32_t *targets, int64_t row)
{
    return targets == NULL || targets[row] >= 0;
}

static cero_status toy_run(const cero_op_run *run)
{
    int64_t n = cero_shape_numel(&run->input_desc[0].shape);
    const float *given = run->input[1];
    float *loss = run->output[0];
    float p[TOY_MAX_NUMEL];

    cero_device_to_f32(run->device, run->input_desc[0].dtype, n, run->input[0], p);
    for (int64_t r = 0; r < run->output_desc[0].shape.dim[0]; r++) {
        double sum = 0;
        for (int64_t i = 0; i < n && toy_counts(run->input[2], r); i++) {
            sum += (double)p[i] * (double)given[r * n + i];
        }
        loss[r] = (float)sum;
    }
    return CERO_OK;
}

/* inputs: p, given, dloss [rows], optional targets; output: dp f32 */
static cero_status toy_grad_infer(cero_op_infer *infer)
{
    infer->output_count = 1;
    infer->output[0] = (cero_tensor_desc){.dtype = CERO_DTYPE_F32, .shape = infer->input[0].shape};
    return CERO_OK;
}

static cero_status toy_grad_run(const cero_op_run *run)
{
    int64_t n = cero_shape_numel(&run->input_desc[0].shape);
    const float *given = run->input[1];
    const float *dloss = run->input[2];
    float *dp = run->output[0];

    for (int64_t i = 0; i < n; i++) {
        double sum = 0;
        for (int64_t r = 0; r < run->input_desc[1].shape.dim[0]; r++) {
            sum += toy_counts(run->input[3], r) ? (double)given[r * n + i] * (double)dloss[r] : 0;
        }
        dp[i] = (float)sum;
    }
    return CERO_OK;
}

static const cero_op toy_grad_op = {.name = "toy_grad",
                                    .infer = toy_grad_infer,
                                    .run = toy_grad_run};

static cero_status toy_differentiate(cero_graph *graph, const cero_node *node)
{
    cero_value *p = cero_node_input(node, 0);
    cero_value *inputs[] = {p, cero_node_input(node, 1),
                            cero_graph_grad(graph, cero_node_output(node, 0)),
                            cero_node_input(node, 2)};

    if (!cero_graph_needs_grad(graph, p)) {
        return CERO_OK;
    }
    return cero_graph_add_grad(graph, p,
                               cero_graph_append(graph, &toy_grad_op, NULL, inputs, 4, NULL));
}

static const cero_op toy_op = {.name = "toy",
                               .infer = toy_infer,
                               .differentiate = toy_differentiate,
                               .run = toy_run};

static cero_status toy_build(cero_graph *graph, const cero_model_shape *shape, const void *context)
{
    const toy_model *model = context;
    int64_t rows = shape->micro_batch * shape->seq_len;
    cero_value *targets = NULL;
    cero_value *loss = NULL;

    if (model->has_targets) {
        targets = cero_graph_input(graph, "targets", CERO_DTYPE_I32, cero_shape_1d(rows));
    }
    cero_graph_begin_unit(graph, "toy", false);
    for (int i = 0; i < model->param_count; i++) {
        const toy_param *t = &model->params[i];
        if (t->is_apart) {
            cero_graph_end_unit(graph);
            cero_graph_begin_unit(graph, t->name, false);
        }
        cero_value *p = cero_graph_param(graph, &(cero_param_params){.name = t->name,
                                                                     .shape = t->shape,
                                                                     .init = CERO_INIT_ONES,
                                                                     .is_frozen = t->is_frozen});
        if (p == NULL || t->is_unused) {
            continue;
        }
        int64_t n = cero_shape_numel(&t->shape);
        char name[64];
        (void)snprintf(name, sizeof(name), "given.%s", t->name);
        cero_value *given = cero_graph_input(graph, name, CERO_DTYPE_F32, cero_shape_2d(rows, n));
        cero_value *inputs[] = {p, given, targets};
        cero_value *part = cero_graph_append(graph, &toy_op, NULL, inputs, 3, NULL);
        loss = loss == NULL ? part : cero_graph_add(graph, loss, part);
    }
    cero_graph_end_unit(graph);
    cero_graph_set_output(graph, "loss", loss);
    return cero_graph_status(graph);
}

/* An engine for a toy; `w` is opened with `sets`. */
typedef struct toy {
    case_world world;
    cero_engine *engine;
    cero_step_stats stats;
} toy;

static inline cero_status toy_create(toy *t, const toy_model *model, const char *const *sets)
{
    memset(t, 0, sizeof(*t));
    case_open(&t->world, 1, sets);
    return cero_engine_create(
        t->world.context, t->world.config,
        &(cero_engine_params){.build = toy_build, .context = model, .seq_len = 1}, &t->engine);
}

static inline void toy_open(toy *t, const toy_model *model, const char *const *sets)
{
    assert_ok(toy_create(t, model, sets));
}

static inline void toy_close(toy *t)
{
    cero_engine_destroy(&t->engine);
    case_close(&t->world);
}

/* A step of a toy with parameters "a" and, perhaps, "b": the gradients of all its micro-batches. */
static inline cero_status toy_step(toy *t, const float *a, const float *b)
{
    const char *names[] = {"given.a", "given.b"};
    const void *data[] = {a, b};
    cero_batch batch = {.input_count = b == NULL ? 1 : 2, .name = names, .data = data};

    return cero_engine_train_batch(t->engine, &batch, &t->stats);
}

/* Element 0 of a parameter. */
static inline double toy_get(toy *t, const char *name)
{
    float value;
    int64_t i = cero_engine_find_param(t->engine, name);

    assert_true(i >= 0);
    assert_ok(cero_engine_get_param(t->engine, i, 0, 1, &value));
    return (double)value;
}

static inline void toy_set(toy *t, const char *name, float value)
{
    assert_ok(
        cero_engine_set_param(t->engine, cero_engine_find_param(t->engine, name), 0, 1, &value));
}

#endif
