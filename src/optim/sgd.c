/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stochastic gradient descent with momentum as torch.optim.SGD has it: L2 decay, the buffer starts as
 * the first gradient, dampening acts from the second update on.
 */
#include "optim/optimizer_impl.h"

static int moment_count(const cero_optim_spec *spec, bool is_matrix)
{
    CERO_UNUSED(is_matrix);
    return spec->momentum != 0.0 ? 1 : 0;
}

static void run_range(const cero_optim_range *range, void *context)
{
    const cero_sgd_args *args = context;
    const cero_optim_segment *s = range->segment;
    float *momentum = s->exp_avg != NULL ? s->exp_avg + range->begin : NULL;

    cero_device_kernels(range->optim->device)
        ->sgd[s->grad_dtype](range->n, args, cero_optim_range_grad(range), s->master + range->begin,
                             momentum);
    cero_optim_range_copy(range);
}

static void apply_segment(cero_optim *optim, const cero_optim_step *step,
                          const cero_optim_segment *segment)
{
    cero_sgd_args args = {
        .grad_scale = (float)step->grad_scale,
        .lr = (float)step->lr,
        .momentum = (float)optim->spec.momentum,
        .dampening = (float)optim->spec.dampening,
        .weight_decay = (float)cero_optim_decay(optim, segment),
        .is_nesterov = optim->spec.nesterov,
        .is_first = step->number == 1,
    };

    cero_optim_for_ranges(optim, segment, run_range, &args);
}

const cero_optim_ops cero_optim_sgd_ops = {
    .moment_name = {"momentum_buffer", NULL},
    .moment_count = moment_count,
    .apply_segment = apply_segment,
};
