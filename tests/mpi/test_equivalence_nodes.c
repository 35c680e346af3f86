/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How ranks are grouped into nodes changes bits where order node is asked for, and nowhere else. There a node's
 * contributions are added first and rounded once, and stage, bucket and overlap change nothing. Order global gives
 * the bits of one rank over any nodes, and by messages alone.
 */
// RUN: np=6
#include "mpi/equivalence.h"

#include "unit/zero/toy.h"

enum {
    STEPS = 4,
    ROWS = 4 * 2 /* of a shape: stages, and overlap off and on; the bucket goes round */
};

typedef struct shape {
    int size;
    cero_context_params context;
} shape;

static const int buckets[] = {1, 1009, 1000000};

static equiv_run make_run(const char *order, bool is_bf16, int stage, int bucket, bool overlaps)
{
    equiv_run run = equiv_run_of(equiv_gpt2(), 12, STEPS);

    equiv_set(&run, "cero.gradient_order=%s", order);
    equiv_set(&run, "bf16.enabled=%s", is_bf16 ? "true" : "false");
    equiv_set(&run, "zero_optimization.stage=%d", stage);
    equiv_set(&run, "zero_optimization.reduce_bucket_size=%d", bucket);
    equiv_set(&run, "zero_optimization.overlap_comm=%s", overlaps ? "true" : "false");
    return run;
}

/* The rows of a shape and dtype against `expected`; `turn` is the number of the shape in its test. */
static void check(const equiv_world *w, equiv_tally *tally, const shape *s, int turn,
                  const char *order, bool is_bf16, const equiv_outcome *expected)
{
    for (int i = 0; i < ROWS; i++) {
        char name[128];
        int stage = i / 2;
        int bucket = buckets[(turn + stage + i) % 3];
        equiv_run run = make_run(order, is_bf16, stage, bucket, i % 2 == 1);
        if (!equiv_is_mine(w, i)) {
            continue;
        }
        (void)snprintf(name, sizeof(name), "%s %s, %d ranks, %d per node%s, stage %d, bucket %d%s",
                       order, is_bf16 ? "bf16" : "fp32", s->size, s->context.ranks_per_node,
                       s->context.no_shared_memory ? ", messages" : "", stage, bucket,
                       i % 2 == 1 ? ", overlap" : "");
        cero_zero_summary zero = equiv_row(w, tally, name, &run, expected);
        assert_string_equal(zero.order, order);
        assert_int_equal(zero.stage, stage);
    }
}

static void test_order_node(void **state)
{
    static const shape shapes[] = {
        {4, {.ranks_per_node = 2}},
        {4, {.ranks_per_node = 3}}, // the last node has one rank
        {6, {.ranks_per_node = 2}},
        {6, {.ranks_per_node = 3}},
    };
    equiv_tally tally = {0};
    int rows = 0;

    CERO_UNUSED(state);
    for (int i = 0; i < 2 * (int)CERO_COUNT_OF(shapes); i++) {
        const shape *s = &shapes[i / 2];
        bool is_bf16 = i % 2 == 1;
        equiv_world w;
        equiv_open(&w, s->size, &s->context);
        if (w.context != NULL) {
            equiv_outcome first;
            equiv_outcome alone;
            char text[512];
            equiv_run run = make_run("node", is_bf16, 0, 500000000, false);
            assert_ok(equiv_train(w.context, &run, &first));
            assert_int_equal(first.zero.node_count,
                             (s->size + s->context.ranks_per_node - 1) / s->context.ranks_per_node);
            equiv_train_alone(&run, &alone);
            assert_true(equiv_weights_differ(&alone, &first, text, sizeof(text)));
            check(&w, &tally, s, i, "node", is_bf16, &first);
            equiv_cleanup(&first);
            equiv_cleanup(&alone);
        }
        rows += ROWS;
        equiv_close(&w);
    }
    equiv_finish(&tally, rows);
}

/* A node for all, or a node for each, leaves nothing to add first: the bits of one rank. */
static void test_order_node_without_nodes(void **state)
{
    static const shape shapes[] = {
        {3, {0}},
        {3, {.ranks_per_node = 1}},
        {2, {.ranks_per_node = 1, .no_shared_memory = true}},
    };
    equiv_tally tally = {0};
    equiv_outcome alone;
    equiv_run run = make_run("node", true, 0, 1, false);
    int rows = 0;

    CERO_UNUSED(state);
    equiv_train_alone(&run, &alone);
    for (int i = 0; i < (int)CERO_COUNT_OF(shapes); i++) {
        equiv_world w;
        equiv_open(&w, shapes[i].size, &shapes[i].context);
        check(&w, &tally, &shapes[i], i, "node", true, &alone);
        rows += ROWS;
        equiv_close(&w);
    }
    equiv_cleanup(&alone);
    equiv_finish(&tally, rows);
}

static void test_order_global(void **state)
{
    static const shape shapes[] = {
        {2, {.ranks_per_node = 1}},      {3, {.ranks_per_node = 2}},
        {3, {.no_shared_memory = true}}, {4, {.ranks_per_node = 2}},
        {4, {.no_shared_memory = true}}, {6, {.ranks_per_node = 3}},
        {6, {.ranks_per_node = 2}},      {6, {.ranks_per_node = 2, .no_shared_memory = true}},
    };
    equiv_tally tally = {0};
    equiv_outcome alone[2];
    int rows = 0;

    CERO_UNUSED(state);
    for (int i = 0; i < 2; i++) {
        equiv_run run = make_run("global", i == 1, 0, 1, false);
        equiv_train_alone(&run, &alone[i]);
    }
    for (int i = 0; i < (int)CERO_COUNT_OF(shapes); i++) {
        bool is_bf16 = i % 2 == 1;
        equiv_world w;
        equiv_open(&w, shapes[i].size, &shapes[i].context);
        check(&w, &tally, &shapes[i], i, "global", is_bf16, &alone[is_bf16 ? 1 : 0]);
        rows += ROWS;
        equiv_close(&w);
    }
    equiv_cleanup(&alone[0]);
    equiv_cleanup(&alone[1]);
    equiv_finish(&tally, rows);
}

/* Without shared memory a node cannot add by itself. */
static void test_refused_by_messages(void **state)
{
    equiv_world w;
    equiv_outcome o;
    equiv_run run = make_run("node", false, 1, 1, false);

    CERO_UNUSED(state);
    equiv_open(&w, 4, &(cero_context_params){.ranks_per_node = 2, .no_shared_memory = true});
    if (w.context != NULL) {
        assert_fails(equiv_train(w.context, &run, &o), CERO_ERR_INVALID, "cero.gradient_order");
    }
    equiv_close(&w);
}

enum {
    TOY_RANKS = 4,
    TOY_BATCHES = 2 * TOY_RANKS, /* two of each rank */
    TOY_NUMEL = 500              /* two blocks: two ranks own them */
};

/* A number of bf16 whose sums must be rounded. */
static float toy_given(int64_t sample, int64_t i)
{
    uint32_t word =
        cero_rng_word(cero_rng_make_key(5, CERO_RNG_TEST, 0, 0), (uint64_t)sample, (uint64_t)i);

    return (float)(1 + word % 128) / 128 * (float)(1 << (word >> 8) % 6);
}

static float round_to_bf16(float x)
{
    uint32_t bits;

    memcpy(&bits, &x, sizeof(bits));
    bits = (bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000;
    memcpy(&x, &bits, sizeof(x));
    return x;
}

/* By hand: ranks 0 and 1 are a node, 2 and 3 the other; micro-batch 4 j + r is rank r's j-th. */
static float toy_sum(int64_t i, bool is_by_node)
{
    float sum = 0;

    for (int64_t k = 0; k < TOY_BATCHES; k += is_by_node ? 2 : 1) {
        float term = toy_given(k, i);
        if (is_by_node) {
            term = round_to_bf16(term + toy_given(k + 1, i));
        }
        sum = k == 0 ? term : sum + term;
    }
    return sum;
}

/* With a rate of 1 and nothing else, SGD takes the mean gradient from weights of 1. */
static void check_toy(const equiv_world *w, const char *order, int stage)
{
    const toy_model model = {.params = {{.name = "a", .shape = cero_shape_1d(TOY_NUMEL)}},
                             .param_count = 1};
    char sets[2][64];
    const char *all[] = {"train_batch_size=8",
                         "train_micro_batch_size_per_gpu=1",
                         "bf16.enabled=true",
                         "optimizer.type=SGD",
                         "optimizer.params.betas=-",
                         "optimizer.params.eps=-",
                         "optimizer.params.lr=1",
                         "optimizer.params.weight_decay=0",
                         "zero_optimization.stage3_param_persistence_threshold=0",
                         sets[0],
                         sets[1],
                         NULL};
    static float given[2][TOY_NUMEL];
    static float weights[TOY_NUMEL];
    toy t = {0};

    (void)snprintf(sets[0], sizeof(sets[0]), "cero.gradient_order=%s", order);
    (void)snprintf(sets[1], sizeof(sets[1]), "zero_optimization.stage=%d", stage);
    assert_ok(case_config(w->context, all, &t.world.config));
    assert_ok(cero_engine_create(
        w->context, t.world.config,
        &(cero_engine_params){.build = toy_build, .context = &model, .seq_len = 1}, &t.engine));
    for (int j = 0; j < 2; j++) {
        for (int64_t i = 0; i < TOY_NUMEL; i++) {
            given[j][i] = toy_given(j * TOY_RANKS + cero_context_rank(w->context), i);
        }
    }
    assert_ok(toy_step(&t, given[0], NULL));
    assert_ok(cero_engine_get_param(t.engine, 0, 0, TOY_NUMEL, weights));
    for (int64_t i = 0; i < TOY_NUMEL; i++) {
        float expected = 1 - toy_sum(i, strcmp(order, "node") == 0) / TOY_BATCHES;
        assert_memory_equal(&weights[i], &expected, sizeof(expected));
    }
    cero_engine_destroy(&t.engine);
    cero_config_destroy(&t.world.config);
}

static void test_sum_by_hand(void **state)
{
    equiv_world w;
    int different = 0;

    CERO_UNUSED(state);
    for (int64_t i = 0; i < TOY_NUMEL; i++) {
        different += toy_sum(i, true) != toy_sum(i, false) ? 1 : 0;
    }
    assert_true(different > TOY_NUMEL / 4);
    equiv_open(&w, TOY_RANKS, &(cero_context_params){.ranks_per_node = 2});
    for (int stage = 0; stage < 4 && w.context != NULL; stage++) {
        check_toy(&w, "node", stage);
        check_toy(&w, "global", stage);
    }
    equiv_close(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sum_by_hand),
        cmocka_unit_test(test_order_node),
        cmocka_unit_test(test_order_node_without_nodes),
        cmocka_unit_test(test_order_global),
        cmocka_unit_test(test_refused_by_messages),
    };
    return run_in_world(NULL, tests, CERO_COUNT_OF(tests));
}
