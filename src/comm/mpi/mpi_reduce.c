/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reductions of the MPI transport. The owner of a part adds its terms in a fixed order, piece by piece: what a
 * near rank contributes is read in its memory, what comes from further lands in one of two slots per sender.
 *
 * Order FLAT: a term is a rank's contribution, and every owner gets it from every rank. Order NODE: a term is a
 * node's sum; one rank of each other node serves the owner, that is, adds its node's contributions to the part
 * and sends the sum, rounded to their dtype.
 */
#include "comm/mpi/mpi_exchange_impl.h"

/* One summand: in a near rank's memory, or from a stream. */
typedef struct reduce_term {
    const char
        *data; /* view: its contribution to the own part, or to the range for a served part */
    const cero_mpi_stream *stream; /* NULL: data */
} reduce_term;

/* A part of another node that this rank adds up for its own node. */
typedef struct reduce_served {
    int64_t begin; /* element of the range */
    int64_t numel;
    int64_t piece;           /* elements */
    int64_t added;           /* of this run */
    cero_mpi_stream *stream; /* view */
} reduce_served;

typedef struct mpi_reduce {
    cero_mpi_exchange mpi;
    reduce_term *term; /* owned, [term_count]: what is added to the own part, in order */
    int term_count;
    int node_first; /* as in cero_exchange_sum */
    int node_count;
    const char **member; /* owned, [node size]: where contributions of this node's ranks begin */
    int member_count;
    reduce_served *served; /* owned, [served_count] */
    int served_count;
    const void **address; /* owned, [size]: of the pieces at hand */
    int64_t numel;        /* of the own part */
    int64_t piece;        /* elements */
    int64_t added;        /* of this run */
} mpi_reduce;

static mpi_reduce *of(cero_mpi_exchange *x)
{
    return (mpi_reduce *)x;
}

static int64_t element(const cero_mpi_exchange *x)
{
    return (int64_t)cero_dtype_size(x->base.reduce.dtype);
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* A landing slot may be filled again when its piece has been added: two pieces beyond `added` are open. */
static void open_recv(mpi_reduce *r)
{
    int64_t size = element(&r->mpi);

    for (int k = 0; k < r->mpi.recv_count; k++) {
        r->mpi.recv[k].open = least(r->added + 2 * r->piece, r->numel) * size;
    }
}

static void begin_reduce(cero_mpi_exchange *x)
{
    mpi_reduce *r = of(x);

    r->added = 0;
    for (int k = 0; k < r->served_count; k++) {
        r->served[k].added = 0;
    }
    open_recv(r);
}

static bool has_come(const cero_mpi_exchange *x, int64_t nbytes)
{
    for (int k = 0; k < x->recv_count; k++) {
        if (x->recv[k].done < nbytes) {
            return false;
        }
    }
    return true;
}

/* Adds the next piece of the own part when all its terms are there. */
static bool add_own(mpi_reduce *r)
{
    cero_mpi_exchange *x = &r->mpi;
    const cero_reduce_params *p = &x->base.reduce;
    int64_t size = element(x);
    int64_t at = r->added;
    int64_t n = least(r->piece, r->numel - at);

    if (n == 0 || !x->is_ready || !has_come(x, (at + n) * size)) {
        return false;
    }
    for (int k = 0; k < r->term_count; k++) {
        const reduce_term *t = &r->term[k];
        r->address[k] =
            t->stream != NULL ? cero_mpi_stream_at(t->stream, at * size) : t->data + at * size;
    }
    cero_exchange_add(p->device, &(cero_exchange_sum){.dtype = p->dtype,
                                                      .n = n,
                                                      .contributions = r->address,
                                                      .count = r->term_count,
                                                      .node_first = r->node_first,
                                                      .node_count = r->node_count,
                                                      .is_first = x->is_first,
                                                      .sum = p->sum + at});
    r->added += n;
    open_recv(r);
    return true;
}

/* Adds the next piece of a served part when there is a slot for it, and opens it to be sent. */
static bool add_served(mpi_reduce *r, reduce_served *served)
{
    cero_mpi_exchange *x = &r->mpi;
    const cero_reduce_params *p = &x->base.reduce;
    int64_t size = element(x);
    int64_t at = served->added;
    int64_t n = least(served->piece, served->numel - at);
    int64_t sent = served->stream->done / size;

    // The slot is that of the piece before the last.
    if (n == 0 || !x->is_ready || at >= sent / served->piece * served->piece + 2 * served->piece) {
        return false;
    }
    for (int k = 0; k < r->member_count; k++) {
        r->address[k] = r->member[k] + (served->begin + at) * size;
    }
    cero_exchange_add_node(p->device, p->dtype, n, r->address, r->member_count,
                           cero_mpi_stream_at(served->stream, at * size));
    served->added += n;
    served->stream->open = served->added * size;
    return true;
}

static cero_status advance_reduce(cero_mpi_exchange *x)
{
    mpi_reduce *r = of(x);
    bool has_moved = true;

    while (has_moved) {
        has_moved = false;
        CERO_TRY(cero_mpi_streams_advance(x));
        // Others wait for what is served: it comes before the own part.
        bool is_served = true;
        for (int k = 0; k < r->served_count; k++) {
            has_moved = add_served(r, &r->served[k]) || has_moved;
            is_served = is_served && r->served[k].added == r->served[k].numel;
        }
        has_moved = add_own(r) || has_moved;
        x->is_finished = r->added == r->numel;
        x->is_done = x->is_finished && is_served;
    }
    return CERO_OK;
}

static int reduce_blocker(const cero_mpi_exchange *x)
{
    int peer = x->is_ready ? -1 : cero_mpi_without_flag(x, CERO_MPI_READY);

    if (peer < 0) {
        peer = cero_mpi_streams_peer(x->recv, x->recv_count);
    }
    return peer < 0 ? cero_mpi_streams_peer(x->send, x->send_count) : peer;
}

static void cleanup_reduce(cero_mpi_exchange *x)
{
    mpi_reduce *r = of(x);

    cero_delete(r->term);
    cero_delete((void *)r->member);
    cero_delete(r->served);
    cero_delete((void *)r->address);
}

/* Where a near rank's contribution to the range begins. */
static char *contribution_of(const cero_mpi_exchange *x, int rank)
{
    const cero_reduce_params *p = &x->base.reduce;

    return (char *)cero_mpi_buffer_of(p->source, rank) + p->source_offset;
}

/* The stream of the own part from `peer`, in the next of the landing memory. */
static cero_mpi_stream *add_landing(mpi_reduce *r, int peer, char **landing)
{
    cero_comm *comm = r->mpi.base.comm;
    const cero_reduce_params *p = &r->mpi.base.reduce;
    int64_t size = element(&r->mpi);
    cero_mpi_stream *s = cero_mpi_add_recv(&r->mpi, peer, *landing, r->numel * size);

    if (s != NULL) {
        s->piece = r->piece * size;
        s->slot = (int64_t)cero_exchange_slot_bytes(comm, p, comm->rank);
        *landing += cero_exchange_stream_bytes(comm, p, comm->rank);
    }
    return s;
}

/* FLAT: every rank is a term, and every owner that is not near gets the own contribution. */
static void plan_flat(mpi_reduce *r)
{
    cero_mpi_exchange *x = &r->mpi;
    cero_comm *comm = x->base.comm;
    const cero_reduce_params *p = &x->base.reduce;
    int64_t size = element(x);
    char *landing = p->landing;

    r->term_count = comm->size;
    for (int k = 0; k < comm->size; k++) {
        if (cero_exchange_is_near(comm, comm->rank, k)) {
            r->term[k].data = contribution_of(x, k) + p->border[comm->rank] * size;
            continue;
        }
        r->term[k].stream = add_landing(r, k, &landing);
        char *mine = contribution_of(x, comm->rank) + p->border[k] * size;
        cero_mpi_stream *s =
            cero_mpi_add_send(x, k, mine, (p->border[k + 1] - p->border[k]) * size);
        if (s != NULL) {
            s->piece = cero_exchange_piece(comm, p, k) * size;
        }
    }
}

static void add_served_part(mpi_reduce *r, int part, char **landing)
{
    cero_mpi_exchange *x = &r->mpi;
    cero_comm *comm = x->base.comm;
    const cero_reduce_params *p = &x->base.reduce;
    int64_t numel = p->border[part + 1] - p->border[part];
    cero_mpi_stream *s = cero_mpi_add_send(x, part, *landing, numel * element(x));

    if (s == NULL) {
        return;
    }
    reduce_served *served = &r->served[r->served_count++];
    *served = (reduce_served){.begin = p->border[part],
                              .numel = numel,
                              .piece = cero_exchange_piece(comm, p, part),
                              .stream = s};
    s->piece = served->piece * element(x);
    s->slot = (int64_t)cero_exchange_slot_bytes(comm, p, part);
    *landing += cero_exchange_stream_bytes(comm, p, part);
}

/* NODE: the terms are the other nodes' sums and, where its turn is, the contributions of this one. */
static void plan_by_node(mpi_reduce *r)
{
    cero_mpi_exchange *x = &r->mpi;
    cero_comm *comm = x->base.comm;
    const cero_reduce_params *p = &x->base.reduce;
    int own = comm->node[comm->rank];
    char *landing = p->landing;

    for (int n = 0; n < comm->node_count; n++) {
        if (n != own) {
            int server = cero_exchange_server(comm, n, comm->rank);
            r->term[r->term_count++].stream = add_landing(r, server, &landing);
            continue;
        }
        r->node_first = r->term_count;
        r->node_count = r->member_count;
        for (int k = 0; k < r->member_count; k++) {
            r->term[r->term_count++].data = r->member[k] + p->border[comm->rank] * element(x);
        }
    }
    for (int j = 0; j < comm->size; j++) {
        if (comm->node[j] != own && cero_exchange_server(comm, own, j) == comm->rank) {
            add_served_part(r, j, &landing);
        }
    }
}

static cero_status plan_reduce(mpi_reduce *r)
{
    cero_mpi_exchange *x = &r->mpi;
    cero_comm *comm = x->base.comm;
    const cero_reduce_params *p = &x->base.reduce;
    size_t size = (size_t)comm->size;
    bool is_by_node = cero_exchange_is_by_node(comm, p->order);

    CERO_CHECK(!is_by_node || comm->has_shared_memory, CERO_ERR_INVALID,
               "%s: adding gradients by node needs memory that the ranks of a node share; set "
               "cero.gradient_order to \"global\", or leave out --no-shared-memory",
               x->base.name);
    CERO_TRY(cero_mpi_exchange_prepare(x));
    r->term = cero_new(size, sizeof(*r->term));
    r->member = cero_new(size, sizeof(*r->member));
    r->served = cero_new(size, sizeof(*r->served));
    r->address = cero_new(size, sizeof(*r->address));
    CERO_CHECK(r->term != NULL && r->member != NULL && r->served != NULL && r->address != NULL,
               CERO_ERR_NOMEM, "no memory for the exchange of %s", x->base.name);
    for (int k = 0; k < comm->size; k++) {
        if (comm->node[k] == comm->node[comm->rank] && cero_exchange_is_near(comm, comm->rank, k)) {
            r->member[r->member_count++] = contribution_of(x, k);
        }
    }
    r->numel = p->border[comm->rank + 1] - p->border[comm->rank];
    r->piece = cero_exchange_piece(comm, p, comm->rank);
    if (is_by_node) {
        plan_by_node(r);
    } else {
        plan_flat(r);
    }
    if (x->recv_count == 0) {
        r->piece = r->numel; // nothing lands: all at once
    }
    return CERO_OK;
}

cero_status cero_mpi_reduce_create(cero_comm *comm, const cero_reduce_params *params,
                                   cero_exchange **out)
{
    cero_exchange *x = NULL;
    cero_status st = cero_exchange_init_reduce(comm, params, sizeof(mpi_reduce), &x);

    if (st == CERO_OK) {
        mpi_reduce *r = (mpi_reduce *)x;
        r->mpi.begin = begin_reduce;
        r->mpi.advance = advance_reduce;
        r->mpi.blocker = reduce_blocker;
        r->mpi.cleanup = cleanup_reduce;
        st = plan_reduce(r);
    }
    return cero_mpi_exchange_agree(comm, x, st, out);
}
