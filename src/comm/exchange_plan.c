/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who sends what to whom in an exchange: servers, pieces, landing memory and payload. The transport between
 * processes runs by these formulas, and plans answer from them for worlds that do not exist.
 */
#include "comm/comm_transport.h"

enum {
    PIECE_BLOCK = 256 /* elements: pieces are multiples of it */
};

bool cero_exchange_is_near(const cero_comm *comm, int a, int b)
{
    return a == b || (comm->has_shared_memory && comm->node[a] == comm->node[b]);
}

int cero_exchange_server(const cero_comm *comm, int node, int part)
{
    int local = comm->local_rank[part] % comm->node_size[node];

    return comm->rank_at[comm->node_first[node] + local];
}

bool cero_exchange_is_by_node(const cero_comm *comm, cero_exchange_order order)
{
    return order == CERO_EXCHANGE_NODE && comm->node_count > 1 && comm->node_count < comm->size;
}

static int64_t part_of(const int64_t *border, int part)
{
    return border[part + 1] - border[part];
}

static int64_t divide_up(int64_t n, int64_t by)
{
    return (n + by - 1) / by;
}

int64_t cero_exchange_piece(const cero_comm *comm, const cero_reduce_params *params, int part)
{
    int64_t numel = part_of(params->border, part);
    int64_t piece = params->bucket > 0 ? divide_up(params->bucket, comm->size) : numel;

    piece = divide_up(piece, PIECE_BLOCK) * PIECE_BLOCK;
    return piece < numel ? piece : numel;
}

int64_t cero_exchange_pieces(const cero_comm *comm, const cero_reduce_params *params, int part)
{
    int64_t numel = part_of(params->border, part);

    return numel == 0 ? 0 : divide_up(numel, cero_exchange_piece(comm, params, part));
}

size_t cero_exchange_slot_bytes(const cero_comm *comm, const cero_reduce_params *params, int part)
{
    int64_t nbytes =
        cero_exchange_piece(comm, params, part) * (int64_t)cero_dtype_size(params->dtype);

    return (size_t)divide_up(nbytes, CERO_MEM_ALIGNMENT) * CERO_MEM_ALIGNMENT;
}

size_t cero_exchange_stream_bytes(const cero_comm *comm, const cero_reduce_params *params, int part)
{
    int64_t pieces = cero_exchange_pieces(comm, params, part);

    return (size_t)(pieces < 2 ? pieces : 2) * cero_exchange_slot_bytes(comm, params, part);
}

size_t cero_exchange_landing_bytes(const cero_comm *comm, const cero_reduce_params *params)
{
    bool is_by_node = cero_exchange_is_by_node(comm, params->order);
    size_t own = cero_exchange_stream_bytes(comm, params, comm->rank);
    int node = comm->node[comm->rank];
    size_t nbytes = is_by_node ? (size_t)(comm->node_count - 1) * own : 0;

    for (int r = 0; r < comm->size; r++) {
        if (is_by_node && comm->node[r] != node &&
            cero_exchange_server(comm, node, r) == comm->rank) {
            nbytes += cero_exchange_stream_bytes(comm, params, r);
        } else if (!is_by_node && !cero_exchange_is_near(comm, comm->rank, r)) {
            nbytes += own;
        }
    }
    return nbytes;
}

/* Messages of `nbytes` bytes that are cut at the multiples of `piece` and then at those of `limit`. */
static int64_t messages_of(int64_t nbytes, int64_t piece, int64_t limit)
{
    if (nbytes == 0) {
        return 0;
    }
    return nbytes / piece * divide_up(piece, limit) + divide_up(nbytes % piece, limit);
}

/*
 * A rank's peers get from it, for every part j but its own, that part once: its own contribution, or, where it
 * serves j in the order NODE, the node's sum of it, its own contribution being in it. So
 *     nbytes = numel - own,
 * of which leaves the node what is sent to owners in other nodes: in the order FLAT their whole parts, in the
 * order NODE the parts it serves.
 */
static void set_reduce_payload(cero_exchange *x, int64_t limit)
{
    const cero_comm *comm = x->comm;
    int node = comm->node[comm->rank];
    int64_t size = (int64_t)cero_dtype_size(x->reduce.dtype);
    bool is_by_node = cero_exchange_is_by_node(comm, x->reduce.order);

    x->nbytes = (x->numel - part_of(x->reduce.border, comm->rank)) * size;
    for (int j = 0; j < comm->size; j++) {
        int64_t nbytes = part_of(x->reduce.border, j) * size;
        int64_t piece = cero_exchange_piece(comm, &x->reduce, j) * size;
        bool is_served = comm->node[j] != node && cero_exchange_server(comm, node, j) == comm->rank;
        if (is_by_node ? is_served : comm->node[j] != node) {
            x->nbytes_between_nodes += nbytes;
        }
        if (is_by_node ? is_served : !cero_exchange_is_near(comm, comm->rank, j)) {
            x->messages += messages_of(nbytes, piece, limit);
        }
    }
}

/*
 * With shared memory the peers of a node read the own part (node size - 1 times), a server in each other node
 * gets it by message (nodes - 1), and the peers of the node read every part that this rank serves for them
 * (node size - 1). Without, every other rank gets the own part by message. A node that keeps one copy of dest
 * counts the same: what its ranks see of each other is what they got.
 */
static void set_gather_payload(cero_exchange *x, int64_t limit)
{
    const cero_comm *comm = x->comm;
    int node = comm->node[comm->rank];
    int64_t size = (int64_t)x->gather.element_size;
    int64_t own = part_of(x->gather.border, comm->rank) * size;
    int64_t messages = messages_of(own, own, limit);
    int peers = comm->node_size[node] - 1;

    if (!comm->has_shared_memory) {
        x->nbytes = (comm->size - 1) * own;
        x->nbytes_between_nodes = (comm->size - 1 - peers) * own;
        x->messages = (comm->size - 1) * messages;
        return;
    }
    x->nbytes_between_nodes = (comm->node_count - 1) * own;
    x->messages = (comm->node_count - 1) * messages;
    x->nbytes = peers * own + x->nbytes_between_nodes;
    for (int j = 0; j < comm->size; j++) {
        if (comm->node[j] != node && cero_exchange_server(comm, node, j) == comm->rank) {
            x->nbytes += peers * part_of(x->gather.border, j) * size;
        }
    }
}

void cero_exchange_set_payload(cero_exchange *exchange, int64_t message_limit)
{
    exchange->nbytes = 0;
    exchange->nbytes_between_nodes = 0;
    exchange->messages = 0;
    if (exchange->kind == CERO_COMM_REDUCE_UNIT) {
        set_reduce_payload(exchange, message_limit);
    } else {
        set_gather_payload(exchange, message_limit);
    }
}

/* Of a struct that has no more than what the formulas look at. */
static cero_exchange_cost cost_of(cero_exchange exchange)
{
    if (exchange.comm->size == 1) {
        return (cero_exchange_cost){0};
    }
    cero_exchange_set_payload(&exchange, CERO_EXCHANGE_MESSAGE_LIMIT);
    return (cero_exchange_cost){.messages = exchange.messages,
                                .bytes = exchange.nbytes,
                                .bytes_between_nodes = exchange.nbytes_between_nodes};
}

cero_exchange_cost cero_reduce_cost(cero_comm *comm, const cero_reduce_params *params)
{
    return cost_of((cero_exchange){.comm = comm,
                                   .kind = CERO_COMM_REDUCE_UNIT,
                                   .numel = params->border[comm->size],
                                   .reduce = *params});
}

cero_exchange_cost cero_gather_cost(cero_comm *comm, const cero_gather_params *params)
{
    return cost_of((cero_exchange){.comm = comm,
                                   .kind = CERO_COMM_ALL_GATHER_UNIT,
                                   .numel = params->border[comm->size],
                                   .gather = *params});
}
