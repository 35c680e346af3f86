/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What ranks send in a step is what the paper says (Rajbhandari et al., "ZeRO", section 7): 2 parameters' worth
 * at stages 1 and 2, 3 at stage 3, times (N-1)/N; between nodes (M-1)/M of it per node. The counters, the
 * engine's own prediction and a plan of a world that does not exist agree to the byte.
 */
// RUN: np=2,3,4,6
#include "mpi/layouts.h"

#include "plan/plan.h"

enum {
    STEPS = 3
};

/* What all ranks of a world sent in a step. */
typedef struct sent {
    int64_t reduced;
    int64_t gathered;
    int64_t between_nodes;
    int64_t nodes[LAYOUT_MAX_RANKS]; /* by node: what left it */
} sent;

static int64_t sum_over_ranks(cero_comm *comm, int64_t value)
{
    assert_ok(cero_comm_all_reduce_i64(comm, CERO_COMM_SUM, &value, 1));
    return value;
}

static void check_flow(const cero_zero_flow *flow, cero_comm_counter before, cero_comm_counter now,
                       const char *what)
{
    if (now.bytes - before.bytes != STEPS * flow->bytes ||
        now.bytes_between_nodes - before.bytes_between_nodes != STEPS * flow->bytes_between_nodes ||
        now.messages - before.messages != STEPS * flow->messages ||
        now.calls - before.calls != STEPS * flow->runs) {
        fail_msg("%s: %d steps moved %lld bytes (%lld between nodes) in %lld messages and %lld "
                 "runs; predicted for one: %lld (%lld), %lld, %lld",
                 what, STEPS, (long long)(now.bytes - before.bytes),
                 (long long)(now.bytes_between_nodes - before.bytes_between_nodes),
                 (long long)(now.messages - before.messages), (long long)(now.calls - before.calls),
                 (long long)flow->bytes, (long long)flow->bytes_between_nodes,
                 (long long)flow->messages, (long long)flow->runs);
    }
}

static void check_virtual(const layout_run *r, const layout *l)
{
    cero_run_plan *plan = NULL;
    cero_zero_cost here;
    cero_zero_cost planned;

    assert_ok(cero_run_plan_create(&(cero_plan_params){.model = &l->spec,
                                                       .config = r->config,
                                                       .seq_len = LAYOUT_SEQ,
                                                       .world_size = cero_context_size(r->context),
                                                       .world_rank = cero_context_rank(r->context),
                                                       .ranks_per_node = l->ranks_per_node,
                                                       .no_shared_memory = l->no_shared_memory},
                                   &plan));
    cero_engine_zero_cost(r->engine, &here);
    cero_engine_zero_cost(cero_run_plan_engine(plan), &planned);
    assert_memory_equal(&here, &planned, sizeof(here));
    cero_run_plan_destroy(&plan);
}

/* Trains, holds the counters against the prediction, and sums what the ranks sent. */
static sent run(const layout *l)
{
    static layout_run r;
    char what[256];
    cero_zero_cost cost;
    cero_zero_summary summary;
    sent all = {0};

    layout_describe(l, what, sizeof(what));
    layout_open(&r, l, MPI_COMM_WORLD);
    cero_comm *comm = r.context->comm;
    cero_engine_zero_cost(r.engine, &cost);
    cero_engine_zero_summary(r.engine, &summary);
    assert_true(summary.bytes_per_step == (double)(cost.reductions.bytes + cost.gathers.bytes));
    layout_train(&r, 1);
    cero_comm_counter reduced = cero_comm_get_counter(comm, CERO_COMM_REDUCE_UNIT);
    cero_comm_counter gathered = cero_comm_get_counter(comm, CERO_COMM_ALL_GATHER_UNIT);
    layout_train(&r, STEPS);
    check_flow(&cost.reductions, reduced, cero_comm_get_counter(comm, CERO_COMM_REDUCE_UNIT), what);
    check_flow(&cost.gathers, gathered, cero_comm_get_counter(comm, CERO_COMM_ALL_GATHER_UNIT),
               what);
    check_virtual(&r, l);
    all.reduced = sum_over_ranks(comm, cost.reductions.bytes);
    all.gathered = sum_over_ranks(comm, cost.gathers.bytes);
    int64_t left = cost.reductions.bytes_between_nodes + cost.gathers.bytes_between_nodes;
    all.between_nodes = sum_over_ranks(comm, left);
    for (int node = 0; node < cero_comm_node_count(comm); node++) {
        bool is_here = cero_comm_node_of(comm, cero_comm_rank(comm)) == node;
        all.nodes[node] = sum_over_ranks(comm, is_here ? left : 0);
    }
    layout_close(&r);
    return all;
}

static void assert_bytes(const layout *l, const char *kind, int64_t bytes, int64_t expected)
{
    char what[256];

    if (bytes != expected) {
        fail_msg("%s, %d ranks: %s %lld bytes, expected %lld",
                 layout_describe(l, what, sizeof(what)), cero_comm_size(world), kind,
                 (long long)bytes, (long long)expected);
    }
}

/* Elements of a case: all, and those that a micro-batch gathers once at stage 3. */
typedef struct elements {
    int64_t all;
    int64_t once;
} elements;

/*
 * All units are gathered for forward and for backward, but for two of a model that is not tied: forward and
 * backward of the head meet, so that one gather serves both, and the backward of an embedding needs no weights.
 */
static elements elements_of(const cero_model_spec *spec)
{
    elements e = {.all = cero_model_spec_param_count(spec)};

    if (!spec->tie_word_embeddings) {
        e.once = spec->hidden + 2 * spec->vocab_size * spec->hidden; // norm and head; embedding
    }
    return e;
}

/*
 * Over all ranks exactly N-1 times what one holds: sums Psi for each reduction and gather. Stage 0 reduces as
 * the others do and then gathers the f32 sums, where they gather parameters.
 */
static void check_formula(const layout *l)
{
    sent all = run(l);
    elements e = elements_of(&l->spec);
    int64_t width = l->is_bf16 ? 2 : 4;
    int64_t others = cero_comm_size(world) - 1;
    bool is_local = l->accumulation > 1 && strcmp(l->order, "local") == 0;
    int64_t reductions = is_local ? 4 * e.all : l->accumulation * width * e.all;
    int64_t gathers = l->stage == 0  ? 4 * e.all
                      : l->stage < 3 ? width * e.all
                                     : l->accumulation * width * (2 * e.all - e.once);

    assert_bytes(l, "reductions", all.reduced, others * reductions);
    assert_bytes(l, "gathers", all.gathered, others * gathers);
    if (!is_local && l->stage > 0 && l->accumulation == 1) {
        double paper = (l->stage == 3 ? 3.0 : 2.0) * (double)(e.all * width * others);
        assert_true((double)(all.reduced + all.gathered) <= paper * 1.02);
        assert_true(!l->spec.tie_word_embeddings ||
                    (double)(all.reduced + all.gathered) >= paper / 1.02);
    }
}

static void test_formula(void **state)
{
    const cero_model_spec specs[] = {case_g1(), case_g2(), case_l1()};

    CERO_UNUSED(state);
    for (int i = 0; i < 96; i++) {
        layout l = {.spec = specs[i / 4 % 3],
                    .stage = i % 4,
                    .is_bf16 = i / 12 % 2 == 1,
                    .accumulation = i / 24 % 2 == 0 ? 1 : 3,
                    .order = i / 48 == 1 && i % 4 < 2 ? "local" : "global",
                    .overlaps = i / 12 % 3 == 1,
                    .no_shared_memory = i / 12 % 4 == 3,
                    .shares = i / 12 % 4 == 1,
                    .ranks_per_node = i / 12 % 4 == 2 ? 2 : 0};
        check_formula(&l);
    }
}

/* Small units stay whole at stage 3: they are sent once a step, not twice a micro-batch. */
static void test_whole_units(void **state)
{
    CERO_UNUSED(state);
    for (int accumulation = 1; accumulation <= 2; accumulation++) {
        layout l = {.spec = case_g1(),
                    .stage = 3,
                    .accumulation = accumulation,
                    .order = "global",
                    .keeps_small = true};
        sent all = run(&l);
        int64_t whole = (cero_comm_size(world) - 1) * 4 * cero_model_spec_param_count(&l.spec);
        assert_bytes(&l, "reductions", all.reduced, accumulation * whole);
        assert_bytes(&l, "gathers", all.gathered, whole);
    }
}

/*
 * In the order node a node's link carries each element once: over all nodes M-1 times what one holds, however
 * many ranks they have; and a node (M-1)/M of that where nodes are alike.
 */
static void test_between_nodes(void **state)
{
    int size = cero_comm_size(world);

    CERO_UNUSED(state);
    for (int i = 0; i < 24; i++) {
        layout l = {.spec = i / 12 == 0 ? case_g1() : case_l1(),
                    .stage = 1 + i % 3,
                    .is_bf16 = i / 3 % 2 == 1,
                    .accumulation = 1,
                    .order = "node",
                    .ranks_per_node = i / 6 % 2 == 0 ? 2 : 3};
        sent all = run(&l);
        elements e = elements_of(&l.spec);
        int64_t units = l.stage == 3 ? 3 * e.all - e.once : 2 * e.all;
        int nodes = (size + l.ranks_per_node - 1) / l.ranks_per_node;
        int64_t once = units * (l.is_bf16 ? 2 : 4);
        assert_bytes(&l, "between nodes", all.between_nodes, (nodes - 1) * once);
        for (int node = 0; node < nodes && size % l.ranks_per_node == 0; node++) {
            double link = (double)((nodes - 1) * once) / nodes;
            assert_true((double)all.nodes[node] >= link / 1.02);
            assert_true((double)all.nodes[node] <= link * 1.02);
        }
    }
}

/* In flat order every rank's own contribution leaves its node: that is what the order node saves. */
static void test_flat_order_between_nodes(void **state)
{
    int size = cero_comm_size(world);
    layout l = {
        .spec = case_g1(), .stage = 2, .accumulation = 1, .order = "global", .ranks_per_node = 2};

    CERO_UNUSED(state);
    if (size % 2 == 0) {
        sent all = run(&l);
        int64_t once = 4 * cero_model_spec_param_count(&l.spec);
        assert_bytes(&l, "between nodes", all.between_nodes, (size / 2 - 1) * (2 * once + once));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_formula),
        cmocka_unit_test(test_whole_units),
        cmocka_unit_test(test_between_nodes),
        cmocka_unit_test(test_flat_order_between_nodes),
    };

    return run_in_world(NULL, tests, CERO_COUNT_OF(tests));
}
