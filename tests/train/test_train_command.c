/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `cero train` ends as it should: whole metrics and a model after a run or a signal; one message, the right exit
 * code and nothing half-written when something is wrong; what was there before stays.
 */
#include "command.h"
#include "train/run_fixture.h"

#include <math.h>
#include <signal.h>
#include <time.h>

static const char g1_json[] =
    "{\"model_type\": \"gpt2\", \"architectures\": [\"GPT2LMHeadModel\"], \"vocab_size\": 256,\n"
    "\"n_positions\": 32, \"n_embd\": 64, \"n_layer\": 2, \"n_head\": 4, \"resid_pdrop\": 0.0,\n"
    "\"activation_function\": \"gelu_new\", \"embd_pdrop\": 0.0, \"attn_pdrop\": 0.0}\n";
static const char ds_json[] =
    "{\n  \"train_micro_batch_size_per_gpu\": 2,\n  \"optimizer\": {\"type\": \"AdamW\", "
    "\"params\": {\"lr\": 0.001}}\n}\n";

/* A scratch directory with the files of a run. */
typedef struct place {
    char dir[64];
} place;

static void place_open(place *p)
{
    (void)command_path();
    files_make_dir(p->dir, sizeof(p->dir));
    assert_ok(cero_file_make_dir(files_in(p->dir, "g1")));
    files_write(files_in(p->dir, "g1/config.json"), g1_json, strlen(g1_json));
    files_write(files_in(p->dir, "ds.json"), ds_json, strlen(ds_json));
    write_counting(files_in(p->dir, "train.u16"), 3000);
    write_counting(files_in(p->dir, "eval.u16"), 300);
}

static void place_close(place *p)
{
    files_remove(p->dir);
}

/* What a test changes in "train --config ds.json --model g1 --data train.u16 --out run --steps 4". */
typedef struct words {
    const char *config;
    const char *model;
    const char *data;
    const char *out;
    const char *steps;
    const char *more[12];
} words;

static pid_t start(const place *p, const words *w)
{
    const char *all[COMMAND_MAX_WORDS] = {
        "train",
        "--config",
        files_in(p->dir, w->config != NULL ? w->config : "ds.json"),
        "--model",
        files_in(p->dir, w->model != NULL ? w->model : "g1"),
        "--data",
        files_in(p->dir, w->data != NULL ? w->data : "train.u16"),
        "--out",
        files_in(p->dir, w->out != NULL ? w->out : "run"),
        "--steps",
        w->steps != NULL ? w->steps : "4",
        "--threads",
        "1"};
    int count = 13;

    for (int i = 0; i < 12 && w->more[i] != NULL; i++) {
        all[count++] = w->more[i];
    }
    return command_start(all, files_in(p->dir, "err"));
}

/* Runs; checks the exit code and that stderr has this text. */
static void expect(const place *p, const words *w, int code, const char *text)
{
    const char *err = files_in(p->dir, "err");
    int found = command_wait(start(p, w));

    if (found != code) {
        command_expect_text(err, text);
        fail_msg("exit code %d, expected %d", found, code);
    }
    command_expect_text(err, text);
}

/* An error before the first step: one line, and no run directory. */
static void expect_refused(const place *p, const words *w, int code, const char *text)
{
    char *err = NULL;
    size_t length = 0;

    expect(p, w, code, text);
    assert_ok(cero_file_read(files_in(p->dir, "err"), 0, &err, &length));
    assert_true(strncmp(err, "cero train: error: ", 19) == 0);
    assert_ptr_equal(strchr(err, '\n'), err + length - 1);
    cero_delete(err);
    assert_int_equal(cero_file_stat(files_in(p->dir, "run/metrics.jsonl"), NULL), CERO_FILE_ABSENT);
    assert_int_equal(cero_file_stat(files_in(p->dir, "run/model"), NULL), CERO_FILE_ABSENT);
}

static void check_metrics(void *context, int64_t index, const cero_json *line)
{
    int64_t *evaluations = context;

    assert_int_equal((int64_t)command_number(line, "step"), index + 1);
    assert_int_equal((int64_t)command_number(line, "applied"), index + 1);
    assert_int_equal((int64_t)command_number(line, "samples"), 2 * (index + 1));
    assert_int_equal((int64_t)command_number(line, "tokens"), 64 * (index + 1));
    assert_true(command_number(line, "lr") == 0.001);
    assert_true(command_number(line, "loss") > 0 && command_number(line, "loss") < 7);
    if (cero_json_find(line, "eval_loss") != NULL) {
        double loss = command_number(line, "eval_loss");
        assert_true(fabs(command_number(line, "eval_perplexity") - exp(loss)) < 1e-9 * exp(loss));
        assert_true(index == 3 || index == 6 || index == 7);
        (*evaluations)++;
    }
}

/* Eight steps with evaluation every fourth, the seventh being the last of a second run. */
static void test_metrics(void **state)
{
    place p;
    int64_t evaluations = 0;

    CERO_UNUSED(state);
    place_open(&p);
    words w = {.steps = "8",
               .more = {"--eval-data", files_in(p.dir, "eval.u16"), "--eval-every", "4"}};
    expect(&p, &w, 0, "exported 118528 parameters as f32");
    assert_int_equal(
        command_read_lines(files_in(p.dir, "run/metrics.jsonl"), check_metrics, &evaluations), 8);
    assert_int_equal(evaluations, 2);
    assert_int_equal(cero_file_stat(files_in(p.dir, "run/model/config.json"), NULL),
                     CERO_FILE_REGULAR);
    assert_int_equal(cero_file_stat(files_in(p.dir, "run/log/rank-00000.log"), NULL),
                     CERO_FILE_REGULAR);
    // At the end alone, and with a last step that no period meets.
    w.steps = "7";
    w.out = "second";
    w.more[2] = NULL;
    evaluations = 0;
    expect(&p, &w, 0, "evaluation loss");
    assert_int_equal(
        command_read_lines(files_in(p.dir, "second/metrics.jsonl"), check_metrics, &evaluations),
        7);
    assert_int_equal(evaluations, 1);
    place_close(&p);
}

/* A directory that holds a run is refused, and not a byte of it changes. */
static void test_second_run(void **state)
{
    place p;
    char *before = NULL;
    char *after = NULL;
    size_t length[2];

    CERO_UNUSED(state);
    place_open(&p);
    expect(&p, &(words){0}, 0, "");
    assert_ok(cero_file_read(files_in(p.dir, "run/metrics.jsonl"), 0, &before, &length[0]));
    expect(&p, &(words){.steps = "2"}, 73, "holds the metrics.jsonl of an earlier run");
    assert_ok(cero_file_read(files_in(p.dir, "run/metrics.jsonl"), 0, &after, &length[1]));
    assert_int_equal(length[0], length[1]);
    assert_memory_equal(before, after, length[0]);
    cero_delete(before);
    cero_delete(after);
    // The model goes on from what the first run left.
    expect(&p, &(words){.model = "run/model", .out = "more"}, 0, "weights from the directory");
    place_close(&p);
}

static void test_refused(void **state)
{
    place p;
    int32_t ids[200];

    CERO_UNUSED(state);
    place_open(&p);
    static const char unknown[] =
        "{\"train_micro_batch_size_per_gpu\": 2,\n \"gradient_clipp1ng\": 1.0}";
    files_write(files_in(p.dir, "unknown.json"), unknown, strlen(unknown));
    expect_refused(&p, &(words){.config = "unknown.json"}, 78, "unknown.json:2:2: ");
    command_expect_text(files_in(p.dir, "err"), "gradient_clipping");
    files_write(files_in(p.dir, "cut.json"), ds_json, 60);
    expect_refused(&p, &(words){.config = "cut.json"}, 78, "cut.json:");
    files_write(files_in(p.dir, "empty"), "", 0);
    expect_refused(&p, &(words){.config = "empty"}, 78, "empty");
    expect_refused(&p, &(words){.config = "absent.json"}, 66, "absent.json");
    expect_refused(&p, &(words){.model = "absent"}, 78, "no model ");
    expect_refused(&p, &(words){.data = "absent.u16"}, 66, "absent.u16");
    expect_refused(&p, &(words){.data = "ds.json"}, 65, "tokenizer");
    files_write(files_in(p.dir, "empty.u16"), "", 0);
    expect_refused(&p, &(words){.data = "empty.u16"}, 65, "empty.u16");
    files_write(files_in(p.dir, "odd.u16"), "abc", 3);
    expect_refused(&p, &(words){.data = "odd.u16"}, 65, "odd.u16");
    write_counting(files_in(p.dir, "short.u16"), 20);
    expect_refused(&p, &(words){.data = "short.u16"}, 65, "20 tokens found");
    command_expect_text(files_in(p.dir, "err"), "33");
    expect_refused(&p, &(words){.more = {"--seq-len", "33"}}, 78, "of 32 positions");
    expect_refused(&p, &(words){.out = "ds.json/run"}, 73, "ds.json");
    expect_refused(&p, &(words){.more = {"--set", "cero.memory_budget=100000"}}, 1, "of category ");
    expect_refused(&p, &(words){.more = {"--set", "cero.frozen=[\"*\"]"}}, 78, "nothing to train");
    expect_refused(&p, &(words){.more = {"--step", "3"}}, 2, "--steps");
    // Too late to refuse: the run ends at the step that reads the id.
    for (int i = 0; i < 200; i++) {
        ids[i] = i == 170 ? 256 : i;
    }
    write_tokens(files_in(p.dir, "high.u16"), ids, 200);
    expect(&p, &(words){.data = "high.u16", .more = {"--order", "sequential"}}, 65, "high.u16");
    assert_int_equal(cero_file_stat(files_in(p.dir, "run/model"), NULL), CERO_FILE_ABSENT);
    assert_int_equal(command_read_lines(files_in(p.dir, "run/metrics.jsonl"), NULL, NULL), 2);
    place_close(&p);
}

/* Waits until the run has written some steps: a condition, looked at again and again. */
static void wait_for_steps(const char *path)
{
    for (int i = 0; i < 60000; i++) {
        int64_t nbytes = 0;
        if (cero_file_stat(path, &nbytes) == CERO_FILE_REGULAR && nbytes > 1000) {
            return;
        }
        (void)nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
    }
    fail_msg("%s did not grow", path);
}

/*
 * SIGINT, SIGTERM and SIGUSR1 end after the step at hand, with whole metrics and a checkpoint; the model comes after
 * SIGINT alone.
 */
static void test_signals(void **state)
{
    static const struct {
        int signal;
        int code;
        bool has_model;
        const char *text;
    } cases[] = {{SIGINT, 0, true, "stopped by SIGINT"},
                 {SIGTERM, 75, false, "stopped by SIGTERM"},
                 {SIGUSR1, 75, false, "stopped by SIGUSR1"}};

    CERO_UNUSED(state);
    for (size_t i = 0; i < CERO_COUNT_OF(cases); i++) {
        place p;
        place_open(&p);
        pid_t child = start(&p, &(words){.steps = "1000000"});
        wait_for_steps(files_in(p.dir, "run/metrics.jsonl"));
        assert_int_equal(kill(child, cases[i].signal), 0);
        assert_int_equal(command_wait(child), cases[i].code);
        command_expect_text(files_in(p.dir, "err"), cases[i].text);
        int64_t evaluations = 0;
        int64_t steps =
            command_read_lines(files_in(p.dir, "run/metrics.jsonl"), check_metrics, &evaluations);
        assert_true(steps > 0 && steps < 1000000);
        assert_int_equal(cero_file_stat(files_in(p.dir, "run/checkpoints/latest"), NULL),
                         CERO_FILE_REGULAR);
        const char *model = files_in(p.dir, "run/model/model.safetensors");
        if (cases[i].has_model) {
            archive a;
            archive_open(model, &a);
            assert_int_equal(archive_data_bytes(&a), 474112);
            archive_close(&a);
        } else {
            assert_int_equal(cero_file_stat(model, NULL), CERO_FILE_ABSENT);
        }
        place_close(&p);
    }
}

/*
 * The n-th write fails, for every n: either the run ends with the message of a full disk, or it never got
 * that far. What is there afterwards is whole lines of metrics, and no model or a whole one.
 */
static void test_full_disk(void **state)
{
    place p;
    int failures = 0;

    CERO_UNUSED(state);
    place_open(&p);
    for (int n = 1;; n++) {
        char fault[64];
        char out[32];
        char model[64];
        archive a;
        (void)snprintf(fault, sizeof(fault), "write:%d:ENOSPC", n);
        (void)snprintf(out, sizeof(out), "run%d", n);
        (void)snprintf(model, sizeof(model), "run%d/model/model.safetensors", n);
        assert_int_equal(setenv("CERO_FAULT", fault, 1), 0);
        // Without clipping the log has no line between those of the metrics: its writes may fail.
        int code =
            command_wait(start(&p, &(words){.out = out, .more = {"--set", "gradient_clipping=0"}}));
        assert_int_equal(unsetenv("CERO_FAULT"), 0);
        if (cero_file_stat(files_in(p.dir, model), NULL) == CERO_FILE_REGULAR) {
            archive_open(files_in(p.dir, model), &a);
            assert_int_equal(archive_data_bytes(&a), 474112);
            archive_close(&a);
        }
        if (code == 0) {
            assert_int_equal(cero_file_stat(files_in(p.dir, model), NULL), CERO_FILE_REGULAR);
            if (failures > 0) {
                break; // beyond the last write
            }
            continue; // a log that cannot be written does not stop a run
        }
        assert_true(code == 73 || code == 74);
        command_expect_text(files_in(p.dir, "err"), "No space left");
        (void)snprintf(model, sizeof(model), "run%d/model/.cero-export", n);
        assert_int_equal(cero_file_stat(files_in(p.dir, model), NULL), CERO_FILE_ABSENT);
        (void)snprintf(model, sizeof(model), "run%d/metrics.jsonl", n);
        assert_true(command_read_lines(files_in(p.dir, model), NULL, NULL) <= 4);
        failures++;
        assert_true(n < 200);
    }
    assert_true(failures >= 6); // the metrics of four steps, weights, config
    place_close(&p);
}

/* NaN in the weights that a run would start from. */
static void test_nan_in_weights(void **state)
{
    place p;
    archive a;
    size_t nbytes;
    const float bad = NAN;

    CERO_UNUSED(state);
    place_open(&p);
    expect(&p, &(words){.steps = "1"}, 0, "");
    const char *path = files_in(p.dir, "run/model/model.safetensors");
    archive_open(path, &a);
    const char *data =
        archive_tensor(&a, "transformer.h.0.mlp.c_fc.weight", "F32", "[64, 256]", &nbytes);
    memcpy(a.bytes + (data - a.bytes), &bad, sizeof(bad));
    files_write(path, a.bytes, a.length);
    archive_close(&a);
    expect(&p, &(words){.model = "run/model", .out = "next"}, 1, "transformer.h.0.mlp.c_fc.weight");
    assert_int_equal(cero_file_stat(files_in(p.dir, "next/model"), NULL), CERO_FILE_ABSENT);
    place_close(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_metrics),   cmocka_unit_test(test_second_run),
        cmocka_unit_test(test_refused),   cmocka_unit_test(test_signals),
        cmocka_unit_test(test_full_disk), cmocka_unit_test(test_nan_in_weights),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
