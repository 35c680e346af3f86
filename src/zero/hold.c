/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What this rank holds of every state, whole or as its shard, and where: arithmetic alone. This is the only
 * place that asks for the stage.
 */
#include "zero/zero_impl.h"

cero_zero_held cero_zero_own(const cero_zero *zero, int64_t unit, cero_zero_part part)
{
    int64_t numel = zero->layout.units[unit].range[part].numel;

    return (cero_zero_held){.begin = cero_zero_border(numel, zero->size, zero->rank),
                            .end = cero_zero_border(numel, zero->size, zero->rank + 1)};
}

static cero_zero_held held(const cero_zero *zero, int64_t unit, cero_zero_part part, bool is_whole,
                           int64_t at)
{
    cero_zero_held h = {.end = zero->layout.units[unit].range[part].numel};

    h = is_whole ? h : cero_zero_own(zero, unit, part);
    h.at = at;
    return h;
}

cero_zero_held cero_zero_held_copy(const cero_zero *zero, int64_t unit, cero_zero_part part)
{
    const cero_zero_place *place = &zero->place[unit];
    return held(zero, unit, part, place->is_whole, place->copy[part]);
}

static bool is_state_whole(const cero_zero *zero)
{
    return zero->stage == 0;
}

/* Without a shared order of single micro-batches a rank adds its own first, and needs room for all. */
static bool is_sum_whole(const cero_zero *zero)
{
    return zero->stage == 0 || zero->is_local || !zero->has_sums;
}

cero_zero_held cero_zero_held_state(const cero_zero *zero, int64_t unit)
{
    return held(zero, unit, CERO_ZERO_TRAINED, is_state_whole(zero), zero->place[unit].state);
}

cero_zero_held cero_zero_held_sum(const cero_zero *zero, int64_t unit)
{
    return held(zero, unit, CERO_ZERO_TRAINED, is_sum_whole(zero), zero->place[unit].sum);
}

cero_zero_cut cero_zero_intersect(cero_zero_held h, int64_t begin, int64_t n)
{
    int64_t first = begin > h.begin ? begin : h.begin;
    int64_t last = begin + n < h.end ? begin + n : h.end;

    return last > first
               ? (cero_zero_cut){.begin = first, .n = last - first, .at = h.at + first - h.begin}
               : (cero_zero_cut){.begin = begin};
}

cero_dtype cero_zero_grad_dtype(const cero_zero *zero)
{
    return zero->has_sums ? CERO_DTYPE_F32 : zero->dtype;
}

void *cero_zero_sum_at(const cero_zero *zero, int64_t at)
{
    return (char *)zero->grad + (size_t)at * cero_dtype_size(cero_zero_grad_dtype(zero));
}

void *cero_zero_copy_at(const cero_zero *zero, int64_t at)
{
    return (char *)zero->param + (size_t)at * cero_dtype_size(zero->dtype);
}

void cero_zero_borders(const cero_zero *zero, int64_t unit, cero_zero_part part, int64_t *border)
{
    for (int j = 0; j <= zero->size; j++) {
        border[j] = cero_zero_border(zero->layout.units[unit].range[part].numel, zero->size, j);
    }
}

int64_t cero_zero_shard_room(const int64_t *border)
{
    return cero_zero_round_up(border[1] - border[0]);
}

/* The same of a rank's shard of a range of a unit. */
static int64_t room_of(const cero_zero *zero, int rank, int64_t unit, cero_zero_part part)
{
    int64_t numel = zero->layout.units[unit].range[part].numel;
    const int64_t border[] = {cero_zero_border(numel, zero->size, rank),
                              cero_zero_border(numel, zero->size, rank + 1)};
    return cero_zero_shard_room(border);
}

int64_t cero_zero_shard_at(const cero_zero *zero, int rank, int64_t unit, cero_zero_part part)
{
    int64_t at = zero->whole_numel;

    for (int p = 0; p <= (int)part; p++) {
        int64_t units = p == (int)part ? unit : zero->layout.unit_count;
        for (int64_t u = 0; u < units; u++) {
            at += zero->place[u].is_whole ? 0 : room_of(zero, rank, u, (cero_zero_part)p);
        }
    }
    return at;
}

int64_t cero_zero_room_frozen_at(const cero_zero *zero, int64_t unit)
{
    return cero_zero_round_up(zero->layout.units[unit].range[CERO_ZERO_TRAINED].numel);
}

int64_t cero_zero_room_numel(const cero_zero *zero, int64_t unit)
{
    return cero_zero_room_frozen_at(zero, unit) +
           cero_zero_round_up(zero->layout.units[unit].range[CERO_ZERO_FROZEN].numel);
}

/* A unit that is small stays whole at stage 3: a gather would cost more than it saves. */
static bool is_unit_whole(const cero_zero *zero, const cero_zero_unit *unit)
{
    int64_t numel = unit->range[CERO_ZERO_TRAINED].numel + unit->range[CERO_ZERO_FROZEN].numel;

    return zero->stage < 3 || zero->size == 1 ||
           numel <= zero->spec->stage3_param_persistence_threshold;
}

/* What every rank saves at least when a unit is cut: all but the largest shard. */
static int64_t saved_numel(const cero_zero *zero, int64_t unit)
{
    int64_t saved = 0;

    for (int part = 0; part < CERO_ZERO_PARTS; part++) {
        int64_t whole = cero_zero_round_up(zero->layout.units[unit].range[part].numel);
        int64_t blocks = whole / CERO_ZERO_ALIGNMENT;
        saved += whole - (blocks + zero->size - 1) / zero->size * CERO_ZERO_ALIGNMENT;
    }
    return saved;
}

/*
 * Cutting costs rooms to gather in, one of the largest cut unit at least. So that stage 3 holds no more than
 * stage 2 would, rooms may take what cutting saves, and a mebibyte that even the smallest model can spare; a
 * unit whose room would take more stays whole (an embedding that is most of the model, on two ranks).
 */
static void limit_rooms(cero_zero *zero)
{
    const cero_zero_layout *l = &zero->layout;
    int64_t spare = (int64_t)((1 << 20) / cero_dtype_size(zero->dtype));
    int64_t largest = -1;

    do {
        zero->room_limit = spare;
        if (largest >= 0) {
            zero->place[largest].is_whole = true;
            largest = -1;
        }
        for (int64_t u = 0; u < l->unit_count; u++) {
            if (zero->place[u].is_whole) {
                continue;
            }
            zero->room_limit += saved_numel(zero, u);
            if (largest < 0 ||
                cero_zero_room_numel(zero, u) > cero_zero_room_numel(zero, largest)) {
                largest = u;
            }
        }
    } while (largest >= 0 && cero_zero_room_numel(zero, largest) > zero->room_limit);
}

/* Whole copies first, at the same place on every rank; then this rank's shards. */
static void place_copies(cero_zero *zero)
{
    const cero_zero_layout *l = &zero->layout;

    for (int64_t u = 0; u < l->unit_count; u++) {
        zero->place[u].is_whole = is_unit_whole(zero, &l->units[u]);
    }
    limit_rooms(zero);
    for (int part = 0; part < CERO_ZERO_PARTS; part++) {
        for (int64_t u = 0; u < l->unit_count; u++) {
            if (zero->place[u].is_whole) {
                zero->place[u].copy[part] = zero->whole_numel;
                zero->whole_numel += cero_zero_round_up(l->units[u].range[part].numel);
            }
        }
    }
    zero->copy_numel = zero->whole_numel;
    for (int part = 0; part < CERO_ZERO_PARTS; part++) {
        for (int64_t u = 0; u < l->unit_count; u++) {
            if (!zero->place[u].is_whole) {
                zero->place[u].copy[part] = zero->copy_numel;
                zero->copy_numel += room_of(zero, zero->rank, u, (cero_zero_part)part);
            }
        }
    }
}

static void place_states(cero_zero *zero)
{
    const cero_zero_layout *l = &zero->layout;

    for (int64_t u = 0; u < l->unit_count; u++) {
        int64_t whole = cero_zero_round_up(l->units[u].range[CERO_ZERO_TRAINED].numel);
        int64_t shard = room_of(zero, zero->rank, u, CERO_ZERO_TRAINED);
        zero->place[u].state = zero->state_numel;
        zero->place[u].sum = zero->sum_numel;
        zero->state_numel += is_state_whole(zero) ? whole : shard;
        zero->sum_numel += is_sum_whole(zero) ? whole : shard;
    }
}

void cero_zero_place_all(cero_zero *zero)
{
    place_copies(zero);
    place_states(zero);
}
