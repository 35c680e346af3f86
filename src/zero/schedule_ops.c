/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The nodes by which a program exchanges: each is one half of an exchange of one unit. They have no outputs;
 * their place in the list is their meaning, and the rooms they take as inputs live until then.
 */
#include "zero/schedule_impl.h"

#include "base/clock.h"

#include <math.h>

typedef struct node_attr {
    cero_zero_schedule *schedule; /* borrowed */
    int64_t index;
} node_attr;

static cero_status node_infer(cero_op_infer *infer)
{
    CERO_UNUSED(infer);
    return CERO_OK;
}

/* Does `half` to the exchanges of an interval. */
static cero_status each_part(const node_attr *a, cero_status (*half)(cero_exchange *exchange))
{
    const cero_zero_interval *x = &a->schedule->intervals[a->index];

    for (int part = 0; part < CERO_ZERO_PARTS; part++) {
        if (x->exchange[part] != NULL) {
            CERO_TRY(half(x->exchange[part]));
        }
    }
    return CERO_OK;
}

static cero_status start_gather(cero_exchange *exchange)
{
    return cero_exchange_start(exchange, true);
}

static cero_status gather_start(const node_attr *a)
{
    return each_part(a, start_gather);
}

static cero_status gather_finish(const node_attr *a)
{
    return each_part(a, cero_exchange_finish);
}

/* What is used after its release reads NaNs, not what happens to lie there still. */
static void poison_room(const cero_zero *zero, size_t at, int64_t numel)
{
    if (cero_mem_poison()) {
        cero_device_fill(zero->device, zero->dtype, numel, NAN,
                         (char *)cero_comm_buffer_data(zero->arena) + at);
    }
}

static cero_status gather_release(const node_attr *a)
{
    const cero_zero *zero = a->schedule->zero;
    const cero_zero_interval *x = &a->schedule->intervals[a->index];

    CERO_TRY(each_part(a, cero_exchange_release));
    poison_room(zero, x->room_at, cero_zero_room_numel(zero, x->unit));
    return CERO_OK;
}

static cero_status refresh_finish(const node_attr *a)
{
    return cero_zero_refresh_finish(a->schedule->zero, a->index);
}

static bool is_last_micro_batch(const cero_zero *zero)
{
    return zero->micro_batch == zero->micro_batches - 1;
}

/* Order local: the staged gradients are added to this rank's own sums. */
static void add_own(cero_zero *zero, const cero_zero_staged *staged)
{
    cero_zero_held sum = cero_zero_held_sum(zero, staged->unit);
    const void *room = (const char *)cero_comm_buffer_data(zero->arena) + staged->source_at;
    float *to = (float *)zero->grad + sum.at;

    if (zero->micro_batch == 0) {
        cero_device_to_f32(zero->device, zero->dtype, sum.end, room, to);
    } else {
        cero_device_accumulate(zero->device, zero->dtype, sum.end, room, to);
    }
}

cero_status cero_zero_reduce_start(cero_zero *zero, const cero_zero_staged *staged)
{
    if (zero->micro_batch == 0) {
        // Forward is over: every rank has read what it needs of the last update.
        CERO_TRY(cero_zero_refresh_release(zero));
    }
    if (!zero->is_local) {
        return cero_exchange_start(staged->exchange, zero->micro_batch == 0);
    }
    add_own(zero, staged);
    return is_last_micro_batch(zero) ? cero_exchange_start(staged->exchange, true) : CERO_OK;
}

cero_status cero_zero_reduce_finish(const cero_zero *zero, const cero_zero_staged *staged)
{
    return zero->is_local && !is_last_micro_batch(zero) ? CERO_OK
                                                        : cero_exchange_finish(staged->exchange);
}

cero_status cero_zero_reduce_release(const cero_zero *zero, const cero_zero_staged *staged)
{
    return zero->is_local && !is_last_micro_batch(zero) ? CERO_OK
                                                        : cero_exchange_release(staged->exchange);
}

static cero_status reduce_start(const node_attr *a)
{
    return cero_zero_reduce_start(a->schedule->zero, &a->schedule->staged[a->index]);
}

static cero_status reduce_finish(const node_attr *a)
{
    return cero_zero_reduce_finish(a->schedule->zero, &a->schedule->staged[a->index]);
}

static cero_status reduce_release(const node_attr *a)
{
    const cero_zero *zero = a->schedule->zero;
    const cero_zero_staged *staged = &a->schedule->staged[a->index];
    int64_t numel = zero->layout.units[staged->unit].range[CERO_ZERO_TRAINED].numel;

    CERO_TRY(cero_zero_reduce_release(zero, staged));
    poison_room(zero, staged->source_at, cero_zero_round_up(numel));
    return CERO_OK;
}

/* Runs a half and counts its time: what an exchange costs the program. */
static cero_status timed(const cero_op_run *run, cero_status (*half)(const node_attr *a))
{
    const node_attr *a = run->attr;
    double start = cero_clock_now();
    cero_status st = half(a);

    a->schedule->zero->exchange_seconds += cero_clock_now() - start;
    return st;
}

static cero_status run_gather_start(const cero_op_run *run)
{
    return timed(run, gather_start);
}

static cero_status run_gather_finish(const cero_op_run *run)
{
    return timed(run, gather_finish);
}

static cero_status run_gather_release(const cero_op_run *run)
{
    return timed(run, gather_release);
}

static cero_status run_refresh_finish(const cero_op_run *run)
{
    return timed(run, refresh_finish);
}

static cero_status run_reduce_start(const cero_op_run *run)
{
    return timed(run, reduce_start);
}

static cero_status run_reduce_finish(const cero_op_run *run)
{
    return timed(run, reduce_finish);
}

static cero_status run_reduce_release(const cero_op_run *run)
{
    return timed(run, reduce_release);
}

/* The compiler's default cost would count the room at each node. */
static void no_cost(const void *attr, const cero_tensor_desc *input, const cero_tensor_desc *output,
                    cero_cost *cost)
{
    CERO_UNUSED(attr);
    CERO_UNUSED(input);
    CERO_UNUSED(output);
    *cost = (cero_cost){0};
}

#define NODE_OP(name_)                                                                           \
    {                                                                                            \
        .name = #name_, .attr_size = sizeof(node_attr), .infer = node_infer, .run = run_##name_, \
        .cost = no_cost, .has_effect = true                                                      \
    }

static const cero_op ops[CERO_ZERO_NODE_KINDS] = {
    [CERO_ZERO_GATHER_START] = NODE_OP(gather_start),
    [CERO_ZERO_GATHER_FINISH] = NODE_OP(gather_finish),
    [CERO_ZERO_GATHER_RELEASE] = NODE_OP(gather_release),
    [CERO_ZERO_REFRESH_FINISH] = NODE_OP(refresh_finish),
    [CERO_ZERO_REDUCE_START] = NODE_OP(reduce_start),
    [CERO_ZERO_REDUCE_FINISH] = NODE_OP(reduce_finish),
    [CERO_ZERO_REDUCE_RELEASE] = NODE_OP(reduce_release),
};

#undef NODE_OP

cero_status cero_zero_node_append(cero_zero_schedule *schedule, cero_zero_node_kind kind,
                                  int64_t index, cero_value *room)
{
    node_attr attr = {.schedule = schedule, .index = index};

    (void)cero_graph_append(schedule->graph, &ops[kind], &attr, &room, room != NULL ? 1 : 0, NULL);
    return cero_graph_status(schedule->graph);
}
