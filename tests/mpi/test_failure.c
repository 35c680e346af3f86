/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A rank that fails ends the waits of all others, whatever they wait in, with its number and its message; a rank
 * that never comes ends them after the timeout, with what it did last. After that every call says the same.
 *
 * One case for a process, named by the first argument, as nothing but destroying is possible afterwards. A second
 * argument: no shared memory, so that all that is known of a rank comes by message.
 */
// RUN: np=2,3 args=barrier
// RUN: np=3 args=barrier messages
// RUN: np=3 args=all_reduce
// RUN: np=3 args=all_reduce messages
// RUN: np=3 args=all_gather
// RUN: np=3 args=all_gather messages
// RUN: np=3 args=broadcast
// RUN: np=3 args=broadcast messages
// RUN: np=3 args=recv
// RUN: np=3 args=recv messages
// RUN: np=3 args=flag
// RUN: np=3 args=part
// RUN: np=3 args=part messages
// RUN: np=3 args=second_world
// RUN: np=3 args=second_world messages
// RUN: np=3 args=between
// RUN: np=3 args=between messages
// RUN: np=2,3 args=never_comes
// RUN: np=3 args=never_comes messages
// RUN: np=3 args=never_sends
// RUN: np=3 args=never_sends messages
// RUN: np=3 args=silent_end
// RUN: np=3 args=silent_end messages
// RUN: np=2,3 args=circle
// RUN: np=3 args=circle messages
// RUN: np=3 args=chain
// RUN: np=3 args=chain messages
// RUN: np=2,3 args=different_calls
// RUN: np=3 args=different_calls messages
// RUN: np=2 args=different_sizes
// RUN: np=2 args=other_size
// RUN: np=2 args=other_size messages
// RUN: np=3 args=never_creates
#include "harness.h"

#include "base/clock.h"
#include "comm/mpi/mpi_impl.h"

#include <time.h>

static cero_comm *world;
static cero_comm_params params;
static const char *chosen;
static int rank;
static int last; /* the rank that fails */

static void nap(double seconds)
{
    struct timespec t = {.tv_sec = (time_t)seconds,
                         .tv_nsec = (long)((seconds - (double)(time_t)seconds) * 1e9)};

    (void)nanosleep(&t, NULL);
}

/* Without cero: nobody leaves before all have left what they did before. */
static void meet(void)
{
    (void)MPI_Barrier(MPI_COMM_WORLD);
}

static cero_status wait_in_vain(void)
{
    char data[24] = "";
    char all[24 * 8];
    int64_t value = 1;

    if (strcmp(chosen, "all_reduce") == 0) {
        return cero_comm_all_reduce_i64(world, CERO_COMM_SUM, &value, 1);
    }
    if (strcmp(chosen, "all_gather") == 0) {
        return cero_comm_all_gather(world, data, sizeof(data), all);
    }
    if (strcmp(chosen, "broadcast") == 0) {
        return cero_comm_broadcast(world, data, sizeof(data), 0);
    }
    if (strcmp(chosen, "recv") == 0) {
        return cero_comm_recv(world, last, 3, data, sizeof(data));
    }
    return cero_comm_barrier(world);
}

static void check_remote(cero_status st)
{
    char expected[64];

    if (st != CERO_ERR_REMOTE) {
        fail_msg("gave %s, expected REMOTE: %s", cero_status_name(st), cero_error_message());
    }
    (void)snprintf(expected, sizeof(expected), "rank %d failed (IO): the disk is full", last);
    assert_string_equal(cero_error_message(), expected);
    assert_in_range(cero_comm_failed_rank(world), 0, last);
}

/* Quickly and always the same: many calls, none of which may wait for anybody. */
static void check_same_error(cero_status expected)
{
    char message[2048];
    char data[8] = "";

    (void)snprintf(message, sizeof(message), "%s", cero_error_message());
    message[strcspn(message, "\n")] = '\0';
    for (int i = 0; i < 1000; i++) {
        cero_status st = i % 3 == 0   ? cero_comm_barrier(world)
                         : i % 3 == 1 ? cero_comm_send(world, (rank + 1) % (last + 1), 1, data, 8)
                                      : cero_comm_agree(world, CERO_OK);
        assert_int_equal(st, expected);
        assert_string_equal(cero_error_message(), message);
        cero_comm_poll(world);
    }
}

static cero_status fail_with_io(cero_comm *comm)
{
    return cero_comm_fail(comm, CERO_FAIL(CERO_ERR_IO, "the disk is full"));
}

/* The last rank fails while the others are in an operation, or on their way to it. */
static void case_in_operation(void)
{
    assert_ok(cero_comm_barrier(world));
    meet();
    if (rank == last) {
        nap(0.05);
        assert_int_equal(fail_with_io(world), CERO_ERR_IO);
        check_same_error(CERO_ERR_IO);
        return;
    }
    check_remote(wait_in_vain());
    check_same_error(CERO_ERR_REMOTE);
}

static bool is_flag_set(void *context, cero_status *st)
{
    cero_mpi_control *control = context;

    CERO_UNUSED(st);
    return atomic_load(&control->ready[1]) >= 1;
}

/* As an exchange waits for a flag of the last rank's page. */
static void case_flag(void)
{
    if (rank == last) {
        nap(0.05);
        (void)fail_with_io(world);
        return;
    }
    cero_comm_event *event = cero_comm_record(world, "reduce_unit h.3", 100);
    check_remote(cero_mpi_wait(world, is_flag_set, cero_mpi_of(world)->control[last], last, event));
}

/* Others wait in a part in which the rank that fails is not. */
static void case_part(void)
{
    cero_comm *part = NULL;
    char data[8];

    assert_ok(cero_comm_split(world, rank == last, 0, &part));
    meet();
    if (rank == last) {
        nap(0.05);
        (void)fail_with_io(world);
    } else {
        check_remote(cero_comm_recv(part, rank == 0 ? 1 : 0, 1, data, sizeof(data)));
    }
    cero_comm_destroy(&part);
}

/* A failure in one world of this process ends waits in another. */
static void case_second_world(void)
{
    cero_comm *second = NULL;

    assert_ok(cero_comm_create_world(&params, &second));
    meet();
    if (rank == last) {
        nap(0.05);
        (void)fail_with_io(second);
    } else {
        check_remote(cero_comm_barrier(world));
    }
    cero_comm_destroy(&second);
}

/* Nobody waits: polls find it, and the next call says it. */
static void case_between(void)
{
    if (rank == last) {
        (void)fail_with_io(world);
        return;
    }
    while (cero_comm_failed_rank(world) < 0) {
        cero_comm_poll(world);
        nap(0.001);
    }
    check_remote(cero_comm_barrier(world));
}

/* Keeps away from cero until rank 0 is through. */
static void stay_away(void)
{
    int is_there = 0;

    while (!is_there) {
        (void)MPI_Iprobe(0, 77, MPI_COMM_WORLD, &is_there, MPI_STATUS_IGNORE);
        nap(0.001);
    }
    (void)MPI_Recv(NULL, 0, MPI_BYTE, 0, 77, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void call_back(void)
{
    (void)MPI_Send(NULL, 0, MPI_BYTE, last, 77, MPI_COMM_WORLD);
}

/* The first to give up says COMM and what was done last, those that hear of it REMOTE. */
static void check_silence(cero_status st, int culprit, const char *operation)
{
    char silence[64];

    (void)snprintf(silence, sizeof(silence), "no sign of life from rank %d for 0.5 s", culprit);
    assert_true(st == CERO_ERR_COMM || st == CERO_ERR_REMOTE);
    if (strstr(cero_error_message(), silence) == NULL ||
        strstr(cero_error_message(), operation) == NULL) {
        fail_msg("\"%s\" lacks \"%s\" or \"%s\"", cero_error_message(), silence, operation);
    }
    if (st == CERO_ERR_COMM && strstr(cero_error_message(), "reports what each rank did") == NULL) {
        assert_non_null(strstr(cero_error_message(), "rank 0"));
        assert_non_null(strstr(cero_error_message(), "recent operations:"));
    }
}

static void case_never_comes(void)
{
    cero_comm_note(world, "step", 700 + rank);
    assert_ok(cero_comm_barrier(world));
    cero_comm_set_timeout(world, 0.5);
    if (rank == last) {
        stay_away();
        cero_status st = cero_comm_barrier(world);
        assert_int_equal(st, CERO_ERR_REMOTE);
        assert_non_null(strstr(cero_error_message(), "no sign of life from rank"));
        return;
    }
    cero_status st = cero_comm_barrier(world);
    check_silence(st, last, "while waiting in barrier (operation 3)");
    if (st == CERO_ERR_COMM && !params.no_shared_memory && last == 1) {
        assert_non_null(strstr(cero_error_message(), "step 701"));
    }
    check_same_error(st);
    if (rank == 0) {
        call_back();
    }
}

static void case_never_sends(void)
{
    char data[8];

    assert_ok(cero_comm_barrier(world));
    cero_comm_set_timeout(world, 0.5);
    if (rank == last) {
        stay_away();
        return;
    }
    check_silence(cero_comm_recv(world, last, 2, data, sizeof(data)), last,
                  "while waiting in recv (operation 2)");
    if (rank == 0) {
        call_back();
    }
}

/* Rank 0 waits for rank 1, which waits for the one that is silent: that one is named. */
static void case_silent_end(void)
{
    char data[8];

    assert_ok(cero_comm_barrier(world));
    cero_comm_set_timeout(world, 0.5);
    if (rank == last) {
        stay_away();
        return;
    }
    check_silence(cero_comm_recv(world, rank + 1, 2, data, sizeof(data)), last,
                  "while waiting in recv (operation 2)");
    if (rank == 0) {
        call_back();
    }
}

/* All are well, and each waits for the next: nobody takes a step. */
static void case_circle(void)
{
    char data[8];

    assert_ok(cero_comm_barrier(world));
    cero_comm_set_timeout(world, 0.5);
    cero_status st = cero_comm_recv(world, (rank + 1) % (last + 1), 2, data, sizeof(data));
    assert_true(st == CERO_ERR_COMM || st == CERO_ERR_REMOTE);
    assert_non_null(strstr(cero_error_message(), "no sign of life from rank"));
    assert_non_null(strstr(cero_error_message(), "while waiting in recv (operation 2)"));
}

/* Waiting for long behind a rank that works is no error, also through a rank that waits itself. */
static void case_chain(void)
{
    char data[8] = "worked";

    cero_comm_set_timeout(world, 1.0);
    assert_ok(cero_comm_barrier(world));
    double end = cero_clock_now() + 3.5;
    while (rank == last && cero_clock_now() < end) {
        cero_comm_poll(world);
        nap(0.002);
    }
    if (rank < last) {
        assert_ok(cero_comm_recv(world, rank + 1, 2, data, sizeof(data)));
    }
    if (rank > 0) {
        assert_ok(cero_comm_send(world, rank - 1, 2, data, sizeof(data)));
    }
    assert_string_equal(data, "worked");
    assert_ok(cero_comm_barrier(world));
}

/* MPI would take one for the other, and give a result. */
static void case_different_calls(void)
{
    int64_t value = 5;

    assert_ok(cero_comm_barrier(world));
    cero_status st = rank == last ? cero_comm_broadcast(world, &value, sizeof(value), 0)
                                  : cero_comm_all_reduce_i64(world, CERO_COMM_SUM, &value, 1);
    assert_true(st == CERO_ERR_INVALID || st == CERO_ERR_REMOTE);
    assert_non_null(strstr(cero_error_message(), "ranks make different calls"));
    assert_non_null(strstr(cero_error_message(), "rank 0 all_reduce of 8 bytes (operation 2)"));
    assert_non_null(strstr(cero_error_message(), "broadcast of 8 bytes (operation 2)"));
    check_same_error(st);
}

static void case_different_sizes(void)
{
    char mine[8] = "";
    char all[8 * 8];

    cero_status st = cero_comm_all_gather(world, mine, rank == last ? 4 : 8, all);
    assert_true(st == CERO_ERR_INVALID || st == CERO_ERR_REMOTE);
    assert_non_null(strstr(cero_error_message(), "rank 0 all_gather of 8 bytes"));
    assert_non_null(strstr(cero_error_message(), "rank 1 all_gather of 4 bytes"));
}

/* The receiver says so, and the sender hears it. */
static void case_other_size(void)
{
    char data[32] = "";

    cero_comm_set_timeout(world, 20.0);
    if (rank == 0) {
        assert_fails(cero_comm_recv(world, 1, 2, data, 16), CERO_ERR_INVALID,
                     "has 20 bytes, expected 16");
        return;
    }
    cero_status st = cero_comm_send(world, 0, 2, data, 20);
    st = st == CERO_OK ? cero_comm_barrier(world) : st;
    assert_int_equal(st, CERO_ERR_REMOTE);
    assert_non_null(strstr(cero_error_message(), "has 20 bytes, expected 16"));
}

/* A communicator that a rank does not come to make. */
static void case_never_creates(void)
{
    cero_comm *second = NULL;

    if (rank == last) {
        stay_away();
        return;
    }
    cero_status st = cero_comm_create_world(&params, &second);
    assert_true(st == CERO_ERR_COMM || st == CERO_ERR_REMOTE);
    assert_non_null(strstr(cero_error_message(), "not all ranks came within 0.5 s"));
    assert_null(second);
    if (rank == 0) {
        call_back();
    }
}

static void test_case(void **state)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } cases[] = {
        {"barrier", case_in_operation},
        {"all_reduce", case_in_operation},
        {"all_gather", case_in_operation},
        {"broadcast", case_in_operation},
        {"recv", case_in_operation},
        {"flag", case_flag},
        {"part", case_part},
        {"second_world", case_second_world},
        {"between", case_between},
        {"never_comes", case_never_comes},
        {"never_sends", case_never_sends},
        {"silent_end", case_silent_end},
        {"circle", case_circle},
        {"chain", case_chain},
        {"different_calls", case_different_calls},
        {"different_sizes", case_different_sizes},
        {"other_size", case_other_size},
        {"never_creates", case_never_creates},
    };

    CERO_UNUSED(state);
    for (size_t i = 0; i < CERO_COUNT_OF(cases); i++) {
        if (strcmp(chosen, cases[i].name) == 0) {
            cases[i].run();
            cero_comm_destroy(&world);
            assert_null(world);
            return;
        }
    }
    fail_msg("no case %s", chosen);
}

/* MPI is the program's here: cero finalises nothing that broke. */
int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_case)};

    chosen = argc > 1 ? argv[1] : "";
    params.no_shared_memory = argc > 2;
    params.timeout_seconds = strcmp(chosen, "never_creates") == 0 ? 0.5 : 30.0;
    if (MPI_Init(&argc, &argv) != MPI_SUCCESS ||
        cero_comm_create_world(&params, &world) != CERO_OK) {
        (void)fprintf(stderr, "%s\n", cero_error_string());
        return EXIT_FAILURE;
    }
    rank = cero_comm_rank(world);
    last = cero_comm_size(world) - 1;
    meet();
    if (cmocka_run_group_tests(tests, NULL, NULL) != 0) {
        (void)MPI_Abort(MPI_COMM_WORLD, EXIT_FAILURE);
    }
    (void)MPI_Finalize();
    return EXIT_SUCCESS;
}
