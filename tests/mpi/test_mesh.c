/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The mesh puts ranks where Megatron puts them, its communicators hold the ranks of a line in the order of their
 * places, in a real world and in one that does not exist, and sizes that do not fit are refused with the numbers.
 */
// RUN: np=1,2,4,6
#include "mpi/world.h"

#include "comm/mesh.h"

static int place_of(int rank, const int *size, int axis)
{
    for (int a = 0; a < axis; a++) {
        rank /= size[a];
    }
    return rank % size[axis];
}

/* Checks the lines of this rank: each holds the ranks that differ along one axis alone. */
static void check_mesh(const cero_mesh_params *params)
{
    const int size[CERO_MESH_AXIS_COUNT] = {params->tp, params->sp, params->dp, params->pp};
    int rank = cero_comm_rank(world);
    cero_mesh *mesh = NULL;

    assert_ok(cero_mesh_create(world, params, &mesh));
    for (int a = 0; a < CERO_MESH_AXIS_COUNT; a++) {
        cero_comm *line = cero_mesh_comm(mesh, (cero_mesh_axis)a);
        int members[8];
        assert_int_equal(cero_mesh_size(mesh, (cero_mesh_axis)a), size[a]);
        assert_int_equal(cero_mesh_place(mesh, (cero_mesh_axis)a), place_of(rank, size, a));
        assert_int_equal(cero_comm_size(line), size[a]);
        assert_int_equal(cero_comm_rank(line), place_of(rank, size, a));
        assert_ok(cero_comm_all_gather(line, &rank, sizeof(rank), members));
        for (int i = 0; i < size[a]; i++) {
            int place[CERO_MESH_AXIS_COUNT];
            for (int b = 0; b < CERO_MESH_AXIS_COUNT; b++) {
                place[b] = b == a ? i : place_of(rank, size, b);
            }
            assert_int_equal(members[i], cero_mesh_rank_at(mesh, place));
        }
    }
    assert_ptr_equal(cero_mesh_world(mesh), world);
    cero_mesh_destroy(&mesh);
    assert_null(mesh);
}

/* All ways to write the world as a product of four sizes. */
static void test_all_shapes(void **state)
{
    int ranks = cero_comm_size(world);

    CERO_UNUSED(state);
    for (int tp = 1; tp <= ranks; tp++) {
        for (int sp = 1; tp * sp <= ranks; sp++) {
            for (int dp = 1; tp * sp * dp <= ranks; dp++) {
                if (ranks % (tp * sp * dp) == 0) {
                    check_mesh(&(cero_mesh_params){
                        .tp = tp, .sp = sp, .dp = dp, .pp = ranks / (tp * sp * dp)});
                }
            }
        }
    }
}

static void test_default(void **state)
{
    cero_mesh *mesh = NULL;

    CERO_UNUSED(state);
    assert_ok(cero_mesh_create(world, &(cero_mesh_params){0}, &mesh));
    assert_int_equal(cero_mesh_size(mesh, CERO_MESH_DP), cero_comm_size(world));
    assert_ptr_equal(cero_mesh_comm(mesh, CERO_MESH_DP), world);
    cero_mesh_destroy(&mesh);
}

static void test_refused(void **state)
{
    cero_mesh *mesh = NULL;
    int ranks = cero_comm_size(world);

    CERO_UNUSED(state);
    assert_fails(cero_mesh_create(world, &(cero_mesh_params){.tp = ranks + 1}, &mesh),
                 CERO_ERR_INVALID, "expected 1 .. ");
    assert_fails(cero_mesh_create(world, &(cero_mesh_params){.pp = -1}, &mesh), CERO_ERR_INVALID,
                 "pp is -1 in a world of");
    if (ranks == 4) {
        assert_fails(cero_mesh_create(world, &(cero_mesh_params){.tp = 3}, &mesh), CERO_ERR_INVALID,
                     "tp 3, sp 1 and pp 1 need a multiple of 3 ranks, and the world has 4");
        assert_fails(cero_mesh_create(world, &(cero_mesh_params){.tp = 2, .dp = 4}, &mesh),
                     CERO_ERR_INVALID,
                     "tp 2, sp 1, dp 4 and pp 1 do not multiply to the 4 ranks of the world");
    }
    assert_null(mesh);
}

/* Megatron's example: 16 ranks, tp 2, dp 2, pp 4. Rank 9 is (1, 0, 0, 2). */
static void test_virtual(void **state)
{
    cero_comm *comm = NULL;
    cero_mesh *mesh = NULL;

    CERO_UNUSED(state);
    assert_ok(cero_comm_create_virtual(9, 16, &(cero_comm_params){.ranks_per_node = 4}, &comm));
    assert_ok(cero_mesh_create(comm, &(cero_mesh_params){.tp = 2, .pp = 4}, &mesh));
    assert_int_equal(cero_mesh_size(mesh, CERO_MESH_DP), 2);
    assert_int_equal(cero_mesh_place(mesh, CERO_MESH_TP), 1);
    assert_int_equal(cero_mesh_place(mesh, CERO_MESH_DP), 0);
    assert_int_equal(cero_mesh_place(mesh, CERO_MESH_PP), 2);
    // The data group is ranks 9 and 11 of one node, the pipeline 1, 5, 9, 13 of four.
    assert_int_equal(cero_comm_node_count(cero_mesh_comm(mesh, CERO_MESH_DP)), 1);
    assert_int_equal(cero_comm_node_count(cero_mesh_comm(mesh, CERO_MESH_PP)), 4);
    assert_int_equal(cero_comm_rank(cero_mesh_comm(mesh, CERO_MESH_PP)), 2);
    assert_true(cero_comm_is_virtual(cero_mesh_comm(mesh, CERO_MESH_TP)));
    cero_mesh_destroy(&mesh);
    cero_comm_destroy(&comm);
}

/* Nodes of 3 cut the line 0, 2, 4, 6 unevenly. */
static void test_uneven_virtual(void **state)
{
    cero_comm *comm = NULL;
    cero_mesh *mesh = NULL;

    CERO_UNUSED(state);
    assert_ok(cero_comm_create_virtual(0, 8, &(cero_comm_params){.ranks_per_node = 3}, &comm));
    assert_fails(cero_mesh_create(comm, &(cero_mesh_params){.tp = 2}, &mesh), CERO_ERR_UNSUPPORTED,
                 "the 4 ranks along dp lie unevenly over the nodes");
    assert_null(mesh);
    cero_comm_destroy(&comm);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_shapes),     cmocka_unit_test(test_default),
        cmocka_unit_test(test_refused),        cmocka_unit_test(test_virtual),
        cmocka_unit_test(test_uneven_virtual),
    };

    return run_in_world(NULL, tests, CERO_COUNT_OF(tests));
}
