/* SPDX-License-Identifier: Apache-2.0 */
/* Clipping multiplies by DeepSpeed's coefficient, and by exactly 1 when there is nothing to clip. */
#include "harness.h"

#include "optim/clip.h"

#include <math.h>

/* NO-04: gradients (3, 4). */
static void test_three_four(void **unused)
{
    (void)unused;
    cero_clip clip = cero_clip_make(5.0, 1.0, 1.0);
    assert_true(clip.norm == 5.0);
    assert_true(fabs(3.0 * clip.grad_scale - 0.6) < 1e-6);
    assert_true(fabs(4.0 * clip.grad_scale - 0.8) < 1e-6);
    assert_true(clip.coefficient == 1.0 / 5.000001);

    clip = cero_clip_make(5.0, 1.0, 10.0);
    assert_true(clip.coefficient == 1.0 && clip.grad_scale == 1.0);
}

/* The scale is undone before the comparison with the limit. */
static void test_scale(void **unused)
{
    (void)unused;
    cero_clip clip = cero_clip_make(5.0 * 1024.0, 1024.0, 10.0);
    assert_true(clip.norm == 5.0);
    assert_true(clip.coefficient == 1.0);
    assert_true(clip.grad_scale == 1.0 / 1024.0);

    clip = cero_clip_make(5.0 * 1024.0, 1024.0, 2.5);
    assert_true(fabs(clip.coefficient - 0.5) < 1e-6);
    assert_true(clip.grad_scale == clip.coefficient / 1024.0);
}

static void test_border(void **unused)
{
    (void)unused;
    // A norm equal to the limit is already clipped: 1e-6 is added first.
    assert_true(cero_clip_make(1.0, 1.0, 1.0).coefficient < 1.0);
    assert_true(cero_clip_make(1.0 - 2e-6, 1.0, 1.0).coefficient == 1.0);
    assert_true(cero_clip_make(0.0, 1.0, 1.0).coefficient == 1.0);
    assert_true(cero_clip_make(1e30, 1.0, 0.0).coefficient == 1.0);
    assert_true(isnan(cero_clip_make((double)NAN, 1.0, 1.0).grad_scale));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_three_four),
        cmocka_unit_test(test_scale),
        cmocka_unit_test(test_border),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
