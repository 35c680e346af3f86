/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The monitors of a run get its scalars under DeepSpeed's tags, where the config says, and steps allocate
 * nothing for them.
 */
#include "harness.h"
#include "unit/train/events.h"
#include "unit/train/tiny.h"

#include "train/monitor.h"

#include <math.h>

enum {
    MOST_STEPS = 16,
    MOST_EVENTS = 1 + MOST_STEPS
};

/* What the visitor saw, to compare with what the monitors wrote. */
typedef struct witness {
    cero_metrics_step step[MOST_STEPS];
    uint64_t calls[MOST_STEPS];
    int count;
} witness;

static void visit(void *context, const cero_metrics_step *step)
{
    witness *w = context;

    assert_in_range(w->count, 0, MOST_STEPS - 1);
    w->calls[w->count] = cero_mem_calls();
    w->step[w->count++] = *step;
}

static void assert_csv_value(const char *dir, const char *name, int line, int64_t x, double value)
{
    char *bytes = NULL;
    size_t length = 0;
    char *end = NULL;

    assert_ok(cero_file_read(files_in(dir, name), 0, &bytes, &length));
    const char *p = bytes;
    for (int i = 0; i < line; i++) {
        p = strchr(p, '\n');
        assert_non_null(p);
        p++;
    }
    assert_int_equal(strtoll(p, &end, 10), x);
    assert_int_equal(*end, ',');
    assert_true(strtod(end + 1, NULL) == value);
    cero_delete(bytes);
}

static void test_everything_in_the_run_directory(void **state)
{
    static const char base[] = "Train/Samples/elapsed_time_ms_";
    static event events[MOST_EVENTS];
    static witness w;
    tiny_run run;
    char tag[CERO_MONITOR_MAX_TAG];
    (void)state;

    w.count = 0;
    tiny_begin(&run);
    tiny_set(&run, "tensorboard.enabled=true");
    tiny_set(&run, "csv_monitor.enabled=true");
    tiny_set(&run, "wall_clock_breakdown=true");
    tiny_set(&run, "steps_per_print=2");
    run.visitor = visit;
    run.visitor_context = &w;
    run.eval_every = 3;
    assert_ok(tiny_create(&run));
    assert_ok(cero_trainer_run(run.trainer, NULL));
    // Neither metrics, monitors, evaluation nor the log allocate after the first step.
    assert_int_equal(w.count, 6);
    assert_int_equal(w.calls[5], w.calls[0]);
    tiny_close(&run);
    assert_int_equal(events_read(run.out, 0, events, MOST_EVENTS), 7);
    for (int i = 0; i < 6; i++) {
        const event *e = &events[i + 1];
        const cero_metrics_step *s = &w.step[i];
        assert_int_equal(e->step, 4 * (i + 1)); // samples, not steps
        assert_int_equal(e->value_count, (i + 1) % 3 == 0 ? 9 : 8);
        assert_true(events_find(e, "Train/Samples/train_loss") == (float)s->stats.loss);
        assert_true(events_find(e, "Train/Samples/lr") == (float)s->stats.lr);
        assert_true(events_find(e, "Train/Samples/grad_norm") == (float)s->stats.grad_norm);
        const double seconds[] = {s->stats.seconds_forward, s->stats.seconds_backward,
                                  s->stats.seconds_backward, s->stats.seconds_exchange,
                                  s->stats.seconds_update};
        static const char *const phases[] = {"forward", "backward", "backward_inner",
                                             "backward_allreduce", "step"};
        for (int p = 0; p < 5; p++) {
            (void)snprintf(tag, sizeof(tag), "%s%s", base, phases[p]);
            assert_true(events_find(e, tag) == (float)(1e3 * seconds[p]));
        }
        assert_csv_value(run.out, "Train_Samples_train_loss.csv", i + 1, s->samples, s->stats.loss);
        if (s->has_eval) {
            assert_true(events_find(e, "Eval/loss") == (float)s->eval_loss);
            assert_csv_value(run.out, "Eval_loss.csv", (i + 1) / 3, s->samples, s->eval_loss);
        }
    }
    assert_int_equal(tiny_occurrences(run.log.data, "train info: time (ms) | forward: "), 3);
    tiny_end(&run);
}

static void test_folders_of_the_config(void **state)
{
    static event events[MOST_EVENTS];
    tiny_run run;
    char tensorboard[128];
    char csv[128];
    (void)state;

    tiny_begin(&run);
    (void)snprintf(tensorboard, sizeof(tensorboard), "tensorboard.output_path=%s/tb", run.dir);
    (void)snprintf(csv, sizeof(csv), "csv_monitor.output_path=%s/csv", run.dir);
    tiny_set(&run, "tensorboard.enabled=true");
    tiny_set(&run, tensorboard);
    tiny_set(&run, "tensorboard.job_name=\"first\"");
    tiny_set(&run, "csv_monitor.enabled=true");
    tiny_set(&run, csv);
    run.steps = 2;
    assert_ok(tiny_create(&run));
    assert_ok(cero_trainer_run(run.trainer, NULL));
    tiny_close(&run);
    assert_int_equal(events_read(run.out, 0, events, MOST_EVENTS), -1);
    assert_int_equal(events_read(files_in(run.dir, "tb/first"), 0, events, MOST_EVENTS), 3);
    // Neither times, nor a loss scale in fp32, nor an evaluation that the run does not have.
    assert_int_equal(events[1].value_count, 3);
    cero_file_list list = {0};
    assert_ok(cero_file_list_dir(files_in(run.dir, "csv/DeepSpeedJobName"), false, &list));
    assert_int_equal(list.count, 3);
    cero_file_list_cleanup(&list);
    tiny_end(&run);
}

static void test_nothing_unless_enabled(void **state)
{
    tiny_run run;
    cero_file_list list = {0};
    (void)state;

    tiny_begin(&run);
    run.steps = 1;
    assert_ok(tiny_create(&run));
    assert_ok(cero_trainer_run(run.trainer, NULL));
    tiny_close(&run);
    assert_ok(cero_file_list_dir(run.out, true, &list));
    assert_int_equal(list.count, 1); // metrics.jsonl
    cero_file_list_cleanup(&list);
    assert_null(strstr(run.log.data, "time (ms)"));
    assert_null(strstr(run.log.data, "\"train_batch_size\""));
    tiny_end(&run);
}

/* fp16 with a scale far too high: skips are in the monitors, and explained once. */
static void test_loss_scale_and_first_skip(void **state)
{
    static event events[MOST_EVENTS];
    static witness w;
    tiny_run run;
    (void)state;

    w.count = 0;
    tiny_begin(&run);
    tiny_set(&run, "fp16.enabled=true");
    tiny_set(&run, "fp16.initial_scale_power=32");
    tiny_set(&run, "tensorboard.enabled=true");
    run.visitor = visit;
    run.visitor_context = &w;
    run.steps = 6;
    assert_ok(tiny_create(&run));
    assert_ok(cero_trainer_run(run.trainer, NULL));
    tiny_close(&run);
    assert_true(w.step[5].stats.skipped >= 2);
    assert_int_equal(tiny_occurrences(run.log.data, "skipped steps at the start of an fp16 run"),
                     1);
    assert_int_equal(events_read(run.out, 0, events, MOST_EVENTS), 7);
    for (int i = 0; i < 6; i++) {
        assert_true(events_find(&events[i + 1], "Train/Samples/loss_scale") ==
                    (float)w.step[i].stats.loss_scale);
    }
    assert_true(events_find(&events[1], "Train/Samples/loss_scale") == 4294967296.0F);
    tiny_end(&run);
}

static void test_dump_state(void **state)
{
    tiny_run run;
    (void)state;

    tiny_begin(&run);
    tiny_set(&run, "dump_state=true");
    tiny_set(&run, "cero.seed=77");
    run.steps = 2;
    assert_ok(tiny_create(&run));
    assert_ok(cero_trainer_run(run.trainer, NULL));
    tiny_close(&run);
    // Every line of the config is a line of the log, in order, once.
    cero_text json = {0};
    cero_config *config = NULL;
    assert_ok(cero_config_create(NULL, NULL, run.set, run.set_count, &config));
    assert_ok(cero_train_config_write_json(config, &json));
    const char *at = run.log.data;
    int lines = 0;
    for (char *line = json.data; *line != '\0';) {
        char *end = strchr(line, '\n');
        char expected[512];
        (void)snprintf(expected, sizeof(expected), "train info: %.*s\n", (int)(end - line), line);
        at = strstr(at, expected);
        assert_non_null(at);
        line = end + 1;
        lines++;
    }
    assert_true(lines > 10);
    assert_int_equal(tiny_occurrences(run.log.data, "\"cero.seed\": {\"value\": 77"), 1);
    cero_config_destroy(&config);
    cero_text_cleanup(&json);
    tiny_end(&run);
}

static void test_errors_name_the_section(void **state)
{
    tiny_run run;
    char path[128];
    (void)state;

    tiny_begin(&run);
    (void)snprintf(path, sizeof(path), "csv_monitor.output_path=%s/data.u16", run.dir);
    tiny_set(&run, "csv_monitor.enabled=true");
    tiny_set(&run, path);
    assert_fails(tiny_create(&run), CERO_ERR_IO, "csv_monitor: ");
    // The directory is not taken for one that holds a run.
    assert_int_equal(cero_file_stat(files_in(run.out, "metrics.jsonl"), NULL), CERO_FILE_ABSENT);
    tiny_end(&run);
}

static void test_no_memory(void **state)
{
    cero_train_spec spec = {.tensorboard_enabled = true, .csv_monitor_enabled = true};
    char dir[64];
    cero_monitors *monitors = NULL;
    uint64_t n = 0;
    cero_status st;
    (void)state;

    do {
        // A fresh folder each time: what an attempt leaves makes names, and allocations, for the next.
        files_make_dir(dir, sizeof(dir));
        cero_mem_fail_at(++n);
        st = cero_monitors_open(
            &(cero_monitors_params){.spec = &spec, .out = dir, .has_eval = true}, &monitors);
        cero_mem_fail_at(0);
        assert_true(st == CERO_OK || st == CERO_ERR_NOMEM);
        cero_monitors_close(&monitors);
        files_remove(dir);
    } while (st != CERO_OK && n < 1000);
    assert_ok(st);
    assert_true(n > 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_everything_in_the_run_directory),
        cmocka_unit_test(test_folders_of_the_config),
        cmocka_unit_test(test_nothing_unless_enabled),
        cmocka_unit_test(test_loss_scale_and_first_skip),
        cmocka_unit_test(test_dump_state),
        cmocka_unit_test(test_errors_name_the_section),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
