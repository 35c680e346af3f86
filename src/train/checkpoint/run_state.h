/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a run is besides its engine, as sections of a checkpoint: where it is in its data, and which data these are
 * (section "train"), and the line of metrics.jsonl of the step (section "metrics"). And what a run that continues it
 * has changed: refused where steps would mean something else, told otherwise. Nothing here is collective.
 */
#ifndef CERO_TRAIN_CHECKPOINT_RUN_STATE_H
#define CERO_TRAIN_CHECKPOINT_RUN_STATE_H

#include "ckpt/checkpoint/manifest.h"
#include "data/sampler.h"
#include "spec/train.h"

/* What makes position p of two runs the same sample. */
typedef struct cero_run_data {
    cero_sampler_order order;
    uint64_t seed;
    int64_t seq_len;
    int64_t token_count;
    uint64_t token_hash; /* of tokens from all over the data */
} cero_run_data;

typedef struct cero_run_state {
    int64_t samples;  /* consumed by the run */
    int64_t tokens;   /* consumed by the run */
    int64_t position; /* the sampler's: of the next step's first sample */
    int64_t epoch;    /* that it lies in; for people */
    int64_t steps;    /* planned */
    double eval_loss; /* of the last evaluation; NaN: there was none */
    cero_run_data data;
} cero_run_state;

/* The section "train". Errors: NOMEM. */
CERO_NODISCARD cero_status cero_run_state_write(const cero_run_state *state, cero_text *out);

/* Errors: CORRUPT with the key. */
CERO_NODISCARD cero_status cero_run_state_read(const cero_manifest *manifest, cero_run_state *out);

/* Errors: INVALID with everything that differs, both values, and what to do. */
CERO_NODISCARD cero_status cero_run_state_check_data(const cero_run_data *saved,
                                                     const cero_run_data *now);

/* Errors: INVALID with both names when another optimizer wrote the checkpoint; NOMEM. */
CERO_NODISCARD cero_status cero_run_state_check_optimizer(const cero_manifest *manifest,
                                                          const cero_train_config *config);

/*
 * One line "resume: KEY was A, now B" for each key of the config that may change later steps; each is ended.
 * Errors: CORRUPT, NOMEM.
 */
CERO_NODISCARD cero_status cero_run_state_write_changes(const cero_manifest *manifest,
                                                        const cero_train_config *config,
                                                        cero_text *out);

/*
 * The line of the checkpoint's step for metrics.jsonl, without a newline; nothing when the checkpoint has none.
 * Errors: NOMEM.
 */
CERO_NODISCARD cero_status cero_run_state_write_line(const cero_manifest *manifest, cero_text *out);

/* Steps applied and skipped, of the same line; 0 when it has none. */
void cero_run_state_find_counts(const cero_manifest *manifest, int64_t *applied, int64_t *skipped);

#endif
