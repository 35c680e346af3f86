/* SPDX-License-Identifier: Apache-2.0 */
/* The kinds of file that `cero inspect` knows; each has one function that appends its report. */
#ifndef CERO_CLI_INSPECT_H
#define CERO_CLI_INSPECT_H

#include "cli/cli.h"

typedef struct cero_inspect_values {
    bool json;
    const char *svg; /* where to draw a curve; NULL: nowhere */
    const char *key; /* which number of a metrics.jsonl */
    int64_t limit;   /* most rows of a list; 0: all */
    cero_words files;
} cero_inspect_values;

typedef cero_status (*cero_inspect_function)(cero_cli *cli, const cero_inspect_values *values,
                                             const char *path, cero_text *out);

/* A metrics.jsonl: first, last and best value, and the curve. */
CERO_NODISCARD cero_status cero_inspect_metrics(cero_cli *cli, const cero_inspect_values *values,
                                                const char *path, cero_text *out);

#endif
