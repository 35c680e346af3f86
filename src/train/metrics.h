/* SPDX-License-Identifier: Apache-2.0 */
/*
 * metrics.jsonl: one JSON object for each optimizer step. Keys are an interface; docs/metrics.md lists them.
 * Reals read back to the same double. A step's line is written and flushed when the step is over.
 */
#ifndef CERO_TRAIN_METRICS_H
#define CERO_TRAIN_METRICS_H

#include "cero/cero.h"

#include "base/status.h"
#include "base/text.h"

/* Everything one line says. */
typedef struct cero_metrics_step {
    cero_step_stats stats;
    int64_t tokens;  /* consumed so far, over all ranks */
    int64_t samples; /* consumed so far, over all ranks */
    int64_t step_tokens;
    double step_seconds;
    double seconds_data;
    double seconds_save;
    double seconds_other; /* of step_seconds, what no phase has */
    int64_t bytes_sent;   /* by this rank in this step, like the next two */
    int64_t messages_sent;
    int64_t bytes_between_nodes;
    bool has_eval;
    double eval_loss;
    size_t memory[CERO_MEM_COUNT]; /* peak bytes */
    int64_t saved_step; /* of a checkpoint that was committed since the line before; 0: none was */
} cero_metrics_step;

typedef struct cero_metrics cero_metrics;

/* Opens DIR/metrics.jsonl for appending. Not collective. Errors: IO, NOMEM. */
CERO_NODISCARD cero_status cero_metrics_open(const char *dir, cero_metrics **out);

/* Not collective. Errors: IO, with path and reason; the file then ends at the last whole line or so. */
CERO_NODISCARD cero_status cero_metrics_write(cero_metrics *metrics, const cero_metrics_step *step);

/* The object of a line, without a newline. Not collective. Errors: NOMEM. */
CERO_NODISCARD cero_status cero_metrics_format(const cero_metrics_step *step, cero_text *out);

/* Appends a line as it is; its newline is added. Not collective. Errors: IO. */
CERO_NODISCARD cero_status cero_metrics_append(cero_metrics *metrics, const char *line,
                                               size_t length);

/* Brings the lines to the disk. Not collective. Errors: IO. */
CERO_NODISCARD cero_status cero_metrics_sync(const cero_metrics *metrics);

/*
 * Takes the lines of steps after `step` off DIR/metrics.jsonl, which is not open, and a torn last line; *last is the
 * step of the last line then, 0 when there is none. Not collective. Errors: IO, CORRUPT.
 */
CERO_NODISCARD cero_status cero_metrics_cut(const char *dir, int64_t step, int64_t *last);

/* Not collective. */
void cero_metrics_close(cero_metrics **metrics);

#endif
