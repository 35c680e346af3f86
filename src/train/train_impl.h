/* SPDX-License-Identifier: Apache-2.0 */
/* The trainer behind train.h, for its files. */
#ifndef CERO_TRAIN_TRAIN_IMPL_H
#define CERO_TRAIN_TRAIN_IMPL_H

#include "ckpt/checkpoint/folder.h"
#include "train/checkpoint/loader.h"
#include "train/checkpoint/run_state.h"
#include "train/checkpoint/saver.h"
#include "train/comms_report.h"
#include "train/monitor.h"
#include "train/step_report.h"
#include "train/train.h"

struct cero_trainer {
    cero_trainer_params params;
    cero_engine *engine; /* owned, like the next three */
    cero_sampler *sampler;
    cero_sampler *eval_sampler; /* NULL: no evaluation */
    cero_metrics *metrics;      /* NULL: no files */
    cero_monitors *monitors;    /* owned; NULL: not here */
    cero_step_report report;
    cero_comms_report *comms; /* owned; NULL: not asked for, or not running */
    bool has_files;           /* the run directory was made */
    bool has_begun;           /* run was called */
    int64_t seq_len;
    int64_t steps;
    int64_t done;         /* steps */
    int64_t position;     /* the sampler's: of the next step's first sample */
    int64_t samples;      /* consumed by all steps of the run */
    int64_t tokens_used;  /* the same in tokens */
    int stopped_by;       /* what *stop was on a rank; 0: runs */
    int32_t *tokens;      /* [rank's samples of a step, seq_len], category IO */
    int32_t *targets;     /* view into the same block, as tokens */
    int64_t import_bytes; /* read by the last import */
    double eval_loss;
    /* Checkpoints. */
    char *checkpoints;          /* their folder, owned; NULL without a run directory */
    cero_folder_lock *lock;     /* owned; of the run directory, on rank 0 */
    cero_saver *saver;          /* owned; NULL before it is needed */
    char run[CERO_MANIFEST_ID]; /* the run's name, kept when it goes on; empty: not yet known */
    bool is_claimed;
    bool had_run;                          /* rank 0: the directory was that of a run before */
    bool has_resumed;                      /* it is known where the run goes on or that it starts */
    char resumed_tag[CERO_FOLDER_MAX_TAG]; /* empty: it starts */
    cero_text resumed_line; /* of metrics.jsonl, of the step that the checkpoint is of */
    cero_run_data data;     /* this run's; hash valid when has_data_hash */
    bool has_data_hash;
    int64_t saved_step;   /* of the newest checkpoint that was committed or resumed from; 0: none */
    cero_text save_error; /* why the last save failed; empty: it did not */
};

/* Steps planned, from options, schedule and what is left of the epoch. Not collective. Errors: INVALID. */
CERO_NODISCARD cero_status cero_trainer_choose_steps(cero_trainer *trainer);

/* What `data` says, its hash included. Not collective. Errors: CORRUPT, for a token that was looked at. */
CERO_NODISCARD cero_status cero_trainer_know_data(cero_trainer *trainer);

/* Makes what saves need before the first step. Collective: over the world. Errors: NOMEM, CORRUPT, REMOTE, COMM. */
CERO_NODISCARD cero_status cero_trainer_begin_saves(cero_trainer *trainer);

/*
 * After a step: lets a save in the background go on, and saves if it is due; at the last step of the process it is
 * waited for. Seconds and the checkpoint that was committed are noted in `step`.
 *
 * Collective: over the world.
 * Errors:     COMM; with stops_on_save_error those of the save. Others are noted in save_error.
 */
CERO_NODISCARD cero_status cero_trainer_save_after(cero_trainer *trainer, cero_metrics_step *step,
                                                   bool is_last);

#endif
