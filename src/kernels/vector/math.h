/* SPDX-License-Identifier: Apache-2.0 */
/*
 * exp, tanh, erfc and the activations on vectors, to about two units in the last place.
 *
 * Included after the vec_<isa>.h of an instruction set. The polynomials are Chebyshev fits to the
 * functions named beside them, rounded to f32. NaN goes through; infinities give the limits.
 * There is no include guard: it is a template that each file compiles once with its own vectors.
 */
#include "kernels/activation.h"

/* e^x = 2^n e^r with n = round(x / ln 2), |r| <= ln 2 / 2; 0 below -104, infinity above 88.7. */
KERNEL_INLINE vec vec_exp(vec x)
{
    x = vec_min(vec_set(89.0f), vec_max(vec_set(-104.0f), x));
    vec n = vec_round(x * vec_set(0x1.715476p+0f));
    vec r = vec_fnma(n, vec_set(0x1.62e43p-1f), x);
    r = vec_fnma(n, vec_set(-0x1.05c61p-29f), r);

    vec p = vec_set(0x1.6d7c4p-10f);
    p = vec_fma(p, r, vec_set(0x1.1276b6p-7f));
    p = vec_fma(p, r, vec_set(0x1.5554a6p-5f));
    p = vec_fma(p, r, vec_set(0x1.5553f6p-3f));
    p = vec_fma(p, r, vec_set(0.5f));
    p = vec_fma(p, r, vec_set(1.0f));
    p = vec_fma(p, r, vec_set(1.0f));
    return vec_scale2(p, n);
}

/* x + x^3 P(x^2) below 0.7, and 1 - 2 / (1 + e^2x) above: each where it loses no digits. */
KERNEL_INLINE vec hyperbolic_tangent(vec x)
{
    vec z = x * x;
    vec p = vec_set(-0x1.6d8c54p-8f);
    p = vec_fma(p, z, vec_set(0x1.517158p-6f));
    p = vec_fma(p, z, vec_set(-0x1.b85d08p-5f));
    p = vec_fma(p, z, vec_set(0x1.110a5ep-3f));
    p = vec_fma(p, z, vec_set(-0x1.55554cp-2f));
    vec small = vec_fma(x * z, p, x);
    vec a = vec_abs(x);
    vec large = vec_set(1.0f) - vec_set(2.0f) / (vec_set(1.0f) + vec_exp(a + a));

    return vec_select(vec_less(a, vec_set(0.7f)), small, vec_copy_sign(large, x));
}

/* The normal distribution P(X < x), given e = e^(-x^2/2): erfc(z) e^(z^2) = t P(t), t = 1/(1 + z/2). */
KERNEL_INLINE vec vec_normal(vec x, vec e)
{
    vec z = vec_min(vec_set(20.0f), vec_abs(x) * vec_set(0.7071067811865476f));
    vec t = vec_set(1.0f) / vec_fma(z, vec_set(0.5f), vec_set(1.0f));
    vec p = vec_set(-0x1.ed8836p-5f);
    p = vec_fma(p, t, vec_set(0x1.293566p-2f));
    p = vec_fma(p, t, vec_set(-0x1.feb15ap-2f));
    p = vec_fma(p, t, vec_set(0x1.29e7f8p-2f));
    p = vec_fma(p, t, vec_set(-0x1.204746p-5f));
    p = vec_fma(p, t, vec_set(0x1.a634bp-3f));
    p = vec_fma(p, t, vec_set(0x1.f02dccp-3f));
    p = vec_fma(p, t, vec_set(0x1.2142dep-2f));
    p = vec_fma(p, t, vec_set(0x1.20d9ccp-2f));
    vec tail = vec_set(0.5f) * e * t * p;

    return vec_select(vec_less(x, vec_set(0.0f)), tail, vec_set(1.0f) - tail);
}

KERNEL_INLINE vec vec_limited(vec x)
{
    return vec_min(vec_set(CERO_ACTIVATION_LIMIT), vec_max(vec_set(-CERO_ACTIVATION_LIMIT), x));
}

/* sigmoid(x), given -x */
KERNEL_INLINE vec vec_sigmoid(vec minus_x)
{
    return vec_set(1.0f) / (vec_set(1.0f) + vec_exp(minus_x));
}

KERNEL_INLINE vec silu(vec x)
{
    return vec_max(vec_set(-CERO_ACTIVATION_LIMIT), x) * vec_sigmoid(vec_set(0.0f) - x);
}

KERNEL_INLINE vec silu_slope(vec x)
{
    vec s = vec_sigmoid(vec_set(0.0f) - x);
    return vec_fma(vec_limited(x) * s, vec_set(1.0f) - s, s);
}

KERNEL_INLINE vec gelu_tanh_gate(vec x)
{
    vec slope =
        vec_fma(x * x, vec_set(-2.0f * CERO_GELU_C * CERO_GELU_A), vec_set(-2.0f * CERO_GELU_C));
    return vec_sigmoid(x * slope);
}

KERNEL_INLINE vec gelu_tanh(vec x)
{
    return vec_max(vec_set(-CERO_ACTIVATION_LIMIT), x) * gelu_tanh_gate(x);
}

KERNEL_INLINE vec gelu_tanh_slope(vec x)
{
    vec s = gelu_tanh_gate(x);
    vec t = vec_limited(x);
    vec inner = vec_fma(vec_set(6.0f * CERO_GELU_C * CERO_GELU_A) * t, t,
                        vec_set(2.0f * CERO_GELU_C)); /* d/dx of the gate's argument */

    return vec_fma(t * inner * s, vec_set(1.0f) - s, s);
}

KERNEL_INLINE vec gelu_erf(vec x)
{
    vec t = vec_limited(x);
    vec e = vec_exp(vec_set(-0.5f) * t * t);

    return vec_max(vec_set(-CERO_ACTIVATION_LIMIT), x) * vec_normal(x, e);
}

KERNEL_INLINE vec gelu_erf_slope(vec x)
{
    vec t = vec_limited(x);
    vec e = vec_exp(vec_set(-0.5f) * t * t);

    return vec_fma(t * vec_set(0.3989422804014327f), e, vec_normal(x, e));
}

KERNEL_INLINE vec relu(vec x)
{
    return vec_max(vec_set(0.0f), x);
}

/* 0, 1, and NaN for NaN. */
KERNEL_INLINE vec relu_slope(vec x)
{
    vec positive = vec_select(vec_less(vec_set(0.0f), x), vec_set(1.0f), x);
    return vec_select(vec_less_equal(x, vec_set(0.0f)), vec_set(0.0f), positive);
}

KERNEL_INLINE vec tanh_slope(vec x)
{
    vec t = hyperbolic_tangent(x);
    return vec_fnma(t, t, vec_set(1.0f));
}
