/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Buffers begin cleared and aligned, near ranks see each other's and one per node is one, accounts hold what
 * the formula says, and what cannot be had is an error on all ranks that says what to change.
 */
// RUN: np=1,2,3,4
#include "mpi/exchange_cases.h"

#include "comm/mpi/mpi_impl.h"

#include <sys/statvfs.h>

static cero_comm_buffer_params params_of(const cases_world *w, size_t nbytes, bool is_one_per_node)
{
    return (cero_comm_buffer_params){.mem = w->mem,
                                     .category = CERO_MEM_PARAM,
                                     .nbytes = nbytes,
                                     .is_one_per_node = is_one_per_node,
                                     .what = "parameters"};
}

static size_t held(const cases_world *w)
{
    return cero_mem_get(w->mem, CERO_MEM_PARAM).current;
}

static int node_of(const cases_world *w, int rank)
{
    return cero_comm_node_of(w->comm, rank);
}

/* Sizes differ from rank to rank, and one is 0. */
static size_t size_of(int rank)
{
    return (size_t)rank * 5000 / 3;
}

static void test_per_rank(void **state)
{
    CERO_UNUSED(state);
    for (size_t k = 0; k < CERO_COUNT_OF(cases_shapes); k++) {
        cases_world w;
        cero_comm_buffer *b = NULL;
        cases_open(&w, &cases_shapes[k]);
        size_t n = size_of(w.rank);
        cero_comm_buffer_params params = params_of(&w, n, false);
        assert_ok(cero_comm_buffer_create(w.comm, &params, &b));
        unsigned char *mine = cero_comm_buffer_data(b);
        assert_non_null(mine);
        assert_int_equal((uintptr_t)mine % CERO_MEM_ALIGNMENT, 0);
        assert_int_equal(held(&w), n);
        assert_int_equal(n, cero_comm_buffer_bytes(w.comm, n, false));
        for (size_t i = 0; i < n; i++) {
            assert_int_equal(mine[i], 0);
        }
        memset(mine, w.rank + 1, n);
        assert_ok(cero_comm_barrier(w.comm));
        for (int r = 0; r < w.size && w.size > 1; r++) {
            bool is_near = r == w.rank || (cero_comm_has_shared_memory(w.comm) &&
                                           node_of(&w, r) == node_of(&w, w.rank));
            const unsigned char *theirs = cero_mpi_buffer_of(b, r);
            assert_true((theirs != NULL) == is_near);
            for (size_t i = 0; i < size_of(r) && is_near; i++) {
                assert_int_equal(theirs[i], r + 1);
            }
        }
        assert_ok(cero_comm_barrier(w.comm));
        cero_comm_buffer_destroy(&b);
        assert_int_equal(held(&w), 0);
        cases_close(&w);
    }
}

/* Every rank of a node writes its part of the one block and reads all of it. */
static void check_block(const cases_world *w, unsigned char *block, size_t n)
{
    int node = node_of(w, w->rank);
    size_t ranks = (size_t)cero_comm_node_size(w->comm, node);
    size_t local = (size_t)cero_comm_local_rank(w->comm, w->rank);

    assert_int_equal((uintptr_t)block % CERO_MEM_ALIGNMENT, 0);
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(block[i], 0);
    }
    assert_ok(cero_comm_barrier(w->comm));
    for (size_t i = local; i < n; i += ranks) {
        block[i] = (unsigned char)(i % ranks + 1);
    }
    assert_ok(cero_comm_barrier(w->comm));
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(block[i], i % ranks + 1);
    }
    assert_ok(cero_comm_barrier(w->comm));
}

static void test_one_per_node(void **state)
{
    static const size_t sizes[] = {0, 1, 64, 4097, 100000};

    CERO_UNUSED(state);
    for (size_t k = 0; k < CERO_COUNT_OF(cases_shapes); k++) {
        cases_world w;
        cases_open(&w, &cases_shapes[k]);
        for (size_t i = 0; i < CERO_COUNT_OF(sizes); i++) {
            cero_comm_buffer *b = NULL;
            cero_comm_buffer_params params = params_of(&w, sizes[i], true);
            if (w.size > 1 && w.params.no_shared_memory) {
                assert_fails(cero_comm_buffer_create(w.comm, &params, &b), CERO_ERR_INVALID,
                             "cero.share_within_node");
                continue;
            }
            assert_ok(cero_comm_buffer_create(w.comm, &params, &b));
            check_block(&w, cero_comm_buffer_data(b), sizes[i]);
            assert_int_equal(held(&w), cero_comm_buffer_bytes(w.comm, sizes[i], true));
            int64_t sum = (int64_t)held(&w);
            assert_ok(cero_comm_all_reduce_i64(w.comm, CERO_COMM_SUM, &sum, 1));
            assert_int_equal(sum, (int64_t)sizes[i] * cero_comm_node_count(w.comm));
            cero_comm_buffer_destroy(&b);
            assert_int_equal(held(&w), 0);
        }
        cases_close(&w);
    }
}

/* A node has one size for its one copy. */
static void test_sizes_differ(void **state)
{
    cases_world w;
    cero_comm_buffer *b = NULL;

    CERO_UNUSED(state);
    cases_open(&w, &cases_shapes[0]);
    if (w.size > 1 && cero_comm_has_shared_memory(w.comm)) {
        cero_comm_buffer_params params = params_of(&w, 1000 + 64 * (size_t)w.rank, true);
        assert_fails(cero_comm_buffer_create(w.comm, &params, &b), CERO_ERR_INVALID, "1064");
        assert_null(b);
        assert_int_equal(held(&w), 0);
    }
    cases_close(&w);
}

/* One rank's account is full: all ranks go without, and can go on. */
static void test_full_account(void **state)
{
    CERO_UNUSED(state);
    for (size_t k = 0; k < CERO_COUNT_OF(cases_shapes); k++) {
        cases_world w;
        cero_mem *small = NULL;
        cero_comm_buffer *b = NULL;
        cases_open(&w, &cases_shapes[k]);
        assert_ok(cero_mem_create(1000, &small));
        bool is_poor = w.rank == w.size - 1;
        cero_comm_buffer_params params = params_of(&w, 5000, false);
        params.mem = is_poor ? small : w.mem;
        assert_fails(cero_comm_buffer_create(w.comm, &params, &b),
                     is_poor ? CERO_ERR_NOMEM : CERO_ERR_REMOTE, "5000");
        assert_null(b);
        assert_int_equal(held(&w), 0);
        params.nbytes = 900;
        assert_ok(cero_comm_buffer_create(w.comm, &params, &b));
        cero_comm_buffer_destroy(&b);
        cero_mem_destroy(&small);
        cases_close(&w);
    }
}

/* More than the file system of shared memory has: a message instead of a bus error. */
static void test_full_node(void **state)
{
    cases_world w;
    cero_comm_buffer *b = NULL;
    struct statvfs fs;

    CERO_UNUSED(state);
    if (statvfs("/dev/shm", &fs) != 0) {
        print_message("skipped: /dev/shm is not there\n");
        skip();
    }
    cases_open(&w, &cases_shapes[0]);
    if (w.size > 1 && cero_comm_has_shared_memory(w.comm)) {
        // More than it could ever have: what is free changes with every other process.
        size_t room = (size_t)fs.f_blocks * fs.f_frsize;
        cero_comm_buffer_params params = params_of(&w, room, false);
        for (int kind = 0; kind < 2; kind++) {
            params.is_one_per_node = kind == 1;
            params.nbytes = kind == 1 ? room + (1 << 20) : room;
            assert_fails(cero_comm_buffer_create(w.comm, &params, &b), CERO_ERR_NOMEM,
                         "remount,size");
            assert_non_null(strstr(cero_error_message(), "/dev/shm"));
            assert_non_null(strstr(cero_error_message(), "--no-shared-memory"));
            assert_null(b);
            assert_int_equal(held(&w), 0);
        }
    }
    cases_close(&w);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_per_rank),     cmocka_unit_test(test_one_per_node),
        cmocka_unit_test(test_sizes_differ), cmocka_unit_test(test_full_account),
        cmocka_unit_test(test_full_node),
    };

    return cases_run(argc, argv, tests, CERO_COUNT_OF(tests));
}
