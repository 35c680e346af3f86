/* SPDX-License-Identifier: Apache-2.0 */
/* The world that the tests of a program share, made before the first and destroyed after the last. */
#ifndef CERO_TESTS_MPI_WORLD_H
#define CERO_TESTS_MPI_WORLD_H

#include "harness.h"

#include "comm/comm.h"

static cero_comm *world;

/* Ranks that the build started. */
static inline int promised_ranks(void)
{
    const char *text = getenv("CERO_TEST_NP");

    return text != NULL ? (int)strtol(text, NULL, 10) : 1;
}

/*
 * Runs the tests on all ranks in one world of these params. A rank whose test fails ends them all: the others
 * would wait for it.
 */
static inline int run_in_world(const cero_comm_params *params, const struct CMUnitTest *tests,
                               size_t count)
{
    int failed = 0;

    if (cero_comm_create_world(params, &world) != CERO_OK) {
        (void)fprintf(stderr, "%s\n", cero_error_string());
        return EXIT_FAILURE;
    }
    for (size_t i = 0; i < count && failed == 0; i++) {
        failed = _cmocka_run_group_tests(tests[i].name, &tests[i], 1, NULL, NULL);
    }
    if (failed != 0) {
        cero_comm_abort(world, EXIT_FAILURE);
        return EXIT_FAILURE;
    }
    cero_comm_destroy(&world);
    return EXIT_SUCCESS;
}

#endif
