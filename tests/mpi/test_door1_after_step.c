/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A step leaves new weights on their way between ranks. Whatever comes next finds them in order: the engine is
 * destroyed, or weights are set by ranks of which one is late.
 */
// RUN: np=3
#include "mpi/equivalence.h"

enum {
    ROUNDS = 12
};

static const cero_context_params contexts[] = {{0},
                                               {.ranks_per_node = 1},
                                               {.ranks_per_node = 2},
                                               {.no_shared_memory = true}};

/* G1: parts of units are larger than what MPI sends without asking. */
static cero_engine *create(cero_context *context, int stage, cero_config **config)
{
    static cero_model_spec spec;
    cero_engine *engine = NULL;
    char set[64];
    const char *sets[] = {"zero_optimization.stage3_param_persistence_threshold=50000", set, NULL};

    spec = case_g1();
    (void)snprintf(set, sizeof(set), "zero_optimization.stage=%d", stage);
    assert_ok(case_config(context, sets, config));
    assert_ok(cero_engine_create(
        context, *config,
        &(cero_engine_params){.build = cero_engine_build_model, .context = &spec, .seq_len = 16},
        &engine));
    return engine;
}

static void step(cero_engine *engine)
{
    static case_batch batch;
    cero_step_stats stats;

    assert_ok(cero_engine_train_batch(engine, case_batch_fill(&batch, 0, 2, 16, 256), &stats));
}

/* Memory that a peer reads, or that is being sent, is not freed before. */
static void test_destroyed(void **state)
{
    CERO_UNUSED(state);
    for (int i = 0; i < (int)CERO_COUNT_OF(contexts); i++) {
        equiv_world w;
        equiv_open(&w, 3, &contexts[i]);
        for (int round = 0; round < ROUNDS; round++) {
            cero_config *config = NULL;
            cero_engine *engine = create(w.context, 1 + round % 3, &config);
            step(engine);
            if (cero_context_rank(w.context) == round % 3) {
                (void)nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
            }
            cero_engine_destroy(&engine);
            cero_config_destroy(&config);
        }
        equiv_close(&w);
    }
}

/* An element of each rank's shard of the embedding's 18,432. */
static const int64_t elements[] = {100, 9000, 16000};

/* All ranks set them; one comes late, when the others may have read what it had before. */
static void set_some(cero_context *context, cero_engine *engine, float value, int late)
{
    if (cero_context_rank(context) == late) {
        (void)nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
    }
    for (int i = 0; i < (int)CERO_COUNT_OF(elements); i++) {
        assert_ok(cero_engine_set_param(engine, 0, elements[i], 1, &value));
    }
    assert_ok(cero_engine_weights_set(engine));
}

static void check_some(cero_engine *engine, float expected)
{
    for (int i = 0; i < (int)CERO_COUNT_OF(elements); i++) {
        float value = 0;
        assert_ok(cero_engine_get_param(engine, 0, elements[i], 1, &value));
        assert_memory_equal(&value, &expected, sizeof(expected));
    }
}

static void test_set(void **state)
{
    CERO_UNUSED(state);
    for (int i = 0; i < (int)CERO_COUNT_OF(contexts); i++) {
        equiv_world w;
        equiv_open(&w, 3, &contexts[i]);
        for (int stage = 1; stage < 4; stage++) {
            cero_config *config = NULL;
            cero_engine *engine = create(w.context, stage, &config);
            for (int round = 0; round < ROUNDS; round++) {
                step(engine);
                set_some(w.context, engine, (float)(1 + round), round % 3);
                check_some(engine, (float)(1 + round));
            }
            cero_engine_destroy(&engine);
            cero_config_destroy(&config);
        }
        equiv_close(&w);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_destroyed),
        cmocka_unit_test(test_set),
    };
    return run_in_world(NULL, tests, CERO_COUNT_OF(tests));
}
