/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs a job again when it ended in a way that a new start may mend: exit code 75, or a signal.
 *
 * One that goes on from its checkpoints is seen to make progress, or is given up with a diagnosis
 * (launch/progress.h). A wrong config (78), bad data (65), a missing input (66) or a wrong command line (2) never loops.
 */
#ifndef CERO_CLI_LAUNCH_RESTART_H
#define CERO_CLI_LAUNCH_RESTART_H

#include "cli/launch/progress.h"
#include "cli/launch/supervise.h"

typedef struct cero_launch_run_params {
    cero_supervise_params supervise;
    int (*exit_code)(int code); /* of a launcher that reports signals in its own way; may be NULL */
    bool forgets_codes;         /* 0 after a request to leave is not believed: it becomes 75 */
    int max_restarts;
    char *const *restart_argv; /* of every start but the first, up to a NULL; NULL: the same */
    const char *checkpoints;   /* folder by which progress is seen; NULL: it is not */
    int no_progress_limit;     /* starts in a row without progress after which it is given up */
} cero_launch_run_params;

/* True for 75 and for 128 + a signal. */
bool cero_launch_may_restart(int code);

/* Seconds before restart 0, 1, 2, …: 1, 2, 4, … up to 60. */
double cero_launch_backoff(int restart);

/*
 * Runs until it ends well, in a way that is not worth another start, too often, too often without progress, or
 * because a signal asked for it; pauses begin anew after progress; `code` is the exit code for the caller. Errors: IO when it cannot be started, INTERNAL.
 */
CERO_NODISCARD cero_status cero_launch_run(const cero_launch_run_params *params, int *code);

#endif
