/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Softmax, cross-entropy and its gradient follow the formulas in double, in place too, for rows whose
 * maximum comes early, late, or after masked (-infinity) blocks; NaN and +infinity spoil the whole row.
 */
#include "kernels/check.h"

/* ref adds n terms in f32, one after the other. */
static double slack(const check_case *c)
{
    return 4e-6 + 5e-9 * (double)c->n;
}

/* Sum of exp(x - max) in double; sets *max. */
static double exact_sum(const check_tensor *x, double *max)
{
    double sum = 0;

    *max = -HUGE_VAL;
    for (int64_t i = 0; i < x->n; i++) {
        *max = fmax(*max, (double)check_get(x, i));
    }
    for (int64_t i = 0; i < x->n; i++) {
        sum += exp((double)check_get(x, i) - *max);
    }
    return sum;
}

static void check_softmax_of(const check_case *c, const check_tensor *x)
{
    check_tensor in = check_make_f32(c, c->n);
    check_tensor y = check_make_f32(c, c->n);
    double max;
    double sum = exact_sum(x, &max);

    for (int64_t i = 0; i < c->n; i++) {
        check_set(&in, i, check_get(x, i));
    }
    c->k->softmax(c->n, in.data, y.data);
    for (int64_t i = 0; i < c->n; i++) {
        check_near("softmax", CERO_DTYPE_F32, i, (double)check_get(&y, i),
                   exp((double)check_get(x, i) - max) / sum, slack(c), 1e-9);
    }
    c->k->softmax(c->n, in.data, in.data);
    check_same("softmax in place", &in, &y);
    check_free(&in);
    check_free(&y);
}

static void check_loss_of(const check_case *c, check_tensor *x, int64_t target)
{
    check_tensor dx = check_make(c, c->n);
    float scale = 0.25f;
    double max;
    double sum = exact_sum(x, &max);
    double expected = log(sum) + max - (double)check_get(x, target);

    float alone = c->k->cross_entropy[c->dtype](c->n, x->data, target, scale, NULL);
    float loss = c->k->cross_entropy[c->dtype](c->n, x->data, target, scale, dx.data);
    check_near("loss", CERO_DTYPE_F32, target, (double)loss, expected, slack(c), 1.0);
    assert_memory_equal(&alone, &loss, sizeof(loss));
    for (int64_t i = 0; i < c->n; i++) {
        double p = exp((double)check_get(x, i) - max) / sum;
        check_near("gradient", c->dtype, i, (double)check_get(&dx, i),
                   (p - (i == target ? 1 : 0)) * (double)scale, slack(c), i == target ? 1.0 : 1e-7);
    }
    check_tensor row = check_clone(x);
    float in_place = c->k->cross_entropy[c->dtype](c->n, row.data, target, scale, row.data);
    assert_memory_equal(&in_place, &loss, sizeof(loss));
    check_same("gradient in place", &row, &dx);
    check_free(&row);
    check_free(&dx);
}

static void check_row(const check_case *c, check_tensor *x)
{
    check_softmax_of(c, x);
    check_loss_of(c, x, 0);
    check_loss_of(c, x, c->n / 2);
    check_loss_of(c, x, c->n - 1);
}

static void check_spoiled(const check_case *c, check_tensor *x, float odd)
{
    check_tensor dx = check_make(c, c->n);

    check_set(x, c->n / 2, odd);
    assert_true(isnan(c->k->cross_entropy[c->dtype](c->n, x->data, 0, 1.0f, dx.data)));
    for (int64_t i = 0; i < c->n; i++) {
        if (!isnan(check_get(&dx, i))) {
            check_fail("gradient of a spoiled row", i, (double)check_get(&dx, i), (double)NAN);
        }
    }
    check_free(&dx);
}

static void check_ignored(const check_case *c, check_tensor *x)
{
    check_tensor dx = check_make(c, c->n);

    assert_true(c->k->cross_entropy[c->dtype](c->n, x->data, -1, 1.0f, NULL) == 0.0f);
    assert_true(c->k->cross_entropy[c->dtype](c->n, x->data, -1, 1.0f, dx.data) == 0.0f);
    for (int64_t i = 0; i < c->n; i++) {
        if (check_get(&dx, i) != 0.0f) {
            check_fail("gradient of an ignored row", i, (double)check_get(&dx, i), 0);
        }
    }
    check_free(&dx);
}

static void check_cross_entropy(const check_case *c)
{
    check_tensor x = check_make(c, c->n);

    check_random(&x, 60, 12.0f);
    check_ignored(c, &x);
    if (c->n == 0) {
        c->k->softmax(0, x.data, x.data);
        check_free(&x);
        return;
    }
    check_row(c, &x);
    check_set(&x, 0, 20.0f); // The maximum first,
    check_row(c, &x);
    check_set(&x, c->n - 1, 40.0f); // then last,
    check_row(c, &x);
    for (int64_t i = 0; i < c->n - 1; i++) { // and alone after masked blocks.
        check_set(&x, i, -INFINITY);
    }
    check_softmax_of(c, &x);
    check_loss_of(c, &x, c->n - 1);
    check_random(&x, 61, 3.0f);
    check_spoiled(c, &x, NAN);
    check_spoiled(c, &x, INFINITY);
    check_free(&x);
}

/* The row of GPT-2's head, against ref as well. */
static void check_vocabulary(const check_case *c)
{
    check_case wide = *c;

    if (c->n != 1) {
        return;
    }
    wide.n = 50257;
    check_now = &wide;
    check_tensor x = check_make(&wide, wide.n);
    check_tensor a = check_make(&wide, wide.n);
    check_tensor b = check_make(&wide, wide.n);
    check_random(&x, 62, 6.0f);
    check_loss_of(&wide, &x, 31337);
    // Scaled so that f16 gradients are not subnormal.
    (void)c->k->cross_entropy[c->dtype](wide.n, x.data, 31337, 1024.0f, a.data);
    (void)c->ref->cross_entropy[c->dtype](wide.n, x.data, 31337, 1024.0f, b.data);
    check_close("gradient of a wide row against ref", &a, &b, 3e-4, 1e-6);
    check_free(&x);
    check_free(&a);
    check_free(&b);
}

static void test_cross_entropy(void **state)
{
    CERO_UNUSED(state);
    check_all(check_cross_entropy);
    check_all(check_vocabulary);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_cross_entropy)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
