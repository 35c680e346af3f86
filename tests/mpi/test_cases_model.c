/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Faults of other trainers with small models, over ranks and stages: the cut of the batch, the stage and the
 * bucket change neither loss nor norm nor weights; first weights are those of one rank; the norm that is told is
 * that before clipping, the same on every rank; a frozen table stays; no stage takes more memory than a lower one.
 */
// RUN: np=6
#include "mpi/equivalence.h"

#include "optim/optimizer.h"

#include <math.h>

enum {
    SEQ = 8,
    G1_NUMEL = 118528,
    G1_TABLE = 256 * 64
};

/* A run of a model with the base config of the cases, and sequences of 8. */
static equiv_run run_of(cero_model_spec spec, int steps)
{
    return (equiv_run){.spec = spec, .seq_len = SEQ, .steps = steps};
}

static void set_stage(equiv_run *run, int stage)
{
    equiv_set(run, "zero_optimization.stage=%d", stage);
    equiv_set(run, "zero_optimization.stage3_param_persistence_threshold=0");
}

static void train(const equiv_world *w, const equiv_run *run, equiv_outcome *o)
{
    if (equiv_train(w->context, run, o) != CERO_OK) {
        fail_msg("%s", cero_error_string());
    }
}

/* Losses and norms within `limit`. */
static void check_near(const equiv_outcome *a, const equiv_outcome *b, double limit)
{
    assert_int_equal(a->steps, b->steps);
    for (int s = 0; s < a->steps; s++) {
        const cero_step_stats *x = &a->stats[s];
        const cero_step_stats *y = &b->stats[s];
        if (!(fabs(x->loss - y->loss) <= limit * x->loss) ||
            !(fabs(x->grad_norm - y->grad_norm) <= limit * x->grad_norm)) {
            fail_msg("step %d: loss %.9g and norm %.9g, expected %.9g and %.9g", s + 1, y->loss,
                     y->grad_norm, x->loss, x->grad_norm);
        }
    }
}

static void check_same(const equiv_outcome *a, const equiv_outcome *b)
{
    char text[512];

    if (equiv_differs(a, b, text, sizeof(text))) {
        fail_msg("%s", text);
    }
}

/* AC-01: 16 samples as 1 x 16 and 1 x 4 x 4 on one rank, 4 on four, 2 x 4 on two. */
static void test_cuts(void **state)
{
    static const struct {
        int ranks;
        int micro_batch;
        int accumulated;
    } cuts[] = {{1, 16, 1}, {1, 4, 4}, {4, 4, 1}, {2, 2, 4}};
    static const char *const dtypes[] = {"bf16.enabled=false", "bf16.enabled=true"};
    static equiv_outcome first[2];

    CERO_UNUSED(state);
    for (int c = 0; c < 4; c++) {
        equiv_world w;
        equiv_open(&w, cuts[c].ranks, NULL);
        for (int i = 0; i < 8 && w.context != NULL; i++) {
            int d = i % 2;
            equiv_outcome o;
            equiv_run run = run_of(case_g1(), 2);
            set_stage(&run, i / 2);
            equiv_set(&run, "train_micro_batch_size_per_gpu=%d", cuts[c].micro_batch);
            equiv_set(&run, "gradient_accumulation_steps=%d", cuts[c].accumulated);
            equiv_set(&run, "optimizer.params.lr=0");
            equiv_set(&run, "gradient_clipping=1e9");
            equiv_set(&run, "%s", dtypes[d]);
            train(&w, &run, &o);
            if (first[d].weights == NULL) {
                first[d] = o;
                continue;
            }
            check_near(&first[d], &o, d == 0 ? 1e-5 : 1e-2);
            // With rate 0 weights stay, decay included.
            assert_memory_equal(first[d].weights, o.weights, G1_NUMEL * sizeof(float));
            equiv_cleanup(&o);
        }
        equiv_close(&w);
    }
    equiv_cleanup(&first[0]);
    equiv_cleanup(&first[1]);
}

/* All stages, and with `second` set another run at stage 2, have the bits of stage 0. */
static void check_stages(int ranks, const equiv_run *plain, const char *second)
{
    equiv_world w;

    equiv_open(&w, ranks, NULL);
    if (w.context != NULL) {
        equiv_outcome first = {0};
        for (int s = 0; s < (second != NULL ? 5 : 4); s++) {
            equiv_outcome o;
            equiv_run run = *plain;
            set_stage(&run, s < 4 ? s : 2);
            if (s == 4) {
                equiv_set(&run, "%s", second);
            }
            train(&w, &run, &o);
            if (s == 0) {
                first = o;
                continue;
            }
            check_same(&first, &o);
            equiv_cleanup(&o);
        }
        equiv_cleanup(&first);
    }
    equiv_close(&w);
}

/* PA-01; PA-05: a bucket that is smaller than most tensors. */
static void test_stages(void **state)
{
    equiv_run run = run_of(case_g1(), 20);

    CERO_UNUSED(state);
    check_stages(2, &run, "zero_optimization.reduce_bucket_size=1000");
}

/* PA-02: the norm, with accumulation, where stages 0 and 1 may add in an order of their own. */
static void test_norms(void **state)
{
    equiv_run run = run_of(case_g1(), 5);

    CERO_UNUSED(state);
    equiv_set(&run, "gradient_accumulation_steps=2");
    equiv_set(&run, "cero.gradient_order=global");
    check_stages(4, &run, NULL);
}

/* PA-03: LAMB's norms of whole tensors. */
static void test_lamb(void **state)
{
    equiv_run run = run_of(case_g1(), 5);

    CERO_UNUSED(state);
    equiv_set(&run, "optimizer.type=Lamb");
    check_stages(2, &run, NULL);
}

/* PA-10: 12 samples over 1, 2, 3, 4 and 6 ranks, in the default order of additions. */
static void test_ranks(void **state)
{
    static const int sizes[] = {1, 2, 3, 4, 6};
    equiv_outcome first = {0};

    CERO_UNUSED(state);
    for (int k = 0; k < (int)CERO_COUNT_OF(sizes); k++) {
        equiv_world w;
        equiv_open(&w, sizes[k], NULL);
        if (w.context != NULL) {
            equiv_outcome o;
            equiv_run run = run_of(case_g2(), 20);
            set_stage(&run, 1);
            equiv_set(&run, "train_batch_size=12");
            equiv_set(&run, "train_micro_batch_size_per_gpu=1");
            train(&w, &run, &o);
            if (k == 0) {
                first = o;
            } else {
                check_near(&first, &o, 1e-5);
                equiv_cleanup(&o);
            }
        }
        equiv_close(&w);
    }
    equiv_cleanup(&first);
}

/* An engine, before its first step. */
static cero_engine *create(const equiv_world *w, const equiv_run *run, cero_config **config)
{
    const char *sets[EQUIV_MAX_SETS + 1] = {0};
    cero_engine *engine = NULL;

    for (int i = 0; i < run->set_count; i++) {
        sets[i] = run->set[i];
    }
    assert_ok(case_config(w->context, sets, config));
    assert_ok(cero_engine_create(w->context, *config,
                                 &(cero_engine_params){.build = cero_engine_build_model,
                                                       .context = &run->spec,
                                                       .seq_len = SEQ},
                                 &engine));
    return engine;
}

/* PA-06: all ranks begin with the weights of one. */
static void test_first_weights(void **state)
{
    float *alone = NULL;

    CERO_UNUSED(state);
    for (int size = 1; size <= 4; size += 3) {
        equiv_world w;
        equiv_open(&w, size, NULL);
        for (int s = 0; s < 4 && w.context != NULL; s++) {
            int64_t count;
            cero_config *config = NULL;
            equiv_run run = run_of(case_g1(), 1);
            set_stage(&run, s);
            cero_engine *engine = create(&w, &run, &config);
            float *all = case_weights(engine, &count);
            assert_int_equal(count, G1_NUMEL);
            if (alone == NULL) {
                alone = all;
            } else {
                assert_memory_equal(alone, all, G1_NUMEL * sizeof(float));
                cero_delete(all);
            }
            cero_engine_destroy(&engine);
            cero_config_destroy(&config);
        }
        equiv_close(&w);
    }
    cero_delete(alone);
}

/* How the table and, if there is one, the head move in a step of plain descent with rate 1. */
static void move_tables(const equiv_world *w, int stage, bool is_tied, double *input,
                        double *output)
{
    static case_batch batch;
    static float values[2][G1_TABLE];
    cero_config *config = NULL;
    cero_step_stats stats;
    equiv_run run = run_of(case_g1(), 1);
    double *moved[] = {input, output};

    run.spec.tie_word_embeddings = is_tied;
    set_stage(&run, stage);
    equiv_set(&run, "optimizer.type=SGD");
    equiv_set(&run, "optimizer.params.lr=1");
    equiv_set(&run, "optimizer.params.betas=-");
    equiv_set(&run, "optimizer.params.eps=-");
    equiv_set(&run, "optimizer.params.weight_decay=0");
    cero_engine *engine = create(w, &run, &config);
    int64_t table[] = {cero_engine_find_param(engine, "transformer.wte.weight"),
                       cero_engine_find_param(engine, "lm_head.weight")};
    assert_int_equal(table[1] < 0, is_tied);
    assert_ok(cero_engine_get_param(engine, table[0], 0, G1_TABLE, values[0]));
    if (!is_tied) {
        assert_ok(cero_engine_set_param(engine, table[1], 0, G1_TABLE, values[0]));
        assert_ok(cero_engine_weights_set(engine));
    }
    equiv_fill(engine, &run, 0, &batch);
    assert_ok(cero_engine_train_batch(engine, &batch.batch, &stats));
    for (int k = 0; k < (is_tied ? 1 : 2); k++) {
        assert_ok(cero_engine_get_param(engine, table[k], 0, G1_TABLE, values[1]));
        for (int i = 0; i < G1_TABLE; i++) {
            moved[k][i] = (double)values[1][i] - (double)values[0][i];
        }
    }
    cero_engine_destroy(&engine);
    cero_config_destroy(&config);
}

/* PA-08: the gradient of the tied table is the sum of its two uses. */
static void test_tied(void **state)
{
    static double tied[G1_TABLE];
    static double input[G1_TABLE];
    static double output[G1_TABLE];
    equiv_world w;

    CERO_UNUSED(state);
    equiv_open(&w, 2, NULL);
    for (int s = 0; s < 4; s++) {
        double error = 0;
        double size = 0;
        double parts[2] = {0};
        move_tables(&w, s, true, tied, NULL);
        move_tables(&w, s, false, input, output);
        for (int i = 0; i < G1_TABLE; i++) {
            double d = tied[i] - input[i] - output[i];
            error += d * d;
            size += tied[i] * tied[i];
            parts[0] += input[i] * input[i];
            parts[1] += output[i] * output[i];
        }
        assert_true(sqrt(error) < 1e-4 * sqrt(size));
        assert_true(parts[0] > 1e-4 * size && parts[1] > 1e-4 * size);
    }
    equiv_close(&w);
}

/* NO-03, NO-05: the norm before clipping, the same on all ranks; what is used has the norm of the limit. */
static void test_clipping(void **state)
{
    equiv_world w;

    CERO_UNUSED(state);
    equiv_open(&w, 4, NULL);
    for (int s = 0; s < 4 && w.context != NULL; s++) {
        static case_batch batch;
        cero_config *config = NULL;
        cero_step_stats stats;
        int64_t count;
        double squares = 0;
        equiv_run run = run_of(case_g1(), 1);
        set_stage(&run, s);
        equiv_set(&run, "optimizer.type=SGD");
        equiv_set(&run, "optimizer.params.lr=1");
        equiv_set(&run, "optimizer.params.betas=-");
        equiv_set(&run, "optimizer.params.eps=-");
        equiv_set(&run, "optimizer.params.weight_decay=0");
        equiv_set(&run, "gradient_clipping=1");
        cero_engine *engine = create(&w, &run, &config);
        float *before = case_weights(engine, &count);
        equiv_fill(engine, &run, 0, &batch);
        assert_ok(cero_engine_train_batch(engine, &batch.batch, &stats));
        float *after = case_weights(engine, &count);
        for (int64_t i = 0; i < count; i++) {
            squares += pow((double)after[i] - (double)before[i], 2);
        }
        assert_true(stats.grad_norm > 1);
        assert_true(fabs(stats.clip_coef * stats.grad_norm - 1) <= 1e-5);
        assert_true(fabs(sqrt(squares) - 1) <= 1e-5);
        const double told[] = {stats.loss, stats.grad_norm, stats.clip_coef, stats.lr};
        double others[4 * CERO_COUNT_OF(told)];
        assert_ok(cero_comm_all_gather(w.context->comm, told, sizeof(told), others));
        for (int r = 0; r < 4; r++) {
            assert_memory_equal(told, others + r * (int)CERO_COUNT_OF(told), sizeof(told));
        }
        cero_delete(before);
        cero_delete(after);
        cero_engine_destroy(&engine);
        cero_config_destroy(&config);
    }
    equiv_close(&w);
}

/* PM-08: the table is frozen: it keeps its bits, and ranks hold moments of 102,144 elements together. */
static void test_frozen(void **state)
{
    equiv_world w;
    equiv_outcome untouched;
    equiv_run start = run_of(case_g1(), 1);

    CERO_UNUSED(state);
    equiv_set(&start, "optimizer.params.lr=0");
    equiv_train_alone(&start, &untouched);
    equiv_open(&w, 2, NULL);
    for (int s = 0; s < 4; s++) {
        cero_config *config = NULL;
        equiv_outcome o;
        equiv_run run = run_of(case_g1(), 10);
        set_stage(&run, s);
        equiv_set(&run, "cero.frozen=[\"transformer.wte.weight\"]");
        cero_engine *engine = create(&w, &run, &config);
        int64_t moments = (int64_t)cero_engine_get_plan(engine)->bytes[CERO_MEM_OPTIM];
        assert_int_equal(cero_engine_get_plan(engine)->trained_count, G1_NUMEL - G1_TABLE);
        assert_ok(cero_comm_all_reduce_i64(w.context->comm, CERO_COMM_SUM, &moments, 1));
        // Two f32 an element, and the pads of four units.
        int64_t exact = (s == 0 ? 2 : 1) * 2 * 4 * (int64_t)(G1_NUMEL - G1_TABLE);
        assert_in_range(moments, exact, exact + 2 * 2 * 4 * 4 * 255);
        cero_engine_destroy(&engine);
        cero_config_destroy(&config);
        train(&w, &run, &o);
        int64_t begin = 0;
        int64_t moved = 0;
        for (int64_t p = 0; p < o.param_count; p++) {
            bool is_table = strcmp(o.params[p].name, "transformer.wte.weight") == 0;
            for (int64_t i = begin; i < o.params[p].end; i++) {
                bool is_same = memcmp(&o.weights[i], &untouched.weights[i], sizeof(float)) == 0;
                assert_true(is_same || !is_table);
                moved += is_same ? 0 : 1;
            }
            begin = o.params[p].end;
        }
        assert_true(moved > (G1_NUMEL - G1_TABLE) / 2);
        equiv_cleanup(&o);
    }
    equiv_close(&w);
    equiv_cleanup(&untouched);
}

/* ME-04: default buckets of 5e8. What is planned is held, and does not grow with the stage. */
static void test_memory(void **state)
{
    equiv_world w;
    size_t before = 0;

    CERO_UNUSED(state);
    for (int s = 0; s < 4; s++) {
        static case_batch batch;
        cero_config *config = NULL;
        cero_step_stats stats;
        size_t total = 0;
        equiv_run run = run_of(case_g1(), 1);
        equiv_open(&w, 2, NULL); // a world for each stage: its account has the stage's peaks
        equiv_set(&run, "zero_optimization.stage=%d", s);
        cero_engine *engine = create(&w, &run, &config);
        equiv_fill(engine, &run, 0, &batch);
        assert_ok(cero_engine_train_batch(engine, &batch.batch, &stats));
        for (int c = 0; c < CERO_MEM_COUNT; c++) {
            size_t now;
            size_t peak;
            cero_context_memory(w.context, (cero_mem_category)c, &now, &peak);
            total += peak;
        }
        // The batch is this test's.
        assert_int_equal(total + cero_engine_batch_bytes(engine),
                         cero_engine_get_plan(engine)->total);
        assert_true(s == 0 || total <= before + (1 << 20));
        before = total;
        cero_engine_destroy(&engine);
        cero_config_destroy(&config);
        equiv_close(&w);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cuts),   cmocka_unit_test(test_stages),
        cmocka_unit_test(test_norms),  cmocka_unit_test(test_lamb),
        cmocka_unit_test(test_ranks),  cmocka_unit_test(test_first_weights),
        cmocka_unit_test(test_tied),   cmocka_unit_test(test_clipping),
        cmocka_unit_test(test_frozen), cmocka_unit_test(test_memory),
    };
    return run_in_world(NULL, tests, CERO_COUNT_OF(tests));
}
