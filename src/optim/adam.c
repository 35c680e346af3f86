/* SPDX-License-Identifier: Apache-2.0 */
/*
 * AdamW (Loshchilov and Hutter, "Decoupled weight decay regularization", 2019) and Adam with L2 decay,
 * in the order of DeepSpeed's CPU Adam: decay first, bias corrections folded into two scalars.
 */
#include "optim/optimizer_impl.h"

#include <math.h>

static int moment_count(const cero_optim_spec *spec, bool is_matrix)
{
    CERO_UNUSED(spec);
    CERO_UNUSED(is_matrix);
    return 2;
}

void cero_optim_adam_segment(cero_optim *optim, const cero_optim_step *step,
                             const cero_optim_segment *segment, double lr, bool is_decoupled)
{
    float beta1 = cero_optim_beta1(optim, step);
    float beta2 = cero_optim_beta2(optim, step);
    bool is_corrected = optim->spec.bias_correction;
    double bias1 = is_corrected ? cero_optim_bias(beta1, step->number) : 1.0;
    double bias2 = is_corrected ? cero_optim_bias(beta2, step->number) : 1.0;
    cero_adamw_args args = {
        .grad_scale = (float)step->grad_scale,
        .lr = (float)lr,
        .beta1 = beta1,
        .beta2 = beta2,
        .eps = (float)optim->spec.eps,
        .weight_decay = (float)cero_optim_decay(optim, segment),
        .step_size = (float)(lr / bias1),
        .inv_sqrt_bias2 = (float)(1.0 / sqrt(bias2)),
        .is_decoupled = is_decoupled,
    };

    cero_device_adamw(optim->device, segment->numel, &args, segment->grad_dtype, segment->grad,
                      segment->master, segment->exp_avg, segment->exp_avg_sq, segment->copy_dtype,
                      segment->copy);
}

static void apply_segment(cero_optim *optim, const cero_optim_step *step,
                          const cero_optim_segment *segment)
{
    cero_optim_adam_segment(optim, step, segment, step->lr, optim->spec.type == CERO_OPTIM_ADAMW);
}

const cero_optim_ops cero_optim_adam_ops = {
    .moment_name = {"exp_avg", "exp_avg_sq"},
    .moment_count = moment_count,
    .apply_segment = apply_segment,
};
