/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lion (Chen et al., "Symbolic discovery of optimization algorithms", 2023) as DeepSpeed has it: the sign
 * of 0 counts as negative, so such an element moves up by lr.
 */
#include "optim/optimizer_impl.h"

static int moment_count(const cero_optim_spec *spec, bool is_matrix)
{
    CERO_UNUSED(spec);
    CERO_UNUSED(is_matrix);
    return 1;
}

static void run_range(const cero_optim_range *range, void *context)
{
    const cero_lion_args *args = context;
    const cero_optim_segment *s = range->segment;

    cero_device_kernels(range->optim->device)
        ->lion[s->grad_dtype](range->n, args, cero_optim_range_grad(range),
                              s->master + range->begin, s->exp_avg + range->begin);
    cero_optim_range_copy(range);
}

static void apply_segment(cero_optim *optim, const cero_optim_step *step,
                          const cero_optim_segment *segment)
{
    cero_lion_args args = {
        .grad_scale = (float)step->grad_scale,
        .lr = (float)step->lr,
        .beta1 = cero_optim_beta1(optim, step),
        .beta2 = cero_optim_beta2(optim, step),
        .weight_decay = (float)cero_optim_decay(optim, segment),
    };

    cero_optim_for_ranges(optim, segment, run_range, &args);
}

const cero_optim_ops cero_optim_lion_ops = {
    .moment_name = {"exp_avg", NULL},
    .moment_count = moment_count,
    .apply_segment = apply_segment,
};
