/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The loop of train.h. Order of a step: read the batch, train, evaluate if due, tell the monitors, save if due, write
 * metrics, tell the visitor and the log. What a save is: train_save.c.
 */
#include "train/train_impl.h"

#include "base/clock.h"
#include "base/exact.h"
#include "base/fault.h"
#include "train/flops_report.h"

#include <signal.h>

static const char *const input_names[] = {"tokens", "targets"};

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

static bool is_last(const cero_trainer *trainer)
{
    return trainer->done >= trainer->steps || trainer->stopped_by != 0;
}

/* A run that is asked to leave and go on later leaves no trace in its metrics of where that was. */
static bool is_eval_due(const cero_trainer *trainer)
{
    int64_t every = trainer->params.eval_every;
    bool leaves = trainer->stopped_by == SIGTERM || trainer->stopped_by == SIGUSR1;
    bool is_end = trainer->done >= trainer->steps || (trainer->stopped_by != 0 && !leaves);

    return trainer->eval_sampler != NULL && (is_end || (every > 0 && trainer->done % every == 0));
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

/* What the step has used. */
static void count_step(cero_trainer *trainer, cero_metrics_step *step)
{
    int64_t batch_size = cero_engine_global_batch(trainer->engine);

    step->step_tokens = batch_size * trainer->seq_len;
    trainer->done++;
    trainer->position += batch_size;
    trainer->samples += batch_size;
    trainer->tokens_used += step->step_tokens;
    step->samples = trainer->samples;
    step->tokens = trainer->tokens_used;
}

static cero_status run_step(cero_trainer *trainer, const volatile int *stop,
                            cero_metrics_step *step)
{
    int64_t first = trainer->position;
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
    count_step(trainer, step);
    count_sent(trainer, &before, step);
    CERO_TRY(agree_stop(trainer, stop));
    if (is_eval_due(trainer)) {
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

/*
 * Everyone who wants to know of a finished step. Metrics come after the save, whose seconds they have: a process
 * that is killed between finds the line again in the checkpoint.
 */
static cero_status tell(cero_trainer *trainer, cero_metrics_step *step)
{
    if (trainer->monitors != NULL) {
        CERO_TRY(cero_monitors_write(trainer->monitors, step));
    }
    cero_status saved = cero_trainer_save_after(trainer, step, is_last(trainer));
    if (trainer->metrics != NULL) {
        CERO_TRY(cero_metrics_write(trainer->metrics, step));
    }
    if (trainer->params.visitor != NULL) {
        trainer->params.visitor(trainer->params.visitor_context, step);
    }
    CERO_TRY(saved);
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

    CERO_TRY(cero_trainer_open_files(trainer));
    CERO_TRY(cero_trainer_begin_saves(trainer));
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
