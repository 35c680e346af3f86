/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gathers of the MPI transport. Parts of near ranks are copied from their memory. A part of another node is
 * received once, by the rank of this node that serves it, into its own dest, whence its near ranks copy it.
 *
 * Where a node keeps one dest, every rank writes its own part and what it received there, and waits until the
 * others have: nothing is copied between near ranks. Such a dest is written only when all ranks of the node
 * have started the exchange, since until then one of them may still read what it holds.
 */
#include "comm/mpi/mpi_exchange_impl.h"

/* Ranges to copy from one near rank, in the order of x->near: first its own part, then those it receives for the node. */
typedef struct gather_near {
    int rank;
    int first; /* of copies */
    int own_count;
    int landed_count;
    bool is_own_copied;
    bool is_landed_copied;
} gather_near;

typedef struct mpi_gather {
    cero_mpi_exchange mpi;
    gather_near *near;          /* owned, [near_count]; without copies where dest is one per node */
    cero_exchange_copy *copies; /* owned, [size] */
    int copy_count;
    cero_exchange_copy own; /* of the own part into dest; no bytes when it is there */
    bool is_dest_shared;    /* one per node, with other ranks */
    bool is_own_there;      /* in this run */
    bool is_landed;         /* all is received, the flag is set */
} mpi_gather;

static mpi_gather *of(cero_mpi_exchange *x)
{
    return (mpi_gather *)x;
}

static void begin_gather(cero_mpi_exchange *x)
{
    mpi_gather *g = of(x);

    g->is_own_there = false;
    g->is_landed = false;
    for (int k = 0; k < x->near_count; k++) {
        g->near[k].is_own_copied = g->near[k].own_count == 0;
        g->near[k].is_landed_copied = g->near[k].landed_count == 0;
    }
    for (int k = 0; k < x->recv_count && g->is_dest_shared; k++) {
        x->recv[k].open = 0;
    }
}

/* The own part goes where it belongs, and what comes from other nodes may come; true when it did now. */
static bool fill_dest(mpi_gather *g)
{
    cero_mpi_exchange *x = &g->mpi;

    if (g->is_own_there || (g->is_dest_shared && !x->is_ready)) {
        return false;
    }
    cero_exchange_copy_all(x->base.gather.device, &g->own, 1);
    g->is_own_there = true;
    for (int k = 0; k < x->recv_count; k++) {
        x->recv[k].open = x->recv[k].nbytes;
    }
    return true;
}

static void copy_range(mpi_gather *g, int first, int count)
{
    cero_exchange_copy_all(g->mpi.base.gather.device, &g->copies[first], count);
}

/* Copies what near ranks have; true when all of it was. */
static bool copy_near(mpi_gather *g)
{
    cero_mpi_exchange *x = &g->mpi;
    bool is_all = true;

    for (int k = 0; k < x->near_count; k++) {
        gather_near *n = &g->near[k];
        if (!n->is_own_copied && x->near[k].is_ready) {
            copy_range(g, n->first, n->own_count);
            n->is_own_copied = true;
        }
        if (!n->is_landed_copied && x->near[k].is_ready &&
            cero_mpi_has_flag(x, n->rank, CERO_MPI_LANDED)) {
            copy_range(g, n->first + n->own_count, n->landed_count);
            n->is_landed_copied = true;
        }
        is_all = is_all && n->is_own_copied && n->is_landed_copied;
    }
    return is_all;
}

static cero_status advance_gather(cero_mpi_exchange *x)
{
    mpi_gather *g = of(x);

    CERO_TRY(cero_mpi_streams_advance(x));
    if (fill_dest(g)) {
        CERO_TRY(cero_mpi_streams_advance(x));
    }
    if (!g->is_landed && g->is_own_there && cero_mpi_streams_peer(x->recv, x->recv_count) < 0) {
        g->is_landed = true;
        cero_mpi_set_flag(x, CERO_MPI_LANDED);
    }
    bool is_near_there =
        g->is_dest_shared ? cero_mpi_without_flag(x, CERO_MPI_LANDED) < 0 : copy_near(g);
    x->is_done = is_near_there;
    x->is_finished = is_near_there && g->is_landed;
    return CERO_OK;
}

static int gather_blocker(const cero_mpi_exchange *x)
{
    const mpi_gather *g = (const mpi_gather *)x;

    for (int k = 0; k < x->near_count && !g->is_dest_shared; k++) {
        const gather_near *n = &g->near[k];
        if (!n->is_own_copied) {
            return n->rank;
        }
    }
    if (g->is_dest_shared && !x->is_ready) {
        return cero_mpi_without_flag(x, CERO_MPI_READY);
    }
    int peer = cero_mpi_streams_peer(x->recv, x->recv_count);
    if (peer >= 0) {
        return peer;
    }
    for (int k = 0; k < x->near_count && !g->is_dest_shared; k++) {
        if (!g->near[k].is_landed_copied) {
            return g->near[k].rank;
        }
    }
    return g->is_dest_shared ? cero_mpi_without_flag(x, CERO_MPI_LANDED) : -1;
}

static void cleanup_gather(cero_mpi_exchange *x)
{
    mpi_gather *g = of(x);

    cero_delete(g->near);
    cero_delete(g->copies);
}

static int64_t part_bytes(const cero_mpi_exchange *x, int part)
{
    return (x->base.border[part + 1] - x->base.border[part]) * (int64_t)x->base.gather.element_size;
}

/* Where a part lies in the dest of a near rank, and in the source of its owner. */
static char *dest_of(const cero_mpi_exchange *x, int rank, int part)
{
    const cero_gather_params *p = &x->base.gather;
    int64_t at = p->border[part] * (int64_t)p->element_size;

    return (char *)cero_mpi_buffer_of(p->dest, rank) + p->dest_offset + at;
}

static char *source_of(const cero_mpi_exchange *x, int rank)
{
    const cero_gather_params *p = &x->base.gather;

    return (char *)cero_mpi_buffer_of(p->source, rank) + p->source_at[rank];
}

/* One copy of `part` from `from`; 1, or 0 when there is nothing to copy. */
static int add_copy(mpi_gather *g, int part, const char *from)
{
    cero_mpi_exchange *x = &g->mpi;
    size_t nbytes = (size_t)part_bytes(x, part);

    if (nbytes == 0) {
        return 0;
    }
    g->copies[g->copy_count++] = (cero_exchange_copy){
        .to = dest_of(x, x->base.comm->rank, part), .from = from, .nbytes = nbytes};
    return 1;
}

static bool is_served_by(const cero_comm *comm, int part, int rank)
{
    return comm->node[part] != comm->node[rank] &&
           cero_exchange_server(comm, comm->node[rank], part) == rank;
}

static void plan_near(mpi_gather *g, gather_near *n, int rank)
{
    cero_mpi_exchange *x = &g->mpi;
    const cero_comm *comm = x->base.comm;

    n->rank = rank;
    n->first = g->copy_count;
    if (g->is_dest_shared) {
        return;
    }
    n->own_count = add_copy(g, rank, source_of(x, rank));
    for (int j = 0; j < comm->size; j++) {
        if (is_served_by(comm, j, rank)) {
            n->landed_count += add_copy(g, j, dest_of(x, rank, j));
        }
    }
}

/* Messages: the own part to the server of each other node, and the parts that this rank serves. */
static void plan_messages(mpi_gather *g)
{
    cero_mpi_exchange *x = &g->mpi;
    const cero_comm *comm = x->base.comm;

    for (int r = 0; r < comm->size; r++) {
        if (cero_exchange_is_near(comm, comm->rank, r)) {
            continue;
        }
        if (!comm->has_shared_memory || is_served_by(comm, comm->rank, r)) {
            (void)cero_mpi_add_send(x, r, source_of(x, comm->rank), part_bytes(x, comm->rank));
        }
        if (!comm->has_shared_memory || is_served_by(comm, r, comm->rank)) {
            (void)cero_mpi_add_recv(x, r, dest_of(x, comm->rank, r), part_bytes(x, r));
        }
    }
}

static cero_status plan_gather(mpi_gather *g)
{
    cero_mpi_exchange *x = &g->mpi;
    const cero_comm *comm = x->base.comm;

    CERO_TRY(cero_mpi_exchange_prepare(x));
    g->near = cero_new((size_t)comm->size, sizeof(*g->near));
    g->copies = cero_new((size_t)comm->size, sizeof(*g->copies));
    CERO_CHECK(g->near != NULL && g->copies != NULL, CERO_ERR_NOMEM,
               "no memory for the exchange of %s", x->base.name);
    g->is_dest_shared = x->base.gather.dest->is_one_per_node && x->near_count > 0;
    g->own = (cero_exchange_copy){.to = dest_of(x, comm->rank, comm->rank),
                                  .from = source_of(x, comm->rank),
                                  .nbytes = (size_t)part_bytes(x, comm->rank)};
    if (g->own.to == g->own.from) {
        g->own.nbytes = 0;
    }
    for (int k = 0; k < x->near_count; k++) {
        plan_near(g, &g->near[k], x->near[k].rank);
    }
    plan_messages(g);
    return CERO_OK;
}

cero_status cero_mpi_gather_create(cero_comm *comm, const cero_gather_params *params,
                                   cero_exchange **out)
{
    cero_exchange *x = NULL;
    cero_status st = cero_exchange_init_gather(comm, params, sizeof(mpi_gather), &x);

    if (st == CERO_OK) {
        mpi_gather *g = (mpi_gather *)x;
        g->mpi.begin = begin_gather;
        g->mpi.advance = advance_gather;
        g->mpi.blocker = gather_blocker;
        g->mpi.cleanup = cleanup_gather;
        st = plan_gather(g);
    }
    return cero_mpi_exchange_agree(comm, x, st, out);
}
