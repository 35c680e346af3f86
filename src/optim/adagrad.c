/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Adagrad (Duchi, Hazan and Singer, 2011) as DeepSpeed's CPU version has it: decay enters the sum of
 * squares, the numerator is the raw gradient. The sum is moment 0.
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
    const cero_adagrad_args *args = context;
    const cero_optim_segment *s = range->segment;

    cero_device_kernels(range->optim->device)
        ->adagrad[s->grad_dtype](range->n, args, cero_optim_range_grad(range),
                                 s->master + range->begin, s->exp_avg + range->begin);
    cero_optim_range_copy(range);
}

static void apply_segment(cero_optim *optim, const cero_optim_step *step,
                          const cero_optim_segment *segment)
{
    cero_adagrad_args args = {
        .grad_scale = (float)step->grad_scale,
        .lr = (float)step->lr,
        .eps = (float)optim->spec.eps,
        .weight_decay = (float)cero_optim_decay(optim, segment),
    };

    cero_optim_for_ranges(optim, segment, run_range, &args);
}

const cero_optim_ops cero_optim_adagrad_ops = {
    .moment_name = {"sum", NULL},
    .moment_count = moment_count,
    .apply_segment = apply_segment,
};
