/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every line of metrics.jsonl is a JSON object with the keys of docs/metrics.md, its doubles read back
 * exactly, and the parts of a step add up to the step.
 */
#include "harness.h"
#include "unit/train/tiny.h"

#include "base/json.h"

#include <math.h>

enum {
    MOST_LINES = 16
};

typedef struct lines {
    int count;
    cero_json_document *document[MOST_LINES];
} lines;

static void read_lines(const char *dir, lines *out)
{
    char *bytes = NULL;
    size_t length = 0;

    *out = (lines){0};
    assert_ok(cero_file_read(files_in(dir, "metrics.jsonl"), 0, &bytes, &length));
    assert_int_equal(bytes[length - 1], '\n');
    for (char *p = bytes; *p != '\0';) {
        char *end = strchr(p, '\n');
        assert_in_range(out->count, 0, MOST_LINES - 1);
        assert_ok(cero_json_parse("metrics.jsonl", p, (size_t)(end - p), NULL,
                                  &out->document[out->count++]));
        p = end + 1;
    }
    cero_delete(bytes);
}

static void free_lines(lines *all)
{
    for (int i = 0; i < all->count; i++) {
        cero_json_destroy(&all->document[i]);
    }
}

static double number(const cero_json *object, const char *key)
{
    const cero_json *value = cero_json_find(object, key);

    if (value == NULL || value->type != CERO_JSON_NUMBER) {
        fail_msg("\"%s\" is not a number of the line", key);
    }
    return value == NULL ? 0 : value->number;
}

static void test_doubles_read_back(void **state)
{
    const cero_metrics_step step = {
        .stats = {.step = INT64_MAX,
                  .loss = 1.0 / 3,
                  .lr = 5e-324,
                  .grad_norm = (double)INFINITY,
                  .clip_coef = 0.1,
                  .loss_scale = 65536,
                  .applied = 3,
                  .skipped = 4,
                  .model_flops = 1.7976931348623157e308,
                  .seconds_forward = 1e-9,
                  .seconds_backward = 0.2,
                  .seconds_exchange = 0.3,
                  .seconds_update = 1e22},
        .tokens = 9007199254740993,
        .samples = 6,
        .step_tokens = 7,
        .step_seconds = 3,
        .seconds_data = 0.7,
        .seconds_save = 0.8,
        .seconds_other = 0.9,
        .bytes_sent = 9,
        .messages_sent = 10,
        .bytes_between_nodes = 11,
        .has_eval = true,
        .eval_loss = 2.5,
        .memory = {[CERO_MEM_OTHER] = 123456789012345},
    };
    cero_metrics *metrics = NULL;
    char dir[64];
    lines all;
    (void)state;

    files_make_dir(dir, sizeof(dir));
    assert_ok(cero_metrics_open(dir, &metrics));
    uint64_t calls = cero_mem_calls();
    assert_ok(cero_metrics_write(metrics, &step));
    assert_int_equal(cero_mem_calls(), calls);
    cero_metrics_close(&metrics);
    read_lines(dir, &all);
    assert_int_equal(all.count, 1);
    const cero_json *line = cero_json_root(all.document[0]);
    const cero_json *seconds = cero_json_find(line, "seconds");
    int64_t integer = 0;
    assert_ok(cero_json_int(cero_json_find(line, "step"), &integer));
    assert_int_equal(integer, INT64_MAX);
    assert_ok(cero_json_int(cero_json_find(line, "tokens"), &integer));
    assert_int_equal(integer, 9007199254740993);
    assert_true(number(line, "loss") == 1.0 / 3);
    assert_true(number(line, "lr") == 5e-324);
    assert_int_equal(cero_json_find(line, "grad_norm")->type, CERO_JSON_NULL);
    assert_true(number(line, "clip_coef") == 0.1);
    assert_true(number(line, "loss_scale") == 65536);
    assert_true(number(line, "applied") == 3 && number(line, "skipped") == 4);
    assert_true(number(line, "tokens_per_second") == 7.0 / 3);
    assert_true(number(line, "model_flops_per_second") == 1.7976931348623157e308 / 3);
    assert_true(number(line, "bytes_sent") == 9 && number(line, "messages_sent") == 10);
    assert_true(number(line, "bytes_between_nodes") == 11);
    assert_true(number(line, "eval_loss") == 2.5);
    assert_true(number(line, "eval_perplexity") == exp(2.5));
    assert_true(number(seconds, "forward") == 1e-9 && number(seconds, "update") == 1e22);
    assert_true(number(seconds, "data") == 0.7 && number(seconds, "save") == 0.8);
    assert_true(number(seconds, "other") == 0.9);
    assert_true(number(cero_json_find(line, "memory"), "other") == 123456789012345);
    free_lines(&all);
    files_remove(dir);
}

/* docs/metrics.md has a row that begins with this key. */
static void assert_documented(const char *docs, const char *key)
{
    char row[96];

    (void)snprintf(row, sizeof(row), "\n| `%s` |", key);
    if (strstr(docs, row) == NULL) {
        fail_msg("docs/metrics.md has no row for %s", key);
    }
}

static void assert_all_documented(const char *docs, const cero_json *line)
{
    for (const cero_json *m = line->child; m != NULL; m = m->next) {
        char key[64];
        if (m->type != CERO_JSON_OBJECT) {
            assert_documented(docs, m->key);
        }
        for (const cero_json *part = m->type == CERO_JSON_OBJECT ? m->child : NULL; part != NULL;
             part = part->next) {
            (void)snprintf(key, sizeof(key), "%s.%s", m->key, part->key);
            assert_documented(docs, key);
        }
    }
}

static void test_lines_of_a_run(void **state)
{
    static const char *const parts[] = {"forward", "backward", "exchange", "update",
                                        "data",    "save",     "other"};
    bool is_other_small = false;
    const char *source = getenv("CERO_SOURCE");
    tiny_run run;
    lines all;
    char *docs = NULL;
    size_t length = 0;
    char path[512];
    (void)state;

    tiny_begin(&run);
    run.eval_every = 2;
    run.steps = 5;
    assert_ok(tiny_create(&run));
    assert_ok(cero_trainer_run(run.trainer, NULL));
    tiny_close(&run);
    (void)snprintf(path, sizeof(path), "%s/docs/metrics.md", source != NULL ? source : ".");
    assert_ok(cero_file_read(path, 0, &docs, &length));
    read_lines(run.out, &all);
    assert_int_equal(all.count, 5);
    for (int i = 0; i < all.count; i++) {
        const cero_json *line = cero_json_root(all.document[i]);
        const cero_json *seconds = cero_json_find(line, "seconds");
        double sum = 0;
        for (size_t p = 0; p < CERO_COUNT_OF(parts); p++) {
            assert_true(number(seconds, parts[p]) >= 0);
            sum += number(seconds, parts[p]);
        }
        // With the rest the parts are the step; the rest is what no phase has, and little.
        double whole = number(line, "step_seconds");
        assert_true(sum > 0 && fabs(sum - whole) <= 1e-6 * whole);
        is_other_small = is_other_small || number(seconds, "other") <= 0.05 * whole + 1e-3;
        assert_true(number(line, "step") == i + 1);
        assert_true(number(line, "samples") == 4 * (i + 1));
        assert_true(number(line, "tokens") == 4 * 16 * (i + 1));
        assert_int_equal(cero_json_find(line, "eval_loss") != NULL, i == 1 || i == 3 || i == 4);
        assert_all_documented(docs, line);
    }
    assert_true(is_other_small);
    free_lines(&all);
    cero_delete(docs);
    tiny_end(&run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_doubles_read_back),
        cmocka_unit_test(test_lines_of_a_run),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
