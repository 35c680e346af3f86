/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A trainer from its parts to its files. The loop is in train_loop.c; how weights come in and go out in
 * train_weights.c, checkpoints in train_save.c and train_resume.c.
 */
#include "train/train_impl.h"

#include "base/file.h"
#include "base/log.h"
#include "train/same.h"

#include <math.h>

/* Also when a run goes on: its step and position are then those of the checkpoint. */
cero_status cero_trainer_choose_steps(cero_trainer *trainer)
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
    if (trainer->steps == 0 && trainer->position < samples) {
        trainer->steps = trainer->done + (samples - trainer->position) / batch;
    } else if (trainer->steps == 0) {
        trainer->steps = trainer->done; // its epoch is over
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
    CERO_TRY(cero_trainer_choose_steps(trainer));
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
    if (params->out != NULL) {
        trainer->checkpoints = cero_file_join(params->out, "checkpoints");
    }
    cero_status named = params->out != NULL && trainer->checkpoints == NULL
                            ? CERO_FAIL(CERO_ERR_NOMEM, "no memory for a path in %s", params->out)
                            : CERO_OK;
    cero_engine_params engine = {.build = cero_engine_build_model,
                                 .context = params->model,
                                 .seq_len = trainer->seq_len,
                                 .no_eval = params->eval_data == NULL};
    named = named == CERO_OK ? create_samplers(trainer) : named;
    CERO_TRY_GOTO(cero_comm_agree(comm, named), fail);
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
    cero_saver_destroy(&t->saver);
    cero_metrics_close(&t->metrics);
    cero_monitors_close(&t->monitors);
    cero_comms_report_end(&t->comms);
    cero_step_report_end(&t->report);
    cero_mem_free(t->params.context->mem, t->tokens);
    cero_engine_destroy(&t->engine);
    cero_sampler_destroy(&t->eval_sampler);
    cero_sampler_destroy(&t->sampler);
    cero_folder_lock_release(&t->lock);
    cero_text_cleanup(&t->resumed_line);
    cero_text_cleanup(&t->save_error);
    cero_delete(t->checkpoints);
    cero_delete(t);
    *trainer = NULL;
}

/* A step whose line did not get into the file before the process was killed has it in its checkpoint. */
static cero_status restore_line(cero_trainer *trainer, int64_t last)
{
    const cero_text *line = &trainer->resumed_line;

    if (last < trainer->done - (line->length > 0 ? 1 : 0)) {
        cero_log(CERO_LOG_WARN, "train",
                 "%s/metrics.jsonl ends at step %lld: it has no lines up to step %lld, from which "
                 "the run goes on",
                 trainer->params.out, (long long)last, (long long)trainer->done);
    }
    if (last < trainer->done && line->length > 0) {
        return cero_metrics_append(trainer->metrics, line->data, line->length);
    }
    return CERO_OK;
}

static cero_status open_files(cero_trainer *trainer)
{
    const char *out = trainer->params.out;
    bool goes_on = trainer->params.resume != CERO_RESUME_NEVER;
    int64_t last = 0;

    // Metrics come last: their file makes a directory that of a run.
    if (trainer->monitors == NULL) {
        cero_monitors_params params = {.spec = cero_train_config_spec(trainer->params.config),
                                       .out = out,
                                       .has_eval = trainer->eval_sampler != NULL,
                                       .is_resumed = goes_on && trainer->had_run,
                                       .samples = trainer->samples};
        CERO_TRY(cero_monitors_open(&params, &trainer->monitors));
    }
    if (goes_on) {
        CERO_TRY(cero_metrics_cut(out, trainer->done, &last));
    }
    CERO_TRY(cero_metrics_open(out, &trainer->metrics));
    return goes_on ? restore_line(trainer, last) : CERO_OK;
}

cero_status cero_trainer_open_files(cero_trainer *trainer)
{
    cero_comm *comm = trainer->params.context->comm;

    if (trainer->params.out == NULL || trainer->has_files) {
        return CERO_OK;
    }
    CERO_TRY(cero_trainer_resume(trainer));
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

int64_t cero_trainer_position(const cero_trainer *trainer)
{
    return trainer->position;
}

int64_t cero_trainer_unused_tokens(const cero_trainer *trainer)
{
    return cero_sampler_unused_tokens(trainer->sampler);
}

int cero_trainer_stopped_by(const cero_trainer *trainer)
{
    return trainer->stopped_by;
}

const char *cero_trainer_resumed_from(const cero_trainer *trainer)
{
    return trainer->resumed_tag[0] != '\0' ? trainer->resumed_tag : NULL;
}

const char *cero_trainer_save_error(const cero_trainer *trainer)
{
    return trainer->save_error.length > 0 ? trainer->save_error.data : NULL;
}

int64_t cero_trainer_steps_done(const cero_trainer *trainer)
{
    return trainer->done;
}

double cero_trainer_eval_loss(const cero_trainer *trainer)
{
    return trainer->eval_loss;
}
