/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The log file of a run: every line at info and above goes to DIR/log/rank-NNNNN.log, and those that the
 * terminal wants go on to its sink.
 */
#ifndef CERO_TRAIN_RUN_LOG_H
#define CERO_TRAIN_RUN_LOG_H

#include "base/log.h"
#include "base/status.h"

typedef struct cero_run_log cero_run_log;

typedef struct cero_run_log_params {
    const char *dir; /* run directory */
    int rank;
    cero_log_level terminal_level; /* lines up to this level go on to `next` */
    cero_log_sink next;            /* NULL: stderr */
    void *next_context;
} cero_run_log_params;

/* Opens the file and becomes the log's sink until closed. Not collective. Errors: IO, NOMEM. */
CERO_NODISCARD cero_status cero_run_log_open(const cero_run_log_params *params, cero_run_log **out);

/* Writes lines to the file alone. Not collective. */
void cero_run_log_write(cero_run_log *log, const char *text);

/* Gives the log back to `next`. Not collective. */
void cero_run_log_close(cero_run_log **log);

#endif
