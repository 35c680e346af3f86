/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranks that fail alike in an agreement keep their status and message, however early others of them leave, and the
 * first knows that it is; ranks that hold different things are told which and what.
 */
// RUN: np=2,3,4 args=agree
// RUN: np=4 args=agree messages
// RUN: np=2,4 args=leave
// RUN: np=4 args=leave messages
// RUN: np=2,3 args=same
#include "harness.h"

#include "comm/comm.h"

#include <mpi.h>

static cero_comm *world;
static const char *chosen;
static int rank;
static int size;

static cero_status fail_here(const char *why)
{
    return CERO_FAIL(CERO_ERR_IO, "rank %d: %s", rank, why);
}

static void expect_own_message(const char *why)
{
    char expected[64];

    (void)snprintf(expected, sizeof(expected), "rank %d: %s", rank, why);
    assert_string_equal(cero_error_message(), expected);
}

/* For every first rank: it and those after it fail. */
static void case_agree(void)
{
    for (int first = 0; first <= size; first++) {
        for (int i = 0; i < 20; i++) {
            bool fails = rank >= first;
            cero_status st = cero_comm_agree(world, fails ? fail_here("no disk") : CERO_OK);
            assert_int_equal(cero_comm_agreed_failure(world), first < size ? first : -1);
            assert_false(cero_comm_is_late(world));
            if (fails) {
                assert_int_equal(st, CERO_ERR_IO);
                expect_own_message("no disk");
            } else if (first < size) {
                char expected[64];
                (void)snprintf(expected, sizeof(expected), "rank %d failed (IO): rank %d: no disk",
                               first, first);
                assert_int_equal(st, CERO_ERR_REMOTE);
                assert_string_equal(cero_error_message(), expected);
            } else {
                assert_int_equal(st, CERO_OK);
            }
        }
    }
}

/* As a command does: who fails tells and goes, while others may still be in the agreement. */
static void case_leave(void)
{
    cero_status st = cero_comm_agree(world, fail_here("no config"));

    assert_int_equal(st, CERO_ERR_IO);
    expect_own_message("no config");
    int first = cero_comm_agreed_failure(world);
    assert_true(rank == 0 ? first == 0 : first == 0 || first == -1);
    assert_int_equal(cero_comm_fail(world, st), CERO_ERR_IO);
    expect_own_message("no config");
}

static void check_text(const char *text, const char *odd_text, int odd, const char *message)
{
    cero_text mine = {0};

    cero_text_printf(&mine, "%s", rank == odd ? odd_text : text);
    assert_ok(cero_text_finish(&mine));
    cero_status st = cero_comm_check_same_text(world, "the plan", &mine);
    if (odd < 0) {
        assert_int_equal(st, CERO_OK);
    } else {
        assert_int_equal(st, rank == odd ? CERO_ERR_INVALID : CERO_ERR_REMOTE);
        if (strstr(cero_error_message(), message) == NULL) {
            fail_msg("\"%s\" lacks \"%s\"", cero_error_message(), message);
        }
        assert_int_equal(cero_comm_agreed_failure(world), odd);
    }
    cero_text_cleanup(&mine);
}

static void case_same(void)
{
    int odd = size - 1;
    int64_t value = rank == odd ? 6 : 5;
    char message[128];

    check_text("a\nb\n", "", -1, "");
    (void)snprintf(message, sizeof(message),
                   "the plan of rank %d differs from that of rank 0: 'x' instead of 'b'", odd);
    check_text("a\nb\nc\n", "a\n  x\nc\n", odd, message);
    check_text("a\nb\n", "a\n", odd, ": '' instead of 'b'");
    check_text("a\n", "a\nb\n", odd, ": 'b' instead of ''");
    // All of them were given what does not fit together.
    (void)snprintf(message, sizeof(message), "the number of rank %d differs from that of rank 0",
                   odd);
    assert_fails(cero_comm_check_same(world, "the number", &value, sizeof(value)), CERO_ERR_INVALID,
                 message);
    value = 7;
    assert_ok(cero_comm_check_same(world, "the number", &value, sizeof(value)));
}

static void test_case(void **state)
{
    CERO_UNUSED(state);
    if (strcmp(chosen, "agree") == 0) {
        case_agree();
    } else if (strcmp(chosen, "leave") == 0) {
        case_leave();
    } else {
        case_same();
    }
    cero_comm_destroy(&world);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_case)};

    chosen = argc > 1 ? argv[1] : "";
    if (MPI_Init(&argc, &argv) != MPI_SUCCESS ||
        cero_comm_create_world(&(cero_comm_params){.no_shared_memory = argc > 2}, &world) !=
            CERO_OK) {
        (void)fprintf(stderr, "%s\n", cero_error_string());
        return EXIT_FAILURE;
    }
    rank = cero_comm_rank(world);
    size = cero_comm_size(world);
    if (cmocka_run_group_tests(tests, NULL, NULL) != 0) {
        (void)MPI_Abort(MPI_COMM_WORLD, EXIT_FAILURE);
    }
    (void)MPI_Finalize();
    return EXIT_SUCCESS;
}
