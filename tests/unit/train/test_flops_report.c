/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The profile of flops_profiler counts the operations that the plan counts, once in each of its views, and says
 * as much as the config asks for.
 */
#include "cases.h"
#include "unit/ckpt/files.h"
#include "unit/train/tiny.h"

#include "train/flops_report.h"

enum {
    SEQ = 32
};

/* G1 on two micro-batches, profiled for a step. */
typedef struct profiled {
    case_world world;
    cero_model_spec model;
    cero_engine *engine;
    cero_metrics_step step;
    cero_train_spec spec;
    cero_text text;
} profiled;

static void begin(profiled *p, const char *const *sets)
{
    static case_batch batch;

    memset(p, 0, sizeof(*p));
    p->model = case_g1();
    case_open(&p->world, 1, sets);
    assert_ok(case_engine(&p->world, &p->model, SEQ, &p->engine));
    p->spec = *cero_engine_spec(p->engine);
    const cero_batch *b = case_batch_fill(&batch, 0, 4, SEQ, p->model.vocab_size);
    assert_ok(cero_engine_train_batch(p->engine, b, &p->step.stats));
    assert_ok(cero_engine_profile_begin(p->engine));
    assert_ok(cero_engine_train_batch(p->engine, b, &p->step.stats));
    cero_engine_profile_end(p->engine);
    assert_ok(cero_engine_train_batch(p->engine, b, &p->step.stats)); // not counted
    p->step.step_seconds = 0.5;
}

static void end(profiled *p)
{
    cero_text_cleanup(&p->text);
    cero_engine_destroy(&p->engine);
    case_close(&p->world);
}

static void report(profiled *p)
{
    cero_flops_report_params params = {
        .spec = &p->spec, .engine = p->engine, .step = &p->step, .model = "G1", .size = 1};

    p->text.length = 0;
    assert_ok(cero_flops_report_write(&params, &p->text));
}

/* How many lines begin with this text. */
static int lines_that_begin(const char *text, const char *start)
{
    int count = strncmp(text, start, strlen(start)) == 0 ? 1 : 0;

    for (const char *p = strchr(text, '\n'); p != NULL; p = strchr(p + 1, '\n')) {
        count += strncmp(p + 1, start, strlen(start)) == 0 ? 1 : 0;
    }
    return count;
}

static void test_numbers(void **state)
{
    static const struct {
        double value;
        const char *unit;
        const char *text;
    } cases[] = {
        {0, "FLOP", "-"},        {12, "FLOP", "12 FLOP"},        {12, "", "12"},
        {1500, "", "1.500 k"},   {2.5e6, "FLOP", "2.500 MFLOP"}, {7e9, "FLOP/s", "7.000 GFLOP/s"},
        {3e18, "", "3000.000 P"}};
    char text[32];
    CERO_UNUSED(state);

    for (size_t i = 0; i < CERO_COUNT_OF(cases); i++) {
        assert_string_equal(
            cero_flops_report_number(cases[i].value, cases[i].unit, text, sizeof(text)),
            cases[i].text);
    }
}

/* A number with its prefix behind `label` in the line that begins with `start`. */
static double number_after(const char *text, const char *start)
{
    static const char prefixes[] = "kMGTP";
    const char *at = strstr(text, start);
    double value = 0;
    char prefix = '\0';

    assert_non_null(at);
    assert_int_equal(sscanf(at + strlen(start), " %lf %c", &value, &prefix), 2);
    const char *which = strchr(prefixes, prefix);
    for (const char *p = prefixes; which != NULL && prefix != '\0' && p <= which; p++) {
        value *= 1e3;
    }
    return value;
}

static void expect_near(double found, double expected)
{
    if (!(found > 0.999 * expected && found < 1.001 * expected)) {
        fail_msg("%g is not %g", found, expected);
    }
}

/* Recomputation makes the backward of the program longer than that of the model. */
static void test_totals_are_those_of_the_plan(void **state)
{
    profiled p;
    CERO_UNUSED(state);

    begin(&p, (const char *const[]){"train_batch_size=4", "cero.checkpoint_units=1", NULL});
    const cero_engine_plan *plan = cero_engine_get_plan(p.engine);
    report(&p);
    expect_near(number_after(p.text.data, "\n  parameters"), (double)plan->param_count);
    expect_near(number_after(p.text.data, "\n  forward  "),
                2 * plan->train.flops[CERO_PHASE_FORWARD]);
    expect_near(
        number_after(p.text.data, "\n  backward  "),
        2 * (plan->train.flops[CERO_PHASE_BACKWARD] + plan->train.flops[CERO_PHASE_RECOMPUTE]));
    assert_true(plan->train.flops[CERO_PHASE_RECOMPUTE] > 0);
    expect_near(number_after(p.text.data, "\n  recomputed"),
                2 * plan->train.flops[CERO_PHASE_RECOMPUTE]);
    assert_non_null(strstr(p.text.data, "flops profiler: step 3 on rank 0 of 1, model G1\n"));
    assert_non_null(strstr(p.text.data, "  micro-batches          2 of 2 samples on this rank\n"));
    assert_non_null(strstr(p.text.data, "500.000 ms, 8.0 samples/s over all ranks\n"));
    end(&p);
}

/* Sums the parameters of the rows of units, or the forward operations of the rows of their operations. */
static double sum_rows(const char *text, const char *indent, bool is_params)
{
    double sum = 0;

    const char *p = strstr(text, "unit and operation");
    assert_non_null(p);
    for (p = strchr(p, '\n'); p != NULL; p = strchr(p + 1, '\n')) {
        char name[64];
        const char *line = p + 1;
        if (strncmp(line, indent, strlen(indent)) != 0 || line[strlen(indent)] == ' ' ||
            sscanf(line, " %63s", name) != 1) {
            continue;
        }
        // parameters, percent, operations: each a number and a unit, or "-".
        const char *at = line + strlen(indent) + strlen(name);
        for (int column = 0; column < 3; column++) {
            double value = 0;
            char unit[16] = "";
            int used = 0;
            at += strspn(at, " ");
            if (at[0] == '-') {
                used = 1;
            } else {
                assert_int_equal(sscanf(at, "%lf%n", &value, &used), 1);
                if (column > 0 || strspn(at + used, " ") == 1) {
                    int more = 0;
                    assert_int_equal(sscanf(at + used, "%15s%n", unit, &more), 1);
                    used += more;
                }
            }
            at += used;
            value *= unit[0] == 'k' ? 1e3 : unit[0] == 'M' ? 1e6 : 1;
            sum += (is_params && column == 0) || (!is_params && column == 2) ? value : 0;
        }
    }
    return sum;
}

static void test_views_add_up(void **state)
{
    profiled p;
    CERO_UNUSED(state);

    begin(&p, (const char *const[]){"train_batch_size=4", NULL});
    const cero_engine_plan *plan = cero_engine_get_plan(p.engine);
    report(&p);
    expect_near(sum_rows(p.text.data, "  ", true), (double)plan->param_count);
    expect_near(sum_rows(p.text.data, "  ", false), 2 * plan->train.flops[CERO_PHASE_FORWARD]);
    expect_near(sum_rows(p.text.data, "    ", false), 2 * plan->train.flops[CERO_PHASE_FORWARD]);
    end(&p);
}

static void test_depth_details_and_top(void **state)
{
    profiled p;
    CERO_UNUSED(state);

    begin(&p, (const char *const[]){"train_batch_size=4", NULL});
    report(&p); // the defaults: all, top 1
    assert_int_equal(lines_that_begin(p.text.data, "top 1 units by "), 3);
    assert_int_equal(lines_that_begin(p.text.data, "top 1 operations by "), 2);
    assert_int_equal(lines_that_begin(p.text.data, "  transformer.h."), 2);
    assert_int_equal(lines_that_begin(p.text.data, "    attention_grad "), 2);
    // Of equal units the first comes first.
    assert_non_null(strstr(p.text.data, "top 1 units by parameters: transformer.h.0 49.984 k\n"));
    p.spec.flops_profiler_top_modules = 3;
    p.spec.flops_profiler_module_depth = 1;
    report(&p);
    assert_int_equal(lines_that_begin(p.text.data, "top 3 units by "), 3);
    assert_int_equal(lines_that_begin(p.text.data, "top 3 operations by "), 0);
    assert_int_equal(lines_that_begin(p.text.data, "  transformer.h."), 2);
    assert_int_equal(lines_that_begin(p.text.data, "    attention"), 0);
    assert_non_null(strstr(p.text.data, "parameters: transformer.h.0 49.984 k, transformer.h.1 "
                                        "49.984 k, transformer.embedding 18.432 k\n"));
    p.spec.flops_profiler_module_depth = 0;
    report(&p);
    assert_int_equal(lines_that_begin(p.text.data, "top "), 0);
    assert_int_equal(lines_that_begin(p.text.data, "  transformer."), 0);
    assert_int_equal(lines_that_begin(p.text.data, "G1 "), 1);
    p.spec.flops_profiler_module_depth = -1;
    p.spec.flops_profiler_detailed = false;
    p.spec.flops_profiler_top_modules = 100; // more than there are
    report(&p);
    assert_int_equal(lines_that_begin(p.text.data, "  transformer."), 0);
    assert_int_equal(lines_that_begin(p.text.data, "G1 "), 0);
    assert_int_equal(tiny_occurrences(p.text.data, "transformer.head"), 3);
    end(&p);
}

/* A run profiles the step that the config names, once, to the log or to a file in a folder that is made. */
static void test_a_run(void **state)
{
    tiny_run run;
    char setting[160];
    char *bytes = NULL;
    size_t length = 0;
    CERO_UNUSED(state);

    tiny_begin(&run);
    tiny_set(&run, "flops_profiler.enabled=true");
    tiny_set(&run, "flops_profiler.profile_step=3");
    assert_ok(tiny_create(&run));
    assert_ok(cero_trainer_run(run.trainer, NULL));
    assert_int_equal(tiny_occurrences(run.log.data, "flops profiler: step"), 1);
    assert_int_equal(tiny_occurrences(run.log.data, "flops profiler: step 3 on rank 0 of 1"), 1);
    tiny_end(&run);

    tiny_begin(&run);
    (void)snprintf(setting, sizeof(setting), "flops_profiler.output_file=%s/new/profile.txt",
                   run.dir);
    tiny_set(&run, "flops_profiler.enabled=true");
    tiny_set(&run, setting);
    assert_ok(tiny_create(&run));
    assert_ok(cero_trainer_run(run.trainer, NULL));
    assert_int_equal(tiny_occurrences(run.log.data, "flops profiler: step"), 0);
    assert_int_equal(tiny_occurrences(run.log.data, "wrote the profile of flops_profiler to "), 1);
    assert_ok(cero_file_read(files_in(run.dir, "new/profile.txt"), 0, &bytes, &length));
    assert_int_equal(strncmp(bytes, "flops profiler: step 1 on rank 0 of 1", 37), 0);
    cero_delete(bytes);
    tiny_end(&run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_numbers),      cmocka_unit_test(test_totals_are_those_of_the_plan),
        cmocka_unit_test(test_views_add_up), cmocka_unit_test(test_depth_details_and_top),
        cmocka_unit_test(test_a_run),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
