/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The training loop: batches in order, steps, evaluation, metrics, a clean stop, and the model at the end.
 *
 * A trainer owns an engine and the files of a run directory. It reads samples by position, so that what step
 * s trains on is a function of s alone. Nothing is printed: a visitor is told of each step. The files and log
 * lines of the config's tensorboard, csv_monitor, wall_clock_breakdown, comms_logger, flops_profiler and
 * dump_state are the trainer's too.
 */
#ifndef CERO_TRAIN_TRAIN_H
#define CERO_TRAIN_TRAIN_H

#include "ckpt/hf.h"
#include "data/sampler.h"
#include "engine/engine.h"
#include "spec/model.h"
#include "train/metrics.h"

typedef struct cero_trainer cero_trainer;

/* Told of each finished step, before the next begins. */
typedef void (*cero_train_visitor)(void *context, const cero_metrics_step *step);

typedef struct cero_trainer_params {
    cero_context *context; /* borrowed, like all pointers here, for the trainer's life */
    const cero_config *config;
    const cero_model_spec *model;
    cero_token_stream *data;
    cero_token_stream *eval_data; /* NULL: none */
    const char *out;              /* run directory; NULL: no files */
    int64_t steps;                /* 0: the schedule's total, else one epoch */
    int64_t seq_len;              /* 0: the model's context */
    cero_sampler_order order;
    int64_t eval_every;         /* steps; 0: at the end alone */
    bool has_weights;           /* cero_trainer_import will be called */
    int64_t export_shard_bytes; /* of weights in one file; 0: 5,000,000,000 */
    bool is_profiling;          /* seconds by operation */
    cero_train_visitor visitor; /* NULL: none */
    void *visitor_context;
} cero_trainer_params;

/*
 * Checks that all ranks were given the same options and the same model description.
 *
 * Collective: over the world.
 * Errors:     INVALID with what differs; REMOTE, NOMEM.
 */
CERO_NODISCARD cero_status cero_trainer_check_options(const cero_trainer_params *params);

/*
 * Then: that the data hold a sample, and are the same for all ranks.
 *
 * Collective: over the world.
 * Errors:     INVALID with both numbers or with what differs; CORRUPT, REMOTE.
 */
CERO_NODISCARD cero_status cero_trainer_check_data(const cero_trainer_params *params);

/*
 * Creates sampler and engine; weights are initial ones. No file is touched yet. What the
 * two checks above are about is right.
 *
 * Collective: over the world.
 * Errors:     those of the parts; INVALID with both numbers when the data are too short.
 */
CERO_NODISCARD cero_status cero_trainer_create(const cero_trainer_params *params,
                                               cero_trainer **out);
/* Collective: over the world. */
void cero_trainer_destroy(cero_trainer **trainer);

/*
 * Makes the run directory with its metrics and monitors; cero_trainer_run does so if it was not done before.
 *
 * A directory that already holds a run is refused and stays as it is.
 *
 * Collective: over the world.
 * Errors:     INVALID (an earlier run), IO, NOMEM.
 */
CERO_NODISCARD cero_status cero_trainer_open_files(cero_trainer *trainer);

/*
 * Sets every weight from a Hugging Face model directory, streaming.
 *
 * Collective: over the world.
 * Errors:     those of cero_hf_import_open and cero_hf_import_read.
 */
CERO_NODISCARD cero_status cero_trainer_import(cero_trainer *trainer, const char *dir);

/* Bytes of files that the last import read on this rank, headers included; 0 before one. Not collective. */
int64_t cero_trainer_import_bytes(const cero_trainer *trainer);

/* Steps planned, and the engine. Not collective. */
int64_t cero_trainer_steps(const cero_trainer *trainer);
cero_engine *cero_trainer_engine(cero_trainer *trainer);

/* Samples of one epoch, those used by a step, and tokens in no sample. Not collective. */
int64_t cero_trainer_epoch_samples(const cero_trainer *trainer);
int64_t cero_trainer_unused_tokens(const cero_trainer *trainer);

/*
 * Runs until the last step, or until *stop is not 0 at the end of a step (NULL: never).
 *
 * Collective: over the world.
 * Errors:     those of cero_engine_train_batch; CORRUPT for token ids outside the vocabulary; IO.
 */
CERO_NODISCARD cero_status cero_trainer_run(cero_trainer *trainer, const volatile int *stop);

/* What *stop was when it ended the run, on any rank; 0: it did not. Not collective. */
int cero_trainer_stopped_by(const cero_trainer *trainer);

/* Steps done, and the last evaluation (NaN before one). Not collective. */
int64_t cero_trainer_steps_done(const cero_trainer *trainer);
double cero_trainer_eval_loss(const cero_trainer *trainer);

/*
 * Mean loss over the evaluation data: windows in order, the last batch filled with rows that do not count.
 *
 * Collective: over the world.
 * Errors:     INVALID without evaluation data, those of cero_engine_eval_batch.
 */
CERO_NODISCARD cero_status cero_trainer_evaluate(cero_trainer *trainer, double *loss);

/*
 * Writes the model as a Hugging Face directory; tokenizer files come from `tokenizer_dir` (NULL: none).
 *
 * Collective: over the world.
 * Errors:     those of cero_hf_export.
 */
CERO_NODISCARD cero_status cero_trainer_export(cero_trainer *trainer, const char *dir,
                                               cero_dtype dtype, const char *tokenizer_dir);

#endif
