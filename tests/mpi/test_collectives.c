/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Collectives and messages between processes give what their contract says, for any number of ranks, whole or
 * split into messages of 1000 bytes, with shared memory and without.
 */
// RUN: np=1,2,3,4
// RUN: np=3 args=split
// RUN: np=3 args=split messages
#include "mpi/world.h"

#include "base/rng.h"

enum {
    MANY = 5003 /* elements: several messages of 1000 bytes, and a rest */
};

static void test_world(void **state)
{
    int sum = 0;

    CERO_UNUSED(state);
    assert_int_equal(cero_comm_size(world), promised_ranks());
    assert_in_range(cero_comm_rank(world), 0, cero_comm_size(world) - 1);
    assert_false(cero_comm_is_virtual(world));
    assert_string_equal(cero_comm_transport_name(world), promised_ranks() == 1 ? "self" : "mpi");
    for (int n = 0; n < cero_comm_node_count(world); n++) {
        sum += cero_comm_node_size(world, n);
    }
    assert_int_equal(sum, cero_comm_size(world));
    assert_int_equal(cero_comm_failed_rank(world), -1);
}

static int64_t value_of(int rank, int64_t i)
{
    return (rank + 1) * 1000003 * (i % 17 - 8) + rank;
}

static void check_reduction(cero_comm_reduction reduction, int64_t n)
{
    static int64_t values[MANY];
    int size = cero_comm_size(world);

    for (int64_t i = 0; i < n; i++) {
        values[i] = value_of(cero_comm_rank(world), i);
    }
    assert_ok(cero_comm_all_reduce_i64(world, reduction, values, n));
    for (int64_t i = 0; i < n; i++) {
        int64_t expected = value_of(0, i);
        for (int r = 1; r < size; r++) {
            int64_t v = value_of(r, i);
            bool is_better = reduction == CERO_COMM_MIN ? v < expected : v > expected;
            expected = reduction == CERO_COMM_SUM ? expected + v : is_better ? v : expected;
        }
        assert_int_equal(values[i], expected);
    }
}

static void test_all_reduce(void **state)
{
    CERO_UNUSED(state);
    for (int reduction = CERO_COMM_SUM; reduction <= CERO_COMM_MAX; reduction++) {
        check_reduction((cero_comm_reduction)reduction, 0);
        check_reduction((cero_comm_reduction)reduction, 1);
        check_reduction((cero_comm_reduction)reduction, 125);
        check_reduction((cero_comm_reduction)reduction, MANY);
    }
}

static unsigned char byte_of(int rank, size_t i)
{
    return (unsigned char)(i * 7 + i / 251 + (size_t)rank * 31);
}

static void fill(unsigned char *data, size_t nbytes, int rank)
{
    for (size_t i = 0; i < nbytes; i++) {
        data[i] = byte_of(rank, i);
    }
}

static void check(const unsigned char *data, size_t nbytes, int rank)
{
    for (size_t i = 0; i < nbytes; i++) {
        if (data[i] != byte_of(rank, i)) {
            fail_msg("byte %zu of %zu from rank %d is wrong", i, nbytes, rank);
        }
    }
}

static const size_t sizes[] = {0, 1, 333, 999, 1000, 1001, 2000, 40009};

static void test_all_gather(void **state)
{
    size_t ranks = (size_t)cero_comm_size(world);

    CERO_UNUSED(state);
    for (size_t k = 0; k < CERO_COUNT_OF(sizes); k++) {
        size_t n = sizes[k];
        unsigned char *mine = cero_new(n + 1, 1);
        unsigned char *all = cero_new(ranks * n + 1, 1);
        fill(mine, n, cero_comm_rank(world));
        all[ranks * n] = 99;
        assert_ok(cero_comm_all_gather(world, mine, n, all));
        for (size_t r = 0; r < ranks; r++) {
            check(all + r * n, n, (int)r);
        }
        assert_int_equal(all[ranks * n], 99);
        cero_delete(mine);
        cero_delete(all);
    }
}

static void test_broadcast(void **state)
{
    CERO_UNUSED(state);
    for (size_t k = 0; k < CERO_COUNT_OF(sizes); k++) {
        for (int root = 0; root < cero_comm_size(world); root++) {
            size_t n = sizes[k];
            unsigned char *data = cero_new(n + 1, 1);
            if (cero_comm_rank(world) == root) {
                fill(data, n, root);
            }
            data[n] = 99;
            assert_ok(cero_comm_broadcast(world, data, n, root));
            check(data, n, root);
            assert_int_equal(data[n], 99);
            cero_delete(data);
        }
    }
    assert_fails(cero_comm_broadcast(world, NULL, 0, cero_comm_size(world)), CERO_ERR_INVALID,
                 "broadcast from rank");
}

/* Round the ring. */
static void test_messages(void **state)
{
    int size = cero_comm_size(world);
    int rank = cero_comm_rank(world);
    unsigned char *data = cero_new(50000, 1);

    CERO_UNUSED(state);
    for (size_t k = 0; k < CERO_COUNT_OF(sizes) && size > 1; k++) {
        size_t n = sizes[k];
        int next = (rank + 1) % size;
        int before = (rank + size - 1) % size;
        if (rank == 0) {
            fill(data, n, 0);
            assert_ok(cero_comm_send(world, next, 5, data, n));
        }
        assert_ok(cero_comm_recv(world, before, 5, data, n));
        check(data, n, before);
        if (rank != 0) {
            fill(data, n, rank);
            assert_ok(cero_comm_send(world, next, 5, data, n));
        }
    }
    assert_fails(cero_comm_send(world, rank, 5, data, 1), CERO_ERR_INVALID, "cannot send to rank");
    assert_fails(cero_comm_recv(world, size, 5, data, 1), CERO_ERR_INVALID,
                 "cannot receive from rank");
    cero_delete(data);
}

/* Tags tell messages apart, in whatever order they are received. */
static void test_tags(void **state)
{
    int first = 1;
    int second = 2;

    CERO_UNUSED(state);
    if (cero_comm_size(world) == 1) {
        return;
    }
    if (cero_comm_rank(world) == 0) {
        assert_ok(cero_comm_send(world, 1, 0, &first, sizeof(first)));
        assert_ok(cero_comm_send(world, 1, 999, &second, sizeof(second)));
    } else if (cero_comm_rank(world) == 1) {
        int got = 0;
        assert_ok(cero_comm_recv(world, 0, 999, &got, sizeof(got)));
        assert_int_equal(got, second);
        assert_ok(cero_comm_recv(world, 0, 0, &got, sizeof(got)));
        assert_int_equal(got, first);
    }
    assert_fails(cero_comm_send(world, cero_comm_rank(world) == 0, 1000, &first, sizeof(first)),
                 CERO_ERR_INVALID, "tag 1000; expected 0 .. 999");
}

/* Exact sums have the bits that one rank with all numbers has. */
static void test_all_reduce_exact(void **state)
{
    cero_exact sum;
    cero_exact whole;
    int size = cero_comm_size(world);

    CERO_UNUSED(state);
    cero_exact_clear(&sum);
    cero_exact_clear(&whole);
    for (int i = 0; i < 300; i++) {
        double x = ((double)((i * 7919) % 1009) - 500.0) * (i % 3 == 0 ? 1e20 : 1e-9);
        cero_exact_add(&whole, x);
        if (i % size == cero_comm_rank(world)) {
            cero_exact_add(&sum, x);
        }
    }
    assert_ok(cero_comm_all_reduce_exact(world, &sum, 1));
    double a = cero_exact_round(&sum);
    double b = cero_exact_round(&whole);
    assert_memory_equal(&a, &b, sizeof(a));
}

static void test_agree(void **state)
{
    int last = cero_comm_size(world) - 1;
    cero_status local = CERO_OK;

    CERO_UNUSED(state);
    assert_ok(cero_comm_agree(world, CERO_OK));
    if (cero_comm_rank(world) == last) {
        local = CERO_FAIL(CERO_ERR_IO, "the disk of rank %d is full", last);
    }
    cero_status st = cero_comm_agree(world, local);
    assert_int_equal(st, cero_comm_rank(world) == last ? CERO_ERR_IO : CERO_ERR_REMOTE);
    assert_non_null(strstr(cero_error_message(), "the disk of rank"));
    // An agreed failure leaves the communicator as it was.
    assert_ok(cero_comm_barrier(world));
}

static void test_check_same(void **state)
{
    char data[40] = "the same";
    int last = cero_comm_size(world) - 1;

    CERO_UNUSED(state);
    assert_ok(cero_comm_check_same(world, "the config", data, sizeof(data)));
    data[3] = cero_comm_rank(world) == last && last > 0 ? '-' : ' ';
    if (last > 0) {
        assert_fails(cero_comm_check_same(world, "the config", data, sizeof(data)),
                     CERO_ERR_INVALID, "the config of rank");
    }
}

static void test_counters(void **state)
{
    cero_comm_counter before = cero_comm_get_counter(world, CERO_COMM_ALL_GATHER);
    char mine[10] = "";
    char all[10 * 8];

    CERO_UNUSED(state);
    assert_ok(cero_comm_all_gather(world, mine, sizeof(mine), all));
    cero_comm_counter after = cero_comm_get_counter(world, CERO_COMM_ALL_GATHER);
    int peers = cero_comm_size(world) - 1;
    assert_int_equal(after.calls - before.calls, peers > 0);
    assert_int_equal(after.bytes - before.bytes, 10 * peers);
}

/* What a rank did last, newest last. */
static void test_recent(void **state)
{
    cero_text text = {0};

    CERO_UNUSED(state);
    cero_comm_note(world, "step", 12);
    assert_ok(cero_comm_barrier(world));
    cero_comm_write_recent(world, &text);
    char *note = strstr(text.data, "step 12");
    assert_non_null(note);
    if (cero_comm_size(world) > 1) {
        assert_non_null(strstr(note, "barrier, 0 bytes, done"));
    }
    cero_text_cleanup(&text);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_world),
        cmocka_unit_test(test_all_reduce),
        cmocka_unit_test(test_all_gather),
        cmocka_unit_test(test_broadcast),
        cmocka_unit_test(test_messages),
        cmocka_unit_test(test_tags),
        cmocka_unit_test(test_all_reduce_exact),
        cmocka_unit_test(test_agree),
        cmocka_unit_test(test_check_same),
        cmocka_unit_test(test_counters),
        cmocka_unit_test(test_recent),
    };
    cero_comm_params params = {0};

    for (int i = 1; i < argc; i++) {
        params.message_limit = strcmp(argv[i], "split") == 0 ? 1000 : params.message_limit;
        params.no_shared_memory = params.no_shared_memory || strcmp(argv[i], "messages") == 0;
    }
    return run_in_world(&params, tests, CERO_COUNT_OF(tests));
}
