/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What ranks report together: the communication log has what was exchanged since it began, and the times of an
 * interval name the slowest rank, whoever it is.
 */
// RUN: np=2,3
#include "world.h"

#include "base/log.h"
#include "train/comms_report.h"
#include "train/step_report.h"

static char text[32768];

static void sink(void *context, cero_log_level level, const char *line)
{
    size_t used = strlen(text);

    CERO_UNUSED(context);
    (void)snprintf(text + used, sizeof(text) - used, "%d %s\n", (int)level, line);
}

static void begin_log(void)
{
    text[0] = '\0';
    cero_log_set_rank(cero_comm_rank(world), cero_comm_size(world));
    cero_log_set_level(CERO_LOG_INFO);
    cero_log_set_sink(sink, NULL);
}

static void end_log(void)
{
    cero_log_set_sink(NULL, NULL);
    cero_log_set_level(CERO_LOG_WARN);
}

static int occurrences(const char *part)
{
    int count = 0;

    for (const char *p = strstr(text, part); p != NULL; p = strstr(p + 1, part)) {
        count++;
    }
    return count;
}

/* Two reductions of 24 bytes, one of 8, three gathers of 16 bytes a rank, a broadcast of 100 bytes, a barrier. */
static void exchange(void)
{
    int64_t values[3] = {1, 2, 3};
    char all[3 * 16];
    char mine[16] = "mine";
    char data[100] = "data";

    assert_true(cero_comm_size(world) <= 3);
    for (int i = 0; i < 2; i++) {
        assert_ok(cero_comm_all_reduce_i64(world, CERO_COMM_SUM, values, 3));
    }
    assert_ok(cero_comm_all_reduce_i64(world, CERO_COMM_SUM, values, 1));
    for (int i = 0; i < 3; i++) {
        assert_ok(cero_comm_all_gather(world, mine, sizeof(mine), all));
    }
    assert_ok(cero_comm_broadcast(world, data, sizeof(data), 0));
    assert_ok(cero_comm_barrier(world));
}

/* The table has a row of this operation, size and count. */
static void expect_row(const char *table, const char *op, int nbytes, int count)
{
    char row[80];

    (void)snprintf(row, sizeof(row), "\n%-24s %6d bytes %8d ", op, nbytes, count);
    if (strstr(table, row) == NULL) {
        fail_msg("no row \"%s\" in: %s", row, table);
    }
}

static int rows(const char *table)
{
    int count = -2; // two lines of heading

    for (const char *p = strchr(table, '\n'); p != NULL; p = strchr(p + 1, '\n')) {
        count++;
    }
    return count;
}

static void test_table(void **state)
{
    cero_train_spec spec = {.comms_logger_enabled = true, .comms_logger_prof_all = true};
    cero_comms_report *report = NULL;
    cero_text table = {0};
    CERO_UNUSED(state);

    exchange(); // before it began: not in the table
    assert_ok(cero_comms_report_begin(&spec, world, &report));
    exchange();
    assert_ok(cero_comms_report_write(report, &table));
    expect_row(table.data, "all_reduce", 24, 2);
    expect_row(table.data, "all_reduce", 8, 1);
    expect_row(table.data, "all_gather", 16, 3);
    expect_row(table.data, "broadcast", cero_comm_rank(world) == 0 ? 100 : 0, 1);
    expect_row(table.data, "barrier", 0, 1);
    assert_int_equal(rows(table.data), 5);
    assert_true(strstr(table.data, " 8 bytes") < strstr(table.data, "24 bytes")); // by size
    table.length = 0;
    spec.comms_logger_prof_all = false;
    spec.comms_logger_prof_ops.count = 1;
    (void)snprintf(spec.comms_logger_prof_ops.pattern[0], CERO_MAX_PATTERN, "all_gather");
    assert_ok(cero_comms_report_write(report, &table));
    expect_row(table.data, "all_gather", 16, 3);
    assert_int_equal(rows(table.data), 1);
    cero_text_cleanup(&table);
    cero_comms_report_end(&report);
}

/* Each rank logs its own operations at debug, and the log's level is as before afterwards. */
static void test_verbose(void **state)
{
    cero_train_spec spec = {
        .comms_logger_enabled = true, .comms_logger_verbose = true, .comms_logger_prof_all = true};
    cero_comms_report *report = NULL;
    CERO_UNUSED(state);

    begin_log();
    assert_ok(cero_comms_report_begin(&spec, world, &report));
    exchange();
    cero_comms_report_end(&report);
    assert_int_equal(occurrences(" comm debug: "), 8);
    assert_int_equal(occurrences(" comm debug: all_reduce | time: "), 3);
    assert_int_equal(occurrences(" | message size: 24 bytes | throughput: "), 2);
    assert_int_equal(occurrences("3 [rank "), 8); // the number of the level is debug's
    assert_int_equal(cero_log_get_level(), CERO_LOG_INFO);
    exchange();
    assert_int_equal(occurrences(" comm debug: "), 8);
    end_log();
}

/* A step of this rank: the others wait in exchanges for the slow one. */
static cero_metrics_step step_of(int64_t number, int slow)
{
    bool is_slow = cero_comm_rank(world) == slow;

    return (cero_metrics_step){.stats = {.step = number,
                                         .is_applied = true,
                                         .seconds_forward = is_slow ? 0.040 : 0.020,
                                         .seconds_backward = 0.030,
                                         .seconds_exchange = is_slow ? 0.005 : 0.025,
                                         .seconds_update = 0.002},
                               .seconds_data = 0.001,
                               .step_seconds = 0.080,
                               .bytes_sent = 1024,
                               .messages_sent = 3};
}

static void test_slowest_rank(void **state)
{
    cero_train_spec spec = {.wall_clock_breakdown = true, .steps_per_print = 2};
    cero_step_report_params params = {
        .spec = &spec, .comm = world, .cost = {.uses = 16, .uses_ahead = 4}};
    int size = cero_comm_size(world);
    CERO_UNUSED(state);

    for (int slow = 0; slow < size; slow++) {
        cero_step_report report;
        char wanted[512];
        begin_log();
        assert_ok(cero_step_report_begin(&report, &params));
        uint64_t calls = cero_mem_calls();
        for (int64_t i = 1; i <= 4; i++) {
            cero_metrics_step step = step_of(i, slow);
            assert_ok(cero_step_report_add(&report, &step));
        }
        assert_int_equal(cero_mem_calls(), calls);
        cero_step_report_end(&report);
        double mean = (20.0 * (size - 1) + 40.0) / size;
        double own = (55.0 * (size - 1) + 75.0) / size;
        int intervals = cero_comm_rank(world) == 0 ? 2 : 0; // rank 0 alone speaks
        (void)snprintf(wanted, sizeof(wanted),
                       "train info: time (ms) | forward: %.2f (20.00 to 40.00) | backward: 30.00 "
                       "(30.00 to 30.00) | exchange: %.2f (5.00 to 25.00) | step: 2.00 (2.00 to "
                       "2.00) | data: 1.00 (1.00 to 1.00)\n",
                       mean, 80 - own);
        assert_int_equal(occurrences(wanted), intervals);
        (void)snprintf(wanted, sizeof(wanted),
                       "train info: step of 80.00 ms | exposed exchange: %.1f %% | gathers: 16, 4 "
                       "started ahead | sent by rank 0: 1.00 KiB in 3 messages | slowest: rank %d, "
                       "75.00 ms of its own work, %.1f %% above the mean\n",
                       100 * (80 - own) / 80, slow, 100 * (75 / own - 1));
        assert_int_equal(occurrences(wanted), intervals);
        end_log();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_table),
        cmocka_unit_test(test_verbose),
        cmocka_unit_test(test_slowest_rank),
    };
    return run_in_world(NULL, tests, CERO_COUNT_OF(tests));
}
