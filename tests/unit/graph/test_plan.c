/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory plan never gives two buffers that are needed at one time the same bytes: shown on random graphs
 * by their lifetimes, and by running them without any plan, each value in memory of its own, to the same bits.
 */
#include "unit/graph/random_graph.h"

#include "graph/plan.h"

enum {
    GRAPHS = 150
};

/* A piece of the arena that must keep its contents from one instruction to another. */
typedef struct span {
    int64_t first;
    int64_t last;
    size_t offset;
    size_t nbytes;
    const cero_value *root; /* NULL: scratch */
} span;

/* When a value is written and last read, looking at nothing but the instruction list. */
static void find_life(const cero_graph *g, const cero_value *v, int64_t *first, int64_t *last)
{
    *first = -1;
    *last = -1;
    for (int64_t i = 0; i < g->node_count; i++) {
        const cero_node *node = g->nodes[i];
        for (int k = 0; k < node->output_count; k++) {
            if (node->output[k] == v) {
                *first = i;
                *last = i;
            }
        }
        for (int k = 0; k < node->input_count; k++) {
            *last = node->input[k] == v ? i : *last;
        }
    }
    for (int64_t i = 0; i < g->output_count; i++) {
        *last = g->outputs[i].value == v ? g->node_count : *last;
    }
}

static bool writes_over(const cero_node *node, const cero_value *out, const cero_value *in)
{
    for (int k = 0; k < node->output_count; k++) {
        if (node->output[k] == out && node->in_place[k] > 0 &&
            node->input[node->in_place[k] - 1] == in) {
            return true;
        }
    }
    return false;
}

/* Values that share memory: one ends exactly where an instruction that may write in place makes the next. */
static void check_shared(const cero_graph *g, const cero_plan *plan, const cero_value *v)
{
    int64_t v_first;
    int64_t v_last;

    find_life(g, v, &v_first, &v_last);
    for (int64_t i = 0; i < g->value_count; i++) {
        const cero_value *u = g->values[i];
        int64_t u_first;
        int64_t u_last;
        if (u == v || u->producer == NULL || plan->place[u->id].root != plan->place[v->id].root) {
            continue;
        }
        find_life(g, u, &u_first, &u_last);
        assert_true(u_first >= 0 && u_first != v_first);
        if (u_first < v_first) {
            assert_true(u_last <= v_first);
            assert_true(u_last < v_first || writes_over(g->nodes[v_first], v, u));
            assert_int_equal(cero_plan_value_bytes(u), cero_plan_value_bytes(v));
        }
    }
}

static int64_t collect_spans(const cero_graph *g, const cero_plan *plan, span *spans)
{
    int64_t count = 0;

    for (int64_t i = 0; i < g->value_count; i++) {
        const cero_value *v = g->values[i];
        const cero_value *root = plan->place[i].root;
        if (v->producer == NULL || root->kind != CERO_VALUE_ACTIVATION) {
            continue;
        }
        span s = {.offset = plan->place[root->id].offset,
                  .nbytes = cero_plan_value_bytes(v),
                  .root = root};
        find_life(g, v, &s.first, &s.last);
        check_shared(g, plan, v);
        spans[count++] = s;
    }
    for (int64_t i = 0; i < g->node_count; i++) {
        if (g->nodes[i]->scratch_bytes > 0) {
            spans[count++] = (span){.first = i,
                                    .last = i,
                                    .offset = plan->scratch_offset[i],
                                    .nbytes = g->nodes[i]->scratch_bytes};
        }
    }
    return count;
}

static void check_spans(const span *spans, int64_t count, size_t arena_bytes)
{
    for (int64_t i = 0; i < count; i++) {
        const span *a = &spans[i];
        assert_int_equal(a->offset % CERO_MEM_ALIGNMENT, 0);
        assert_true(a->offset + a->nbytes <= arena_bytes);
        for (int64_t j = 0; j < i; j++) {
            const span *b = &spans[j];
            bool is_shared = a->root != NULL && a->root == b->root;
            bool is_one_time = a->first <= b->last && b->first <= a->last;
            bool is_one_place =
                a->offset < b->offset + b->nbytes && b->offset < a->offset + a->nbytes;
            if (!is_shared && is_one_time && is_one_place) {
                fail_msg("%zu bytes at %zu live %lld..%lld, %zu bytes at %zu live %lld..%lld",
                         a->nbytes, a->offset, (long long)a->first, (long long)a->last, b->nbytes,
                         b->offset, (long long)b->first, (long long)b->last);
            }
        }
    }
}

/* Most bytes that are needed during one instruction, counting shared memory once. */
static size_t count_alive(const span *spans, int64_t count, int64_t instructions)
{
    size_t most = 0;

    for (int64_t t = 0; t < instructions; t++) {
        size_t alive = 0;
        for (int64_t i = 0; i < count; i++) {
            bool is_counted = spans[i].first <= t && t <= spans[i].last;
            for (int64_t j = 0; j < i && spans[i].root != NULL; j++) {
                is_counted = is_counted && !(spans[j].root == spans[i].root &&
                                             spans[j].first <= t && t <= spans[j].last);
            }
            size_t rounded = (spans[i].nbytes + CERO_MEM_ALIGNMENT - 1) / CERO_MEM_ALIGNMENT *
                             CERO_MEM_ALIGNMENT;
            alive += is_counted ? rounded : 0;
        }
        most = alive > most ? alive : most;
    }
    return most;
}

static void build(cero_graph *g, uint64_t number, double *sum)
{
    random_graph_build(g, number, sum);
    assert_ok(cero_graph_status(g));
    assert_ok(cero_graph_autodiff(g, cero_graph_find_output(g, "loss")));
    assert_ok(cero_graph_recompute(g, (int64_t)(number % 4)));
}

static void check_plan(uint64_t number)
{
    fixture f;
    cero_plan plan;

    fixture_open(&f, number % 3 == 0 ? CERO_DTYPE_BF16 : CERO_DTYPE_F32, 2);
    build(f.graph, number, &f.loss);
    cero_graph_prune(f.graph);
    assert_ok(cero_plan_create(f.graph, &plan));
    span *spans = cero_new((size_t)(f.graph->value_count + f.graph->node_count), sizeof(span));
    assert_non_null(spans);
    int64_t count = collect_spans(f.graph, &plan, spans);
    check_spans(spans, count, plan.arena_bytes);
    assert_int_equal(plan.lower_bound, count_alive(spans, count, f.graph->node_count));
    assert_true(plan.arena_bytes >= plan.lower_bound);
    assert_true(plan.arena_bytes <= 2 * plan.lower_bound);
    cero_delete(spans);
    cero_plan_cleanup(&plan);
    fixture_close(&f);
}

static void test_no_overlap(void **state)
{
    CERO_UNUSED(state);
    for (uint64_t number = 0; number < GRAPHS; number++) {
        check_plan(number);
    }
}

/* Runs the instructions with memory of its own for every value and NaNs in what was never written. */
static void interpret(const fixture *f, void **memory)
{
    const cero_graph *g = f->graph;
    cero_step_env env = fixture_env();

    for (int64_t i = 0; i < g->value_count; i++) {
        const cero_value *v = g->values[i];
        size_t nbytes = cero_plan_value_bytes(v);
        if (v->kind == CERO_VALUE_PARAM) {
            memory[i] = f->param[v->param];
            continue;
        }
        assert_ok(cero_mem_alloc(f->mem, nbytes, CERO_MEM_OTHER, "value", &memory[i]));
        memset(memory[i], 0xff, nbytes);
    }
    for (int64_t i = 0; i < g->node_count; i++) {
        const cero_node *node = g->nodes[i];
        cero_tensor_desc in_desc[CERO_MAX_INPUTS] = {0};
        cero_tensor_desc out_desc[CERO_MAX_OUTPUTS] = {0};
        void *in[CERO_MAX_INPUTS] = {0};
        void *out[CERO_MAX_OUTPUTS] = {0};
        void *scratch = NULL;
        for (int k = 0; k < node->input_count; k++) {
            in_desc[k] = node->input[k]->desc;
            in[k] = memory[node->input[k]->id];
        }
        for (int k = 0; k < node->output_count; k++) {
            out_desc[k] = node->output[k]->desc;
            out[k] = memory[node->output[k]->id];
        }
        assert_ok(cero_mem_alloc(f->mem, node->scratch_bytes, CERO_MEM_OTHER, "scratch", &scratch));
        memset(scratch, 0xff, node->scratch_bytes);
        cero_op_run run = {.device = f->device,
                           .attr = node->attr,
                           .input_desc = in_desc,
                           .output_desc = out_desc,
                           .input = in,
                           .output = out,
                           .scratch = scratch,
                           .env = &env};
        assert_ok(node->op->run(&run));
        cero_mem_free(f->mem, scratch);
    }
}

static void check_run(uint64_t number)
{
    fixture f;

    fixture_open(&f, number % 3 == 0 ? CERO_DTYPE_BF16 : CERO_DTYPE_F32, 2);
    build(f.graph, number, &f.loss);
    assert_ok(cero_program_create(f.graph, &f.program));
    fixture_make_params(&f);
    fixture_bind(&f);
    memset(cero_program_arena(f.program), 0xff, cero_program_get_stats(f.program)->arena_bytes);
    fixture_run(&f);
    fixture_run(&f); // what the first run left must not matter
    const cero_value *loss = cero_graph_find_output(f.graph, "loss");
    void **memory = cero_new((size_t)f.graph->value_count, sizeof(void *));
    assert_non_null(memory);
    interpret(&f, memory);
    assert_memory_equal(memory[loss->id], cero_program_data(f.program, "loss"),
                        RANDOM_ROWS * sizeof(float));
    for (int64_t i = 0; i < f.graph->value_count; i++) {
        const cero_value *v = f.graph->values[i];
        if (v->kind == CERO_VALUE_GRAD) {
            size_t nbytes =
                (size_t)f.graph->params[v->param].numel * cero_dtype_size(f.graph->compute_dtype);
            assert_memory_equal(memory[i], f.grad[v->param], nbytes);
        }
        cero_mem_free(f.mem, v->kind == CERO_VALUE_PARAM ? NULL : memory[i]);
    }
    cero_delete(memory);
    fixture_close(&f);
}

static void test_same_bits_without_plan(void **state)
{
    CERO_UNUSED(state);
    for (uint64_t number = 0; number < GRAPHS; number++) {
        check_run(number);
    }
}

static void dump(const char *device_name, uint64_t number, cero_program_stats *stats,
                 cero_text *text)
{
    cero_device *device = NULL;
    cero_graph *graph = NULL;
    cero_program *program = NULL;

    assert_ok(
        cero_device_create(&(cero_device_params){.name = device_name, .threads = 2}, &device));
    assert_ok(cero_graph_create(device, CERO_DTYPE_BF16, &graph));
    cero_graph_set_training(graph, true);
    build(graph, number, NULL);
    assert_ok(cero_program_create(graph, &program));
    *stats = *cero_program_get_stats(program);
    assert_ok(cero_program_dump(program, text));
    cero_program_destroy(&program);
    cero_graph_destroy(&graph);
    cero_device_destroy(&device);
}

/* A device without memory gives the same sizes, offsets and operations. */
static void test_same_on_meta(void **state)
{
    CERO_UNUSED(state);
    for (uint64_t number = 0; number < 12; number++) {
        cero_program_stats stats[2];
        cero_text text[2] = {0};
        dump("cpu", number, &stats[0], &text[0]);
        dump("meta", number, &stats[1], &text[1]);
        assert_memory_equal(&stats[0], &stats[1], sizeof(stats[0]));
        assert_string_equal(text[0].data, text[1].data);
        cero_text_cleanup(&text[0]);
        cero_text_cleanup(&text[1]);
    }
}

/* A chain of in-place operations takes one buffer, and the last of them is the staged gradient. */
static void test_in_place(void **state)
{
    fixture f;
    cero_plan plan;

    CERO_UNUSED(state);
    fixture_open(&f, CERO_DTYPE_F32, 2);
    cero_graph_begin_unit(f.graph, "unit", false);
    cero_value *x = test_param(f.graph, "x", 64, 64);
    cero_value *first = cero_graph_scale(f.graph, x, 2);
    cero_value *second = cero_graph_scale(f.graph, first, 2);
    cero_value *third = cero_graph_add(f.graph, second, second);
    cero_value *kept = cero_graph_add(f.graph, third, x);
    (void)set_weighted_loss(f.graph, cero_graph_mul(f.graph, kept, third), NULL);
    cero_graph_end_unit(f.graph);
    assert_ok(cero_graph_autodiff(f.graph, cero_graph_find_output(f.graph, "loss")));
    cero_graph_prune(f.graph);
    assert_ok(cero_plan_create(f.graph, &plan));
    assert_ptr_equal(plan.place[first->id].root, first); // x is a parameter and stays
    assert_ptr_equal(plan.place[second->id].root, first);
    assert_ptr_equal(plan.place[third->id].root, first);
    assert_ptr_equal(plan.place[kept->id].root, kept); // third is read again, by mul and backward
    const cero_value *grad = f.graph->params[0].grad_value;
    int64_t in_staging = 0;
    for (int64_t i = 0; i < f.graph->value_count; i++) {
        in_staging += plan.place[i].root == grad && f.graph->values[i] != grad;
    }
    assert_true(in_staging > 0);
    cero_plan_cleanup(&plan);
    fixture_close(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_overlap),
        cmocka_unit_test(test_same_bits_without_plan),
        cmocka_unit_test(test_same_on_meta),
        cmocka_unit_test(test_in_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
