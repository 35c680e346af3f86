/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How far gathers and reductions go ahead of need: within the configured limits, and within what cutting saves,
 * so that stage 3 never holds more than stage 2 would (nor a mebibyte more, for the smallest models).
 *
 * All ranks decide alike: nothing here looks at what only one of them holds.
 */
#include "zero/schedule_impl.h"

/* Elements that may be gathered at once, what is used now aside. */
static int64_t live_limit(const cero_zero *zero)
{
    int64_t asked = zero->spec->stage3_max_live_parameters;
    return asked < zero->room_limit ? asked : zero->room_limit;
}

bool cero_zero_can_keep_groups(const cero_zero *zero)
{
    int64_t group = zero->spec->checkpoint_units;
    int64_t numel = 0;
    int64_t most = 0;

    for (int64_t u = 0; u < zero->layout.unit_count; u++) {
        numel += zero->place[u].is_whole ? 0 : cero_zero_room_numel(zero, u);
        if (u >= group && !zero->place[u - group].is_whole) {
            numel -= cero_zero_room_numel(zero, u - group);
        }
        most = numel > most ? numel : most;
    }
    return group > 1 && most <= live_limit(zero);
}

/* Ahead of need go at most stage3_prefetch_bucket_size elements, and an eighth of the model. */
int64_t cero_zero_ahead_limit(const cero_zero *zero)
{
    int64_t eighth = zero->layout.numel / 8;
    int64_t asked = zero->spec->stage3_prefetch_bucket_size;

    return asked < eighth ? asked : eighth;
}

/*
 * A gather starts at the use of an earlier interval, as far ahead as the limits allow; one unit may go ahead
 * also where it is more than an eighth of the model. What is gathered at once stays within live_limit.
 */
void cero_zero_choose_starts(cero_zero_schedule *s)
{
    const cero_zero *zero = s->zero;
    int64_t next = 0;

    for (int64_t j = 0; j < s->interval_count; j++) {
        int64_t now = s->intervals[j].first;
        int64_t ahead = 0;
        int64_t live = 0;
        if (next == j) {
            s->intervals[next++].starter = j;
        }
        for (int64_t k = 0; k < next; k++) {
            int64_t n = cero_zero_room_numel(zero, s->intervals[k].unit);
            ahead += k > j ? n : 0;
            live += s->intervals[k].last >= now ? n : 0;
        }
        while (next < s->interval_count && next <= j + CERO_ZERO_AHEAD) {
            int64_t n = cero_zero_room_numel(zero, s->intervals[next].unit);
            int64_t limit =
                ahead == 0 ? zero->spec->stage3_prefetch_bucket_size : cero_zero_ahead_limit(zero);
            if (ahead + n > limit || live + n > live_limit(zero)) {
                break;
            }
            ahead += n;
            live += n;
            s->intervals[next++].starter = j;
        }
    }
}

/*
 * Bytes of rooms that come and go over a program. Time 2 i is before instruction i, where the nodes of the
 * schedule stand, and 2 i + 1 while it runs.
 */
typedef struct lives {
    int64_t *change; /* owned, [2 * node_count + 3] */
    int64_t count;
    size_t element_size;
} lives;

static void add_life(lives *l, int64_t first, int64_t last, int64_t numel)
{
    int64_t nbytes = numel * (int64_t)l->element_size;

    l->change[first] += nbytes;
    l->change[last + 1] -= nbytes;
}

/* As insert_reductions places them. */
static void add_staged(lives *l, const cero_zero_schedule *s, bool overlaps)
{
    int64_t lag = overlaps ? 2 : 0;

    for (int64_t k = 0; k < s->staged_count; k++) {
        const cero_zero_staged *x = &s->staged[k];
        int64_t end =
            k + lag < s->staged_count ? s->staged[k + lag].ready + 1 : s->graph->node_count;
        end = overlaps ? end : x->ready + 1;
        add_life(l, 2 * x->first + 1, 2 * end,
                 cero_zero_round_up(s->zero->layout.units[x->unit].range[CERO_ZERO_TRAINED].numel));
    }
}

/* As insert_gathers places them: releases stand before what starts at the same place. */
static void add_gathered(lives *l, const cero_zero_schedule *s, bool goes_ahead)
{
    for (int64_t k = 0; k < s->interval_count; k++) {
        const cero_zero_interval *x = &s->intervals[k];
        int64_t first = goes_ahead ? s->intervals[x->starter].first : x->first;
        add_life(l, 2 * first, 2 * x->last + 1, cero_zero_room_numel(s->zero, x->unit));
    }
}

/* The most at any time; clears the lives. */
static size_t take_peak(lives *l)
{
    int64_t alive = 0;
    int64_t most = 0;

    for (int64_t i = 0; i < l->count; i++) {
        alive += l->change[i];
        most = alive > most ? alive : most;
        l->change[i] = 0;
    }
    return (size_t)most;
}

/*
 * How many shards of a unit come in by message at most, at any rank: those of all ranks that are not near, or
 * in the order node one of every other node and what a rank of the smallest node serves for it.
 */
static int64_t incoming_shards(const cero_zero *zero)
{
    const cero_comm *comm = zero->comm;
    int nodes = cero_comm_node_count(comm);
    int smallest = zero->size;
    int64_t served = 0;

    for (int node = 0; node < nodes; node++) {
        int size = cero_comm_node_size(comm, node);
        smallest = size < smallest ? size : smallest;
    }
    if (zero->order != CERO_EXCHANGE_NODE || !cero_zero_has_node_order(zero)) {
        return zero->size - (cero_comm_has_shared_memory(comm) ? smallest : 1);
    }
    for (int node = 0; node < nodes; node++) {
        served += (cero_comm_node_size(comm, node) + smallest - 1) / smallest;
    }
    return nodes - 1 + served - 1;
}

/* Bytes of landing memory of one reduction, which is two pieces of the bucket of each shard at most. */
static size_t most_landing(const cero_zero_schedule *s, size_t element_size)
{
    const cero_zero *zero = s->zero;
    int64_t bucket = zero->spec->reduce_bucket_size;
    int64_t most = 0;

    for (int64_t k = 0; k < s->staged_count; k++) {
        int64_t n = zero->layout.units[s->staged[k].unit].range[CERO_ZERO_TRAINED].numel;
        most = n > most ? n : most;
    }
    most = bucket > 0 && most > 2 * bucket ? 2 * bucket : most;
    return (size_t)(cero_zero_round_up(most / zero->size) * incoming_shards(zero)) * element_size;
}

static void choose(cero_zero_schedule *s, lives *l)
{
    cero_zero *zero = s->zero;
    size_t landing = most_landing(s, l->element_size);

    if (s->staged_count > 0) {
        add_staged(l, s, false);
        zero->rooms_limit = take_peak(l) + (size_t)zero->room_limit * l->element_size;
        add_staged(l, s, zero->overlaps);
        add_gathered(l, s, true);
        size_t needed = take_peak(l) + (zero->overlaps ? landing : 0);
        zero->overlaps = zero->overlaps && needed <= zero->rooms_limit;
    }
    add_staged(l, s, zero->overlaps);
    add_gathered(l, s, true);
    if (take_peak(l) + (zero->overlaps ? landing : 0) > zero->rooms_limit) {
        for (int64_t k = 0; k < s->interval_count; k++) {
            s->intervals[k].starter = k;
        }
    }
}

cero_status cero_zero_choose_overlap(cero_zero_schedule *s)
{
    lives l = {.count = 2 * s->graph->node_count + 3,
               .element_size = cero_dtype_size(s->zero->dtype)};

    if (s->zero->stage < 3) {
        return CERO_OK;
    }
    l.change = cero_new((size_t)l.count, sizeof(int64_t));
    if (l.change == NULL) {
        return CERO_FAIL(CERO_ERR_NOMEM, "no memory for the lives of rooms over %lld instructions",
                         (long long)s->graph->node_count);
    }
    choose(s, &l);
    cero_delete(l.change);
    return CERO_OK;
}
