/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is frozen or takes no part in the loss, what stays whole at stage 3, how far ahead it is gathered, how much
 * may be live, and one copy of the weights per node: none of it changes a bit.
 */
// RUN: np=4
#include "mpi/equivalence.h"

#include "models/models.h"

enum {
    STEPS = 6
};

/* Texts of the config, up to the first NULL. */
typedef struct variant {
    const char *name;
    const char *set[4];
} variant;

static void add_sets(equiv_run *run, const variant *v)
{
    for (int i = 0; i < (int)CERO_COUNT_OF(v->set) && v->set[i] != NULL; i++) {
        equiv_set(run, "%s", v->set[i]);
    }
}

/* A model with a unit that takes no part in the loss, and a parameter of a unit that does. */
static cero_status build_with_unused(cero_graph *graph, const cero_model_shape *shape,
                                     const void *context)
{
    cero_graph_begin_unit(graph, "aside", false);
    (void)cero_graph_param(graph, &(cero_param_params){.name = "aside.weight",
                                                       .shape = cero_shape_2d(23, 37),
                                                       .init = CERO_INIT_ONES});
    cero_graph_end_unit(graph);
    return cero_model_build(graph, shape, context);
}

/* All stages of two, three and four ranks, in every variant, against one rank. */
static void check(const equiv_run *run, const char *name, const variant *variants, int count,
                  int first_stage, const cero_context_params *context)
{
    equiv_tally tally = {0};
    equiv_outcome expected;
    int rows = 0;

    equiv_train_alone(run, &expected);
    for (int size = 2; size <= 4; size++) {
        equiv_world w;
        equiv_open(&w, size, context);
        for (int i = 0; i < (4 - first_stage) * count; i++) {
            char text[160];
            int stage = first_stage + i / count;
            const variant *v = &variants[i % count];
            equiv_run cut = *run;
            if (!equiv_is_mine(&w, rows++)) {
                continue;
            }
            equiv_set(&cut, "zero_optimization.stage=%d", stage);
            add_sets(&cut, v);
            (void)snprintf(text, sizeof(text), "%s, %d ranks, stage %d, %s", name, size, stage,
                           v->name);
            assert_int_equal(equiv_row(&w, &tally, text, &cut, &expected).stage, stage);
        }
        equiv_close(&w);
    }
    equiv_cleanup(&expected);
    equiv_finish(&tally, rows);
    assert_int_equal(rows, 3 * (4 - first_stage) * count);
}

static const variant overlaps[] = {
    {"no overlap", {"zero_optimization.overlap_comm=false"}},
    {"overlap", {"zero_optimization.overlap_comm=true", "cero.checkpoint_units=1"}},
};

/* PM-08: the tied table of G1. */
static void test_frozen_table(void **state)
{
    equiv_run run = equiv_run_of(case_g1(), 12, STEPS);

    CERO_UNUSED(state);
    equiv_set(&run, "cero.frozen=[\"*.wte.weight\"]");
    check(&run, "wte frozen", overlaps, 2, 0, NULL);
}

/* A block without gradients between two that have them; bf16, where frozen weights have no master. */
static void test_frozen_unit(void **state)
{
    equiv_run run = equiv_run_of(equiv_gpt2(), 12, STEPS);

    CERO_UNUSED(state);
    equiv_set(&run, "cero.frozen=[\"transformer.h.1.*\"]");
    equiv_set(&run, "bf16.enabled=true");
    check(&run, "h.1 frozen", overlaps, 2, 0, NULL);
}

/* PM-09: what has no decay is frozen. */
static void test_frozen_group(void **state)
{
    equiv_run run = equiv_run_of(equiv_gpt2(), 12, STEPS);

    CERO_UNUSED(state);
    equiv_set(&run, "cero.frozen=[\"*.bias\"]");
    check(&run, "biases frozen", overlaps, 2, 0, NULL);
}

/* PM-10, and a unit of which nothing is used. */
static void test_unused(void **state)
{
    equiv_run run = equiv_run_of(equiv_gpt2(), 12, STEPS);

    CERO_UNUSED(state);
    run.build = build_with_unused;
    run.context = &run.spec;
    check(&run, "a unit unused", overlaps, 2, 0, NULL);
}

/* Frozen weights keep their bits, others move, unused ones move by their decay alone. */
static void test_references_move(void **state)
{
    equiv_outcome o[2];
    equiv_run run = equiv_run_of(equiv_gpt2(), 12, STEPS);

    CERO_UNUSED(state);
    run.build = build_with_unused;
    run.context = &run.spec;
    equiv_set(&run, "cero.frozen=[\"transformer.h.1.*\"]");
    for (int i = 0; i < 2; i++) {
        run.steps = i == 0 ? 1 : STEPS;
        equiv_train_alone(&run, &o[i]);
    }
    for (int64_t p = 0; p < o[0].param_count; p++) {
        int64_t begin = p > 0 ? o[0].params[p - 1].end : 0;
        size_t nbytes = (size_t)(o[0].params[p].end - begin) * sizeof(float);
        bool is_same = memcmp(o[0].weights + begin, o[1].weights + begin, nbytes) == 0;
        assert_int_equal(is_same, strstr(o[0].params[p].name, "h.1.") != NULL);
    }
    equiv_cleanup(&o[0]);
    equiv_cleanup(&o[1]);
}

/* Units: 6,775, three of 7,825, and 50 elements. */
static void test_stage3_limits(void **state)
{
#define THRESHOLD "zero_optimization.stage3_param_persistence_threshold"
#define PREFETCH  "zero_optimization.stage3_prefetch_bucket_size"
#define LIVE      "zero_optimization.stage3_max_live_parameters"
    static const variant variants[] = {
        {"default threshold", {THRESHOLD "=100000"}},
        {"threshold 100", {THRESHOLD "=100"}},
        {"threshold 7000", {THRESHOLD "=7000"}},
        {"no prefetch", {PREFETCH "=0"}},
        {"all prefetched", {PREFETCH "=1000000000"}},
        {"one element live", {LIVE "=1"}},
        {"all live, all prefetched", {PREFETCH "=1000000000", LIVE "=1000000000"}},
        {"nothing ahead, groups", {PREFETCH "=0", LIVE "=1", "cero.checkpoint_units=2"}},
        {"allgather bucket", {"zero_optimization.allgather_bucket_size=1"}},
    };
#undef THRESHOLD
#undef PREFETCH
#undef LIVE
    equiv_run run = equiv_run_of(equiv_gpt2(), 12, STEPS);

    CERO_UNUSED(state);
    check(&run, "GPT-2", variants, (int)CERO_COUNT_OF(variants), 3, NULL);
    run = equiv_run_of(equiv_llama(), 12, STEPS);
    equiv_set(&run, "bf16.enabled=true");
    equiv_set(&run, "cero.frozen=[\"model.layers.1.mlp.*\"]");
    check(&run, "Llama, part of a unit frozen", variants, (int)CERO_COUNT_OF(variants), 3, NULL);
}

/* The threshold decides what stays whole. */
static void test_threshold(void **state)
{
    static const int whole[][2] = {{0, 0}, {100, 1}, {7000, 2}, {100000, 5}};
    equiv_world w;

    CERO_UNUSED(state);
    equiv_open(&w, 4, NULL);
    for (int i = 0; i < (int)CERO_COUNT_OF(whole); i++) {
        equiv_outcome o;
        equiv_run run = equiv_run_of(equiv_gpt2(), 4, 1);
        equiv_set(&run, "zero_optimization.stage=3");
        equiv_set(&run, "zero_optimization.stage3_param_persistence_threshold=%d", whole[i][0]);
        assert_ok(equiv_train(w.context, &run, &o));
        assert_int_equal(o.zero.whole_units, whole[i][1]);
        equiv_cleanup(&o);
    }
    equiv_close(&w);
}

/* One copy of the weights per node, over one node and over several. */
static void test_share_within_node(void **state)
{
    static const cero_context_params contexts[] = {
        {0}, {.ranks_per_node = 2}, {.ranks_per_node = 3}};

    CERO_UNUSED(state);
    for (int i = 0; i < 12; i++) {
        equiv_tally tally = {0};
        equiv_outcome expected;
        equiv_world w;
        equiv_run run = equiv_run_of(i % 2 == 0 ? equiv_gpt2() : equiv_llama(), 12, STEPS);
        equiv_set(&run, "bf16.enabled=%s", i / 2 % 2 == 0 ? "false" : "true");
        equiv_set(&run, "cero.share_within_node=true");
        equiv_set(&run, "cero.frozen=[\"*.1.*\"]");
        equiv_train_alone(&run, &expected);
        equiv_open(&w, 4, &contexts[i / 4]);
        for (int stage = 1; stage < 3; stage++) {
            for (int overlap = 0; overlap < 2; overlap++) {
                char name[96];
                equiv_run cut = run;
                equiv_set(&cut, "zero_optimization.stage=%d", stage);
                add_sets(&cut, &overlaps[overlap]);
                (void)snprintf(name, sizeof(name), "shared, variant %d, stage %d, overlap %d", i,
                               stage, overlap);
                assert_true(equiv_row(&w, &tally, name, &cut, &expected).is_shared);
            }
        }
        equiv_close(&w);
        equiv_cleanup(&expected);
        equiv_finish(&tally, 4);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_references_move), cmocka_unit_test(test_frozen_table),
        cmocka_unit_test(test_frozen_unit),     cmocka_unit_test(test_frozen_group),
        cmocka_unit_test(test_unused),          cmocka_unit_test(test_threshold),
        cmocka_unit_test(test_stage3_limits),   cmocka_unit_test(test_share_within_node),
    };
    return run_in_world(NULL, tests, CERO_COUNT_OF(tests));
}
