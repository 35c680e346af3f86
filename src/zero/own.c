/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The part of the states that this rank answers for in a checkpoint: what it alone writes, and what it reads when
 * all states are set. Copies of other ranks follow by the exchanges that follow an update.
 *
 * An owner is who updates the elements at stages 1 to 3; at stage 0 and for frozen parameters the same borders
 * hold, so that every element is written by one rank.
 */
#include "zero/zero_impl.h"

#include <string.h>

/* Elements of a parameter that are in this rank's shard of their unit's range. */
static cero_zero_cut own_part(const cero_zero *zero, const cero_zero_param *p)
{
    cero_zero_part part = cero_zero_param_part(p);
    int64_t first = cero_zero_param_begin(&zero->layout, p);
    cero_zero_cut cut = cero_zero_intersect(cero_zero_own(zero, p->unit, part), first, p->numel);

    cut.begin -= first;
    return cut;
}

static bool has_moment(const cero_zero *zero, int64_t param, int moment)
{
    return moment < cero_zero_moment_count(zero, param);
}

void cero_zero_own_range(const cero_zero *zero, int64_t param, int moment, int64_t *begin,
                         int64_t *n)
{
    cero_zero_cut own = own_part(zero, &zero->layout.params[param]);

    *begin = own.begin;
    *n = has_moment(zero, param, moment) ? own.n : 0;
}

/* Where element `begin` of a parameter lies in its master and moments, and in its compute copies. */
static int64_t state_at(const cero_zero *zero, const cero_zero_param *p, int64_t begin)
{
    int64_t first = cero_zero_param_begin(&zero->layout, p) + begin;

    return cero_zero_intersect(cero_zero_held_state(zero, p->unit), first, 1).at;
}

static void *copy_of(const cero_zero *zero, const cero_zero_param *p, int64_t begin)
{
    int64_t first = cero_zero_param_begin(&zero->layout, p) + begin;
    cero_zero_held held = cero_zero_held_copy(zero, p->unit, cero_zero_param_part(p));

    return cero_zero_copy_at(zero, cero_zero_intersect(held, first, 1).at);
}

float *cero_zero_load_memory(const cero_zero *zero, int64_t param, int moment, int64_t begin)
{
    const cero_zero_param *p = &zero->layout.params[param];

    if (moment >= 0) {
        return cero_zero_moment_memory(zero, moment) + state_at(zero, p, begin);
    }
    if (zero->has_master && !p->is_frozen) {
        return zero->master + state_at(zero, p, begin);
    }
    return zero->dtype == CERO_DTYPE_F32 ? copy_of(zero, p, begin) : NULL;
}

const float *cero_zero_own_values(const cero_zero *zero, int64_t param, int moment, int64_t begin,
                                  int64_t n, float *room)
{
    const float *values = cero_zero_load_memory(zero, param, moment, begin);

    if (values == NULL) {
        const void *copy = copy_of(zero, &zero->layout.params[param], begin);
        cero_device_kernels(zero->device)->to_f32[zero->dtype](n, copy, room);
        values = room;
    }
    return values;
}

cero_status cero_zero_load_begin(cero_zero *zero)
{
    // Nobody may still read copies of the last update, nor bring them here later.
    return cero_zero_refresh_release(zero);
}

void cero_zero_load_range(const cero_zero *zero, int64_t param, int moment, int64_t *begin,
                          int64_t *n)
{
    cero_zero_own_range(zero, param, moment, begin, n);
    if (zero->stage == 0 && has_moment(zero, param, moment)) {
        *begin = 0;
        *n = zero->layout.params[param].numel;
    }
}

void cero_zero_load_values(cero_zero *zero, int64_t param, int moment, int64_t begin, int64_t n,
                           const float *values)
{
    const cero_zero_param *p = &zero->layout.params[param];
    float *memory = n > 0 ? cero_zero_load_memory(zero, param, moment, begin) : NULL;

    if (memory != NULL && memory != values) {
        memcpy(memory, values, (size_t)n * sizeof(float));
    }
    if (n > 0 && moment < 0 && zero->dtype != CERO_DTYPE_F32) {
        cero_device_from_f32(zero->device, zero->dtype, n, values, copy_of(zero, p, begin));
    }
}

/* Frozen parameters that are whole on every rank: each element comes from its owner. */
static cero_status share_frozen(cero_zero *zero, int64_t param, float *room, int64_t numel)
{
    const cero_zero_param *p = &zero->layout.params[param];
    cero_zero_cut own = own_part(zero, p);
    int64_t first = cero_zero_param_begin(&zero->layout, p);

    for (int64_t begin = 0; begin < p->numel; begin += numel) {
        int64_t n = p->numel - begin < numel ? p->numel - begin : numel;
        cero_zero_held mine = {.begin = own.begin, .end = own.begin + own.n};
        cero_zero_cut cut = cero_zero_intersect(mine, begin, n);
        float *to = room + (cut.begin - begin);
        const float *values =
            cut.n > 0 ? cero_zero_own_values(zero, param, -1, cut.begin, cut.n, to) : to;
        if (values != to) {
            memcpy(to, values, (size_t)cut.n * sizeof(float));
        }
        CERO_TRY(cero_zero_share_values(zero, p->unit, CERO_ZERO_FROZEN, first + begin, n, room));
        CERO_TRY(cero_zero_set_param(zero, param, begin, n, room));
    }
    return CERO_OK;
}

cero_status cero_zero_load_end(cero_zero *zero, float *room, int64_t numel)
{
    CERO_TRY(cero_zero_refresh_start(zero));
    CERO_TRY(cero_zero_settle(zero));
    for (int64_t i = 0; zero->stage > 0 && i < zero->layout.param_count; i++) {
        const cero_zero_param *p = &zero->layout.params[i];
        if (p->is_frozen && zero->place[p->unit].is_whole) {
            CERO_TRY(share_frozen(zero, i, room, numel));
        }
    }
    return cero_zero_weights_set(zero);
}
