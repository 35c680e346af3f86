/* SPDX-License-Identifier: Apache-2.0 */
/* The communicators of the MPI transport: how they are made, split and destroyed, and the table of calls. */
#include "comm/mpi/mpi_job_impl.h"

#include "base/clock.h"

#include <stdio.h>
#include <string.h>

#define POLL_SECONDS 1e-4 /* from one look for messages to the next between instructions */

static const cero_comm_ops mpi_ops;

/* Numbers the nodes of a part of the job by first rank. */
static void number_nodes(const cero_mpi_job *job, const int *job_rank, int size, int *node)
{
    int count = 0;

    for (int r = 0; r < size; r++) {
        int q = 0;
        while (job->node_of[job_rank[q]] != job->node_of[job_rank[r]]) {
            q++;
        }
        node[r] = q == r ? count++ : node[q];
    }
}

/* The numbers that the ranks have in the job; `scratch` holds as many. */
static cero_status translate(cero_mpi *mpi, int size, int *scratch)
{
    MPI_Group group = MPI_GROUP_NULL;
    MPI_Group job_group = MPI_GROUP_NULL;

    for (int r = 0; r < size; r++) {
        scratch[r] = r;
    }
    CERO_TRY_MPI(MPI_Comm_group(mpi->comm, &group), "MPI_Comm_group");
    CERO_TRY_MPI(MPI_Comm_group(mpi->job->comm, &job_group), "MPI_Comm_group");
    CERO_TRY_MPI(MPI_Group_translate_ranks(group, size, scratch, job_group, mpi->job_rank),
                 "MPI_Group_translate_ranks");
    (void)MPI_Group_free(&group);
    (void)MPI_Group_free(&job_group);
    return CERO_OK;
}

/* What needs no other rank. */
static cero_status fill(cero_comm *comm, const cero_comm_params *params)
{
    cero_mpi *mpi = cero_mpi_of(comm);
    size_t size = (size_t)comm->size;
    int *node = cero_new(size, sizeof(int));

    mpi->job_rank = cero_new(size, sizeof(int));
    mpi->control = cero_new(size, sizeof(cero_mpi_control *));
    mpi->private_control = cero_new(1, sizeof(cero_mpi_control) + CERO_MEM_ALIGNMENT);
    if (node == NULL || mpi->job_rank == NULL || mpi->control == NULL ||
        mpi->private_control == NULL) {
        cero_delete(node);
        return CERO_FAIL(CERO_ERR_NOMEM, "no memory for a communicator of %d ranks", comm->size);
    }
    cero_status st = translate(mpi, comm->size, node);
    mpi->own = cero_mpi_align(mpi->private_control);
    mpi->message_limit = params->message_limit;
    comm->timeout = params->timeout_seconds;
    comm->ring = &mpi->job->own->ring;
    if (st == CERO_OK) {
        number_nodes(mpi->job, mpi->job_rank, comm->size, node);
        st = cero_comm_set_nodes(comm, node);
    }
    cero_delete(node);
    return st;
}

/* The control pages, when the job's ranks share memory. */
static cero_status share(cero_comm *comm)
{
    cero_mpi *mpi = cero_mpi_of(comm);

    if (mpi->job->node == MPI_COMM_NULL) {
        return CERO_OK;
    }
    CERO_TRY(cero_mpi_window_create(mpi->comm, comm->timeout, comm->node, sizeof(cero_mpi_control),
                                    &mpi->node, &mpi->window));
    if (mpi->node == MPI_COMM_NULL) {
        return CERO_OK;
    }
    int node = comm->node[comm->rank];
    for (int local = 0; local < comm->node_size[node]; local++) {
        mpi->control[cero_comm_rank_at(comm, node, local)] = cero_mpi_window_at(mpi->window, local);
    }
    mpi->own = mpi->control[comm->rank];
    comm->has_shared_memory = true;
    return CERO_OK;
}

static void link_to_process(cero_mpi *mpi)
{
    cero_mpi_process *p = cero_mpi_process_get();

    mpi->next = p->list;
    p->list = mpi;
    p->communicators++;
}

static void unlink_from_process(cero_mpi *mpi)
{
    cero_mpi **link = &cero_mpi_process_get()->list;

    while (*link != mpi) {
        link = &(*link)->next;
    }
    *link = mpi->next;
}

/* Everything of a communicator that is in `mpi`; the parts in MPI only while all ranks do the same. */
static void take_apart(cero_mpi *mpi, bool is_left)
{
    if (is_left) {
        cero_mpi_window_destroy(&mpi->node, &mpi->window);
        (void)MPI_Comm_free(&mpi->comm);
    }
    cero_delete(mpi->job_rank);
    cero_delete(mpi->control);
    cero_delete(mpi->private_control);
    cero_delete(mpi);
}

/* The structs; a failure is agreed afterwards, so that it has to leave nothing behind. */
static cero_status allocate(MPI_Comm mpi_comm, cero_mpi_job *job, const cero_comm_params *params,
                            cero_comm **out)
{
    static const cero_comm_ops half_built = {.name = "mpi"};
    cero_comm *comm = cero_new(1, sizeof(*comm));
    cero_mpi *mpi = cero_new(1, sizeof(*mpi));

    if (comm == NULL || mpi == NULL) {
        cero_delete(comm);
        cero_delete(mpi);
        return CERO_FAIL(CERO_ERR_NOMEM, "no memory for a communicator");
    }
    *mpi = (cero_mpi){
        .comm = mpi_comm, .node = MPI_COMM_NULL, .window = MPI_WIN_NULL, .base = comm, .job = job};
    comm->ops = &half_built;
    comm->context = mpi;
    (void)MPI_Comm_rank(mpi_comm, &comm->rank);
    (void)MPI_Comm_size(mpi_comm, &comm->size);
    *out = comm;
    return fill(comm, params);
}

/* Takes `mpi_comm`, and a reference to the job. */
static cero_status build(MPI_Comm mpi_comm, cero_mpi_job *job, const cero_comm_params *params,
                         cero_comm **out)
{
    cero_comm *comm = NULL;
    bool is_sound;
    cero_status st = allocate(mpi_comm, job, params, &comm);

    st = cero_mpi_agree(mpi_comm, params->timeout_seconds, st);
    st = cero_mpi_end_creation(st == CERO_OK ? share(comm) : st, &is_sound);
    if (st != CERO_OK) {
        if (comm != NULL) {
            take_apart(cero_mpi_of(comm), is_sound);
        } else if (is_sound) {
            (void)MPI_Comm_free(&mpi_comm);
        }
        cero_comm_destroy(&comm);
        return st;
    }
    comm->ops = &mpi_ops;
    job->references++;
    link_to_process(cero_mpi_of(comm));
    *out = comm;
    return CERO_OK;
}

cero_status cero_mpi_comm_create(MPI_Comm comm, const cero_comm_params *params, cero_comm **out)
{
    cero_mpi_job *job;
    bool is_sound;

    cero_status st = cero_mpi_end_creation(cero_mpi_job_create(comm, params, &job), &is_sound);
    if (st != CERO_OK) {
        if (is_sound) {
            (void)MPI_Comm_free(&comm);
        }
        return st;
    }
    st = build(comm, job, params, out);
    cero_mpi_job_release(job);
    return st;
}

/* MPI splits in a blocking call alone: all ranks are known to come before it. */
static cero_status split(cero_comm *comm, int color, int key, MPI_Comm *child)
{
    cero_mpi *mpi = cero_mpi_of(comm);
    cero_comm_event *event = cero_comm_record(comm, "split", 0);

    CERO_TRY(cero_mpi_barrier(comm));
    event->state = 'd';
    CERO_TRY_MPI(MPI_Comm_split(mpi->comm, color < 0 ? MPI_UNDEFINED : color, key, child),
                 "MPI_Comm_split");
    if (*child != MPI_COMM_NULL) {
        CERO_TRY_MPI(MPI_Comm_set_errhandler(*child, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
    }
    return CERO_OK;
}

static cero_status mpi_split(cero_comm *comm, int color, int key, cero_comm **out)
{
    cero_mpi *mpi = cero_mpi_of(comm);
    cero_comm_params params = {.timeout_seconds = comm->timeout,
                               .message_limit = mpi->message_limit};
    MPI_Comm child = MPI_COMM_NULL;

    CERO_TRY(cero_mpi_end(split(comm, color, key, &child)));
    if (child == MPI_COMM_NULL) {
        *out = NULL;
        return CERO_OK;
    }
    return build(child, mpi->job, &params, out);
}

static void mpi_destroy(cero_comm *comm)
{
    cero_mpi *mpi = cero_mpi_of(comm);
    cero_mpi_job *job = mpi->job;

    unlink_from_process(mpi);
    take_apart(mpi, cero_mpi_meet(job, mpi->comm, mpi->job_rank, comm->timeout));
    cero_mpi_job_release(job);
    cero_mpi_leave();
}

static void mpi_poll(cero_comm *comm)
{
    cero_mpi_process *p = cero_mpi_process_get();
    double now = cero_clock_now();

    CERO_UNUSED(comm);
    if (p->status != CERO_OK) {
        return;
    }
    cero_mpi_show_step();
    if (now - p->pumped >= POLL_SECONDS) {
        p->pumped = now;
        (void)cero_mpi_pump();
    }
    cero_mpi_advance();
}

static void mpi_fail(cero_comm *comm, cero_status status, const char *message)
{
    CERO_UNUSED(comm);
    CERO_UNUSED(message);
    if (cero_mpi_process_get()->status == CERO_OK) {
        (void)cero_mpi_break(status);
    }
}

static int mpi_failed_rank(cero_comm *comm)
{
    CERO_UNUSED(comm);
    (void)cero_mpi_pump();
    return cero_mpi_process_get()->failed_rank;
}

static void mpi_abort(cero_comm *comm, int code)
{
    CERO_UNUSED(comm);
    cero_mpi_abort(code);
}

static cero_status exchange_start(cero_exchange *exchange, bool is_first)
{
    CERO_TRY(cero_mpi_usable());
    return cero_mpi_end(cero_mpi_exchange_start(exchange, is_first));
}

static cero_status exchange_finish(cero_exchange *exchange)
{
    CERO_TRY(cero_mpi_usable());
    return cero_mpi_end(cero_mpi_exchange_finish(exchange));
}

static cero_status exchange_release(cero_exchange *exchange)
{
    CERO_TRY(cero_mpi_usable());
    return cero_mpi_end(cero_mpi_exchange_release(exchange));
}

static cero_status buffer_create(cero_comm *comm, const cero_comm_buffer_params *params,
                                 cero_comm_buffer **out)
{
    CERO_TRY(cero_mpi_usable());
    return cero_mpi_buffer_create(comm, params, out);
}

static const cero_comm_ops mpi_ops = {
    .name = "mpi",
    .all_reduce_i64 = cero_mpi_all_reduce_i64,
    .all_gather = cero_mpi_all_gather,
    .broadcast = cero_mpi_broadcast,
    .send = cero_mpi_send,
    .recv = cero_mpi_recv,
    .barrier = cero_mpi_barrier,
    .split = mpi_split,
    .buffer_create = buffer_create,
    .buffer_destroy = cero_mpi_buffer_destroy,
    .reduce_create = cero_mpi_reduce_create,
    .gather_create = cero_mpi_gather_create,
    .exchange_destroy = cero_mpi_exchange_destroy,
    .exchange_start = exchange_start,
    .exchange_finish = exchange_finish,
    .exchange_release = exchange_release,
    .landing_bytes = cero_exchange_landing_bytes,
    .poll = mpi_poll,
    .fail = mpi_fail,
    .failed_rank = mpi_failed_rank,
    .abort = mpi_abort,
    .destroy = mpi_destroy,
};
