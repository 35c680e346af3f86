/* SPDX-License-Identifier: Apache-2.0 */
/* Activation checkpointing changes no bit of loss or gradient, dropout or not, and needs less memory. */
#include "unit/graph/random_graph.h"

#include "cases.h"
#include "models/models.h"

enum {
    SEQ = 16,
    MICRO_BATCH = 2,
    LAYERS = 6
};

static const cero_model_shape shape = {.mode = CERO_MODEL_TRAIN,
                                       .micro_batch = MICRO_BATCH,
                                       .seq_len = SEQ};

/* A model of six blocks with dropout, ready to run. */
static void open_model(fixture *f, cero_model_spec spec, cero_dtype dtype, int64_t group)
{
    case_batch batch;

    spec.layers = LAYERS;
    spec.embd_dropout = 0.1;
    spec.attn_dropout = 0.2;
    spec.resid_dropout = 0.1;
    fixture_open(f, dtype, 2);
    assert_ok(cero_model_build(f->graph, &shape, &spec));
    fixture_compile(f, group);
    (void)case_batch_fill(&batch, 0, MICRO_BATCH, SEQ, spec.vocab_size);
    size_t nbytes = (size_t)(MICRO_BATCH * SEQ) * sizeof(int32_t);
    memcpy(cero_program_data(f->program, "tokens"), batch.tokens, nbytes);
    memcpy(cero_program_data(f->program, "targets"), batch.targets, nbytes);
    fixture_run(f);
}

static void assert_same(const fixture *a, const fixture *b, size_t loss_bytes)
{
    assert_memory_equal(cero_program_data(a->program, "loss"),
                        cero_program_data(b->program, "loss"), loss_bytes);
    assert_int_equal(a->graph->param_count, b->graph->param_count);
    for (int64_t p = 0; p < a->graph->param_count; p++) {
        size_t nbytes =
            (size_t)a->graph->params[p].numel * cero_dtype_size(a->graph->compute_dtype);
        assert_memory_equal(a->grad[p], b->grad[p], nbytes);
    }
}

static void check_model(const cero_model_spec *spec, cero_dtype dtype)
{
    fixture plain;

    open_model(&plain, *spec, dtype, 0);
    const cero_program_stats *before = cero_program_get_stats(plain.program);
    assert_true(before->flops[CERO_PHASE_RECOMPUTE] == 0);
    for (int64_t group = 1; group <= 4; group++) {
        fixture f;
        open_model(&f, *spec, dtype, group);
        const cero_program_stats *after = cero_program_get_stats(f.program);
        assert_same(&plain, &f, MICRO_BATCH * SEQ * sizeof(float));
        assert_true(after->arena_bytes < before->arena_bytes);
        assert_true(after->flops[CERO_PHASE_RECOMPUTE] > 0);
        assert_true(after->flops[CERO_PHASE_FORWARD] == before->flops[CERO_PHASE_FORWARD]);
        assert_true(after->flops[CERO_PHASE_BACKWARD] == before->flops[CERO_PHASE_BACKWARD]);
        fixture_close(&f);
    }
    fixture_close(&plain);
}

static void test_models(void **state)
{
    cero_model_spec g1 = case_g1();
    cero_model_spec l1 = case_l1();

    CERO_UNUSED(state);
    check_model(&g1, CERO_DTYPE_F32);
    check_model(&g1, CERO_DTYPE_BF16);
    check_model(&l1, CERO_DTYPE_F32);
    check_model(&l1, CERO_DTYPE_F16);
}

/* The masks matter: another seed of dropout gives another loss, and so would a mask drawn twice. */
static void test_dropout_is_on(void **state)
{
    fixture f;
    float before[MICRO_BATCH * SEQ];

    CERO_UNUSED(state);
    open_model(&f, case_g1(), CERO_DTYPE_F32, 2);
    memcpy(before, cero_program_data(f.program, "loss"), sizeof(before));
    cero_step_env env = fixture_env();
    env.step++;
    assert_ok(cero_program_run(f.program, &env, CERO_PROGRAM_ALL));
    assert_memory_not_equal(before, cero_program_data(f.program, "loss"), sizeof(before));
    fixture_close(&f);
}

static void open_random(fixture *f, uint64_t number, int64_t group)
{
    fixture_open(f, CERO_DTYPE_F32, 2);
    random_graph_build(f->graph, number, &f->loss);
    fixture_compile(f, group);
    fixture_run(f);
}

/* Units that read each other's insides, parameters used in several, units that may not be recomputed. */
static void test_random_graphs(void **state)
{
    CERO_UNUSED(state);
    for (uint64_t number = 0; number < 100; number++) {
        fixture plain;
        open_random(&plain, number, 0);
        for (int64_t group = 1; group <= 3; group++) {
            fixture f;
            open_random(&f, number, group);
            assert_same(&plain, &f, RANDOM_ROWS * sizeof(float));
            assert_true(plain.loss == f.loss);
            fixture_close(&f);
        }
        fixture_close(&plain);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_models),
        cmocka_unit_test(test_dropout_is_on),
        cmocka_unit_test(test_random_graphs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
