/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The line that a training run shows: step, loss, rate and time left, with a bar on a terminal.
 *
 * On a terminal one line is redrawn in place, at most ten times a second; elsewhere whole lines are
 * written, one every `steps_per_print` steps. Log lines pass through cero_progress_log_sink, so that they
 * do not cut into the line.
 */
#ifndef CERO_CLI_PROGRESS_H
#define CERO_CLI_PROGRESS_H

#include "base/log.h"
#include "base/status.h"
#include "base/text.h"

#include <stdio.h>

/* What is known after a step. */
typedef struct cero_progress_step {
    int64_t step; /* 1-based */
    double loss;
    double lr;
    double tokens_per_second;
    double step_seconds;
    int64_t skipped; /* steps skipped so far; shown when there are any */
} cero_progress_step;

typedef struct cero_progress_params {
    FILE *stream; /* borrowed; stderr */
    bool is_terminal;
    bool has_color;
    int width;          /* columns of the terminal; 0: 80 */
    int64_t first_step; /* steps done before this run (resume) */
    int64_t total_steps;
    int64_t steps_per_print; /* 0: 10 */
} cero_progress_params;

/* Open, so that it can stand on the stack; fields belong to progress.c. */
typedef struct cero_progress {
    cero_progress_params params;
    double mean_seconds; /* exponential mean of step_seconds */
    double weight;
    double drawn_at;   /* clock of the last drawing; 0: never */
    bool is_line_open; /* a bar stands on the terminal's last line */
} cero_progress;

void cero_progress_begin(cero_progress *progress, const cero_progress_params *params);
void cero_progress_update(cero_progress *progress, const cero_progress_step *step);

/* Leaves the terminal at the start of a fresh line. */
void cero_progress_end(cero_progress *progress);

/* A log sink whose context is the progress: clears the bar, writes the line. */
void cero_progress_log_sink(void *context, cero_log_level level, const char *line);

/* The line for a step, without its end; `left` in seconds. Appends to `out`. */
void cero_progress_format(const cero_progress_params *params, const cero_progress_step *step,
                          double left, cero_text *out);

/* "45 s", "12 min 05 s", "3 h 20 min", "4 d 06 h"; `text` holds at least 32 bytes. Returns text. */
const char *cero_progress_duration(double seconds, char *text, size_t size);

/* Columns of the terminal behind a descriptor, 80 when that is not known. */
int cero_progress_terminal_width(int fd);

#endif
