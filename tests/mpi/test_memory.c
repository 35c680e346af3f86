/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is planned is what is held, byte for byte and by category: in worlds of 1 to 8 ranks, in every stage,
 * precision, order and kind of node, as the engine says, as a plan of a world that does not exist says, and as
 * the table of docs/memory.md says.
 */
// RUN: np=8
#include "mpi/layouts.h"

#include "plan/plan.h"

enum {
    ROWS = 48
};

/* The bytes of each category are those that were held at most, and are held still. */
static void check_measured(const layout_run *r, const size_t planned[CERO_MEM_COUNT],
                           const char *what)
{
    for (int c = 0; c < CERO_MEM_COUNT; c++) {
        size_t current;
        size_t peak;
        cero_context_memory(r->context, (cero_mem_category)c, &current, &peak);
        if (peak != planned[c] || current != peak) {
            fail_msg("%s, rank %d of %d: %s: peak %zu, now %zu, planned %zu", what,
                     cero_context_rank(r->context), cero_context_size(r->context),
                     cero_mem_category_name((cero_mem_category)c), peak, current, planned[c]);
        }
    }
}

static void check_virtual(const layout_run *r, const layout *l, const char *what)
{
    cero_run_plan *plan = NULL;
    cero_plan_params params = {.model = &l->spec,
                               .config = r->config,
                               .seq_len = LAYOUT_SEQ,
                               .world_size = cero_context_size(r->context),
                               .world_rank = cero_context_rank(r->context),
                               .ranks_per_node = l->ranks_per_node,
                               .no_shared_memory = l->no_shared_memory,
                               .threads = 1};

    assert_ok(cero_run_plan_create(&params, &plan));
    check_measured(r, cero_run_plan_get(plan)->bytes, what);
    assert_int_equal(cero_run_plan_get(plan)->total, cero_engine_get_plan(r->engine)->total);
    cero_run_plan_destroy(&plan);
}

static size_t blocks_of(int64_t numel)
{
    return (size_t)(numel + 255) / 256;
}

/* Rank r of `size` keeps blocks r * blocks / size and on of 256 elements each. */
static size_t shard_of(int64_t numel, int size, int r)
{
    size_t blocks = blocks_of(numel);

    return (blocks * (size_t)(r + 1) / (size_t)size - blocks * (size_t)r / (size_t)size) * 256;
}

/* A rank's part of what lives once per node: whole cache lines, evenly. */
static size_t part_of_node(size_t nbytes, int ranks, int local)
{
    size_t lines = nbytes / 64;

    return (lines * (size_t)(local + 1) / (size_t)ranks - lines * (size_t)local / (size_t)ranks) *
           64;
}

/* The table of docs/memory.md. */
static void check_table(const layout_run *r, const layout *l, const char *what)
{
    const size_t *bytes = cero_engine_get_plan(r->engine)->bytes;
    const cero_comm *comm = r->context->comm;
    int64_t unit[8];
    int units = layout_units(r->engine, unit);
    int size = cero_comm_size(comm);
    int rank = cero_comm_rank(comm);
    int stage = size > 1 ? l->stage : 0;
    bool is_local = stage < 2 && l->accumulation > 1 && strcmp(l->order, "global") != 0;
    bool has_sums = size * l->accumulation > 1;
    size_t width = l->is_bf16 ? 2 : 4;
    size_t whole = 0;
    size_t shard = 0;

    for (int u = 0; u < units; u++) {
        whole += blocks_of(unit[u]) * 256;
        shard += shard_of(unit[u], size, rank);
    }
    size_t copy = (stage == 3 && !l->keeps_small ? shard : whole) * width;
    if (l->shares && (stage == 1 || stage == 2)) {
        copy = part_of_node(copy, cero_comm_node_size(comm, cero_comm_node_of(comm, rank)),
                            cero_comm_local_rank(comm, rank));
    }
    size_t sum = !has_sums                              ? whole * width
                 : stage == 0 || (is_local && size > 1) ? whole * 4
                                                        : shard * 4;
    size_t state = stage == 0 ? whole : shard;
    const size_t expected[][2] = {{CERO_MEM_PARAM, copy},
                                  {CERO_MEM_GRAD, sum},
                                  {CERO_MEM_MASTER, l->is_bf16 ? state * 4 : 0},
                                  {CERO_MEM_OPTIM, state * 8}};
    for (size_t i = 0; i < CERO_COUNT_OF(expected); i++) {
        if (bytes[expected[i][0]] != expected[i][1]) {
            fail_msg("%s, rank %d of %d: %s: planned %zu, by the table %zu", what, rank, size,
                     cero_mem_category_name((cero_mem_category)expected[i][0]),
                     bytes[expected[i][0]], expected[i][1]);
        }
    }
}

static void check_run(const layout *l, MPI_Comm comm)
{
    static layout_run r;
    char what[256];

    layout_describe(l, what, sizeof(what));
    layout_open(&r, l, comm);
    layout_train(&r, 1);
    layout_evaluate(&r);
    layout_train(&r, 1);
    check_measured(&r, cero_engine_get_plan(r.engine)->bytes, what);
    check_virtual(&r, l, what);
    check_table(&r, l, what);
    layout_close(&r);
}

/*
 * Row i: all stages, precisions and models with one micro-batch and with three; what else can be chosen runs
 * through its values in other strides, so that any two choices meet.
 */
static layout row_of(int i)
{
    static const struct {
        int ranks_per_node;
        bool no_shared_memory;
    } nodes[] = {{0, false}, {2, false}, {0, true}, {1, false}, {3, false}, {2, true}, {0, false}};
    const cero_model_spec specs[] = {case_g1(), case_g2(), case_l1()};
    layout l = {.stage = i % 4,
                .is_bf16 = i / 4 % 2 == 1,
                .spec = specs[i / 8 % 3],
                .accumulation = i / 24 % 2 == 0 ? 1 : 3,
                .overlaps = i / 5 % 2 == 1,
                .keeps_small = i / 3 % 3 == 1,
                .shares = i / 7 % 2 == 1};
    int node = i % (int)CERO_COUNT_OF(nodes);

    l.order = l.stage < 2 && i / 2 % 2 == 0 ? "local" : i % 3 == 0 ? "global" : "auto";
    l.ranks_per_node = nodes[node].ranks_per_node;
    l.no_shared_memory = nodes[node].no_shared_memory;
    l.shares = l.shares && !l.no_shared_memory;
    return l;
}

static void test_plan_is_what_is_held(void **state)
{
    CERO_UNUSED(state);
    for (int first = 4; first <= 8; first++) { // 4 and 4, 5 and 3, … 8
        MPI_Comm part = layout_split(first);
        for (int i = 0; i < ROWS; i++) {
            layout l = row_of(i);
            check_run(&l, part);
        }
        (void)MPI_Comm_free(&part);
    }
}

/* Two ranks in each of four worlds. */
static MPI_Comm split_into_pairs(void)
{
    MPI_Comm pair;

    assert_int_equal(
        MPI_Comm_split(MPI_COMM_WORLD, cero_comm_rank(world) / 2, cero_comm_rank(world), &pair),
        MPI_SUCCESS);
    return pair;
}

/* Steps after the first allocate nothing, nor do evaluations between them. */
static void test_steps_allocate_nothing(void **state)
{
    static layout_run r;
    MPI_Comm pair = split_into_pairs();

    CERO_UNUSED(state);
    for (int i = 0; i < 16; i++) {
        char what[256];
        layout l = {.spec = case_g1(),
                    .stage = i % 4,
                    .is_bf16 = i / 4 % 2 == 1,
                    .accumulation = 2,
                    .order = i % 4 < 2 && i / 8 == 1 ? "local" : "global",
                    .overlaps = i / 4 % 2 == 1,
                    .no_shared_memory = i / 8 == 1};
        layout_open(&r, &l, pair);
        layout_train(&r, 1);
        layout_evaluate(&r);
        uint64_t calls = cero_mem_calls();
        for (int step = 2; step <= 11; step++) {
            layout_train(&r, 1);
            layout_evaluate(&r);
        }
        if (cero_mem_calls() != calls) {
            fail_msg("%s: %llu calls of the allocator in ten steps",
                     layout_describe(&l, what, sizeof(what)),
                     (unsigned long long)(cero_mem_calls() - calls));
        }
        layout_close(&r);
    }
    (void)MPI_Comm_free(&pair);
}

/* ME-04: with the default buckets, a higher stage holds no more than a lower one and a megabyte. */
static void test_peak_does_not_grow_with_the_stage(void **state)
{
    static layout_run r;
    MPI_Comm pair = split_into_pairs();

    CERO_UNUSED(state);
    for (int i = 0; i < 8; i++) {
        size_t before = SIZE_MAX;
        for (int stage = 0; stage < 4; stage++) {
            layout l = {.spec = case_g1(),
                        .stage = stage,
                        .is_bf16 = i / 4 == 1,
                        .accumulation = 1,
                        .order = "auto",
                        .overlaps = stage == 3, // as by default
                        .keeps_small = i % 2 == 1,
                        .no_shared_memory = i / 2 % 2 == 1};
            layout_open(&r, &l, pair);
            layout_train(&r, 2);
            layout_evaluate(&r);
            size_t peak = cero_mem_total(r.context->mem).peak;
            assert_true(before == SIZE_MAX || peak <= before + 1000 * 1000);
            before = peak;
            layout_close(&r);
        }
    }
    (void)MPI_Comm_free(&pair);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plan_is_what_is_held),
        cmocka_unit_test(test_steps_allocate_nothing),
        cmocka_unit_test(test_peak_does_not_grow_with_the_stage),
    };

    return run_in_world(NULL, tests, CERO_COUNT_OF(tests));
}
