/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Plans of ranks of worlds that do not exist: no stage holds more than the one before it, the parts of all ranks
 * are the whole, the paper's formula holds in large worlds, and what a run would refuse a plan refuses.
 */
#include "cases.h"

#include "plan/plan.h"

enum {
    MAX_SETS = 16
};

/* What is planned; zero is the default of each. */
typedef struct plan_case {
    const cero_model_spec *model;
    int64_t seq_len;
    int size;
    int rank;
    int ranks_per_node;
    bool no_shared_memory;
    const char *sets[MAX_SETS];
} plan_case;

static cero_status create(const plan_case *c, cero_run_plan **out)
{
    const char *all[MAX_SETS + 1] = {"train_micro_batch_size_per_gpu=1"};
    int count = 1;
    cero_train_config *config = NULL;

    for (; count <= MAX_SETS && c->sets[count - 1] != NULL; count++) {
        all[count] = c->sets[count - 1];
    }
    assert_ok(cero_train_config_create(
        &(cero_train_config_params){.overrides = all, .override_count = count, .dp_size = c->size},
        &config));
    cero_status st =
        cero_run_plan_create(&(cero_plan_params){.model = c->model,
                                                 .config = config,
                                                 .seq_len = c->seq_len,
                                                 .world_size = c->size,
                                                 .world_rank = c->rank,
                                                 .ranks_per_node = c->ranks_per_node,
                                                 .no_shared_memory = c->no_shared_memory,
                                                 .threads = 1},
                             out);
    cero_train_config_destroy(&config);
    return st;
}

static cero_engine_plan plan_of(const plan_case *c)
{
    cero_run_plan *plan = NULL;

    assert_ok(create(c, &plan));
    cero_engine_plan bytes = *cero_run_plan_get(plan);
    cero_run_plan_destroy(&plan);
    return bytes;
}

static const char *const stages[] = {"zero_optimization.stage=0", "zero_optimization.stage=1",
                                     "zero_optimization.stage=2", "zero_optimization.stage=3"};

static void check_stages(plan_case c, int set, size_t spare)
{
    size_t before = SIZE_MAX - spare;

    for (int stage = 0; stage < 4; stage++) {
        c.sets[set] = stages[stage];
        size_t total = plan_of(&c).total;
        if (total > before + spare) {
            fail_msg("%s, %d ranks, nodes of %d, messages %d, %s: stage %d holds %zu bytes, the "
                     "one before %zu",
                     c.model->name, c.size, c.ranks_per_node, c.no_shared_memory, c.sets[0], stage,
                     total, before);
        }
        before = total;
    }
}

/* In worlds of 2 to 64 ranks, of every kind of node. */
static void check_worlds(const cero_model_spec *model, int64_t seq_len, size_t spare)
{
    static const int sizes[] = {2, 3, 4, 8, 64};
    static const char *const dtypes[] = {"bf16.enabled=true", "bf16.enabled=false"};
    static const char *const overlaps[] = {NULL, "zero_optimization.overlap_comm=true",
                                           "zero_optimization.overlap_comm=false"};

    for (int i = 0; i < 5 * 6 * 3; i++) {
        plan_case c = {.model = model,
                       .seq_len = seq_len,
                       .size = sizes[i / 18],
                       .rank = sizes[i / 18] - 1,
                       .ranks_per_node = i % 3 == 1 ? 2 : 0,
                       .no_shared_memory = i % 3 == 2,
                       .sets = {dtypes[i / 3 % 2], NULL, overlaps[i / 6 % 3]}};
        check_stages(c, 1, spare);
    }
}

static void test_stages_of_gpt2(void **state)
{
    cero_model_spec gpt2;

    CERO_UNUSED(state);
    assert_ok(cero_model_spec_resolve("gpt2", &gpt2));
    check_worlds(&gpt2, 128, 0);
}

/* ME-04: small models too, and one that is nearly all embedding: 12.9 of 13.5 million elements. */
static void test_stages_of_small_models(void **state)
{
    cero_model_spec g1 = case_g1();
    cero_model_spec g2 = case_g2();
    cero_model_spec l1 = case_l1();
    cero_model_spec lopsided = case_g1();

    CERO_UNUSED(state);
    check_worlds(&g1, 16, 1000 * 1000);
    check_worlds(&g2, 8, 1000 * 1000);
    check_worlds(&l1, 16, 1000 * 1000);
    lopsided.vocab_size = 50257;
    lopsided.hidden = 256;
    lopsided.head_dim = 64;
    lopsided.inner = 256;
    check_worlds(&lopsided, 16, 1 << 20);
}

/* Recomputing a group of units gathers them together: not where that would take more than is saved. */
static void test_stages_with_groups(void **state)
{
    cero_model_spec gpt2;

    CERO_UNUSED(state);
    assert_ok(cero_model_spec_resolve("gpt2", &gpt2));
    for (int i = 0; i < 6; i++) {
        plan_case c = {.model = &gpt2,
                       .seq_len = 128,
                       .size = i % 2 == 0 ? 2 : 8,
                       .sets = {i / 2 == 0   ? "cero.checkpoint_units=1"
                                : i / 2 == 1 ? "cero.checkpoint_units=4"
                                             : "cero.checkpoint_units=12"}};
        check_stages(c, 1, 0);
    }
}

/* What ranks keep of states that are cut adds up to one copy; the last keeps no less than any other. */
static void test_parts_are_the_whole(void **state)
{
    static const cero_mem_category kept[] = {CERO_MEM_PARAM, CERO_MEM_GRAD, CERO_MEM_MASTER,
                                             CERO_MEM_OPTIM};
    cero_model_spec g2 = case_g2();

    CERO_UNUSED(state);
    for (int size = 2; size <= 61; size += 1 + size / 4) { // more ranks than blocks, too
        size_t sum[4] = {0};
        size_t most[4] = {0};
        plan_case c = {.model = &g2,
                       .seq_len = 8,
                       .size = size,
                       .sets = {stages[3], "bf16.enabled=true",
                                "zero_optimization.stage3_param_persistence_threshold=0"}};
        for (c.rank = 0; c.rank < size; c.rank++) {
            cero_engine_plan plan = plan_of(&c);
            for (int k = 0; k < 4; k++) {
                size_t nbytes = plan.bytes[kept[k]];
                sum[k] += nbytes;
                most[k] = nbytes > most[k] ? nbytes : most[k];
                assert_true(c.rank < size - 1 || nbytes == most[k]);
            }
        }
        // Units of 5670, 5565 and 42 elements: 23, 22 and 1 blocks.
        size_t elements = (23 + 22 + 1) * 256;
        assert_int_equal(sum[0], elements * 2);
        assert_int_equal(sum[1], elements * 4);
        assert_int_equal(sum[2], elements * 4);
        assert_int_equal(sum[3], elements * 8);
    }
}

/* The paper's (2 + 4 + 12) Psi / N, with sums in f32, for 175 billion parameters on 4096 ranks. */
static void test_large_world(void **state)
{
    cero_model_spec model;
    plan_case c = {.model = &model,
                   .size = 4096,
                   .rank = 4095,
                   .ranks_per_node = 8,
                   .sets = {stages[3], "bf16.enabled=true"}};
    cero_run_plan *run = NULL;
    cero_zero_cost cost;

    CERO_UNUSED(state);
    assert_ok(cero_model_spec_resolve("zero-170b", &model));
    assert_ok(create(&c, &run));
    const cero_engine_plan *plan = cero_run_plan_get(run);
    double psi = (double)plan->param_count;
    double states = (double)(plan->bytes[CERO_MEM_PARAM] + plan->bytes[CERO_MEM_GRAD] +
                             plan->bytes[CERO_MEM_MASTER] + plan->bytes[CERO_MEM_OPTIM]);
    assert_true(states >= 18 * psi / 4096);
    assert_true(states <= 18 * psi / 4096 * 1.02);
    // A node's link carries every element three times; 512 nodes, each rank an eighth of its node.
    cero_engine_zero_cost(cero_run_plan_engine(run), &cost);
    double link = (double)(cost.reductions.bytes_between_nodes + cost.gathers.bytes_between_nodes);
    double paper = 3 * 2 * psi * 511 / 512 / 8;
    assert_true(link >= paper / 1.02 && link <= paper * 1.02);
    cero_run_plan_destroy(&run);
}

static void test_world_of_one(void **state)
{
    cero_model_spec g1 = case_g1();
    plan_case none = {.model = &g1, .seq_len = 8, .sets = {stages[3]}};
    plan_case one = {.model = &g1, .seq_len = 8, .size = 1, .sets = {stages[3]}};
    cero_engine_plan a = plan_of(&none);
    cero_engine_plan b = plan_of(&one);

    CERO_UNUSED(state);
    assert_memory_equal(a.bytes, b.bytes, sizeof(a.bytes));
}

static void test_refusals(void **state)
{
    cero_model_spec g1 = case_g1();
    plan_case c = {.model = &g1, .seq_len = 8, .size = 4, .sets = {stages[2]}};
    cero_run_plan *plan = NULL;

    CERO_UNUSED(state);
    c.rank = 4;
    assert_fails(create(&c, &plan), CERO_ERR_INVALID, "rank 4 of a world of 4");
    c.rank = 0;
    c.no_shared_memory = true;
    c.sets[1] = "cero.share_within_node=true";
    assert_fails(create(&c, &plan), CERO_ERR_INVALID, "cero.share_within_node");
    c.sets[1] = "cero.gradient_order=node";
    c.ranks_per_node = 2;
    assert_fails(create(&c, &plan), CERO_ERR_INVALID, "cero.gradient_order is node");
    c.sets[1] = "cero.gradient_order=local";
    c.no_shared_memory = false;
    assert_fails(create(&c, &plan), CERO_ERR_INVALID, "cero.gradient_order is local");
    assert_null(plan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_stages_of_gpt2),     cmocka_unit_test(test_stages_of_small_models),
        cmocka_unit_test(test_stages_with_groups), cmocka_unit_test(test_parts_are_the_whole),
        cmocka_unit_test(test_large_world),        cmocka_unit_test(test_world_of_one),
        cmocka_unit_test(test_refusals),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
