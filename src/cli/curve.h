/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads one number of every step from a metrics.jsonl.
 *
 * A run that was resumed repeats steps: the later line counts. A last line without its end, as a run
 * that was killed leaves it, is left out. Values that are null (not finite) are counted and left out.
 */
#ifndef CERO_CLI_CURVE_H
#define CERO_CLI_CURVE_H

#include "base/status.h"
#include "cli/chart.h"

typedef struct cero_curve {
    cero_chart_point *points; /* [count], x is the step; owned */
    int64_t count;
    int64_t capacity;
    int64_t lines;      /* objects read */
    int64_t not_finite; /* lines whose value is null */
    bool has_partial_line;
} cero_curve;

/* Errors: IO; CORRUPT with path and line; INVALID if no line has the key. Free with cleanup. */
CERO_NODISCARD cero_status cero_curve_read(const char *path, const char *key, cero_curve *out);
void cero_curve_cleanup(cero_curve *curve);

#endif
