/* SPDX-License-Identifier: Apache-2.0 */
/* What a step sends, added up from its exchanges as they are planned: no second formula beside theirs. */
#include "zero/schedule_impl.h"

static void add(cero_zero_flow *flow, const cero_exchange *exchange, int64_t runs)
{
    if (exchange != NULL) { // NULL too while nothing is bound
        cero_exchange_cost cost = cero_exchange_get_cost(exchange);
        flow->runs += runs;
        flow->messages += runs * cost.messages;
        flow->bytes += runs * cost.bytes;
        flow->bytes_between_nodes += runs * cost.bytes_between_nodes;
    }
}

/* Outside the program: new copies after the update, and at stage 0 the sums before it. */
static void add_updates(const cero_zero *zero, cero_zero_cost *out)
{
    for (int64_t u = 0; u < zero->layout.unit_count && zero->refresh != NULL; u++) {
        add(&out->gathers, zero->refresh[u], 1);
        add(&out->gathers, zero->spread[u], 1);
    }
}

void cero_zero_schedule_cost(const cero_zero_schedule *s, cero_zero_cost *out)
{
    const cero_zero *zero = s->zero;
    int64_t micro_batches = zero->micro_batches;

    *out = (cero_zero_cost){.ahead_limit = cero_zero_ahead_limit(zero)};
    if (zero->size == 1) {
        return; // what is added on one rank goes to nobody
    }
    for (int64_t k = 0; k < s->interval_count; k++) {
        const cero_zero_interval *x = &s->intervals[k];
        for (int part = 0; part < CERO_ZERO_PARTS; part++) {
            add(&out->gathers, x->exchange[part], micro_batches);
        }
        out->uses += micro_batches;
        out->uses_ahead += x->starter < k ? micro_batches : 0;
    }
    for (int64_t k = 0; k < s->staged_count; k++) {
        add(&out->reductions, s->staged[k].exchange, zero->is_local ? 1 : micro_batches);
    }
    add_updates(zero, out);
}
