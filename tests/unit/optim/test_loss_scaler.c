/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The loss scaler walks through the scales of DeepSpeed's dynamic scaler: chains of overflows, each
 * kind of hysteresis, growth at the documented update, and the end at the minimum.
 */
#include "harness.h"

#include "optim/loss_scaler.h"

#include <math.h>

enum {
    MAX_STEPS = 20
};

/* `events` has one letter per update, x for an overflow; `scales` holds the powers of two after it. */
typedef struct walk {
    const char *name;
    cero_loss_scale_spec spec;
    const char *events;
    int powers[MAX_STEPS];
} walk;

static const walk walks[] = {
    {"default hysteresis 2: the first overflow keeps the scale, the rest halve it",
     {.initial_scale_power = 16, .loss_scale_window = 1000, .hysteresis = 2, .min_loss_scale = 1},
     "xxx.x.",
     {16, 15, 14, 14, 13, 13}},
    {"hysteresis 1 halves at once",
     {.initial_scale_power = 4, .loss_scale_window = 1000, .hysteresis = 1, .min_loss_scale = 1},
     "xx.x",
     {3, 2, 2, 1}},
    {"hysteresis 0 counts as 1",
     {.initial_scale_power = 4, .loss_scale_window = 1000, .hysteresis = 0, .min_loss_scale = 1},
     "xx",
     {3, 2}},
    {"hysteresis 3",
     {.initial_scale_power = 16, .loss_scale_window = 1000, .hysteresis = 3, .min_loss_scale = 1},
     "xxxx",
     {16, 16, 15, 14}},
    {"good updates do not restore hysteresis before the window is full",
     {.initial_scale_power = 8, .loss_scale_window = 1000, .hysteresis = 2, .min_loss_scale = 1},
     "x...x..x",
     {8, 8, 8, 8, 7, 7, 7, 6}},
    {"consecutive hysteresis is restored by each good update",
     {.initial_scale_power = 8,
      .loss_scale_window = 1000,
      .hysteresis = 2,
      .consecutive_hysteresis = true,
      .min_loss_scale = 1},
     "x.x.xx.x",
     {8, 8, 8, 8, 8, 7, 7, 7}},
    {"LS-06: window 4, growth after the 5th, 9th and 13th good update",
     {.initial_scale_power = 3, .loss_scale_window = 4, .hysteresis = 2, .min_loss_scale = 1},
     ".............",
     {3, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5, 6}},
    {"the window counts from the last overflow, growth restores hysteresis",
     {.initial_scale_power = 6, .loss_scale_window = 2, .hysteresis = 2, .min_loss_scale = 1},
     "xx...x....x",
     {6, 5, 5, 5, 6, 6, 6, 6, 7, 7, 7}},
    {"window 1 doubles from the second good update on",
     {.initial_scale_power = 0, .loss_scale_window = 1, .hysteresis = 1, .min_loss_scale = 1},
     "....",
     {0, 1, 2, 3}},
    {"a scale below the minimum is raised to it",
     {.initial_scale_power = 1, .loss_scale_window = 1000, .hysteresis = 1, .min_loss_scale = 8},
     "x",
     {3}},
};

static void test_walks(void **unused)
{
    (void)unused;
    for (size_t i = 0; i < CERO_COUNT_OF(walks); i++) {
        const walk *w = &walks[i];
        cero_loss_scaler scaler;
        cero_loss_scaler_init(&scaler, &w->spec);
        assert_true(scaler.scale == ldexp(1.0, w->spec.initial_scale_power));
        for (size_t step = 0; w->events[step] != '\0'; step++) {
            assert_ok(cero_loss_scaler_update(&scaler, w->events[step] == 'x', NULL));
            if (scaler.scale != ldexp(1.0, w->powers[step])) {
                fail_msg("%s: scale %g after update %zu, expected 2^%d", w->name, scaler.scale,
                         step + 1, w->powers[step]);
            }
            assert_int_equal(scaler.iter, step + 1);
        }
    }
}

/* LS-09: the defaults start at 65536. */
static void test_default_scale(void **unused)
{
    cero_loss_scaler scaler;
    cero_loss_scale_spec spec = {.initial_scale_power = 16, .loss_scale_window = 1000};

    (void)unused;
    cero_loss_scaler_init(&scaler, &spec);
    assert_true(scaler.scale == 65536.0);
    assert_true(cero_loss_scaler_is_dynamic(&scaler));
}

static void test_minimum(void **unused)
{
    cero_loss_scaler scaler;
    cero_loss_scale_spec spec = {
        .initial_scale_power = 1, .loss_scale_window = 1000, .hysteresis = 2, .min_loss_scale = 1};

    (void)unused;
    cero_loss_scaler_init(&scaler, &spec);
    assert_ok(cero_loss_scaler_update(&scaler, true, NULL));
    assert_ok(cero_loss_scaler_update(&scaler, true, NULL));
    assert_true(scaler.scale == 1.0);
    cero_loss_scaler before = scaler;
    assert_fails(cero_loss_scaler_update(&scaler, true, NULL), CERO_ERR_NUMERIC,
                 "loss scale already at minimum, 1 (fp16.min_loss_scale)");
    assert_memory_equal(&scaler, &before, sizeof(scaler));
}

/* LS-10: the lines name the hysteresis count, then the two scales. */
static void test_messages(void **unused)
{
    static const char *const lines[] = {
        "overflow, update skipped: loss scale stays 65536, hysteresis 3 to 2",
        "overflow, update skipped: loss scale stays 65536, hysteresis 2 to 1",
        "overflow, update skipped: loss scale 65536 to 32768",
        "",
        "loss scale 32768 to 65536",
    };
    cero_loss_scaler scaler;
    cero_loss_scale_change change;
    cero_loss_scale_spec spec = {
        .initial_scale_power = 16, .loss_scale_window = 1, .hysteresis = 3, .min_loss_scale = 1};
    char text[128];

    (void)unused;
    cero_loss_scaler_init(&scaler, &spec);
    for (size_t i = 0; i < CERO_COUNT_OF(lines); i++) {
        assert_ok(cero_loss_scaler_update(&scaler, i < 3, &change));
        assert_string_equal(cero_loss_scale_describe(&change, text, sizeof(text)), lines[i]);
    }
}

static void test_static(void **unused)
{
    cero_loss_scaler scaler;
    cero_loss_scale_change change;
    cero_loss_scale_spec spec = {
        .loss_scale = 128.0, .loss_scale_window = 1, .min_loss_scale = 128};
    char text[128];

    (void)unused;
    cero_loss_scaler_init(&scaler, &spec);
    assert_false(cero_loss_scaler_is_dynamic(&scaler));
    for (int i = 0; i < 6; i++) {
        assert_ok(cero_loss_scaler_update(&scaler, i % 2 == 0, &change));
        assert_true(scaler.scale == 128.0);
        assert_string_equal(cero_loss_scale_describe(&change, text, sizeof(text)),
                            i % 2 == 0 ? "overflow, update skipped: loss scale is fixed at 128"
                                       : "");
    }
}

/* A scaler restored from its four numbers goes on as the one that was not stopped. */
static void test_resume(void **unused)
{
    static const char events[] = "..x.x.....x..xx......";
    const cero_loss_scale_spec spec = {
        .initial_scale_power = 10, .loss_scale_window = 2, .hysteresis = 2, .min_loss_scale = 1};

    (void)unused;
    for (size_t cut = 0; cut < sizeof(events) - 1; cut++) {
        cero_loss_scaler straight;
        cero_loss_scaler resumed;
        cero_loss_scaler_init(&straight, &spec);
        cero_loss_scaler_init(&resumed, &spec);
        for (size_t i = 0; i < sizeof(events) - 1; i++) {
            assert_ok(cero_loss_scaler_update(&straight, events[i] == 'x', NULL));
            if (i < cut) {
                continue;
            }
            if (i == cut) {
                resumed.scale = straight.scale;
                resumed.iter = straight.iter;
                resumed.last_overflow = straight.last_overflow;
                resumed.hysteresis_left = straight.hysteresis_left;
            } else {
                assert_ok(cero_loss_scaler_update(&resumed, events[i] == 'x', NULL));
            }
            assert_true(resumed.scale == straight.scale);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_walks),   cmocka_unit_test(test_default_scale),
        cmocka_unit_test(test_minimum), cmocka_unit_test(test_messages),
        cmocka_unit_test(test_static),  cmocka_unit_test(test_resume),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
