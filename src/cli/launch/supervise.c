/* SPDX-License-Identifier: Apache-2.0 */
/* Starting and watching a launcher; see launch/supervise.h. */
#define _GNU_SOURCE // execvpe, pipe2
#include "cli/launch/supervise.h"

#include "base/clock.h"
#include "base/log.h"
#include "cli/launch/orphans.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define KILL_DELAY   5.0 /* seconds from SIGTERM after a gentle request to SIGKILL */
#define SAME_REQUEST 1.0 /* seconds within which signals are one request */
#define FOREVER      3600.0

/* How far the end has been asked for; each is harder than the one before. */
typedef enum stage {
    STAGE_RUNNING = 0,
    STAGE_ASKED = 1, /* ranks were asked to save and leave, or the launcher got the signal we got */
    STAGE_TOLD = 2,  /* the launcher got SIGTERM: it ends its ranks */
    STAGE_KILLED = 3
} stage;

/* A launcher at work. */
typedef struct watch {
    const cero_supervise_params *params;
    pid_t child;
    stage stage;
    int signal;      /* the first request */
    double asked_at; /* the last request */
    double deadline; /* when the next stage comes by itself */
} watch;

cero_status cero_supervisor_init(cero_supervisor *supervisor)
{
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGCHLD};
    struct sigaction standard = {.sa_handler = SIG_DFL};
    int is_subreaper = 0;

    *supervisor = (cero_supervisor){0};
    (void)sigemptyset(&supervisor->caught);
    for (size_t i = 0; i < CERO_COUNT_OF(signals); i++) {
        (void)sigaddset(&supervisor->caught, signals[i]);
    }
    // Ignored SIGCHLD, which is inherited, would throw exit codes away.
    (void)sigemptyset(&standard.sa_mask);
    if (sigaction(SIGCHLD, &standard, NULL) != 0 ||
        sigprocmask(SIG_BLOCK, &supervisor->caught, &supervisor->old_mask) != 0) {
        return CERO_FAIL(CERO_ERR_INTERNAL, "blocking signals: %s", strerror(errno));
    }
    siginfo_t info;
    supervisor->has_other_children =
        waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0 || errno != ECHILD;
    (void)prctl(PR_GET_CHILD_SUBREAPER, &is_subreaper, 0, 0, 0);
    supervisor->was_subreaper = is_subreaper != 0;
    if (!supervisor->has_other_children) {
        (void)prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
    }
    return CERO_OK;
}

void cero_supervisor_cleanup(cero_supervisor *supervisor)
{
    (void)prctl(PR_SET_CHILD_SUBREAPER, supervisor->was_subreaper ? 1 : 0, 0, 0, 0);
    (void)sigprocmask(SIG_SETMASK, &supervisor->old_mask, NULL);
}

/* In the child: becomes the launcher. Returns only when that failed, with errno. */
static void become(const cero_supervisor *supervisor, const cero_supervise_params *params,
                   pid_t parent)
{
    if (setpgid(0, 0) != 0 || prctl(PR_SET_PDEATHSIG, SIGTERM, 0, 0, 0) != 0) {
        return;
    }
    // Between fork and prctl the parent may have gone; then nobody waits for this job.
    if (getppid() != parent) {
        _exit(128 + SIGTERM);
    }
    // A group in the background that reads from the terminal is stopped by it.
    if (isatty(STDIN_FILENO) == 1) {
        int null = open("/dev/null", O_RDONLY);
        if (null < 0 || dup2(null, STDIN_FILENO) < 0) {
            return;
        }
        (void)close(null);
    }
    if (sigprocmask(SIG_SETMASK, &supervisor->old_mask, NULL) != 0) {
        return;
    }
    (void)execvpe(params->argv[0], params->argv, params->environment);
}

/* Forks; the pipe closes when the program runs, and brings errno when it does not. */
static cero_status start(const cero_supervisor *supervisor, const cero_supervise_params *params,
                         pid_t *out)
{
    int ends[2];
    int error = 0;
    pid_t parent = getpid();

    if (pipe2(ends, O_CLOEXEC) != 0) {
        return CERO_FAIL(CERO_ERR_IO, "starting %s: %s", params->argv[0], strerror(errno));
    }
    pid_t child = fork();
    if (child == 0) {
        become(supervisor, params, parent);
        error = errno;
        (void)!write(ends[1], &error, sizeof(error));
        _exit(127);
    }
    error = child < 0 ? errno : 0;
    (void)close(ends[1]);
    ssize_t got = 0;
    while (child > 0 && (got = read(ends[0], &error, sizeof(error))) < 0 && errno == EINTR) {
    }
    (void)close(ends[0]);
    if (child > 0 && got == (ssize_t)sizeof(error)) {
        (void)waitpid(child, NULL, 0);
    }
    if (child < 0 || got == (ssize_t)sizeof(error)) {
        return CERO_FAIL(CERO_ERR_IO, "starting %s: %s", params->argv[0], strerror(error));
    }
    *out = child;
    return CERO_OK;
}

/* The first request. */
static void ask(watch *w, int signal, double now)
{
    const cero_supervise_params *params = w->params;

    // mpirun does not know SIGHUP: it would die of it and leave its ranks.
    signal = signal == SIGHUP ? SIGTERM : signal;
    w->stage = !params->is_gentle && signal == SIGTERM ? STAGE_TOLD : STAGE_ASKED;
    w->deadline = now + params->grace;
    (void)kill(w->child, params->is_gentle ? SIGUSR1 : signal);
    if (params->is_gentle) {
        cero_log(CERO_LOG_WARN, "cli",
                 "the ranks are asked to save and leave within %g s; another signal ends them",
                 params->grace);
    }
}

/* One step harder than before. */
static void press(watch *w, double now)
{
    if (w->stage == STAGE_ASKED) {
        w->stage = STAGE_TOLD;
        w->deadline = now + KILL_DELAY;
        (void)kill(w->child, SIGTERM);
        return;
    }
    w->stage = STAGE_KILLED;
    (void)kill(-w->child, SIGKILL);
}

/* One signal other than SIGCHLD. */
static void take(watch *w, int signal)
{
    double now = cero_clock_now();

    if (signal == SIGUSR2 || (signal == SIGUSR1 && !w->params->is_gentle)) {
        (void)kill(w->child, signal);
        return;
    }
    if (w->stage == STAGE_RUNNING) {
        w->signal = signal;
        w->asked_at = now;
        ask(w, signal, now);
        return;
    }
    // Asking again the gentle way does not press: only the other signals do.
    if (signal != SIGUSR1 && now - w->asked_at >= SAME_REQUEST) {
        w->asked_at = now;
        press(w, now);
    }
}

/* The next signal within `seconds`; 0: none came. */
static int next_signal(const sigset_t *set, double seconds)
{
    seconds = seconds < FOREVER ? seconds : FOREVER;
    struct timespec wait = {.tv_sec = (time_t)seconds,
                            .tv_nsec = (long)((seconds - (double)(time_t)seconds) * 1e9)};
    int signal = sigtimedwait(set, NULL, &wait);

    return signal > 0 ? signal : 0;
}

static int shell_code(int status)
{
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* Until the launcher has ended: its status. */
static int watch_launcher(const cero_supervisor *supervisor, watch *w)
{
    int status = 0;

    while (waitpid(w->child, &status, WNOHANG) != w->child) {
        double left = FOREVER;
        if (w->stage == STAGE_ASKED || w->stage == STAGE_TOLD) {
            double now = cero_clock_now();
            left = w->deadline - now;
            if (left <= 0) {
                press(w, now);
                continue;
            }
        }
        int signal = next_signal(&supervisor->caught, left);
        if (signal != 0 && signal != SIGCHLD) {
            take(w, signal);
        }
    }
    return status;
}

cero_status cero_supervise(cero_supervisor *supervisor, const cero_supervise_params *params,
                           cero_supervise_result *out)
{
    double begin = cero_clock_now();
    watch w = {.params = params};

    CERO_TRY(start(supervisor, params, &w.child));
    int status = watch_launcher(supervisor, &w);
    if (!supervisor->has_other_children) {
        cero_launch_end_orphans();
    }
    *out = (cero_supervise_result){
        .code = shell_code(status),
        .signal = w.signal,
        .is_forced = w.stage >= STAGE_TOLD || (w.signal != 0 && !params->is_gentle),
        .seconds = cero_clock_now() - begin,
    };
    return CERO_OK;
}

int cero_supervisor_pause(const cero_supervisor *supervisor, double seconds)
{
    double end = cero_clock_now() + seconds;
    double left = seconds;

    while (left > 0) {
        int signal = next_signal(&supervisor->caught, left);
        if (signal != 0 && signal != SIGCHLD && signal != SIGUSR2) {
            return signal;
        }
        left = end - cero_clock_now();
    }
    return 0;
}
