/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The three halves of an exchange, and its flags in shared memory. Messages are in mpi_stream.c; what a reduction
 * adds and what a gather copies is in mpi_reduce.c and mpi_gather.c.
 */
#include "comm/mpi/mpi_exchange_impl.h"

#include <stdio.h>
#include <string.h>

static cero_mpi_exchange *of(cero_exchange *exchange)
{
    return (cero_mpi_exchange *)exchange;
}

static int slot_of(int64_t id)
{
    return (int)(id % CERO_MPI_SLOTS);
}

/*
 * Most streams in one direction: one for each other rank or, where nodes are served, for each node and each part
 * that this rank serves. In worlds of thousands of ranks that is a table to save.
 */
static size_t most_streams(const cero_exchange *base)
{
    const cero_comm *comm = base->comm;
    int node = comm->node[comm->rank];
    bool is_by_node = base->kind == CERO_COMM_REDUCE_UNIT
                          ? cero_exchange_is_by_node(comm, base->reduce.order)
                          : comm->has_shared_memory;
    int served = 0;

    if (!is_by_node) {
        return (size_t)comm->size;
    }
    for (int j = 0; j < comm->size; j++) {
        served += comm->node[j] != node && cero_exchange_server(comm, node, j) == comm->rank;
    }
    return (size_t)(served > comm->node_count ? served : comm->node_count);
}

cero_status cero_mpi_exchange_prepare(cero_mpi_exchange *x)
{
    const cero_comm *comm = x->base.comm;
    size_t streams = most_streams(&x->base);

    x->send = cero_new(streams, sizeof(*x->send));
    x->recv = cero_new(streams, sizeof(*x->recv));
    x->near = cero_new((size_t)comm->node_size[comm->node[comm->rank]], sizeof(*x->near));
    CERO_CHECK(x->send != NULL && x->recv != NULL && x->near != NULL, CERO_ERR_NOMEM,
               "no memory for the exchange of %s", x->base.name);
    for (int r = 0; r < comm->size; r++) {
        if (r != comm->rank && cero_exchange_is_near(comm, comm->rank, r)) {
            x->near[x->near_count++].rank = r;
        }
    }
    (void)snprintf(x->label, sizeof(x->label), "%s %s",
                   x->base.kind == CERO_COMM_REDUCE_UNIT ? "reduce" : "gather", x->base.name);
    cero_exchange_set_payload(&x->base, cero_mpi_of(comm)->message_limit);
    return CERO_OK;
}

static _Atomic int64_t *flag_of(cero_mpi_control *control, cero_mpi_flag flag, int64_t id)
{
    _Atomic int64_t *row = flag == CERO_MPI_READY    ? control->ready
                           : flag == CERO_MPI_LANDED ? control->landed
                                                     : control->done;

    return &row[slot_of(id)];
}

/* Release: what was written, and what was read, before is so for who sees the flag. */
void cero_mpi_set_flag(cero_mpi_exchange *x, cero_mpi_flag flag)
{
    atomic_store_explicit(flag_of(cero_mpi_of(x->base.comm)->own, flag, x->id), x->id,
                          memory_order_release);
}

bool cero_mpi_has_flag(const cero_mpi_exchange *x, int rank, cero_mpi_flag flag)
{
    cero_mpi_control *control = cero_mpi_of(x->base.comm)->control[rank];

    return atomic_load_explicit(flag_of(control, flag, x->id), memory_order_acquire) >= x->id;
}

int cero_mpi_without_flag(const cero_mpi_exchange *x, cero_mpi_flag flag)
{
    for (int k = 0; k < x->near_count; k++) {
        if (!cero_mpi_has_flag(x, x->near[k].rank, flag)) {
            return x->near[k].rank;
        }
    }
    return -1;
}

static bool is_over(const cero_mpi_exchange *x)
{
    return x->is_finished && x->is_done && cero_mpi_streams_peer(x->send, x->send_count) < 0;
}

/*
 * Which near ranks have started this run. The n-th exchange of all ranks is the same: where a program took another
 * way on one of them, that is said instead of adding what does not belong together.
 */
static cero_status look_for_ready(cero_mpi_exchange *x)
{
    bool is_ready = true;

    for (int k = 0; k < x->near_count && !x->is_ready; k++) {
        cero_mpi_near *near = &x->near[k];
        if (!near->is_ready && cero_mpi_has_flag(x, near->rank, CERO_MPI_READY)) {
            const char *label =
                cero_mpi_of(x->base.comm)->control[near->rank]->label[slot_of(x->id)];
            CERO_CHECK(strncmp(label, x->label, sizeof(x->label)) == 0, CERO_ERR_COMM,
                       "ranks are out of step: exchange %lld is \"%s\" on rank %d and \"%.*s\" on "
                       "rank %d; all ranks must start the same exchanges in the same order",
                       (long long)x->id, x->label, x->base.comm->rank, CERO_COMM_MAX_NAME, label,
                       near->rank);
            near->is_ready = true;
        }
        is_ready = is_ready && near->is_ready;
    }
    x->is_ready = x->is_ready || is_ready;
    return CERO_OK;
}

/* Moves on; a failure is kept, since it may be found where nobody asks for this exchange. */
static cero_status advance(cero_mpi_exchange *x)
{
    bool was_done = x->is_done;

    if (x->failure != CERO_OK) {
        return CERO_FAIL(x->failure, "%s", x->message);
    }
    if (is_over(x)) {
        return CERO_OK;
    }
    x->failure = look_for_ready(x);
    if (x->failure == CERO_OK) {
        x->failure = x->advance(x);
    }
    if (x->failure != CERO_OK) {
        (void)snprintf(x->message, sizeof(x->message), "%s", cero_error_message());
    } else if (x->is_done && !was_done) {
        cero_mpi_set_flag(x, CERO_MPI_DONE);
    }
    return x->failure;
}

void cero_mpi_exchange_poll(cero_comm *comm)
{
    cero_mpi *mpi = cero_mpi_of(comm);

    for (int slot = 0; slot < CERO_MPI_SLOTS; slot++) {
        cero_mpi_exchange *x = mpi->active[slot];
        // What fails here is told by the exchange's own finish or release.
        if (x != NULL && x->failure == CERO_OK) {
            (void)advance(x);
        }
    }
}

/* The event of this run; a new one when the ring has gone round since. */
static cero_comm_event *event_of(cero_mpi_exchange *x)
{
    // Other communicators of the job write to the same ring, and count for themselves.
    if (x->event == NULL || x->event->sequence != x->sequence ||
        strcmp(x->event->name, x->label) != 0) {
        x->event = cero_comm_record(x->base.comm, x->label, x->base.nbytes);
        x->sequence = x->event->sequence;
    }
    return x->event;
}

cero_status cero_mpi_exchange_start(cero_exchange *exchange, bool is_first)
{
    cero_mpi_exchange *x = of(exchange);
    cero_mpi *mpi = cero_mpi_of(exchange->comm);
    int slot = slot_of(mpi->exchanges + 1);

    CERO_CHECK(mpi->active[slot] == NULL, CERO_ERR_INTERNAL,
               "%s: exchange %lld, begun %d exchanges before, is not released yet", x->label,
               (long long)(mpi->exchanges + 1 - CERO_MPI_SLOTS), CERO_MPI_SLOTS);
    x->id = ++mpi->exchanges;
    x->event = NULL;
    x->is_first = is_first;
    x->is_ready = false;
    x->is_finished = false;
    x->is_done = false;
    for (int k = 0; k < x->near_count; k++) {
        x->near[k].is_ready = false;
    }
    cero_mpi_streams_reset(x->send, x->send_count);
    cero_mpi_streams_reset(x->recv, x->recv_count);
    x->begin(x);
    memcpy(mpi->own->label[slot], x->label, sizeof(x->label));
    mpi->active[slot] = x;
    (void)event_of(x);
    cero_mpi_set_flag(x, CERO_MPI_READY);
    return advance(x);
}

/* A wait of finish or release: until it is over, or another rank is the one waited for. */
typedef struct wait_state {
    cero_mpi_exchange *x;
    bool (*is_over)(const cero_mpi_exchange *x);
    int (*blocker)(const cero_mpi_exchange *x);
    int peer;
} wait_state;

static bool test_wait(void *context, cero_status *st)
{
    wait_state *w = context;

    *st = advance(w->x);
    return *st == CERO_OK && (w->is_over(w->x) || w->blocker(w->x) != w->peer);
}

static cero_status wait_until(cero_mpi_exchange *x, bool (*is_over_)(const cero_mpi_exchange *x),
                              int (*blocker)(const cero_mpi_exchange *x))
{
    CERO_TRY(advance(x));
    while (!is_over_(x)) {
        wait_state w = {.x = x, .is_over = is_over_, .blocker = blocker, .peer = blocker(x)};
        cero_comm_event *event = event_of(x);
        event->state = 'w';
        CERO_TRY(cero_mpi_wait(x->base.comm, test_wait, &w, w.peer, event));
    }
    return CERO_OK;
}

/* Finished for this rank: its output is there, and what it does for others but sending. */
static bool is_finished(const cero_mpi_exchange *x)
{
    return x->is_finished && x->is_done;
}

cero_status cero_mpi_exchange_finish(cero_exchange *exchange)
{
    cero_mpi_exchange *x = of(exchange);

    CERO_TRY(wait_until(x, is_finished, x->blocker));
    event_of(x)->state = 's';
    return CERO_OK;
}

static bool is_released(const cero_mpi_exchange *x)
{
    return is_over(x) && cero_mpi_without_flag(x, CERO_MPI_DONE) < 0;
}

static int release_blocker(const cero_mpi_exchange *x)
{
    if (!is_finished(x)) {
        return x->blocker(x);
    }
    int peer = cero_mpi_streams_peer(x->send, x->send_count);
    return peer < 0 ? cero_mpi_without_flag(x, CERO_MPI_DONE) : peer;
}

cero_status cero_mpi_exchange_release(cero_exchange *exchange)
{
    cero_mpi_exchange *x = of(exchange);

    CERO_TRY(wait_until(x, is_released, release_blocker));
    event_of(x)->state = 'd';
    cero_mpi_of(exchange->comm)->active[slot_of(x->id)] = NULL;
    return CERO_OK;
}

void cero_mpi_exchange_destroy(cero_exchange *exchange)
{
    cero_mpi_exchange *x = of(exchange);
    cero_mpi *mpi = cero_mpi_of(exchange->comm);

    for (int slot = 0; slot < CERO_MPI_SLOTS; slot++) {
        if (mpi->active[slot] == x) {
            mpi->active[slot] = NULL;
        }
    }
    cero_mpi_streams_cancel(x->send, x->send_count);
    cero_mpi_streams_cancel(x->recv, x->recv_count);
    if (x->cleanup != NULL) {
        x->cleanup(x);
    }
    cero_delete(x->send);
    cero_delete(x->recv);
    cero_delete(x->near);
    cero_exchange_cleanup(exchange);
}

cero_status cero_mpi_exchange_agree(cero_comm *comm, cero_exchange *exchange, cero_status st,
                                    cero_exchange **out)
{
    st = cero_comm_agree(comm, st);
    if (st == CERO_OK) {
        *out = exchange;
    } else if (exchange != NULL) {
        cero_mpi_exchange_destroy(exchange);
    }
    return st;
}
