/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs a launcher to its end: signals go through, nothing is left behind, its exit code comes back.
 *
 * The launcher is a process group of its own and dies with us (PR_SET_PDEATHSIG). We are the reaper of
 * whatever it leaves (PR_SET_CHILD_SUBREAPER), so that ranks on this machine end also when mpirun itself
 * was killed. No signal handler runs: signals are blocked and taken one by one, as are restarts' pauses.
 */
#ifndef CERO_CLI_LAUNCH_SUPERVISE_H
#define CERO_CLI_LAUNCH_SUPERVISE_H

#include "base/status.h"

#include <signal.h>
#include <sys/types.h>

typedef struct cero_supervisor {
    sigset_t caught;         /* signals that are taken */
    sigset_t old_mask;       /* what was blocked before */
    bool has_other_children; /* from before: nobody but our launcher may be reaped and killed */
    bool was_subreaper;
} cero_supervisor;

typedef struct cero_supervise_params {
    char *const *argv;        /* up to a NULL */
    char *const *environment; /* up to a NULL */
    bool is_gentle;           /* ranks take SIGUSR1 as the request to save and leave */
    double grace;             /* seconds from a request to the next harder one */
} cero_supervise_params;

typedef struct cero_supervise_result {
    int code;       /* as a shell sees it: exit code, or 128 + signal */
    int signal;     /* the first that asked for the end; 0: none */
    bool is_forced; /* the launcher was told to end: its own code says nothing about the ranks */
    double seconds;
} cero_supervise_result;

/* Blocks the signals and becomes the reaper; end with cero_supervisor_cleanup. Errors: INTERNAL. */
CERO_NODISCARD cero_status cero_supervisor_init(cero_supervisor *supervisor);
void cero_supervisor_cleanup(cero_supervisor *supervisor);

/*
 * Starts and waits.
 *
 * SIGINT, SIGTERM and SIGHUP ask for the end. The first becomes SIGUSR1 when gentle, else it is handed on
 * (SIGHUP as SIGTERM). After `grace`, or at the next request, the launcher gets SIGTERM and ends its ranks;
 * five seconds later (`grace` later if SIGTERM came first), or at the next request, SIGKILL.
 * SIGUSR1 goes through, and asks for the end where it is the gentle request. SIGUSR2 goes through.
 * Requests within one second of each other are one: some senders signal process and group.
 *
 * Errors: IO when the program cannot be started.
 */
CERO_NODISCARD cero_status cero_supervise(cero_supervisor *supervisor,
                                          const cero_supervise_params *params,
                                          cero_supervise_result *out);

/* Waits; gives the signal that asked for the end meanwhile, or 0. */
int cero_supervisor_pause(const cero_supervisor *supervisor, double seconds);

#endif
