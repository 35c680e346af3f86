/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The loop of train.h. Order of a step: read the batch, train, evaluate if due, write metrics, tell the
 * monitors, the visitor and the log. How weights come in and go out is in train_weights.c.
 */
#include "train/train_impl.h"

#include "base/clock.h"
#include "base/exact.h"
#include "base/fault.h"
#include "base/file.h"
#include "base/log.h"
#include "train/flops_report.h"
#include "train/same.h"

#include <math.h>
#include <string.h>

static const char *const input_names[] = {"tokens", "targets"};

static cero_status choose_steps(cero_trainer *trainer)
{
    const cero_lr_schedule_spec *schedule =
        &cero_train_config_spec(trainer->params.config)->scheduler;
    int64_t batch = cero_engine_global_batch(trainer->engine);
    int64_t samples = cero_sampler_count(trainer->sampler);

    trainer->steps = trainer->params.steps;
    if (trainer->steps == 0 &&
        (schedule->type == CERO_LR_WARMUP_DECAY || schedule->type == CERO_LR_WARMUP_COSINE)) {
        trainer->steps = schedule->total_num_steps;
    }
    if (trainer->steps == 0) {
        trainer->steps = samples / batch;
    }
    CERO_CHECK(trainer->steps > 0, CERO_ERR_INVALID,
               "one epoch is %lld samples of %lld tokens and a step takes %lld: give more data, a "
               "smaller train_batch_size or sequence, or --steps",
               (long long)samples, (long long)trainer->seq_len, (long long)batch);
    return CERO_OK;
}

/* One block for the tokens and the targets of a step: what the plan calls the batch. */
static cero_status allocate_batch(cero_trainer *trainer)
{
    size_t nbytes = cero_engine_batch_bytes(trainer->engine);

    CERO_TRY(cero_mem_alloc(trainer->params.context->mem, nbytes, CERO_MEM_IO,
                            "tokens and targets of a step", (void **)&trainer->tokens));
    trainer->targets = trainer->tokens + nbytes / sizeof(int32_t) / 2;
    return CERO_OK;
}

static cero_status create_samplers(cero_trainer *trainer)
{
    const cero_trainer_params *p = &trainer->params;
    cero_sampler_params params = {.seq_len = trainer->seq_len,
                                  .order = p->order,
                                  .seed = cero_train_config_spec(p->config)->seed};
    cero_status st = cero_sampler_create(p->data, &params, &trainer->sampler);

    if (st != CERO_OK) {
        return cero_error_prefix(st, "training data: ");
    }
    if (p->eval_data == NULL) {
        return CERO_OK;
    }
    params.order = CERO_SAMPLER_SEQUENTIAL;
    st = cero_sampler_create(p->eval_data, &params, &trainer->eval_sampler);
    return st == CERO_OK ? st : cero_error_prefix(st, "evaluation data: ");
}

static cero_status begin_report(cero_trainer *trainer)
{
    cero_step_report_params params = {.spec = cero_train_config_spec(trainer->params.config),
                                      .comm = trainer->params.context->comm};

    cero_engine_zero_cost(trainer->engine, &params.cost);
    return cero_step_report_begin(&trainer->report, &params);
}

/* Data that hold no sample are found before anything is compiled. */
static cero_status check_length(const cero_trainer_params *params, cero_token_stream *stream,
                                const char *what)
{
    int64_t seq_len = params->seq_len > 0 ? params->seq_len : params->model->context;
    cero_sampler *sampler = NULL;
    cero_status st =
        cero_sampler_create(stream, &(cero_sampler_params){.seq_len = seq_len}, &sampler);

    cero_sampler_destroy(&sampler);
    return st == CERO_OK ? st : cero_error_prefix(st, "%s data: ", what);
}

static cero_status check_lengths(const cero_trainer_params *params)
{
    CERO_TRY(check_length(params, params->data, "training"));
    return params->eval_data == NULL ? CERO_OK
                                     : check_length(params, params->eval_data, "evaluation");
}

cero_status cero_trainer_check_options(const cero_trainer_params *params)
{
    return cero_same_options(params);
}

cero_status cero_trainer_check_data(const cero_trainer_params *params)
{
    cero_comm *comm = params->context->comm;

    CERO_TRY(cero_comm_agree(comm, check_lengths(params)));
    CERO_TRY(cero_same_data(comm, params->data, "training"));
    return params->eval_data == NULL ? CERO_OK
                                     : cero_same_data(comm, params->eval_data, "evaluation");
}

/* What needs no other rank. */
static cero_status plan_run(cero_trainer *trainer)
{
    CERO_TRY(choose_steps(trainer));
    CERO_TRY(begin_report(trainer));
    return allocate_batch(trainer);
}

cero_status cero_trainer_create(const cero_trainer_params *params, cero_trainer **out)
{
    cero_comm *comm = params->context->comm;
    cero_status st = CERO_OK;
    cero_trainer *trainer = cero_new(1, sizeof(*trainer));

    if (trainer == NULL) {
        return CERO_FAIL(CERO_ERR_NOMEM, "no memory for a trainer");
    }
    trainer->params = *params;
    trainer->seq_len = params->seq_len > 0 ? params->seq_len : params->model->context;
    trainer->eval_loss = (double)NAN;
    cero_engine_params engine = {.build = cero_engine_build_model,
                                 .context = params->model,
                                 .seq_len = trainer->seq_len,
                                 .no_eval = params->eval_data == NULL};
    CERO_TRY_GOTO(cero_comm_agree(comm, create_samplers(trainer)), fail);
    CERO_TRY_GOTO(cero_engine_create(params->context, params->config, &engine, &trainer->engine),
                  fail);
    CERO_TRY_GOTO(cero_comm_agree(comm, plan_run(trainer)), fail);
    *out = trainer;
    return CERO_OK;

fail:
    cero_trainer_destroy(&trainer);
    return st;
}

void cero_trainer_destroy(cero_trainer **trainer)
{
    if (trainer == NULL || *trainer == NULL) {
        return;
    }
    cero_trainer *t = *trainer;
    cero_metrics_close(&t->metrics);
    cero_monitors_close(&t->monitors);
    cero_comms_report_end(&t->comms);
    cero_step_report_end(&t->report);
    cero_mem_free(t->params.context->mem, t->tokens);
    cero_engine_destroy(&t->engine);
    cero_sampler_destroy(&t->eval_sampler);
    cero_sampler_destroy(&t->sampler);
    cero_delete(t);
    *trainer = NULL;
}

static cero_status open_files(cero_trainer *trainer)
{
    const char *out = trainer->params.out;
    char *path = cero_file_join(out, "metrics.jsonl");

    CERO_CHECK(path != NULL, CERO_ERR_NOMEM, "no memory for a path in %s", out);
    cero_file_kind kind = cero_file_stat(path, NULL);
    cero_delete(path);
    CERO_CHECK(kind == CERO_FILE_ABSENT, CERO_ERR_INVALID,
               "%s holds the metrics.jsonl of an earlier run; choose another directory or remove "
               "that run",
               out);
    CERO_TRY(cero_file_make_dir(out));
    // Metrics come last: their file makes a directory that of a run.
    if (trainer->monitors == NULL) {
        cero_monitors_params params = {.spec = cero_train_config_spec(trainer->params.config),
                                       .out = out,
                                       .has_eval = trainer->eval_sampler != NULL};
        CERO_TRY(cero_monitors_open(&params, &trainer->monitors));
    }
    return cero_metrics_open(out, &trainer->metrics);
}

cero_status cero_trainer_open_files(cero_trainer *trainer)
{
    cero_comm *comm = trainer->params.context->comm;

    if (trainer->params.out == NULL || trainer->has_files) {
        return CERO_OK;
    }
    // One rank writes for all.
    CERO_TRY(cero_comm_agree(comm, cero_comm_rank(comm) == 0 ? open_files(trainer) : CERO_OK));
    trainer->has_files = true;
    return CERO_OK;
}

int64_t cero_trainer_steps(const cero_trainer *trainer)
{
    return trainer->steps;
}

cero_engine *cero_trainer_engine(cero_trainer *trainer)
{
    return trainer->engine;
}

int64_t cero_trainer_epoch_samples(const cero_trainer *trainer)
{
    return cero_sampler_count(trainer->sampler);
}

int64_t cero_trainer_unused_tokens(const cero_trainer *trainer)
{
    return cero_sampler_unused_tokens(trainer->sampler);
}

int cero_trainer_stopped_by(const cero_trainer *trainer)
{
    return trainer->stopped_by;
}

int64_t cero_trainer_steps_done(const cero_trainer *trainer)
{
    return trainer->done;
}

double cero_trainer_eval_loss(const cero_trainer *trainer)
{
    return trainer->eval_loss;
}

/* This rank's micro-batches of the step whose first sample is `first`. */
static cero_status read_batch(cero_trainer *trainer, int64_t first)
{
    int64_t micro_batch = cero_engine_micro_batch(trainer->engine);
    int64_t samples = micro_batch * cero_engine_micro_batch_count(trainer->engine);

    for (int64_t s = 0; s < samples; s++) {
        int64_t sample = first + s % micro_batch +
                         cero_engine_micro_batch_sample(trainer->engine, s / micro_batch);
        CERO_TRY(cero_sampler_get(trainer->sampler, sample, trainer->tokens + s * trainer->seq_len,
                                  trainer->targets + s * trainer->seq_len));
    }
    return CERO_OK;
}

/* A micro-batch of evaluation windows from `first` on, rows that do not count where there are none. */
static cero_status read_eval_batch(cero_trainer *trainer, int64_t first)
{
    int64_t count = cero_sampler_count(trainer->eval_sampler);

    for (int64_t s = 0; s < cero_engine_micro_batch(trainer->engine); s++) {
        int32_t *targets = trainer->targets + s * trainer->seq_len;
        int64_t at = first + s < count ? first + s : count - 1;
        CERO_TRY(cero_sampler_get(trainer->eval_sampler, at, trainer->tokens + s * trainer->seq_len,
                                  targets));
        for (int64_t t = 0; first + s >= count && t < trainer->seq_len; t++) {
            targets[t] = -1;
        }
    }
    return CERO_OK;
}

/* Ranks take micro-batches in turn, and all run equally many: gathers need every rank. */
static cero_status evaluate(cero_trainer *trainer, cero_exact *sum, int64_t *rows)
{
    const cero_comm *comm = trainer->params.context->comm;
    int64_t micro_batch = cero_engine_micro_batch(trainer->engine);
    int64_t count = cero_sampler_count(trainer->eval_sampler);
    const void *data[] = {trainer->tokens, trainer->targets};
    cero_batch batch = {.input_count = 2, .name = input_names, .data = data};

    for (int64_t first = 0; first < count; first += micro_batch * cero_comm_size(comm)) {
        CERO_TRY(read_eval_batch(trainer, first + micro_batch * cero_comm_rank(comm)));
        CERO_TRY(cero_engine_eval_add(trainer->engine, &batch, sum, rows));
    }
    return CERO_OK;
}

cero_status cero_trainer_evaluate(cero_trainer *trainer, double *loss)
{
    cero_comm *comm = trainer->params.context->comm;
    int64_t rows = 0;
    cero_exact sum;

    CERO_CHECK(trainer->eval_sampler != NULL, CERO_ERR_INVALID, "no evaluation data was given");
    cero_comm_note(comm, "evaluation after step", trainer->done);
    cero_fault_at("evaluate");
    cero_exact_clear(&sum);
    CERO_TRY(cero_comm_fail(comm, evaluate(trainer, &sum, &rows)));
    CERO_TRY(cero_comm_all_reduce_exact(comm, &sum, 1));
    CERO_TRY(cero_comm_all_reduce_i64(comm, CERO_COMM_SUM, &rows, 1));
    *loss = cero_exact_round(&sum) / (double)rows;
    return CERO_OK;
}

/* A signal may reach one rank alone: all end at the same step. */
static cero_status agree_stop(cero_trainer *trainer, const volatile int *stop)
{
    int64_t value = stop != NULL ? *stop : 0;

    CERO_TRY(cero_comm_all_reduce_i64(trainer->params.context->comm, CERO_COMM_MAX, &value, 1));
    trainer->stopped_by = (int)value;
    return CERO_OK;
}

static bool is_eval_due(const cero_trainer *trainer, bool is_last)
{
    int64_t every = trainer->params.eval_every;

    return trainer->eval_sampler != NULL && (is_last || (every > 0 && trainer->done % every == 0));
}

/* What the step sent, and what no phase took of its time. */
static void count_sent(const cero_trainer *trainer, const cero_comm_counter *before,
                       cero_metrics_step *step)
{
    cero_comm_counter now = cero_comm_get_total(trainer->params.context->comm);
    const cero_step_stats *t = &step->stats;
    double other = step->step_seconds - step->seconds_data - t->seconds_forward -
                   t->seconds_backward - t->seconds_exchange - t->seconds_update;

    step->bytes_sent = now.bytes - before->bytes;
    step->messages_sent = now.messages - before->messages;
    step->bytes_between_nodes = now.bytes_between_nodes - before->bytes_between_nodes;
    step->seconds_other = other > 0 ? other : 0;
}

static cero_status run_step(cero_trainer *trainer, const volatile int *stop,
                            cero_metrics_step *step)
{
    int64_t batch_size = cero_engine_global_batch(trainer->engine);
    int64_t first = trainer->done * batch_size;
    cero_comm_counter before = cero_comm_get_total(trainer->params.context->comm);
    double start = cero_clock_now();

    *step = (cero_metrics_step){0};
    // A rank that cannot read tells the others, which are on their way into the step.
    CERO_TRY(cero_comm_fail(trainer->params.context->comm, read_batch(trainer, first)));
    step->seconds_data = cero_clock_now() - start;
    const void *data[] = {trainer->tokens, trainer->targets};
    cero_batch batch = {.input_count = 2, .name = input_names, .data = data, .sample = first};
    CERO_TRY(cero_engine_train_batch(trainer->engine, &batch, &step->stats));
    step->step_seconds = cero_clock_now() - start;
    trainer->done++;
    step->samples = first + batch_size;
    step->step_tokens = batch_size * trainer->seq_len;
    step->tokens = step->samples * trainer->seq_len;
    count_sent(trainer, &before, step);
    CERO_TRY(agree_stop(trainer, stop));
    bool is_last = trainer->done == trainer->steps || trainer->stopped_by != 0;
    if (is_eval_due(trainer, is_last)) {
        CERO_TRY(cero_trainer_evaluate(trainer, &trainer->eval_loss));
        step->has_eval = true;
        step->eval_loss = trainer->eval_loss;
    }
    for (int c = 0; c < CERO_MEM_COUNT; c++) {
        size_t current = 0;
        cero_context_memory(trainer->params.context, (cero_mem_category)c, &current,
                            &step->memory[c]);
    }
    return CERO_OK;
}

/* Everyone who wants to know of a finished step. */
static cero_status tell(cero_trainer *trainer, const cero_metrics_step *step)
{
    if (trainer->metrics != NULL) {
        CERO_TRY(cero_metrics_write(trainer->metrics, step));
    }
    if (trainer->monitors != NULL) {
        CERO_TRY(cero_monitors_write(trainer->monitors, step));
    }
    if (trainer->params.visitor != NULL) {
        trainer->params.visitor(trainer->params.visitor_context, step);
    }
    return cero_step_report_add(&trainer->report, step);
}

static bool is_speaker(const cero_trainer *trainer)
{
    return cero_comm_rank(trainer->params.context->comm) == 0;
}

/* What is done before the first step, once. */
static cero_status begin(cero_trainer *trainer)
{
    const cero_train_spec *spec = cero_train_config_spec(trainer->params.config);

    if (trainer->params.is_profiling) {
        CERO_TRY(cero_engine_profile_begin(trainer->engine));
    }
    if (!trainer->has_begun && spec->dump_state && is_speaker(trainer)) {
        CERO_TRY(cero_step_report_config(trainer->params.config));
    }
    trainer->has_begun = true;
    return cero_comms_report_begin(spec, trainer->params.context->comm, &trainer->comms);
}

/* True when the next step is that of `flops_profiler`. */
static bool is_profile_due(const cero_trainer *trainer)
{
    const cero_train_spec *spec = cero_train_config_spec(trainer->params.config);

    return spec->flops_profiler_enabled && is_speaker(trainer) &&
           trainer->done + 1 == spec->flops_profiler_profile_step;
}

static cero_status report_profile(cero_trainer *trainer, const cero_metrics_step *step)
{
    const cero_comm *comm = trainer->params.context->comm;
    cero_flops_report_params params = {.spec = cero_train_config_spec(trainer->params.config),
                                       .engine = trainer->engine,
                                       .step = step,
                                       .model = trainer->params.model->name,
                                       .rank = cero_comm_rank(comm),
                                       .size = cero_comm_size(comm)};

    if (!trainer->params.is_profiling) {
        cero_engine_profile_end(trainer->engine);
    }
    return cero_flops_report_deliver(&params);
}

static cero_status run_steps(cero_trainer *trainer, const volatile int *stop)
{
    cero_metrics_step step;

    CERO_TRY(agree_stop(trainer, stop));
    while (trainer->done < trainer->steps && trainer->stopped_by == 0) {
        bool is_profiled = is_profile_due(trainer);
        if (is_profiled && !trainer->params.is_profiling) {
            CERO_TRY(cero_engine_profile_begin(trainer->engine));
        }
        CERO_TRY(run_step(trainer, stop, &step));
        if (is_profiled) {
            CERO_TRY(report_profile(trainer, &step));
        }
        CERO_TRY(tell(trainer, &step));
    }
    return CERO_OK;
}

static cero_status report_comms(const cero_trainer *trainer)
{
    cero_text text = {0};
    cero_status st = cero_comms_report_write(trainer->comms, &text);

    if (st == CERO_OK) {
        cero_step_report_lines(text.data);
    }
    cero_text_cleanup(&text);
    return st;
}

cero_status cero_trainer_run(cero_trainer *trainer, const volatile int *stop)
{
    CERO_TRY(begin(trainer));
    cero_status st = run_steps(trainer, stop);
    if (st == CERO_OK && trainer->comms != NULL && is_speaker(trainer)) {
        st = report_comms(trainer);
    }
    cero_comms_report_end(&trainer->comms);
    return st;
}
