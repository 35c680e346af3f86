/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the tests of exchanges share: worlds of every shape, random borders and values that each rank can make
 * for all ranks, and counting messages the slow way.
 */
#ifndef CERO_TESTS_MPI_EXCHANGE_CASES_H
#define CERO_TESTS_MPI_EXCHANGE_CASES_H

#include "harness.h"

#include "base/rng.h"
#include "comm/comm.h"
#include "comm/exchange.h"

#include <mpi.h>

enum {
    MAX_RANKS = 16,
    GUARD = 0x5a
};

/* A world, and what its exchanges need. */
typedef struct cases_world {
    cero_comm_params params;
    cero_comm *comm;
    cero_device *device;
    cero_mem *mem;
    int rank;
    int size;
} cases_world;

static const cero_comm_params cases_shapes[] = {
    {.ranks_per_node = 0},
    {.ranks_per_node = 1},
    {.ranks_per_node = 2},
    {.ranks_per_node = 3},
    {.ranks_per_node = 2, .message_limit = 1000},
    {.no_shared_memory = true},
    {.no_shared_memory = true, .message_limit = 1000},
};

static inline void cases_open(cases_world *w, const cero_comm_params *params)
{
    MPI_Comm world = MPI_COMM_WORLD;

    *w = (cases_world){.params = *params};
    assert_ok(cero_comm_create_from(&world, sizeof(world), params, &w->comm));
    assert_ok(cero_device_create(&(cero_device_params){.threads = 2}, &w->device));
    assert_ok(cero_mem_create(0, &w->mem));
    w->rank = cero_comm_rank(w->comm);
    w->size = cero_comm_size(w->comm);
    assert_true(w->size <= MAX_RANKS);
}

static inline void cases_close(cases_world *w)
{
    cero_comm_destroy(&w->comm);
    cero_device_destroy(&w->device);
    cero_mem_destroy(&w->mem);
}

static inline uint32_t cases_draw(uint64_t seed, uint64_t element)
{
    return cero_rng_word(cero_rng_make_key(77, 0, 0, 0), seed, element);
}

/* Borders at multiples of 256 but for the range's end; some parts are empty, often the last. */
static inline int64_t cases_borders(uint64_t seed, int size, int64_t *border)
{
    int64_t numel = 0;

    border[0] = 0;
    for (int r = 0; r < size; r++) {
        uint32_t blocks = cases_draw(seed, 100 + (uint64_t)r) % 9;
        numel += blocks < 2 ? 0 : (int64_t)blocks * 256;
        border[r + 1] = numel;
    }
    int64_t tail = cases_draw(seed, 99) % 256;
    for (int r = size; r > 0 && border[r] == numel; r--) {
        border[r] = numel > tail ? numel - tail : numel;
    }
    return border[size];
}

/* Values of many sizes, so that another order of additions gives other bits. */
static inline void cases_values(cero_device *device, uint64_t seed, int rank, int round,
                                cero_dtype dtype, int64_t begin, int64_t n, void *out)
{
    float *x = cero_new((size_t)n + 1, sizeof(float));
    uint64_t sample = (seed * MAX_RANKS + (uint64_t)rank) * 8 + (uint64_t)round;

    assert_non_null(x);
    for (int64_t i = 0; i < n; i++) {
        uint32_t word = cases_draw(1000 + sample, (uint64_t)(begin + i));
        float scale = (float)(1u << (word % 14)) / 64;
        x[i] = (cero_rng_uniform_f32(word) - 0.5f) * scale;
    }
    cero_device_kernels(device)->from_f32[dtype](n, x, out);
    cero_delete(x);
}

/* How many messages carry n bytes, sent piece by piece, each in messages of at most limit bytes. */
static inline int64_t cases_messages(int64_t n, int64_t piece, int64_t limit)
{
    int64_t count = 0;

    limit = limit > 0 ? limit : (int64_t)1 << 30;
    while (n > 0) {
        int64_t left = n < piece ? n : piece;
        for (n -= left; left > 0; left -= limit) {
            count++;
        }
    }
    return count;
}

/* Ranks meet here at random distances from each other. */
static inline void cases_dawdle(const cases_world *w, uint64_t seed)
{
    uint32_t turns = cases_draw(seed, 500 + (uint64_t)w->rank) % 20;

    for (uint32_t k = 0; k < turns; k++) {
        cero_comm_poll(w->comm);
    }
}

/* Runs the tests on all ranks. A rank whose test fails ends them all: the others would wait for it. */
static inline int cases_run(int argc, char **argv, const struct CMUnitTest *tests, size_t count)
{
    int failed = 0;

    if (MPI_Init(&argc, &argv) != MPI_SUCCESS) {
        return EXIT_FAILURE;
    }
    for (size_t i = 0; i < count && failed == 0; i++) {
        failed = _cmocka_run_group_tests(tests[i].name, &tests[i], 1, NULL, NULL);
    }
    if (failed != 0) {
        (void)MPI_Abort(MPI_COMM_WORLD, EXIT_FAILURE);
    }
    (void)MPI_Finalize();
    return EXIT_SUCCESS;
}

#endif
