/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A reduction gives the owner of a part the bits of a plain loop over all contributions: for every dtype, order,
 * bucket, shape of nodes and message limit, with empty parts and tails, over several rounds; it writes
 * nothing else, counts what it sends, and a rank of a world that does not exist counts the same.
 */
// RUN: np=1,2,3,4,6
#include "mpi/exchange_cases.h"

#include <mpi.h>

typedef struct reduce_case {
    uint64_t seed;
    cero_dtype dtype;
    int64_t size; /* of an element */
    int64_t border[MAX_RANKS + 1];
    int64_t numel;
    int64_t own;
    int64_t bucket;
    cero_exchange_order order;
    size_t offset;
    int rounds;
} reduce_case;

static reduce_case draw_case(const cases_world *w, uint64_t seed)
{
    static const cero_dtype dtypes[] = {CERO_DTYPE_F32, CERO_DTYPE_BF16, CERO_DTYPE_F16};
    static const int64_t buckets[] = {0, 1, 1000, (int64_t)1 << 40};
    reduce_case c = {.seed = seed};

    c.dtype = dtypes[seed % 3];
    c.size = (int64_t)cero_dtype_size(c.dtype);
    c.numel = cases_borders(seed, w->size, c.border);
    c.own = c.border[w->rank + 1] - c.border[w->rank];
    c.bucket = buckets[seed / 2 % 4];
    c.order = seed % 2 == 0 || w->params.no_shared_memory ? CERO_EXCHANGE_FLAT : CERO_EXCHANGE_NODE;
    c.offset = cases_draw(seed, 1) % 3 * 64;
    c.rounds = 1 + (int)(cases_draw(seed, 2) % 3);
    return c;
}

static bool is_by_node(const cases_world *w, const reduce_case *c)
{
    int nodes = cero_comm_node_count(w->comm);

    return c->order == CERO_EXCHANGE_NODE && nodes > 1 && nodes < w->size;
}

/* sum = or += the contribution of a rank to the own part. */
static void add(const cases_world *w, const reduce_case *c, int rank, int round, bool is_first,
                float *sum)
{
    char *raw = cero_new((size_t)c->own + 1, 4);
    float *x = cero_new((size_t)c->own + 1, sizeof(float));

    cases_values(w->device, c->seed, rank, round, c->dtype, c->border[w->rank], c->own, raw);
    cero_device_kernels(w->device)->to_f32[c->dtype](c->own, raw, x);
    for (int64_t i = 0; i < c->own; i++) {
        sum[i] = is_first ? x[i] : sum[i] + x[i];
    }
    cero_delete(raw);
    cero_delete(x);
}

static void add_by_node(const cases_world *w, const reduce_case *c, int round, float *sum)
{
    const cero_kernels *kernels = cero_device_kernels(w->device);
    float *node_sum = cero_new((size_t)c->own + 1, sizeof(float));
    char *rounded = cero_new((size_t)c->own + 1, 4);

    for (int n = 0; n < cero_comm_node_count(w->comm); n++) {
        bool is_first = true;
        for (int r = 0; r < w->size; r++) {
            if (cero_comm_node_of(w->comm, r) == n) {
                add(w, c, r, round, is_first, node_sum);
                is_first = false;
            }
        }
        kernels->from_f32[c->dtype](c->own, node_sum, rounded);
        kernels->to_f32[c->dtype](c->own, rounded, node_sum);
        for (int64_t i = 0; i < c->own; i++) {
            sum[i] = round == 0 && n == 0 ? node_sum[i] : sum[i] + node_sum[i];
        }
    }
    cero_delete(node_sum);
    cero_delete(rounded);
}

static void add_expected(const cases_world *w, const reduce_case *c, int round, float *sum)
{
    if (is_by_node(w, c)) {
        add_by_node(w, c, round, sum);
        return;
    }
    for (int r = 0; r < w->size; r++) {
        add(w, c, r, round, round == 0 && r == 0, sum);
    }
}

/* What this rank's counter must move by in one run, element by element of who needs what. */
static cero_comm_counter expected_counter(const cases_world *w, const reduce_case *c)
{
    cero_comm_counter k = {.calls = 1};
    int node = cero_comm_node_of(w->comm, w->rank);

    for (int j = 0; j < w->size && w->size > 1; j++) {
        int64_t part = c->border[j + 1] - c->border[j];
        int64_t piece = c->bucket > 0 ? (c->bucket + w->size - 1) / w->size : part;
        piece = (piece + 255) / 256 * 256;
        bool is_same_node = cero_comm_node_of(w->comm, j) == node;
        bool is_message = w->params.no_shared_memory ? j != w->rank : !is_same_node;
        if (j == w->rank) {
            continue;
        }
        k.bytes += part * c->size;
        if (is_by_node(w, c) &&
            cero_comm_local_rank(w->comm, w->rank) !=
                cero_comm_local_rank(w->comm, j) % cero_comm_node_size(w->comm, node)) {
            continue; // another rank of this node sends it
        }
        k.bytes_between_nodes += is_same_node ? 0 : part * c->size;
        k.messages += is_message
                          ? cases_messages(part * c->size, piece * c->size, w->params.message_limit)
                          : 0;
    }
    return k;
}

static void check_counter(cero_comm *comm, cero_comm_counter before, const cero_comm_counter *moved,
                          int runs)
{
    cero_comm_counter now = cero_comm_get_counter(comm, CERO_COMM_REDUCE_UNIT);

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

/* The same rank of a world that does not exist asks for the same landing memory and counts the same. */
static void check_virtual(const cases_world *w, cero_reduce_params params,
                          const cero_comm_counter *moved)
{
    cero_comm *comm = NULL;
    cero_exchange *x = NULL;

    assert_ok(cero_comm_create_virtual(w->rank, w->size, &w->params, &comm));
    assert_int_equal(cero_reduce_landing_bytes(comm, &params),
                     cero_reduce_landing_bytes(w->comm, &params));
    assert_ok(cero_reduce_create(comm, &params, &x));
    assert_ok(cero_exchange_start(x, true));
    assert_ok(cero_exchange_finish(x));
    assert_ok(cero_exchange_release(x));
    check_counter(comm, (cero_comm_counter){0}, moved, 1);
    cero_exchange_destroy(&x);
    cero_comm_destroy(&comm);
}

/* One round; the source may be overwritten when it was released, and is. */
static void run_round(const cases_world *w, const reduce_case *c, cero_comm_buffer *source,
                      cero_exchange *x, int round)
{
    char *mine = (char *)cero_comm_buffer_data(source) + c->offset;

    cases_values(w->device, c->seed, w->rank, round, c->dtype, 0, c->numel, mine);
    cases_dawdle(w, c->seed * 3);
    assert_ok(cero_exchange_start(x, round == 0));
    cases_dawdle(w, c->seed * 3 + 1);
    assert_ok(cero_exchange_finish(x));
    cases_dawdle(w, c->seed * 3 + 2);
    assert_ok(cero_exchange_release(x));
    memset(mine, 0xff, (size_t)(c->numel * c->size));
}

static void check_guard(const void *data, size_t n)
{
    const unsigned char *p = data;

    for (size_t i = 0; i < n; i++) {
        assert_int_equal(p[i], GUARD);
    }
}

static void run_case(cases_world *w, const reduce_case *c)
{
    cero_comm_buffer *source = NULL;
    cero_exchange *x = NULL;
    float *sum = cero_new((size_t)c->own + 16, sizeof(float));
    float *expected = cero_new((size_t)c->own + 1, sizeof(float));
    cero_reduce_params params = {.name = "unit",
                                 .device = w->device,
                                 .dtype = c->dtype,
                                 .border = c->border,
                                 .source_offset = c->offset,
                                 .sum = sum,
                                 .bucket = c->bucket,
                                 .order = c->order};
    size_t landing = cero_reduce_landing_bytes(w->comm, &params);
    char *room = cero_new(1, landing + 64);

    assert_ok(cero_comm_buffer_create(
        w->comm,
        &(cero_comm_buffer_params){.mem = w->mem,
                                   .category = CERO_MEM_GRAD,
                                   .nbytes = c->offset + (size_t)(c->numel * c->size),
                                   .what = "gradients"},
        &source));
    memset(sum, GUARD, ((size_t)c->own + 16) * sizeof(float));
    memset(room, GUARD, landing + 64);
    params.source = source;
    params.landing = room;
    assert_ok(cero_reduce_create(w->comm, &params, &x));
    cero_comm_counter before = cero_comm_get_counter(w->comm, CERO_COMM_REDUCE_UNIT);
    cero_comm_counter moved = expected_counter(w, c);
    for (int round = 0; round < c->rounds; round++) {
        run_round(w, c, source, x, round);
    }
    check_counter(w->comm, before, &moved, c->rounds);
    check_virtual(w, params, &moved);
    for (int round = 0; round < c->rounds; round++) {
        add_expected(w, c, round, expected);
    }
    assert_memory_equal(sum, expected, (size_t)c->own * sizeof(float));
    check_guard(sum + c->own, 16 * sizeof(float));
    check_guard(room + landing, 64);
    cero_exchange_destroy(&x);
    cero_comm_buffer_destroy(&source);
    cero_delete(room);
    cero_delete(sum);
    cero_delete(expected);
}

static void test_bits(void **state)
{
    CERO_UNUSED(state);
    for (size_t k = 0; k < CERO_COUNT_OF(cases_shapes); k++) {
        cases_world w;
        cases_open(&w, &cases_shapes[k]);
        for (uint64_t seed = 0; seed < 24; seed++) {
            reduce_case c = draw_case(&w, seed + 100 * k);
            run_case(&w, &c);
        }
        cases_close(&w);
    }
}

/* On one node the ranks' counters add up to (N-1)/N of the range per rank. */
static void test_payload_of_a_node(void **state)
{
    cases_world w;

    CERO_UNUSED(state);
    cases_open(&w, &cases_shapes[0]);
    reduce_case c = draw_case(&w, 4);
    run_case(&w, &c);
    int64_t sum = cero_comm_get_counter(w.comm, CERO_COMM_REDUCE_UNIT).bytes;
    assert_ok(cero_comm_all_reduce_i64(w.comm, CERO_COMM_SUM, &sum, 1));
    assert_int_equal(sum, c.rounds * (w.size - 1) * c.numel * c.size);
    cases_close(&w);
}

/* A run allocates nothing. */
static void test_allocates_nothing(void **state)
{
    CERO_UNUSED(state);
    for (size_t k = 0; k < CERO_COUNT_OF(cases_shapes); k++) {
        cases_world w;
        cero_exchange *x = NULL;
        cero_comm_buffer *source = NULL;
        cases_open(&w, &cases_shapes[k]);
        reduce_case c = draw_case(&w, 7 + 2 * k);
        cero_reduce_params params = {.name = "unit",
                                     .device = w.device,
                                     .dtype = c.dtype,
                                     .border = c.border,
                                     .bucket = 1000,
                                     .order = c.order};
        assert_ok(cero_comm_buffer_create(
            w.comm,
            &(cero_comm_buffer_params){
                .mem = w.mem, .nbytes = (size_t)(c.numel * c.size), .what = "gradients"},
            &source));
        params.source = source;
        params.sum = cero_new((size_t)c.own + 1, sizeof(float));
        params.landing = cero_new(1, cero_reduce_landing_bytes(w.comm, &params) + 1);
        assert_ok(cero_reduce_create(w.comm, &params, &x));
        uint64_t calls = cero_mem_calls();
        for (int round = 0; round < 10; round++) {
            assert_ok(cero_exchange_start(x, round == 0));
            assert_ok(cero_exchange_finish(x));
            assert_ok(cero_exchange_release(x));
        }
        assert_int_equal(cero_mem_calls(), calls);
        cero_exchange_destroy(&x);
        cero_comm_buffer_destroy(&source);
        cero_delete(params.sum);
        cero_delete(params.landing);
        cases_close(&w);
    }
}

/* Adding by node needs shared memory; all ranks hear it. */
static void test_order_needs_shared_memory(void **state)
{
    cases_world w;
    cero_exchange *x = NULL;
    int64_t border[MAX_RANKS + 1];

    CERO_UNUSED(state);
    cases_open(&w, &(cero_comm_params){.no_shared_memory = true, .ranks_per_node = 2});
    if (cero_comm_node_count(w.comm) > 1 && cero_comm_node_count(w.comm) < w.size) {
        cases_borders(1, w.size, border);
        cero_reduce_params params = {
            .name = "unit", .device = w.device, .border = border, .order = CERO_EXCHANGE_NODE};
        assert_fails(cero_reduce_create(w.comm, &params, &x), CERO_ERR_INVALID,
                     "cero.gradient_order");
        assert_null(x);
    }
    cases_close(&w);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bits),
        cmocka_unit_test(test_payload_of_a_node),
        cmocka_unit_test(test_allocates_nothing),
        cmocka_unit_test(test_order_needs_shared_memory),
    };

    return cases_run(argc, argv, tests, CERO_COUNT_OF(tests));
}
