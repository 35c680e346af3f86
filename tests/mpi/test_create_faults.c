/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When the n-th allocation of one rank fails while a communicator is made, for every n, that rank says NOMEM, the
 * others REMOTE, nobody hangs, and what was there before works on.
 */
// RUN: np=2,3
// RUN: np=3 args=messages
#include "mpi/world.h"

#include <mpi.h>

static cero_comm_params params;

typedef cero_status (*maker)(cero_comm **out);

static cero_status make_part(cero_comm **out)
{
    return cero_comm_split(world, cero_comm_rank(world) / 2, 0, out);
}

static cero_status make_world(cero_comm **out)
{
    MPI_Comm comm = MPI_COMM_WORLD;

    return cero_comm_create_from(&comm, sizeof(comm), &params, out);
}

/* The number of the allocation from which on all succeeded. */
static int count_faults(maker make, int victim)
{
    for (int n = 1; n < 100; n++) {
        cero_comm *comm = NULL;
        bool is_victim = cero_comm_rank(world) == victim;
        cero_mem_fail_at(is_victim ? (uint64_t)n : 0);
        cero_status st = make(&comm);
        cero_mem_fail_at(0);
        int64_t worst = st;
        int64_t member = comm != NULL;
        if (st != CERO_OK) {
            assert_null(comm);
            assert_int_equal(st, is_victim ? CERO_ERR_NOMEM : CERO_ERR_REMOTE);
        } else {
            assert_ok(cero_comm_barrier(comm));
        }
        cero_comm_destroy(&comm);
        assert_ok(cero_comm_all_reduce_i64(world, CERO_COMM_MAX, &worst, 1));
        assert_ok(cero_comm_all_reduce_i64(world, CERO_COMM_MAX, &member, 1));
        if (worst == CERO_OK) {
            return n;
        }
    }
    fail_msg("allocations never stop");
    return 0;
}

static void test_split(void **state)
{
    CERO_UNUSED(state);
    assert_true(count_faults(make_part, 0) > 5);
    assert_true(count_faults(make_part, cero_comm_size(world) - 1) > 5);
}

static void test_create(void **state)
{
    CERO_UNUSED(state);
    assert_true(count_faults(make_world, 0) > 10);
    assert_true(count_faults(make_world, cero_comm_size(world) - 1) > 10);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_split),
        cmocka_unit_test(test_create),
    };

    CERO_UNUSED(argv);
    params.no_shared_memory = argc > 1;
    params.timeout_seconds = 20.0;
    return run_in_world(&params, tests, CERO_COUNT_OF(tests));
}
