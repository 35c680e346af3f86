/* SPDX-License-Identifier: Apache-2.0 */
/* When a job is started again, and what is said about it; see launch/restart.h. */
#include "cli/launch/restart.h"

#include "base/log.h"
#include "cli/cli.h"

#include <stdio.h>
#include <string.h>

enum {
    MAX_SIGNAL = 64,
    SHOWN_CODES = 8
};

/* How the job ended before. */
typedef struct history {
    int code[SHOWN_CODES]; /* the first ones */
    int deaths;
    int pauses; /* since there was progress */
    cero_launch_progress progress;
} history;

bool cero_launch_may_restart(int code)
{
    return code == CERO_EXIT_TEMPORARY || (code > 128 && code <= 128 + MAX_SIGNAL);
}

double cero_launch_backoff(int restart)
{
    return restart < 6 ? (double)(1 << restart) : 60;
}

/* "75", or "137 (signal 9, Killed)". */
static const char *describe(int code, char *text, size_t size)
{
    if (code > 128 && code <= 128 + MAX_SIGNAL) {
        (void)snprintf(text, size, "%d (signal %d, %s)", code, code - 128, strsignal(code - 128));
    } else {
        (void)snprintf(text, size, "%d", code);
    }
    return text;
}

static void say_given_up(const history *h, int max_restarts)
{
    char list[SHOWN_CODES * 8] = "";
    size_t used = 0;

    for (int i = 0; i < h->deaths && i < SHOWN_CODES; i++) {
        used += (size_t)snprintf(list + used, sizeof(list) - used, "%s%d", i > 0 ? ", " : "",
                                 h->code[i]);
    }
    cero_log(CERO_LOG_ERROR, "cli",
             "the job died %d times (exit codes %s%s) and --max-restarts is %d: it is not started "
             "again; what its ranks said last tells why",
             h->deaths, list, h->deaths > SHOWN_CODES ? ", ..." : "", max_restarts);
}

/* The exit code of one run for the caller. */
static int final_code(const cero_launch_run_params *params, const cero_supervise_result *r)
{
    if (r->is_forced) {
        return 128 + r->signal;
    }
    if (r->signal != 0 && r->code == 0 && params->forgets_codes) {
        return CERO_EXIT_TEMPORARY; // at worst a job that was done is started once more
    }
    return params->exit_code != NULL && r->code < 128 ? params->exit_code(r->code) : r->code;
}

/* After a run: true when another one follows, whose pause is over then. */
static bool goes_on(const cero_supervisor *supervisor, const cero_launch_run_params *params,
                    const cero_supervise_result *result, int code, history *h)
{
    char text[64];

    if (result->signal != 0 || !cero_launch_may_restart(code) || params->max_restarts == 0) {
        return false;
    }
    if (h->deaths < SHOWN_CODES) {
        h->code[h->deaths] = code;
    }
    h->deaths++;
    bool has_moved = cero_launch_progress_update(&h->progress, code, result->seconds);
    if (h->deaths > params->max_restarts) {
        say_given_up(h, params->max_restarts);
        return false;
    }
    if (cero_launch_progress_is_hopeless(&h->progress)) {
        return false;
    }
    h->pauses = has_moved ? 0 : h->pauses;
    double pause = cero_launch_backoff(h->pauses++);
    cero_log(CERO_LOG_WARN, "cli", "the job ended with %s after %.1f s; restart %d of %d in %g s",
             describe(code, text, sizeof(text)), result->seconds, h->deaths, params->max_restarts,
             pause);
    return cero_supervisor_pause(supervisor, pause) == 0;
}

cero_status cero_launch_run(const cero_launch_run_params *params, int *code)
{
    cero_supervisor supervisor;
    cero_supervise_result result = {0};
    cero_supervise_params start = params->supervise;
    history h = {.progress = {.dir = params->max_restarts > 0 ? params->checkpoints : NULL,
                              .limit = params->no_progress_limit}};
    cero_status st = CERO_OK;

    cero_launch_progress_begin(&h.progress);
    CERO_TRY(cero_supervisor_init(&supervisor));
    do {
        CERO_TRY_GOTO(cero_supervise(&supervisor, &start, &result), out);
        *code = final_code(params, &result);
        start.argv = params->restart_argv != NULL ? params->restart_argv : start.argv;
    } while (goes_on(&supervisor, params, &result, *code, &h));

out:
    cero_supervisor_cleanup(&supervisor);
    return st;
}
