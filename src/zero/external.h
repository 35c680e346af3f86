/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ZeRO's exchanges for a program that is no graph: it says itself when a unit's gradients are complete and, at
 * stage 3, when a unit's parameters are needed. What schedule.h puts into a program is here done on call, with
 * the same exchanges, so that the bits are the same.
 *
 * Units are reduced in one order on all ranks, the last unit first, whatever the order in which a rank's
 * gradients become ready: a unit waits for those before it.
 */
#ifndef CERO_ZERO_EXTERNAL_H
#define CERO_ZERO_EXTERNAL_H

#include "zero/zero.h"

typedef struct cero_zero_external cero_zero_external;

/*
 * Writes this micro-batch's gradients of a unit that are not made in `room` already. Parameter p of the unit
 * begins at element cero_zero_param_begin of it; elements are of the compute dtype.
 */
typedef void (*cero_zero_fill)(void *context, int64_t unit, void *room);

typedef struct cero_zero_external_params {
    cero_zero *zero; /* borrowed; not allocated yet */
    const bool *
        has_room; /* [unit_count], borrowed for the call: gradients are made in a room of the unit's own,
                             else units take turns in two rooms */
    cero_zero_fill fill;
    void *context; /* of fill; borrowed */
} cero_zero_external_params;

/*
 * Places the rooms: of staged gradients, then a region in which units are gathered, of
 * stage3_max_live_parameters elements, no more than all cut units and no less than the largest.
 *
 * Not collective.
 * Errors: NOMEM.
 */
CERO_NODISCARD cero_status cero_zero_external_create(const cero_zero_external_params *params,
                                                     cero_zero_external **out);
/* Before zero is destroyed. Not collective. */
void cero_zero_external_destroy(cero_zero_external **external);

/* Bytes of all rooms, for cero_zero_allocate. Not collective. */
size_t cero_zero_external_bytes(const cero_zero_external *external);

/*
 * Plans the reductions; gathers are planned at their first use.
 *
 * Collective: over the comm of zero, which has been allocated.
 * Errors:     NOMEM, COMM, REMOTE.
 */
CERO_NODISCARD cero_status cero_zero_external_bind(cero_zero_external *external);

/*
 * Where parameter i's gradients are made, [numel] of the compute dtype, when its unit has a room of its own or
 * gradients are not summed; NULL: nowhere here. Not collective.
 */
void *cero_zero_external_grad(const cero_zero_external *external, int64_t i);

/* Where parameter i's compute copy is, [numel]: NULL while its unit is cut and not gathered. Not collective. */
void *cero_zero_external_param(const cero_zero_external *external, int64_t i);

/*
 * The unit's gradients of the micro-batch that began are complete. With overlap_comm its reduction starts when
 * those of the units before it have, and may wait for other ranks to come as far as two units before.
 *
 * Collective: over comm, in any order of units; all ranks alike between two gathers.
 * Errors:     COMM, REMOTE.
 */
CERO_NODISCARD cero_status cero_zero_external_ready(cero_zero_external *external, int64_t unit);

/*
 * All gradients of the micro-batch are complete: reduces what is left, and waits until all rooms are free.
 *
 * Collective: over comm.
 * Errors:     COMM, REMOTE.
 */
CERO_NODISCARD cero_status cero_zero_external_reduce(cero_zero_external *external);

/* True when a unit is cut at all, and when it is gathered now. Not collective. */
bool cero_zero_external_is_cut(const cero_zero_external *external, int64_t unit);
bool cero_zero_external_is_gathered(const cero_zero_external *external, int64_t unit);

/*
 * Where in the region a cut unit can be gathered: its place of the last time, else the first that is free.
 * Ranks that gathered and released the same units find the same.
 *
 * Not collective.
 * Errors: INVALID (it is gathered), NOMEM naming what is gathered and the limit.
 */
CERO_NODISCARD cero_status cero_zero_external_place(const cero_zero_external *external,
                                                    int64_t unit, int64_t *at);

/*
 * Brings a cut unit's parameters together at the place that was found.
 *
 * Collective: over comm, same unit and place on all ranks.
 * Errors:     NOMEM, COMM, REMOTE.
 */
CERO_NODISCARD cero_status cero_zero_external_gather(cero_zero_external *external, int64_t unit,
                                                     int64_t at);
/* Not collective. Errors: INVALID (it is not gathered). */
CERO_NODISCARD cero_status cero_zero_external_release(cero_zero_external *external, int64_t unit);

#endif
