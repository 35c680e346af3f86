/* SPDX-License-Identifier: Apache-2.0 */
/* Of what all ranks would say alike rank 0 warns; the others leave it to their log files. */
#include "harness.h"

#include "base/log.h"

#include <unistd.h>

static char line[256];
static cero_log_level level;
static int count;

static void keep(void *context, cero_log_level given, const char *text)
{
    CERO_UNUSED(context);
    (void)snprintf(line, sizeof(line), "%s", text);
    level = given;
    count++;
}

static int reset(void **state)
{
    CERO_UNUSED(state);
    cero_log_set_sink(NULL, NULL);
    cero_log_set_rank(0, 1);
    cero_log_set_level(CERO_LOG_WARN);
    count = 0;
    return 0;
}

static void test_first_rank(void **state)
{
    CERO_UNUSED(state);
    cero_log_set_sink(keep, NULL);
    cero_log_warn_once("spec", "%d steps", 5);
    assert_int_equal(count, 1);
    assert_int_equal(level, CERO_LOG_WARN);
    assert_string_equal(line, "spec warn: 5 steps");
    cero_log_set_rank(0, 4);
    cero_log_warn_once("spec", "%d steps", 6);
    assert_string_equal(line, "[rank 0/4] spec warn: 6 steps");
    assert_int_equal(level, CERO_LOG_WARN);
    cero_log_set_level(CERO_LOG_ERROR);
    cero_log_warn_once("spec", "%d steps", 7);
    assert_int_equal(count, 2);
}

/* What a terminal of warnings would not show, with the line's own level in it. */
static void test_other_rank(void **state)
{
    CERO_UNUSED(state);
    cero_log_set_rank(3, 4);
    cero_log_set_sink(keep, NULL);
    cero_log_warn_once("spec", "%d steps", 5);
    assert_int_equal(count, 1);
    assert_int_equal(level, CERO_LOG_INFO);
    assert_string_equal(line, "[rank 3/4] spec warn: 5 steps");
    // Its own warnings are warnings.
    cero_log(CERO_LOG_WARN, "data", "slow");
    assert_int_equal(level, CERO_LOG_WARN);
}

/* Without a sink a line would go to stderr. */
static void test_without_sink(void **state)
{
    char path[] = "/tmp/cero-log-XXXXXX";
    char text[64] = "";
    int before = dup(STDERR_FILENO);
    int fd = mkstemp(path);

    CERO_UNUSED(state);
    assert_true(before >= 0 && fd >= 0);
    assert_true(dup2(fd, STDERR_FILENO) >= 0);
    cero_log_set_rank(1, 2);
    cero_log_warn_once("spec", "not this");
    cero_log_set_rank(0, 2);
    cero_log_warn_once("spec", "this");
    assert_true(dup2(before, STDERR_FILENO) >= 0);
    assert_int_equal(pread(fd, text, sizeof(text) - 1, 0), strlen("[rank 0/2] spec warn: this\n"));
    assert_string_equal(text, "[rank 0/2] spec warn: this\n");
    (void)close(before);
    (void)close(fd);
    (void)unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_first_rank, reset, reset),
        cmocka_unit_test_setup_teardown(test_other_rank, reset, reset),
        cmocka_unit_test_setup_teardown(test_without_sink, reset, reset),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
