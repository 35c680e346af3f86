/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When parameters are gathered and released and gradients exchanged: a pass over a graph, before it is
 * compiled.
 *
 * For stage 3 every use of a unit's parameters is turned to a room of the exchange arena: gather_start a
 * little ahead of the first use (within stage3_prefetch_bucket_size and stage3_max_live_parameters),
 * gather_finish before it, gather_release after the last; forward and backward gather apart. At stages 1 and 2
 * refresh_finish stands before a unit's first use in forward, where the new copies must have arrived.
 * Gradients of a unit lie in a room of their own: reduce_start after the last of them is written, then
 * reduce_finish and reduce_release, at once or, with overlap_comm, while the next units are computed.
 * Neither goes ahead so far that stage 3 would hold more than stage 2 (docs/memory.md).
 */
#ifndef CERO_ZERO_SCHEDULE_H
#define CERO_ZERO_SCHEDULE_H

#include "graph/program.h"
#include "zero/zero.h"

typedef struct cero_zero_schedule cero_zero_schedule;

/*
 * Inserts the nodes. The graph is differentiated and recomputed already, or has no backward.
 *
 * Not collective.
 * Errors: NOMEM, those of the graph.
 */
CERO_NODISCARD cero_status cero_zero_schedule_create(cero_zero *zero, cero_graph *graph,
                                                     cero_zero_schedule **out);

/*
 * Plans the exchanges of the rooms, where the compiled program put them; then the program may run.
 *
 * Collective: over the comm of zero, which has been allocated.
 * Errors:     NOMEM, COMM, REMOTE.
 */
CERO_NODISCARD cero_status cero_zero_schedule_bind(cero_zero_schedule *schedule,
                                                   const cero_program *program);

/* What a step exchanges with this training program, on any device: nothing has to be bound. Not collective. */
void cero_zero_schedule_cost(const cero_zero_schedule *schedule, cero_zero_cost *out);

/* Before zero is destroyed. Not collective. */
void cero_zero_schedule_destroy(cero_zero_schedule **schedule);

#endif
