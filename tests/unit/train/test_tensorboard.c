/* SPDX-License-Identifier: Apache-2.0 */
/* An event file is whole records with right check sums that say what was written, and nobody else's file. */
#include "harness.h"
#include "unit/ckpt/files.h"
#include "unit/train/events.h"

#include "base/clock.h"

#include <ctype.h>
#include <math.h>

static void test_crc_known_answers(void **state)
{
    unsigned char block[32];
    (void)state;

    assert_int_equal(cero_crc32c("", 0), 0);
    assert_int_equal(cero_crc32c("a", 1), 0xC1D04330u);
    assert_int_equal(cero_crc32c("123456789", 9), 0xE3069283u);
    // The vectors of RFC 3720, appendix B.4.
    memset(block, 0, sizeof(block));
    assert_int_equal(cero_crc32c(block, sizeof(block)), 0x8A9136AAu);
    memset(block, 0xFF, sizeof(block));
    assert_int_equal(cero_crc32c(block, sizeof(block)), 0x62A8AB43u);
    for (int i = 0; i < 32; i++) {
        block[i] = (unsigned char)i;
    }
    assert_int_equal(cero_crc32c(block, sizeof(block)), 0x46DD794Eu);
}

/* The first 12 bytes of every event file, from TensorBoard's own: length 24 and its masked check sum. */
static void test_frame_of_the_first_record(void **state)
{
    static const unsigned char start[] = {24, 0, 0, 0, 0, 0, 0, 0, 0xA3, 0x7F, 0x4B, 0x22, 0x09};
    char dir[64];
    void *tb = NULL;
    char *bytes = NULL;
    size_t length = 0;
    cero_file_list list = {0};
    (void)state;

    files_make_dir(dir, sizeof(dir));
    assert_ok(cero_monitor_tensorboard.open(dir, NULL, 0, &tb));
    cero_monitor_tensorboard.close(tb);
    assert_ok(cero_file_list_dir(dir, false, &list));
    assert_int_equal(list.count, 1);
    assert_ok(cero_file_read(list.path[0], 0, &bytes, &length));
    assert_int_equal(length, 8 + 4 + 24 + 4);
    assert_memory_equal(bytes, start, sizeof(start));
    assert_memory_equal(bytes + 21,
                        "\x1a\x0d"
                        "brain.Event:2",
                        15);
    cero_delete(bytes);
    cero_file_list_cleanup(&list);
    files_remove(dir);
}

static void test_points_read_back(void **state)
{
    static const int64_t samples[] = {0, 127, 128, 16384, INT64_MAX};
    static event events[16];
    char dir[64];
    void *tb = NULL;
    (void)state;

    files_make_dir(dir, sizeof(dir));
    double before = cero_clock_wall();
    assert_ok(cero_monitor_tensorboard.open(dir, NULL, 0, &tb));
    for (size_t i = 0; i < CERO_COUNT_OF(samples); i++) {
        cero_monitor_point points[] = {
            {"Train/Samples/lr", 0.1 * (double)i}, {"b", (double)INFINITY}, {"c", (double)NAN}};
        assert_ok(cero_monitor_tensorboard.write(tb, samples[i], points, i == 0 ? 1 : 3));
        // Each step is in the file when write returns.
        assert_int_equal(events_read(dir, 0, events, 16), (int)i + 2);
    }
    cero_monitor_tensorboard.close(tb);
    int count = events_read(dir, 0, events, 16);
    assert_int_equal(count, 1 + (int)CERO_COUNT_OF(samples));
    assert_string_equal(events[0].version, "brain.Event:2");
    assert_int_equal(events[0].value_count, 0);
    for (int i = 1; i < count; i++) {
        assert_true(events[i].wall_time >= before && events[i].wall_time <= cero_clock_wall());
        assert_string_equal(events[i].version, "");
        assert_int_equal(events[i].step, samples[i - 1]);
        assert_int_equal(events[i].value_count, i == 1 ? 1 : 3);
        assert_true(events_find(&events[i], "Train/Samples/lr") == (float)(0.1 * (i - 1)));
        assert_true(i == 1 || isinf(events_find(&events[i], "b")));
        assert_true(i == 1 || isnan(events_find(&events[i], "c")));
    }
    files_remove(dir);
}

static void test_most_and_longest_tags(void **state)
{
    static event events[2];
    static char tags[CERO_MONITOR_MAX_POINTS][CERO_MONITOR_MAX_TAG];
    cero_monitor_point points[CERO_MONITOR_MAX_POINTS];
    char dir[64];
    void *tb = NULL;
    (void)state;

    for (int i = 0; i < CERO_MONITOR_MAX_POINTS; i++) {
        memset(tags[i], 'a' + i, CERO_MONITOR_MAX_TAG - 1);
        points[i] = (cero_monitor_point){tags[i], i};
    }
    files_make_dir(dir, sizeof(dir));
    assert_ok(cero_monitor_tensorboard.open(dir, NULL, 0, &tb));
    // Steps count from 0, but a negative one takes the most bytes there are: ten.
    assert_ok(cero_monitor_tensorboard.write(tb, -1, points, CERO_MONITOR_MAX_POINTS));
    cero_monitor_tensorboard.close(tb);
    assert_int_equal(events_read(dir, 0, events, 2), 2);
    assert_int_equal(events[1].step, -1);
    for (int i = 0; i < CERO_MONITOR_MAX_POINTS; i++) {
        assert_true(events_find(&events[1], tags[i]) == (float)i);
    }
    files_remove(dir);
}

/* events.out.tfevents.<10 digits>.<host>.<pid>.<n>; a second file in the same second gets another name. */
static void test_names(void **state)
{
    char dir[64];
    char end[64];
    void *tb[2] = {NULL, NULL};
    cero_file_list list = {0};
    (void)state;

    files_make_dir(dir, sizeof(dir));
    assert_ok(cero_monitor_tensorboard.open(dir, NULL, 0, &tb[0]));
    assert_ok(cero_monitor_tensorboard.open(dir, NULL, 0, &tb[1]));
    assert_ok(cero_file_list_dir(dir, false, &list));
    assert_int_equal(list.count, 2);
    (void)snprintf(end, sizeof(end), ".%ld.", (long)getpid());
    for (int64_t i = 0; i < list.count; i++) {
        const char *name = strrchr(list.path[i], '/') + 1;
        assert_memory_equal(name, "events.out.tfevents.", 20);
        for (int d = 20; d < 30; d++) {
            assert_true(isdigit((unsigned char)name[d]));
        }
        assert_int_equal(name[30], '.');
        assert_non_null(strstr(name + 31, end));
    }
    cero_file_list_cleanup(&list);
    cero_monitor_tensorboard.close(tb[0]);
    cero_monitor_tensorboard.close(tb[1]);
    files_remove(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_crc_known_answers),
        cmocka_unit_test(test_frame_of_the_first_record),
        cmocka_unit_test(test_points_read_back),
        cmocka_unit_test(test_most_and_longest_tags),
        cmocka_unit_test(test_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
