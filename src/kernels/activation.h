/* SPDX-License-Identifier: Apache-2.0 */
/* First index of activation_forward and activation_backward: cero_activation of spec/model.h. */
#ifndef CERO_KERNELS_ACTIVATION_H
#define CERO_KERNELS_ACTIVATION_H

#include "kernels/kernels.h"

enum {
    GELU_TANH,
    GELU_ERF,
    RELU,
    SILU,
    TANH,
    ACTIVATION_COUNT
};
_Static_assert((int)ACTIVATION_COUNT == (int)CERO_KERNEL_ACTIVATIONS,
               "one name for each activation");

/* gelu_tanh(x) = x * sigmoid(2 c (x + a x^3)) with c = sqrt(2/pi). */
#define CERO_GELU_C 0.7978845608028654f
#define CERO_GELU_A 0.044715f
/* Factors x of terms that are zero beyond this: keeps 0 * infinity out of the limits. */
#define CERO_ACTIVATION_LIMIT 100.0f

#endif
