/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Split communicators hold the ranks of a color in the order of key, then rank, work beside their parent and
 * after it, and can be split again.
 */
// RUN: np=1,2,3,4
// RUN: np=4 args=messages
#include "mpi/world.h"

#include "comm/exchange.h"

/* The world's rank of each rank of comm, found by a collective of comm. */
static void gather_world_ranks(cero_comm *comm, int *out)
{
    int mine = cero_comm_rank(world);

    assert_ok(cero_comm_all_gather(comm, &mine, sizeof(mine), out));
}

static void test_even_and_odd(void **state)
{
    int rank = cero_comm_rank(world);
    int size = cero_comm_size(world);
    int members[8];
    cero_comm *part = NULL;

    CERO_UNUSED(state);
    assert_ok(cero_comm_split(world, rank % 2, 0, &part));
    assert_int_equal(cero_comm_size(part), (size - rank % 2 + 1) / 2);
    assert_int_equal(cero_comm_rank(part), rank / 2);
    gather_world_ranks(part, members);
    for (int r = 0; r < cero_comm_size(part); r++) {
        assert_int_equal(members[r], 2 * r + rank % 2);
    }
    assert_ok(cero_comm_barrier(world));
    cero_comm_destroy(&part);
    assert_null(part);
}

/* key turns the order round; equal keys keep it. */
static void test_key(void **state)
{
    int rank = cero_comm_rank(world);
    int size = cero_comm_size(world);
    int members[8];
    cero_comm *part = NULL;

    CERO_UNUSED(state);
    assert_ok(cero_comm_split(world, 7, -rank, &part));
    assert_int_equal(cero_comm_rank(part), size - 1 - rank);
    gather_world_ranks(part, members);
    for (int r = 0; r < size; r++) {
        assert_int_equal(members[r], size - 1 - r);
    }
    cero_comm_destroy(&part);
}

static void test_none(void **state)
{
    cero_comm *part = world;
    bool is_out = cero_comm_rank(world) == 0;
    int members[8];

    CERO_UNUSED(state);
    assert_ok(cero_comm_split(world, is_out ? -1 : 3, 0, &part));
    if (is_out) {
        assert_null(part);
    } else {
        assert_int_equal(cero_comm_size(part), cero_comm_size(world) - 1);
        gather_world_ranks(part, members);
        assert_int_equal(members[0], 1);
    }
    cero_comm_destroy(&part);
}

/* A part of a part, used when neither the part nor its own parent is there any more. */
static void test_outlives_parent(void **state)
{
    int rank = cero_comm_rank(world);
    int members[8];
    cero_comm *part = NULL;
    cero_comm *small = NULL;

    CERO_UNUSED(state);
    assert_ok(cero_comm_split(world, 0, 0, &part));
    assert_ok(cero_comm_split(part, rank / 2, -rank, &small));
    cero_comm_destroy(&part);
    gather_world_ranks(small, members);
    assert_int_equal(members[cero_comm_rank(small)], rank);
    assert_in_range(members[0], rank / 2 * 2, rank / 2 * 2 + 1);
    int64_t sum = 1;
    assert_ok(cero_comm_all_reduce_i64(small, CERO_COMM_SUM, &sum, 1));
    assert_int_equal(sum, cero_comm_size(small));
    cero_comm_destroy(&small);
}

/* Operations of several communicators in turn do not meet each other. */
static void test_interleaved(void **state)
{
    enum {
        ROUNDS = 20
    };
    int rank = cero_comm_rank(world);
    int size = cero_comm_size(world);
    cero_comm *low = NULL;
    cero_comm *all = NULL;

    CERO_UNUSED(state);
    assert_ok(cero_comm_split(world, rank / 2, 0, &low));
    assert_ok(cero_comm_split(world, 0, 0, &all));
    for (int k = 0; k < ROUNDS; k++) {
        int64_t a = rank + k;
        int64_t b = rank + k;
        assert_ok(cero_comm_all_reduce_i64(low, CERO_COMM_MAX, &a, 1));
        assert_ok(cero_comm_all_reduce_i64(all, CERO_COMM_MAX, &b, 1));
        int top = rank / 2 * 2 + 1 < size ? rank / 2 * 2 + 1 : size - 1;
        assert_int_equal(a, top + k);
        assert_int_equal(b, size - 1 + k);
    }
    cero_comm_destroy(&all);
    cero_comm_destroy(&low);
}

/* Each rank gives its part of 256 numbers, and all of the part have the whole; twice. */
static void gather_in(cero_comm *part, cero_device *device, cero_mem *mem)
{
    enum {
        OWN = 256
    };
    int64_t border[9] = {0};
    size_t source_at[8] = {0};
    int size = cero_comm_size(part);
    int members[8];
    cero_comm_buffer *source = NULL;
    cero_comm_buffer *dest = NULL;
    cero_exchange *gather = NULL;

    gather_world_ranks(part, members);
    for (int r = 0; r < size; r++) {
        border[r + 1] = border[r] + OWN;
    }
    assert_ok(cero_comm_buffer_create(
        part,
        &(cero_comm_buffer_params){.mem = mem, .nbytes = OWN * sizeof(float), .what = "source"},
        &source));
    assert_ok(cero_comm_buffer_create(
        part,
        &(cero_comm_buffer_params){
            .mem = mem, .nbytes = (size_t)border[size] * sizeof(float), .what = "dest"},
        &dest));
    assert_ok(cero_gather_create(part,
                                 &(cero_gather_params){.name = "u",
                                                       .device = device,
                                                       .element_size = sizeof(float),
                                                       .border = border,
                                                       .source = source,
                                                       .source_at = source_at,
                                                       .dest = dest},
                                 &gather));
    for (int turn = 0; turn < 2; turn++) {
        float *own = cero_comm_buffer_data(source);
        const float *all = cero_comm_buffer_data(dest);
        for (int i = 0; i < OWN; i++) {
            own[i] = (float)(1000 * turn + 10 * cero_comm_rank(world) + i % 7);
        }
        assert_ok(cero_exchange_start(gather, true));
        assert_ok(cero_exchange_finish(gather));
        for (int i = 0; i < size * OWN; i++) {
            assert_true(all[i] == (float)(1000 * turn + 10 * members[i / OWN] + i % OWN % 7));
        }
        assert_ok(cero_exchange_release(gather));
    }
    cero_exchange_destroy(&gather);
    cero_comm_buffer_destroy(&dest);
    cero_comm_buffer_destroy(&source);
}

/* Exchanges work in parts of every size, one rank included. */
static void test_exchanges(void **state)
{
    int size = cero_comm_size(world);
    cero_device *device = NULL;
    cero_mem *mem = NULL;

    CERO_UNUSED(state);
    assert_ok(cero_device_create(&(cero_device_params){.threads = 1}, &device));
    assert_ok(cero_mem_create(0, &mem));
    for (int members = 1; members <= size; members++) {
        cero_comm *part = NULL;
        assert_ok(cero_comm_split(world, cero_comm_rank(world) / members, 0, &part));
        gather_in(part, device, mem);
        cero_comm_poll(part);
        cero_comm_destroy(&part);
    }
    cero_mem_destroy(&mem);
    cero_device_destroy(&device);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_even_and_odd), cmocka_unit_test(test_key),
        cmocka_unit_test(test_none),         cmocka_unit_test(test_outlives_parent),
        cmocka_unit_test(test_interleaved),  cmocka_unit_test(test_exchanges),
    };
    cero_comm_params params = {.no_shared_memory = argc > 1 && strcmp(argv[1], "messages") == 0};

    return run_in_world(&params, tests, CERO_COUNT_OF(tests));
}
