/* SPDX-License-Identifier: Apache-2.0 */
/* The transport of a world of one: collectives are their own results, exchanges are copies within a process. */
#include "comm/comm_transport.h"

#include <string.h>

static cero_status self_buffer_create(cero_comm *comm, const cero_comm_buffer_params *params,
                                      cero_comm_buffer **out)
{
    cero_comm_buffer *buffer = cero_new(1, sizeof(*buffer));

    if (buffer == NULL) {
        return CERO_FAIL(CERO_ERR_NOMEM, "no memory for a buffer");
    }
    *buffer = (cero_comm_buffer){.comm = comm, .mem = params->mem, .nbytes = params->nbytes};
    cero_status st =
        cero_mem_alloc(params->mem, params->nbytes, params->category, params->what, &buffer->data);
    if (st != CERO_OK) {
        cero_delete(buffer);
        return st;
    }
    memset(buffer->data, 0, params->nbytes);
    *out = buffer;
    return CERO_OK;
}

static void self_buffer_destroy(cero_comm_buffer *buffer)
{
    cero_mem_free(buffer->mem, buffer->data);
    cero_delete(buffer);
}

static cero_status self_reduce_create(cero_comm *comm, const cero_reduce_params *params,
                                      cero_exchange **out)
{
    return cero_exchange_init_reduce(comm, params, sizeof(cero_exchange), out);
}

static cero_status self_gather_create(cero_comm *comm, const cero_gather_params *params,
                                      cero_exchange **out)
{
    return cero_exchange_init_gather(comm, params, sizeof(cero_exchange), out);
}

static void self_reduce(const cero_exchange *x, bool is_first)
{
    const cero_reduce_params *p = &x->reduce;
    const void *source = (const char *)p->source->data + p->source_offset;

    cero_exchange_add(p->device, &(cero_exchange_sum){.dtype = p->dtype,
                                                      .n = x->numel,
                                                      .contributions = &source,
                                                      .count = 1,
                                                      .is_first = is_first,
                                                      .sum = p->sum});
}

static void self_gather(const cero_exchange *x)
{
    const cero_gather_params *p = &x->gather;
    const char *source = (const char *)p->source->data + p->source_at[0];
    char *dest = (char *)p->dest->data + p->dest_offset;

    if (dest != source) {
        memcpy(dest, source, (size_t)x->numel * p->element_size);
    }
}

static cero_status self_exchange_start(cero_exchange *exchange, bool is_first)
{
    if (exchange->kind == CERO_COMM_REDUCE_UNIT) {
        self_reduce(exchange, is_first);
    } else {
        self_gather(exchange);
    }
    return CERO_OK;
}

static cero_status self_exchange_wait(cero_exchange *exchange)
{
    CERO_UNUSED(exchange);
    return CERO_OK;
}

static const cero_comm_ops self_ops = {
    .name = "self",
    .buffer_create = self_buffer_create,
    .buffer_destroy = self_buffer_destroy,
    .reduce_create = self_reduce_create,
    .gather_create = self_gather_create,
    .exchange_destroy = cero_exchange_cleanup,
    .exchange_start = self_exchange_start,
    .exchange_finish = self_exchange_wait,
    .exchange_release = self_exchange_wait,
};

cero_status cero_comm_create_self(cero_comm **out)
{
    cero_comm *comm = cero_new(1, sizeof(*comm));

    if (comm == NULL) {
        return CERO_FAIL(CERO_ERR_NOMEM, "no memory for a communicator");
    }
    comm->ops = &self_ops;
    comm->size = 1;
    comm->ring = &comm->own_ring;
    cero_status st = cero_comm_set_nodes(comm, &(int){0});
    if (st != CERO_OK) {
        cero_comm_destroy(&comm);
        return st;
    }
    *out = comm;
    return CERO_OK;
}
