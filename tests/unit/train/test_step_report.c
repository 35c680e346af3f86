/* SPDX-License-Identifier: Apache-2.0 */
/* The log says what the config asks of steps: mean times of each interval, slow data once,
 * the first skip and the first clipped step. */
#include "harness.h"

#include "base/log.h"
#include "train/step_report.h"

static char text[32768];

static void sink(void *context, cero_log_level level, const char *line)
{
    CERO_UNUSED(context);
    CERO_UNUSED(level);
    size_t used = strlen(text);
    (void)snprintf(text + used, sizeof(text) - used, "%s\n", line);
}

static int begin(void **state)
{
    (void)state;
    text[0] = '\0';
    cero_log_set_level(CERO_LOG_INFO);
    cero_log_set_sink(sink, NULL);
    return 0;
}

static int end(void **state)
{
    (void)state;
    cero_log_set_sink(NULL, NULL);
    cero_log_set_level(CERO_LOG_WARN);
    return 0;
}

/* A step of 100 ms and its reading. */
static cero_metrics_step step_at(int64_t step, double data)
{
    return (cero_metrics_step){.stats = {.step = step,
                                         .is_applied = true,
                                         .applied = step,
                                         .seconds_forward = 0.02,
                                         .seconds_backward = 0.04,
                                         .seconds_exchange = 0.001,
                                         .seconds_update = 0.003},
                               .seconds_data = data,
                               .step_seconds = 0.1};
}

/* One rank: nothing is kept that would have to be ended. */
static void begin_report(cero_step_report *report, const cero_train_spec *spec)
{
    assert_ok(cero_step_report_begin(report, &(cero_step_report_params){.spec = spec}));
}

static void add_steps(cero_step_report *report, int64_t first, int64_t last, double data)
{
    for (int64_t i = first; i <= last; i++) {
        cero_metrics_step step = step_at(i, data);
        assert_ok(cero_step_report_add(report, &step));
    }
}

static void test_times_are_means_of_an_interval(void **state)
{
    cero_train_spec spec = {.wall_clock_breakdown = true, .steps_per_print = 5};
    cero_step_report report;
    (void)state;

    begin_report(&report, &spec);
    add_steps(&report, 1, 2, 0.001);
    add_steps(&report, 3, 4, 0.002);
    assert_string_equal(text, "");
    add_steps(&report, 5, 5, 0.004);
    assert_string_equal(text, "train info: time (ms) | forward: 20.00 | backward: 40.00 | "
                              "exchange: 1.00 | step: 3.00 | data: 2.00\n");
    text[0] = '\0';
    add_steps(&report, 6, 9, 0.001);
    assert_string_equal(text, "");
    add_steps(&report, 10, 10, 0.001);
    assert_non_null(strstr(text, "data: 1.00\n"));
}

static void test_no_times_unless_asked(void **state)
{
    cero_train_spec specs[] = {{.wall_clock_breakdown = false, .steps_per_print = 5},
                               {.wall_clock_breakdown = true, .steps_per_print = 0}};
    (void)state;

    for (size_t i = 0; i < CERO_COUNT_OF(specs); i++) {
        cero_step_report report;
        begin_report(&report, &specs[i]);
        add_steps(&report, 1, 40, 0.001);
        assert_string_equal(text, "");
    }
}

/* PF-05: 50 ms of each step go into reading. */
static void test_slow_data_is_said_once(void **state)
{
    cero_train_spec spec = {.steps_per_print = 4};
    cero_step_report report;
    (void)state;

    begin_report(&report, &spec);
    add_steps(&report, 1, 3, 0.05);
    add_steps(&report, 4, 4, 0.001); // one fast step does not hide three slow ones
    assert_non_null(strstr(text, "train warn: reading data takes 37.75 ms of the 100.00 ms of a "
                                 "step (38 %, mean of 4 steps)"));
    text[0] = '\0';
    add_steps(&report, 5, 40, 0.05);
    assert_string_equal(text, "");
}

static void test_ten_percent_is_the_border(void **state)
{
    cero_train_spec spec = {.steps_per_print = 0}; // no lines, but the warning
    cero_step_report report;
    (void)state;

    begin_report(&report, &spec);
    add_steps(&report, 1, 30, 0.0099);
    assert_string_equal(text, "");
    add_steps(&report, 31, 40, 0.0101);
    assert_non_null(strstr(text, "reading data takes 10.10 ms of the 100.00 ms"));
}

static void skip_steps(const cero_train_spec *spec, int64_t skipped_before)
{
    cero_step_report report;

    begin_report(&report, spec);
    for (int64_t i = 1; i <= 3; i++) {
        cero_metrics_step step = step_at(i, 0);
        step.stats.is_applied = false;
        step.stats.skipped = skipped_before + i;
        assert_ok(cero_step_report_add(&report, &step));
    }
}

/* LS-01; LS-07: not a word of loss scales in bf16. */
static void test_first_skip_of_fp16_is_explained(void **state)
{
    cero_train_spec spec = {.compute_dtype = CERO_DTYPE_F16};
    (void)state;

    skip_steps(&spec, 0);
    const char *line = strstr(text, "train info: a few skipped steps at the start of an fp16 run");
    assert_ptr_equal(line, text);
    assert_ptr_equal(strchr(text, '\n'), text + strlen(text) - 1); // one line
    text[0] = '\0';
    skip_steps(&spec, 5); // a run that goes on: not its first
    spec.loss_scale.loss_scale = 128;
    skip_steps(&spec, 0); // a fixed scale does not settle
    spec.loss_scale.loss_scale = 0;
    spec.compute_dtype = CERO_DTYPE_BF16;
    skip_steps(&spec, 0);
    assert_string_equal(text, "");
}

/* Pitfall: a norm above the limit looks as if clipping were off. */
static void test_first_clipped_step_is_explained(void **state)
{
    cero_train_spec spec = {.gradient_clipping = 0.5};
    cero_step_report report;
    (void)state;

    begin_report(&report, &spec);
    for (int i = 1; i <= 4; i++) {
        cero_metrics_step step = step_at(i, 0);
        step.stats.clip_coef = i == 1 ? 1 : 0.25;
        step.stats.grad_norm = 2;
        assert_ok(cero_step_report_add(&report, &step));
        assert_true((i == 1) == (text[0] == '\0'));
    }
    assert_string_equal(text,
                        "train info: step 2 is clipped, as many are early in a run: grad_norm 2 is "
                        "the norm before clipping, gradient_clipping limits it to 0.5 (clip_coef "
                        "0.25)\n");
}

/* A value too long for one line of the log goes on in the next. */
static void test_long_values_of_the_config_are_whole(void **state)
{
    char *pattern = cero_new(4096, 1);
    size_t used = 0;
    cero_train_config *config = NULL;
    (void)state;

    used += (size_t)snprintf(pattern, 4096, "cero.no_decay=[");
    for (int i = 0; i < 30; i++) {
        used += (size_t)snprintf(pattern + used, 4096 - used, "%s\"layer.%02d.%060d.weight\"",
                                 i == 0 ? "" : ",", i, i);
    }
    (void)snprintf(pattern + used, 4096 - used, "]");
    const char *sets[] = {pattern, "train_batch_size=1"};
    cero_train_config_params params = {.overrides = sets, .override_count = 2};
    assert_ok(cero_train_config_create(&params, &config));
    assert_ok(cero_step_report_config(config));
    for (int i = 0; i < 30; i++) {
        char name[96];
        (void)snprintf(name, sizeof(name), "\"layer.%02d.%060d.weight\"", i, i);
        assert_non_null(strstr(text, name));
    }
    cero_train_config_destroy(&config);
    cero_delete(pattern);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_times_are_means_of_an_interval, begin, end),
        cmocka_unit_test_setup_teardown(test_no_times_unless_asked, begin, end),
        cmocka_unit_test_setup_teardown(test_slow_data_is_said_once, begin, end),
        cmocka_unit_test_setup_teardown(test_ten_percent_is_the_border, begin, end),
        cmocka_unit_test_setup_teardown(test_first_skip_of_fp16_is_explained, begin, end),
        cmocka_unit_test_setup_teardown(test_first_clipped_step_is_explained, begin, end),
        cmocka_unit_test_setup_teardown(test_long_values_of_the_config_are_whole, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
