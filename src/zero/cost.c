/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a step sends, for the start of a run and for plans: the cost of every exchange times how often a step
 * runs it. The formulas are those by which exchanges are planned, asked without planning any.
 */
#include "zero/schedule_impl.h"

static void add(cero_zero_flow *flow, cero_exchange_cost cost, int64_t runs)
{
    flow->runs += runs;
    flow->messages += runs * cost.messages;
    flow->bytes += runs * cost.bytes;
    flow->bytes_between_nodes += runs * cost.bytes_between_nodes;
}

static void add_gather(const cero_zero *zero, int64_t unit, cero_zero_part part,
                       size_t element_size, int64_t runs, int64_t *border, cero_zero_cost *cost)
{
    cero_gather_params params = {.element_size = element_size, .border = border};

    if (zero->layout.units[unit].range[part].numel > 0) {
        cero_zero_borders(zero, unit, part, border);
        add(&cost->gathers, cero_gather_cost(zero->comm, &params), runs);
    }
}

/* The gradients of every micro-batch, or with order local this rank's sums once. */
static void add_reduction(const cero_zero *zero, int64_t unit, int64_t *border,
                          cero_zero_cost *cost)
{
    cero_reduce_params params = {.dtype = zero->is_local ? CERO_DTYPE_F32 : zero->dtype,
                                 .border = border,
                                 .bucket = zero->spec->reduce_bucket_size,
                                 .order = zero->order};

    cero_zero_borders(zero, unit, CERO_ZERO_TRAINED, border);
    add(&cost->reductions, cero_reduce_cost(zero->comm, &params),
        zero->is_local ? 1 : zero->micro_batches);
}

/* An update sends new copies of what is whole; at stage 0 every rank updates all, and needs all sums. */
static void add_update(const cero_zero *zero, int64_t unit, int64_t *border, cero_zero_cost *cost)
{
    if (cero_zero_is_refreshed(zero, unit)) {
        add_gather(zero, unit, CERO_ZERO_TRAINED, cero_dtype_size(zero->dtype), 1, border, cost);
    }
    if (cero_zero_is_spread(zero, unit)) {
        add_gather(zero, unit, CERO_ZERO_TRAINED, sizeof(float), 1, border, cost);
    }
}

static cero_status make_border(const cero_zero *zero, int64_t **out)
{
    *out = cero_new((size_t)zero->size + 1, sizeof(int64_t));
    return *out != NULL
               ? CERO_OK
               : CERO_FAIL(CERO_ERR_NOMEM, "no memory for the shards of %d ranks", zero->size);
}

cero_status cero_zero_count(cero_zero *zero)
{
    int64_t *border;

    if (zero->size == 1) {
        return CERO_OK; // what is added on one rank goes to nobody
    }
    CERO_TRY(make_border(zero, &border));
    for (int64_t u = 0; u < zero->layout.unit_count; u++) {
        if (zero->layout.units[u].range[CERO_ZERO_TRAINED].numel > 0) {
            add_reduction(zero, u, border, &zero->cost);
            add_update(zero, u, border, &zero->cost);
        }
    }
    cero_delete(border);
    return CERO_OK;
}

/* Forward and backward of every micro-batch gather what is cut. */
cero_status cero_zero_schedule_count(cero_zero_schedule *s)
{
    const cero_zero *zero = s->zero;
    int64_t *border;

    s->cost = zero->cost;
    s->cost.ahead_limit = cero_zero_ahead_limit(zero);
    CERO_TRY(make_border(zero, &border));
    for (int64_t k = 0; k < s->interval_count; k++) {
        const cero_zero_interval *x = &s->intervals[k];
        for (int part = 0; part < CERO_ZERO_PARTS; part++) {
            add_gather(zero, x->unit, (cero_zero_part)part, cero_dtype_size(zero->dtype),
                       zero->micro_batches, border, &s->cost);
        }
        s->cost.uses += zero->micro_batches;
        s->cost.uses_ahead += x->starter < k ? zero->micro_batches : 0;
    }
    cero_delete(border);
    return CERO_OK;
}

void cero_zero_get_cost(const cero_zero *zero, cero_zero_cost *out)
{
    *out = zero->cost;
}

void cero_zero_schedule_cost(const cero_zero_schedule *schedule, cero_zero_cost *out)
{
    *out = schedule->cost;
}

void cero_zero_get_summary(const cero_zero *zero, const cero_zero_cost *cost,
                           cero_zero_summary *out)
{
    double share = (double)(zero->size - 1) / (double)zero->size;
    double trained = share * (double)zero->layout.trained_numel;
    double global_sums =
        trained * (double)cero_dtype_size(zero->dtype) * (double)zero->micro_batches;

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
        .bytes_per_step = (double)(cost->reductions.bytes + cost->gathers.bytes),
        .gradient_bytes = zero->is_local ? trained * sizeof(float) : global_sums,
        .gradient_bytes_global = global_sums,
    };
    for (int64_t u = 0; u < zero->layout.unit_count; u++) {
        out->whole_units += zero->place[u].is_whole ? 1 : 0;
    }
}
