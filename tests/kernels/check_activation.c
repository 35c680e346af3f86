/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every activation follows its formula in double, its backward follows the difference quotient, both in
 * place and at the limits; the order of the table is cero_activation; a range may be cut anywhere.
 */
#include "kernels/check.h"

#include "spec/model.h"

static double exact(int activation, double x)
{
    switch (activation) {
    case CERO_ACTIVATION_GELU_TANH:
        return 0.5 * x * (1 + tanh(sqrt(2 / 3.14159265358979323846) * (x + 0.044715 * x * x * x)));
    case CERO_ACTIVATION_GELU_ERF:
        return 0.5 * x * (1 + erf(x / sqrt(2.0)));
    case CERO_ACTIVATION_RELU:
        return x > 0 ? x : 0;
    case CERO_ACTIVATION_SILU:
        return x / (1 + exp(-x));
    default:
        return tanh(x);
    }
}

static double exact_slope(int activation, double x)
{
    double h = 1e-5;
    if (activation == CERO_ACTIVATION_RELU) {
        return x > 0 ? 1 : 0;
    }
    return (exact(activation, x + h) - exact(activation, x - h)) / (2 * h);
}

/* x of a case: most in (-9, 9), where the functions bend. */
static check_tensor make_x(const check_case *c, uint64_t seed)
{
    check_tensor x = check_make(c, c->n);
    check_random(&x, seed, 9.0f);
    return x;
}

static void check_forward(const check_case *c, int activation)
{
    check_tensor x = make_x(c, 20);
    check_tensor y = check_make(c, c->n);
    check_tensor expected = check_make(c, c->n);

    c->k->activation_forward[activation][c->dtype](c->n, x.data, y.data);
    for (int64_t i = 0; i < c->n; i++) {
        double v = (double)check_get(&x, i);
        check_near("forward against double", c->dtype, i, (double)check_get(&y, i),
                   exact(activation, v), 6e-7, 1.0);
    }
    check_poison(&x);
    c->ref->activation_forward[activation][c->dtype](c->n, x.data, expected.data);
    c->k->activation_forward[activation][c->dtype](c->n, x.data, y.data);
    check_close("forward against ref", &y, &expected, 2e-6, 0.3);
    c->k->activation_forward[activation][c->dtype](c->n, x.data, x.data);
    check_same("forward in place", &x, &y);
    check_free(&x);
    check_free(&y);
    check_free(&expected);
}

static void check_backward(const check_case *c, int activation)
{
    check_tensor x = make_x(c, 21);
    check_tensor dy = check_make(c, c->n);
    check_tensor dx = check_make(c, c->n);
    check_tensor expected = check_make(c, c->n);

    check_random(&dy, 22, 2.0f);
    c->k->activation_backward[activation][c->dtype](c->n, x.data, dy.data, dx.data);
    for (int64_t i = 0; i < c->n; i++) {
        double slope = exact_slope(activation, (double)check_get(&x, i));
        check_near("backward against double", c->dtype, i, (double)check_get(&dx, i),
                   (double)check_get(&dy, i) * slope, 2e-6, 1.0);
    }
    check_poison(&x);
    c->ref->activation_backward[activation][c->dtype](c->n, x.data, dy.data, expected.data);
    c->k->activation_backward[activation][c->dtype](c->n, x.data, dy.data, dx.data);
    check_close("backward against ref", &dx, &expected, 4e-6, 0.3);
    c->k->activation_backward[activation][c->dtype](c->n, x.data, dy.data, dy.data);
    check_same("backward in place", &dy, &dx);
    check_free(&x);
    check_free(&dy);
    check_free(&dx);
    check_free(&expected);
}

/* Two calls on parts give the bits of one call: threads may cut where they like. */
static void check_cut(const check_case *c, int activation)
{
    check_tensor x = make_x(c, 23);
    check_tensor whole = check_make(c, c->n);
    check_tensor parts = check_make(c, c->n);
    size_t cut = (size_t)(c->n / 3 + (c->n > 4 ? 1 : 0));
    size_t at = cut * cero_dtype_size(c->dtype);

    c->k->activation_forward[activation][c->dtype](c->n, x.data, whole.data);
    c->k->activation_forward[activation][c->dtype]((int64_t)cut, x.data, parts.data);
    c->k->activation_forward[activation][c->dtype](c->n - (int64_t)cut, (char *)x.data + at,
                                                   (char *)parts.data + at);
    check_same("forward cut in two", &parts, &whole);
    c->k->activation_backward[activation][c->dtype](c->n, x.data, x.data, whole.data);
    c->k->activation_backward[activation][c->dtype]((int64_t)cut, x.data, x.data, parts.data);
    c->k->activation_backward[activation][c->dtype](c->n - (int64_t)cut, (char *)x.data + at,
                                                    (char *)x.data + at, (char *)parts.data + at);
    check_same("backward cut in two", &parts, &whole);
    check_free(&x);
    check_free(&whole);
    check_free(&parts);
}

/* f and f' at infinity, and NaN for NaN. */
static void check_limits(const check_case *c, int activation)
{
    bool is_tanh = activation == CERO_ACTIVATION_TANH;
    check_tensor x = check_make(c, 3);
    check_tensor y = check_make(c, 3);
    check_tensor one = check_make(c, 3);

    for (int64_t i = 0; i < 3; i++) {
        check_set(&one, i, 1.0f);
    }
    check_set(&x, 0, INFINITY);
    check_set(&x, 1, -INFINITY);
    check_set(&x, 2, NAN);
    c->k->activation_forward[activation][c->dtype](3, x.data, y.data);
    if (check_get(&y, 0) != (is_tanh ? 1.0f : INFINITY) ||
        check_get(&y, 1) != (is_tanh ? -1.0f : 0.0f) || !isnan(check_get(&y, 2))) {
        check_fail("limits of the function", activation, (double)check_get(&y, 0),
                   (double)check_get(&y, 1));
    }
    c->k->activation_backward[activation][c->dtype](3, x.data, one.data, y.data);
    if (check_get(&y, 0) != (is_tanh ? 0.0f : 1.0f) || check_get(&y, 1) != 0.0f ||
        !isnan(check_get(&y, 2))) {
        check_fail("limits of the derivative", activation, (double)check_get(&y, 0),
                   (double)check_get(&y, 1));
    }
    check_free(&x);
    check_free(&y);
    check_free(&one);
}

static void check_activations(const check_case *c)
{
    for (int activation = 0; activation < CERO_ACTIVATION_COUNT; activation++) {
        check_forward(c, activation);
        check_backward(c, activation);
        check_cut(c, activation);
        if (c->n == 1) {
            check_limits(c, activation);
        }
    }
}

/* tanh keeps relative accuracy near zero and everywhere else, on a fine grid. */
static void check_tanh_digits(const check_case *c)
{
    if (c->dtype != CERO_DTYPE_F32 || c->n != 1 || c->place != 0) {
        return;
    }
    for (double scale = 1e-6; scale < 20; scale *= 1.02) {
        float x[16];
        float y[16];

        for (int j = 0; j < 16; j++) {
            x[j] = (float)(scale * (1 + j * 0.0009));
        }
        c->k->activation_forward[CERO_ACTIVATION_TANH][CERO_DTYPE_F32](16, x, y);
        for (int j = 0; j < 16; j++) {
            check_near("tanh", CERO_DTYPE_F32, j, (double)y[j], tanh((double)x[j]), 3e-7, 0);
        }
    }
}

static void test_activations(void **state)
{
    CERO_UNUSED(state);
    check_all(check_activations);
    check_all(check_tanh_digits);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_activations)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
