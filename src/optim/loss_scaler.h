/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The loss scale of fp16 training: DeepSpeed's dynamic scaler (deepspeed/runtime/fp16/loss_scaler.py,
 * 0.19), or a fixed scale.
 *
 * An overflow skips the update. The first overflows only use up hysteresis, later ones halve the scale,
 * and an overflow at the minimum ends the run. After `loss_scale_window` further good updates in a row
 * the scale doubles: growth follows the good updates number window + 1, 2 window + 1, … after the last
 * overflow or the start, because the first good one counts as zero.
 * One deviation: hysteresis 0 counts as 1; DeepSpeed would then never lower the scale.
 */
#ifndef CERO_OPTIM_LOSS_SCALER_H
#define CERO_OPTIM_LOSS_SCALER_H

#include "spec/train.h"

/* Open: the four numbers after the spec are what a checkpoint keeps. */
typedef struct cero_loss_scaler {
    cero_loss_scale_spec spec;
    double scale;
    int64_t iter;            /* calls of update so far */
    int64_t last_overflow;   /* iter of the last overflow; -1 before the first */
    int64_t hysteresis_left; /* overflows until the scale is halved, this one included */
} cero_loss_scaler;

typedef enum cero_loss_scale_outcome {
    CERO_LOSS_SCALE_KEPT = 0,       /* good update, same scale */
    CERO_LOSS_SCALE_GREW = 1,       /* good update, doubled for the next */
    CERO_LOSS_SCALE_HYSTERESIS = 2, /* overflow, one unit of hysteresis used */
    CERO_LOSS_SCALE_SHRANK = 3,     /* overflow, halved (or raised to the minimum) */
    CERO_LOSS_SCALE_STATIC = 4      /* overflow, the scale is fixed */
} cero_loss_scale_outcome;

/* What one call of update did, for the log. */
typedef struct cero_loss_scale_change {
    cero_loss_scale_outcome outcome;
    double scale_before;
    double scale_after;
    int64_t hysteresis_before;
    int64_t hysteresis_after;
} cero_loss_scale_change;

void cero_loss_scaler_init(cero_loss_scaler *scaler, const cero_loss_scale_spec *spec);

/* True when the scale is the scaler's to choose (spec.loss_scale is 0). */
bool cero_loss_scaler_is_dynamic(const cero_loss_scaler *scaler);

/*
 * Takes note of one update; `has_overflow` must have been agreed over all ranks. `change` may be NULL.
 *
 * Errors: NUMERIC when the dynamic scale is already at its minimum; the scaler is as before.
 */
CERO_NODISCARD cero_status cero_loss_scaler_update(cero_loss_scaler *scaler, bool has_overflow,
                                                   cero_loss_scale_change *change);

/*
 * One log line about a change, for example "overflow, update skipped: loss scale stays 65536, hysteresis
 * 3 to 2"; `text` holds at least 128 bytes. Empty when nothing changed. Returns text.
 */
const char *cero_loss_scale_describe(const cero_loss_scale_change *change, char *text, size_t size);

#endif
