/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs a job again when it ended in a way that a new start may mend: exit code 75, or a signal.
 *
 * A wrong config (78), bad data (65), a missing input (66) or a wrong command line (2) never loops.
 */
#ifndef CERO_CLI_LAUNCH_RESTART_H
#define CERO_CLI_LAUNCH_RESTART_H

#include "cli/launch/supervise.h"

typedef struct cero_launch_run_params {
    cero_supervise_params supervise;
    int (*exit_code)(int code); /* of a launcher that reports signals in its own way; may be NULL */
    bool forgets_codes;         /* 0 after a request to leave is not believed: it becomes 75 */
    int max_restarts;
} cero_launch_run_params;

/* True for 75 and for 128 + a signal. */
bool cero_launch_may_restart(int code);

/* Seconds before restart 0, 1, 2, …: 1, 2, 4, … up to 60. */
double cero_launch_backoff(int restart);

/*
 * Runs until it ends well, in a way that is not worth another start, too often, or because a signal asked
 * for it; `code` is the exit code for the caller. Errors: IO when it cannot be started, INTERNAL.
 */
CERO_NODISCARD cero_status cero_launch_run(const cero_launch_run_params *params, int *code);

#endif
