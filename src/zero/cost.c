/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a step sends, for the start of a run and for plans: the cost of every exchange of the schedule and of
 * those around it, times how often a step runs it. The formulas are those by which exchanges are planned.
 */
#include "zero/schedule_impl.h"

static void add(cero_zero_flow *flow, cero_exchange_cost cost, int64_t runs)
{
    flow->runs += runs;
    flow->messages += runs * cost.messages;
    flow->bytes += runs * cost.bytes;
    flow->bytes_between_nodes += runs * cost.bytes_between_nodes;
}

static void add_gather(cero_zero_schedule *s, int64_t unit, cero_zero_part part,
                       size_t element_size, int64_t runs, int64_t *border)
{
    cero_gather_params params = {.element_size = element_size, .border = border};

    if (s->zero->layout.units[unit].range[part].numel > 0) {
        cero_zero_borders(s->zero, unit, part, border);
        add(&s->cost.gathers, cero_gather_cost(s->zero->comm, &params), runs);
    }
}

/* Forward and backward of every micro-batch gather what is cut. */
static void count_gathers(cero_zero_schedule *s, int64_t *border)
{
    int64_t micro_batches = s->zero->micro_batches;

    for (int64_t k = 0; k < s->interval_count; k++) {
        const cero_zero_interval *x = &s->intervals[k];
        for (int part = 0; part < CERO_ZERO_PARTS; part++) {
            add_gather(s, x->unit, (cero_zero_part)part, cero_dtype_size(s->zero->dtype),
                       micro_batches, border);
        }
        s->cost.uses += micro_batches;
        s->cost.uses_ahead += x->starter < k ? micro_batches : 0;
    }
}

/* The gradients of every micro-batch, or with order local this rank's sums once. */
static void count_reductions(cero_zero_schedule *s, int64_t *border)
{
    const cero_zero *zero = s->zero;

    for (int64_t k = 0; k < s->staged_count; k++) {
        cero_reduce_params params = {.dtype = zero->is_local ? CERO_DTYPE_F32 : zero->dtype,
                                     .border = border,
                                     .bucket = zero->spec->reduce_bucket_size,
                                     .order = zero->order};
        cero_zero_borders(zero, s->staged[k].unit, CERO_ZERO_TRAINED, border);
        add(&s->cost.reductions, cero_reduce_cost(zero->comm, &params),
            zero->is_local ? 1 : zero->micro_batches);
    }
}

/* An update sends new copies of what is whole; at stage 0 every rank updates all, and needs all sums. */
static void count_updates(cero_zero_schedule *s, int64_t *border)
{
    const cero_zero *zero = s->zero;

    for (int64_t u = 0; u < zero->layout.unit_count; u++) {
        if (cero_zero_is_refreshed(zero, u)) {
            add_gather(s, u, CERO_ZERO_TRAINED, cero_dtype_size(zero->dtype), 1, border);
        }
        if (cero_zero_is_spread(zero, u)) {
            add_gather(s, u, CERO_ZERO_TRAINED, sizeof(float), 1, border);
        }
    }
}

cero_status cero_zero_schedule_count(cero_zero_schedule *s)
{
    int64_t *border = cero_new((size_t)s->zero->size + 1, sizeof(int64_t));

    if (border == NULL) {
        return CERO_FAIL(CERO_ERR_NOMEM, "no memory for the shards of %d ranks", s->zero->size);
    }
    count_gathers(s, border);
    count_reductions(s, border);
    count_updates(s, border);
    s->cost.ahead_limit = s->interval_count > 0 ? cero_zero_ahead_limit(s->zero) : 0;
    cero_delete(border);
    return CERO_OK;
}

void cero_zero_schedule_cost(const cero_zero_schedule *schedule, cero_zero_cost *out)
{
    *out = schedule->cost;
}

void cero_zero_get_summary(const cero_zero *zero, const cero_zero_schedule *train,
                           cero_zero_summary *out)
{
    *out = (cero_zero_summary){
        .stage = zero->stage,
        .rank = zero->rank,
        .size = zero->size,
        .node_count = cero_comm_node_count(zero->comm),
        .order = zero->is_local                      ? "local"
                 : zero->order == CERO_EXCHANGE_NODE ? "node"
                                                     : "global",
        .is_shared = zero->is_shared,
        .unit_count = zero->layout.unit_count,
        .bytes_per_step = (double)(train->cost.reductions.bytes + train->cost.gathers.bytes),
    };
    for (int64_t u = 0; u < zero->layout.unit_count; u++) {
        out->whole_units += zero->place[u].is_whole ? 1 : 0;
    }
}
