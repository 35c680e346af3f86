/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The build's way of starting ranks gives one world of as many ranks as it says, not as many worlds of
 * one: every other test of several ranks relies on it.
 */
// RUN: np=1,2,3
#include "harness.h"

#include "comm/comm.h"

#include <mpi.h>

static void test_size(void **state)
{
    const char *promised = getenv("CERO_TEST_NP");
    int size = 0;

    CERO_UNUSED(state);
    assert_non_null(promised);
    assert_int_equal(MPI_Comm_size(MPI_COMM_WORLD, &size), MPI_SUCCESS);
    assert_int_equal(size, (int)strtol(promised, NULL, 10));
}

/* Every rank is there once, and messages longer than a fast path's limit arrive whole. */
static void test_messages(void **state)
{
    enum {
        COUNT = 1 << 18
    };
    int rank = -1;
    int size = 0;

    CERO_UNUSED(state);
    assert_int_equal(MPI_Comm_rank(MPI_COMM_WORLD, &rank), MPI_SUCCESS);
    assert_int_equal(MPI_Comm_size(MPI_COMM_WORLD, &size), MPI_SUCCESS);
    int32_t *sums = cero_new(COUNT, sizeof(*sums));
    assert_non_null(sums);
    for (int i = 0; i < COUNT; i++) {
        sums[i] = (i % 5 + 1) << (4 * rank);
    }
    assert_int_equal(MPI_Allreduce(MPI_IN_PLACE, sums, COUNT, MPI_INT32_T, MPI_SUM, MPI_COMM_WORLD),
                     MPI_SUCCESS);
    for (int i = 0; i < COUNT; i++) {
        int32_t expected = 0;
        for (int r = 0; r < size; r++) {
            expected |= (i % 5 + 1) << (4 * r);
        }
        assert_int_equal(sums[i], expected);
    }
    cero_delete(sums);
}

/* The name says which MPI the build found, and it is the one that runs. */
static void test_library_name(void **state)
{
    char running[MPI_MAX_LIBRARY_VERSION_STRING];
    int length = 0;
    const char *name = cero_comm_mpi_library();

    CERO_UNUSED(state);
    assert_int_equal(MPI_Get_library_version(running, &length), MPI_SUCCESS);
    assert_string_not_equal(name, "none");
    assert_non_null(strchr(name, '.'));
    if (strncmp(name, "Open MPI ", 9) == 0) {
        assert_non_null(strstr(running, "Open MPI"));
        assert_non_null(strstr(running, name + 9));
    } else if (strncmp(name, "MPICH ", 6) == 0) {
        assert_non_null(strstr(running, "MPICH"));
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_size),
        cmocka_unit_test(test_messages),
        cmocka_unit_test(test_library_name),
    };

    if (MPI_Init(&argc, &argv) != MPI_SUCCESS) {
        return EXIT_FAILURE;
    }
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    (void)MPI_Finalize();
    return failed;
}
