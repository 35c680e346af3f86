/* SPDX-License-Identifier: Apache-2.0 */
/* A process that is stuck, even with signals blocked, ends with the code it was given. */
#include "harness.h"

#include "base/process.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

static int code_of(pid_t child)
{
    int status = 0;

    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void test_end(void **state)
{
    CERO_UNUSED(state);
    pid_t child = fork();
    if (child == 0) {
        cero_process_end(75);
    }
    assert_int_equal(code_of(child), 75);
}

static void test_end_after(void **state)
{
    CERO_UNUSED(state);
    pid_t child = fork();
    if (child == 0) {
        sigset_t all;
        (void)sigfillset(&all);
        (void)sigprocmask(SIG_BLOCK, &all, NULL);
        cero_process_end_after(1, 42);
        while (true) {
            (void)pause();
        }
    }
    assert_int_equal(code_of(child), 42);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_end),
        cmocka_unit_test(test_end_after),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
