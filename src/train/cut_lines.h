/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files of lines that begin with a number that grows, metrics.jsonl and CSV: what lies beyond the point that a run
 * goes back to is taken off their end.
 */
#ifndef CERO_TRAIN_CUT_LINES_H
#define CERO_TRAIN_CUT_LINES_H

#include "base/status.h"

typedef struct cero_cut_params {
    const char *path;
    const char *prefix; /* of a line, before its number: "{\"step\":" */
    char last;          /* character that ends a line, before its newline; 0: any */
    bool has_heading;   /* the first line is none with a number, and stays */
    int64_t limit;      /* lines with a greater number go */
} cero_cut_params;

/*
 * Takes lines beyond the limit off the end of a file, and what a process or machine that died left of a line. Those
 * before a line whose number is not less than that of the next are another run's, and stay. The file is replaced as
 * a whole, or stays as it is; what a cut that was killed left beside it goes. *last is the number of the line that is
 * the last then; 0: there is none.
 *
 * Not collective.
 * Errors: IO; CORRUPT for a whole line of another kind among those that would go, which stays.
 */
CERO_NODISCARD cero_status cero_cut_lines(const cero_cut_params *params, int64_t *last);

#endif
