/* SPDX-License-Identifier: Apache-2.0 */
/* As test_flip_load.c, of every bit of every file. */
// RUN: long
#include "crash/flip_load.h"

static void test_bits(void **state)
{
    CERO_UNUSED(state);
    flip_and_load(1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_bits)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
