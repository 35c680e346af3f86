/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One arithmetic, many layouts: all rows of the table for the model and the dtype that are given. A part of the
 * rows that the ordinary tests run is in test_equivalence.c.
 */
// RUN: slow
// RUN: np=6 args=gpt2 fp32
// RUN: np=6 args=gpt2 bf16
// RUN: np=6 args=llama fp32
// RUN: np=6 args=llama bf16
#include "mpi/equivalence_table.h"

static int model = -1;
static int dtype = -1;

static bool is_asked(int row)
{
    return table_level(row, TABLE_MODEL) == model && table_level(row, TABLE_DTYPE) == dtype;
}

static void test_all_rows(void **state)
{
    static unsigned char is_chosen[TABLE_ROWS];
    static unsigned char is_done[TABLE_ROWS];
    int count = 0;

    CERO_UNUSED(state);
    for (int row = 0; row < TABLE_ROWS; row++) {
        is_chosen[row] = is_asked(row) ? 1 : 0;
    }
    table_do_all(is_chosen, is_done);
    for (int row = 0; row < TABLE_ROWS; row++) {
        assert_int_equal(is_done[row], is_asked(row));
        count += is_done[row];
    }
    assert_int_equal(count, 5 * 4 * 3 * 2 * 3);
}

static int find(const char *const *names, int count, const char *name)
{
    int i = 0;

    while (i < count && strcmp(names[i], name) != 0) {
        i++;
    }
    return i < count ? i : -1;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_rows),
    };

    model = argc > 1 ? find(table_model_names, TABLE_MODELS, argv[1]) : -1;
    dtype = argc > 2 ? find(table_dtype_names, TABLE_DTYPES, argv[2]) : -1;
    if (model < 0 || dtype < 0) {
        (void)fprintf(stderr, "usage: %s gpt2|llama fp32|bf16\n", argv[0]);
        return EXIT_FAILURE;
    }
    return run_in_world(NULL, tests, CERO_COUNT_OF(tests));
}
