/* SPDX-License-Identifier: Apache-2.0 */
/* The progress line fits its terminal, is whole lines elsewhere, and is not cut by log lines. */
#include "harness.h"

#include "cli/progress.h"

static const cero_progress_step step_120 = {.step = 120,
                                            .loss = 3.25,
                                            .lr = 1e-3,
                                            .tokens_per_second = 12345,
                                            .step_seconds = 0.5};

static void test_durations(void **state)
{
    static const struct {
        double seconds;
        const char *text;
    } cases[] = {
        {0, "0 s"},
        {-3, "0 s"},
        {59.4, "59 s"},
        {59.6, "1 min 00 s"},
        {725, "12 min 05 s"},
        {12000, "3 h 20 min"},
        {4 * 86400 + 6 * 3600, "4 d 06 h"},
    };
    char text[32];
    (void)state;

    for (size_t i = 0; i < CERO_COUNT_OF(cases); i++) {
        assert_string_equal(cero_progress_duration(cases[i].seconds, text, sizeof(text)),
                            cases[i].text);
    }
}

static void test_line_fits_the_terminal(void **state)
{
    (void)state;

    for (int width = 1; width < 200; width++) {
        cero_progress_params params = {.is_terminal = true, .width = width, .total_steps = 300};
        cero_text line = {0};
        cero_progress_format(&params, &step_120, 90, &line);
        assert_true((int)line.length <= (width > 1 ? width - 1 : 1));
        assert_int_equal(width >= 80 && strchr(line.data, '[') == NULL, 0);
        cero_text_cleanup(&line);
    }
}

static void test_words_of_the_line(void **state)
{
    cero_progress_params params = {.total_steps = 300};
    cero_text line = {0};
    (void)state;

    cero_progress_format(&params, &step_120, 90, &line);
    assert_string_equal(line.data, "step 120/300  loss 3.2500  lr 0.001  12.3k tokens/s  "
                                   "1 min 30 s left");
    cero_text_cleanup(&line);
}

static void test_skips_are_shown(void **state)
{
    cero_progress_params params = {.total_steps = 300};
    cero_progress_step step = step_120;
    cero_text line = {0};
    (void)state;

    step.skipped = 3;
    cero_progress_format(&params, &step, 90, &line);
    assert_string_equal(line.data, "step 120/300  3 skipped  loss 3.2500  lr 0.001  "
                                   "12.3k tokens/s  1 min 30 s left");
    cero_text_cleanup(&line);
}

/* Runs `steps` steps and gives what was written. */
static void run_steps(bool is_terminal, int steps, char *text, size_t size)
{
    FILE *f = tmpfile();
    cero_progress p;
    cero_progress_params params = {
        .stream = f, .is_terminal = is_terminal, .total_steps = steps, .steps_per_print = 5};

    assert_non_null(f);
    cero_progress_begin(&p, &params);
    for (int i = 1; i <= steps; i++) {
        cero_progress_step step = step_120;
        step.step = i;
        cero_progress_update(&p, &step);
        if (i == 1) {
            cero_progress_log_sink(&p, CERO_LOG_WARN, "a log line");
        }
    }
    cero_progress_end(&p);
    rewind(f);
    size_t n = fread(text, 1, size - 1, f);
    text[n] = '\0';
    (void)fclose(f);
}

static void test_whole_lines_off_a_terminal(void **state)
{
    char text[4096];
    (void)state;

    run_steps(false, 12, text, sizeof(text));
    assert_null(strchr(text, '\r'));
    assert_null(strchr(text, '\033'));
    assert_non_null(strstr(text, "step 1/12 "));
    assert_non_null(strstr(text, "\na log line\nstep 5/12 "));
    assert_null(strstr(text, "step 4/12 "));
    assert_non_null(strstr(text, "step 12/12 "));
    assert_non_null(strstr(text, "  4 s left\n")); // at step 5: 7 steps of half a second
}

static void test_one_line_on_a_terminal(void **state)
{
    char text[4096];
    (void)state;

    run_steps(true, 12, text, sizeof(text));
    assert_non_null(strstr(text, "\r\033[K[="));
    assert_non_null(strstr(text, "\r\033[Ka log line\n"));
    assert_non_null(strstr(text, "step 12/12 "));
    assert_int_equal(text[strlen(text) - 1], '\n');
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_durations),
        cmocka_unit_test(test_line_fits_the_terminal),
        cmocka_unit_test(test_words_of_the_line),
        cmocka_unit_test(test_skips_are_shown),
        cmocka_unit_test(test_whole_lines_off_a_terminal),
        cmocka_unit_test(test_one_line_on_a_terminal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
