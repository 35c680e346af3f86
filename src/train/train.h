/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The training loop: batches in order, steps, evaluation, metrics, a clean stop, and the model at the end.
 *
 * A trainer owns an engine and the files of a run directory. It reads samples by position, so that what step
 * s trains on is a function of s alone. Nothing is printed: a visitor is told of each step. Checkpoints go to
 * OUT/checkpoints, and a run goes on from one of them as if it had never ended. The files and log lines of the
 * config's tensorboard, csv_monitor, wall_clock_breakdown, comms_logger, flops_profiler and dump_state are the
 * trainer's too.
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

/* Which checkpoint of the run directory a run goes on from. */
typedef enum cero_resume {
    CERO_RESUME_NEVER = 0,      /* none: a directory that holds a run is refused */
    CERO_RESUME_AUTO = 1,       /* the newest that verifies; none is an error */
    CERO_RESUME_IF_PRESENT = 2, /* the same, but where there is none the run starts */
    CERO_RESUME_TAG = 3         /* that of resume_tag */
} cero_resume;

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
    bool has_weights;           /* cero_trainer_import will be called, unless the run is resumed */
    const char *init_from;      /* NULL, or that cero_trainer_init_from will be called */
    int64_t export_shard_bytes; /* of weights in one file; 0: 5,000,000,000 */
    const char *config_json;    /* of the model that comes in, or NULL: hf.h, config_from */
    bool is_profiling;          /* seconds by operation */
    cero_train_visitor visitor; /* NULL: none */
    void *visitor_context;
    int64_t save_every; /* steps between checkpoints, and one at the end; 0: none but at a signal */
    int64_t keep;       /* newest checkpoints that stay; 0: all */
    bool stops_on_save_error; /* else it is told, and the next save that is due tries again */
    cero_resume resume;
    const char *resume_tag;        /* of CERO_RESUME_TAG */
    bool resume_without_data;      /* other data: begins at their sample 0 */
    bool resume_without_optimizer; /* weights, step and position alone; moments of zero */
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
 * Takes the run directory: no other process runs in it, and what is there is what `resume` is about. Makes it for a
 * run that starts. cero_trainer_resume does so if it was not done before.
 *
 * A directory that holds a run is refused unless it is to go on; so are checkpoints of two runs.
 *
 * Collective: over the world.
 * Errors:     INVALID (an earlier run, another process), IO, NOMEM.
 */
CERO_NODISCARD cero_status cero_trainer_claim(cero_trainer *trainer);

/*
 * Loads the checkpoint that `resume` says, with everything that a later step depends on; what its config has changed
 * is told in the log. Checkpoints of later steps are moved aside, to OUT/checkpoints-after-STEP. What is left of
 * saves that never ended is removed. cero_trainer_open_files does so if it was not done before.
 *
 * Collective: over the world.
 * Errors:     those of cero_loader_load and cero_trainer_claim; INVALID for other data or another optimizer, with
 *             both values and the option that drops them.
 */
CERO_NODISCARD cero_status cero_trainer_resume(cero_trainer *trainer);

/* The checkpoint that the run goes on from; NULL: it starts. Not collective. */
const char *cero_trainer_resumed_from(const cero_trainer *trainer);

/*
 * Weights from a checkpoint, a folder of checkpoints or a run directory; everything else is that of a run that
 * starts. Partial: tensors that are missing keep their initial values, and others are left out.
 *
 * Collective: over the world.
 * Errors:     those of cero_loader_load; INVALID when `dir` is none of these.
 */
CERO_NODISCARD cero_status cero_trainer_init_from(cero_trainer *trainer, const char *dir,
                                                  bool is_partial);

/*
 * Opens metrics and monitors; cero_trainer_run does so if it was not done before. Of a run that goes on, what its
 * files say of later steps is taken off.
 *
 * Collective: over the world.
 * Errors:     those of cero_trainer_resume; CORRUPT for a metrics.jsonl that is none.
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

/* Samples of one epoch, position of the next step's first one, tokens in no sample. Not collective. */
int64_t cero_trainer_epoch_samples(const cero_trainer *trainer);
int64_t cero_trainer_position(const cero_trainer *trainer);
int64_t cero_trainer_unused_tokens(const cero_trainer *trainer);

/*
 * Runs until the last step, or until *stop is not 0 at the end of a step (NULL: never). With a run directory it saves
 * every save_every steps, at the last one, and when it is stopped.
 *
 * Collective: over the world.
 * Errors:     those of cero_engine_train_batch; CORRUPT for token ids outside the vocabulary; IO; those of
 *             cero_saver_begin with stops_on_save_error.
 */
CERO_NODISCARD cero_status cero_trainer_run(cero_trainer *trainer, const volatile int *stop);

/* What *stop was when it ended the run, on any rank; 0: it did not. Not collective. */
int cero_trainer_stopped_by(const cero_trainer *trainer);

/* Why the checkpoint of the last step could not be saved; NULL: there is nothing to say. Not collective. */
const char *cero_trainer_save_error(const cero_trainer *trainer);

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
