/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The generator is Philox4x32-10 as published, its numbers are a pure function of place, and what is
 * made of them has the distribution it claims.
 */
#include "harness.h"

#include "base/rng.h"

#include <math.h>

/* The known answers that come with Random123. */
static void test_known_answers(void **state)
{
    CERO_UNUSED(state);
    static const struct {
        uint64_t block;
        uint64_t sample;
        uint32_t key[2];
        uint32_t answer[4];
    } cases[] = {
        {0, 0, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {UINT64_MAX,
         UINT64_MAX,
         {0xffffffff, 0xffffffff},
         {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {0x85a308d3243f6a88,
         0x0370734413198a2e,
         {0xa4093822, 0x299f31d0},
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    for (size_t i = 0; i < CERO_COUNT_OF(cases); i++) {
        cero_rng_key key = {{cases[i].key[0], cases[i].key[1]}};
        uint32_t out[4];
        cero_rng_block(key, cases[i].sample, cases[i].block, out);
        assert_memory_equal(out, cases[i].answer, sizeof(out));
        for (uint64_t e = 0; e < 4 && cases[i].block < UINT64_MAX / 4; e++) {
            assert_int_equal(cero_rng_word(key, cases[i].sample, cases[i].block * 4 + e), out[e]);
        }
    }
}

static void test_keys_differ(void **state)
{
    CERO_UNUSED(state);
    cero_rng_key keys[] = {
        cero_rng_make_key(1, CERO_RNG_INIT, 0, 0),    cero_rng_make_key(2, CERO_RNG_INIT, 0, 0),
        cero_rng_make_key(1, CERO_RNG_DROPOUT, 0, 0), cero_rng_make_key(1, CERO_RNG_INIT, 1, 0),
        cero_rng_make_key(1, CERO_RNG_INIT, 0, 1),    cero_rng_make_key(0, CERO_RNG_INIT, 0, 0),
    };
    for (size_t i = 0; i < CERO_COUNT_OF(keys); i++) {
        for (size_t j = 0; j < i; j++) {
            assert_memory_not_equal(&keys[i], &keys[j], sizeof(keys[i]));
        }
    }
    cero_rng_key again = cero_rng_make_key(1, CERO_RNG_INIT, 1, 0);
    assert_memory_equal(&again, &keys[3], sizeof(again));
    assert_true(cero_rng_hash("wte.weight") != cero_rng_hash("wpe.weight"));
    assert_true(cero_rng_hash("") != cero_rng_hash("a"));
}

static void test_uniform_borders(void **state)
{
    CERO_UNUSED(state);
    assert_true(cero_rng_uniform_f32(0) == 0.0f);
    assert_true(cero_rng_uniform_f32(UINT32_MAX) < 1.0f);
    assert_true(cero_rng_uniform_f64(0, 0) > 0.0);
    assert_true(cero_rng_uniform_f64(UINT32_MAX, UINT32_MAX) < 1.0);
}

static void test_ranges_fill_like_the_whole(void **state)
{
    enum {
        N = 257
    };
    float whole[N];
    float part[N];
    CERO_UNUSED(state);
    cero_rng_key key = cero_rng_make_key(7, CERO_RNG_INIT, cero_rng_hash("wte.weight"), 0);
    cero_rng_fill_normal(key, 0, N, 0.5, 0.02, whole);
    for (int64_t begin = 0; begin < 20; begin++) {
        for (int64_t n = 0; n <= 20; n++) {
            for (int i = 0; i < N; i++) {
                part[i] = -1;
            }
            cero_rng_fill_normal(key, begin, n, 0.5, 0.02, part + 1);
            assert_memory_equal(part + 1, whole + begin, (size_t)n * sizeof(float));
            assert_true(part[0] == -1 && part[n + 1] == -1);
        }
    }
    cero_rng_fill_normal(key, 100, N - 100, 0.5, 0.02, part);
    assert_memory_equal(part, whole + 100, (N - 100) * sizeof(float));
}

static void test_normal_moments(void **state)
{
    enum {
        N = 200000
    };
    CERO_UNUSED(state);
    float *x = cero_new(N, sizeof(float));
    cero_rng_fill_normal(cero_rng_make_key(1, CERO_RNG_TEST, 0, 0), 0, N, 3.0, 2.0, x);
    double sum[5] = {0};
    int outside = 0;
    for (int i = 0; i < N; i++) {
        double z = ((double)x[i] - 3.0) / 2.0;
        sum[1] += z;
        sum[2] += z * z;
        sum[3] += z * z * z;
        sum[4] += z * z * z * z;
        outside += fabs(z) > 1.96;
    }
    assert_true(fabs(sum[1] / N) < 0.01);
    assert_true(fabs(sum[2] / N - 1) < 0.02);
    assert_true(fabs(sum[3] / N) < 0.04);
    assert_true(fabs(sum[4] / N - 3) < 0.1);
    assert_true(abs(outside - N / 20) < N / 400);
    cero_delete(x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_known_answers),   cmocka_unit_test(test_keys_differ),
        cmocka_unit_test(test_uniform_borders), cmocka_unit_test(test_ranges_fill_like_the_whole),
        cmocka_unit_test(test_normal_moments),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
