/* SPDX-License-Identifier: Apache-2.0 */
/* All pairs of ZeRO stages 0 to 3 and 1 to 5 ranks: what one saved, the other loads bit for bit. */
// RUN: np=5
// RUN: slow
#include "mpi/checkpoint_layouts.h"

static void test_all_pairs(void **state)
{
    static layouts l = {.sizes = {1, 2, 3, 4, 5}, .count = 5};

    CERO_UNUSED(state);
    l.dtype = "bf16.enabled=false";
    layouts_check(&l);
}

static void test_all_pairs_fp16(void **state)
{
    static layouts l = {.sizes = {1, 2, 3, 4, 5}, .count = 5};

    CERO_UNUSED(state);
    l.dtype = "fp16.enabled=true";
    layouts_check(&l);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_all_pairs),
                                       cmocka_unit_test(test_all_pairs_fp16)};

    return checkpoint_run(tests, CERO_COUNT_OF(tests), argc, argv);
}
