/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Times training steps against matrix products in one process, alternating, so that the ratio means something
 * on a machine that others use too.
 */
#include "engine/bench.h"

#include "base/clock.h"
#include "base/rng.h"
#include "device/bench.h"
#include "engine/engine.h"

#include <stdio.h>
#include <stdlib.h>

enum {
    WARM_UP = 2,
    MAX_STEPS = 101
};

typedef struct step_bench {
    const cero_engine_bench_params *params;
    const cero_engine_bench_step_params *step;
    cero_context *context;
    cero_config *config;
    cero_engine *engine;
    int32_t *tokens; /* [micro_batch * seq_len + 1]: inputs, and shifted by one the targets */
    int64_t rows;
    int64_t count;
    double seconds[MAX_STEPS];
    double update[MAX_STEPS];
    double gemm[MAX_STEPS];
    double ratio[MAX_STEPS];
} step_bench;

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static double median(double *values, int64_t count)
{
    qsort(values, (size_t)count, sizeof(*values), compare);
    return values[count / 2];
}

static cero_status create(step_bench *b)
{
    char micro_batch[64];
    const char *overrides[] = {micro_batch,
                               "optimizer.type=AdamW",
                               "optimizer.params.lr=0.0001",
                               "optimizer.params.weight_decay=0.1",
                               "gradient_clipping=1.0",
                               b->params->dtype == CERO_DTYPE_F16 ? "fp16.enabled=true"
                                                                  : "bf16.enabled=true"};
    int count = b->params->dtype == CERO_DTYPE_F32 ? 5 : 6;

    (void)snprintf(micro_batch, sizeof(micro_batch), "train_micro_batch_size_per_gpu=%lld",
                   (long long)b->step->micro_batch);
    CERO_TRY(
        cero_context_create(&(cero_context_params){.threads = b->params->threads}, &b->context));
    CERO_TRY(cero_config_create(b->context, NULL, overrides, count, &b->config));
    CERO_TRY(cero_engine_create(b->context, b->config,
                                &(cero_engine_params){.build = cero_engine_build_model,
                                                      .context = b->step->model,
                                                      .seq_len = b->step->seq_len,
                                                      .no_eval = true},
                                &b->engine));
    b->rows = b->step->micro_batch * b->step->seq_len;
    b->tokens = cero_new((size_t)b->rows + 1, sizeof(*b->tokens));
    CERO_CHECK(b->tokens != NULL, CERO_ERR_NOMEM, "no memory for %lld tokens", (long long)b->rows);
    cero_rng_key key = cero_rng_make_key(1, CERO_RNG_TEST, 0, 0);
    for (int64_t i = 0; i <= b->rows; i++) {
        b->tokens[i] = (int32_t)(cero_rng_word(key, 0, (uint64_t)i) % b->step->model->vocab_size);
    }
    return CERO_OK;
}

static cero_status measure(step_bench *b, int64_t i, double *flops)
{
    const char *names[] = {"tokens", "targets"};
    const void *data[] = {b->tokens, b->tokens + 1};
    cero_batch batch = {.input_count = 2, .name = names, .data = data};
    cero_matmul_desc product = {
        .M = 1024, .N = 3072, .K = 768, .ab_dtype = b->params->dtype, .c_dtype = b->params->dtype};
    cero_step_stats stats;
    double start = cero_clock_now();

    CERO_TRY(cero_engine_train_batch(b->engine, &batch, &stats));
    b->seconds[i] = cero_clock_now() - start;
    b->update[i] = stats.seconds_update;
    double limit = b->params->seconds > 0 ? b->params->seconds : 0.3;
    CERO_TRY(cero_device_bench_gemm(cero_context_device(b->context), &product, limit, &b->gemm[i]));
    b->ratio[i] = stats.model_flops / b->seconds[i] / b->gemm[i];
    *flops = stats.model_flops;
    return CERO_OK;
}

static cero_status run(step_bench *b, cero_engine_bench_step_result *out)
{
    double flops = 0;

    CERO_TRY(create(b));
    for (int64_t i = 0; i < WARM_UP; i++) {
        CERO_TRY(measure(b, 0, &flops));
    }
    for (int64_t i = 0; i < b->count; i++) {
        CERO_TRY(measure(b, i, &flops));
    }
    out->step_seconds = median(b->seconds, b->count);
    out->update_seconds = median(b->update, b->count);
    out->tokens_per_second = (double)b->rows / out->step_seconds;
    out->model_flops_per_second = flops / out->step_seconds;
    out->gemm_flops_per_second = median(b->gemm, b->count);
    out->ratio = median(b->ratio, b->count);
    out->ratio_min = b->ratio[0];
    out->ratio_max = b->ratio[b->count - 1];
    return CERO_OK;
}

cero_status cero_engine_bench_step(const cero_engine_bench_params *params,
                                   const cero_engine_bench_step_params *step,
                                   cero_engine_bench_step_result *out)
{
    step_bench *b = cero_new(1, sizeof(*b));

    CERO_CHECK(b != NULL, CERO_ERR_NOMEM, "no memory for a benchmark");
    b->params = params;
    b->step = step;
    b->count = step->steps > 0 ? step->steps : 5;
    b->count = b->count < MAX_STEPS ? b->count : MAX_STEPS;
    cero_status st = run(b, out);
    cero_delete(b->tokens);
    cero_engine_destroy(&b->engine);
    cero_config_destroy(&b->config);
    cero_context_destroy(&b->context);
    cero_delete(b);
    return st;
}
