/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory plan: a place in the arena for every activation and scratch buffer of a program, and in the
 * exchange arena for every room of gathered parameters or staged gradients.
 *
 * A buffer lives from the instruction that writes it to the last that reads it. Buffers are placed largest
 * first, each at the lowest offset that is free for its whole life.
 */
#ifndef CERO_GRAPH_PLAN_H
#define CERO_GRAPH_PLAN_H

#include "graph/graph.h"

/* Where a value lies. */
typedef struct cero_place {
    const cero_value *root; /* whose memory this is: the value itself unless it was aliased */
    size_t
        offset; /* in the arena, for roots of kind ACTIVATION; in the exchange arena, for rooms */
} cero_place;

typedef struct cero_plan {
    cero_place *place;      /* owned, [value_count] */
    size_t *scratch_offset; /* owned, [node_count] */
    size_t arena_bytes;
    size_t exchange_bytes;
    size_t lower_bound; /* of arena_bytes */
} cero_plan;

CERO_NODISCARD cero_status cero_plan_create(const cero_graph *graph, cero_plan *out);
void cero_plan_cleanup(cero_plan *plan);

/* Bytes of a value, rounded up to the allocator's alignment. */
size_t cero_plan_value_bytes(const cero_value *value);

#endif
