/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the log says about steps: the times of `wall_clock_breakdown`, a reader that holds training up, the
 * first skipped step of fp16 and the first clipped one. The progress line is the caller's; numbers for
 * programs go to metrics.jsonl.
 */
#ifndef CERO_TRAIN_STEP_REPORT_H
#define CERO_TRAIN_STEP_REPORT_H

#include "engine/engine.h"
#include "spec/train.h"
#include "train/metrics.h"

/* Seconds of a step by phase. Doubles only: ranks send it to each other. */
typedef struct cero_step_times {
    double forward;
    double backward;
    double exchange; /* not hidden behind the others */
    double update;
    double data;
    double total;
} cero_step_times;

typedef struct cero_step_report_params {
    const cero_train_spec *spec; /* borrowed for the call */
    cero_comm *comm;             /* borrowed, outlives the report; NULL: one rank */
    cero_zero_cost cost;         /* of a step */
} cero_step_report_params;

/* Sums over the steps since the last interval of steps_per_print ended. Fields belong to step_report.c. */
typedef struct cero_step_report {
    cero_comm *comm; /* NULL: one rank */
    int64_t every;
    bool has_times;      /* lines of times each interval */
    bool is_scale_moved; /* fp16 with a dynamic loss scale */
    bool has_warned;     /* of slow data; once for a run */
    bool has_clipped;    /* said once for a run */
    double clipping;
    int64_t uses; /* of cero_zero_cost */
    int64_t uses_ahead;
    int64_t steps;
    cero_step_times sum;
    double bytes;
    double messages;
    cero_step_times *ranks; /* owned, [size]; NULL: one rank, or no times */
} cero_step_report;

/* Not collective. Errors: NOMEM. */
CERO_NODISCARD cero_status cero_step_report_begin(cero_step_report *report,
                                                  const cero_step_report_params *params);
void cero_step_report_end(cero_step_report *report);

/*
 * Counts a step and logs what is due. Allocates nothing.
 *
 * Collective: over comm, for at the end of an interval ranks tell each other their times.
 * Errors:     COMM, REMOTE.
 * Cost:       one all_gather of 48 bytes an interval, with wall_clock_breakdown.
 */
CERO_NODISCARD cero_status cero_step_report_add(cero_step_report *report,
                                                const cero_metrics_step *step);

/* Logs text at info, line by line. Not collective. */
void cero_step_report_lines(const char *text);

/* Logs the effective config (`dump_state`), line by line. Not collective. Errors: NOMEM. */
CERO_NODISCARD cero_status cero_step_report_config(const cero_train_config *config);

#endif
