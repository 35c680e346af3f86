/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parameters, gradients and optimizer states of a model, partitioned over ranks, and the step that turns one
 * into the next (Rajbhandari et al., "ZeRO", SC 2020).
 *
 * One gradient path for every stage: a micro-batch's gradients of a unit appear in a staging room of the
 * compute dtype, are exchanged, and are added in fp32, in the order of micro-batches, by the owner of the
 * range. When a step has one micro-batch in all, the staged gradients already are the sum. Sums and counts
 * are kept apart; the one division happens in the step.
 *
 * The stage decides what is held whole and what as a shard: 1 masters and moments, 2 also the sums (here they
 * are shards as soon as each micro-batch is exchanged), 3 also the compute copies, which are then gathered
 * unit by unit (schedule.h).
 */
#ifndef CERO_ZERO_ZERO_H
#define CERO_ZERO_ZERO_H

#include "comm/comm.h"
#include "optim/loss_scaler.h"
#include "zero/layout.h"

typedef struct cero_zero cero_zero;

typedef struct cero_zero_params {
    cero_device *device; /* borrowed, like the next four */
    cero_mem *mem;
    cero_comm *comm;         /* of the data-parallel ranks */
    const cero_graph *graph; /* for its parameters only */
    const cero_train_spec
        *spec;             /* stage, optimizer, scaler, clipping, decay; NULL: parameters only */
    int64_t micro_batches; /* of one step, on this rank; 0: parameters only, of this rank alone */
} cero_zero_params;

/*
 * Decides what is held where; allocates nothing yet, so that bytes can be asked for.
 *
 * Not collective.
 * Errors: INVALID, NOMEM, UNSUPPORTED.
 */
CERO_NODISCARD cero_status cero_zero_create(const cero_zero_params *params, cero_zero **out);

/*
 * Allocates the states a step needs, and `exchange_bytes` for the rooms of the programs that run on them.
 * Weights are zeros until set or initialised.
 *
 * Collective: over comm.
 * Errors:     NOMEM, COMM, REMOTE.
 */
CERO_NODISCARD cero_status cero_zero_allocate(cero_zero *zero, size_t exchange_bytes);

/* Collective: over comm, unless an error ended it. */
void cero_zero_destroy(cero_zero **zero);

/*
 * Bytes of each category that cero_zero_allocate allocates with these rooms; also how it computes them.
 * Not collective.
 */
void cero_zero_bytes(const cero_zero *zero, size_t exchange_bytes, size_t bytes[CERO_MEM_COUNT]);

/* Not collective. */
const cero_zero_layout *cero_zero_get_layout(const cero_zero *zero);

/* Exchanges of one kind in a step of this rank. */
typedef struct cero_zero_flow {
    int64_t runs;
    int64_t messages;
    int64_t bytes;
    int64_t bytes_between_nodes;
} cero_zero_flow;

/* What a step exchanges, evaluation and small messages (losses, norms, agreements) left out. */
typedef struct cero_zero_cost {
    cero_zero_flow reductions; /* gradients to their owners */
    cero_zero_flow gathers;    /* of parameters; at stage 0 of sums */
    int64_t uses;        /* stage 3: times that the parameters of a unit are gathered for use */
    int64_t uses_ahead;  /* of these, gathers that start while an earlier unit is used */
    int64_t ahead_limit; /* elements that are gathered ahead of use at most */
} cero_zero_cost;

/* What is exchanged whatever the program: gradients, and new parameters of whole units. Not collective. */
void cero_zero_get_cost(const cero_zero *zero, cero_zero_cost *out);

/* What was chosen, for the start of a run. */
typedef struct cero_zero_summary {
    int stage;
    int rank;
    int size;
    int node_count;
    const char *order; /* "global", "node", "local" */
    bool is_shared;    /* compute copies live once per node */
    bool overlaps;     /* reductions go on while the next units are computed */
    int64_t unit_count;
    int64_t whole_units;          /* whole on every rank; stage 3: small, or costly */
    int64_t costly_units;         /* stage 3: whole, since cutting takes more than it saves */
    double bytes_per_step;        /* that this rank sends in a step, without small messages */
    double gradient_bytes;        /* of these, gradients, in the mean of ranks */
    double gradient_bytes_global; /* what they would be in the order "global" */
} cero_zero_summary;
/* `cost` is what a step exchanges. Not collective. */
void cero_zero_get_summary(const cero_zero *zero, const cero_zero_cost *cost,
                           cero_zero_summary *out);

/* True when every rank holds the compute copies of a unit whole. Not collective. */
bool cero_zero_is_unit_whole(const cero_zero *zero, int64_t unit);

/*
 * Addresses of compute copies and of gradients by parameter index. NULL for frozen parameters, and for what
 * lies in a room of a program. Not collective.
 */
void *const *cero_zero_param_addresses(const cero_zero *zero);
void *const *cero_zero_grad_addresses(const cero_zero *zero);

/*
 * Sets weights from (seed, name, element) and clears moments; no rank makes more than it holds.
 *
 * Collective: over comm.
 * Errors:     COMM, REMOTE.
 */
CERO_NODISCARD cero_status cero_zero_init_weights(cero_zero *zero, uint64_t seed);

/*
 * The one setter of weights, as f32: writes what this rank holds of the range, master and compute copy;
 * moments stay. All ranks set the same values, each at least those of cero_zero_held_param; when all are set
 * they call cero_zero_weights_set before anything reads them.
 *
 * Not collective.
 * Errors: INVALID when the range is outside the parameter.
 */
CERO_NODISCARD cero_status cero_zero_set_param(cero_zero *zero, int64_t param, int64_t begin,
                                               int64_t n, const float *values);
/* Elements begin .. begin + n of a parameter that this rank holds something of. Not collective. */
void cero_zero_held_param(const cero_zero *zero, int64_t param, int64_t *begin, int64_t *n);
/* Collective: over comm. Errors: COMM, REMOTE. */
CERO_NODISCARD cero_status cero_zero_weights_set(cero_zero *zero);

/*
 * The one getter of weights, as f32: the master where there is one.
 *
 * Collective: over comm; all ranks get all values.
 * Errors:     INVALID when the range is outside the parameter; COMM, REMOTE.
 */
CERO_NODISCARD cero_status cero_zero_get_param(cero_zero *zero, int64_t param, int64_t begin,
                                               int64_t n, float *values);

/* Moments of a parameter, and the optimizer's name of one; 0 for frozen parameters. Not collective. */
int cero_zero_moment_count(const cero_zero *zero, int64_t param);
const char *cero_zero_moment_name(const cero_zero *zero, int moment);
/*
 * Collective: over comm; all ranks get all values.
 * Errors:     INVALID as above; COMM, REMOTE.
 */
CERO_NODISCARD cero_status cero_zero_get_moment(cero_zero *zero, int64_t param, int moment,
                                                int64_t begin, int64_t n, float *values);

/* As at the start of a run. Not collective. */
void cero_zero_clear_moments(cero_zero *zero);

/*
 * What this rank alone writes to a checkpoint: elements begin .. begin + n of a parameter's moment; moment -1 is its
 * weights, the master where there is one. Values are a view, or `room` ([n]) filled. They stand still between
 * steps, also while new copies are on their way. Not collective; values may be asked for on any thread.
 */
void cero_zero_own_range(const cero_zero *zero, int64_t param, int moment, int64_t *begin,
                         int64_t *n);
const float *cero_zero_own_values(const cero_zero *zero, int64_t param, int moment, int64_t begin,
                                  int64_t n, float *room);

/*
 * Sets states from a checkpoint. Between begin and end a rank gives, by load_values, elements of what load_range
 * says; end brings them to the other ranks that hold them, so that together each is read once (at stage 0 by all).
 * What nobody gives stays as it is. Where values lie as f32 they may be written to load_memory directly, for a
 * whole range, and are given from there.
 */
/* Collective: over comm. Errors: COMM, REMOTE. */
CERO_NODISCARD cero_status cero_zero_load_begin(cero_zero *zero);
/* Not collective, like the next two. */
void cero_zero_load_range(const cero_zero *zero, int64_t param, int moment, int64_t *begin,
                          int64_t *n);
/* Of element `begin` and on; NULL: they are kept in another dtype. */
float *cero_zero_load_memory(const cero_zero *zero, int64_t param, int moment, int64_t begin);
void cero_zero_load_values(cero_zero *zero, int64_t param, int moment, int64_t begin, int64_t n,
                           const float *values);
/* `room` ([numel]) is for values on their way. Collective: over comm. Errors: COMM, REMOTE. */
CERO_NODISCARD cero_status cero_zero_load_end(cero_zero *zero, float *room, int64_t numel);

/* What a later step depends on besides weights and moments. */
typedef struct cero_zero_counters {
    int64_t applied;
    int64_t skipped;
    int64_t skipped_in_a_row;
    double loss_scale; /* the loss scaler's four numbers */
    int64_t scaler_iter;
    int64_t scaler_last_overflow;
    int64_t scaler_hysteresis_left;
} cero_zero_counters;
/* Not collective; all ranks set the same. */
void cero_zero_get_counters(const cero_zero *zero, cero_zero_counters *out);
void cero_zero_set_counters(cero_zero *zero, const cero_zero_counters *counters);
/* As at the start of a run. Not collective. */
void cero_zero_clear_counters(cero_zero *zero);

/* The rooms' memory; NULL without rooms. Not collective. */
void *cero_zero_arena(const cero_zero *zero);

/* Which micro-batch (0, 1, … of this rank in the step) the next gradients are of. Not collective. */
void cero_zero_begin_micro_batch(cero_zero *zero, int64_t index);

/* Makes new compute copies complete on this rank. Collective: over comm. Errors: COMM, REMOTE. */
CERO_NODISCARD cero_status cero_zero_settle(cero_zero *zero);

/* Seconds spent in exchanges since the start, waiting included. Not collective. */
double cero_zero_exchange_seconds(const cero_zero *zero);

/* What a step did. */
typedef struct cero_zero_step_result {
    double lr;
    double grad_norm; /* of the averaged gradient, before clipping */
    double clip_coef;
    double loss_scale; /* that this step used */
    bool is_applied;
    const char *bad_tensor; /* not applied: first parameter that is not finite */
} cero_zero_step_result;

/*
 * Checks that the sums are finite (agreed), takes the exact global norm, clips, updates.
 *
 * `divisor` is what sums are divided by besides the loss scale: rows that counted / rows of a micro-batch.
 *
 * Collective: over comm.
 * Errors:     NUMERIC (the loss scale is at its minimum, or too many steps were skipped in a row), COMM.
 *             Poisons zero.
 */
CERO_NODISCARD cero_status cero_zero_step(cero_zero *zero, double divisor,
                                          cero_zero_step_result *result);

/* Scale that the next micro-batches' losses are multiplied by. Not collective. */
double cero_zero_loss_scale(const cero_zero *zero);

/* Steps applied and skipped so far. Not collective. */
int64_t cero_zero_applied(const cero_zero *zero);
int64_t cero_zero_skipped(const cero_zero *zero);

#endif
