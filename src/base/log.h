/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Log lines for people. Metrics are something else: see train/metrics.h.
 *
 * The library is silent below the level set by cero_log_set_level (default warn) or CERO_LOG; lines go
 * to a sink that the command or a caller sets (default: stderr). Parts are folder names, and
 * CERO_LOG_PARTS=zero,comm keeps only those.
 */
#ifndef CERO_BASE_LOG_H
#define CERO_BASE_LOG_H

#include "base/status.h"

/* debug grows with the number of objects, trace with run time. */
typedef enum cero_log_level {
    CERO_LOG_ERROR = 0,
    CERO_LOG_WARN = 1,
    CERO_LOG_INFO = 2,
    CERO_LOG_DEBUG = 3,
    CERO_LOG_TRACE = 4,
    CERO_LOG_COUNT
} cero_log_level;

/* Receives one whole line without its newline. Must be callable from any thread. */
typedef void (*cero_log_sink)(void *context, cero_log_level level, const char *line);

/* Reads CERO_LOG and CERO_LOG_PARTS once; later calls do nothing. */
void cero_log_init(void);
void cero_log_set_level(cero_log_level level);
cero_log_level cero_log_get_level(void);

/* Sets who receives lines; NULL restores stderr. */
void cero_log_set_sink(cero_log_sink sink, void *context);

/* Rank and size for the prefix "[rank 3/8]", shown when size > 1. Rank 0 alone speaks at info. */
void cero_log_set_rank(int rank, int size);

bool cero_log_enabled(cero_log_level level, const char *part);

/* One line, lower case, numbers with units: "[rank 3/8] zero debug: gather layer 12, 144 bytes". */
void cero_log(cero_log_level level, const char *part, const char *fmt, ...) CERO_PRINTF(3, 4);

/*
 * A warning that every rank meets alike: rank 0 gives it; the others give their sink, which may be a log file, a
 * line of the level info, and without a sink say nothing.
 */
void cero_log_warn_once(const char *part, const char *fmt, ...) CERO_PRINTF(2, 3);

#endif
