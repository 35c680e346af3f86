/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Monitors: who writes a run's scalars for other programs to draw (TensorBoard, CSV).
 *
 * Which scalars there are, and under which of DeepSpeed's tags, is decided here once; a monitor is a
 * table of functions that gets them as points. docs/metrics.md lists the tags. The x axis is samples,
 * as in DeepSpeed.
 */
#ifndef CERO_TRAIN_MONITOR_H
#define CERO_TRAIN_MONITOR_H

#include "spec/train.h"
#include "train/metrics.h"

enum {
    CERO_MONITOR_MAX_POINTS = 16,
    CERO_MONITOR_MAX_TAG = 64 /* with its end */
};

/* One scalar of a step. Tags are static text. */
typedef struct cero_monitor_point {
    const char *tag; /* "Train/Samples/lr" */
    double value;
} cero_monitor_point;

/* All but the last are required. Static storage. */
typedef struct cero_monitor_ops {
    /*
     * Creates files in `dir`, which exists. `points` holds every tag that will ever come; values mean
     * nothing. Errors: IO, NOMEM.
     */
    cero_status (*open)(const char *dir, const cero_monitor_point *points, int count, void **out);
    /* Writes and flushes the points of a step; allocates nothing. Errors: IO. */
    cero_status (*write)(void *monitor, int64_t samples, const cero_monitor_point *points,
                         int count);
    void (*close)(void *monitor);
    /*
     * Optional, open when NULL: the same for a run that goes on at `samples`; what its files have beyond is taken off.
     * Errors: also CORRUPT.
     */
    cero_status (*reopen)(const char *dir, const cero_monitor_point *points, int count,
                          int64_t samples, void **out);
} cero_monitor_ops;

/* The monitors that a config asks for. */
typedef struct cero_monitors cero_monitors;

typedef struct cero_monitors_params {
    const cero_train_spec *spec; /* borrowed for the call */
    const char *out;             /* run directory: for sections whose output_path is empty */
    bool has_eval;               /* the run has evaluation data */
    bool is_resumed;             /* the run goes on at `samples`; what its files have beyond goes */
    int64_t samples;
} cero_monitors_params;

/*
 * Opens every monitor that is enabled, in OUTPUT_PATH/JOB_NAME or in the run directory.
 *
 * Not collective.
 * Errors: IO, NOMEM, CORRUPT; the message begins with the config section.
 */
CERO_NODISCARD cero_status cero_monitors_open(const cero_monitors_params *params,
                                              cero_monitors **out);

/* Tells every monitor of a step. Allocates nothing. Not collective. Errors: IO. */
CERO_NODISCARD cero_status cero_monitors_write(cero_monitors *monitors,
                                               const cero_metrics_step *step);

/* Not collective. */
void cero_monitors_close(cero_monitors **monitors);

#endif
