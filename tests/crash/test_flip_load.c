/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A load of an engine refuses a checkpoint with any bit flipped before anything changes, and takes the older one: of
 * every 61st bit of each file of a small checkpoint here, of all in test_flip_load_full.c. Where there is no older
 * one the error names the file.
 */
#include "crash/flip_load.h"

static void test_bits(void **state)
{
    CERO_UNUSED(state);
    flip_and_load(61);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_bits)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
