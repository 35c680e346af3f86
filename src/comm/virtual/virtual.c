/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The transport of a rank of a world that does not exist: a plan asks it what a real rank would hold and
 * send. Collectives give back what this rank gave, exchanges move counters alone, buffers have no memory.
 */
#include "comm/comm_transport.h"

typedef struct virtual_comm {
    cero_comm base;
    int64_t message_limit;
} virtual_comm;

static cero_status virtual_buffer_create(cero_comm *comm, const cero_comm_buffer_params *params,
                                         cero_comm_buffer **out)
{
    cero_comm_buffer *buffer = cero_new(1, sizeof(*buffer));

    if (buffer == NULL) {
        return CERO_FAIL(CERO_ERR_NOMEM, "no memory for a buffer");
    }
    *buffer = (cero_comm_buffer){.comm = comm,
                                 .mem = params->mem,
                                 .nbytes = params->nbytes,
                                 .is_one_per_node = params->is_one_per_node};
    *out = buffer;
    return CERO_OK;
}

static void virtual_buffer_destroy(cero_comm_buffer *buffer)
{
    cero_delete(buffer);
}

static void set_payload(cero_exchange *exchange)
{
    const virtual_comm *comm = (const virtual_comm *)exchange->comm;

    cero_exchange_set_payload(exchange, comm->message_limit);
}

static cero_status virtual_reduce_create(cero_comm *comm, const cero_reduce_params *params,
                                         cero_exchange **out)
{
    CERO_TRY(cero_exchange_init_reduce(comm, params, sizeof(cero_exchange), out));
    set_payload(*out);
    return CERO_OK;
}

static cero_status virtual_gather_create(cero_comm *comm, const cero_gather_params *params,
                                         cero_exchange **out)
{
    CERO_TRY(cero_exchange_init_gather(comm, params, sizeof(cero_exchange), out));
    set_payload(*out);
    return CERO_OK;
}

static cero_status virtual_start(cero_exchange *exchange, bool is_first)
{
    CERO_UNUSED(exchange);
    CERO_UNUSED(is_first);
    return CERO_OK;
}

static cero_status virtual_wait(cero_exchange *exchange)
{
    CERO_UNUSED(exchange);
    return CERO_OK;
}

static const cero_comm_ops virtual_ops = {
    .name = "virtual",
    .buffer_create = virtual_buffer_create,
    .buffer_destroy = virtual_buffer_destroy,
    .reduce_create = virtual_reduce_create,
    .gather_create = virtual_gather_create,
    .exchange_destroy = cero_exchange_cleanup,
    .exchange_start = virtual_start,
    .exchange_finish = virtual_wait,
    .exchange_release = virtual_wait,
    .landing_bytes = cero_exchange_landing_bytes,
};

bool cero_comm_is_virtual(const cero_comm *comm)
{
    return comm->ops == &virtual_ops;
}

cero_status cero_comm_create_virtual(int rank, int size, const cero_comm_params *params,
                                     cero_comm **out)
{
    cero_status st = CERO_OK;
    cero_comm_params p = params != NULL ? *params : (cero_comm_params){0};
    int *node = NULL;
    cero_comm *comm = NULL;

    CERO_CHECK(size > 0 && rank >= 0 && rank < size, CERO_ERR_INVALID,
               "rank %d of a world of %d does not exist; expected 0 to %d", rank, size, size - 1);
    CERO_CHECK(p.ranks_per_node >= 0, CERO_ERR_INVALID,
               "%d ranks per node; expected a positive number, or 0 for one node",
               p.ranks_per_node);
    comm = cero_new(1, sizeof(virtual_comm));
    node = cero_new((size_t)size, sizeof(int));
    if (comm == NULL || node == NULL) {
        CERO_FAIL_GOTO(fail, CERO_ERR_NOMEM, "no memory for a world of %d ranks", size);
    }
    for (int r = 0; r < size; r++) {
        node[r] = p.ranks_per_node > 0 ? r / p.ranks_per_node : 0;
    }
    comm->ops = &virtual_ops;
    comm->rank = rank;
    comm->size = size;
    comm->has_shared_memory = !p.no_shared_memory;
    ((virtual_comm *)comm)->message_limit =
        p.message_limit > 0 ? p.message_limit : CERO_EXCHANGE_MESSAGE_LIMIT;
    comm->ring = &comm->own_ring;
    CERO_TRY_GOTO(cero_comm_set_nodes(comm, node), fail);
    cero_delete(node);
    *out = comm;
    return CERO_OK;

fail:
    cero_delete(node);
    if (comm != NULL && comm->ops != NULL) {
        cero_comm_destroy(&comm);
    }
    cero_delete(comm);
    return st;
}
