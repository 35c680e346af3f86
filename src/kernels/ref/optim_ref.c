/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The optimizers' inner loops in plain C: the formulas of docs/optimizers.md as they are written
 * there, one element at a time. The oracle of the other instruction sets.
 */
#include "kernels/isa.h"
#include "kernels/ref/load_ref.h"

#include <math.h>

static float load(cero_dtype dtype, const void *x, int64_t i)
{
    if (dtype == CERO_DTYPE_BF16) {
        return load_bf16((const uint16_t *)x + i);
    }
    if (dtype == CERO_DTYPE_F16) {
        return load_f16((const uint16_t *)x + i);
    }
    return ((const float *)x)[i];
}

static void store(cero_dtype dtype, void *y, int64_t i, float value)
{
    if (dtype == CERO_DTYPE_BF16) {
        store_bf16((uint16_t *)y + i, value);
    } else if (dtype == CERO_DTYPE_F16) {
        store_f16((uint16_t *)y + i, value);
    } else {
        ((float *)y)[i] = value;
    }
}

static void adamw_range(int64_t n, const cero_adamw_args *args, cero_dtype grad_dtype,
                        const void *grad, float *master, float *exp_avg, float *exp_avg_sq,
                        cero_dtype copy_dtype, void *copy)
{
    for (int64_t i = 0; i < n; i++) {
        float g = args->grad_scale * load(grad_dtype, grad, i);
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
            store(copy_dtype, copy, i, p);
        }
    }
}

static void sgd_range(int64_t n, const cero_sgd_args *args, cero_dtype grad_dtype, const void *grad,
                      float *master, float *momentum)
{
    for (int64_t i = 0; i < n; i++) {
        float g = args->grad_scale * load(grad_dtype, grad, i) + args->weight_decay * master[i];

        if (args->momentum != 0.0f) {
            float b =
                args->is_first ? g : args->momentum * momentum[i] + (1.0f - args->dampening) * g;
            momentum[i] = b;
            g = args->is_nesterov ? g + args->momentum * b : b;
        }
        master[i] -= args->lr * g;
    }
}

static void adagrad_range(int64_t n, const cero_adagrad_args *args, cero_dtype grad_dtype,
                          const void *grad, float *master, float *sum)
{
    for (int64_t i = 0; i < n; i++) {
        float g = args->grad_scale * load(grad_dtype, grad, i);
        float decayed = g + args->weight_decay * master[i];
        float v = sum[i] + decayed * decayed;

        // DeepSpeed's CPU Adagrad: decay enters the sum, the numerator is the raw gradient.
        master[i] -= args->lr * (g / (sqrtf(v) + args->eps));
        sum[i] = v;
    }
}

static void lion_range(int64_t n, const cero_lion_args *args, cero_dtype grad_dtype,
                       const void *grad, float *master, float *exp_avg)
{
    float keep = 1.0f - args->lr * args->weight_decay;

    for (int64_t i = 0; i < n; i++) {
        float g = args->grad_scale * load(grad_dtype, grad, i);
        float c = args->beta1 * exp_avg[i] + (1.0f - args->beta1) * g;
        float step = c > 0.0f ? -args->lr : args->lr; // c = 0 steps up, as DeepSpeed's does

        master[i] = keep * master[i] + (c == c ? step : c);
        exp_avg[i] = args->beta2 * exp_avg[i] + (1.0f - args->beta2) * g;
    }
}

static void lamb_range(int64_t n, const cero_lamb_args *args, cero_dtype grad_dtype,
                       const void *grad, const float *master, float *exp_avg, float *exp_avg_sq,
                       float *update)
{
    for (int64_t i = 0; i < n; i++) {
        float g = args->grad_scale * load(grad_dtype, grad, i);
        float m = args->beta1 * exp_avg[i] + (1.0f - args->beta1) * g;
        float v = args->beta2 * exp_avg_sq[i] + (1.0f - args->beta2) * g * g;
        float denominator = args->eps_inside_sqrt ? sqrtf(v + args->eps) : sqrtf(v) + args->eps;

        update[i] = m / denominator + args->weight_decay * master[i];
        exp_avg[i] = m;
        exp_avg_sq[i] = v;
    }
}

static void axpy_range(int64_t n, float s, const float *x, float *y)
{
    for (int64_t i = 0; i < n; i++) {
        y[i] += s * x[i];
    }
}

#include "kernels/optim_tmpl.c"

void cero_kernels_optim_init_ref(cero_kernels *k)
{
    fill_optim_pointers(k);
}
