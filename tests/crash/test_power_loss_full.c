/* SPDX-License-Identifier: Apache-2.0 */
/*
 * At least 20,000 distinct images of a disk that lost its power during a save, or while an older checkpoint or what
 * a killed save left was removed, each recover to the older or the newer checkpoint, whole; to the newer one once the
 * save returned. Of every moment all choices of what is lost while there are few, and others by chance.
 */
// RUN: slow
#include "crash/power_scenes.h"

static void test_images(void **state)
{
    CERO_UNUSED(state);
    lose_power(300, 20000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_images)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
