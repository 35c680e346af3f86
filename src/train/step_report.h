/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the log says about steps: the times of `wall_clock_breakdown`, a reader that holds training up,
 * and the first skipped step of fp16. The progress line is the caller's; numbers for programs go to
 * metrics.jsonl.
 */
#ifndef CERO_TRAIN_STEP_REPORT_H
#define CERO_TRAIN_STEP_REPORT_H

#include "spec/train.h"
#include "train/metrics.h"

/* Sums over the steps since the last interval of steps_per_print ended. Fields belong to step_report.c. */
typedef struct cero_step_report {
    int64_t every;
    bool has_times;      /* a line of times each interval */
    bool is_scale_moved; /* fp16 with a dynamic loss scale */
    bool has_warned;     /* of slow data; once for a run */
    int64_t steps;
    double forward;
    double backward;
    double exchange;
    double update;
    double data;
    double total;
} cero_step_report;

/* Not collective. */
void cero_step_report_begin(cero_step_report *report, const cero_train_spec *spec);

/* Counts a step and logs what is due. Allocates nothing. Not collective. */
void cero_step_report_add(cero_step_report *report, const cero_metrics_step *step);

/* Logs the effective config (`dump_state`), line by line. Not collective. Errors: NOMEM. */
CERO_NODISCARD cero_status cero_step_report_config(const cero_train_config *config);

#endif
