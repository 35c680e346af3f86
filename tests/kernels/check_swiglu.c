/* SPDX-License-Identifier: Apache-2.0 */
/* SwiGLU and its two gradients follow the formulas in double, and ref where values are not finite. */
#include "kernels/check.h"

static double sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

static void check_forward(const check_case *c, const check_tensor *gate, const check_tensor *up)
{
    check_tensor y = check_make(c, c->n);

    c->k->swiglu_forward[c->dtype](c->n, gate->data, up->data, y.data);
    for (int64_t i = 0; i < c->n; i++) {
        double g = (double)check_get(gate, i);
        double u = (double)check_get(up, i);
        check_near("swiglu", c->dtype, i, (double)check_get(&y, i), g * sigmoid(g) * u, 1e-6, 2.0);
    }
    check_free(&y);
}

static void check_backward(const check_case *c, const check_tensor *gate, const check_tensor *up)
{
    check_tensor dy = check_make(c, c->n);
    check_tensor dgate = check_make(c, c->n);
    check_tensor dup = check_make(c, c->n);

    check_random(&dy, 32, 2.0f);
    c->k->swiglu_backward[c->dtype](c->n, gate->data, up->data, dy.data, dgate.data, dup.data);
    for (int64_t i = 0; i < c->n; i++) {
        double g = (double)check_get(gate, i);
        double u = (double)check_get(up, i);
        double d = (double)check_get(&dy, i);
        double s = sigmoid(g);

        check_near("dgate", c->dtype, i, (double)check_get(&dgate, i),
                   d * u * (s + g * s * (1 - s)), 2e-6, 2.0);
        check_near("dup", c->dtype, i, (double)check_get(&dup, i), d * g * s, 2e-6, 2.0);
    }
    check_free(&dy);
    check_free(&dgate);
    check_free(&dup);
}

static void check_odd(const check_case *c, check_tensor *gate, const check_tensor *up)
{
    check_tensor y = check_make(c, c->n);
    check_tensor expected = check_make(c, c->n);

    check_poison(gate);
    c->k->swiglu_forward[c->dtype](c->n, gate->data, up->data, y.data);
    c->ref->swiglu_forward[c->dtype](c->n, gate->data, up->data, expected.data);
    check_close("swiglu with NaN and Inf", &y, &expected, 2e-6, 2.0);
    check_free(&y);
    check_free(&expected);
}

static void check_swiglu(const check_case *c)
{
    check_tensor gate = check_make(c, c->n);
    check_tensor up = check_make(c, c->n);

    check_random(&gate, 30, 8.0f);
    check_random(&up, 31, 2.0f);
    check_forward(c, &gate, &up);
    check_backward(c, &gate, &up);
    check_odd(c, &gate, &up);
    check_free(&gate);
    check_free(&up);
}

static void test_swiglu(void **state)
{
    CERO_UNUSED(state);
    check_all(check_swiglu);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_swiglu)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
