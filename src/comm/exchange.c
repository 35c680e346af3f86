/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What all transports' exchanges share: borders and payload, the counters, how much landing memory a
 * reduction takes, and the ordered fp32 sum itself.
 */
#include "comm/exchange.h"

#include "base/clock.h"
#include "comm/comm_transport.h"

#include <string.h>

enum {
    ADD_BLOCK = 4096 /* elements: 16 KiB of sums */
};

typedef struct add_task {
    const cero_kernels *kernels;
    cero_dtype dtype;
    int64_t n;
    const void *const *contributions;
    int count;
    bool is_first;
    float *sum;
} add_task;

static void add_blocks(void *context, int64_t begin, int64_t end, int thread)
{
    const add_task *t = context;
    size_t size = cero_dtype_size(t->dtype);

    CERO_UNUSED(thread);
    for (int64_t b = begin; b < end; b++) {
        int64_t at = b * ADD_BLOCK;
        int64_t n = t->n - at < ADD_BLOCK ? t->n - at : ADD_BLOCK;
        for (int k = 0; k < t->count; k++) {
            const char *x = (const char *)t->contributions[k] + (size_t)at * size;
            if (t->is_first && k == 0) {
                t->kernels->to_f32[t->dtype](n, x, t->sum + at);
            } else {
                t->kernels->accumulate[t->dtype](n, x, t->sum + at);
            }
        }
    }
}

void cero_exchange_add(cero_device *device, cero_dtype dtype, int64_t n,
                       const void *const *contributions, int count, bool is_first, float *sum)
{
    add_task task = {.kernels = cero_device_kernels(device),
                     .dtype = dtype,
                     .n = n,
                     .contributions = contributions,
                     .count = count,
                     .is_first = is_first,
                     .sum = sum};

    cero_device_parallel_for(device, (n + ADD_BLOCK - 1) / ADD_BLOCK, add_blocks, &task);
}

/* Elements of this rank's part that are exchanged at once: whole blocks of 256. */
int64_t cero_exchange_piece(const cero_comm *comm, const int64_t *border, int64_t bucket)
{
    enum {
        BLOCK = 256
    };
    int64_t own = border[comm->rank + 1] - border[comm->rank];
    int64_t piece = bucket > 0 ? (bucket + comm->size - 1) / comm->size : own;

    piece = (piece + BLOCK - 1) / BLOCK * BLOCK;
    return piece < own ? piece : own;
}

size_t cero_exchange_landing_bytes(const cero_comm *comm, const cero_reduce_params *params)
{
    int own_node = comm->node_size[comm->node[comm->rank]];
    int remote = comm->size - (comm->has_shared_memory ? own_node : 1);
    int64_t piece = cero_exchange_piece(comm, params->border, params->bucket);

    return (size_t)remote * 2 * (size_t)piece * cero_dtype_size(params->dtype);
}

cero_status cero_exchange_init_reduce(cero_comm *comm, const cero_reduce_params *params,
                                      size_t size, cero_exchange **out)
{
    size_t borders = (size_t)comm->size + 1;
    cero_exchange *x = cero_new(1, size);
    int64_t *border = cero_new(borders, sizeof(int64_t));

    if (x == NULL || border == NULL) {
        cero_delete(x);
        cero_delete(border);
        return CERO_FAIL(CERO_ERR_NOMEM, "no memory for the exchange of %s", params->name);
    }
    memcpy(border, params->border, borders * sizeof(int64_t));
    x->comm = comm;
    x->kind = CERO_COMM_REDUCE_UNIT;
    x->name = params->name;
    x->border = border;
    x->numel = border[comm->size];
    x->reduce = *params;
    x->reduce.border = border;
    int64_t own = border[comm->rank + 1] - border[comm->rank];
    x->nbytes = (x->numel - own) * (int64_t)cero_dtype_size(params->dtype);
    *out = x;
    return CERO_OK;
}

cero_status cero_exchange_init_gather(cero_comm *comm, const cero_gather_params *params,
                                      size_t size, cero_exchange **out)
{
    cero_exchange *x = NULL;
    cero_reduce_params like = {.name = params->name, .border = params->border};
    size_t *source_at = cero_new((size_t)comm->size, sizeof(size_t));

    if (source_at == NULL) {
        return CERO_FAIL(CERO_ERR_NOMEM, "no memory for the exchange of %s", params->name);
    }
    cero_status st = cero_exchange_init_reduce(comm, &like, size, &x);
    if (st != CERO_OK) {
        cero_delete(source_at);
        return st;
    }
    memcpy(source_at, params->source_at, (size_t)comm->size * sizeof(size_t));
    x->kind = CERO_COMM_ALL_GATHER_UNIT;
    x->reduce = (cero_reduce_params){0};
    x->gather = *params;
    x->gather.border = x->border;
    x->gather.source_at = source_at;
    x->source_at = source_at;
    int64_t own = x->border[comm->rank + 1] - x->border[comm->rank];
    x->nbytes = own * (comm->size - 1) * (int64_t)params->element_size;
    *out = x;
    return CERO_OK;
}

void cero_exchange_cleanup(cero_exchange *exchange)
{
    cero_delete(exchange->border);
    cero_delete(exchange->source_at);
    cero_delete(exchange);
}

size_t cero_reduce_landing_bytes(const cero_comm *comm, const cero_reduce_params *params)
{
    return comm->ops->landing_bytes != NULL ? comm->ops->landing_bytes(comm, params) : 0;
}

cero_status cero_reduce_create(cero_comm *comm, const cero_reduce_params *params,
                               cero_exchange **out)
{
    return comm->ops->reduce_create(comm, params, out);
}

cero_status cero_gather_create(cero_comm *comm, const cero_gather_params *params,
                               cero_exchange **out)
{
    return comm->ops->gather_create(comm, params, out);
}

void cero_exchange_destroy(cero_exchange **exchange)
{
    if (exchange == NULL || *exchange == NULL) {
        return;
    }
    (*exchange)->comm->ops->exchange_destroy(*exchange);
    *exchange = NULL;
}

static void count_run(cero_exchange *x)
{
    cero_comm_counter *c = &x->comm->counter[x->kind];

    cero_comm_count(x->comm, x->kind, 1, x->nbytes, 0);
    c->messages += x->messages;
    c->bytes_between_nodes += x->nbytes_between_nodes;
}

/* The seconds of start, finish and release belong to the run that start counted. */
static cero_status count_seconds(cero_exchange *x, double start, cero_status st)
{
    if (x->comm->size > 1) {
        cero_comm_count(x->comm, x->kind, 0, x->nbytes, cero_clock_now() - start);
    }
    return st;
}

cero_status cero_exchange_start(cero_exchange *exchange, bool is_first)
{
    double start = cero_clock_now();

    CERO_ASSERT(!exchange->is_started);
    exchange->is_started = true;
    if (exchange->comm->size > 1) {
        count_run(exchange);
    }
    return count_seconds(exchange, start, exchange->comm->ops->exchange_start(exchange, is_first));
}

cero_status cero_exchange_finish(cero_exchange *exchange)
{
    double start = cero_clock_now();

    CERO_ASSERT(exchange->is_started);
    return count_seconds(exchange, start, exchange->comm->ops->exchange_finish(exchange));
}

cero_status cero_exchange_release(cero_exchange *exchange)
{
    double start = cero_clock_now();

    CERO_ASSERT(exchange->is_started);
    exchange->is_started = false;
    return count_seconds(exchange, start, exchange->comm->ops->exchange_release(exchange));
}
