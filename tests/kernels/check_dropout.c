/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Dropout keeps exactly the elements whose word reaches the threshold, bit for bit on every instruction
 * set, from any first element, also where the block number passes 32 bits; it keeps the stated share.
 */
#include "kernels/check.h"

static void check_from(const check_case *c, uint64_t sample, uint64_t element, uint32_t threshold)
{
    cero_rng_key key = cero_rng_make_key(7, CERO_RNG_DROPOUT, 3, 5);
    check_tensor x = check_make(c, c->n);
    check_tensor y = check_make(c, c->n);
    check_tensor expected = check_make(c, c->n);

    check_random(&x, 50, 2.0f);
    check_poison(&x);
    for (int64_t i = 0; i < c->n; i++) {
        uint32_t word = cero_rng_word(key, sample, element + (uint64_t)i);
        check_set(&expected, i, word >= threshold ? 1.25f * check_get(&x, i) : 0.0f);
    }
    c->k->dropout[c->dtype](c->n, key, sample, element, threshold, 1.25f, x.data, y.data);
    check_same("dropout", &y, &expected);
    c->k->dropout[c->dtype](c->n, key, sample, element, threshold, 1.25f, x.data, x.data);
    check_same("dropout in place", &x, &expected);
    check_free(&x);
    check_free(&y);
    check_free(&expected);
}

static void check_dropout(const check_case *c)
{
    uint32_t fifth = 858993459u;

    for (uint64_t first = 0; first < 6; first++) {
        check_from(c, 11, first, fifth);
    }
    check_from(c, 11, 0, 0);
    check_from(c, 11, 0, UINT32_MAX);
    check_from(c, 11, 1, 0x80000000u);
    check_from(c, (uint64_t)9 << 32, 12345678901u, fifth);
    // Blocks just below 2^32: lanes of one vector fall on both sides of the carry.
    check_from(c, 11, ((uint64_t)4 << 32) - 50, fifth);
}

static void test_dropout(void **state)
{
    CERO_UNUSED(state);
    check_all(check_dropout);
}

static void test_share(void **state)
{
    enum {
        COUNT = 100000
    };
    static float x[COUNT];
    const cero_kernels *k = NULL;
    int64_t kept = 0;

    CERO_UNUSED(state);
    assert_ok(cero_kernels_get(&k));
    for (int64_t i = 0; i < COUNT; i++) {
        x[i] = 1.0f;
    }
    k->dropout[CERO_DTYPE_F32](COUNT, cero_rng_make_key(1, CERO_RNG_DROPOUT, 0, 0), 0, 0,
                               429496730u, 1.0f, x, x);
    for (int64_t i = 0; i < COUNT; i++) {
        kept += x[i] != 0.0f;
    }
    // 0.9 within five standard deviations of a binomial count.
    assert_in_range(kept, 90000 - 475, 90000 + 475);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_dropout),
        cmocka_unit_test(test_share),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
