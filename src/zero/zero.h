/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parameters, gradients and optimizer states of a model, and the step that turns one into the next (Rajbhandari
 * et al., "ZeRO", SC 2020).
 *
 * One gradient path: a micro-batch's gradients appear in a staging buffer of the compute dtype and are added
 * in fp32, in the order of micro-batches, by the owner of the range. When a step has one micro-batch the
 * staging buffer already is the sum. Sums and counts are kept apart; the one division happens in the step.
 * A world of one owns every range.
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
    cero_comm *comm;
    const cero_graph *graph;     /* for its parameters only */
    const cero_train_spec *spec; /* optimizer, scaler, clipping, decay; NULL: parameters only */
    int64_t contributions;       /* micro-batches of one step over all ranks; 0: parameters only */
} cero_zero_params;

/*
 * Allocates the states a step needs; weights are zeros until set or initialised. On a meta device nothing is
 * allocated and only the layout may be asked for.
 *
 * Collective: over comm.
 * Errors:     INVALID, NOMEM, UNSUPPORTED.
 */
CERO_NODISCARD cero_status cero_zero_create(const cero_zero_params *params, cero_zero **out);
/* Not collective. */
void cero_zero_destroy(cero_zero **zero);

/*
 * Bytes of each category that cero_zero_create allocates; also how it computes them.
 * Not collective.
 */
void cero_zero_bytes(const cero_zero *zero, size_t bytes[CERO_MEM_COUNT]);

/* Not collective. */
const cero_zero_layout *cero_zero_get_layout(const cero_zero *zero);

/* Addresses of compute copies and staged gradients by parameter index, NULL for frozen. Not collective. */
void *const *cero_zero_param_addresses(const cero_zero *zero);
void *const *cero_zero_grad_addresses(const cero_zero *zero);

/* Sets weights from (seed, name, element) and clears moments. Collective: over comm. */
void cero_zero_init_weights(cero_zero *zero, uint64_t seed);

/*
 * The one setter and getter of weights, as f32. Setting writes master and compute copy; moments stay.
 *
 * Collective: over comm.
 * Errors:     INVALID when the range is outside the parameter.
 */
CERO_NODISCARD cero_status cero_zero_set_param(cero_zero *zero, int64_t param, int64_t begin,
                                               int64_t n, const float *values);
CERO_NODISCARD cero_status cero_zero_get_param(const cero_zero *zero, int64_t param, int64_t begin,
                                               int64_t n, float *values);

/*
 * Adds the staged gradients of micro-batch `index` (0, 1, … in this step) to the sums.
 *
 * Collective: over comm, same order on all ranks.
 * Errors:     COMM, REMOTE.
 * Cost:       (N-1)/N of the staged bytes per rank; nothing in a world of one.
 */
CERO_NODISCARD cero_status cero_zero_reduce(cero_zero *zero, int64_t index);

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
