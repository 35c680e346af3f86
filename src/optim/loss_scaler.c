/* SPDX-License-Identifier: Apache-2.0 */
/* DeepSpeed's dynamic loss scaler. */
#include "optim/loss_scaler.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

static const double scale_factor = 2.0;

static int64_t full_hysteresis(const cero_loss_scale_spec *spec)
{
    return spec->hysteresis > 1 ? spec->hysteresis : 1;
}

void cero_loss_scaler_init(cero_loss_scaler *scaler, const cero_loss_scale_spec *spec)
{
    bool is_dynamic = spec->loss_scale == 0.0;

    *scaler = (cero_loss_scaler){
        .spec = *spec,
        .scale = is_dynamic ? ldexp(1.0, spec->initial_scale_power) : spec->loss_scale,
        .last_overflow = -1,
        .hysteresis_left = full_hysteresis(spec),
    };
}

bool cero_loss_scaler_is_dynamic(const cero_loss_scaler *scaler)
{
    return scaler->spec.loss_scale == 0.0;
}

static cero_status take_overflow(cero_loss_scaler *scaler, cero_loss_scale_outcome *outcome)
{
    const cero_loss_scale_spec *spec = &scaler->spec;

    if (scaler->hysteresis_left > 1) {
        scaler->hysteresis_left -= 1;
        *outcome = CERO_LOSS_SCALE_HYSTERESIS;
    } else {
        CERO_CHECK(scaler->scale != spec->min_loss_scale, CERO_ERR_NUMERIC,
                   "overflow in update attempt %" PRId64
                   ": loss scale already at minimum, %g (fp16.min_loss_scale), and cannot be "
                   "lowered; the gradients are not finite at any scale: look for a learning rate "
                   "that is too high or for bad data, or train in bf16",
                   scaler->iter + 1, scaler->scale);
        scaler->scale = fmax(scaler->scale / scale_factor, spec->min_loss_scale);
        *outcome = CERO_LOSS_SCALE_SHRANK;
    }
    scaler->last_overflow = scaler->iter;
    return CERO_OK;
}

static cero_loss_scale_outcome take_good(cero_loss_scaler *scaler)
{
    const cero_loss_scale_spec *spec = &scaler->spec;
    int64_t good = scaler->iter - scaler->last_overflow - 1;

    if (spec->consecutive_hysteresis) {
        scaler->hysteresis_left = full_hysteresis(spec);
    }
    if (good <= 0 || spec->loss_scale_window <= 0 || good % spec->loss_scale_window != 0) {
        return CERO_LOSS_SCALE_KEPT;
    }
    scaler->hysteresis_left = full_hysteresis(spec);
    scaler->scale *= scale_factor;
    return CERO_LOSS_SCALE_GREW;
}

cero_status cero_loss_scaler_update(cero_loss_scaler *scaler, bool has_overflow,
                                    cero_loss_scale_change *change)
{
    cero_loss_scale_change now = {
        .scale_before = scaler->scale,
        .hysteresis_before = scaler->hysteresis_left,
    };

    if (!cero_loss_scaler_is_dynamic(scaler)) {
        now.outcome = has_overflow ? CERO_LOSS_SCALE_STATIC : CERO_LOSS_SCALE_KEPT;
    } else if (has_overflow) {
        CERO_TRY(take_overflow(scaler, &now.outcome));
    } else {
        now.outcome = take_good(scaler);
    }
    scaler->iter += 1;
    now.scale_after = scaler->scale;
    now.hysteresis_after = scaler->hysteresis_left;
    if (change != NULL) {
        *change = now;
    }
    return CERO_OK;
}

const char *cero_loss_scale_describe(const cero_loss_scale_change *change, char *text, size_t size)
{
    double before = change->scale_before;
    double after = change->scale_after;

    switch (change->outcome) {
    case CERO_LOSS_SCALE_GREW:
        (void)snprintf(text, size, "loss scale %.17g to %.17g", before, after);
        break;
    case CERO_LOSS_SCALE_HYSTERESIS:
        (void)snprintf(text, size,
                       "overflow, update skipped: loss scale stays %.17g, hysteresis %" PRId64
                       " to %" PRId64,
                       before, change->hysteresis_before, change->hysteresis_after);
        break;
    case CERO_LOSS_SCALE_SHRANK:
        (void)snprintf(text, size, "overflow, update skipped: loss scale %.17g to %.17g", before,
                       after);
        break;
    case CERO_LOSS_SCALE_STATIC:
        (void)snprintf(text, size, "overflow, update skipped: loss scale is fixed at %.17g",
                       before);
        break;
    case CERO_LOSS_SCALE_KEPT:
        text[0] = '\0';
        break;
    }
    return text;
}
