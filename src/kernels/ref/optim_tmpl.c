/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The optimizers' inner loops in plain C, for one dtype of the gradient: the formulas of
 * docs/optimizers.md as they are written there, one element at a time.
 */

static void FN(adamw)(int64_t n, const cero_adamw_args *args, const void *grad, float *master,
                      float *exp_avg, float *exp_avg_sq, cero_dtype copy_dtype, void *copy)
{
    const ELEMENT *from = grad;

    for (int64_t i = 0; i < n; i++) {
        float g = args->grad_scale * LOAD(from + i);
        float p = master[i];

        if (args->is_decoupled) {
            p -= args->lr * args->weight_decay * p;
        } else {
            g += args->weight_decay * p;
        }
        float m = args->beta1 * exp_avg[i] + (1.0f - args->beta1) * g;
        float v = args->beta2 * exp_avg_sq[i] + (1.0f - args->beta2) * g * g;
        float denominator = sqrtf(v) * args->inv_sqrt_bias2 + args->eps;
        p -= args->step_size * (m / denominator);
        exp_avg[i] = m;
        exp_avg_sq[i] = v;
        master[i] = p;
        if (copy != NULL) {
            store_any(copy_dtype, copy, i, p);
        }
    }
}

static void FN(sgd)(int64_t n, const cero_sgd_args *args, const void *grad, float *master,
                    float *momentum)
{
    const ELEMENT *from = grad;

    for (int64_t i = 0; i < n; i++) {
        float g = args->grad_scale * LOAD(from + i) + args->weight_decay * master[i];

        if (args->momentum != 0.0f) {
            float b =
                args->is_first ? g : args->momentum * momentum[i] + (1.0f - args->dampening) * g;
            momentum[i] = b;
            g = args->is_nesterov ? g + args->momentum * b : b;
        }
        master[i] -= args->lr * g;
    }
}

static void FN(adagrad)(int64_t n, const cero_adagrad_args *args, const void *grad, float *master,
                        float *sum)
{
    const ELEMENT *from = grad;

    for (int64_t i = 0; i < n; i++) {
        float g = args->grad_scale * LOAD(from + i);
        float decayed = g + args->weight_decay * master[i];
        float v = sum[i] + decayed * decayed;

        // DeepSpeed's CPU Adagrad: decay enters the sum, the numerator is the raw gradient.
        master[i] -= args->lr * (g / (sqrtf(v) + args->eps));
        sum[i] = v;
    }
}

static void FN(lion)(int64_t n, const cero_lion_args *args, const void *grad, float *master,
                     float *exp_avg)
{
    const ELEMENT *from = grad;
    float keep = 1.0f - args->lr * args->weight_decay;

    for (int64_t i = 0; i < n; i++) {
        float g = args->grad_scale * LOAD(from + i);
        float c = args->beta1 * exp_avg[i] + (1.0f - args->beta1) * g;
        float step = c > 0.0f ? -args->lr : args->lr; // c = 0 steps up, as DeepSpeed's does

        master[i] = keep * master[i] + (c == c ? step : c);
        exp_avg[i] = args->beta2 * exp_avg[i] + (1.0f - args->beta2) * g;
    }
}

static void FN(lamb_direction)(int64_t n, const cero_lamb_args *args, const void *grad,
                               const float *master, float *exp_avg, float *exp_avg_sq,
                               float *update)
{
    const ELEMENT *from = grad;

    for (int64_t i = 0; i < n; i++) {
        float g = args->grad_scale * LOAD(from + i);
        float m = args->beta1 * exp_avg[i] + (1.0f - args->beta1) * g;
        float v = args->beta2 * exp_avg_sq[i] + (1.0f - args->beta2) * g * g;
        float denominator = args->eps_inside_sqrt ? sqrtf(v + args->eps) : sqrtf(v) + args->eps;

        update[i] = m / denominator + args->weight_decay * master[i];
        exp_avg[i] = m;
        exp_avg_sq[i] = v;
    }
}

#include "kernels/optim_tmpl.c"
