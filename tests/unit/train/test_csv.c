/* SPDX-License-Identifier: Apache-2.0 */
/* Each tag has a file with a heading and a line for each step; numbers read back; old lines stay. */
#include "harness.h"
#include "unit/ckpt/files.h"

#include "base/log.h"
#include "train/csv_monitor.h"

#include <math.h>

static int warnings;

static void count_warnings(void *context, cero_log_level level, const char *line)
{
    CERO_UNUSED(context);
    warnings += level == CERO_LOG_WARN && strstr(line, "earlier run") != NULL ? 1 : 0;
}

static void assert_file(const char *dir, const char *name, const char *expected)
{
    char *bytes = NULL;
    size_t length = 0;

    assert_ok(cero_file_read(files_in(dir, name), 0, &bytes, &length));
    assert_string_equal(bytes, expected);
    cero_delete(bytes);
}

static void test_files_and_lines(void **state)
{
    const cero_monitor_point tags[] = {
        {"Train/Samples/lr", 0}, {"Eval/loss", 0}, {"plain tag", 0}, {"Train/Samples/norm", 0}};
    const cero_monitor_point first[] = {{"Train/Samples/lr", 0.1},
                                        {"Train/Samples/norm", (double)INFINITY}};
    const cero_monitor_point second[] = {
        {"Eval/loss", 1.0 / 3}, {"Train/Samples/lr", 1e-8}, {"Train/Samples/norm", (double)NAN}};
    char dir[64];
    void *csv = NULL;
    (void)state;

    files_make_dir(dir, sizeof(dir));
    assert_ok(cero_monitor_csv.open(dir, tags, 4, &csv));
    assert_ok(cero_monitor_csv.write(csv, 4, first, 2));
    // Lines are there when write returns.
    assert_file(dir, "Train_Samples_lr.csv", "step,lr\n4,0.1\n");
    uint64_t calls = cero_mem_calls();
    assert_ok(cero_monitor_csv.write(csv, 8, second, 3));
    assert_int_equal(cero_mem_calls(), calls);
    cero_monitor_csv.close(csv);
    assert_file(dir, "Train_Samples_lr.csv", "step,lr\n4,0.1\n8,1e-08\n");
    assert_file(dir, "Train_Samples_norm.csv", "step,norm\n4,inf\n8,nan\n");
    assert_file(dir, "plain_tag.csv", "step,plain tag\n");
    char *bytes = NULL;
    size_t length = 0;
    assert_ok(cero_file_read(files_in(dir, "Eval_loss.csv"), 0, &bytes, &length));
    assert_memory_equal(bytes, "step,loss\n8,", 12);
    assert_true(strtod(bytes + 12, NULL) == 1.0 / 3);
    cero_delete(bytes);
    files_remove(dir);
}

static void test_old_file_is_continued(void **state)
{
    const cero_monitor_point tags[] = {{"a/x", 2.5}, {"a/y", 3}};
    char dir[64];
    void *csv = NULL;
    (void)state;

    files_make_dir(dir, sizeof(dir));
    files_write(files_in(dir, "a_x.csv"), "step,x\n1,7\n", 11);
    files_write(files_in(dir, "a_y.csv"), "", 0);
    warnings = 0;
    cero_log_set_sink(count_warnings, NULL);
    assert_ok(cero_monitor_csv.open(dir, tags, 2, &csv));
    cero_log_set_sink(NULL, NULL);
    assert_int_equal(warnings, 1);
    assert_ok(cero_monitor_csv.write(csv, 2, tags, 2));
    cero_monitor_csv.close(csv);
    assert_file(dir, "a_x.csv", "step,x\n1,7\n2,2.5\n");
    assert_file(dir, "a_y.csv", "step,y\n2,3\n");
    files_remove(dir);
}

static void test_errors(void **state)
{
    const cero_monitor_point tags[] = {{"a/x", 0}, {"b/y", 0}};
    char dir[64];
    void *csv = NULL;
    (void)state;

    files_make_dir(dir, sizeof(dir));
    assert_ok(cero_monitor_csv.open(dir, tags, 1, &csv));
    assert_fails(cero_monitor_csv.write(csv, 1, &tags[1], 1), CERO_ERR_INTERNAL, "b/y");
    cero_monitor_csv.close(csv);
    assert_ok(cero_file_make_dir(files_in(dir, "b_y.csv")));
    assert_fails(cero_monitor_csv.open(dir, tags, 2, &csv), CERO_ERR_IO, "b_y.csv");
    files_remove(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_files_and_lines),
        cmocka_unit_test(test_old_file_is_continued),
        cmocka_unit_test(test_errors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
