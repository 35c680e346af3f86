/* SPDX-License-Identifier: Apache-2.0 */
/* How jobs are made and come to their end; what their ranks tell each other is in mpi_life.c. */
#include "base/clock.h"
#include "comm/mpi/mpi_job_impl.h"

#define DRAIN_SECONDS 1.0 /* for messages that were sent before all ranks came to the end */

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
            job->peer[r]->waits_for = CERO_MPI_NOBODY;
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
    cero_mpi_show_step();
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

/* Messages of this job that came after its last wait, and its own that are on their way: one look. */
static bool is_drained(cero_mpi_job *job)
{
    bool is_empty = true;

    cero_mpi_look_for_messages(job);
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
 * Twice, as a rank asks for life until all have come: after the second time nobody asks any more. Then what is
 * on its way arrives.
 */
static bool leave(cero_mpi_job *job)
{
    double end = cero_clock_now() + DRAIN_SECONDS;

    if (!cero_mpi_meet(job, job->comm, NULL, job->timeout) ||
        (job->has_remote && !cero_mpi_meet(job, job->comm, NULL, job->timeout))) {
        return false;
    }
    while (!is_drained(job)) {
        if (cero_clock_now() > end) {
            return false;
        }
    }
    return true;
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
    bool is_left = leave(job);
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
