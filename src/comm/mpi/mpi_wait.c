/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The one loop in which this transport waits, and the way a communicator breaks.
 *
 * A wait measures the time without a step forward of whoever it waits for (see cero_mpi_page): it may last for
 * hours behind a rank that works, and ends after the timeout when nobody on the way to it does.
 */
#include "base/clock.h"
#include "base/log.h"
#include "comm/mpi/mpi_job_impl.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

/* Nanoseconds but for the counts. */
enum {
    SPINS = 20,           /* turns before the core is offered to others: ranks may share it */
    YIELD = 500000,       /* of waiting before turns become naps */
    LEAST_NAP = 20000,    /* at first */
    LONGEST_NAP = 100000, /* later */
    LOOK = 5000000,       /* from one look at the peers' life to the next */
    ASK = 250000000,      /* from one question to the next, and as much more */
    ASK_RANKS = 16,       /* for each so many ranks that are asked; */
    ASK_TIMES = 8,        /* but as often as this in a timeout */
    AWAY = 500000000      /* a turn takes less unless this process is stopped */
};

cero_status cero_mpi_check(int code, const char *what)
{
    char text[MPI_MAX_ERROR_STRING] = "";
    int length = 0;

    if (CERO_LIKELY(code == MPI_SUCCESS)) {
        return CERO_OK;
    }
    (void)MPI_Error_string(code, text, &length);
    return CERO_FAIL(CERO_ERR_COMM, "%s: MPI says: %s", what, text);
}

/* Sets why every call fails from now on; the first reason stays. */
static void set_broken(cero_status status, const char *message)
{
    cero_mpi_process *p = cero_mpi_process_get();

    if (p->status != CERO_OK) {
        return;
    }
    // The first line: what follows is a table for people.
    (void)snprintf(p->message, sizeof(p->message), "%.*s", (int)strcspn(message, "\n"), message);
    p->status = status;
    for (cero_mpi *mpi = p->list; mpi != NULL; mpi = mpi->next) {
        mpi->is_broken = true;
    }
}

/* A failure in one job ends the others too; in its own its rank told everybody. */
static void pass_on_remote(const char *message)
{
    cero_mpi_process *p = cero_mpi_process_get();

    if (p->jobs != NULL && p->jobs->next != NULL) {
        cero_mpi_tell(CERO_ERR_REMOTE, message);
    }
}

cero_status cero_mpi_break(cero_status status)
{
    cero_mpi_process *p = cero_mpi_process_get();
    char message[CERO_MPI_MESSAGE];

    if (p->status != CERO_OK) {
        return status;
    }
    const char *text = cero_error_message();
    (void)snprintf(message, sizeof(message), "%.*s", (int)strcspn(text, "\n"), text);
    if (status == CERO_ERR_REMOTE) {
        pass_on_remote(message);
    } else {
        // Among ranks that tell in the same moment the lowest is the one that is named, this one included.
        int rank = p->jobs != NULL ? p->jobs->rank : -1;
        p->failed_rank = p->failed_rank < 0 || rank < p->failed_rank ? rank : p->failed_rank;
        cero_mpi_tell(status, message);
    }
    set_broken(status, message);
    return status;
}

cero_status cero_mpi_end(cero_status status)
{
    return CERO_LIKELY(status == CERO_OK) ? CERO_OK : cero_mpi_break(status);
}

cero_status cero_mpi_end_creation(cero_status status, bool *is_sound)
{
    cero_status st = status == CERO_ERR_COMM ? cero_mpi_break(status) : status;

    *is_sound = cero_mpi_process_get()->status == CERO_OK;
    return st;
}

static cero_status remote_failure(void)
{
    const cero_mpi_process *p = cero_mpi_process_get();

    if (p->failed_status == CERO_ERR_REMOTE) {
        return CERO_FAIL(CERO_ERR_REMOTE, "%s", p->failed_message);
    }
    return CERO_FAIL(CERO_ERR_REMOTE, "rank %d failed (%s): %s", p->failed_rank,
                     cero_status_name(p->failed_status), p->failed_message);
}

cero_status cero_mpi_usable(void)
{
    const cero_mpi_process *p = cero_mpi_process_get();

    if (CERO_UNLIKELY(p->status != CERO_OK)) {
        return CERO_FAIL(p->status, "%s", p->message);
    }
    return CERO_LIKELY(p->failed_rank < 0) ? CERO_OK : cero_mpi_break(remote_failure());
}

/* One wait: for whom, and when they last took a step forward. */
typedef struct waiting {
    cero_mpi_job *job;
    const int *job_rank; /* [size]; NULL: the job's own ranks */
    int size;
    int peer; /* in the job, or CERO_MPI_ANY */
    double timeout;
    int64_t begun;
    int64_t turned; /* when the loop last went round */
    int64_t left;   /* this process was stopped itself from here, */
    int64_t back;   /* to here */
    int64_t life;
    int64_t looked;
    int64_t asked;
    int turns;
} waiting;

static int rank_at(const waiting *w, int i)
{
    return w->job_rank != NULL ? w->job_rank[i] : i;
}

/* Later of the two signs; asks who cannot be looked at. */
static void look_at(waiting *w, int rank, bool is_time_to_ask)
{
    int64_t life;

    if (rank == w->job->rank) {
        return;
    }
    if (is_time_to_ask) {
        cero_mpi_ask(w->job, rank);
    }
    life = cero_mpi_life(w->job, rank);
    w->life = life > w->life ? life : w->life;
}

/* Looks for life, and passes it on to those that wait for this rank. */
static void look(waiting *w, int64_t now)
{
    int64_t asked_ranks = w->peer >= 0 ? 1 : w->size;
    int64_t pause = ASK * (1 + asked_ranks / ASK_RANKS);
    int64_t longest = w->timeout > 0.0 ? (int64_t)(w->timeout * 1e9 / ASK_TIMES) : INT64_MAX;
    bool is_time_to_ask =
        w->job->has_remote && now - w->asked >= (pause < longest ? pause : longest);

    w->looked = now;
    w->asked = is_time_to_ask ? now : w->asked;
    if (w->peer >= 0) {
        look_at(w, w->peer, is_time_to_ask);
    } else {
        for (int i = 0; i < w->size; i++) {
            look_at(w, rank_at(w, i), is_time_to_ask);
        }
    }
    cero_mpi_show_wait(w->job, w->life, w->peer);
}

/* Time in which this process did not run (stopped with all others, from a terminal) says nothing of them. */
static int64_t silence(const waiting *w, int64_t now)
{
    int64_t left = w->left > w->life ? w->left : w->life;

    return now - w->life - (w->back > left ? w->back - left : 0);
}

static bool is_silent(waiting *w)
{
    int64_t now = cero_mpi_now();

    if (now - w->turned > AWAY) {
        w->left = w->turned;
        w->back = now;
    }
    w->turned = now;
    if (now - w->looked >= LOOK) {
        look(w, now);
    }
    return w->timeout >= 0.0 && (double)silence(w, now) * 1e-9 > w->timeout;
}

/* A short spin for what comes at once, then the core for whoever needs it, then naps. */
static void pause_turn(waiting *w)
{
    struct timespec nap = {.tv_nsec = LEAST_NAP};

    w->turns++;
    if (w->turns < SPINS) {
        return;
    }
    int64_t since = cero_mpi_now() - w->begun;
    if (since < YIELD) {
        (void)sched_yield();
        return;
    }
    nap.tv_nsec = since / 16 < LONGEST_NAP ? LEAST_NAP : LONGEST_NAP;
    (void)nanosleep(&nap, NULL);
}

static void begin(waiting *w)
{
    w->begun = cero_mpi_now();
    w->turned = w->begun;
    w->life = w->begun;
    w->looked = w->begun;
    w->asked = w->begun;
    cero_mpi_show_wait(w->job, w->life, w->peer);
}

void cero_mpi_advance(void)
{
    for (cero_mpi *mpi = cero_mpi_process_get()->list; mpi != NULL; mpi = mpi->next) {
        cero_mpi_exchange_poll(mpi->base);
    }
}

cero_status cero_mpi_wait(cero_comm *comm, cero_mpi_test test, void *context, int peer,
                          cero_comm_event *event)
{
    cero_mpi *mpi = cero_mpi_of(comm);
    cero_status st = CERO_OK;
    waiting w = {.job = mpi->job,
                 .job_rank = mpi->job_rank,
                 .size = comm->size,
                 .peer = peer >= 0 ? mpi->job_rank[peer] : CERO_MPI_ANY,
                 .timeout = comm->timeout};

    (void)cero_mpi_pump();
    CERO_TRY(cero_mpi_usable());
    if (test(context, &st) && st == CERO_OK) {
        return CERO_OK;
    }
    begin(&w);
    event->state = 'w';
    while (st == CERO_OK) {
        bool is_well = cero_mpi_pump();
        cero_mpi_advance();
        // What has come has come, whoever failed since.
        if (test(context, &st)) {
            break;
        }
        if (st == CERO_OK && !is_well) {
            st = remote_failure();
        } else if (st == CERO_OK && is_silent(&w)) {
            st = cero_mpi_report(comm, peer, w.life, event);
        }
        pause_turn(&w);
    }
    cero_mpi_show_step();
    return cero_mpi_end(st);
}

typedef struct request_list {
    int count;
    MPI_Request *requests;
} request_list;

static bool are_done(void *context, cero_status *st)
{
    request_list *list = context;
    int is_done = 0;

    *st = cero_mpi_check(MPI_Testall(list->count, list->requests, &is_done, MPI_STATUSES_IGNORE),
                         "MPI_Testall");
    return *st == CERO_OK && is_done;
}

cero_status cero_mpi_wait_all(cero_comm *comm, int count, MPI_Request *requests, int peer,
                              cero_comm_event *event)
{
    request_list list = {.count = count, .requests = requests};

    return cero_mpi_wait(comm, are_done, &list, peer, event);
}

cero_status cero_mpi_wait_plain(MPI_Request *request, double seconds, const char *what)
{
    struct timespec nap = {.tv_nsec = LEAST_NAP};
    double begun = cero_clock_now();
    int is_done = 0;

    while (true) {
        CERO_TRY_MPI(MPI_Test(request, &is_done, MPI_STATUS_IGNORE), what);
        if (is_done) {
            return CERO_OK;
        }
        if (!cero_mpi_pump()) {
            return cero_mpi_break(remote_failure());
        }
        if (seconds >= 0.0 && cero_clock_now() - begun > seconds) {
            break;
        }
        (void)sched_yield();
        if (cero_clock_now() - begun > YIELD * 1e-9) {
            (void)nanosleep(&nap, NULL);
        }
    }
    return cero_mpi_break(CERO_FAIL(
        CERO_ERR_COMM,
        "not all ranks came within %g s to %s; look at what the others do, or whether one ended",
        seconds, what));
}

cero_status cero_mpi_min(MPI_Comm comm, double seconds, int64_t *value)
{
    MPI_Request request;

    CERO_TRY_MPI(MPI_Iallreduce(MPI_IN_PLACE, value, 1, MPI_INT64_T, MPI_MIN, comm, &request),
                 "MPI_Iallreduce");
    return cero_mpi_wait_plain(&request, seconds, "make a communicator");
}

cero_status cero_mpi_agree(MPI_Comm comm, double seconds, cero_status local)
{
    int64_t is_good = local == CERO_OK;

    cero_status st = cero_mpi_min(comm, seconds, &is_good);
    if (local != CERO_OK || st != CERO_OK) {
        return local != CERO_OK ? local : st;
    }
    CERO_CHECK(is_good, CERO_ERR_REMOTE,
               "another rank ran out of memory while a communicator was made");
    return CERO_OK;
}

/* Shared memory is gone when the caller finalised MPI before. */
static bool is_finalised(void)
{
    int flag = 0;

    return MPI_Finalized(&flag) != MPI_SUCCESS || flag;
}

bool cero_mpi_meet(cero_mpi_job *job, MPI_Comm comm, const int *job_rank, double timeout)
{
    MPI_Request request;
    waiting w = {.job = job, .job_rank = job_rank, .peer = CERO_MPI_ANY, .timeout = timeout};
    int is_done = 0;

    if (cero_mpi_process_get()->status != CERO_OK) {
        return false;
    }
    bool is_good = !is_finalised() && cero_mpi_pump() &&
                   MPI_Comm_size(comm, &w.size) == MPI_SUCCESS &&
                   MPI_Ibarrier(comm, &request) == MPI_SUCCESS;
    if (is_good) {
        begin(&w);
    }
    while (is_good && !is_done) {
        is_good = MPI_Test(&request, &is_done, MPI_STATUS_IGNORE) == MPI_SUCCESS &&
                  (is_done || (cero_mpi_pump() && !is_silent(&w)));
        pause_turn(&w);
    }
    if (!is_good) {
        cero_log(CERO_LOG_WARN, "comm", "not all ranks came to destroy their communicator");
        set_broken(CERO_ERR_COMM, "not all ranks came to destroy their communicator");
        return false;
    }
    cero_mpi_show_step();
    return true;
}
