/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the graph tests share: a loss that is a fixed weighted sum of any tensor (an operation of the test's
 * own, through the open registry), random numbers, and a compiled graph with memory for its parameters.
 */
#ifndef CERO_TESTS_UNIT_GRAPH_FIXTURE_H
#define CERO_TESTS_UNIT_GRAPH_FIXTURE_H

#include "harness.h"

#include "base/rng.h"
#include "graph/program.h"

enum {
    MAX_PARAMS = 128
};

/* A float in [-1, 1) for element i of one use. */
static inline float random_in(uint64_t use, int64_t i)
{
    cero_rng_key key = cero_rng_make_key(5, CERO_RNG_TEST, use, 0);
    return 2.0f * cero_rng_uniform_f32(cero_rng_word(key, 0, (uint64_t)i)) - 1.0f;
}

/* A whole number in [0, n). */
static inline int64_t random_below(uint64_t use, int64_t i, int64_t n)
{
    cero_rng_key key = cero_rng_make_key(6, CERO_RNG_TEST, use, 0);
    return (int64_t)(cero_rng_word(key, 0, (uint64_t)i) % (uint32_t)n);
}

/* Weight of element i in the loss. */
static inline float loss_weight(int64_t i)
{
    return random_in(99, i);
}

typedef struct weighted_attr {
    double *sum; /* borrowed: where the sum over all rows goes, in double; may be NULL */
} weighted_attr;

/* input: y f32 [rows] or [rows, cols]; output: sum_j w_rj y_rj [rows] f32 */
static cero_status weighted_infer(cero_op_infer *infer)
{
    const cero_tensor_desc *y = &infer->input[0];

    CERO_CHECK(infer->input_count == 1 && y->dtype == CERO_DTYPE_F32 && y->shape.ndim >= 1,
               CERO_ERR_SHAPE, "a weighted sum takes one f32 tensor");
    infer->output_count = 1;
    infer->output[0] =
        (cero_tensor_desc){.dtype = CERO_DTYPE_F32, .shape = {.ndim = 1, .dim = {y->shape.dim[0]}}};
    return CERO_OK;
}

static cero_status weighted_run(const cero_op_run *run)
{
    const weighted_attr *attr = run->attr;
    int64_t rows = run->output_desc[0].shape.dim[0];
    int64_t cols = cero_shape_numel(&run->input_desc[0].shape) / rows;
    const float *y = run->input[0];
    float *out = run->output[0];
    double total = 0;

    for (int64_t r = 0; r < rows; r++) {
        double sum = 0;
        for (int64_t c = 0; c < cols; c++) {
            sum += (double)loss_weight(r * cols + c) * (double)y[r * cols + c];
        }
        out[r] = (float)sum;
        total += sum;
    }
    if (attr->sum != NULL) {
        *attr->sum = total;
    }
    return CERO_OK;
}

/* inputs: dloss [rows], y; output: dy */
static cero_status weighted_grad_infer(cero_op_infer *infer)
{
    infer->output_count = 1;
    infer->output[0] = infer->input[1];
    return CERO_OK;
}

static cero_status weighted_grad_run(const cero_op_run *run)
{
    int64_t rows = run->input_desc[0].shape.dim[0];
    int64_t cols = cero_shape_numel(&run->input_desc[1].shape) / rows;
    const float *dloss = run->input[0];
    float *dy = run->output[0];

    for (int64_t i = 0; i < rows * cols; i++) {
        dy[i] = loss_weight(i) * dloss[i / cols];
    }
    return CERO_OK;
}

static const cero_op weighted_grad_op = {.name = "test_weighted_grad",
                                         .infer = weighted_grad_infer,
                                         .run = weighted_grad_run};

static cero_status weighted_differentiate(cero_graph *graph, const cero_node *node)
{
    cero_value *y = cero_node_input(node, 0);
    cero_value *dloss = cero_graph_grad(graph, cero_node_output(node, 0));

    return cero_graph_add_grad(
        graph, y,
        cero_graph_append(graph, &weighted_grad_op, NULL, (cero_value *[]){dloss, y}, 2, NULL));
}

static const cero_op weighted_op = {.name = "test_weighted",
                                    .attr_size = sizeof(weighted_attr),
                                    .infer = weighted_infer,
                                    .differentiate = weighted_differentiate,
                                    .run = weighted_run};

/* The weighted sum of y (of any floating-point type) as the graph's loss. */
static inline cero_value *set_weighted_loss(cero_graph *graph, cero_value *y, double *sum)
{
    cero_value *as_f32 = cero_graph_cast(graph, y, CERO_DTYPE_F32);
    cero_value *loss =
        cero_graph_append(graph, &weighted_op, &(weighted_attr){.sum = sum}, &as_f32, 1, NULL);
    cero_graph_set_output(graph, "loss", loss);
    return loss;
}

/* A parameter of two dimensions, or of one when cols is 0. */
static inline cero_value *test_param(cero_graph *graph, const char *name, int64_t rows,
                                     int64_t cols)
{
    return cero_graph_param(graph, &(cero_param_params){
                                       .name = name,
                                       .shape = {.ndim = cols > 0 ? 2 : 1, .dim = {rows, cols}},
                                       .init = CERO_INIT_NORMAL,
                                       .std = 1,
                                   });
}

/* A compiled graph and its memory. */
typedef struct fixture {
    cero_device *device;
    cero_mem *mem;
    cero_graph *graph;
    cero_program *program;
    void *param[MAX_PARAMS];
    void *grad[MAX_PARAMS];
    double loss; /* of the weighted sum */
} fixture;

static inline void fixture_open(fixture *f, cero_dtype dtype, int threads)
{
    memset(f, 0, sizeof(*f));
    assert_ok(cero_device_create(&(cero_device_params){.threads = threads}, &f->device));
    assert_ok(cero_mem_create(0, &f->mem));
    assert_ok(cero_graph_create(f->device, dtype, &f->graph));
    cero_graph_set_training(f->graph, true);
}

static inline void fixture_close(fixture *f)
{
    cero_program_destroy(&f->program);
    for (int i = 0; i < MAX_PARAMS; i++) {
        cero_mem_free(f->mem, f->param[i]);
        cero_mem_free(f->mem, f->grad[i]);
    }
    cero_graph_destroy(&f->graph);
    cero_device_destroy(&f->device);
    cero_mem_destroy(&f->mem);
}

/* Allocates parameters and gradients and fills the parameters: away from 0, at most 1 in size. */
static inline void fixture_make_params(fixture *f)
{
    assert_true(f->graph->param_count <= MAX_PARAMS);
    for (int64_t p = 0; p < f->graph->param_count; p++) {
        const cero_param *param = &f->graph->params[p];
        size_t nbytes = (size_t)param->numel * sizeof(float);
        float *values = cero_new((size_t)param->numel, sizeof(float));
        assert_non_null(values);
        for (int64_t i = 0; i < param->numel; i++) {
            float r = random_in((uint64_t)p, i);
            values[i] = (r < 0 ? -0.2f : 0.2f) + 0.8f * r;
        }
        assert_ok(cero_mem_alloc(f->mem, nbytes, CERO_MEM_PARAM, param->name, &f->param[p]));
        assert_ok(cero_mem_alloc(f->mem, nbytes, CERO_MEM_GRAD, param->name, &f->grad[p]));
        memset(f->grad[p], 0x7f, nbytes); // what backward does not write shows
        cero_device_from_f32(f->device, f->graph->compute_dtype, param->numel, values, f->param[p]);
        cero_delete(values);
    }
}

static inline void fixture_bind(fixture *f)
{
    cero_program_bindings bindings = {.mem = f->mem, .param = f->param, .grad = f->grad};

    assert_ok(cero_program_bind(f->program, &bindings));
}

/* Differentiates, recomputes, compiles and binds a graph that has its loss. */
static inline void fixture_compile(fixture *f, int64_t group)
{
    assert_ok(cero_graph_status(f->graph));
    assert_ok(cero_graph_autodiff(f->graph, cero_graph_find_output(f->graph, "loss")));
    assert_ok(cero_graph_recompute(f->graph, group));
    assert_ok(cero_program_create(f->graph, &f->program));
    fixture_make_params(f);
    fixture_bind(f);
}

static inline cero_step_env fixture_env(void)
{
    return (cero_step_env){.seed = 7, .step = 3, .sample = 11, .loss_grad = 1};
}

static inline void fixture_run(fixture *f)
{
    cero_step_env env = fixture_env();

    assert_ok(cero_program_run(f->program, &env, CERO_PROGRAM_ALL));
}

#endif
