/* SPDX-License-Identifier: Apache-2.0 */
/* Sum, product, multiple and triad are one rounding of the formula, in place too, with NaN and Inf. */
#include "kernels/check.h"

typedef void (*binary)(int64_t n, const void *a, const void *b, void *y);

static void check_binary(const check_case *c, binary kernel, bool is_product)
{
    check_tensor a = check_make(c, c->n);
    check_tensor b = check_make(c, c->n);
    check_tensor y = check_make(c, c->n);
    check_tensor expected = check_make(c, c->n);

    check_random(&a, 8, 3.0f);
    check_random(&b, 9, 3.0f);
    check_poison(&a);
    for (int64_t i = 0; i < c->n; i++) {
        float left = check_get(&a, i);
        float right = check_get(&b, i);
        check_set(&expected, i, is_product ? left * right : left + right);
    }
    kernel(c->n, a.data, b.data, y.data);
    check_same(is_product ? "mul" : "add", &y, &expected);
    kernel(c->n, a.data, b.data, b.data);
    check_same(is_product ? "mul in place" : "add in place", &b, &expected);
    check_free(&a);
    check_free(&b);
    check_free(&y);
    check_free(&expected);
}

static void check_scale(const check_case *c)
{
    check_tensor x = check_make(c, c->n);
    check_tensor y = check_make(c, c->n);
    check_tensor expected = check_make(c, c->n);

    check_random(&x, 10, 3.0f);
    check_poison(&x);
    for (int64_t i = 0; i < c->n; i++) {
        check_set(&expected, i, 0.7f * check_get(&x, i));
    }
    c->k->scale[c->dtype](c->n, 0.7f, x.data, y.data);
    check_same("scale", &y, &expected);
    c->k->scale[c->dtype](c->n, 0.7f, x.data, x.data);
    check_same("scale in place", &x, &expected);
    check_free(&x);
    check_free(&y);
    check_free(&expected);
}

static void check_triad(const check_case *c)
{
    check_tensor a = check_make_f32(c, c->n);
    check_tensor b = check_make_f32(c, c->n);
    check_tensor d = check_make_f32(c, c->n);

    check_random(&b, 11, 3.0f);
    check_random(&d, 12, 3.0f);
    c->k->triad(c->n, 0.3f, b.data, d.data, a.data);
    for (int64_t i = 0; i < c->n; i++) {
        double expected = (double)check_get(&b, i) + (double)0.3f * (double)check_get(&d, i);
        check_near("triad", CERO_DTYPE_F32, i, (double)check_get(&a, i), expected, 2e-7, 1.0);
    }
    check_free(&a);
    check_free(&b);
    check_free(&d);
}

static void check_family(const check_case *c)
{
    check_binary(c, c->k->add[c->dtype], false);
    check_binary(c, c->k->mul[c->dtype], true);
    check_scale(c);
    check_triad(c);
}

static void test_elementwise(void **state)
{
    CERO_UNUSED(state);
    check_all(check_family);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_elementwise)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
