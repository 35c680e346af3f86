/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A wrong graph gives one message with what was found and expected, once; a failed allocation at any place
 * gives a clean status; nothing leaks (under the address sanitizer). Pruning, tying, frozen and unused
 * parameters do what they say.
 */
#include "unit/graph/graph_fixture.h"

#include "cases.h"
#include "models/models.h"

enum {
    ROWS = 6,
    SEQ = 3,
    COLS = 8
};

/* Values that wrong calls are made of. */
typedef struct parts {
    cero_value *x;     /* [6, 8] */
    cero_value *y;     /* [6, 7] */
    cero_value *w;     /* [8, 5] */
    cero_value *bias;  /* [4] */
    cero_value *gamma; /* [8] */
    cero_value *table; /* [5, 8] */
    cero_value *qkv;   /* [6, 24] */
    cero_value *half;  /* [6, 8] bf16 */
    cero_value *ids;   /* [6] i32 */
    cero_value *few;   /* [5] i32 */
    cero_value *angle; /* [2, 2] f32 */
} parts;

static void fill_nothing(const void *context, void *data)
{
    CERO_UNUSED(context);
    CERO_UNUSED(data);
}

static parts make_parts(cero_graph *g)
{
    return (parts){
        .x = test_param(g, "x", ROWS, COLS),
        .y = test_param(g, "y", ROWS, COLS - 1),
        .w = test_param(g, "w", COLS, 5),
        .bias = test_param(g, "bias", 4, 0),
        .gamma = test_param(g, "gamma", COLS, 0),
        .table = test_param(g, "table", 5, COLS),
        .qkv = test_param(g, "qkv", ROWS, 24),
        .half = cero_graph_input(g, "half", CERO_DTYPE_BF16, cero_shape_2d(ROWS, COLS)),
        .ids = cero_graph_input(g, "ids", CERO_DTYPE_I32, cero_shape_1d(ROWS)),
        .few = cero_graph_input(g, "few", CERO_DTYPE_I32, cero_shape_1d(ROWS - 1)),
        .angle = cero_graph_constant(g, "angle", CERO_DTYPE_F32, cero_shape_2d(2, 2), fill_nothing,
                                     NULL, 0),
    };
}

/* Attention over the sequences of three, but for what a wrong call changes. */
static cero_attention_params attention_params(void)
{
    return (cero_attention_params){.seq_len = SEQ, .heads = 2, .head_dim = 4};
}

static void linear_cols(cero_graph *g, const parts *p)
{
    (void)cero_graph_linear(g, p->y, p->w, NULL, false);
}

static void linear_layout(cero_graph *g, const parts *p)
{
    (void)cero_graph_linear(g, p->x, p->w, NULL, true);
}

static void linear_bias(cero_graph *g, const parts *p)
{
    (void)cero_graph_linear(g, p->x, p->w, p->bias, false);
}

static void linear_of_ids(cero_graph *g, const parts *p)
{
    (void)cero_graph_linear(g, p->ids, p->w, NULL, false);
}

static void linear_no_weight(cero_graph *g, const parts *p)
{
    (void)cero_graph_linear(g, p->x, NULL, p->bias, false);
}

static void linear_nothing(cero_graph *g, const parts *p)
{
    (void)cero_graph_linear(g, p->x, NULL, NULL, false);
}

static void linear_dtype(cero_graph *g, const parts *p)
{
    (void)cero_graph_linear(g, p->half, p->w, NULL, false);
}

static void add_shapes(cero_graph *g, const parts *p)
{
    (void)cero_graph_add(g, p->x, p->y);
}

static void add_nothing(cero_graph *g, const parts *p)
{
    CERO_UNUSED(p);
    (void)cero_graph_add(g, NULL, NULL);
}

static void mul_dtype(cero_graph *g, const parts *p)
{
    (void)cero_graph_mul(g, p->x, p->half);
}

static void scale_ids(cero_graph *g, const parts *p)
{
    (void)cero_graph_scale(g, p->ids, 2);
}

static void function_unknown(cero_graph *g, const parts *p)
{
    (void)cero_graph_apply_function(g, p->x, (cero_function)9);
}

static void swiglu_shapes(cero_graph *g, const parts *p)
{
    (void)cero_graph_swiglu(g, p->x, p->y);
}

static void layernorm_gamma(cero_graph *g, const parts *p)
{
    (void)cero_graph_layernorm(g, p->x, p->bias, p->gamma, 1e-5);
}

static void layernorm_beta(cero_graph *g, const parts *p)
{
    (void)cero_graph_layernorm(g, p->x, p->gamma, p->bias, 1e-5);
}

static void rmsnorm_gamma(cero_graph *g, const parts *p)
{
    (void)cero_graph_rmsnorm(g, p->x, p->bias, 1e-5);
}

static void rotary_positions(cero_graph *g, const parts *p)
{
    (void)cero_graph_rotary(g, p->x, p->angle, p->angle, SEQ, 4);
}

static void rotary_heads(cero_graph *g, const parts *p)
{
    (void)cero_graph_rotary(g, p->x, p->angle, p->angle, 2, 3);
}

static void embedding_ids(cero_graph *g, const parts *p)
{
    (void)cero_graph_embedding(g, p->x, p->table);
}

static void embedding_table(cero_graph *g, const parts *p)
{
    (void)cero_graph_embedding(g, p->ids, p->gamma);
}

static void position_rows(cero_graph *g, const parts *p)
{
    (void)cero_graph_add_position(g, p->x, p->table, 4);
}

static void position_count(cero_graph *g, const parts *p)
{
    (void)cero_graph_add_position(g, p->x, p->table, 6);
}

static void dropout_one(cero_graph *g, const parts *p)
{
    (void)cero_graph_dropout(g, p->x, 1, SEQ);
}

static void dropout_negative(cero_graph *g, const parts *p)
{
    (void)cero_graph_dropout(g, p->x, -0.5, SEQ);
}

static void dropout_rows(cero_graph *g, const parts *p)
{
    (void)cero_graph_dropout(g, p->x, 0.5, 4);
}

static void attention_rows(cero_graph *g, const parts *p)
{
    cero_attention_params params = attention_params();

    params.seq_len = 5;
    (void)cero_graph_attention(g, p->qkv, NULL, NULL, &params);
}

static void attention_groups(cero_graph *g, const parts *p)
{
    cero_attention_params params = attention_params();

    params.heads = 3;
    params.kv_heads = 2;
    (void)cero_graph_attention(g, p->qkv, NULL, NULL, &params);
}

static void attention_packed(cero_graph *g, const parts *p)
{
    cero_attention_params params = attention_params();

    params.kv_heads = 2;
    (void)cero_graph_attention(g, p->x, NULL, NULL, &params);
}

static void attention_values(cero_graph *g, const parts *p)
{
    cero_attention_params params = attention_params();

    params.kv_heads = 2;
    (void)cero_graph_attention(g, p->x, p->x, p->y, &params);
}

static void attention_dropout(cero_graph *g, const parts *p)
{
    cero_attention_params params = attention_params();

    params.dropout = 1.5;
    (void)cero_graph_attention(g, p->qkv, NULL, NULL, &params);
}

static void head_targets(cero_graph *g, const parts *p)
{
    (void)cero_graph_head_loss(g, p->x, p->table, p->few);
}

static void head_weight(cero_graph *g, const parts *p)
{
    (void)cero_graph_head_loss(g, p->x, p->w, p->ids);
}

static void last_seven(cero_graph *g, const parts *p)
{
    (void)cero_graph_last_rows(g, p->x, 7);
}

static void last_none(cero_graph *g, const parts *p)
{
    (void)cero_graph_last_rows(g, p->x, 0);
}

static void cast_to_ids(cero_graph *g, const parts *p)
{
    (void)cero_graph_cast(g, p->x, CERO_DTYPE_I32);
}

static void cast_of_ids(cero_graph *g, const parts *p)
{
    (void)cero_graph_cast(g, p->ids, CERO_DTYPE_F32);
}

static void tie_shape(cero_graph *g, const parts *p)
{
    CERO_UNUSED(p);
    (void)test_param(g, "x", COLS, ROWS);
}

static void param_empty(cero_graph *g, const parts *p)
{
    CERO_UNUSED(p);
    (void)cero_graph_param(g, &(cero_param_params){.name = "empty", .shape = cero_shape_2d(0, 64)});
}

static void param_deep(cero_graph *g, const parts *p)
{
    CERO_UNUSED(p);
    (void)cero_graph_param(g, &(cero_param_params){.name = "deep", .shape = {.ndim = 7}});
}

static void param_negative(cero_graph *g, const parts *p)
{
    CERO_UNUSED(p);
    (void)cero_graph_param(g,
                           &(cero_param_params){.name = "negative", .shape = cero_shape_2d(-1, 2)});
}

static void param_huge(cero_graph *g, const parts *p)
{
    CERO_UNUSED(p);
    (void)cero_graph_param(
        g,
        &(cero_param_params){.name = "huge", .shape = cero_shape_2d(INT64_MAX / 2, INT64_MAX / 2)});
}

static void input_twice(cero_graph *g, const parts *p)
{
    CERO_UNUSED(p);
    (void)cero_graph_input(g, "ids", CERO_DTYPE_I32, cero_shape_1d(2));
}

static void unit_in_unit(cero_graph *g, const parts *p)
{
    CERO_UNUSED(p);
    cero_graph_begin_unit(g, "inner", false);
}

static void own_error(cero_graph *g, const parts *p)
{
    CERO_UNUSED(p);
    (void)cero_graph_fail(g, CERO_ERR_UNSUPPORTED, "no such layer: %d", 12);
}

static const struct {
    void (*call)(cero_graph *g, const parts *p);
    cero_status status;
    const char *text; /* in the message */
} wrong_calls[] = {
    {linear_cols, CERO_ERR_SHAPE,
     "linear: input f32 [6, 7] and weight f32 [8, 5] (stored [in, out])"},
    {linear_layout, CERO_ERR_SHAPE, "weight f32 [8, 5] (stored [out, in])"},
    {linear_bias, CERO_ERR_SHAPE, "linear: input 2 is f32 [4]; expected f32 [5]"},
    {linear_of_ids, CERO_ERR_SHAPE, "linear: input 0 is i32 [6]; expected 2 dimensions"},
    {linear_no_weight, CERO_ERR_INVALID, "linear: input 1 is missing"},
    {linear_nothing, CERO_ERR_SHAPE, "linear: input 1 is missing"},
    {linear_dtype, CERO_ERR_SHAPE, "input bf16 [6, 8]"},
    {add_shapes, CERO_ERR_SHAPE, "add: input 1 is f32 [6, 7]; expected f32 [6, 8]"},
    {add_nothing, CERO_ERR_SHAPE, "add: input 0 is missing"},
    {mul_dtype, CERO_ERR_SHAPE, "mul: input 1 is bf16 [6, 8]; expected f32 [6, 8]"},
    {scale_ids, CERO_ERR_SHAPE, "scale: input 0 is i32 [6]"},
    {function_unknown, CERO_ERR_INVALID, "function: function 9 is unknown"},
    {swiglu_shapes, CERO_ERR_SHAPE, "swiglu: input 1 is f32 [6, 7]; expected f32 [6, 8]"},
    {layernorm_gamma, CERO_ERR_SHAPE, "norm: input 1 is f32 [4]; expected f32 [8]"},
    {layernorm_beta, CERO_ERR_SHAPE, "norm: input 2 is f32 [4]; expected f32 [8]"},
    {rmsnorm_gamma, CERO_ERR_SHAPE, "norm: input 1 is f32 [4]; expected f32 [8]"},
    {rotary_positions, CERO_ERR_SHAPE, "rotary: a table of 2 positions for sequences of 3"},
    {rotary_heads, CERO_ERR_SHAPE, "rotary: 6 rows of 8 elements"},
    {embedding_ids, CERO_ERR_SHAPE, "embedding: input 0 is f32 [6, 8]; expected i32 [6]"},
    {embedding_table, CERO_ERR_SHAPE, "embedding: input 1 is f32 [8]"},
    {position_rows, CERO_ERR_SHAPE, "add_position: 6 rows as sequences of 4 with 5 positions"},
    {position_count, CERO_ERR_SHAPE, "add_position: 6 rows as sequences of 6 with 5 positions"},
    {dropout_one, CERO_ERR_INVALID, "dropout: dropout probability 1"},
    {dropout_negative, CERO_ERR_INVALID, "dropout probability -0.5"},
    {dropout_rows, CERO_ERR_SHAPE, "dropout: 6 rows are no multiple of the sequence length 4"},
    {attention_rows, CERO_ERR_SHAPE, "attention: 6 rows are no multiple of the sequence length 5"},
    {attention_groups, CERO_ERR_SHAPE, "attention: 3 heads, 2 key/value heads of 4"},
    {attention_packed, CERO_ERR_SHAPE, "attention: input 0 is f32 [6, 8]; expected f32 [6, 24]"},
    {attention_values, CERO_ERR_SHAPE, "attention: input 2 is f32 [6, 7]; expected f32 [6, 8]"},
    {attention_dropout, CERO_ERR_INVALID, "attention: dropout probability 1.5"},
    {head_targets, CERO_ERR_SHAPE, "head_loss: input 2 is i32 [5]; expected i32 [6]"},
    {head_weight, CERO_ERR_SHAPE, "head_loss: weight f32 [8, 5]: expected f32 [vocab, 8]"},
    {last_seven, CERO_ERR_SHAPE, "last_rows: last 7 rows of 6"},
    {last_none, CERO_ERR_SHAPE, "last_rows: last 0 rows of 6"},
    {cast_to_ids, CERO_ERR_INVALID, "cast: to i32"},
    {cast_of_ids, CERO_ERR_SHAPE, "cast: input 0 is i32 [6]"},
    {tie_shape, CERO_ERR_SHAPE, "parameter x is registered as [6, 8] and used again as [8, 6]"},
    {param_empty, CERO_ERR_INVALID, "parameter empty has no elements"},
    {param_deep, CERO_ERR_INVALID, "at most 6 dimensions"},
    {param_negative, CERO_ERR_INVALID, "none negative"},
    {param_huge, CERO_ERR_INVALID, "none negative"},
    {input_twice, CERO_ERR_INVALID, "the name ids is used twice"},
    {unit_in_unit, CERO_ERR_INVALID, "unit inner is opened inside unit unit"},
    {own_error, CERO_ERR_UNSUPPORTED, "no such layer: 12"},
};

/* The first error stays; what follows does nothing and says nothing. */
static void check_sticky(cero_graph *g, const parts *p, cero_status status, const char *text)
{
    int64_t nodes = g->node_count;
    cero_program *program = NULL;

    assert_null(cero_graph_add(g, p->x, p->x));
    assert_null(cero_graph_linear(g, p->y, p->w, NULL, false));
    assert_null(test_param(g, "more", 2, 2));
    assert_null(cero_graph_fail(g, CERO_ERR_INTERNAL, "another"));
    cero_graph_end_unit(g);
    cero_graph_set_output(g, "loss", p->x);
    assert_int_equal(cero_graph_status(g), status);
    assert_int_equal(g->node_count, nodes);
    assert_non_null(strstr(cero_error_message(), text));
    assert_int_equal(cero_program_create(g, &program), status);
    assert_null(program);
}

static void test_wrong_calls(void **state)
{
    CERO_UNUSED(state);
    for (size_t i = 0; i < sizeof(wrong_calls) / sizeof(wrong_calls[0]); i++) {
        cero_status status = wrong_calls[i].status;
        const char *text = wrong_calls[i].text;
        fixture f;
        fixture_open(&f, CERO_DTYPE_F32, 1);
        cero_graph_begin_unit(f.graph, "unit", false);
        parts p = make_parts(f.graph);
        assert_ok(cero_graph_status(f.graph));
        wrong_calls[i].call(f.graph, &p);
        if (cero_graph_status(f.graph) != status || strstr(cero_error_message(), text) == NULL) {
            fail_msg("call %zu: %s \"%s\", expected %s \"%s\"", i,
                     cero_status_name(cero_graph_status(f.graph)), cero_error_message(),
                     cero_status_name(status), text);
        }
        check_sticky(f.graph, &p, status, text);
        fixture_close(&f);
    }
}

static void test_units(void **state)
{
    fixture f;

    CERO_UNUSED(state);
    fixture_open(&f, CERO_DTYPE_F32, 1);
    assert_null(test_param(f.graph, "x", 2, 2));
    assert_fails(cero_graph_status(f.graph), CERO_ERR_INVALID,
                 "parameter x is registered outside a unit");
    fixture_close(&f);
    fixture_open(&f, CERO_DTYPE_F32, 1);
    cero_graph_end_unit(f.graph);
    assert_fails(cero_graph_status(f.graph), CERO_ERR_INVALID, "none is open");
    fixture_close(&f);
}

/* What cannot be differentiated says so. */
static void test_no_loss(void **state)
{
    fixture f;

    CERO_UNUSED(state);
    fixture_open(&f, CERO_DTYPE_F32, 1);
    cero_graph_begin_unit(f.graph, "unit", false);
    cero_value *x = test_param(f.graph, "x", ROWS, COLS);
    cero_value *ids = cero_graph_input(f.graph, "ids", CERO_DTYPE_I32, cero_shape_1d(ROWS));
    assert_fails(cero_graph_autodiff(f.graph, NULL), CERO_ERR_SHAPE, "the loss is missing");
    assert_fails(cero_graph_autodiff(f.graph, x), CERO_ERR_SHAPE, "[6, 8]");
    assert_fails(cero_graph_autodiff(f.graph, ids), CERO_ERR_SHAPE, "the loss is i32");
    // last_rows has no gradient.
    cero_value *loss = set_weighted_loss(f.graph, cero_graph_last_rows(f.graph, x, 2), NULL);
    assert_fails(cero_graph_autodiff(f.graph, loss), CERO_ERR_INVALID, "nothing to train");
    cero_graph_end_unit(f.graph);
    fixture_close(&f);
}

static int64_t count_ops(const cero_graph *g, const char *name)
{
    int64_t count = 0;

    for (int64_t i = 0; i < g->node_count; i++) {
        count += strcmp(g->nodes[i]->op->name, name) == 0;
    }
    return count;
}

static bool freeze_w(const void *context, const char *name)
{
    return strcmp(name, context) == 0;
}

/* Frozen: no gradient and no work for it. Unused: zeros, and known by name. Dead nodes go. */
static void test_frozen_unused_pruned(void **state)
{
    fixture f;

    CERO_UNUSED(state);
    fixture_open(&f, CERO_DTYPE_F32, 2);
    cero_graph_set_frozen(f.graph, freeze_w, "w");
    cero_graph_begin_unit(f.graph, "unit", false);
    cero_value *x = test_param(f.graph, "x", ROWS, COLS);
    cero_value *w = test_param(f.graph, "w", COLS, COLS);
    cero_value *unused = test_param(f.graph, "unused", 3, 5);
    cero_value *first = cero_graph_param(
        f.graph, &(cero_param_params){
                     .name = "first", .shape = cero_shape_2d(ROWS, COLS), .is_frozen = true});
    cero_value *y = cero_graph_linear(f.graph, cero_graph_add(f.graph, x, first), w, NULL, true);
    (void)cero_graph_scale(f.graph, cero_graph_swiglu(f.graph, y, y), 3); // nobody reads it
    (void)set_weighted_loss(f.graph, y, &f.loss);
    cero_graph_end_unit(f.graph);
    fixture_compile(&f, 0);
    fixture_run(&f);
    assert_int_equal(count_ops(f.graph, "swiglu"), 0);
    assert_int_equal(count_ops(f.graph, "scale"), 0);
    assert_int_equal(count_ops(f.graph, "linear"), 1);
    assert_int_equal(count_ops(f.graph, "linear_grad_input"), 1);
    assert_int_equal(count_ops(f.graph, "linear_grad_weight"), 0);
    const cero_param *params = f.graph->params;
    assert_true(params[w->param].is_frozen && params[first->param].is_frozen);
    assert_null(params[w->param].grad_value);
    assert_null(params[first->param].grad_value);
    assert_true(params[unused->param].is_unused);
    assert_false(params[x->param].is_unused);
    const float *zeros = f.grad[unused->param];
    for (int i = 0; i < 15; i++) {
        assert_true(zeros[i] == 0);
    }
    fixture_close(&f);
}

/* A name that exists gives the same value; it counts once, in the unit of its first use. */
static void test_tying(void **state)
{
    fixture f;

    CERO_UNUSED(state);
    fixture_open(&f, CERO_DTYPE_F32, 1);
    cero_graph_begin_unit(f.graph, "one", false);
    cero_value *a = test_param(f.graph, "table", 5, COLS);
    cero_graph_end_unit(f.graph);
    cero_graph_begin_unit(f.graph, "two", false);
    assert_ptr_equal(test_param(f.graph, "table", 5, COLS), a);
    cero_value *b = test_param(f.graph, "own", 2, 2);
    cero_graph_end_unit(f.graph);
    assert_ok(cero_graph_status(f.graph));
    assert_int_equal(f.graph->param_count, 2);
    assert_int_equal(f.graph->params[a->param].unit, 0);
    assert_int_equal(f.graph->params[b->param].unit, 1);
    assert_int_equal(f.graph->units[0].param_count, 1);
    assert_int_equal(f.graph->units[1].param_count, 1);
    fixture_close(&f);
}

/* Everything from an empty graph to a bound program. */
static cero_status build_all(cero_device *device, cero_mem *mem, const cero_model_spec *spec)
{
    const cero_model_shape shape = {.mode = CERO_MODEL_TRAIN, .micro_batch = 1, .seq_len = 8};
    cero_graph *graph = NULL;
    cero_program *program = NULL;
    void *address[MAX_PARAMS] = {0};
    cero_program_bindings bindings = {.mem = mem, .param = address, .grad = address};
    cero_status st = cero_graph_create(device, CERO_DTYPE_F32, &graph);

    if (st == CERO_OK) {
        cero_graph_set_training(graph, true);
        st = cero_model_build(graph, &shape, spec);
    }
    if (st == CERO_OK) {
        st = cero_graph_autodiff(graph, cero_graph_find_output(graph, "loss"));
    }
    st = st != CERO_OK ? st : cero_graph_recompute(graph, 1);
    st = st != CERO_OK ? st : cero_program_create(graph, &program);
    st = st != CERO_OK ? st : cero_program_bind(program, &bindings);
    cero_program_destroy(&program);
    cero_graph_destroy(&graph);
    return st;
}

static void check_failing(cero_model_spec spec)
{
    cero_device *device = NULL;
    cero_mem *mem = NULL;

    spec.layers = 1;
    spec.resid_dropout = 0.1;
    spec.attn_dropout = 0.1;
    assert_ok(cero_device_create(&(cero_device_params){.threads = 1}, &device));
    assert_ok(cero_mem_create(0, &mem));
    assert_ok(build_all(device, mem, &spec)); // products are planned once and kept
    uint64_t before = cero_mem_calls();
    assert_ok(build_all(device, mem, &spec));
    uint64_t calls = cero_mem_calls() - before;
    int64_t failures = 0;
    assert_true(calls > 200);
    for (uint64_t n = 1; n <= calls; n++) {
        cero_mem_fail_at(n);
        cero_status st = build_all(device, mem, &spec);
        cero_mem_fail_at(0);
        if (st == CERO_ERR_NOMEM) {
            failures++;
            assert_true(strlen(cero_error_message()) > 10);
        } else {
            assert_int_equal(st, CERO_OK); // pruning is optional
        }
        assert_int_equal(cero_mem_total(mem).current, 0);
    }
    assert_true((uint64_t)failures + 2 >= calls);
    cero_mem_destroy(&mem);
    cero_device_destroy(&device);
}

static void test_failing_allocations(void **state)
{
    CERO_UNUSED(state);
    check_failing(case_g2());
    check_failing(case_l1());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_wrong_calls), cmocka_unit_test(test_units),
        cmocka_unit_test(test_no_loss),     cmocka_unit_test(test_frozen_unused_pruned),
        cmocka_unit_test(test_tying),       cmocka_unit_test(test_failing_allocations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
