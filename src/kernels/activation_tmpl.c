/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The activations' entries in the table, for one dtype. Included at the end of ref/activation_tmpl.c and
 * vector/activation_tmpl.c, which hold FN(map) and FN(map_backward); the functions themselves are floats'
 * (ref/activation_ref.c) or vectors' (vector/math.h).
 */

static void FN(gelu_tanh_forward)(int64_t n, const void *x, void *y)
{
    FN(map)(gelu_tanh, n, x, y);
}

static void FN(gelu_tanh_backward)(int64_t n, const void *x, const void *dy, void *dx)
{
    FN(map_backward)(gelu_tanh_slope, n, x, dy, dx);
}

static void FN(gelu_erf_forward)(int64_t n, const void *x, void *y)
{
    FN(map)(gelu_erf, n, x, y);
}

static void FN(gelu_erf_backward)(int64_t n, const void *x, const void *dy, void *dx)
{
    FN(map_backward)(gelu_erf_slope, n, x, dy, dx);
}

static void FN(relu_forward)(int64_t n, const void *x, void *y)
{
    FN(map)(relu, n, x, y);
}

static void FN(relu_backward)(int64_t n, const void *x, const void *dy, void *dx)
{
    FN(map_backward)(relu_slope, n, x, dy, dx);
}

static void FN(silu_forward)(int64_t n, const void *x, void *y)
{
    FN(map)(silu, n, x, y);
}

static void FN(silu_backward)(int64_t n, const void *x, const void *dy, void *dx)
{
    FN(map_backward)(silu_slope, n, x, dy, dx);
}

static void FN(tanh_forward)(int64_t n, const void *x, void *y)
{
    FN(map)(hyperbolic_tangent, n, x, y);
}

static void FN(tanh_backward)(int64_t n, const void *x, const void *dy, void *dx)
{
    FN(map_backward)(tanh_slope, n, x, dy, dx);
}

static void FN(fill)(cero_kernels *k)
{
    k->activation_forward[GELU_TANH][DTYPE_INDEX] = FN(gelu_tanh_forward);
    k->activation_forward[GELU_ERF][DTYPE_INDEX] = FN(gelu_erf_forward);
    k->activation_forward[RELU][DTYPE_INDEX] = FN(relu_forward);
    k->activation_forward[SILU][DTYPE_INDEX] = FN(silu_forward);
    k->activation_forward[TANH][DTYPE_INDEX] = FN(tanh_forward);
    k->activation_backward[GELU_TANH][DTYPE_INDEX] = FN(gelu_tanh_backward);
    k->activation_backward[GELU_ERF][DTYPE_INDEX] = FN(gelu_erf_backward);
    k->activation_backward[RELU][DTYPE_INDEX] = FN(relu_backward);
    k->activation_backward[SILU][DTYPE_INDEX] = FN(silu_backward);
    k->activation_backward[TANH][DTYPE_INDEX] = FN(tanh_backward);
}
