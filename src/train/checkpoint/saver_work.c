/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The thread that writes. It makes no call of MPI and takes no signal; its error comes back with its status. Also
 * a save that is waited for runs on it: while a disk takes its time, the owner shows other ranks that it lives.
 */
#include "train/checkpoint/saver_impl.h"

#include "base/clock.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

/*
 * How the thread keeps out of the way of steps: a nice value, a thirtieth of a core beside a thread that computes
 * without a pause, and rests, thirty times as long as it computed. What the kernel does for it, copies and the disk's
 * queue, is not bound by the first.
 */
enum {
    BEHIND = 15,
    RESTS = 30
};

static cero_status do_work(cero_saver *saver)
{
    bool is_first = cero_comm_rank(saver->comm) == 0;

    switch (saver->phase) {
    case CERO_SAVER_WRITE:
        return cero_saver_part_write(saver);
    case CERO_SAVER_COMMIT:
        return is_first ? cero_saver_commit_finish(saver) : CERO_OK;
    case CERO_SAVER_VERIFY:
        return cero_saver_part_verify(saver);
    case CERO_SAVER_RETAIN:
        return is_first ? cero_saver_commit_retain(saver) : CERO_OK;
    case CERO_SAVER_IDLE:
    default:
        return CERO_OK;
    }
}

/*
 * Training goes first. A step waits for the slowest of its threads, so that a core shared evenly would double it; cores
 * that wait, for other ranks or for this very save, are taken whole. Nice values are a thread's own in Linux alone.
 */
static void step_back(void)
{
#ifdef __linux__
    id_t thread = (id_t)syscall(SYS_gettid);

    (void)setpriority(PRIO_PROCESS, thread, getpriority(PRIO_PROCESS, thread) + BEHIND);
#endif
}

void cero_saver_work_rest(cero_saver *saver)
{
    cero_saver_work *work = &saver->work;
    double now = cero_clock_thread();
    double left = (now - work->computed) * RESTS;

    work->computed = now;
    for (; left > 0 && !atomic_load_explicit(&work->is_awaited, memory_order_relaxed);
         left -= 2e-3) {
        cero_clock_sleep(left < 2e-3 ? left : 2e-3);
    }
}

static void *run(void *context)
{
    cero_saver *saver = context;
    cero_saver_work *work = &saver->work;

    if (saver->params.is_background) {
        step_back();
    }
    work->computed = cero_clock_thread();
    work->status = do_work(saver);
    if (work->status != CERO_OK) {
        (void)snprintf(work->message, sizeof(work->message), "%s", cero_error_message());
    }
    atomic_store_explicit(&work->is_done, true, memory_order_release);
    return NULL;
}

/* True when this rank has something to do in the phase. */
static bool has_work(const cero_saver *saver)
{
    return cero_comm_rank(saver->comm) == 0 || saver->phase == CERO_SAVER_WRITE ||
           saver->phase == CERO_SAVER_VERIFY;
}

void cero_saver_work_start(cero_saver *saver)
{
    cero_saver_work *work = &saver->work;
    sigset_t all;
    sigset_t before;

    work->status = CERO_OK;
    atomic_store(&work->is_done, false);
    atomic_store(&work->is_awaited, !saver->params.is_background);
    if (!has_work(saver)) {
        atomic_store(&work->is_done, true);
        return;
    }
    // Signals are for the thread that owns the engine.
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(&work->thread, NULL, run, saver);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    work->is_running = error == 0;
    if (error != 0) {
        work->status = CERO_ERR_NOMEM;
        (void)snprintf(work->message, sizeof(work->message),
                       "no thread to write with could be started: %s", strerror(error));
        atomic_store(&work->is_done, true);
    }
}

bool cero_saver_work_is_done(const cero_saver *saver)
{
    return atomic_load_explicit(&saver->work.is_done, memory_order_acquire);
}

cero_status cero_saver_work_take(cero_saver *saver)
{
    cero_saver_work *work = &saver->work;

    atomic_store(&work->is_awaited, true);
    while (work->is_running && !cero_saver_work_is_done(saver)) {
        cero_comm_poll(saver->comm);
        cero_clock_sleep(0.5e-3);
    }
    if (work->is_running) {
        (void)pthread_join(work->thread, NULL);
        work->is_running = false;
    }
    cero_status st = work->status;
    work->status = CERO_OK;
    return st == CERO_OK ? CERO_OK : CERO_FAIL(st, "%s", work->message);
}
