/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The optimizers' inner loops in plain C: the formulas of docs/optimizers.md as they are written
 * there, one element at a time. The oracle of the other instruction sets.
 */
#include "kernels/isa.h"

#include <math.h>
#include <string.h>

static float float_of_bits(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof(x));
    return x;
}

static uint32_t bits_of_float(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof(bits));
    return bits;
}

static float f16_to_f32(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000u) << 16;
    uint32_t exponent = (h >> 10) & 0x1fu;
    uint32_t fraction = h & 0x3ffu;

    if (exponent == 31) {
        // Signalling NaNs become quiet, as the hardware's conversion does.
        uint32_t quiet = fraction != 0 ? 0x400000u : 0;
        return float_of_bits(sign | 0x7f800000u | quiet | (fraction << 13));
    }
    if (exponent == 0) {
        float x = (float)fraction * 0x1p-24f;
        return sign != 0 ? -x : x;
    }
    return float_of_bits(sign | ((exponent + 112) << 23) | (fraction << 13));
}

static uint16_t f32_to_f16(float x)
{
    uint32_t bits = bits_of_float(x);
    uint16_t sign = (uint16_t)((bits >> 16) & 0x8000u);
    uint32_t magnitude = bits & 0x7fffffffu;

    if (magnitude > 0x7f800000u) {
        return (uint16_t)(sign | 0x7e00u | ((magnitude >> 13) & 0x3ffu));
    }
    if (magnitude >= 0x477ff000u) { // 65520 and above round to infinity
        return (uint16_t)(sign | 0x7c00u);
    }
    if (magnitude < 0x38800000u) { // below 2^-14: the addition rounds to a multiple of 2^-24
        float rounded = float_of_bits(magnitude) + 0.5f;
        return (uint16_t)(sign | (bits_of_float(rounded) - 0x3f000000u));
    }
    uint32_t odd = (magnitude >> 13) & 1u;
    return (uint16_t)(sign | ((magnitude - (112u << 23) + 0xfffu + odd) >> 13));
}

static uint16_t f32_to_bf16(float x)
{
    uint32_t bits = bits_of_float(x);

    if ((bits & 0x7fffffffu) > 0x7f800000u) {
        return (uint16_t)((bits >> 16) | 0x40u);
    }
    return (uint16_t)((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

static float load(cero_dtype dtype, const void *x, int64_t i)
{
    if (dtype == CERO_DTYPE_BF16) {
        return float_of_bits((uint32_t)((const uint16_t *)x)[i] << 16);
    }
    if (dtype == CERO_DTYPE_F16) {
        return f16_to_f32(((const uint16_t *)x)[i]);
    }
    return ((const float *)x)[i];
}

static void store(cero_dtype dtype, void *y, int64_t i, float value)
{
    if (dtype == CERO_DTYPE_BF16) {
        ((uint16_t *)y)[i] = f32_to_bf16(value);
    } else if (dtype == CERO_DTYPE_F16) {
        ((uint16_t *)y)[i] = f32_to_f16(value);
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
