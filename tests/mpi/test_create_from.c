/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A communicator of the caller's becomes a world without being touched: parts of the ranks have worlds of their
 * own, MPI stays the caller's, and what is no communicator of this MPI is refused.
 */
// RUN: np=1,2,3,4
#include "harness.h"

#include "base/log.h"
#include "comm/comm.h"

#include <mpi.h>

static int rank;
static int size;

static void test_whole(void **state)
{
    MPI_Comm comm = MPI_COMM_WORLD;
    cero_comm *world = NULL;
    int is_finalised = 1;

    CERO_UNUSED(state);
    assert_ok(cero_comm_create_from(&comm, sizeof(comm), NULL, &world));
    assert_int_equal(cero_comm_rank(world), rank);
    assert_int_equal(cero_comm_size(world), size);
    assert_ok(cero_comm_barrier(world));
    cero_comm_destroy(&world);
    assert_int_equal(MPI_Finalized(&is_finalised), MPI_SUCCESS);
    assert_false(is_finalised);
}

/* Two worlds beside each other, of even and of odd ranks; the caller's messages do not meet cero's. */
static void test_parts(void **state)
{
    MPI_Comm part;
    MPI_Request request;
    cero_comm *world = NULL;
    int sent = 40 + rank;
    int got = -1;
    int next;
    int part_rank;
    int part_size;

    CERO_UNUSED(state);
    assert_int_equal(MPI_Comm_split(MPI_COMM_WORLD, rank % 2, -rank, &part), MPI_SUCCESS);
    (void)MPI_Comm_rank(part, &part_rank);
    (void)MPI_Comm_size(part, &part_size);
    next = (part_rank + 1) % part_size;
    assert_ok(cero_comm_create_from(&part, sizeof(part), NULL, &world));
    assert_int_equal(cero_comm_rank(world), part_rank);
    assert_int_equal(cero_comm_size(world), part_size);
    (void)MPI_Irecv(&got, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, part, &request);
    int64_t sum = rank;
    int64_t expected = 0;
    for (int r = rank % 2; r < size; r += 2) {
        expected += r;
    }
    assert_ok(cero_comm_all_reduce_i64(world, CERO_COMM_SUM, &sum, 1));
    assert_int_equal(sum, expected);
    (void)MPI_Send(&sent, 1, MPI_INT, next, 5, part);
    (void)MPI_Wait(&request, MPI_STATUS_IGNORE);
    assert_int_equal(got % 2, rank % 2);
    cero_comm_destroy(&world);
    (void)MPI_Barrier(part);
    (void)MPI_Comm_free(&part);
}

static void test_refused(void **state)
{
    MPI_Comm comm = MPI_COMM_NULL;
    cero_comm *world = NULL;
    cero_comm_params params = {.message_limit = -5};

    CERO_UNUSED(state);
    assert_fails(cero_comm_create_from(&comm, sizeof(comm), NULL, &world), CERO_ERR_INVALID,
                 "the communicator is MPI_COMM_NULL");
    assert_fails(cero_comm_create_from(&comm, sizeof(comm) + 1, NULL, &world), CERO_ERR_INVALID,
                 "build both with the same MPI");
    comm = MPI_COMM_WORLD;
    assert_fails(cero_comm_create_from(&comm, sizeof(comm), &params, &world), CERO_ERR_INVALID,
                 "messages of at most -5 bytes");
    params = (cero_comm_params){.ranks_per_node = -1};
    assert_fails(cero_comm_create_from(&comm, sizeof(comm), &params, &world), CERO_ERR_INVALID,
                 "-1 ranks per node");
    if (size > 1) {
        MPI_Comm inter;
        MPI_Comm half;
        (void)MPI_Comm_split(MPI_COMM_WORLD, rank == 0, 0, &half);
        (void)MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, rank == 0, 9, &inter);
        assert_fails(cero_comm_create_from(&inter, sizeof(inter), NULL, &world), CERO_ERR_INVALID,
                     "between two groups");
        (void)MPI_Comm_free(&inter);
        (void)MPI_Comm_free(&half);
    }
    assert_null(world);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_whole),
        cmocka_unit_test(test_parts),
        cmocka_unit_test(test_refused),
    };
    MPI_Comm comm = MPI_COMM_WORLD;
    cero_comm *world = NULL;

    if (cero_comm_create_from(&comm, sizeof(comm), NULL, &world) != CERO_ERR_INVALID ||
        strstr(cero_error_message(), "call MPI_Init first") == NULL ||
        MPI_Init(&argc, &argv) != MPI_SUCCESS) {
        (void)fprintf(stderr, "before MPI_Init: %s\n", cero_error_message());
        return EXIT_FAILURE;
    }
    (void)MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    (void)MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (cmocka_run_group_tests(tests, NULL, NULL) != 0) {
        (void)MPI_Abort(MPI_COMM_WORLD, EXIT_FAILURE);
    }
    // The wrong order of destroying ends quietly too.
    if (cero_comm_create_from(&comm, sizeof(comm), NULL, &world) != CERO_OK) {
        (void)MPI_Abort(MPI_COMM_WORLD, EXIT_FAILURE);
    }
    cero_log_set_level(CERO_LOG_ERROR);
    (void)MPI_Finalize();
    cero_comm_destroy(&world);
    return EXIT_SUCCESS;
}
