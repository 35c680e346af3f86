/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From staged gradients to new weights: the ordered sum, the exact norm, clipping, the loss scale, the
 * optimizer, and what is said when a step must be skipped.
 */
#include "zero/zero_impl.h"

#include "base/log.h"
#include "optim/clip.h"
#include "optim/lr_schedule.h"

#include <math.h>

cero_status cero_zero_reduce(cero_zero *zero, int64_t index)
{
    int64_t n = zero->layout.trained_padded;

    if (!zero->has_sums) {
        return CERO_OK; // the staging buffer is the sum
    }
    if (index == 0) {
        cero_device_to_f32(zero->device, zero->dtype, n, zero->staging, zero->sum);
    } else {
        cero_device_accumulate(zero->device, zero->dtype, n, zero->staging, zero->sum);
    }
    return CERO_OK;
}

/* Adds the squares of elements begin..begin+n of the trainable space; begin is a multiple of 256. */
static void add_squares(const cero_zero *zero, int64_t begin, int64_t n, cero_exact *sum)
{
    cero_dtype dtype = zero->has_sums ? CERO_DTYPE_F32 : zero->dtype;
    const char *grad = zero->has_sums ? (const char *)zero->sum : (const char *)zero->staging;
    size_t size = cero_dtype_size(dtype);

    for (int64_t at = 0; at < n; at += CERO_ZERO_NORM_SPAN) {
        int64_t span = n - at < CERO_ZERO_NORM_SPAN ? n - at : CERO_ZERO_NORM_SPAN;
        cero_device_square_sums(zero->device, dtype, span, grad + (size_t)(begin + at) * size,
                                zero->block_sums);
        for (int64_t b = 0; b < (span + CERO_SQUARE_BLOCK - 1) / CERO_SQUARE_BLOCK; b++) {
            cero_exact_add(sum, zero->block_sums[b]);
        }
    }
}

/* Norm of the sums as they are, over all ranks; NaN when an element is not finite. */
static cero_status global_norm(cero_zero *zero, double *out)
{
    cero_exact sum;

    cero_exact_clear(&sum);
    for (int64_t u = 0; u < zero->layout.unit_count; u++) {
        const cero_zero_unit *unit = &zero->layout.units[u];
        add_squares(zero, unit->trained, unit->trained_numel, &sum);
    }
    CERO_TRY(cero_comm_all_reduce_exact(zero->comm, &sum, 1));
    *out = sqrt(cero_exact_round(&sum));
    return CERO_OK;
}

/* First parameter with a gradient that is not finite; only looked for when there is one. */
static const char *find_bad_tensor(const cero_zero *zero)
{
    cero_dtype dtype = zero->has_sums ? CERO_DTYPE_F32 : zero->dtype;
    const char *grad = zero->has_sums ? (const char *)zero->sum : (const char *)zero->staging;

    for (int64_t i = 0; i < zero->layout.param_count; i++) {
        const cero_zero_param *p = &zero->layout.params[i];
        for (int64_t at = 0; !p->is_frozen && at < p->numel; at += CERO_ZERO_NORM_SPAN) {
            int64_t n = p->numel - at < CERO_ZERO_NORM_SPAN ? p->numel - at : CERO_ZERO_NORM_SPAN;
            cero_device_square_sums(zero->device, dtype, n,
                                    grad + (size_t)(p->trained + at) * cero_dtype_size(dtype),
                                    zero->block_sums);
            for (int64_t b = 0; b < (n + CERO_SQUARE_BLOCK - 1) / CERO_SQUARE_BLOCK; b++) {
                if (!isfinite(zero->block_sums[b])) {
                    return p->name;
                }
            }
        }
    }
    return NULL;
}

/* Counts a skip, moves the loss scale, and stops a run that only skips. */
static cero_status skip(cero_zero *zero, cero_zero_step_result *result)
{
    char text[256];
    bool is_scaled = zero->dtype == CERO_DTYPE_F16;
    const cero_train_spec *spec = zero->spec;

    zero->skipped++;
    zero->skipped_in_a_row++;
    result->is_applied = false;
    result->bad_tensor = find_bad_tensor(zero);
    const char *where = result->bad_tensor != NULL ? result->bad_tensor : "another rank";
    if (is_scaled) {
        cero_loss_scale_change change;
        CERO_TRY(cero_loss_scaler_update(&zero->scaler, true, &change));
        cero_log(CERO_LOG_WARN, "zero", "step skipped: non-finite gradient in %s; %s", where,
                 cero_loss_scale_describe(&change, text, sizeof(text)));
    } else {
        cero_log(CERO_LOG_WARN, "zero", "step skipped: non-finite gradient in %s", where);
    }
    if (spec->max_consecutive_skips > 0 && zero->skipped_in_a_row >= spec->max_consecutive_skips) {
        return CERO_FAIL(CERO_ERR_NUMERIC,
                         "%lld steps in a row had a gradient that is not finite (first tensor: "
                         "%s); lower the learning rate, check the data, or raise "
                         "cero.max_consecutive_skips",
                         (long long)zero->skipped_in_a_row, where);
    }
    return CERO_OK;
}

static cero_status apply(cero_zero *zero, double grad_scale, double lr)
{
    cero_optim_step step = {
        .number = zero->applied + 1,
        .lr = lr,
        .grad_scale = grad_scale,
        .segments = zero->segments,
        .segment_count = zero->segment_count,
        .norms = zero->norms,
        .scratch = zero->scratch,
    };

    step.has_betas =
        cero_lr_schedule_momentum_at(&zero->spec->scheduler, step.number, &step.beta1, &step.beta2);
    for (int64_t i = 0; zero->norms != NULL && i < zero->layout.param_count; i++) {
        cero_exact_clear(&zero->norms[i].param);
        cero_exact_clear(&zero->norms[i].update);
    }
    CERO_TRY(cero_optim_prepare(zero->optim, &step));
    if (zero->norms != NULL) {
        CERO_TRY(cero_comm_all_reduce_exact(zero->comm, &zero->norms[0].param,
                                            cero_to_int(2 * zero->layout.param_count)));
    }
    CERO_TRY(cero_optim_apply(zero->optim, &step));
    zero->applied++;
    zero->skipped_in_a_row = 0;
    return CERO_OK;
}

_Static_assert(sizeof(cero_optim_norms) == 2 * sizeof(cero_exact), "norms are a list of sums");

cero_status cero_zero_step(cero_zero *zero, double divisor, cero_zero_step_result *result)
{
    double scaled_norm = 0;
    double scale = cero_zero_loss_scale(zero);
    bool is_scaled = zero->dtype == CERO_DTYPE_F16;

    *result = (cero_zero_step_result){
        .lr = cero_lr_schedule_at(&zero->spec->scheduler, zero->applied + 1),
        .loss_scale = scale,
        .is_applied = true,
    };
    CERO_TRY(global_norm(zero, &scaled_norm));
    cero_clip clip = cero_clip_make(scaled_norm, scale * divisor, zero->spec->gradient_clipping);
    result->grad_norm = clip.norm;
    result->clip_coef = clip.coefficient;
    bool must_check = is_scaled || zero->dtype == CERO_DTYPE_F32 || zero->spec->check_grad_overflow;
    if (!isfinite(scaled_norm) && must_check) {
        return skip(zero, result);
    }
    if (is_scaled) {
        cero_loss_scale_change change;
        CERO_TRY(cero_loss_scaler_update(&zero->scaler, false, &change));
    }
    return apply(zero, clip.grad_scale, result->lr);
}
