/* SPDX-License-Identifier: Apache-2.0 */
/* The trainer behind train.h, for its files. */
#ifndef CERO_TRAIN_TRAIN_IMPL_H
#define CERO_TRAIN_TRAIN_IMPL_H

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
    int64_t done;
    int64_t import_bytes; /* read by the last import */
    int stopped_by;       /* what *stop was on a rank; 0: runs */
    int32_t *tokens;      /* [rank's samples of a step, seq_len], category IO */
    int32_t *targets;     /* view into the same block, as tokens */
    double eval_loss;
};

#endif
