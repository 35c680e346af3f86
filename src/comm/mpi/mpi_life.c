/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the ranks of a job tell each other about life and failure. Ranks that share memory look at each other's
 * page; others ask by message (ping), get the same contents as an answer (pong), and are told of a failure by
 * message. These messages have a communicator of their own, and every rank looks for them in polls and waits.
 */
#include "base/clock.h"
#include "comm/mpi/mpi_job_impl.h"

#include <stdio.h>

enum {
    TAG_PING = 1,
    TAG_PONG = 2,
    TAG_FAIL = 3
};

#define TELL_SECONDS 1.0 /* to hand messages about a failure to the network */

int64_t cero_mpi_now(void)
{
    return (int64_t)(cero_clock_now() * 1e9);
}

static int64_t load(_Atomic int64_t *value)
{
    return atomic_load_explicit(value, memory_order_acquire);
}

static void store(_Atomic int64_t *value, int64_t to)
{
    atomic_store_explicit(value, to, memory_order_release);
}

int64_t cero_mpi_life(const cero_mpi_job *job, int rank)
{
    return job->page[rank] != NULL ? load(&job->page[rank]->life) : job->peer[rank]->life;
}

int64_t cero_mpi_beat(const cero_mpi_job *job, int rank)
{
    return job->page[rank] != NULL ? load(&job->page[rank]->beat) : job->peer[rank]->beat;
}

int cero_mpi_waits_for(const cero_mpi_job *job, int rank)
{
    int64_t whom =
        job->page[rank] != NULL ? load(&job->page[rank]->waits_for) : job->peer[rank]->waits_for;

    return cero_to_int(whom);
}

const cero_comm_ring *cero_mpi_ring(const cero_mpi_job *job, int rank)
{
    if (job->page[rank] != NULL) {
        return &job->page[rank]->ring;
    }
    return job->peer[rank]->has_answered ? &job->peer[rank]->ring : NULL;
}

/* Numbers of one job say nothing in another: there this rank waits for somebody. */
static void show(const cero_mpi_job *where, int64_t life, int waits_for)
{
    int64_t now = cero_mpi_now();

    for (cero_mpi_job *job = cero_mpi_process_get()->jobs; job != NULL; job = job->next) {
        store(&job->own->beat, now);
        store(&job->own->life, life == 0 ? now : life);
        store(&job->own->waits_for, waits_for < 0 || job == where ? waits_for : CERO_MPI_ANY);
    }
}

void cero_mpi_show_wait(const cero_mpi_job *job, int64_t life, int waits_for)
{
    show(job, life, waits_for);
}

void cero_mpi_show_step(void)
{
    show(NULL, 0, CERO_MPI_NOBODY);
}

void cero_mpi_ask(cero_mpi_job *job, int rank)
{
    cero_mpi_peer *peer = job->peer[rank];
    int is_sent = 0;

    if (peer == NULL || peer->is_asked ||
        MPI_Test(&peer->ping, &is_sent, MPI_STATUS_IGNORE) != MPI_SUCCESS || !is_sent) {
        return;
    }
    if (MPI_Isend(NULL, 0, MPI_BYTE, rank, TAG_PING, job->comm, &peer->ping) == MPI_SUCCESS) {
        peer->is_asked = true;
        peer->asked = cero_mpi_now();
    }
}

/* An answer that is still on its way serves for this question too. */
static void answer_ping(cero_mpi_job *job, int rank)
{
    cero_mpi_peer *peer = job->peer[rank];
    int is_sent = 0;

    if (MPI_Test(&peer->pong, &is_sent, MPI_STATUS_IGNORE) != MPI_SUCCESS || !is_sent) {
        return;
    }
    int64_t now = cero_mpi_now();
    peer->sent = (cero_mpi_answer){.now = now,
                                   .life_age = now - load(&job->own->life),
                                   .waits_for = load(&job->own->waits_for),
                                   .ring = job->own->ring};
    (void)MPI_Isend(&peer->sent, (int)sizeof(peer->sent), MPI_BYTE, rank, TAG_PONG, job->comm,
                    &peer->pong);
}

/*
 * A rank that works is alive now. What one that waits passes on is counted from the question, that is too early
 * rather than too late: in a circle of ranks that wait for each other it must not grow.
 */
static void take_answer(cero_mpi_job *job, int rank, const cero_mpi_answer *a)
{
    cero_mpi_peer *peer = job->peer[rank];
    int64_t now = cero_mpi_now();
    int64_t life = a->waits_for != CERO_MPI_NOBODY ? peer->asked - a->life_age : now;

    peer->is_asked = false;
    peer->has_answered = true;
    peer->beat = now;
    peer->life = life > peer->life ? life : peer->life;
    peer->waits_for = a->waits_for;
    peer->ring = a->ring;
    for (int i = 0; i < CERO_COMM_RECENT; i++) {
        peer->ring.event[i].time += (double)(now - a->now) * 1e-9;
    }
}

/* The lowest rank that failed is the one that is named; before those that pass on another job's failure. */
static void take_failure(int rank, cero_status status, const char *message)
{
    cero_mpi_process *p = cero_mpi_process_get();
    bool is_passed_on = status == CERO_ERR_REMOTE;
    bool was_passed_on = p->failed_status == CERO_ERR_REMOTE;

    if (p->failed_rank < 0 || (was_passed_on && !is_passed_on) ||
        (was_passed_on == is_passed_on && rank < p->failed_rank)) {
        p->failed_rank = rank;
        p->failed_status = status;
        (void)snprintf(p->failed_message, sizeof(p->failed_message), "%s", message);
    }
}

static void look_at_pages(cero_mpi_job *job)
{
    int64_t failures = load(&job->first->failures);

    if (failures == job->seen) {
        return;
    }
    job->seen = failures;
    for (int r = 0; r < job->size; r++) {
        cero_mpi_page *page = job->page[r];
        if (page != NULL && r != job->rank && load(&page->failed) != 0) {
            take_failure(r, (cero_status)load(&page->failed), page->message);
        }
    }
}

static void take_message(cero_mpi_job *job, const MPI_Status *status)
{
    union {
        cero_mpi_answer answer;
        cero_mpi_failure failure;
    } m;
    int rank = status->MPI_SOURCE;

    if (MPI_Recv(&m, (int)sizeof(m), MPI_BYTE, rank, status->MPI_TAG, job->comm,
                 MPI_STATUS_IGNORE) != MPI_SUCCESS) {
        return;
    }
    if (status->MPI_TAG == TAG_PING) {
        answer_ping(job, rank);
    } else if (status->MPI_TAG == TAG_PONG) {
        take_answer(job, rank, &m.answer);
    } else {
        take_failure(rank, (cero_status)m.failure.status, m.failure.message);
    }
}

/* A message that was found is there: receiving it does not wait. */
void cero_mpi_look_for_messages(cero_mpi_job *job)
{
    MPI_Status status;
    int is_there = 1;

    while (job->has_remote && is_there) {
        if (MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, job->comm, &is_there, &status) != MPI_SUCCESS) {
            return;
        }
        if (is_there) {
            take_message(job, &status);
        }
    }
}

bool cero_mpi_pump(void)
{
    cero_mpi_process *p = cero_mpi_process_get();

    for (cero_mpi_job *job = p->jobs; job != NULL; job = job->next) {
        // Also when this rank failed: others may have in the same moment.
        look_at_pages(job);
        cero_mpi_look_for_messages(job);
    }
    return p->failed_rank < 0;
}

/* Messages about this rank's failure that are still here. */
static int count_untold(cero_mpi_job *job)
{
    int count = 0;

    for (int r = 0; r < job->size; r++) {
        int is_sent = 1;
        if (job->peer[r] != NULL &&
            MPI_Test(&job->peer[r]->fail, &is_sent, MPI_STATUS_IGNORE) == MPI_SUCCESS) {
            count += !is_sent;
        }
    }
    return count;
}

static void tell_job(cero_mpi_job *job, cero_status status, const char *message)
{
    cero_mpi_page *own = job->own;

    job->failure.status = status;
    (void)snprintf(job->failure.message, sizeof(job->failure.message), "%s", message);
    (void)snprintf(own->message, sizeof(own->message), "%s", message);
    store(&own->failed, status);
    (void)atomic_fetch_add_explicit(&job->first->failures, 1, memory_order_release);
    for (int r = 0; r < job->size; r++) {
        if (job->peer[r] != NULL) {
            (void)MPI_Isend(&job->failure, (int)sizeof(job->failure), MPI_BYTE, r, TAG_FAIL,
                            job->comm, &job->peer[r]->fail);
        }
    }
}

void cero_mpi_tell(cero_status status, const char *message)
{
    cero_mpi_process *p = cero_mpi_process_get();
    double end = cero_clock_now() + TELL_SECONDS;
    int left = 1;

    for (cero_mpi_job *job = p->jobs; job != NULL; job = job->next) {
        tell_job(job, status, message);
    }
    while (left > 0 && cero_clock_now() < end) {
        left = 0;
        for (cero_mpi_job *job = p->jobs; job != NULL; job = job->next) {
            left += count_untold(job);
        }
    }
}
