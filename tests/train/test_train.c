/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A model learns the next token and not the one after; evaluation is the mean over the held-out data; data that
 * do not fit the model are refused.
 */
#include "train/run_fixture.h"

#include "engine/decoder.h"

#include <math.h>

enum {
    SEQ = 31 /* no divisor of 256: every token stands at every position */
};

/* Sets the flag that ends the run after this step. */
static void stop_when_learnt(void *context, const cero_metrics_step *step)
{
    int *stop = context;

    *stop = step->stats.loss < 0.05;
}

static int32_t likeliest(const float *logits, int64_t count)
{
    int32_t best = 0;

    for (int32_t i = 1; i < count; i++) {
        best = logits[i] > logits[best] ? i : best;
    }
    return best;
}

static cero_decoder *decoder_of(run *r)
{
    cero_decoder *decoder = NULL;
    cero_engine *engine = cero_trainer_engine(r->trainer);
    float *values = cero_new(1 << 16, sizeof(float));

    assert_non_null(values);
    assert_ok(cero_decoder_create(r->world.context,
                                  &(cero_decoder_params){.build = cero_engine_build_model,
                                                         .context = &r->model,
                                                         .cache_len = 32},
                                  &decoder));
    for (int64_t i = 0; i < cero_decoder_param_count(decoder); i++) {
        cero_param_info info = cero_decoder_param_info(decoder, i);
        int64_t n = cero_shape_numel(&info.shape);
        assert_string_equal(info.name, cero_engine_param_info(engine, i).name);
        assert_ok(cero_engine_get_param(engine, i, 0, n, values));
        assert_ok(cero_decoder_set_param(decoder, i, 0, n, values));
    }
    cero_delete(values);
    return decoder;
}

/* DA-08 */
static void test_next_token(void **state)
{
    run r;
    int stop = 0;

    CERO_UNUSED(state);
    run_prepare(&r, case_g1());
    write_counting(files_in(r.dir, "train.u16"), 256 * 62 + 1);
    run_params p = {.sets = (const char *const[]){"train_micro_batch_size_per_gpu=8",
                                                  "optimizer.params.lr=0.004",
                                                  "optimizer.params.weight_decay=0", NULL},
                    .seq_len = SEQ,
                    .steps = 500,
                    .visitor = stop_when_learnt,
                    .visitor_context = &stop};
    assert_ok(run_create(&r, &p));
    assert_ok(cero_trainer_run(r.trainer, &stop));
    assert_int_equal(stop, 1);
    cero_decoder *decoder = decoder_of(&r);
    for (int32_t t = 0; t < 256; t++) {
        const int32_t pair[] = {(t + 255) % 256, t};
        const float *logits = NULL;
        cero_decoder_truncate(decoder, 0);
        assert_ok(cero_decoder_append(decoder, &t, 1, &logits));
        assert_int_equal(likeliest(logits, 256), (t + 1) % 256);
        cero_decoder_truncate(decoder, 0);
        assert_ok(cero_decoder_append(decoder, pair, 2, &logits));
        assert_int_equal(likeliest(logits, 256), (t + 1) % 256);
    }
    cero_decoder_destroy(&decoder);
    run_close(&r);
    run_remove(&r);
}

/* The trainer gives the engine sample k of the stream, targets shifted by one: the bits of doing it by hand. */
static void test_batches(void **state)
{
    static case_batch batch;
    const char *const names[] = {"tokens", "targets"};
    const void *data[] = {batch.tokens, batch.targets};
    run_params p = {.seq_len = SEQ, .steps = 3};
    int64_t count[2];
    run r;
    run by_hand;

    CERO_UNUSED(state);
    run_prepare(&r, case_g1());
    write_counting(files_in(r.dir, "train.u16"), 256 * 8 + 1);
    by_hand = r;
    assert_ok(run_create(&r, &p));
    assert_ok(run_create(&by_hand, &p));
    assert_ok(cero_trainer_run(r.trainer, NULL));
    assert_int_equal(cero_trainer_steps_done(r.trainer), 3);
    for (int64_t i = 0; i < 3; i++) {
        cero_step_stats stats;
        for (int64_t k = 0; k < 2 * SEQ; k++) {
            batch.tokens[k] = (int32_t)((i * 2 * SEQ + k) % 256);
            batch.targets[k] = (int32_t)((i * 2 * SEQ + k + 1) % 256);
        }
        assert_ok(cero_engine_train_batch(
            cero_trainer_engine(by_hand.trainer),
            &(cero_batch){.input_count = 2, .name = names, .data = data, .sample = 2 * i}, &stats));
    }
    float *a = case_weights(cero_trainer_engine(r.trainer), &count[0]);
    float *b = case_weights(cero_trainer_engine(by_hand.trainer), &count[1]);
    assert_memory_equal(a, b, (size_t)count[0] * sizeof(float));
    cero_delete(a);
    cero_delete(b);
    run_close(&by_hand);
    run_close(&r);
    run_remove(&r);
}

/* Mean over 7 windows in batches of 2: the same as batches of 1, and as the rows say by themselves. */
static void test_evaluation(void **state)
{
    double loss[3];
    static case_batch batch;
    const char *const names[] = {"tokens", "targets"};

    CERO_UNUSED(state);
    for (int micro = 1; micro <= 3; micro++) {
        run r;
        char set[64];
        (void)snprintf(set, sizeof(set), "train_micro_batch_size_per_gpu=%d", micro);
        run_prepare(&r, case_g1());
        write_counting(files_in(r.dir, "train.u16"), 500);
        write_counting(files_in(r.dir, "eval.u16"), 7 * SEQ + 5);
        run_params p = {.sets = (const char *const[]){set, NULL}, .seq_len = SEQ, .steps = 1};
        assert_ok(run_create(&r, &p));
        assert_true(isnan(cero_trainer_eval_loss(r.trainer)));
        assert_ok(cero_trainer_evaluate(r.trainer, &loss[micro - 1]));
        if (micro == 1) {
            double total = 0;
            for (int64_t k = 0; k < 7; k++) {
                double sum = 0;
                int64_t rows = 0;
                for (int64_t t = 0; t < SEQ; t++) {
                    batch.tokens[t] = (int32_t)((k * SEQ + t) % 256);
                    batch.targets[t] = (int32_t)((k * SEQ + t + 1) % 256);
                }
                const void *data[] = {batch.tokens, batch.targets};
                assert_ok(cero_engine_eval_batch(
                    cero_trainer_engine(r.trainer),
                    &(cero_batch){.input_count = 2, .name = names, .data = data}, &sum, &rows));
                assert_int_equal(rows, SEQ);
                total += sum;
            }
            assert_true(fabs(loss[0] - total / (7 * SEQ)) <= 1e-12 * loss[0]);
            assert_true(fabs(loss[0] - log(256)) < 0.2);
        }
        assert_true(fabs(loss[micro - 1] - loss[0]) <= 1e-6 * loss[0]);
        assert_ok(cero_trainer_run(r.trainer, NULL));
        assert_false(isnan(cero_trainer_eval_loss(r.trainer))); // at the end, always
        assert_true(cero_trainer_eval_loss(r.trainer) != loss[micro - 1]);
        run_close(&r);
        run_remove(&r);
    }
}

/* DA-04, and evaluation data that are too short. */
static void test_too_short(void **state)
{
    run r;
    run_params p = {.seq_len = 32, .steps = 1, .out = "run"};

    CERO_UNUSED(state);
    run_prepare(&r, case_g1());
    write_counting(files_in(r.dir, "train.u16"), 20);
    assert_fails(run_create(&r, &p), CERO_ERR_INVALID, "training data: ");
    assert_non_null(strstr(cero_error_message(), "20"));
    assert_non_null(strstr(cero_error_message(), "33"));
    run_close(&r);
    write_counting(files_in(r.dir, "train.u16"), 33);
    write_counting(files_in(r.dir, "eval.u16"), 32);
    assert_fails(run_create(&r, &p), CERO_ERR_INVALID, "evaluation data: ");
    run_close(&r);
    // One epoch is less than a step, and no number of steps is given.
    write_counting(files_in(r.dir, "eval.u16"), 33);
    p.steps = 0;
    assert_fails(run_create(&r, &p), CERO_ERR_INVALID, "one epoch is 1 samples of 32 tokens");
    assert_int_equal(cero_file_stat(files_in(r.dir, "run"), NULL), CERO_FILE_ABSENT);
    run_close(&r);
    run_remove(&r);
}

/* TK-18: an id the model does not have ends the run with file, offset, id and vocabulary. */
static void test_ids_outside(void **state)
{
    run r;
    int32_t ids[200];

    CERO_UNUSED(state);
    run_prepare(&r, case_g1());
    for (int i = 0; i < 200; i++) {
        ids[i] = i == 150 ? 256 : i;
    }
    write_tokens(files_in(r.dir, "train.u16"), ids, 200);
    run_params p = {.seq_len = 16, .steps = 6};
    assert_ok(run_create(&r, &p));
    assert_fails(cero_trainer_run(r.trainer, NULL), CERO_ERR_CORRUPT, "train.u16");
    assert_non_null(strstr(cero_error_message(), "300")); // the byte offset
    assert_non_null(strstr(cero_error_message(), "256"));
    assert_int_equal(cero_trainer_steps_done(r.trainer), 4);
    run_close(&r);
    run_remove(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_next_token),  cmocka_unit_test(test_batches),
        cmocka_unit_test(test_evaluation),  cmocka_unit_test(test_too_short),
        cmocka_unit_test(test_ids_outside),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
