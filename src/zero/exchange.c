/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What goes between ranks outside programs: new compute copies of units that are whole on every rank, and at
 * stage 0 the sums. Rooms of programs are schedule.c's business.
 */
#include "zero/zero_impl.h"

#include "base/clock.h"

#include <string.h>

/* A gather of the trainable range of a unit within one buffer that has it at the same place on every rank. */
static cero_status gather_in_place(const cero_zero *zero, int64_t unit, cero_comm_buffer *buffer,
                                   int64_t at, size_t element_size, cero_exchange **out)
{
    cero_status st = CERO_OK;
    int64_t *border = cero_new((size_t)zero->size + 1, sizeof(int64_t));
    size_t *source_at = cero_new((size_t)zero->size, sizeof(size_t));
    cero_gather_params params = {.name = zero->layout.units[unit].name,
                                 .device = zero->device,
                                 .element_size = element_size,
                                 .border = border,
                                 .source = buffer,
                                 .source_at = source_at,
                                 .dest = buffer,
                                 .dest_offset = (size_t)at * element_size};

    if (border == NULL || source_at == NULL) {
        CERO_FAIL_GOTO(out, CERO_ERR_NOMEM, "no memory for the exchange of %s", params.name);
    }
    cero_zero_borders(zero, unit, CERO_ZERO_TRAINED, border);
    for (int r = 0; r < zero->size; r++) {
        source_at[r] = (size_t)(at + border[r]) * element_size;
    }
    CERO_TRY_GOTO(cero_gather_create(zero->comm, &params, out), out);
out:
    cero_delete(border);
    cero_delete(source_at);
    return st;
}

bool cero_zero_is_refreshed(const cero_zero *zero, int64_t unit)
{
    return zero->size > 1 && zero->stage > 0 && zero->place[unit].is_whole &&
           zero->layout.units[unit].range[CERO_ZERO_TRAINED].numel > 0;
}

bool cero_zero_is_spread(const cero_zero *zero, int64_t unit)
{
    return zero->size > 1 && zero->stage == 0 &&
           zero->layout.units[unit].range[CERO_ZERO_TRAINED].numel > 0;
}

cero_status cero_zero_create_exchanges(cero_zero *zero)
{
    for (int64_t u = 0; u < zero->layout.unit_count; u++) {
        if (cero_zero_is_refreshed(zero, u)) {
            CERO_TRY(gather_in_place(zero, u, zero->param_buffer,
                                     zero->place[u].copy[CERO_ZERO_TRAINED],
                                     cero_dtype_size(zero->dtype), &zero->refresh[u]));
        }
        if (cero_zero_is_spread(zero, u)) {
            CERO_TRY(gather_in_place(zero, u, zero->sum_buffer, zero->place[u].sum, sizeof(float),
                                     &zero->spread[u]));
        }
    }
    return CERO_OK;
}

void cero_zero_destroy_exchanges(cero_zero *zero)
{
    for (int64_t u = 0; u < zero->layout.unit_count; u++) {
        if (zero->refresh != NULL) {
            cero_exchange_destroy(&zero->refresh[u]);
        }
        if (zero->spread != NULL) {
            cero_exchange_destroy(&zero->spread[u]);
        }
    }
}

/* Starts the next gathers, as many as may be under way; the same ones on all ranks. */
static cero_status refresh_more(cero_zero *zero)
{
    while (zero->refresh_next < zero->layout.unit_count &&
           zero->refresh_count < CERO_ZERO_UNDER_WAY) {
        int64_t u = zero->refresh_next++;
        if (zero->refresh[u] != NULL) {
            CERO_TRY(cero_exchange_start(zero->refresh[u], true));
            zero->refresh_state[u] = CERO_ZERO_STARTED;
            zero->refresh_count++;
        }
    }
    return CERO_OK;
}

static cero_status refresh_end(cero_zero *zero, int64_t unit)
{
    CERO_TRY(cero_exchange_release(zero->refresh[unit]));
    zero->refresh_state[unit] = CERO_ZERO_FRESH;
    zero->refresh_count--;
    return CERO_OK;
}

/* In a model of very many units one gather must end before another can start. */
static cero_status refresh_finish(cero_zero *zero, int64_t unit)
{
    if (zero->refresh_state[unit] == CERO_ZERO_STARTED) {
        CERO_TRY(cero_exchange_finish(zero->refresh[unit]));
        zero->refresh_state[unit] = CERO_ZERO_FINISHED;
        if (zero->refresh_next < zero->layout.unit_count) {
            CERO_TRY(refresh_end(zero, unit));
            CERO_TRY(refresh_more(zero));
        }
    }
    return CERO_OK;
}

cero_status cero_zero_refresh_finish(cero_zero *zero, int64_t unit)
{
    for (int64_t u = 0; u < unit && unit >= zero->refresh_next; u++) {
        CERO_TRY(refresh_finish(zero, u));
    }
    return refresh_finish(zero, unit);
}

cero_status cero_zero_settle(cero_zero *zero)
{
    double start = cero_clock_now();

    for (int64_t u = 0; u < zero->layout.unit_count; u++) {
        CERO_TRY(cero_zero_refresh_finish(zero, u));
    }
    zero->exchange_seconds += cero_clock_now() - start;
    return CERO_OK;
}

cero_status cero_zero_refresh_release(cero_zero *zero)
{
    for (int64_t u = 0; u < zero->layout.unit_count; u++) {
        CERO_TRY(cero_zero_refresh_finish(zero, u));
    }
    for (int64_t u = 0; u < zero->layout.unit_count; u++) {
        if (zero->refresh_state[u] == CERO_ZERO_FINISHED) {
            CERO_TRY(refresh_end(zero, u));
        }
    }
    return CERO_OK;
}

static cero_status refresh_start(cero_zero *zero)
{
    zero->refresh_next = 0;
    CERO_TRY(refresh_more(zero));
    // At stage 3 forward gathers, as often as there are units; what is whole there is small.
    return zero->stage == 3 ? cero_zero_refresh_release(zero) : CERO_OK;
}

cero_status cero_zero_refresh_start(cero_zero *zero)
{
    double start = cero_clock_now();
    cero_status st = refresh_start(zero);

    zero->exchange_seconds += cero_clock_now() - start;
    return st;
}

static cero_status spread_more(cero_zero *zero, int64_t limit)
{
    for (; zero->spread_next < zero->layout.unit_count && zero->spread_next < limit;
         zero->spread_next++) {
        if (zero->spread[zero->spread_next] != NULL) {
            CERO_TRY(cero_exchange_start(zero->spread[zero->spread_next], true));
        }
    }
    return CERO_OK;
}

cero_status cero_zero_spread_start(cero_zero *zero)
{
    zero->spread_next = 0;
    return spread_more(zero, CERO_ZERO_UNDER_WAY);
}

cero_status cero_zero_spread_finish(cero_zero *zero)
{
    double start = cero_clock_now();

    for (int64_t u = 0; u < zero->layout.unit_count; u++) {
        if (zero->spread[u] != NULL) {
            CERO_TRY(cero_exchange_finish(zero->spread[u]));
            CERO_TRY(cero_exchange_release(zero->spread[u]));
        }
        CERO_TRY(spread_more(zero, u + 1 + CERO_ZERO_UNDER_WAY));
    }
    zero->exchange_seconds += cero_clock_now() - start;
    return CERO_OK;
}

bool cero_zero_is_unit_whole(const cero_zero *zero, int64_t unit)
{
    return zero->place[unit].is_whole;
}
