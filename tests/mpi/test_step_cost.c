/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the start of a run says a step will exchange is what its counters show: calls, bytes, messages and bytes
 * between nodes of gradients and parameters, for every stage, order and way of exchanging.
 */
// RUN: np=1,2,3
#include "cases.h"
#include "world.h"

#include <math.h>

enum {
    SEQ = 16,
    STEPS = 2
};

typedef struct layout {
    bool no_shared_memory;
    int ranks_per_node;
    const char *order;
} layout;

static cero_zero_flow flow_of(const cero_comm *comm, cero_comm_kind kind)
{
    cero_comm_counter c = cero_comm_get_counter(comm, kind);

    return (cero_zero_flow){.runs = c.calls,
                            .messages = c.messages,
                            .bytes = c.bytes,
                            .bytes_between_nodes = c.bytes_between_nodes};
}

static void expect_flow(const cero_zero_flow *before, const cero_zero_flow *after,
                        const cero_zero_flow *step)
{
    assert_int_equal(after->runs - before->runs, STEPS * step->runs);
    assert_int_equal(after->messages - before->messages, STEPS * step->messages);
    assert_int_equal(after->bytes - before->bytes, STEPS * step->bytes);
    assert_int_equal(after->bytes_between_nodes - before->bytes_between_nodes,
                     STEPS * step->bytes_between_nodes);
}

/* The short formula leaves out that shards are multiples of 256 elements, and that nodes may be unlike. */
static void expect_formula(const cero_engine *engine, const cero_zero_cost *cost, bool has_unlike)
{
    cero_zero_summary summary;
    double sent = (double)(cost->reductions.bytes + cost->gathers.bytes);

    cero_engine_zero_summary(engine, &summary);
    assert_true(has_unlike || fabs(sent - summary.bytes_per_step) <= 0.05 * summary.bytes_per_step);
    assert_true(fabs((double)cost->reductions.bytes - summary.gradient_bytes) <=
                0.05 * summary.gradient_bytes);
    assert_true(summary.gradient_bytes <= summary.gradient_bytes_global * 1.000001);
}

static void check_engine(cero_context *context, cero_config *config, const layout *l)
{
    static case_batch batch;
    cero_comm *comm = context->comm;
    cero_model_spec spec = case_g1();
    cero_engine *engine = NULL;
    cero_zero_cost cost;
    cero_step_stats stats;

    assert_ok(cero_engine_create(
        context, config,
        &(cero_engine_params){
            .build = cero_engine_build_model, .context = &spec, .seq_len = SEQ, .no_eval = true},
        &engine));
    cero_engine_zero_cost(engine, &cost);
    const cero_batch *b = case_batch_fill(&batch, 0, 4, SEQ, spec.vocab_size);
    // The first step is like the others: new copies count in the step that starts them.
    cero_zero_flow reduced = flow_of(comm, CERO_COMM_REDUCE_UNIT);
    cero_zero_flow gathered = flow_of(comm, CERO_COMM_ALL_GATHER_UNIT);
    double seconds = cero_comm_get_total(comm).seconds;
    for (int i = 0; i < STEPS; i++) {
        assert_ok(cero_engine_train_batch(engine, b, &stats));
    }
    cero_zero_flow reduced_after = flow_of(comm, CERO_COMM_REDUCE_UNIT);
    cero_zero_flow gathered_after = flow_of(comm, CERO_COMM_ALL_GATHER_UNIT);
    expect_flow(&reduced, &reduced_after, &cost.reductions);
    expect_flow(&gathered, &gathered_after, &cost.gathers);
    if (cero_comm_size(comm) == 1) {
        assert_int_equal(cost.reductions.bytes + cost.gathers.bytes, 0);
    } else {
        int nodes = cero_comm_node_count(comm);
        expect_formula(engine, &cost, nodes > 1 && nodes < cero_comm_size(comm));
        assert_true(cost.reductions.bytes > 0 && cost.gathers.bytes > 0);
        // In the order "node" a rank that serves no part sends no message.
        bool is_by_node = strstr(l->order, "node") != NULL;
        assert_true(is_by_node || (cost.reductions.messages > 0) ==
                                      (l->no_shared_memory || cero_comm_node_count(comm) > 1));
        assert_true(cero_comm_get_total(comm).seconds > seconds);
        // What waits for others is no part of the update.
        assert_true(stats.seconds_exchange > 0 && stats.seconds_update >= 0);
    }
    cero_engine_destroy(&engine);
}

static void check_layout(const layout *l)
{
    static const char *const stages[] = {"zero_optimization.stage=0", "zero_optimization.stage=1",
                                         "zero_optimization.stage=2", "zero_optimization.stage=3"};
    cero_context_params params = {
        .threads = 1, .no_shared_memory = l->no_shared_memory, .ranks_per_node = l->ranks_per_node};

    for (int stage = 0; stage < 4; stage++) {
        cero_context *context = NULL;
        cero_config *config = NULL;
        const char *sets[] = {"train_micro_batch_size_per_gpu=2",
                              "gradient_accumulation_steps=2",
                              "zero_optimization.stage3_param_persistence_threshold=1000",
                              "zero_optimization.reduce_bucket_size=20000",
                              stages[stage],
                              l->order};
        if (stage > 1 && strstr(l->order, "local") != NULL) {
            continue;
        }
        assert_ok(cero_context_create(&params, &context));
        assert_ok(cero_config_create(context, NULL, sets, CERO_COUNT_OF(sets), &config));
        check_engine(context, config, l);
        cero_config_destroy(&config);
        cero_context_destroy(&context);
    }
}

static void test_costs(void **state)
{
    static const layout layouts[] = {
        {false, 0, "cero.gradient_order=global"}, {false, 0, "cero.gradient_order=local"},
        {true, 0, "cero.gradient_order=global"},  {false, 1, "cero.gradient_order=global"},
        {false, 2, "cero.gradient_order=node"},
    };
    CERO_UNUSED(state);

    for (size_t i = 0; i < CERO_COUNT_OF(layouts); i++) {
        check_layout(&layouts[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_costs)};
    return run_in_world(NULL, tests,
                        CERO_COUNT_OF(tests)); // it keeps MPI while contexts come and go
}
