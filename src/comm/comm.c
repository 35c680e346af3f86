/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The calls of comm.h: what is the same for all transports (a world of one, agreement, exact sums, counters,
 * the ring of recent operations), and the way to the transport's own.
 */
#include "comm/comm.h"

#include "base/clock.h"
#include "comm/comm_transport.h"

#include <stdio.h>
#include <string.h>

enum {
    MAX_MESSAGE = 480, /* of another rank's error, with its end */
    OWN_MESSAGE = 8192 /* of this rank's, which may come with a table */
};

void cero_comm_destroy(cero_comm **comm)
{
    if (comm == NULL || *comm == NULL) {
        return;
    }
    cero_comm *c = *comm;
    if (c->ops->destroy != NULL) {
        c->ops->destroy(c);
    }
    cero_delete(c->node);
    cero_delete(c->local_rank);
    cero_delete(c->node_size);
    cero_delete(c->rank_at);
    cero_delete(c->node_first);
    cero_delete(c);
    *comm = NULL;
}

cero_status cero_comm_set_nodes(cero_comm *comm, const int *node)
{
    size_t size = (size_t)comm->size;
    int count = 0;

    for (int r = 0; r < comm->size; r++) {
        count = node[r] >= count ? node[r] + 1 : count;
    }
    comm->node_count = count;
    comm->node = cero_new(size, sizeof(int));
    comm->local_rank = cero_new(size, sizeof(int));
    comm->rank_at = cero_new(size, sizeof(int));
    comm->node_size = cero_new((size_t)count, sizeof(int));
    comm->node_first = cero_new((size_t)count + 1, sizeof(int));
    if (comm->node == NULL || comm->local_rank == NULL || comm->rank_at == NULL ||
        comm->node_size == NULL || comm->node_first == NULL) {
        return CERO_FAIL(CERO_ERR_NOMEM, "no memory for the nodes of %d ranks", comm->size);
    }
    for (int r = 0; r < comm->size; r++) {
        comm->node[r] = node[r];
        comm->local_rank[r] = comm->node_size[node[r]]++;
    }
    for (int n = 0; n < count; n++) {
        comm->node_first[n + 1] = comm->node_first[n] + comm->node_size[n];
    }
    for (int r = 0; r < comm->size; r++) {
        comm->rank_at[comm->node_first[node[r]] + comm->local_rank[r]] = r;
    }
    return CERO_OK;
}

void cero_comm_abort(cero_comm *comm, int code)
{
    if (comm != NULL && comm->ops->abort != NULL) {
        comm->ops->abort(comm, code);
    }
}

int cero_comm_rank(const cero_comm *comm)
{
    return comm->rank;
}

int cero_comm_size(const cero_comm *comm)
{
    return comm->size;
}

int cero_comm_node_count(const cero_comm *comm)
{
    return comm->node_count;
}

int cero_comm_node_of(const cero_comm *comm, int rank)
{
    return comm->node[rank];
}

int cero_comm_local_rank(const cero_comm *comm, int rank)
{
    return comm->local_rank[rank];
}

int cero_comm_node_size(const cero_comm *comm, int node)
{
    return comm->node_size[node];
}

int cero_comm_rank_at(const cero_comm *comm, int node, int local_rank)
{
    return comm->rank_at[comm->node_first[node] + local_rank];
}

bool cero_comm_has_shared_memory(const cero_comm *comm)
{
    return comm->has_shared_memory;
}

const char *cero_comm_transport_name(const cero_comm *comm)
{
    return comm->ops->name;
}

void cero_comm_set_timeout(cero_comm *comm, double seconds)
{
    comm->timeout = seconds;
}

cero_comm_event *cero_comm_record(cero_comm *comm, const char *name, int64_t nbytes)
{
    cero_comm_event *event = &comm->ring->event[comm->ring->count % CERO_COMM_RECENT];

    *event = (cero_comm_event){
        .sequence = ++comm->sequence, .nbytes = nbytes, .time = cero_clock_now(), .state = 's'};
    (void)snprintf(event->name, sizeof(event->name), "%s", name);
    comm->ring->count++;
    return event;
}

void cero_comm_ring_write(const cero_comm_ring *ring, cero_text *out)
{
    int64_t first = ring->count > CERO_COMM_RECENT ? ring->count - CERO_COMM_RECENT : 0;
    double now = cero_clock_now();

    for (int64_t k = first; k < ring->count; k++) {
        const cero_comm_event *e = &ring->event[k % CERO_COMM_RECENT];
        const char *state = e->state == 'd' ? "done" : e->state == 'w' ? "waiting" : "started";
        cero_text_printf(out, "    operation %lld, %s, %lld bytes, %s, begun %.1f s ago\n",
                         (long long)e->sequence, e->name, (long long)e->nbytes, state,
                         now - e->time);
    }
}

void cero_comm_note(cero_comm *comm, const char *what, int64_t number)
{
    char name[CERO_COMM_MAX_NAME];

    (void)snprintf(name, sizeof(name), "%.24s %lld", what, (long long)number);
    cero_comm_record(comm, name, 0)->state = 'd';
}

void cero_comm_write_recent(const cero_comm *comm, cero_text *out)
{
    cero_comm_ring_write(comm->ring, out);
}

void cero_comm_poll(cero_comm *comm)
{
    if (comm->ops->poll != NULL) {
        comm->ops->poll(comm);
    }
}

cero_status cero_comm_fail(cero_comm *comm, cero_status status)
{
    if (status == CERO_OK || status == CERO_ERR_REMOTE || comm->size == 1 ||
        comm->ops->fail == NULL || comm->is_late) {
        return status;
    }
    int first = cero_comm_failed_rank(comm);
    comm->is_late = first >= 0 && first != comm->rank;
    if (!comm->is_late) {
        comm->ops->fail(comm, status, cero_error_message());
    }
    return status;
}

int cero_comm_failed_rank(cero_comm *comm)
{
    return comm->ops->failed_rank != NULL ? comm->ops->failed_rank(comm) : -1;
}

int cero_comm_agreed_failure(const cero_comm *comm)
{
    return comm->agreed_failure - 1;
}

bool cero_comm_is_late(const cero_comm *comm)
{
    return comm->is_late;
}

/* Counting: a collective begins with an event and ends with its counter moved. */

static double begin(cero_comm *comm, cero_comm_kind kind, int64_t nbytes, cero_comm_event **event)
{
    *event = cero_comm_record(comm, cero_comm_kind_name(kind), nbytes);
    (*event)->state = 'w';
    return cero_clock_now();
}

/* The line of the communication log for a kind and size. */
static cero_comm_log_line *find_log_line(cero_comm *comm, cero_comm_kind kind, int64_t nbytes)
{
    cero_comm_log_line *nearest = NULL;

    for (int i = 0; i < comm->log_count; i++) {
        cero_comm_log_line *line = &comm->log[i];
        if (line->kind == kind && line->nbytes == nbytes) {
            return line;
        }
        if (line->kind == kind && line->nbytes < nbytes &&
            (nearest == NULL || line->nbytes > nearest->nbytes)) {
            nearest = line;
        }
    }
    if (comm->log_count == CERO_COMM_LOG_LINES) {
        return nearest != NULL ? nearest : &comm->log[0];
    }
    comm->log[comm->log_count] = (cero_comm_log_line){.kind = kind, .nbytes = nbytes};
    return &comm->log[comm->log_count++];
}

void cero_comm_count(cero_comm *comm, cero_comm_kind kind, int calls, int64_t nbytes,
                     double seconds)
{
    cero_comm_counter *c = &comm->counter[kind];
    cero_comm_log_line *line = find_log_line(comm, kind, nbytes);

    c->calls += calls;
    c->bytes += calls * nbytes;
    c->seconds += seconds;
    line->calls += calls;
    line->seconds += seconds;
}

void cero_comm_tell(const cero_comm *comm, const cero_comm_operation *operation)
{
    if (comm->observer != NULL) {
        comm->observer(comm->observer_context, operation);
    }
}

static cero_status end(cero_comm *comm, cero_comm_kind kind, int64_t nbytes, double start,
                       cero_comm_event *event, cero_status st)
{
    if (st == CERO_OK) {
        double seconds = cero_clock_now() - start;
        event->state = 'd';
        cero_comm_count(comm, kind, 1, nbytes, seconds);
        comm->counter[kind].messages += kind == CERO_COMM_RECV ? 0 : 1;
        cero_comm_tell(comm,
                       &(cero_comm_operation){.kind = kind, .nbytes = nbytes, .seconds = seconds});
    }
    return st;
}

cero_status cero_comm_all_reduce_i64(cero_comm *comm, cero_comm_reduction reduction,
                                     int64_t *values, int64_t count_)
{
    cero_comm_event *event;
    int64_t nbytes = count_ * (int64_t)sizeof(int64_t);

    if (comm->size == 1 || comm->ops->all_reduce_i64 == NULL) {
        return CERO_OK;
    }
    double start = begin(comm, CERO_COMM_ALL_REDUCE, nbytes, &event);
    cero_status st = comm->ops->all_reduce_i64(comm, reduction, values, count_);
    return end(comm, CERO_COMM_ALL_REDUCE, nbytes, start, event, st);
}

_Static_assert(sizeof(cero_exact) % sizeof(int64_t) == 0, "an exact sum is a row of integers");

cero_status cero_comm_all_reduce_exact(cero_comm *comm, cero_exact *sums, int count_)
{
    return cero_comm_all_reduce_i64(comm, CERO_COMM_SUM, sums->limb,
                                    (int64_t)count_ *
                                        (int64_t)(sizeof(cero_exact) / sizeof(int64_t)));
}

cero_status cero_comm_all_gather(cero_comm *comm, const void *mine, size_t nbytes, void *all)
{
    cero_comm_event *event;
    int64_t sent = (int64_t)nbytes * (comm->size - 1);

    if (comm->size == 1 || comm->ops->all_gather == NULL) {
        for (int r = 0; r < comm->size; r++) {
            memcpy((char *)all + (size_t)r * nbytes, mine, nbytes);
        }
        return CERO_OK;
    }
    double start = begin(comm, CERO_COMM_ALL_GATHER, sent, &event);
    cero_status st = comm->ops->all_gather(comm, mine, nbytes, all);
    return end(comm, CERO_COMM_ALL_GATHER, sent, start, event, st);
}

cero_status cero_comm_broadcast(cero_comm *comm, void *data, size_t nbytes, int root)
{
    cero_comm_event *event;

    CERO_CHECK(root >= 0 && root < comm->size, CERO_ERR_INVALID, "broadcast from rank %d of %d",
               root, comm->size);
    if (comm->size == 1 || comm->ops->broadcast == NULL) {
        return CERO_OK;
    }
    int64_t sent = comm->rank == root ? (int64_t)nbytes * (comm->size - 1) : 0;
    double start = begin(comm, CERO_COMM_BROADCAST, sent, &event);
    cero_status st = comm->ops->broadcast(comm, data, nbytes, root);
    return end(comm, CERO_COMM_BROADCAST, sent, start, event, st);
}

static cero_status check_peer(const cero_comm *comm, int peer, int tag, const char *what)
{
    CERO_CHECK(peer >= 0 && peer < comm->size && peer != comm->rank, CERO_ERR_INVALID,
               "rank %d of %d cannot %s rank %d", comm->rank, comm->size, what, peer);
    CERO_CHECK(tag >= 0 && tag < 1000, CERO_ERR_INVALID, "tag %d; expected 0 .. 999", tag);
    return CERO_OK;
}

cero_status cero_comm_send(cero_comm *comm, int peer, int tag, const void *data, size_t nbytes)
{
    cero_comm_event *event;

    CERO_TRY(check_peer(comm, peer, tag, "send to"));
    if (comm->ops->send == NULL) {
        return CERO_OK;
    }
    double start = begin(comm, CERO_COMM_SEND, (int64_t)nbytes, &event);
    cero_status st = comm->ops->send(comm, peer, tag, data, nbytes);
    return end(comm, CERO_COMM_SEND, (int64_t)nbytes, start, event, st);
}

cero_status cero_comm_recv(cero_comm *comm, int peer, int tag, void *data, size_t nbytes)
{
    cero_comm_event *event;

    CERO_TRY(check_peer(comm, peer, tag, "receive from"));
    if (comm->ops->recv == NULL) {
        return CERO_OK;
    }
    double start = begin(comm, CERO_COMM_RECV, 0, &event);
    cero_status st = comm->ops->recv(comm, peer, tag, data, nbytes);
    return end(comm, CERO_COMM_RECV, 0, start, event, st);
}

cero_status cero_comm_barrier(cero_comm *comm)
{
    cero_comm_event *event;

    if (comm->size == 1 || comm->ops->barrier == NULL) {
        return CERO_OK;
    }
    double start = begin(comm, CERO_COMM_BARRIER, 0, &event);
    cero_status st = comm->ops->barrier(comm);
    return end(comm, CERO_COMM_BARRIER, 0, start, event, st);
}

cero_status cero_comm_split(cero_comm *comm, int color, int key, cero_comm **out)
{
    if (comm->size == 1 || comm->ops->split == NULL) {
        *out = NULL;
        return color < 0 ? CERO_OK : cero_comm_create_self(out);
    }
    return comm->ops->split(comm, color, key, out);
}

/* The lowest rank that failed says why, so that every rank's message does. */
static cero_status fail_remote(cero_comm *comm, int first, cero_status status)
{
    char message[MAX_MESSAGE] = "";

    CERO_TRY(cero_comm_broadcast(comm, message, sizeof(message), first));
    return CERO_FAIL(CERO_ERR_REMOTE, "rank %d failed (%s): %s", first, cero_status_name(status),
                     message);
}

/*
 * A rank that failed: it joins the broadcast, and keeps its status and message whatever comes of that. Others of
 * its kind may have left already, which ends its waits.
 */
static cero_status fail_local(cero_comm *comm, int64_t first, cero_status local)
{
    char own[OWN_MESSAGE];
    char message[MAX_MESSAGE];
    cero_status st = CERO_OK;

    (void)snprintf(own, sizeof(own), "%s", cero_error_message());
    (void)snprintf(message, sizeof(message), "%.*s", MAX_MESSAGE - 1, own);
    st = cero_comm_all_reduce_i64(comm, CERO_COMM_MIN, &first, 1);
    if (st == CERO_OK) {
        int root = cero_to_int(first / CERO_STATUS_COUNT);
        comm->agreed_failure = root + 1;
        st = cero_comm_broadcast(comm, message, sizeof(message), root);
    }
    return st == CERO_OK ? local : CERO_FAIL(local, "%s", own);
}

cero_status cero_comm_agree(cero_comm *comm, cero_status local)
{
    int64_t first = local == CERO_OK ? INT64_MAX : (int64_t)comm->rank * CERO_STATUS_COUNT + local;

    if (comm->size == 1) {
        return local;
    }
    comm->agreed_failure = 0;
    if (local != CERO_OK) {
        return fail_local(comm, first, local);
    }
    CERO_TRY(cero_comm_all_reduce_i64(comm, CERO_COMM_MIN, &first, 1));
    if (first == INT64_MAX) {
        return CERO_OK;
    }
    int root = cero_to_int(first / CERO_STATUS_COUNT);
    comm->agreed_failure = root + 1;
    return fail_remote(comm, root, (cero_status)(first % CERO_STATUS_COUNT));
}

cero_status cero_comm_buffer_create(cero_comm *comm, const cero_comm_buffer_params *params,
                                    cero_comm_buffer **out)
{
    CERO_CHECK(!params->is_one_per_node || comm->size == 1 || comm->has_shared_memory,
               CERO_ERR_INVALID,
               "%s: one copy per node needs shared memory between the ranks of a node; set "
               "cero.share_within_node to false",
               params->what);
    return comm->ops->buffer_create(comm, params, out);
}

void cero_comm_buffer_destroy(cero_comm_buffer **buffer)
{
    if (buffer == NULL || *buffer == NULL) {
        return;
    }
    (*buffer)->comm->ops->buffer_destroy(*buffer);
    *buffer = NULL;
}

void *cero_comm_buffer_data(const cero_comm_buffer *buffer)
{
    return buffer->data;
}

size_t cero_comm_buffer_bytes(const cero_comm *comm, size_t nbytes, bool is_one_per_node)
{
    int node = comm->node[comm->rank];
    size_t ranks = (size_t)comm->node_size[node];
    size_t lines = (nbytes + CERO_MEM_ALIGNMENT - 1) / CERO_MEM_ALIGNMENT;
    size_t local = (size_t)comm->local_rank[comm->rank];

    if (!is_one_per_node) {
        return nbytes;
    }
    // Whole cache lines, spread evenly; the last rank has what is left of the last line.
    size_t first = lines * local / ranks * CERO_MEM_ALIGNMENT;
    size_t last = lines * (local + 1) / ranks * CERO_MEM_ALIGNMENT;
    return (last < nbytes ? last : nbytes) - (first < nbytes ? first : nbytes);
}

const char *cero_comm_kind_name(cero_comm_kind kind)
{
    static const char *const names[CERO_COMM_KIND_COUNT] = {
        "all_gather_unit", "reduce_unit", "all_reduce", "all_gather",
        "broadcast",       "send",        "recv",       "barrier",
    };

    return names[kind];
}

cero_comm_counter cero_comm_get_counter(const cero_comm *comm, cero_comm_kind kind)
{
    return comm->counter[kind];
}

cero_comm_counter cero_comm_get_total(const cero_comm *comm)
{
    cero_comm_counter sum = {0};

    for (int kind = 0; kind < CERO_COMM_KIND_COUNT; kind++) {
        const cero_comm_counter *c = &comm->counter[kind];
        sum.calls += c->calls;
        sum.messages += c->messages;
        sum.bytes += c->bytes;
        sum.bytes_between_nodes += c->bytes_between_nodes;
        sum.seconds += c->seconds;
    }
    return sum;
}

int64_t cero_comm_bytes_sent(const cero_comm *comm)
{
    return cero_comm_get_total(comm).bytes;
}

void cero_comm_set_observer(cero_comm *comm, cero_comm_observer observer, void *context)
{
    comm->observer = observer;
    comm->observer_context = context;
}

bool cero_comm_get_log_line(const cero_comm *comm, int i, cero_comm_log_line *out)
{
    if (i < 0 || i >= comm->log_count) {
        return false;
    }
    *out = comm->log[i];
    return true;
}

#if !CERO_HAVE_MPI
const char *cero_comm_mpi_library(void)
{
    return "none";
}
#endif
