/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The start of a run says who its ranks are, what is cut, exchanged and held, which keys of the config do nothing
 * in this layout, and what will be slow; each line follows from facts.
 */
#include "harness.h"

#include "cli/train_summary.h"
#include "cli/world_summary.h"

enum {
    MAX_RANKS = 4,
    MAX_SETS = 16
};

/* Facts of a world that does not exist: 4 ranks on 2 nodes, stage 2, a model of 1000 elements. */
typedef struct world {
    cero_world_facts facts;
    cero_rank_facts rank[MAX_RANKS];
    cero_train_config *config;
    cero_text text;
} world;

static void begin(world *w, int size, const char *const *sets)
{
    const char *all[MAX_SETS] = {"train_micro_batch_size_per_gpu=2"};
    int count = 1;

    for (; sets != NULL && *sets != NULL; sets++) {
        all[count++] = *sets;
    }
    memset(w, 0, sizeof(*w));
    assert_ok(cero_train_config_create(
        &(cero_train_config_params){.overrides = all, .override_count = count, .dp_size = size},
        &w->config));
    int stage = size > 1 ? cero_train_config_spec(w->config)->zero_stage : 0;
    w->facts = (cero_world_facts){
        .config = w->config,
        .size = size,
        .node_count = size > 1 ? 2 : 1,
        .has_shared_memory = true,
        .transport = "mpi",
        .library = "Open MPI 4.1.4",
        .steps = 10,
        .zero = {.stage = stage,
                 .size = size,
                 .node_count = size > 1 ? 2 : 1,
                 .order = "node",
                 .gradient_bytes = 3072,
                 .gradient_bytes_global = 3072,
                 .whole_units = stage < 3 ? 4 : 1},
        .cost =
            {.reductions = {.runs = 4, .messages = 4, .bytes = 3072, .bytes_between_nodes = 1024},
             .gathers = {.runs = 4, .messages = 4, .bytes = 6144, .bytes_between_nodes = 2048},
             .uses = 8,
             .uses_ahead = 3,
             .ahead_limit = 125},
        .unit_count = 4,
        .largest_unit = 400,
        .numel = 1000,
        .whole_numel = stage < 3 ? 1000 : 10,
        .rank = w->rank,
    };
    for (int r = 0; r < size; r++) {
        w->rank[r] = (cero_rank_facts){.host = "alpha",
                                       .node = r / 2,
                                       .cores = 2,
                                       .machine_cores = 8,
                                       .core_set = (uint64_t)r,
                                       .threads = 2,
                                       .total = 4096,
                                       .sent = 9216,
                                       .between_nodes = 3072,
                                       .messages = 8};
        w->rank[r].memory[CERO_MEM_PARAM] = 4000 + (r == 3 ? 96 : 0);
        w->rank[r].host[0] = r < 2 ? 'a' : 'b';
    }
}

static void end(world *w)
{
    cero_text_cleanup(&w->text);
    cero_train_config_destroy(&w->config);
}

static void expect(world *w, const char *wanted)
{
    assert_ok(cero_text_finish(&w->text));
    assert_string_equal(w->text.data != NULL ? w->text.data : "", wanted);
    w->text.length = 0;
    cero_text_append(&w->text, "", 0);
}

static void expect_part(const world *w, const char *wanted)
{
    if (strstr(w->text.data != NULL ? w->text.data : "", wanted) == NULL) {
        fail_msg("\"%s\" is not in: %s", wanted, w->text.data);
    }
}

static void test_nodes(void **state)
{
    world w;
    CERO_UNUSED(state);

    begin(&w, 4, NULL);
    cero_summary_world(&w.facts, &w.text);
    expect(&w, "world      ranks 4 on 2 nodes (2 + 2), dp 4, threads 2 per rank; transport: shared "
               "memory inside a node, messages between nodes, Open MPI 4.1.4\n"
               "node 0     host alpha: ranks 0 - 1, 2 of 8 cores allowed each, 2 threads each\n"
               "node 1     host blpha: ranks 2 - 3, 2 of 8 cores allowed each, 2 threads each\n");
    // Ranks that alternate between nodes, share cores, and have unlike numbers of threads.
    for (int r = 0; r < 4; r++) {
        w.rank[r].node = r % 2;
        w.rank[r].core_set = 7;
        w.rank[r].threads = r == 3 ? 1 : 2;
    }
    w.facts.has_shared_memory = false;
    cero_summary_world(&w.facts, &w.text);
    expect_part(&w, "threads 1 to 2 per rank; transport: messages, ");
    expect_part(&w,
                "host alpha: ranks 0 2, 2 of 8 cores allowed, the same for all, 2 threads each\n");
    expect_part(&w, "ranks 1 3, 2 of 8 cores allowed, the same for all, 1 to 2 threads each\n");
    end(&w);
    begin(&w, 1, NULL);
    cero_summary_world(&w.facts, &w.text);
    expect(&w,
           "world      1 rank\nnode 0     host alpha: rank 0, 2 of 8 cores allowed, 2 threads\n");
    end(&w);
}

static void test_order_and_its_cost(void **state)
{
    static const struct {
        const char *order;
        const char *set;
        int nodes;
        const char *wanted;
    } cases[] = {
        {"node", "cero.gradient_order=auto", 2,
         "order      node (auto: nodes of several ranks, which share memory); bits depend on how "
         "ranks form nodes; gradients take 3.00 KiB a step and rank, of which 1.00 KiB leave the "
         "node, in order global 2.00 KiB\n"},
        {"local", "cero.gradient_order=auto", 2,
         "order      local (auto: at stages 0 and 1 a rank can add its own micro-batches first); "
         "bits depend on the number of ranks; gradients take 3.00 KiB a step and rank, in order "
         "global 3.00 KiB\n"},
        {"global", "cero.gradient_order=auto", 1,
         "order      global (auto: one node); bits depend on neither ranks nor nodes; gradients "
         "take 3.00 KiB a step and rank\n"},
        {"global", "cero.gradient_order=auto", 4, "(auto: one rank on each node)"},
        {"global", "cero.gradient_order=auto", 2, "(auto: ranks of a node share no memory)"},
        {"global", "cero.gradient_order=global", 2, "global (as configured)"},
        {"global", "cero.gradient_order=local", 2, "global (of local: a rank has one micro-batch"},
    };
    CERO_UNUSED(state);

    for (size_t i = 0; i < CERO_COUNT_OF(cases); i++) {
        world w;
        begin(&w, 4, (const char *const[]){cases[i].set, NULL});
        w.facts.zero.order = cases[i].order;
        w.facts.node_count = cases[i].nodes;
        cero_summary_zero(&w.facts, &w.text);
        expect_part(&w, cases[i].wanted);
        end(&w);
    }
}

/* ME-04 */
static void test_buckets_and_stages(void **state)
{
    world w;
    CERO_UNUSED(state);

    begin(&w, 4, (const char *const[]){"zero_optimization.stage=2", NULL});
    cero_summary_zero(&w.facts, &w.text);
    expect_part(&w, "zero       stage 2, optimizer states and gradient sums are cut over 4 ranks; "
                    "exchanges of gradients are waited for\n");
    expect_part(&w, "buckets    reduce_bucket_size 500000000 is clamped to the model: gradients go "
                    "unit by unit, the largest has 400 elements\n");
    expect_part(&w, "sends      9.00 KiB a step and rank, 3.00 KiB of gradients and 6.00 KiB of "
                    "parameters; 8 messages of 384 bytes on average; 3.00 KiB leave the node\n");
    assert_null(strstr(w.text.data, "whole "));
    end(&w);

    begin(&w, 4,
          (const char *const[]){"zero_optimization.stage=3",
                                "zero_optimization.reduce_bucket_size=9",
                                "zero_optimization.stage3_param_persistence_threshold=10", NULL});
    cero_summary_zero(&w.facts, &w.text);
    expect_part(&w, "over 4 ranks; exchanges of gradients go on while backward does\n");
    expect_part(&w, "buckets    gradients go in pieces of 9 elements over all ranks");
    expect_part(&w, "whole      1 of 4 units, 10 of 1000 elements, stay whole on every rank: they "
                    "have at most stage3_param_persistence_threshold 10\n");
    expect_part(&w, "prefetch   up to 125 elements ahead of use (an eighth of the model; "
                    "stage3_prefetch_bucket_size is clamped to it): 3 of a step's 8 gathers start "
                    "ahead\n");
    assert_null(strstr(w.text.data, "on one node stage 2"));
    w.facts.node_count = 1;
    cero_summary_zero(&w.facts, &w.text);
    expect_part(&w, "on one node stage 2 is usually faster");
    w.facts.zero.whole_units = 4;
    w.text.length = 0;
    cero_summary_zero(&w.facts, &w.text);
    expect_part(&w, "no parameter is cut, lower it to cut them\n");
    expect_part(&w,
                "zero       stage 3, optimizer states and gradient sums are cut over 4 ranks; ");
    assert_null(strstr(w.text.data, "prefetch"));
    end(&w);

    begin(&w, 1, (const char *const[]){"zero_optimization.stage=2", NULL});
    cero_summary_zero(&w.facts, &w.text);
    expect(&w, "zero       stage 2 of the config: one rank holds everything\n");
    end(&w);
}

static void test_memory_least_and_most(void **state)
{
    world w;
    CERO_UNUSED(state);

    begin(&w, 4, NULL);
    cero_summary_memory(&w.facts, &w.text);
    expect(&w, "memory     4.00 KiB a rank: param 3.91 to 4.00 KiB\n");
    w.rank[0].memory[CERO_MEM_PARAM] = 12;
    cero_summary_memory(&w.facts, &w.text);
    expect(&w, "memory     4.00 KiB a rank: param 12 bytes to 4.00 KiB\n");
    end(&w);
    begin(&w, 1, NULL);
    cero_summary_memory(&w.facts, &w.text);
    expect(&w, "memory     4.00 KiB: param 3.91 KiB\n");
    end(&w);
}

/* Keys at their default are not spoken of, nor are those that do something. */
static void test_idle_keys(void **state)
{
    world w;
    CERO_UNUSED(state);

    begin(&w, 1, NULL);
    cero_summary_idle_keys(&w.facts, &w.text);
    expect(&w, "");
    end(&w);
    begin(&w, 1,
          (const char *const[]){"zero_optimization.stage=3", "zero_optimization.overlap_comm=true",
                                "zero_optimization.contiguous_gradients=true",
                                "zero_optimization.stage3_max_live_parameters=10",
                                "comms_logger.enabled=true", "cero.share_within_node=true", NULL});
    cero_summary_idle_keys(&w.facts, &w.text);
    expect(&w,
           "no effect  zero_optimization.contiguous_gradients\n"
           "           zero_optimization.stage: one rank holds everything\n"
           "           zero_optimization.overlap_comm: one rank exchanges nothing\n"
           "           zero_optimization.stage3_max_live_parameters: one rank exchanges nothing\n"
           "           cero.share_within_node: there is one rank\n"
           "           comms_logger.enabled: one rank exchanges nothing\n");
    end(&w);
    begin(&w, 4,
          (const char *const[]){"zero_optimization.stage=0", "zero_optimization.overlap_comm=true",
                                "zero_optimization.stage3_prefetch_bucket_size=10",
                                "zero_optimization.allgather_bucket_size=10",
                                "zero_optimization.reduce_bucket_size=10",
                                "cero.share_within_node=true", "flops_profiler.enabled=true",
                                "flops_profiler.profile_step=11", "comms_logger.verbose=true",
                                NULL});
    cero_summary_idle_keys(&w.facts, &w.text);
    expect(&w,
           "no effect  zero_optimization.allgather_bucket_size: a gather is always of one unit\n"
           "           zero_optimization.stage3_prefetch_bucket_size: for stage 3 alone\n"
           "           cero.share_within_node: for stages 1 and 2, where parameters are whole\n"
           "           comms_logger.verbose: counts only with comms_logger.enabled\n"
           "           flops_profiler.profile_step: the run has fewer steps, so nothing is "
           "profiled\n");
    end(&w);
    begin(&w, 4,
          (const char *const[]){"zero_optimization.stage=1", "cero.share_within_node=true",
                                "flops_profiler.top_modules=3", "comms_logger.enabled=true",
                                "comms_logger.prof_ops=[\"all_reduce\"]", "comms_logger.debug=true",
                                "steps_per_print=0", "wall_clock_breakdown=true", NULL});
    w.facts.zero.is_shared = true;
    cero_summary_idle_keys(&w.facts, &w.text);
    expect(&w, "no effect  wall_clock_breakdown: for the log; steps_per_print is 0\n"
               "           comms_logger.prof_ops: prof_all is true\n"
               "           comms_logger.debug: counts only with comms_logger.verbose\n"
               "           flops_profiler.top_modules: counts only with flops_profiler.enabled\n");
    end(&w);
}

/* PF-03; pitfall 27. */
static void test_warnings(void **state)
{
    world w;
    CERO_UNUSED(state);

    begin(&w, 4, NULL);
    cero_summary_warnings(&w.facts, &w.text);
    expect(&w, "");
    w.rank[2].core_set = w.rank[3].core_set;
    cero_summary_warnings(&w.facts, &w.text);
    expect(&w,
           "4 threads of 2 ranks share 2 core(s) of host blpha and wait for each other; start "
           "fewer ranks there, or give them more cores (mpirun --bind-to none) or fewer threads "
           "(--threads)\n");
    w.rank[2].threads = w.rank[3].threads = 1;
    cero_summary_warnings(&w.facts, &w.text);
    expect(&w, "");
    end(&w);

    begin(&w, 4, (const char *const[]){"zero_optimization.reduce_bucket_size=1000", NULL});
    cero_summary_warnings(&w.facts, &w.text);
    expect(&w, ""); // a unit is smaller
    w.facts.largest_unit = 100000;
    cero_summary_warnings(&w.facts, &w.text);
    expect(&w,
           "zero_optimization.reduce_bucket_size 1000 over 4 ranks cuts gradients into pieces of "
           "1.00 KiB (8 messages a step); exchanges are slow below 64 KiB: give at least 65536, "
           "or leave the key out\n");
    end(&w);
    begin(&w, 4, (const char *const[]){"zero_optimization.reduce_bucket_size=65536", NULL});
    w.facts.largest_unit = 100000;
    cero_summary_warnings(&w.facts, &w.text);
    expect(&w, ""); // what the warning asked for
    w.rank[0].messages = 1000;
    w.rank[0].between_nodes = 1000 * 16384;
    cero_summary_warnings(&w.facts, &w.text);
    expect_part(&w, "a step sends 1000 messages of 16.00 KiB on average");
    end(&w);
}

/* LR-05, and what of a run changes with its ranks. */
static void test_training(void **state)
{
    static const struct {
        const char *set[5];
        int ranks;
        const char *wanted;
    } cases[] = {
        {{"optimizer.params.lr=5e-5", "scheduler.type=WarmupLR", NULL},
         1,
         "lr 5e-05, schedule WarmupLR with peak 5e-05 (the optimizer's lr, for warmup_max_lr is not "
         "given) after 1000 updates\n"},
        {{"optimizer.params.lr=5e-5", "scheduler.type=WarmupLR",
          "scheduler.params.warmup_max_lr=0.25", NULL},
         1,
         "with peak 0.25 (warmup_max_lr) after"},
        {{"optimizer.params.lr=5e-5", "scheduler.type=WarmupDecayLR",
          "scheduler.params.total_num_steps=5000", NULL},
         1,
         "with peak 0.001 (the default of warmup_max_lr, not the optimizer's lr) after"},
        {{"optimizer.params.lr=5e-5", "scheduler.type=WarmupCosineLR",
          "scheduler.params.total_num_steps=5000", NULL},
         1,
         "with peak 5e-05 (the optimizer's lr) after"},
        {{NULL}, 1, "x 1 rank; sums in order of micro-batches\n"},
        {{NULL}, 3, "x 3 ranks; it grows with the ranks, for train_batch_size is not given\n"},
        {{"train_batch_size=6", NULL}, 3, "x 3 ranks\n"},
        {{NULL}, 3, "normaliser: per token, sums over the batch are divided once by the tokens"},
    };
    cero_context *context = NULL;
    cero_model_spec model;
    CERO_UNUSED(state);

    assert_ok(cero_model_spec_resolve("gpt-mini", &model));
    assert_ok(cero_context_create(&(cero_context_params){.device = "meta"}, &context));
    for (size_t i = 0; i < CERO_COUNT_OF(cases); i++) {
        world w;
        cero_engine *engine = NULL;
        begin(&w, cases[i].ranks, cases[i].set);
        assert_ok(cero_engine_create(context, w.config,
                                     &(cero_engine_params){.build = cero_engine_build_model,
                                                           .context = &model,
                                                           .seq_len = 8},
                                     &engine));
        cero_summary_training(w.config, engine, cases[i].ranks, &w.text);
        expect_part(&w, cases[i].wanted);
        cero_engine_destroy(&engine);
        end(&w);
    }
    cero_context_destroy(&context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nodes),
        cmocka_unit_test(test_order_and_its_cost),
        cmocka_unit_test(test_buckets_and_stages),
        cmocka_unit_test(test_memory_least_and_most),
        cmocka_unit_test(test_idle_keys),
        cmocka_unit_test(test_warnings),
        cmocka_unit_test(test_training),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
