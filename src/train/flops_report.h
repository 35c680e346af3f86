/* SPDX-License-Identifier: Apache-2.0 */
/*
 * DeepSpeed's `flops_profiler`: operations, time and rates of one step by unit and by operation. Operations
 * are those that the program's instructions declare, times are measured; both are of this rank.
 */
#ifndef CERO_TRAIN_FLOPS_REPORT_H
#define CERO_TRAIN_FLOPS_REPORT_H

#include "engine/engine.h"
#include "train/metrics.h"

typedef struct cero_flops_report_params {
    const cero_train_spec *spec; /* borrowed, like the next two */
    const cero_engine *engine;   /* profiled during the step */
    const cero_metrics_step *step;
    const char *model; /* its name */
    int rank;
    int size;
} cero_flops_report_params;

/*
 * Appends the report: totals, the `top_modules` first units and operations, and with `detailed` a row for each
 * unit and for each operation in it; `module_depth` 0 ends with the totals, 1 with units. Not collective.
 * Errors: NOMEM.
 */
CERO_NODISCARD cero_status cero_flops_report_write(const cero_flops_report_params *params,
                                                   cero_text *out);

/* Writes the report to `output_file`, or logs it when there is none. Not collective. Errors: NOMEM, IO. */
CERO_NODISCARD cero_status cero_flops_report_deliver(const cero_flops_report_params *params);

/*
 * A number with a unit: "1.500 MFLOP", "12 FLOP", and "-" for nothing; size at least 32. Returns text.
 * Not collective.
 */
const char *cero_flops_report_number(double value, const char *unit, char *text, size_t size);

#endif
