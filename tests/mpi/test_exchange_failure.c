/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A rank that fails, goes silent or astray in the midst of an exchange ends it on all others with an error that
 * names the rank; what was under way can be destroyed, and lands nowhere.
 *
 * One case for a process: "absent" ranks never start, "leaving" ones start and go no further, "silent" ones say
 * nothing, "astray" ones start another exchange in its place. The second argument is the exchange, the third the
 * way: in shared memory, by node, by messages.
 */
// RUN: np=2,3 args=absent reduce shared
// RUN: np=2,3 args=leaving reduce shared
// RUN: np=3 args=absent reduce node
// RUN: np=3 args=leaving reduce node
// RUN: np=2,3 args=absent reduce messages
// RUN: np=2,3 args=leaving reduce messages
// RUN: np=3 args=absent gather shared
// RUN: np=3 args=leaving gather shared
// RUN: np=3 args=absent gather node
// RUN: np=3 args=leaving gather node
// RUN: np=3 args=leaving gather messages
// RUN: np=2,3 args=astray reduce shared
// RUN: np=2 args=silent reduce shared
// RUN: np=2 args=silent gather messages
#include "mpi/exchange_cases.h"

#include <mpi.h>
#include <time.h>

enum {
    PART = 256 * 8, /* elements */
    PIECES = 8,
    /* Messages are sent whole or not at all: one half way would hold memory that is freed. */
    MESSAGE_LIMIT = 1000
};

static cases_world w;
static const char *what;
static bool is_gather;
static cero_exchange_order order;
static cero_comm_buffer *source;
static float *sum;
static char *landing;
static cero_exchange *x;
static cero_exchange *other;

static cero_exchange *open_gather(const char *name, const int64_t *border)
{
    size_t source_at[MAX_RANKS];
    cero_exchange *out = NULL;

    for (int r = 0; r < w.size; r++) {
        source_at[r] = (size_t)border[r] * sizeof(float);
    }
    assert_ok(cero_gather_create(w.comm,
                                 &(cero_gather_params){.name = name,
                                                       .device = w.device,
                                                       .element_size = sizeof(float),
                                                       .border = border,
                                                       .source = source,
                                                       .source_at = source_at,
                                                       .dest = source},
                                 &out));
    return out;
}

static cero_exchange *open_reduce(const char *name, const int64_t *border)
{
    cero_reduce_params params = {.name = name,
                                 .device = w.device,
                                 .dtype = CERO_DTYPE_F32,
                                 .border = border,
                                 .source = source,
                                 .bucket = (int64_t)w.size * PART / PIECES,
                                 .order = order};
    cero_exchange *out = NULL;

    sum = cero_new(PART, sizeof(float));
    landing = cero_new(1, cero_reduce_landing_bytes(w.comm, &params) + 1);
    params.sum = sum;
    params.landing = landing;
    assert_ok(cero_reduce_create(w.comm, &params, &out));
    return out;
}

/* Nobody finds an error while another rank is still in the calls before. */
static void meet_last(void)
{
    char word = 0;

    for (int r = 0; r < w.size - 1; r++) {
        if (w.rank == w.size - 1) {
            assert_ok(cero_comm_recv(w.comm, r, 1, &word, 1));
        } else if (w.rank == r) {
            assert_ok(cero_comm_send(w.comm, w.size - 1, 1, &word, 1));
        }
    }
}

/* The exchange of the case, and another that goes the other way. */
static void open_exchanges(void)
{
    int64_t border[MAX_RANKS + 1];

    for (int r = 0; r <= w.size; r++) {
        border[r] = (int64_t)r * PART;
    }
    assert_ok(cero_comm_buffer_create(
        w.comm,
        &(cero_comm_buffer_params){
            .mem = w.mem, .nbytes = (size_t)border[w.size] * sizeof(float), .what = "a unit"},
        &source));
    x = is_gather ? open_gather("h.7", border) : open_reduce("h.7", border);
    other = is_gather ? open_reduce("h.8", border) : open_gather("h.8", border);
    meet_last();
}

static void close_exchanges(void)
{
    cero_exchange_destroy(&other);
    cero_exchange_destroy(&x);
    cero_comm_buffer_destroy(&source);
    cero_delete(sum);
    cero_delete(landing);
}

static void nap(long milliseconds)
{
    struct timespec t = {.tv_sec = milliseconds / 1000, .tv_nsec = milliseconds % 1000 * 1000000};

    (void)nanosleep(&t, NULL);
}

/* Until an error; what a rank gave before it left may do for the first. */
static cero_status run_twice(cero_exchange *exchange)
{
    cero_status st = CERO_OK;

    for (int k = 0; k < 2 && st == CERO_OK; k++) {
        st = cero_exchange_start(exchange, true);
        st = st == CERO_OK ? cero_exchange_finish(exchange) : st;
        st = st == CERO_OK ? cero_exchange_release(exchange) : st;
    }
    return st;
}

/* The last rank does its part of the case and leaves. */
static void misbehave(void)
{
    nap(50);
    if (strcmp(what, "leaving") == 0) {
        assert_ok(cero_exchange_start(x, true));
    }
    if (strcmp(what, "silent") == 0) {
        nap(2500);
        return;
    }
    assert_int_equal(cero_comm_fail(w.comm, CERO_FAIL(CERO_ERR_IO, "the disk is full")),
                     CERO_ERR_IO);
}

/* All ranks hear which exchanges met, and where. */
static void run_astray(void)
{
    bool is_last = w.rank == w.size - 1;

    assert_true(run_twice(is_last ? other : x) != CERO_OK);
    assert_non_null(strstr(cero_error_message(), "ranks are out of step: exchange 1 is"));
    assert_non_null(strstr(cero_error_message(), is_gather ? "gather h.7" : "reduce h.7"));
    assert_non_null(strstr(cero_error_message(), is_gather ? "reduce h.8" : "gather h.8"));
    close_exchanges();
}

static void test_case(void **state)
{
    char expected[64];

    CERO_UNUSED(state);
    open_exchanges();
    if (strcmp(what, "astray") == 0) {
        run_astray();
        return;
    }
    if (w.rank == w.size - 1) {
        misbehave();
        close_exchanges();
        return;
    }
    cero_status st = run_twice(x);
    if (strcmp(what, "silent") == 0) {
        assert_int_equal(st, CERO_ERR_COMM);
        (void)snprintf(expected, sizeof(expected), "no sign of life from rank %d", w.size - 1);
        assert_non_null(strstr(cero_error_message(), expected));
        assert_non_null(strstr(cero_error_message(), is_gather ? "gather h.7" : "reduce h.7"));
    } else {
        assert_int_equal(st, CERO_ERR_REMOTE);
        (void)snprintf(expected, sizeof(expected), "rank %d failed (IO): the disk is full",
                       w.size - 1);
        assert_non_null(strstr(cero_error_message(), expected));
    }
    close_exchanges();
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_case)};

    if (argc != 4 || MPI_Init(&argc, &argv) != MPI_SUCCESS) {
        return EXIT_FAILURE;
    }
    what = argv[1];
    is_gather = strcmp(argv[2], "gather") == 0;
    bool is_by_node = strcmp(argv[3], "node") == 0;
    order = is_by_node ? CERO_EXCHANGE_NODE : CERO_EXCHANGE_FLAT;
    cases_open(&w, &(cero_comm_params){
                       .timeout_seconds = strcmp(what, "silent") == 0 ? 0.5 : 30.0,
                       .ranks_per_node = is_by_node ? 2 : 0,
                       .message_limit = MESSAGE_LIMIT,
                       .no_shared_memory = strcmp(argv[3], "messages") == 0,
                   });
    if (cmocka_run_group_tests(tests, NULL, NULL) != 0) {
        (void)MPI_Abort(MPI_COMM_WORLD, EXIT_FAILURE);
    }
    cases_close(&w);
    (void)MPI_Finalize();
    return EXIT_SUCCESS;
}
