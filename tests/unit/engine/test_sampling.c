/* SPDX-License-Identifier: Apache-2.0 */
/* The next token is drawn with the exact probabilities of temperature, top-k and top-p, the same for a seed. */
#include "harness.h"

#include "engine/sampling.h"

#include <math.h>

enum {
    VOCAB = 8,
    DRAWS = 40000
};

static const float logits[VOCAB] = {0.5f, 2.0f, -1.0f, 2.5f, 0.0f, 1.0f, -3.0f, 1.5f};

/* Tokens from the likeliest on. */
static const int32_t ranks[VOCAB] = {3, 1, 7, 5, 0, 4, 2, 6};

static int32_t choose(const cero_sampling *s, int64_t position, const float *from)
{
    cero_sampling_entry scratch[VOCAB];
    int32_t token = -1;

    assert_ok(cero_sampling_choose(s, position, from, VOCAB, scratch, &token));
    assert_true(token >= 0 && token < VOCAB);
    return token;
}

/* Probabilities when the `kept` likeliest are left. */
static void expect(double temperature, int kept, double *out)
{
    double total = 0;

    for (int r = 0; r < VOCAB; r++) {
        out[ranks[r]] = r < kept ? exp((double)logits[ranks[r]] / temperature) : 0;
        total += out[ranks[r]];
    }
    for (int i = 0; i < VOCAB; i++) {
        out[i] /= total;
    }
}

/* Draws at many positions and seeds; five standard deviations, and never a token that was cut. */
static void check(cero_sampling s, int kept)
{
    int64_t count[VOCAB] = {0};
    double p[VOCAB];

    expect(s.temperature, kept, p);
    for (int i = 0; i < DRAWS; i++) {
        s.seed = (uint64_t)(i / 200);
        count[choose(&s, i % 200, logits)]++;
    }
    for (int i = 0; i < VOCAB; i++) {
        double deviation = sqrt(p[i] * (1 - p[i]) * DRAWS);
        if (p[i] == 0) {
            assert_int_equal(count[i], 0);
        }
        if (fabs((double)count[i] - p[i] * DRAWS) > 5 * deviation + 1) {
            fail_msg("token %d: drawn %lld times, expected %.1f", i, (long long)count[i],
                     p[i] * DRAWS);
        }
    }
}

static void test_probabilities(void **state)
{
    double p[VOCAB];

    CERO_UNUSED(state);
    check((cero_sampling){.temperature = 1}, VOCAB);
    check((cero_sampling){.temperature = 0.5}, VOCAB);
    check((cero_sampling){.temperature = 3}, VOCAB);
    check((cero_sampling){.temperature = 1, .top_k = 1}, 1);
    check((cero_sampling){.temperature = 1, .top_k = 3}, 3);
    check((cero_sampling){.temperature = 1, .top_k = 100}, VOCAB);
    check((cero_sampling){.temperature = 1, .top_p = 1}, VOCAB);
    // Nucleus: the fewest that reach top_p; a hair over the sum of two takes a third.
    expect(1, VOCAB, p);
    double both = p[ranks[0]] + p[ranks[1]];
    check((cero_sampling){.temperature = 1, .top_p = both - 1e-6}, 2);
    check((cero_sampling){.temperature = 1, .top_p = both + 1e-6}, 3);
    check((cero_sampling){.temperature = 1, .top_p = 1e-9}, 1);
    // Of the three that top-k leaves, top-p counts among these three.
    expect(1, 3, p);
    both = p[ranks[0]] + p[ranks[1]];
    check((cero_sampling){.temperature = 1, .top_k = 3, .top_p = both - 1e-6}, 2);
    check((cero_sampling){.temperature = 1, .top_k = 3, .top_p = both + 1e-6}, 3);
}

static void test_likeliest(void **state)
{
    const float equal[VOCAB] = {1, 2, 2, 0, 2, 1, 1, 1};
    const float broken[VOCAB] = {NAN, -2, NAN, -1, -INFINITY, -3, NAN, NAN};

    CERO_UNUSED(state);
    for (int i = 0; i < 20; i++) {
        cero_sampling s = {.seed = (uint64_t)i, .top_k = i % 3, .top_p = 0.1 * i};
        assert_int_equal(choose(&s, i, logits), 3);
        assert_int_equal(choose(&s, i, equal), 1); // the first of equals
        assert_int_equal(choose(&s, i, broken), 3);
        s.temperature = 1;
        int32_t token = choose(&s, i, broken);
        assert_true(token == 1 || token == 3 || token == 5);
    }
}

static void test_same_again(void **state)
{
    int other_seed = 0;
    int other_position = 0;

    CERO_UNUSED(state);
    for (int i = 0; i < 100; i++) {
        cero_sampling s = {.temperature = 1, .seed = 42};
        cero_sampling t = {.temperature = 1, .seed = 43};
        int32_t token = choose(&s, i, logits);
        assert_int_equal(choose(&s, i, logits), token);
        other_seed += choose(&t, i, logits) != token;
        other_position += choose(&s, i + 1000, logits) != token;
    }
    assert_true(other_seed > 20 && other_position > 20);
}

static void test_no_number(void **state)
{
    const float broken[VOCAB] = {NAN, NAN, NAN, NAN, NAN, NAN, NAN, NAN};
    cero_sampling_entry scratch[VOCAB];
    int32_t token = 0;

    CERO_UNUSED(state);
    assert_fails(
        cero_sampling_choose(&(cero_sampling){.temperature = 1}, 9, broken, VOCAB, scratch, &token),
        CERO_ERR_NUMERIC, "position 9: none of 8 logits is a number");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_probabilities),
        cmocka_unit_test(test_likeliest),
        cmocka_unit_test(test_same_again),
        cmocka_unit_test(test_no_number),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
