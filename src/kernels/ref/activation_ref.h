/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The activations and their derivatives as plain functions of one float, in forms that keep their limits
 * at infinity (0 for the negative side of gelu and silu).
 */
#ifndef CERO_KERNELS_REF_ACTIVATION_REF_H
#define CERO_KERNELS_REF_ACTIVATION_REF_H

#include "kernels/activation.h"

#include <math.h>

static inline float limited(float x)
{
    return fminf(fmaxf(x, -CERO_ACTIVATION_LIMIT), CERO_ACTIVATION_LIMIT);
}

static inline float sigmoid(float x)
{
    return 1.0f / (1.0f + expf(-x));
}

static inline float silu(float x)
{
    return fmaxf(x, -CERO_ACTIVATION_LIMIT) * sigmoid(x);
}

/* d/dx x s(x) = s + x s (1 - s) */
static inline float silu_slope(float x)
{
    float s = sigmoid(x);
    return s + limited(x) * s * (1.0f - s);
}

#endif
