/* SPDX-License-Identifier: Apache-2.0 */
/* The gradient of every operation is the slope of its result: central differences of fourth order. */
#include "unit/graph/graph_fixture.h"

#include <math.h>

enum {
    ROWS = 6, /* two sequences of three */
    SEQ = 3,
    COLS = 8
};

typedef struct gradient_case {
    const char *name;
    cero_value *(*build)(cero_graph *graph); /* gives y; all that may vary are parameters */
} gradient_case;

static cero_value *x_of(cero_graph *g)
{
    return test_param(g, "x", ROWS, COLS);
}

static cero_value *linear_in_out(cero_graph *g)
{
    return cero_graph_linear(g, x_of(g), test_param(g, "w", COLS, 5), NULL, false);
}

static cero_value *linear_in_out_bias(cero_graph *g)
{
    return cero_graph_linear(g, x_of(g), test_param(g, "w", COLS, 5), test_param(g, "b", 5, 0),
                             false);
}

static cero_value *linear_out_in(cero_graph *g)
{
    return cero_graph_linear(g, x_of(g), test_param(g, "w", 5, COLS), NULL, true);
}

static cero_value *linear_out_in_bias(cero_graph *g)
{
    return cero_graph_linear(g, x_of(g), test_param(g, "w", 5, COLS), test_param(g, "b", 5, 0),
                             true);
}

/* More rows than one part of the column sums (64). */
static cero_value *linear_many_rows(cero_graph *g)
{
    return cero_graph_linear(g, test_param(g, "x", 150, 2), test_param(g, "w", 2, 3),
                             test_param(g, "b", 3, 0), false);
}

static cero_value *add(cero_graph *g)
{
    return cero_graph_add(g, x_of(g), test_param(g, "y", ROWS, COLS));
}

static cero_value *add_itself(cero_graph *g)
{
    cero_value *x = x_of(g);
    return cero_graph_add(g, x, x);
}

static cero_value *mul(cero_graph *g)
{
    return cero_graph_mul(g, x_of(g), test_param(g, "y", ROWS, COLS));
}

static cero_value *mul_itself(cero_graph *g)
{
    cero_value *x = cero_graph_scale(g, x_of(g), 0.5);
    return cero_graph_mul(g, x, x);
}

static cero_value *scale(cero_graph *g)
{
    return cero_graph_scale(g, x_of(g), -1.75);
}

static cero_value *gelu_tanh(cero_graph *g)
{
    return cero_graph_apply_function(g, x_of(g), CERO_FUNCTION_GELU_TANH);
}

static cero_value *gelu_erf(cero_graph *g)
{
    return cero_graph_apply_function(g, x_of(g), CERO_FUNCTION_GELU_ERF);
}

static cero_value *relu(cero_graph *g)
{
    return cero_graph_apply_function(g, x_of(g), CERO_FUNCTION_RELU);
}

static cero_value *silu(cero_graph *g)
{
    return cero_graph_apply_function(g, x_of(g), CERO_FUNCTION_SILU);
}

static cero_value *tanh_of(cero_graph *g)
{
    return cero_graph_apply_function(g, x_of(g), CERO_FUNCTION_TANH);
}

static cero_value *swiglu(cero_graph *g)
{
    return cero_graph_swiglu(g, x_of(g), test_param(g, "up", ROWS, COLS));
}

static cero_value *swiglu_itself(cero_graph *g)
{
    cero_value *x = cero_graph_scale(g, x_of(g), 2);
    return cero_graph_swiglu(g, x, x);
}

static cero_value *layernorm(cero_graph *g)
{
    return cero_graph_layernorm(g, x_of(g), test_param(g, "gamma", COLS, 0),
                                test_param(g, "beta", COLS, 0), 1e-5);
}

static cero_value *layernorm_no_beta(cero_graph *g)
{
    return cero_graph_layernorm(g, x_of(g), test_param(g, "gamma", COLS, 0), NULL, 1e-2);
}

static cero_value *rmsnorm(cero_graph *g)
{
    return cero_graph_rmsnorm(g, x_of(g), test_param(g, "gamma", COLS, 0), 1e-5);
}

/* The table of angle (t + 1) * (d + 1) / 4. */
static void fill_angles(const void *context, void *data)
{
    float *table = data;
    const bool *is_sin = context;

    for (int t = 0; t < SEQ; t++) {
        for (int d = 0; d < 2; d++) {
            double angle = 0.25 * (t + 1) * (d + 1);
            table[t * 2 + d] = (float)(*is_sin ? sin(angle) : cos(angle));
        }
    }
}

static cero_value *rotary(cero_graph *g)
{
    bool no = false;
    bool yes = true;
    cero_shape shape = cero_shape_2d(SEQ, 2);
    cero_value *c =
        cero_graph_constant(g, "cos", CERO_DTYPE_F32, shape, fill_angles, &no, sizeof(no));
    cero_value *s =
        cero_graph_constant(g, "sin", CERO_DTYPE_F32, shape, fill_angles, &yes, sizeof(yes));

    return cero_graph_rotary(g, x_of(g), c, s, SEQ, 4);
}

/* "ids" are filled with 0 .. 4, so that rows repeat. */
static cero_value *embedding(cero_graph *g)
{
    cero_value *ids = cero_graph_input(g, "ids", CERO_DTYPE_I32, cero_shape_1d(ROWS));
    return cero_graph_embedding(g, ids, test_param(g, "table", 5, COLS));
}

static cero_value *add_position(cero_graph *g)
{
    return cero_graph_add_position(g, x_of(g), test_param(g, "table", SEQ + 2, COLS), SEQ);
}

static cero_value *dropout(cero_graph *g)
{
    return cero_graph_dropout(g, x_of(g), 0.4, SEQ);
}

static cero_value *dropout_twice(cero_graph *g)
{
    cero_value *x = cero_graph_dropout(g, x_of(g), 0.3, SEQ);
    return cero_graph_dropout(g, cero_graph_scale(g, x, 1.5), 0.3, SEQ);
}

static cero_value *attention_packed(cero_graph *g)
{
    return cero_graph_attention(
        g, test_param(g, "qkv", ROWS, 3 * 8), NULL, NULL,
        &(cero_attention_params){.seq_len = SEQ, .heads = 2, .head_dim = 4});
}

static cero_value *attention_packed_groups(cero_graph *g)
{
    return cero_graph_attention(
        g, test_param(g, "qkv", ROWS, 8 * 3), NULL, NULL,
        &(cero_attention_params){.seq_len = SEQ, .heads = 4, .kv_heads = 1, .head_dim = 4});
}

static cero_value *attention_apart(cero_graph *g)
{
    return cero_graph_attention(
        g, test_param(g, "q", ROWS, 8), test_param(g, "k", ROWS, 8), test_param(g, "v", ROWS, 8),
        &(cero_attention_params){.seq_len = SEQ, .heads = 2, .head_dim = 4, .scale = 0.9});
}

static cero_value *attention_groups(cero_graph *g)
{
    return cero_graph_attention(
        g, test_param(g, "q", ROWS, 16), test_param(g, "k", ROWS, 8), test_param(g, "v", ROWS, 8),
        &(cero_attention_params){.seq_len = SEQ, .heads = 4, .kv_heads = 2, .head_dim = 4});
}

static cero_value *attention_dropout(cero_graph *g)
{
    return cero_graph_attention(
        g, test_param(g, "q", ROWS, 16), test_param(g, "k", ROWS, 8), test_param(g, "v", ROWS, 8),
        &(cero_attention_params){
            .seq_len = SEQ, .heads = 4, .kv_heads = 2, .head_dim = 4, .dropout = 0.3});
}

/* Longer than a block of queries and of keys, and no multiple of either. */
static cero_value *attention_long(cero_graph *g)
{
    return cero_graph_attention(
        g, test_param(g, "qkv", 77, 3 * 2), NULL, NULL,
        &(cero_attention_params){.seq_len = 77, .heads = 1, .head_dim = 2, .dropout = 0.2});
}

static cero_value *head_loss(cero_graph *g)
{
    cero_value *targets = cero_graph_input(g, "targets", CERO_DTYPE_I32, cero_shape_1d(ROWS));
    return cero_graph_head_loss(g, x_of(g), test_param(g, "head", 7, COLS), targets);
}

/* "masked" are targets of which every third is negative. */
static cero_value *head_loss_masked(cero_graph *g)
{
    cero_value *targets = cero_graph_input(g, "masked", CERO_DTYPE_I32, cero_shape_1d(ROWS));
    return cero_graph_head_loss(g, x_of(g), test_param(g, "head", 7, COLS), targets);
}

/* The table is embedding and head; both contributions count. */
static cero_value *tied_head(cero_graph *g)
{
    cero_value *ids = cero_graph_input(g, "ids", CERO_DTYPE_I32, cero_shape_1d(ROWS));
    cero_value *targets = cero_graph_input(g, "targets", CERO_DTYPE_I32, cero_shape_1d(ROWS));
    cero_value *table = test_param(g, "table", 7, COLS);
    cero_value *x = cero_graph_embedding(g, ids, table);

    x = cero_graph_apply_function(g, x, CERO_FUNCTION_TANH);
    return cero_graph_head_loss(g, x, test_param(g, "table", 7, COLS), targets);
}

/* The same weight in two layers, and a table looked up twice. */
static cero_value *tied_twice(cero_graph *g)
{
    cero_value *ids = cero_graph_input(g, "ids", CERO_DTYPE_I32, cero_shape_1d(ROWS));
    cero_value *more = cero_graph_input(g, "more", CERO_DTYPE_I32, cero_shape_1d(ROWS));
    cero_value *table = test_param(g, "table", 5, COLS);
    cero_value *w = test_param(g, "w", COLS, COLS);
    cero_value *x = cero_graph_linear(g, cero_graph_embedding(g, ids, table), w, NULL, false);
    cero_value *y = cero_graph_linear(g, cero_graph_embedding(g, more, table), w, NULL, true);

    return cero_graph_linear(g, cero_graph_scale(g, cero_graph_mul(g, x, y), 0.1), w, NULL, false);
}

/* A gradient that passes through add unchanged to a parameter and to what is before it. */
static cero_value *residual(cero_graph *g)
{
    cero_value *x = x_of(g);
    cero_value *h = cero_graph_apply_function(g, x, CERO_FUNCTION_TANH);
    cero_value *y = cero_graph_add(g, cero_graph_add(g, x, h), test_param(g, "y", ROWS, COLS));

    return cero_graph_add(g, y, cero_graph_mul(g, h, y));
}

static const gradient_case cases[] = {
    {"linear [in, out]", linear_in_out},
    {"linear [in, out] with bias", linear_in_out_bias},
    {"linear [out, in]", linear_out_in},
    {"linear [out, in] with bias", linear_out_in_bias},
    {"linear of many rows", linear_many_rows},
    {"add", add},
    {"add to itself", add_itself},
    {"mul", mul},
    {"mul by itself", mul_itself},
    {"scale", scale},
    {"gelu tanh", gelu_tanh},
    {"gelu erf", gelu_erf},
    {"relu", relu},
    {"silu", silu},
    {"tanh", tanh_of},
    {"swiglu", swiglu},
    {"swiglu of one value", swiglu_itself},
    {"layernorm", layernorm},
    {"layernorm without beta", layernorm_no_beta},
    {"rmsnorm", rmsnorm},
    {"rotary", rotary},
    {"embedding", embedding},
    {"add_position", add_position},
    {"dropout", dropout},
    {"dropout twice", dropout_twice},
    {"attention packed", attention_packed},
    {"attention packed, one key head", attention_packed_groups},
    {"attention apart, own scale", attention_apart},
    {"attention in groups", attention_groups},
    {"attention with dropout", attention_dropout},
    {"attention over blocks", attention_long},
    {"head loss", head_loss},
    {"head loss with masked rows", head_loss_masked},
    {"tied embedding and head", tied_head},
    {"tied layers and lookups", tied_twice},
    {"residual", residual},
};

static void fill_ids(const fixture *f, const char *name, int64_t count, uint64_t use,
                     bool is_masked)
{
    int32_t *ids = cero_program_data(f->program, name);

    for (int64_t i = 0; ids != NULL && i < ROWS; i++) {
        ids[i] = is_masked && i % 3 == 1 ? -1 - (int32_t)i : (int32_t)random_below(use, i, count);
    }
}

static double loss_with(fixture *f, float *element, double value)
{
    float before = *element;

    *element = (float)value;
    fixture_run(f);
    *element = before;
    return f->loss;
}

/* Fourth-order central difference; the steps are those that f32 really took. */
static double slope_at(fixture *f, float *element)
{
    const double h = 1.0 / 32;
    double x = (double)*element;
    double near = loss_with(f, element, x + h) - loss_with(f, element, x - h);
    double far = loss_with(f, element, x + 2 * h) - loss_with(f, element, x - 2 * h);

    return (8 * near - far) / (12 * h);
}

static void check_param(fixture *f, const char *what, int64_t p, const float *grad)
{
    int64_t numel = f->graph->params[p].numel;
    double biggest = 0;

    for (int64_t i = 0; i < numel; i++) {
        biggest = fmax(biggest, fabs((double)grad[i]));
    }
    assert_true(biggest > 1e-3); // a gradient of zeros would agree with a loss that does not move
    for (int64_t i = 0; i < numel; i++) {
        double slope = slope_at(f, (float *)f->param[p] + i);
        double found = (double)grad[i];
        if (!(fabs(slope - found) <= 1e-3 * biggest + 1e-5)) {
            fail_msg("%s: element %lld of %s: gradient %.9g, slope %.9g", what, (long long)i,
                     f->graph->params[p].name, found, slope);
        }
    }
}

static void check_case(const gradient_case *c)
{
    fixture f;
    float *grads[MAX_PARAMS] = {0};

    fixture_open(&f, CERO_DTYPE_F32, 2);
    cero_graph_begin_unit(f.graph, "unit", false);
    (void)set_weighted_loss(f.graph, c->build(f.graph), &f.loss);
    cero_graph_end_unit(f.graph);
    fixture_compile(&f, 0);
    fill_ids(&f, "ids", 5, 21, false);
    fill_ids(&f, "more", 5, 22, false);
    fill_ids(&f, "targets", 7, 23, false);
    fill_ids(&f, "masked", 7, 24, true);
    fixture_run(&f);
    for (int64_t p = 0; p < f.graph->param_count; p++) {
        size_t count = (size_t)f.graph->params[p].numel;
        grads[p] = cero_new(count, sizeof(float));
        assert_non_null(grads[p]);
        memcpy(grads[p], f.grad[p], count * sizeof(float));
    }
    for (int64_t p = 0; p < f.graph->param_count; p++) {
        check_param(&f, c->name, p, grads[p]);
        cero_delete(grads[p]);
    }
    fixture_close(&f);
}

static void test_every_operation(void **state)
{
    CERO_UNUSED(state);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        check_case(&cases[i]);
    }
}

/* Through bf16 and back, the gradient is rounded once, to nearest even, and not lost. */
static void test_cast(void **state)
{
    fixture f;
    uint16_t half[ROWS * COLS];
    float expected[ROWS * COLS];

    CERO_UNUSED(state);
    fixture_open(&f, CERO_DTYPE_F32, 2);
    cero_graph_begin_unit(f.graph, "unit", false);
    (void)set_weighted_loss(f.graph, cero_graph_cast(f.graph, x_of(f.graph), CERO_DTYPE_BF16),
                            &f.loss);
    cero_graph_end_unit(f.graph);
    fixture_compile(&f, 0);
    fixture_run(&f);
    for (int i = 0; i < ROWS * COLS; i++) {
        expected[i] = loss_weight(i);
    }
    cero_device_from_f32(f.device, CERO_DTYPE_BF16, ROWS * COLS, expected, half);
    cero_device_to_f32(f.device, CERO_DTYPE_BF16, ROWS * COLS, half, expected);
    assert_memory_equal(f.grad[0], expected, sizeof(expected));
    fixture_close(&f);
}

/* The masked rows of a head loss have a loss and a gradient of exactly zero. */
static void test_masked_rows(void **state)
{
    fixture f;

    CERO_UNUSED(state);
    fixture_open(&f, CERO_DTYPE_F32, 2);
    cero_graph_begin_unit(f.graph, "unit", false);
    cero_value *x = x_of(f.graph);
    cero_value *targets = cero_graph_input(f.graph, "masked", CERO_DTYPE_I32, cero_shape_1d(ROWS));
    cero_value *loss =
        cero_graph_head_loss(f.graph, x, test_param(f.graph, "head", 7, COLS), targets);
    cero_graph_end_unit(f.graph);
    cero_graph_set_output(f.graph, "loss", loss);
    fixture_compile(&f, 0);
    fill_ids(&f, "masked", 7, 24, true);
    fixture_run(&f);
    const float *row_loss = cero_program_data(f.program, "loss");
    const float *dx = f.grad[0];
    for (int r = 0; r < ROWS; r++) {
        double size = 0;
        for (int c = 0; c < COLS; c++) {
            size += fabs((double)dx[r * COLS + c]);
        }
        assert_true((r % 3 == 1) == (size == 0));
        assert_true((r % 3 == 1) == (row_loss[r] == 0));
    }
    fixture_close(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_operation),
        cmocka_unit_test(test_cast),
        cmocka_unit_test(test_masked_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
