/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When a run saves, and what happens when it cannot. What goes into a checkpoint besides the engine is decided here;
 * how it gets to the disk is train/checkpoint/saver.h.
 */
#include "train/train_impl.h"

#include "base/clock.h"
#include "base/log.h"
#include "train/same.h"

#include <stdio.h>
#include <string.h>

enum {
    SECTIONS = 3
};

/* The sections that are the trainer's, on rank 0. */
typedef struct save_texts {
    cero_text train;
    cero_text model;
    cero_text metrics;
} save_texts;

static bool is_speaker(const cero_trainer *trainer)
{
    return cero_comm_rank(trainer->params.context->comm) == 0;
}

cero_status cero_trainer_know_data(cero_trainer *trainer)
{
    const cero_trainer_params *p = &trainer->params;

    if (trainer->has_data_hash) {
        return CERO_OK;
    }
    trainer->data = (cero_run_data){.order = p->order,
                                    .seed = cero_train_config_spec(p->config)->seed,
                                    .seq_len = trainer->seq_len,
                                    .token_count = cero_token_stream_count(p->data)};
    CERO_TRY(cero_same_data_hash(p->data, &trainer->data.token_hash));
    trainer->has_data_hash = true;
    return CERO_OK;
}

static bool is_background(const cero_trainer *trainer)
{
    return cero_train_config_spec(trainer->params.config)->checkpoint_background;
}

static cero_status need_saver(cero_trainer *trainer)
{
    cero_saver_params params = {.dir = trainer->checkpoints,
                                .run = trainer->run,
                                .keep = trainer->params.keep,
                                .is_background = is_background(trainer)};

    return trainer->saver != NULL ? CERO_OK
                                  : cero_saver_create(trainer->engine, &params, &trainer->saver);
}

cero_status cero_trainer_begin_saves(cero_trainer *trainer)
{
    cero_comm *comm = trainer->params.context->comm;

    if (trainer->params.out == NULL) {
        return CERO_OK;
    }
    if (trainer->params.save_every > 0) {
        CERO_TRY(cero_comm_agree(comm, cero_trainer_know_data(trainer)));
    }
    // The copy of a save in the background is planned memory, also for the one save of a signal; the rest costs little.
    return is_background(trainer) ? need_saver(trainer) : CERO_OK;
}

static cero_status write_texts(cero_trainer *trainer, const cero_metrics_step *step,
                               save_texts *texts)
{
    cero_run_state state = {.samples = trainer->samples,
                            .tokens = trainer->tokens_used,
                            .position = trainer->position,
                            .steps = trainer->steps,
                            .eval_loss = trainer->eval_loss};
    int64_t sample = 0;

    CERO_TRY(cero_trainer_know_data(trainer));
    state.data = trainer->data;
    cero_sampler_locate(trainer->sampler, trainer->position, &state.epoch, &sample);
    CERO_TRY(cero_run_state_write(&state, &texts->train));
    CERO_TRY(cero_model_spec_write_json(trainer->params.model, CERO_DTYPE_F32, &texts->model));
    CERO_TRY(cero_metrics_format(step, &texts->metrics));
    // Lines of the steps before are on the disk when the checkpoint is: it has that of its own.
    return trainer->metrics != NULL ? cero_metrics_sync(trainer->metrics) : CERO_OK;
}

static cero_status begin_save(cero_trainer *trainer, const cero_metrics_step *step,
                              save_texts *texts, cero_saver_stats *stats)
{
    cero_status st = is_speaker(trainer) ? write_texts(trainer, step, texts) : CERO_OK;

    CERO_TRY(cero_comm_agree(trainer->params.context->comm, st));
    const cero_manifest_section sections[SECTIONS] = {
        {.name = "train", .json = texts->train.data},
        {.name = "model", .json = texts->model.data},
        {.name = "metrics", .json = texts->metrics.data},
    };
    CERO_TRY(need_saver(trainer));
    return cero_saver_begin(trainer->saver, NULL, sections, SECTIONS, stats);
}

/* A save has ended: *step says so, or save_error why not. */
static cero_status note_end(cero_trainer *trainer, cero_status st, const cero_saver_stats *stats,
                            cero_metrics_step *step)
{
    if (st == CERO_OK) {
        if (stats->is_committed) {
            trainer->save_error.length = 0;
            trainer->saved_step = stats->step;
            step->saved_step = stats->step;
        }
        return CERO_OK;
    }
    if (st == CERO_ERR_COMM || trainer->params.stops_on_save_error) {
        return st;
    }
    trainer->save_error.length = 0;
    cero_text_printf(&trainer->save_error, "%s", cero_error_message());
    if (is_speaker(trainer)) {
        cero_log(CERO_LOG_WARN, "train", "step %lld: the checkpoint could not be saved: %s",
                 (long long)trainer->done, cero_error_message());
    }
    return CERO_OK;
}

/* Waits for a save in the background; without one there is nothing to do. */
static cero_status finish_save(cero_trainer *trainer, cero_metrics_step *step)
{
    cero_saver_stats stats = {0};
    bool has_ended = false;

    if (trainer->saver == NULL || !cero_saver_is_busy(trainer->saver)) {
        return CERO_OK;
    }
    cero_status st = cero_saver_wait(trainer->saver, &has_ended, &stats);
    return note_end(trainer, st, &stats, step);
}

static cero_status poll_save(cero_trainer *trainer, cero_metrics_step *step)
{
    cero_saver_stats stats = {0};
    bool has_ended = false;

    if (trainer->saver == NULL || !is_background(trainer)) {
        return CERO_OK;
    }
    cero_status st = cero_saver_poll(trainer->saver, &has_ended, &stats);
    return note_end(trainer, st, &stats, step);
}

static cero_status save(cero_trainer *trainer, cero_metrics_step *step)
{
    save_texts texts = {0};
    cero_saver_stats stats = {0};

    cero_comm_note(trainer->params.context->comm, "save after step", trainer->done);
    cero_status st = begin_save(trainer, step, &texts, &stats);
    cero_text_cleanup(&texts.train);
    cero_text_cleanup(&texts.model);
    cero_text_cleanup(&texts.metrics);
    return note_end(trainer, st, &stats, step);
}

static bool is_due(const cero_trainer *trainer, bool is_last)
{
    int64_t every = trainer->params.save_every;

    if (is_last) {
        return every > 0 || trainer->stopped_by != 0;
    }
    return every > 0 && trainer->done % every == 0;
}

static cero_status save_after(cero_trainer *trainer, cero_metrics_step *step, bool is_last)
{
    CERO_TRY(poll_save(trainer, step));
    if (is_due(trainer, is_last)) {
        CERO_TRY(finish_save(trainer, step));
        CERO_TRY(save(trainer, step));
    }
    return is_last ? finish_save(trainer, step) : CERO_OK;
}

cero_status cero_trainer_save_after(cero_trainer *trainer, cero_metrics_step *step, bool is_last)
{
    bool is_busy = trainer->saver != NULL && cero_saver_is_busy(trainer->saver);
    double start = cero_clock_now();

    if (trainer->params.out == NULL || !(is_busy || is_due(trainer, is_last))) {
        return CERO_OK;
    }
    cero_status st = save_after(trainer, step, is_last);
    step->seconds_save = cero_clock_now() - start;
    return st;
}
