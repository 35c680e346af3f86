/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From gradient sums to new weights: the exact norm, clipping, the loss scale, the optimizer, and what is said
 * when a step must be skipped.
 */
#include "zero/zero_impl.h"

#include "base/log.h"
#include "optim/clip.h"
#include "optim/lr_schedule.h"

#include <math.h>

/* Adds the squares of n elements that begin at `at` of the sums; they begin a block of 256 of their range. */
static void add_squares(const cero_zero *zero, int64_t at, int64_t n, cero_exact *sum)
{
    for (int64_t done = 0; done < n; done += CERO_ZERO_NORM_SPAN) {
        int64_t span = n - done < CERO_ZERO_NORM_SPAN ? n - done : CERO_ZERO_NORM_SPAN;
        cero_device_square_sums(zero->device, cero_zero_grad_dtype(zero), span,
                                cero_zero_sum_at(zero, at + done), zero->block_sums);
        for (int64_t b = 0; b < (span + CERO_SQUARE_BLOCK - 1) / CERO_SQUARE_BLOCK; b++) {
            cero_exact_add(sum, zero->block_sums[b]);
        }
    }
}

/* Norm of the sums as they are, over all ranks, each shard once; NaN when an element is not finite. */
static cero_status global_norm(cero_zero *zero, double *out)
{
    cero_exact sum;

    cero_exact_clear(&sum);
    for (int64_t u = 0; u < zero->layout.unit_count; u++) {
        cero_zero_held own = cero_zero_own(zero, u, CERO_ZERO_TRAINED);
        cero_zero_cut cut =
            cero_zero_intersect(cero_zero_held_sum(zero, u), own.begin, own.end - own.begin);
        add_squares(zero, cut.at, cut.n, &sum);
    }
    CERO_TRY(cero_comm_all_reduce_exact(zero->comm, &sum, 1));
    *out = sqrt(cero_exact_round(&sum));
    return CERO_OK;
}

static bool has_bad_element(const cero_zero *zero, int64_t at, int64_t n)
{
    cero_exact sum;

    cero_exact_clear(&sum);
    add_squares(zero, at, n, &sum);
    return sum.not_finite > 0;
}

/* First parameter with a gradient that is not finite, on any rank; only looked for when there is one. */
static cero_status find_bad_tensor(cero_zero *zero, const char **name)
{
    int64_t first = zero->layout.param_count;

    for (int64_t i = 0; i < zero->layout.param_count && first == zero->layout.param_count; i++) {
        const cero_zero_param *p = &zero->layout.params[i];
        if (p->is_frozen) {
            continue;
        }
        cero_zero_held own = cero_zero_own(zero, p->unit, CERO_ZERO_TRAINED);
        cero_zero_cut part =
            cero_zero_intersect(own, cero_zero_param_begin(&zero->layout, p), p->numel);
        cero_zero_cut cut =
            cero_zero_intersect(cero_zero_held_sum(zero, p->unit), part.begin, part.n);
        first = has_bad_element(zero, cut.at, cut.n) ? i : first;
    }
    CERO_TRY(cero_comm_all_reduce_i64(zero->comm, CERO_COMM_MIN, &first, 1));
    *name = first < zero->layout.param_count ? zero->layout.params[first].name : "no tensor";
    return CERO_OK;
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
    CERO_TRY(find_bad_tensor(zero, &result->bad_tensor));
    const char *where = result->bad_tensor;
    if (is_scaled) {
        cero_loss_scale_change change;
        CERO_TRY(cero_loss_scaler_update(&zero->scaler, true, &change));
        cero_log_warn_once("zero", "step skipped: non-finite gradient in %s; %s", where,
                           cero_loss_scale_describe(&change, text, sizeof(text)));
    } else {
        cero_log_warn_once("zero", "step skipped: non-finite gradient in %s", where);
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

/* Muon needs a matrix whole: every owner gives the elements it wrote to all. */
static cero_status gather_matrix(void *context, int64_t param, float *matrix)
{
    cero_zero *zero = context;
    const cero_zero_param *p = &zero->layout.params[param];
    int64_t first = cero_zero_param_begin(&zero->layout, p);

    return cero_zero_share_values(zero, p->unit, CERO_ZERO_TRAINED, first, p->numel, matrix);
}

static cero_status apply(cero_zero *zero, double grad_scale, double lr)
{
    bool is_cut = zero->size > 1 && zero->stage > 0;
    cero_optim_step step = {
        .number = zero->applied + 1,
        .lr = lr,
        .grad_scale = grad_scale,
        .segments = zero->segments,
        .segment_count = zero->segment_count,
        .norms = zero->norms,
        .gather = is_cut ? gather_matrix : NULL,
        .gather_context = zero,
        .scratch = zero->scratch,
    };

    step.has_betas =
        cero_lr_schedule_momentum_at(&zero->spec->scheduler, step.number, &step.beta1, &step.beta2);
    for (int64_t i = 0; zero->norms != NULL && i < zero->layout.param_count; i++) {
        cero_exact_clear(&zero->norms[i].param);
        cero_exact_clear(&zero->norms[i].update);
    }
    CERO_TRY(cero_zero_refresh_release(zero));
    CERO_TRY(cero_optim_prepare(zero->optim, &step));
    // At stage 0 every rank has all of it already.
    if (zero->norms != NULL && is_cut) {
        CERO_TRY(cero_comm_all_reduce_exact(zero->comm, &zero->norms[0].param,
                                            cero_to_int(2 * zero->layout.param_count)));
    }
    CERO_TRY(cero_optim_apply(zero->optim, &step));
    zero->applied++;
    zero->skipped_in_a_row = 0;
    return cero_zero_refresh_start(zero);
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
    CERO_TRY(cero_zero_spread_start(zero));
    CERO_TRY(global_norm(zero, &scaled_norm));
    CERO_TRY(cero_zero_spread_finish(zero));
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
