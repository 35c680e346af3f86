/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state behind zero.h, shared by its files: hold.c (what is held where), zero.c (memory), weights.c,
 * exchange.c (what moves between ranks), schedule.c (when), segments.c and update.c (the step).
 *
 * Every state of a unit is held whole or as this rank's shard. A cero_zero_held says which elements of the
 * unit's range are there and where they begin in the state's memory; no other code knows stages.
 */
#ifndef CERO_ZERO_ZERO_IMPL_H
#define CERO_ZERO_ZERO_IMPL_H

#include "comm/exchange.h"
#include "optim/optimizer.h"
#include "zero/zero.h"

enum {
    CERO_ZERO_NORM_SPAN = 1 << 20, /* elements whose block sums are held at once for the norm */
    CERO_ZERO_UNDER_WAY = 128, /* gathers started and not released; a transport has room for more */
    CERO_ZERO_AHEAD = 32 /* gathers started ahead of their use, and half the units they pass */
};

/* Elements begin .. end of a range, which lie at index `at` of a state's memory. */
typedef struct cero_zero_held {
    int64_t begin;
    int64_t end;
    int64_t at;
} cero_zero_held;

/* Where a unit's states begin in the memory of this rank. */
typedef struct cero_zero_place {
    bool is_whole; /* compute copies: whole on every rank, else gathered when needed */
    int64_t copy[CERO_ZERO_PARTS];
    int64_t state; /* master and moments */
    int64_t sum;
} cero_zero_place;

struct cero_zero {
    cero_device *device; /* borrowed, like the next two */
    cero_mem *mem;
    cero_comm *comm;             /* borrowed, or own_comm */
    cero_comm *own_comm;         /* owned: of states that take no part in a world; NULL: none */
    const cero_train_spec *spec; /* NULL: parameters only */
    cero_zero_layout layout;
    cero_dtype dtype; /* of compute copies and staged gradients */
    int rank;
    int size;
    int stage;
    int64_t contributions; /* micro-batches of a step, over all ranks */
    int64_t micro_batches; /* of this rank */
    bool has_master;       /* compute dtype is not f32 */
    bool has_sums;         /* more than one contribution: gradients are staged and added */
    bool is_local;         /* micro-batches are added here first and exchanged once */
    bool is_shared;        /* whole copies live once per node */
    cero_exchange_order order;
    int moment_count; /* most moments any parameter has */

    cero_zero_place *place; /* owned, [unit_count] */
    int64_t copy_numel;     /* elements of each state's memory, with padding */
    int64_t whole_numel;    /* the part of copy_numel before shards, the same on all ranks */
    int64_t costly_units;   /* stage 3: whole, since cutting takes more than it saves */
    int64_t room_limit;     /* elements to gather at once that take no more than cutting saves */
    int64_t state_numel;
    int64_t sum_numel;
    size_t landing_bytes; /* of one reduction in flight */
    bool overlaps;        /* reductions go on while the next units are computed, two at a time */
    size_t rooms_limit;   /* stage 3: bytes of rooms that a program may take to go ahead of need */

    cero_comm_buffer *param_buffer; /* owned, category PARAM */
    cero_comm_buffer *sum_buffer;   /* owned, category GRAD; NULL when no peer reads sums */
    cero_comm_buffer *arena;        /* owned, category COMM: rooms; NULL: none */
    void *landing;                  /* category COMM */
    void *param;                    /* view: [copy_numel] of dtype */
    void *grad;                     /* [sum_numel]: f32 sums, or the one contribution itself */
    float *master;                  /* [state_numel], category MASTER; NULL unless has_master */
    float *exp_avg;                 /* [state_numel], category OPTIM; NULL when unused */
    float *exp_avg_sq;              /* as exp_avg */
    double *block_sums;
    void *scratch; /* the optimizer's */
    size_t scratch_bytes;
    size_t arena_bytes;

    void **param_address; /* owned, [param_count]; NULL for parameters that are gathered */
    void **grad_address;  /* owned, [param_count]; NULL for frozen and staged ones */
    cero_exchange *
        *refresh;           /* owned, [unit_count]: new copies of whole units; NULL entries: none */
    cero_exchange **spread; /* owned, [unit_count]: sums of all ranks, stage 0; NULL: none */
    unsigned char *refresh_state; /* owned, [unit_count], of enum cero_zero_refresh_state */
    int64_t refresh_next;         /* first unit whose gather is still to be started */
    int64_t refresh_count;        /* started and not released */
    int64_t spread_next;
    double exchange_seconds;
    cero_zero_cost cost; /* of a step, but for what programs gather */

    cero_optim *optim;
    cero_optim_segment *segments; /* owned, in canonical order */
    int64_t segment_count;
    cero_optim_norms *norms; /* owned; NULL unless the optimizer needs them */
    cero_loss_scaler scaler;
    int64_t micro_batch; /* being run: index in this rank's step */
    int64_t applied;
    int64_t skipped;
    int64_t skipped_in_a_row;
};

enum cero_zero_refresh_state {
    CERO_ZERO_FRESH = 0,
    CERO_ZERO_STARTED = 1,
    CERO_ZERO_FINISHED = 2 /* and not released */
};

/* Decides what is whole, and where everything begins in the memory of this rank. */
void cero_zero_place_all(cero_zero *zero);

/* The optimizer with its segments; their addresses when memory exists. Errors: INVALID, UNSUPPORTED, NOMEM. */
CERO_NODISCARD cero_status cero_zero_create_optimizer(cero_zero *zero);
void cero_zero_set_segment_addresses(cero_zero *zero);

/* This rank's shard of a range, at 0. */
cero_zero_held cero_zero_own(const cero_zero *zero, int64_t unit, cero_zero_part part);

/* What this rank holds of a unit's compute copies, of its master and moments, and of its gradient sums. */
cero_zero_held cero_zero_held_copy(const cero_zero *zero, int64_t unit, cero_zero_part part);
cero_zero_held cero_zero_held_state(const cero_zero *zero, int64_t unit);
cero_zero_held cero_zero_held_sum(const cero_zero *zero, int64_t unit);

/* Elements begin .. begin + n of a range that `held` has; *at is where they lie. n is 0 when none. */
typedef struct cero_zero_cut {
    int64_t begin;
    int64_t n;
    int64_t at;
} cero_zero_cut;
cero_zero_cut cero_zero_intersect(cero_zero_held held, int64_t begin, int64_t n);

/* dtype of the sums. */
cero_dtype cero_zero_grad_dtype(const cero_zero *zero);

/* Address of element `at` of the sums, and of the compute copies. */
void *cero_zero_sum_at(const cero_zero *zero, int64_t at);
void *cero_zero_copy_at(const cero_zero *zero, int64_t at);

/* Borders of a range over the ranks: [size + 1], written. */
void cero_zero_borders(const cero_zero *zero, int64_t unit, cero_zero_part part, int64_t *border);

/* Where rank `rank` keeps its shard of a unit that is not whole: element of its copies' memory. */
int64_t cero_zero_shard_at(const cero_zero *zero, int rank, int64_t unit, cero_zero_part part);

/* Elements that a rank sets aside for the shard border[0] .. border[1] of a range. */
int64_t cero_zero_shard_room(const int64_t *border);

/* Elements of the room of a gathered unit, its trainable range and then its frozen one; where that begins. */
int64_t cero_zero_room_numel(const cero_zero *zero, int64_t unit);
int64_t cero_zero_room_frozen_at(const cero_zero *zero, int64_t unit);

/* True where the order "node" differs from "global" and can be had: nodes of several ranks, shared memory. */
bool cero_zero_has_node_order(const cero_zero *zero);

/* What goes between ranks outside programs: new copies of a unit after an update, its sums at stage 0. */
bool cero_zero_is_refreshed(const cero_zero *zero, int64_t unit);
bool cero_zero_is_spread(const cero_zero *zero, int64_t unit);

/* Errors: INVALID when elements begin .. begin + n are not all of the parameter's. */
CERO_NODISCARD cero_status cero_zero_check_range(const cero_zero *zero, int64_t param,
                                                 int64_t begin, int64_t n);

/* Memory of a moment of all parameters: [state_numel]. */
float *cero_zero_moment_memory(const cero_zero *zero, int moment);

/*
 * Completes values, of elements first .. first + n of a range: every owner gives what it wrote there to all.
 * Collective.
 */
CERO_NODISCARD cero_status cero_zero_share_values(cero_zero *zero, int64_t unit,
                                                  cero_zero_part part, int64_t first, int64_t n,
                                                  float *values);

/* Counts what a step exchanges whatever the program (cost.c). Errors: NOMEM. */
CERO_NODISCARD cero_status cero_zero_count(cero_zero *zero);

/* Plans what goes between ranks outside programs. Collective. */
CERO_NODISCARD cero_status cero_zero_create_exchanges(cero_zero *zero);
void cero_zero_destroy_exchanges(cero_zero *zero);

/*
 * New compute copies on their way to the ranks that hold them whole: start after an update, finish before a
 * unit is read (by the schedule's nodes, or all at once), release when backward begins to reduce: of the many
 * exchanges until the next update a transport keeps only the latest apart. Release finishes what is not, and
 * does nothing the second time.
 */
CERO_NODISCARD cero_status cero_zero_refresh_start(cero_zero *zero);
CERO_NODISCARD cero_status cero_zero_refresh_finish(cero_zero *zero, int64_t unit);
CERO_NODISCARD cero_status cero_zero_refresh_release(cero_zero *zero);

/* Stage 0: every rank gets the sums of all. */
CERO_NODISCARD cero_status cero_zero_spread_start(cero_zero *zero);
CERO_NODISCARD cero_status cero_zero_spread_finish(cero_zero *zero);

#endif
