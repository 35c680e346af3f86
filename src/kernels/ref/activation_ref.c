/* SPDX-License-Identifier: Apache-2.0 */
/* The activations of spec/model.h, forward and backward: the oracle. */
#include "kernels/ref/activation_ref.h"
#include "kernels/isa.h"
#include "kernels/ref/load_ref.h"

/* Hendrycks and Gimpel, 2016: 0.5 x (1 + tanh u) = x sigmoid(2 u), u = c (x + a x^3). */
static float gelu_tanh(float x)
{
    float u = CERO_GELU_C * (x + CERO_GELU_A * x * x * x);
    return fmaxf(x, -CERO_ACTIVATION_LIMIT) * sigmoid(2.0f * u);
}

static float gelu_tanh_slope(float x)
{
    float s = sigmoid(2.0f * CERO_GELU_C * (x + CERO_GELU_A * x * x * x));
    float t = limited(x);

    return s + t * s * (1.0f - s) * 2.0f * CERO_GELU_C * (1.0f + 3.0f * CERO_GELU_A * t * t);
}

/* x P(X < x) for a normal X; erfc keeps the digits of the negative side. */
static float gelu_erf(float x)
{
    return fmaxf(x, -CERO_ACTIVATION_LIMIT) * 0.5f * erfcf(-0.7071067811865476f * x);
}

static float gelu_erf_slope(float x)
{
    float t = limited(x);
    float density = 0.3989422804014327f * expf(-0.5f * t * t);

    return 0.5f * erfcf(-0.7071067811865476f * x) + t * density;
}

static float relu(float x)
{
    return x <= 0.0f ? 0.0f : x;
}

static float relu_slope(float x)
{
    return x <= 0.0f ? 0.0f : x > 0.0f ? 1.0f : x;
}

static float hyperbolic_tangent(float x)
{
    return tanhf(x);
}

static float tanh_slope(float x)
{
    float t = tanhf(x);
    return 1.0f - t * t;
}

#define TEMPLATE "kernels/ref/activation_tmpl.c"
#include "kernels/twins.h"

void cero_kernels_activation_init_ref(cero_kernels *k)
{
    fill_f32_ref(k);
    fill_bf16_ref(k);
    fill_f16_ref(k);
}
