/* SPDX-License-Identifier: Apache-2.0 */
/* Rotary positions rotate the pairs (d, d + half), in place too, and sign -1 undoes sign +1. */
#include "kernels/check.h"

static void check_heads(const check_case *c, int64_t heads, int64_t head_dim)
{
    int64_t half = head_dim / 2;
    check_tensor cosines = check_make_f32(c, half);
    check_tensor sines = check_make_f32(c, half);
    check_tensor x = check_make(c, heads * head_dim);
    check_tensor y = check_make(c, heads * head_dim);

    check_random(&x, 40, 2.0f);
    for (int64_t d = 0; d < half; d++) {
        check_set(&cosines, d, cosf(0.37f * (float)d));
        check_set(&sines, d, sinf(0.37f * (float)d));
    }
    c->k->rotary[c->dtype](heads, head_dim, cosines.data, sines.data, 1.0f, x.data, y.data);
    for (int64_t i = 0; i < heads * head_dim; i++) {
        int64_t d = i % head_dim;
        double cosine = (double)check_get(&cosines, d % half);
        double sine = (double)check_get(&sines, d % half);
        double own = (double)check_get(&x, i);
        double other = (double)check_get(&x, d < half ? i + half : i - half);

        check_near("rotary", c->dtype, i, (double)check_get(&y, i),
                   own * cosine + (d < half ? -other : other) * sine, 3e-7, 2.0);
    }
    check_tensor rotated = check_clone(&x);
    c->k->rotary[c->dtype](heads, head_dim, cosines.data, sines.data, 1.0f, rotated.data,
                           rotated.data);
    check_same("rotary in place", &rotated, &y);
    c->k->rotary[c->dtype](heads, head_dim, cosines.data, sines.data, -1.0f, y.data, y.data);
    for (int64_t i = 0; i < heads * head_dim; i++) { // Rounded twice.
        check_near("rotary undone", c->dtype, i, (double)check_get(&y, i), (double)check_get(&x, i),
                   2 * check_unit(c->dtype), 2.0);
    }
    check_free(&rotated);
    check_free(&cosines);
    check_free(&sines);
    check_free(&x);
    check_free(&y);
}

static void check_rotary(const check_case *c)
{
    if (c->n <= 257 && c->n % 2 == 0 && c->n > 0) {
        check_heads(c, 0, c->n);
        check_heads(c, 1, c->n);
        check_heads(c, 3, c->n);
    }
}

static void test_rotary(void **state)
{
    CERO_UNUSED(state);
    check_all(check_rotary);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_rotary)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
