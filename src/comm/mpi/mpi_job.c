/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Jobs: what ranks tell each other about life and failure. Ranks that share memory look at each other's page;
 * others ask by message (ping), get the same contents as an answer (pong), and are told of a failure by message.
 * These messages have a communicator of their own, and every rank looks for them in polls and waits.
 */
#include "base/clock.h"
#include "comm/mpi/mpi_impl.h"

#include <stdio.h>
#include <string.h>

enum {
    TAG_PING = 1,
    TAG_PONG = 2,
    TAG_FAIL = 3
};

#define TELL_SECONDS 1.0 /* to hand messages about a failure to the network */

/* A page as a message. Ages, as the clocks of two nodes differ. */
typedef struct answer {
    int64_t now; /* of the sender's clock, to which the ring's times belong */
    int64_t life_age;
    int64_t is_waiting;
    cero_comm_ring ring;
} answer;

struct cero_mpi_peer {
    MPI_Request ping;
    MPI_Request pong;
    MPI_Request fail;
    bool is_asked; /* its answer is on the way */
    bool has_answered;
    int64_t asked; /* when */
    int64_t life;
    int64_t beat;
    bool is_waiting;
    answer sent; /* belongs to `pong` until that is complete */
    cero_comm_ring ring;
};

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

bool cero_mpi_is_waiting(const cero_mpi_job *job, int rank)
{
    return job->page[rank] != NULL ? load(&job->page[rank]->is_waiting) != 0
                                   : job->peer[rank]->is_waiting;
}

const cero_comm_ring *cero_mpi_ring(const cero_mpi_job *job, int rank)
{
    if (job->page[rank] != NULL) {
        return &job->page[rank]->ring;
    }
    return job->peer[rank]->has_answered ? &job->peer[rank]->ring : NULL;
}

void cero_mpi_show(int64_t life, bool is_waiting)
{
    int64_t now = cero_mpi_now();

    for (cero_mpi_job *job = cero_mpi_process_get()->jobs; job != NULL; job = job->next) {
        store(&job->own->beat, now);
        store(&job->own->life, life == 0 ? now : life);
        store(&job->own->is_waiting, is_waiting);
    }
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
    peer->sent = (answer){.now = now,
                          .life_age = now - load(&job->own->life),
                          .is_waiting = load(&job->own->is_waiting),
                          .ring = job->own->ring};
    (void)MPI_Isend(&peer->sent, (int)sizeof(peer->sent), MPI_BYTE, rank, TAG_PONG, job->comm,
                    &peer->pong);
}

/*
 * A rank that works is alive now. What one that waits passes on is counted from the question, that is too early
 * rather than too late: in a circle of ranks that wait for each other it must not grow.
 */
static void take_answer(cero_mpi_job *job, int rank, const answer *a)
{
    cero_mpi_peer *peer = job->peer[rank];
    int64_t now = cero_mpi_now();
    int64_t life = a->is_waiting != 0 ? peer->asked - a->life_age : now;

    peer->is_asked = false;
    peer->has_answered = true;
    peer->beat = now;
    peer->life = life > peer->life ? life : peer->life;
    peer->is_waiting = a->is_waiting != 0;
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
        answer answer;
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
static void look_for_messages(cero_mpi_job *job)
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
        look_for_messages(job);
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

/* What needs no other rank. */
static cero_status allocate(cero_mpi_job *job)
{
    size_t size = (size_t)job->size;

    job->node_of = cero_new(size, sizeof(int));
    job->page = cero_new(size, sizeof(cero_mpi_page *));
    job->peer = cero_new(size, sizeof(cero_mpi_peer *));
    job->private_page = cero_new(1, sizeof(cero_mpi_page) + CERO_MEM_ALIGNMENT);
    if (job->node_of == NULL || job->page == NULL || job->peer == NULL ||
        job->private_page == NULL) {
        return CERO_FAIL(CERO_ERR_NOMEM, "no memory for a communicator of %d ranks", job->size);
    }
    job->own = cero_mpi_align(job->private_page);
    return CERO_OK;
}

/* One block for all of them; peer[r] of a rank whose memory is shared stays NULL. */
static cero_status allocate_peers(cero_mpi_job *job)
{
    int count = 0;

    for (int r = 0; r < job->size; r++) {
        count += r != job->rank && job->page[r] == NULL;
    }
    job->has_remote = count > 0;
    job->peers = cero_new((size_t)count + 1, sizeof(cero_mpi_peer));
    if (job->peers == NULL) {
        return CERO_FAIL(CERO_ERR_NOMEM, "no memory for what is known of %d ranks", count);
    }
    for (int r = job->size - 1; r >= 0; r--) {
        if (r != job->rank && job->page[r] == NULL) {
            job->peer[r] = &job->peers[--count];
            job->peer[r]->ping = MPI_REQUEST_NULL;
            job->peer[r]->pong = MPI_REQUEST_NULL;
            job->peer[r]->fail = MPI_REQUEST_NULL;
        }
    }
    return CERO_OK;
}

/* The pages: shared, or this rank's alone. */
static cero_status find_pages(cero_mpi_job *job, const cero_comm_params *params)
{
    if (!params->no_shared_memory) {
        CERO_TRY(cero_mpi_window_create(job->comm, job->timeout, job->node_of,
                                        sizeof(cero_mpi_page), &job->node, &job->window));
    }
    job->page[job->rank] = job->own;
    for (int r = 0, local = 0; job->node != MPI_COMM_NULL && r < job->size; r++) {
        if (job->node_of[r] == job->node_of[job->rank]) {
            job->page[r] = cero_mpi_window_at(job->window, local++);
        }
    }
    job->own = job->page[job->rank];
    for (int r = job->size - 1; r >= 0; r--) {
        job->first = job->page[r] != NULL ? job->page[r] : job->first;
    }
    return CERO_OK;
}

static void free_memory(cero_mpi_job *job)
{
    if (job == NULL) {
        return;
    }
    cero_delete(job->node_of);
    cero_delete(job->page);
    cero_delete(job->peer);
    cero_delete(job->peers);
    cero_delete(job->private_page);
    cero_delete(job);
}

/* Windows and the communicator of a job that ends soundly on all ranks. */
static void give_back(cero_mpi_job *job)
{
    cero_mpi_window_destroy(&job->node, &job->window);
    if (job->comm != MPI_COMM_NULL) {
        (void)MPI_Comm_free(&job->comm);
    }
}

static cero_status start(MPI_Comm comm, const cero_comm_params *params, cero_mpi_job **out)
{
    cero_mpi_job *job = cero_new(1, sizeof(*job));

    if (job == NULL) {
        return CERO_FAIL(CERO_ERR_NOMEM, "no memory for a communicator");
    }
    *out = job;
    job->comm = MPI_COMM_NULL;
    job->node = MPI_COMM_NULL;
    job->window = MPI_WIN_NULL;
    job->timeout = params->timeout_seconds;
    job->references = 1;
    CERO_TRY_MPI(MPI_Comm_rank(comm, &job->rank), "MPI_Comm_rank");
    CERO_TRY_MPI(MPI_Comm_size(comm, &job->size), "MPI_Comm_size");
    return allocate(job);
}

static cero_status set_up(cero_mpi_job *job, MPI_Comm comm, const cero_comm_params *params)
{
    CERO_TRY_MPI(MPI_Comm_dup(comm, &job->comm), "MPI_Comm_dup");
    CERO_TRY(cero_mpi_find_nodes(job->comm, params, job->node_of));
    CERO_TRY(find_pages(job, params));
    return cero_mpi_agree(job->comm, params->timeout_seconds, allocate_peers(job));
}

cero_status cero_mpi_job_create(MPI_Comm comm, const cero_comm_params *params, cero_mpi_job **out)
{
    cero_mpi_process *p = cero_mpi_process_get();
    cero_mpi_job *job = NULL;
    bool is_sound;

    cero_status st = cero_mpi_agree(comm, params->timeout_seconds, start(comm, params, &job));
    st = cero_mpi_end_creation(st == CERO_OK ? set_up(job, comm, params) : st, &is_sound);
    if (st != CERO_OK) {
        if (is_sound && job != NULL) {
            give_back(job);
        }
        free_memory(job);
        return st;
    }
    job->next = p->jobs;
    p->jobs = job;
    cero_mpi_show(0, false);
    *out = job;
    return CERO_OK;
}

static void unlink_job(cero_mpi_job *job)
{
    cero_mpi_job **link = &cero_mpi_process_get()->jobs;

    while (*link != job) {
        link = &(*link)->next;
    }
    *link = job->next;
}

/* Messages of this job that came after its last wait, and its own that are on their way. */
static bool drain(cero_mpi_job *job)
{
    bool is_empty = true;

    look_for_messages(job);
    for (int r = 0; r < job->size; r++) {
        int ping = 1;
        int pong = 1;
        if (job->peer[r] != NULL) {
            (void)MPI_Test(&job->peer[r]->ping, &ping, MPI_STATUS_IGNORE);
            (void)MPI_Test(&job->peer[r]->pong, &pong, MPI_STATUS_IGNORE);
        }
        is_empty = is_empty && ping && pong;
    }
    return is_empty;
}

/*
 * A broken job's window is not given back, which needs the other ranks; and what a message may still be read from
 * stays.
 */
void cero_mpi_job_release(cero_mpi_job *job)
{
    if (--job->references > 0) {
        return;
    }
    bool is_left = cero_mpi_meet(job, job->comm, NULL, job->timeout) && drain(job);
    unlink_job(job);
    if (is_left) {
        give_back(job);
    } else if (job->has_remote) {
        job->next = cero_mpi_process_get()->kept;
        cero_mpi_process_get()->kept = job;
        return;
    }
    free_memory(job);
}
