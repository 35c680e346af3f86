/* SPDX-License-Identifier: Apache-2.0 */
/* Moments and counters, beside weights what checkpoints keep: what there is, and the getters and setters. */
#include "zero/zero_impl.h"

#include <string.h>

float *cero_zero_moment_memory(const cero_zero *zero, int moment)
{
    return moment == 0 ? zero->exp_avg : zero->exp_avg_sq;
}

int cero_zero_moment_count(const cero_zero *zero, int64_t param)
{
    const cero_zero_param *p = &zero->layout.params[param];

    return p->is_frozen || zero->contributions == 0
               ? 0
               : cero_optim_moment_count(&zero->spec->optimizer, p->is_matrix);
}

const char *cero_zero_moment_name(const cero_zero *zero, int moment)
{
    return cero_optim_moment_name(&zero->spec->optimizer, moment);
}

static cero_status check(const cero_zero *zero, int64_t param, int moment, int64_t begin, int64_t n)
{
    CERO_TRY(cero_zero_check_range(zero, param, begin, n));
    CERO_CHECK(moment >= 0 && moment < cero_zero_moment_count(zero, param), CERO_ERR_INVALID,
               "moment %d of parameter %s, which has %d", moment, zero->layout.params[param].name,
               cero_zero_moment_count(zero, param));
    return CERO_OK;
}

void cero_zero_clear_moments(cero_zero *zero)
{
    for (int m = 0; m < zero->moment_count; m++) {
        memset(cero_zero_moment_memory(zero, m), 0, (size_t)zero->state_numel * sizeof(float));
    }
}

cero_status cero_zero_get_moment(cero_zero *zero, int64_t param, int moment, int64_t begin,
                                 int64_t n, float *values)
{
    CERO_TRY(check(zero, param, moment, begin, n));
    const cero_zero_param *p = &zero->layout.params[param];
    int64_t first = cero_zero_param_begin(&zero->layout, p) + begin;
    cero_zero_cut cut = cero_zero_intersect(cero_zero_held_state(zero, p->unit), first, n);

    memcpy(values + (cut.begin - first), cero_zero_moment_memory(zero, moment) + cut.at,
           (size_t)cut.n * sizeof(float));
    return zero->stage == 0
               ? CERO_OK
               : cero_zero_share_values(zero, p->unit, CERO_ZERO_TRAINED, first, n, values);
}

void cero_zero_get_counters(const cero_zero *zero, cero_zero_counters *out)
{
    *out = (cero_zero_counters){
        .applied = zero->applied,
        .skipped = zero->skipped,
        .skipped_in_a_row = zero->skipped_in_a_row,
        .loss_scale = zero->scaler.scale,
        .scaler_iter = zero->scaler.iter,
        .scaler_last_overflow = zero->scaler.last_overflow,
        .scaler_hysteresis_left = zero->scaler.hysteresis_left,
    };
}

void cero_zero_set_counters(cero_zero *zero, const cero_zero_counters *counters)
{
    zero->applied = counters->applied;
    zero->skipped = counters->skipped;
    zero->skipped_in_a_row = counters->skipped_in_a_row;
    zero->scaler.scale = counters->loss_scale;
    zero->scaler.iter = counters->scaler_iter;
    zero->scaler.last_overflow = counters->scaler_last_overflow;
    zero->scaler.hysteresis_left = counters->scaler_hysteresis_left;
}

void cero_zero_clear_counters(cero_zero *zero)
{
    zero->applied = 0;
    zero->skipped = 0;
    zero->skipped_in_a_row = 0;
    cero_loss_scaler_init(&zero->scaler, &zero->spec->loss_scale);
}
