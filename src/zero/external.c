/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The exchanges of external.h. The arena holds, one after the other: rooms of units whose gradients are made in
 * it, two rooms (one without overlap_comm) in which the gradients of the other units take turns, and the region
 * of gathered units.
 */
#include "zero/external.h"

#include "base/clock.h"
#include "zero/schedule_impl.h"

#include <math.h>

/* A unit in the region. */
typedef struct gathered {
    int64_t at; /* element of the region where its exchanges bring it; -1: they are not planned */
    bool is_here;
    cero_exchange *exchange[CERO_ZERO_PARTS]; /* owned; NULL: the unit has no such part */
} gathered;

struct cero_zero_external {
    cero_zero *zero; /* borrowed */
    cero_zero_fill fill;
    void *context; /* borrowed */
    cero_zero_staged
        *staged; /* owned, [unit_count]: units with trained parameters, the last first */
    int64_t staged_count;
    int64_t next;       /* first of them that is not under way in this micro-batch */
    bool *is_ready;     /* owned, [unit_count] */
    bool *has_room;     /* owned, [unit_count] */
    gathered *gathered; /* owned, [unit_count] */
    size_t region_at;   /* byte of the arena */
    int64_t region;     /* elements */
};

static int64_t max_i64(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* Rooms of a unit's own first, then those in turns: unit k takes the one of its parity. */
static void place_staged(cero_zero_external *x)
{
    const cero_zero *zero = x->zero;
    size_t size = cero_dtype_size(zero->dtype);
    int turns = zero->spec->overlap_comm ? 2 : 1;
    int64_t turn_numel[2] = {0, 0};
    int64_t end = 0;

    for (int64_t u = zero->layout.unit_count - 1; u >= 0; u--) {
        if (zero->layout.units[u].range[CERO_ZERO_TRAINED].numel > 0) {
            x->staged[x->staged_count++] = (cero_zero_staged){.unit = u};
        }
    }
    for (int64_t k = 0; k < x->staged_count && zero->has_sums; k++) {
        int64_t unit = x->staged[k].unit;
        int64_t numel = cero_zero_room_frozen_at(zero, unit);
        if (x->has_room[unit]) {
            x->staged[k].source_at = (size_t)end * size;
            end += numel;
        } else {
            turn_numel[k % turns] = max_i64(turn_numel[k % turns], numel);
        }
    }
    for (int64_t k = 0; k < x->staged_count && zero->has_sums; k++) {
        if (!x->has_room[x->staged[k].unit]) {
            x->staged[k].source_at = (size_t)(end + (k % turns == 1 ? turn_numel[0] : 0)) * size;
        }
    }
    x->region_at = (size_t)(end + turn_numel[0] + turn_numel[1]) * size;
}

static void place_region(cero_zero_external *x)
{
    int64_t all = 0;
    int64_t largest = 0;

    for (int64_t u = 0; u < x->zero->layout.unit_count; u++) {
        x->gathered[u].at = -1;
        if (cero_zero_external_is_cut(x, u)) {
            all += cero_zero_room_numel(x->zero, u);
            largest = max_i64(largest, cero_zero_room_numel(x->zero, u));
        }
    }
    int64_t limit = max_i64(x->zero->spec->stage3_max_live_parameters, largest);
    x->region = all < limit ? all : limit;
}

cero_status cero_zero_external_create(const cero_zero_external_params *params,
                                      cero_zero_external **out)
{
    cero_status st = CERO_OK;
    size_t units = (size_t)params->zero->layout.unit_count;
    cero_zero_external *x = cero_new(1, sizeof(*x));

    if (x == NULL) {
        return CERO_FAIL(CERO_ERR_NOMEM, "no memory for the exchanges of %zu units", units);
    }
    x->zero = params->zero;
    x->fill = params->fill;
    x->context = params->context;
    x->staged = cero_new(units, sizeof(cero_zero_staged));
    x->is_ready = cero_new(units, sizeof(bool));
    x->has_room = cero_new(units, sizeof(bool));
    x->gathered = cero_new(units, sizeof(gathered));
    if (x->staged == NULL || x->is_ready == NULL || x->has_room == NULL || x->gathered == NULL) {
        CERO_FAIL_GOTO(fail, CERO_ERR_NOMEM, "no memory for the exchanges of %zu units", units);
    }
    for (size_t u = 0; u < units; u++) {
        x->has_room[u] = params->has_room[u];
    }
    place_staged(x);
    place_region(x);
    *out = x;
    return CERO_OK;

fail:
    cero_zero_external_destroy(&x);
    return st;
}

static void destroy_gather(gathered *g)
{
    for (int part = 0; part < CERO_ZERO_PARTS; part++) {
        cero_exchange_destroy(&g->exchange[part]);
    }
    g->at = -1;
}

void cero_zero_external_destroy(cero_zero_external **external)
{
    if (external == NULL || *external == NULL) {
        return;
    }
    cero_zero_external *x = *external;
    for (int64_t k = 0; x->staged != NULL && k < x->staged_count; k++) {
        cero_exchange_destroy(&x->staged[k].exchange);
    }
    for (int64_t u = 0; x->gathered != NULL && u < x->zero->layout.unit_count; u++) {
        destroy_gather(&x->gathered[u]);
    }
    cero_delete(x->gathered);
    cero_delete(x->has_room);
    cero_delete(x->is_ready);
    cero_delete(x->staged);
    cero_delete(x);
    *external = NULL;
}

size_t cero_zero_external_bytes(const cero_zero_external *x)
{
    return x->region_at + (size_t)x->region * cero_dtype_size(x->zero->dtype);
}

cero_status cero_zero_external_bind(cero_zero_external *x)
{
    cero_status st = CERO_OK;
    cero_zero *zero = x->zero;
    int64_t *border = cero_new((size_t)zero->size + 1, sizeof(int64_t));

    if (border == NULL) {
        st = CERO_FAIL(CERO_ERR_NOMEM, "no memory for the shards of %d ranks", zero->size);
    }
    CERO_TRY_GOTO(cero_comm_agree(zero->comm, st), out);
    for (int64_t k = 0; k < x->staged_count && zero->has_sums; k++) {
        CERO_TRY_GOTO(cero_zero_reduce_bind(zero, k, &x->staged[k], border), out);
    }
out:
    cero_delete(border);
    return st;
}

/* Where the gradients of staged unit number k go: without sums they are the sum themselves. */
static void *room_of(const cero_zero_external *x, int64_t k)
{
    const cero_zero *zero = x->zero;
    const cero_zero_staged *staged = &x->staged[k];

    return zero->has_sums ? (char *)cero_zero_arena(zero) + staged->source_at
                          : cero_zero_sum_at(zero, zero->place[staged->unit].sum);
}

void *cero_zero_external_grad(const cero_zero_external *x, int64_t i)
{
    const cero_zero_param *p = &x->zero->layout.params[i];

    if (p->is_frozen || (x->zero->has_sums && !x->has_room[p->unit])) {
        return NULL;
    }
    for (int64_t k = 0; k < x->staged_count; k++) {
        if (x->staged[k].unit == p->unit) {
            return (char *)room_of(x, k) + (size_t)cero_zero_param_begin(&x->zero->layout, p) *
                                               cero_dtype_size(x->zero->dtype);
        }
    }
    return NULL;
}

static cero_status start(cero_zero_external *x, int64_t k)
{
    cero_zero *zero = x->zero;

    x->fill(x->context, x->staged[k].unit, room_of(x, k));
    if (!zero->has_sums) {
        return CERO_OK;
    }
    double begin = cero_clock_now();
    cero_status st = cero_zero_reduce_start(zero, &x->staged[k]);
    zero->exchange_seconds += cero_clock_now() - begin;
    return st;
}

/* Does a half to staged unit number k, if it is one. */
static cero_status end(const cero_zero_external *x, int64_t k,
                       cero_status (*half)(const cero_zero *zero, const cero_zero_staged *staged))
{
    if (k < 0 || k >= x->staged_count || !x->zero->has_sums) {
        return CERO_OK;
    }
    double begin = cero_clock_now();
    cero_status st = half(x->zero, &x->staged[k]);
    x->zero->exchange_seconds += cero_clock_now() - begin;
    return st;
}

/* As schedule.c puts it: a sum is completed when the next unit has started, its room freed one later. */
static cero_status advance(cero_zero_external *x)
{
    int64_t k = x->next++;
    int64_t lag = x->zero->spec->overlap_comm ? 1 : 0;

    if (lag > 0) {
        CERO_TRY(end(x, k - 2, cero_zero_reduce_release));
    }
    if (k < x->staged_count) {
        CERO_TRY(start(x, k));
    }
    CERO_TRY(end(x, k - lag, cero_zero_reduce_finish));
    return lag > 0 ? CERO_OK : end(x, k, cero_zero_reduce_release);
}

cero_status cero_zero_external_ready(cero_zero_external *x, int64_t unit)
{
    x->is_ready[unit] = true;
    while (x->zero->spec->overlap_comm && x->next < x->staged_count &&
           x->is_ready[x->staged[x->next].unit]) {
        CERO_TRY(advance(x));
    }
    return CERO_OK;
}

cero_status cero_zero_external_reduce(cero_zero_external *x)
{
    while (x->next < x->staged_count + 2) {
        CERO_TRY(advance(x));
    }
    x->next = 0;
    for (int64_t u = 0; u < x->zero->layout.unit_count; u++) {
        x->is_ready[u] = false;
    }
    return CERO_OK;
}

bool cero_zero_external_is_cut(const cero_zero_external *x, int64_t unit)
{
    return !x->zero->place[unit].is_whole;
}

bool cero_zero_external_is_gathered(const cero_zero_external *x, int64_t unit)
{
    return x->gathered[unit].is_here;
}

void *cero_zero_external_param(const cero_zero_external *x, int64_t i)
{
    const cero_zero *zero = x->zero;
    const cero_zero_param *p = &zero->layout.params[i];
    const gathered *g = &x->gathered[p->unit];

    if (zero->place[p->unit].is_whole) {
        return zero->param_address[i];
    }
    int64_t at = g->at + cero_zero_param_begin(&zero->layout, p) +
                 (p->is_frozen ? cero_zero_room_frozen_at(zero, p->unit) : 0);
    return g->is_here ? (char *)cero_zero_arena(zero) + x->region_at +
                            (size_t)at * cero_dtype_size(zero->dtype)
                      : NULL;
}

/* True when a room of n elements fits at `at`, beside all that is gathered. */
static bool is_free(const cero_zero_external *x, int64_t at, int64_t n)
{
    bool fits = at >= 0 && at + n <= x->region;

    for (int64_t u = 0; u < x->zero->layout.unit_count && fits; u++) {
        const gathered *g = &x->gathered[u];
        fits = !g->is_here || at + n <= g->at || g->at + cero_zero_room_numel(x->zero, u) <= at;
    }
    return fits;
}

cero_status cero_zero_external_place(const cero_zero_external *x, int64_t unit, int64_t *at)
{
    const cero_zero *zero = x->zero;
    int64_t n = cero_zero_room_numel(zero, unit);
    int64_t best = is_free(x, 0, n) ? 0 : INT64_MAX;
    int64_t taken = 0;

    CERO_CHECK(!x->gathered[unit].is_here, CERO_ERR_INVALID,
               "unit %s is gathered already; release it first", zero->layout.units[unit].name);
    for (int64_t u = 0; u < zero->layout.unit_count; u++) {
        int64_t behind = x->gathered[u].at + cero_zero_room_numel(zero, u);
        if (x->gathered[u].is_here) {
            taken += cero_zero_room_numel(zero, u);
            best = behind < best && is_free(x, behind, n) ? behind : best;
        }
    }
    if (is_free(x, x->gathered[unit].at, n)) {
        best = x->gathered[unit].at;
    }
    CERO_CHECK(best < INT64_MAX, CERO_ERR_NOMEM,
               "no room to gather unit %s: it takes %lld elements, %lld of %lld are taken by units "
               "that are gathered; release some first, or raise "
               "zero_optimization.stage3_max_live_parameters",
               zero->layout.units[unit].name, (long long)n, (long long)taken, (long long)x->region);
    *at = best;
    return CERO_OK;
}

/* Plans the gathers of both parts of a unit, from the shards of all ranks to its place. */
static cero_status bind_gather(cero_zero_external *x, int64_t unit, int64_t *border,
                               size_t *source_at)
{
    cero_zero *zero = x->zero;
    gathered *g = &x->gathered[unit];
    size_t size = cero_dtype_size(zero->dtype);

    for (int part = 0; part < CERO_ZERO_PARTS; part++) {
        if (zero->layout.units[unit].range[part].numel == 0) {
            continue;
        }
        cero_zero_borders(zero, unit, (cero_zero_part)part, border);
        for (int r = 0; r < zero->size; r++) {
            source_at[r] = (size_t)cero_zero_shard_at(zero, r, unit, (cero_zero_part)part) * size;
        }
        int64_t at = g->at + (part == CERO_ZERO_FROZEN ? cero_zero_room_frozen_at(zero, unit) : 0);
        cero_gather_params params = {.name = zero->layout.units[unit].name,
                                     .device = zero->device,
                                     .element_size = size,
                                     .border = border,
                                     .source = zero->param_buffer,
                                     .source_at = source_at,
                                     .dest = zero->arena,
                                     .dest_offset = x->region_at + (size_t)at * size};
        CERO_TRY(cero_gather_create(zero->comm, &params, &g->exchange[part]));
    }
    return CERO_OK;
}

/* The exchanges of a unit serve one place. A program that repeats itself gathers at the same places. */
static cero_status move_gather(cero_zero_external *x, int64_t unit, int64_t at)
{
    cero_status st = CERO_OK;
    size_t ranks = (size_t)x->zero->size;
    int64_t *border = cero_new(ranks + 1, sizeof(int64_t));
    size_t *source_at = cero_new(ranks, sizeof(size_t));

    destroy_gather(&x->gathered[unit]);
    if (border == NULL || source_at == NULL) {
        st = CERO_FAIL(CERO_ERR_NOMEM, "no memory for the shards of %zu ranks", ranks);
    }
    CERO_TRY_GOTO(cero_comm_agree(x->zero->comm, st), out);
    x->gathered[unit].at = at;
    CERO_TRY_GOTO(bind_gather(x, unit, border, source_at), out);
out:
    cero_delete(border);
    cero_delete(source_at);
    return st;
}

static cero_status run_gather(const gathered *g)
{
    for (int part = 0; part < CERO_ZERO_PARTS; part++) {
        if (g->exchange[part] != NULL) {
            CERO_TRY(cero_exchange_start(g->exchange[part], true));
        }
    }
    for (int part = 0; part < CERO_ZERO_PARTS; part++) {
        if (g->exchange[part] != NULL) {
            CERO_TRY(cero_exchange_finish(g->exchange[part]));
            CERO_TRY(cero_exchange_release(g->exchange[part]));
        }
    }
    return CERO_OK;
}

cero_status cero_zero_external_gather(cero_zero_external *x, int64_t unit, int64_t at)
{
    gathered *g = &x->gathered[unit];
    double begin = cero_clock_now();

    if (g->at != at) {
        CERO_TRY(move_gather(x, unit, at));
    }
    CERO_TRY(run_gather(g));
    g->is_here = true;
    x->zero->exchange_seconds += cero_clock_now() - begin;
    return CERO_OK;
}

cero_status cero_zero_external_release(cero_zero_external *x, int64_t unit)
{
    CERO_CHECK(x->gathered[unit].is_here, CERO_ERR_INVALID, "unit %s is not gathered",
               x->zero->layout.units[unit].name);
    if (cero_mem_poison()) {
        char *room = (char *)cero_zero_arena(x->zero) + x->region_at;
        size_t at = (size_t)x->gathered[unit].at * cero_dtype_size(x->zero->dtype);
        cero_device_fill(x->zero->device, x->zero->dtype, cero_zero_room_numel(x->zero, unit), NAN,
                         room + at);
    }
    x->gathered[unit].is_here = false;
    return CERO_OK;
}
