/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What all transports' exchanges share: the ordered fp32 sum itself, copies over the threads, an exchange's
 * struct, and the counters. Sizes and formulas are in exchange_plan.c.
 */
#include "comm/exchange.h"

#include "base/clock.h"
#include "base/fault.h"
#include "comm/comm_transport.h"

#include <string.h>

enum {
    ADD_BLOCK = 4096,       /* elements: 16 KiB of sums */
    COPY_BLOCK = 256 << 10, /* bytes */
    MAX_ELEMENT = 4         /* bytes of a contribution's element */
};

typedef struct add_task {
    const cero_kernels *kernels;
    const cero_exchange_sum *sum;
    void *rounded; /* of a node's sum, instead of sum->sum */
    bool is_in_place;
} add_task;

/* acc = (or +=) contributions first .. first + count of one block, in that order. */
static void add_block(const add_task *t, int first, int count, int64_t at, int64_t n, bool is_first,
                      float *acc)
{
    const cero_exchange_sum *s = t->sum;
    size_t offset = (size_t)at * cero_dtype_size(s->dtype);

    for (int k = first; k < first + count; k++) {
        const char *x = (const char *)s->contributions[k] + offset;
        if (is_first && k == first) {
            t->kernels->to_f32[s->dtype](n, x, acc);
        } else {
            t->kernels->accumulate[s->dtype](n, x, acc);
        }
    }
}

/* acc = (or +=) the sum of the node's contributions, rounded to their dtype. */
static void add_block_of_node(const add_task *t, int64_t at, int64_t n, bool is_first, float *acc)
{
    const cero_exchange_sum *s = t->sum;
    float node[ADD_BLOCK];
    _Alignas(CERO_MEM_ALIGNMENT) char rounded[ADD_BLOCK * MAX_ELEMENT];

    add_block(t, s->node_first, s->node_count, at, n, true, node);
    t->kernels->from_f32[s->dtype](n, node, rounded);
    if (is_first) {
        t->kernels->to_f32[s->dtype](n, rounded, acc);
    } else {
        t->kernels->accumulate[s->dtype](n, rounded, acc);
    }
}

/* All terms of one block. */
static void add_terms(const add_task *t, int64_t at, int64_t n, float *acc)
{
    const cero_exchange_sum *s = t->sum;
    int after = s->node_first + s->node_count;

    if (s->node_count == 0) {
        add_block(t, 0, s->count, at, n, s->is_first, acc);
        return;
    }
    add_block(t, 0, s->node_first, at, n, s->is_first, acc);
    add_block_of_node(t, at, n, s->is_first && s->node_first == 0, acc);
    add_block(t, after, s->count - after, at, n, false, acc);
}

/* True when the sum takes the place of a contribution, which must be read before it is written. */
static bool is_in_place(const cero_exchange_sum *s)
{
    for (int k = 0; k < s->count; k++) {
        if (s->contributions[k] == s->sum) {
            return true;
        }
    }
    return false;
}

static void add_blocks(void *context, int64_t begin, int64_t end, int thread)
{
    const add_task *t = context;
    const cero_exchange_sum *s = t->sum;
    float apart[ADD_BLOCK];

    CERO_UNUSED(thread);
    for (int64_t b = begin; b < end; b++) {
        int64_t at = b * ADD_BLOCK;
        int64_t n = s->n - at < ADD_BLOCK ? s->n - at : ADD_BLOCK;
        add_terms(t, at, n, t->is_in_place ? apart : s->sum + at);
        if (t->is_in_place) {
            memcpy(s->sum + at, apart, (size_t)n * sizeof(float));
        }
    }
}

void cero_exchange_add(cero_device *device, const cero_exchange_sum *sum)
{
    add_task task = {
        .kernels = cero_device_kernels(device), .sum = sum, .is_in_place = is_in_place(sum)};

    CERO_ASSERT(sum->is_first || !task.is_in_place);
    cero_device_parallel_for(device, (sum->n + ADD_BLOCK - 1) / ADD_BLOCK, add_blocks, &task);
}

static void round_blocks(void *context, int64_t begin, int64_t end, int thread)
{
    const add_task *t = context;
    const cero_exchange_sum *s = t->sum;
    size_t size = cero_dtype_size(s->dtype);
    float node[ADD_BLOCK];

    CERO_UNUSED(thread);
    for (int64_t b = begin; b < end; b++) {
        int64_t at = b * ADD_BLOCK;
        int64_t n = s->n - at < ADD_BLOCK ? s->n - at : ADD_BLOCK;
        add_block(t, 0, s->count, at, n, true, node);
        t->kernels->from_f32[s->dtype](n, node, (char *)t->rounded + (size_t)at * size);
    }
}

void cero_exchange_add_node(cero_device *device, cero_dtype dtype, int64_t n,
                            const void *const *contributions, int count, void *out)
{
    cero_exchange_sum sum = {
        .dtype = dtype, .n = n, .contributions = contributions, .count = count};
    add_task task = {.kernels = cero_device_kernels(device), .sum = &sum, .rounded = out};

    cero_device_parallel_for(device, (n + ADD_BLOCK - 1) / ADD_BLOCK, round_blocks, &task);
}

static int64_t copy_blocks_of(const cero_exchange_copy *copy)
{
    return ((int64_t)copy->nbytes + COPY_BLOCK - 1) / COPY_BLOCK;
}

typedef struct copy_task {
    const cero_exchange_copy *copies;
    int count;
} copy_task;

static void copy_blocks(void *context, int64_t begin, int64_t end, int thread)
{
    const copy_task *t = context;
    int64_t first = 0; // block of copy k

    CERO_UNUSED(thread);
    for (int k = 0; k < t->count && first < end; k++) {
        const cero_exchange_copy *c = &t->copies[k];
        int64_t blocks = copy_blocks_of(c);
        int64_t from = begin > first ? begin - first : 0;
        int64_t to = end - first < blocks ? end - first : blocks;
        if (from < to) {
            size_t at = (size_t)from * COPY_BLOCK;
            size_t last = to == blocks ? c->nbytes : (size_t)to * COPY_BLOCK;
            memcpy((char *)c->to + at, (const char *)c->from + at, last - at);
        }
        first += blocks;
    }
}

void cero_exchange_copy_all(cero_device *device, const cero_exchange_copy *copies, int count)
{
    copy_task task = {.copies = copies, .count = count};
    int64_t blocks = 0;

    for (int k = 0; k < count; k++) {
        blocks += copy_blocks_of(&copies[k]);
    }
    cero_device_parallel_for(device, blocks, copy_blocks, &task);
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
    cero_exchange_set_payload(x, CERO_EXCHANGE_MESSAGE_LIMIT);
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
    cero_exchange_set_payload(x, CERO_EXCHANGE_MESSAGE_LIMIT);
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
        double seconds = cero_clock_now() - start;
        x->seconds += seconds;
        cero_comm_count(x->comm, x->kind, 0, x->nbytes, seconds);
    }
    return st;
}

/* A run ended with its release. */
static void tell(const cero_exchange *x)
{
    if (x->comm->size > 1) {
        cero_comm_tell(x->comm, &(cero_comm_operation){.kind = x->kind,
                                                       .unit = x->name,
                                                       .nbytes = x->nbytes,
                                                       .seconds = x->seconds});
    }
}

cero_status cero_exchange_start(cero_exchange *exchange, bool is_first)
{
    double start = cero_clock_now();

    CERO_ASSERT(!exchange->is_started);
    exchange->is_started = true;
    exchange->seconds = 0;
    if (exchange->comm->size > 1) {
        cero_fault_at("exchange");
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
    cero_status st =
        count_seconds(exchange, start, exchange->comm->ops->exchange_release(exchange));
    if (st == CERO_OK) {
        tell(exchange);
    }
    return st;
}
