/* SPDX-License-Identifier: Apache-2.0 */
/* The optimizer's view of the states: the parts of parameters that this rank updates, as segments of flat memory. */
#include "zero/zero_impl.h"

static int count_moments(const cero_zero *zero)
{
    int most = 0;

    for (int64_t i = 0; i < zero->layout.param_count; i++) {
        const cero_zero_param *p = &zero->layout.params[i];
        int n = p->is_frozen ? 0 : cero_optim_moment_count(&zero->spec->optimizer, p->is_matrix);
        most = n > most ? n : most;
    }
    return most;
}

/* Appends the part of parameter i that this rank updates, or lengthens the segment before it. */
static void add_segment(cero_zero *zero, int64_t i)
{
    const cero_optim_spec *spec = &zero->spec->optimizer;
    bool needs_matrices = cero_optim_needs_matrices(spec);
    bool is_elementwise = !cero_optim_needs_norms(spec) && !needs_matrices;
    const cero_zero_param *p = &zero->layout.params[i];
    int64_t begin = cero_zero_param_begin(&zero->layout, p);
    cero_zero_cut cut = cero_zero_intersect(cero_zero_held_state(zero, p->unit), begin, p->numel);
    cero_optim_segment *before =
        zero->segment_count > 0 ? &zero->segments[zero->segment_count - 1] : NULL;

    if (is_elementwise && before != NULL && cut.n > 0 &&
        zero->layout.params[before->param].unit == p->unit && before->has_decay == p->has_decay &&
        before->flat_offset + before->numel == cut.begin) {
        before->numel += cut.n;
        before->shape = cero_shape_1d(before->numel); // elements are all that counts
        before->offset = 0;
    } else if (cut.n > 0 || (needs_matrices && p->is_matrix)) {
        // Muon completes a matrix on every rank, also where none of it is owned.
        zero->segments[zero->segment_count++] = (cero_optim_segment){
            .numel = cut.n,
            .offset = cut.n > 0 ? cut.begin - begin : 0,
            .flat_offset = cut.begin,
            .param = i,
            .shape = p->shape,
            .has_decay = p->has_decay,
            .is_matrix = p->is_matrix,
            .grad_dtype = cero_zero_grad_dtype(zero),
            .copy_dtype = zero->dtype,
        };
    }
}

/*
 * One segment for each parameter, or for each run of neighbours that are treated alike when elements are
 * updated alone. Addresses follow when memory exists.
 */
static void make_segments(cero_zero *zero)
{
    for (int64_t i = 0; i < zero->layout.param_count; i++) {
        if (!zero->layout.params[i].is_frozen) {
            add_segment(zero, i);
        }
    }
}

void cero_zero_set_segment_addresses(cero_zero *zero)
{
    for (int64_t i = 0; i < zero->segment_count; i++) {
        cero_optim_segment *s = &zero->segments[i];
        int64_t unit = zero->layout.params[s->param].unit;
        int64_t n = s->numel > 0 ? s->numel : 0;
        cero_zero_cut state =
            cero_zero_intersect(cero_zero_held_state(zero, unit), s->flat_offset, n);
        cero_zero_cut sum = cero_zero_intersect(cero_zero_held_sum(zero, unit), s->flat_offset, n);
        cero_zero_cut copy = cero_zero_intersect(cero_zero_held_copy(zero, unit, CERO_ZERO_TRAINED),
                                                 s->flat_offset, n);
        float *weights = cero_zero_copy_at(zero, copy.at);
        s->grad = cero_zero_sum_at(zero, sum.at);
        s->master = zero->has_master ? zero->master + state.at : weights;
        s->exp_avg = zero->exp_avg != NULL ? zero->exp_avg + state.at : NULL;
        s->exp_avg_sq = zero->exp_avg_sq != NULL ? zero->exp_avg_sq + state.at : NULL;
        s->copy = zero->has_master ? cero_zero_copy_at(zero, copy.at) : NULL;
    }
}

cero_status cero_zero_create_optimizer(cero_zero *zero)
{
    size_t count = (size_t)zero->layout.param_count;

    CERO_TRY(cero_optim_create(zero->device, &zero->spec->optimizer, &zero->optim));
    zero->moment_count = count_moments(zero);
    zero->segments = cero_new(count, sizeof(cero_optim_segment));
    if (zero->segments == NULL) {
        return CERO_FAIL(CERO_ERR_NOMEM, "no memory for %zu segments", count);
    }
    make_segments(zero);
    if (cero_optim_needs_norms(&zero->spec->optimizer)) {
        zero->norms = cero_new(count, sizeof(cero_optim_norms));
        if (zero->norms == NULL) {
            return CERO_FAIL(CERO_ERR_NOMEM, "no memory for the norms of %zu parameters", count);
        }
    }
    CERO_TRY(
        cero_optim_plan(zero->optim, zero->segments, zero->segment_count, &zero->scratch_bytes));
    cero_loss_scaler_init(&zero->scaler, &zero->spec->loss_scale);
    return CERO_OK;
}
