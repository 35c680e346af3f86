/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How far a job has got, by the checkpoints that it leaves: starts in a row that end without a newer one are counted,
 * so that a job that dies before its first save is not started for ever.
 */
#ifndef CERO_CLI_LAUNCH_PROGRESS_H
#define CERO_CLI_LAUNCH_PROGRESS_H

#include "cli/args.h"

enum {
    CERO_LAUNCH_SHOWN = 8 /* starts that are told of */
};

typedef struct cero_launch_progress {
    const char *dir; /* of the checkpoints; NULL: nothing is known, and nothing counted */
    int limit;       /* starts in a row that may end without a newer checkpoint; 0: any number */
    int64_t newest;  /* step of the newest complete one when the last start was made; -1: none */
    int idle;        /* starts in a row that ended without a newer one */
    int code[CERO_LAUNCH_SHOWN];       /* how the last ones of them ended, the latest first */
    double seconds[CERO_LAUNCH_SHOWN]; /* how long they ran */
} cero_launch_progress;

/* Before the first start. */
void cero_launch_progress_begin(cero_launch_progress *progress);

/* After a start that ended so; true when it left a newer checkpoint, or when nothing is known. */
bool cero_launch_progress_update(cero_launch_progress *progress, int code, double seconds);

/* True when another start has no prospect; why is said in the log. */
bool cero_launch_progress_is_hopeless(const cero_launch_progress *progress);

/* What the words of `cero train` say about going on. */
typedef struct cero_launch_train {
    char *checkpoints;    /* their folder, owned; NULL: --out is not there */
    bool chooses_restart; /* --resume never, auto or if-present: what restarts do is said */
} cero_launch_train;

/* Errors: NOMEM. */
CERO_NODISCARD cero_status cero_launch_train_read(const cero_words *program,
                                                  cero_launch_train *out);

#endif
