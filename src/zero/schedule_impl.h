/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the pass (schedule.c), the nodes it inserts (schedule_ops.c) and the exchanges of programs that are no
 * graph (external.c) share.
 */
#ifndef CERO_ZERO_SCHEDULE_IMPL_H
#define CERO_ZERO_SCHEDULE_IMPL_H

#include "zero/schedule.h"
#include "zero/zero_impl.h"

/* Instructions first .. last use a unit's parameters. */
typedef struct cero_zero_interval {
    int64_t unit;
    int64_t first;
    int64_t last;
    int64_t starter; /* index of the interval at whose first use this one's gather starts */
    cero_value *room;
    size_t room_at;                           /* of the room in the arena */
    cero_exchange *exchange[CERO_ZERO_PARTS]; /* owned; NULL: the unit has no such part */
} cero_zero_interval;

/* Instruction `ready` writes the last gradient of a unit into its room, `first` the first. */
typedef struct cero_zero_staged {
    int64_t unit;
    int64_t first;
    int64_t ready;
    cero_value *room;
    size_t source_at;        /* of the room in the arena */
    cero_exchange *exchange; /* owned */
} cero_zero_staged;

struct cero_zero_schedule {
    cero_zero *zero; /* borrowed, like graph */
    cero_graph *graph;
    cero_zero_interval *intervals; /* owned, by first use */
    int64_t interval_count;
    int64_t interval_capacity;
    cero_zero_staged *staged; /* owned, [unit_count], by readiness */
    int64_t staged_count;
    cero_zero_cost cost; /* of a step, in and around this program */
};

/* Elements that may be gathered ahead of use. */
int64_t cero_zero_ahead_limit(const cero_zero *zero);

/* True when all units of any group that is recomputed together may be gathered at once. */
bool cero_zero_can_keep_groups(const cero_zero *zero);

/* Says at which interval each gather starts. */
void cero_zero_choose_starts(cero_zero_schedule *schedule);

/*
 * Says whether reductions overlap, and takes back what the starts go ahead, where stage 3 would hold more than
 * stage 2 otherwise. Errors: NOMEM.
 */
CERO_NODISCARD cero_status cero_zero_choose_overlap(cero_zero_schedule *schedule);

/* Counts what a step exchanges with this program (cost.c). Errors: NOMEM. */
CERO_NODISCARD cero_status cero_zero_schedule_count(cero_zero_schedule *schedule);

typedef enum cero_zero_node_kind {
    CERO_ZERO_GATHER_START = 0,
    CERO_ZERO_GATHER_FINISH = 1,
    CERO_ZERO_GATHER_RELEASE = 2,
    CERO_ZERO_REFRESH_FINISH = 3,
    CERO_ZERO_REDUCE_START = 4,
    CERO_ZERO_REDUCE_FINISH = 5,
    CERO_ZERO_REDUCE_RELEASE = 6,
    CERO_ZERO_NODE_KINDS = 7
} cero_zero_node_kind;

/*
 * Appends a node for interval, staged unit or unit `index` (by kind); `room` (NULL: none) stays alive until
 * it. Errors: those of the graph.
 */
CERO_NODISCARD cero_status cero_zero_node_append(cero_zero_schedule *schedule,
                                                 cero_zero_node_kind kind, int64_t index,
                                                 cero_value *room);

/*
 * The halves of a unit's reduction from its room, counted from the micro-batch at hand: with order local a
 * rank adds to its own sums, and only the last micro-batch is exchanged.
 */
CERO_NODISCARD cero_status cero_zero_reduce_start(cero_zero *zero, const cero_zero_staged *staged);
CERO_NODISCARD cero_status cero_zero_reduce_finish(const cero_zero *zero,
                                                   const cero_zero_staged *staged);
CERO_NODISCARD cero_status cero_zero_reduce_release(const cero_zero *zero,
                                                    const cero_zero_staged *staged);

/*
 * Plans the reduction of staged unit number k from its room, source_at bytes from the arena's begin, or with
 * order local from this rank's own sums, to the owners. border [size + 1] is for the call.
 *
 * Collective: over the comm of zero.
 */
CERO_NODISCARD cero_status cero_zero_reduce_bind(cero_zero *zero, int64_t k,
                                                 cero_zero_staged *staged, int64_t *border);

#endif
