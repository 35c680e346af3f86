/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Nodes are consecutive groups of the asked size, numbered by first rank, in the world and in what is split from
 * it; their ranks see each other's pages, and nobody sees another node's.
 */
// RUN: np=1,2,3,4
// RUN: np=4 args=1
// RUN: np=4 args=2
// RUN: np=4 args=3
// RUN: np=3 args=2 messages
#include "mpi/world.h"

#include "comm/mpi/mpi_impl.h"

static int ranks_per_node; /* 0: all ranks, which run on this machine */
static bool has_messages_only;

static int node_of(int rank)
{
    return ranks_per_node > 0 ? rank / ranks_per_node : 0;
}

static void test_tables(void **state)
{
    int size = cero_comm_size(world);
    int local[8] = {0};

    CERO_UNUSED(state);
    assert_int_equal(cero_comm_node_count(world), node_of(size - 1) + 1);
    for (int r = 0; r < size; r++) {
        int node = node_of(r);
        assert_int_equal(cero_comm_node_of(world, r), node);
        assert_int_equal(cero_comm_local_rank(world, r), local[node]);
        assert_int_equal(cero_comm_rank_at(world, node, local[node]), r);
        local[node]++;
    }
    for (int n = 0; n < cero_comm_node_count(world); n++) {
        assert_int_equal(cero_comm_node_size(world, n), local[n]);
    }
}

/* Ranks in the opposite order: the last node has the first rank, and number 0. */
static void test_tables_of_a_part(void **state)
{
    int size = cero_comm_size(world);
    cero_comm *part = NULL;

    CERO_UNUSED(state);
    assert_ok(cero_comm_split(world, 0, -cero_comm_rank(world), &part));
    assert_int_equal(cero_comm_node_count(part), cero_comm_node_count(world));
    for (int r = 0; r < size; r++) {
        assert_int_equal(cero_comm_node_of(part, r), node_of(size - 1) - node_of(size - 1 - r));
    }
    assert_int_equal(cero_comm_has_shared_memory(part), cero_comm_has_shared_memory(world));
    cero_comm_destroy(&part);
}

/* A flag set by one rank is seen by those of its node. */
static void test_pages(void **state)
{
    int size = cero_comm_size(world);

    CERO_UNUSED(state);
    if (size == 1) {
        return;
    }
    cero_mpi *mpi = cero_mpi_of(world);
    assert_int_equal(cero_comm_has_shared_memory(world), !has_messages_only);
    assert_int_equal((uintptr_t)mpi->own % 64, 0);
    atomic_store(&mpi->own->ready[5], 100 + cero_comm_rank(world));
    assert_ok(cero_comm_barrier(world));
    for (int r = 0; r < size; r++) {
        bool is_near = node_of(r) == node_of(cero_comm_rank(world)) && !has_messages_only;
        if (is_near) {
            assert_non_null(mpi->control[r]);
            assert_int_equal(atomic_load(&mpi->control[r]->ready[5]), 100 + r);
            assert_int_equal(atomic_load(&mpi->control[r]->ready[6]), 0);
        } else {
            assert_null(mpi->control[r]);
        }
    }
    assert_ok(cero_comm_barrier(world));
}

/* Without shared memory one copy per node is refused, with what to change. */
static void test_without_shared_memory(void **state)
{
    cero_comm_buffer *buffer = NULL;
    cero_comm_buffer_params params = {.nbytes = 64, .is_one_per_node = true, .what = "weights"};

    CERO_UNUSED(state);
    if (has_messages_only) {
        assert_fails(cero_comm_buffer_create(world, &params, &buffer), CERO_ERR_INVALID,
                     "weights: one copy per node needs shared memory");
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tables),
        cmocka_unit_test(test_tables_of_a_part),
        cmocka_unit_test(test_pages),
        cmocka_unit_test(test_without_shared_memory),
    };

    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "messages") == 0) {
            has_messages_only = true;
        } else {
            ranks_per_node = (int)strtol(argv[i], NULL, 10);
        }
    }
    cero_comm_params params = {.ranks_per_node = ranks_per_node,
                               .no_shared_memory = has_messages_only};
    return run_in_world(&params, tests, CERO_COUNT_OF(tests));
}
