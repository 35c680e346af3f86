/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A gather brings every rank the whole range, for every shape of nodes and message limit, from shards and in
 * place, into memory of each rank and of each node; it writes nothing else, counts what it sends, and a rank
 * of a world that does not exist counts the same.
 */
// RUN: np=1,2,3,4,6
#include "mpi/exchange_cases.h"

#include <mpi.h>

typedef struct gather_case {
    uint64_t seed;
    size_t size; /* of an element */
    int64_t border[MAX_RANKS + 1];
    size_t source_at[MAX_RANKS];
    int64_t numel;
    size_t offset; /* of dest */
    bool is_in_place;
    bool is_one_per_node;
    int rounds;
} gather_case;

static gather_case draw_case(const cases_world *w, uint64_t seed)
{
    static const size_t sizes[] = {1, 2, 4};
    gather_case c = {.seed = seed};

    c.size = sizes[seed % 3];
    c.numel = cases_borders(seed, w->size, c.border);
    c.offset = cases_draw(seed, 1) % 3 * 64;
    c.is_in_place = seed % 2 == 1;
    c.is_one_per_node = seed / 2 % 2 == 1 && (w->size == 1 || !w->params.no_shared_memory);
    c.rounds = 1 + (int)(cases_draw(seed, 2) % 3);
    for (int r = 0; r < w->size; r++) {
        c.source_at[r] = c.is_in_place ? c.offset + (size_t)c.border[r] * c.size
                                       : cases_draw(seed, 20 + (uint64_t)r) % 4 * 64;
    }
    return c;
}

static unsigned char value(const gather_case *c, int round, size_t at)
{
    return (unsigned char)cases_draw(c->seed * 8 + (uint64_t)round, 5000 + at);
}

static int64_t part_bytes(const gather_case *c, int rank)
{
    return (c->border[rank + 1] - c->border[rank]) * (int64_t)c->size;
}

/* What this rank's counter must move by: who gets which part from whom. */
static cero_comm_counter expected_counter(const cases_world *w, const gather_case *c)
{
    cero_comm_counter k = {.calls = 1};

    for (int j = 0; j < w->size; j++) {
        int64_t nbytes = part_bytes(c, j);
        for (int to = 0; to < w->size; to++) {
            int node = cero_comm_node_of(w->comm, to);
            bool has_left = cero_comm_node_of(w->comm, j) != node;
            int server = cero_comm_rank_at(w->comm, node,
                                           cero_comm_local_rank(w->comm, j) %
                                               cero_comm_node_size(w->comm, node));
            // Who hands part j to rank `to`: its owner, or the rank that took it into the node.
            int from = has_left && to != server && !w->params.no_shared_memory ? server : j;
            if (to == j || from != w->rank) {
                continue;
            }
            k.bytes += nbytes;
            k.bytes_between_nodes += has_left && from == j ? nbytes : 0;
            if (w->params.no_shared_memory || (has_left && from == j)) {
                k.messages += cases_messages(nbytes, nbytes, w->params.message_limit);
            }
        }
    }
    return k;
}

static void check_counter(cero_comm *comm, cero_comm_counter before, const cero_comm_counter *moved,
                          int runs)
{
    cero_comm_counter now = cero_comm_get_counter(comm, CERO_COMM_ALL_GATHER_UNIT);

    if (cero_comm_size(comm) == 1) {
        assert_int_equal(now.calls, 0);
        return;
    }
    assert_int_equal(now.calls - before.calls, runs * moved->calls);
    assert_int_equal(now.bytes - before.bytes, runs * moved->bytes);
    assert_int_equal(now.messages - before.messages, runs * moved->messages);
    assert_int_equal(now.bytes_between_nodes - before.bytes_between_nodes,
                     runs * moved->bytes_between_nodes);
}

static void check_virtual(const cases_world *w, cero_gather_params params,
                          const cero_comm_counter *moved)
{
    cero_comm *comm = NULL;
    cero_exchange *x = NULL;

    assert_ok(cero_comm_create_virtual(w->rank, w->size, &w->params, &comm));
    assert_ok(cero_gather_create(comm, &params, &x));
    assert_ok(cero_exchange_start(x, true));
    assert_ok(cero_exchange_finish(x));
    assert_ok(cero_exchange_release(x));
    check_counter(comm, (cero_comm_counter){0}, moved, 1);
    cero_exchange_destroy(&x);
    cero_comm_destroy(&comm);
}

static void check_range(const gather_case *c, const unsigned char *dest, int round)
{
    size_t nbytes = (size_t)c->numel * c->size;

    for (size_t i = 0; i < c->offset; i++) {
        assert_int_equal(dest[i], GUARD);
    }
    for (size_t i = 0; i < nbytes; i++) {
        if (dest[c->offset + i] != value(c, round, i)) {
            fail_msg("byte %zu of round %d is %d, expected %d", i, round, dest[c->offset + i],
                     value(c, round, i));
        }
    }
    for (size_t i = 0; i < 64; i++) {
        assert_int_equal(dest[c->offset + nbytes + i], GUARD);
    }
}

/* The own part, new in each round, where the exchange expects it; what is there of others is spoiled. */
static void fill_source(const cases_world *w, const gather_case *c, unsigned char *source,
                        unsigned char *dest, int round)
{
    size_t begin = (size_t)c->border[w->rank] * c->size;
    size_t nbytes = (size_t)part_bytes(c, w->rank);

    if (!c->is_one_per_node) {
        memset(dest + c->offset, 0xee, (size_t)c->numel * c->size);
    }
    for (size_t i = 0; i < nbytes; i++) {
        source[c->source_at[w->rank] + i] = value(c, round, begin + i);
    }
}

/*
 * Memory that a whole node reads may change when all its ranks have read it: the next round begins with a
 * barrier where a rank writes into it before start.
 */
static void run_rounds(const cases_world *w, const gather_case *c, cero_exchange *x,
                       unsigned char *source, unsigned char *dest)
{
    for (int round = 0; round < c->rounds; round++) {
        if (c->is_one_per_node && c->is_in_place) {
            assert_ok(cero_comm_barrier(w->comm));
        }
        fill_source(w, c, source, dest, round);
        cases_dawdle(w, c->seed * 3);
        assert_ok(cero_exchange_start(x, false));
        cases_dawdle(w, c->seed * 3 + 1);
        assert_ok(cero_exchange_finish(x));
        check_range(c, dest, round);
        cases_dawdle(w, c->seed * 3 + 2);
        assert_ok(cero_exchange_release(x));
    }
}

static cero_comm_buffer *make_buffer(cases_world *w, size_t nbytes, bool is_one_per_node)
{
    cero_comm_buffer *buffer = NULL;

    assert_ok(cero_comm_buffer_create(w->comm,
                                      &(cero_comm_buffer_params){.mem = w->mem,
                                                                 .category = CERO_MEM_PARAM,
                                                                 .nbytes = nbytes,
                                                                 .is_one_per_node = is_one_per_node,
                                                                 .what = "parameters"},
                                      &buffer));
    return buffer;
}

static void run_case(cases_world *w, const gather_case *c)
{
    size_t whole = c->offset + (size_t)c->numel * c->size + 64;
    size_t shard = c->source_at[w->rank] + (size_t)part_bytes(c, w->rank);
    cero_comm_buffer *dest = make_buffer(w, whole, c->is_one_per_node);
    cero_comm_buffer *shards = c->is_in_place ? NULL : make_buffer(w, shard, false);
    cero_exchange *x = NULL;
    cero_gather_params params = {.name = "unit",
                                 .device = w->device,
                                 .element_size = c->size,
                                 .border = c->border,
                                 .source = c->is_in_place ? dest : shards,
                                 .source_at = c->source_at,
                                 .dest = dest,
                                 .dest_offset = c->offset};

    memset(cero_comm_buffer_data(dest), GUARD, whole);
    assert_ok(cero_comm_barrier(w->comm));
    assert_ok(cero_gather_create(w->comm, &params, &x));
    cero_comm_counter before = cero_comm_get_counter(w->comm, CERO_COMM_ALL_GATHER_UNIT);
    cero_comm_counter moved = expected_counter(w, c);
    uint64_t calls = cero_mem_calls();
    run_rounds(w, c, x, cero_comm_buffer_data(params.source), cero_comm_buffer_data(dest));
    assert_int_equal(cero_mem_calls(), calls);
    check_counter(w->comm, before, &moved, c->rounds);
    check_virtual(w, params, &moved);
    cero_exchange_destroy(&x);
    cero_comm_buffer_destroy(&shards);
    cero_comm_buffer_destroy(&dest);
}

static void test_whole_range(void **state)
{
    CERO_UNUSED(state);
    for (size_t k = 0; k < CERO_COUNT_OF(cases_shapes); k++) {
        cases_world w;
        cases_open(&w, &cases_shapes[k]);
        for (uint64_t seed = 0; seed < 24; seed++) {
            gather_case c = draw_case(&w, seed + 100 * k);
            run_case(&w, &c);
        }
        cases_close(&w);
    }
}

/* Over all ranks, each of N ranks has got what it lacked: (N-1) times the range, by any way and any shape. */
static void test_payload_of_all(void **state)
{
    CERO_UNUSED(state);
    for (size_t k = 0; k < CERO_COUNT_OF(cases_shapes); k++) {
        cases_world w;
        cases_open(&w, &cases_shapes[k]);
        gather_case c = draw_case(&w, 4);
        run_case(&w, &c);
        int64_t sum = cero_comm_get_counter(w.comm, CERO_COMM_ALL_GATHER_UNIT).bytes;
        assert_ok(cero_comm_all_reduce_i64(w.comm, CERO_COMM_SUM, &sum, 1));
        assert_int_equal(sum, c.rounds * (w.size - 1) * c.numel * (int64_t)c.size);
        cases_close(&w);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_whole_range),
        cmocka_unit_test(test_payload_of_all),
    };

    return cases_run(argc, argv, tests, CERO_COUNT_OF(tests));
}
