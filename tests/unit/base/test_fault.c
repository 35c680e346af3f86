/* SPDX-License-Identifier: Apache-2.0 */
/* CERO_FAULT strikes at the n-th time of its call, and no other: with an error, or with a signal for the process. */
#include "harness.h"

#include "base/fault.h"

#include <errno.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

static void test_error(void **state)
{
    CERO_UNUSED(state);
    assert_int_equal(setenv("CERO_FAULT", "write:2:ENOSPC", 1), 0);
    assert_int_equal(cero_fault_next("write"), CERO_FAULT_NONE);
    assert_int_equal(cero_fault_next("read"), CERO_FAULT_NONE);
    assert_int_equal(cero_fault_next("write"), ENOSPC);
    assert_int_equal(cero_fault_next("write"), CERO_FAULT_NONE);
    assert_int_equal(unsetenv("CERO_FAULT"), 0);
    assert_int_equal(cero_fault_next("write"), CERO_FAULT_NONE);
}

/* How a child ends that passes `passes` forward points and one backward point with this fault. */
static int end_of_child(const char *fault, int passes)
{
    int status = 0;

    (void)fflush(stdout);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        (void)setenv("CERO_FAULT", fault, 1);
        cero_fault_at("backward");
        for (int i = 0; i < passes; i++) {
            cero_fault_at("forward");
        }
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, WUNTRACED), child);
    if (WIFSTOPPED(status)) {
        assert_int_equal(kill(child, SIGKILL), 0);
        assert_int_equal(waitpid(child, NULL, 0), child);
        return WSTOPSIG(status);
    }
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

static void test_signal(void **state)
{
    CERO_UNUSED(state);
    assert_int_equal(end_of_child("forward:3:SIGKILL", 2), 0);
    assert_int_equal(end_of_child("forward:3:SIGKILL", 3), SIGKILL);
    assert_int_equal(end_of_child("forward:1:SIGTERM", 1), SIGTERM);
    assert_int_equal(end_of_child("forward:2:SIGSTOP", 2), SIGSTOP);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_error),
        cmocka_unit_test(test_signal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
