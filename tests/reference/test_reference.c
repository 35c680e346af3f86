/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The command trains the reference models of ../shared to the losses, norms and rates that PyTorch gave in
 * double: 1e-5 in fp32 however the batch is cut, 2 % in bf16 and fp16.
 */
#include "command.h"
#include "unit/ckpt/files.h"

#include <math.h>

enum {
    MAX_STEPS = 64
};

typedef struct limits {
    double loss;
    double grad_norm; /* 0: not compared */
} limits;

/* What expected.json says, and how near to come. */
typedef struct expectation {
    double loss[MAX_STEPS];
    double grad_norm[MAX_STEPS];
    double lr[MAX_STEPS];
    int64_t steps;
    limits limits;
    const char *what;
} expectation;

static int64_t read_list(const cero_json *root, const char *key, double *out)
{
    const cero_json *list = cero_json_find(root, key);
    int64_t count = 0;

    assert_non_null(list);
    assert_true(list->count <= MAX_STEPS);
    for (const cero_json *v = list->child; v != NULL; v = v->next) {
        out[count++] = v->number;
    }
    return count;
}

static void read_expected(const char *path, expectation *e)
{
    cero_json_document *document = NULL;

    assert_ok(cero_json_read(path, NULL, 0, &document));
    const cero_json *root = cero_json_root(document);
    e->steps = read_list(root, "loss", e->loss);
    assert_int_equal(read_list(root, "grad_norm", e->grad_norm), e->steps);
    assert_int_equal(read_list(root, "lr", e->lr), e->steps);
    assert_int_equal(e->steps, 30);
    cero_json_destroy(&document);
}

static void compare(const expectation *e, int64_t i, const char *key, double found,
                    const double *expected, double limit)
{
    if (!(fabs(found - expected[i]) <= limit * fabs(expected[i]))) {
        fail_msg("%s: step %lld: %s %.12g, expected %.12g within %g of it", e->what,
                 (long long)i + 1, key, found, expected[i], limit);
    }
}

static void check_line(void *context, int64_t index, const cero_json *line)
{
    const expectation *e = context;

    assert_true(index < e->steps);
    assert_int_equal((int64_t)command_number(line, "step"), index + 1);
    compare(e, index, "loss", command_number(line, "loss"), e->loss, e->limits.loss);
    compare(e, index, "lr", command_number(line, "lr"), e->lr, 1e-15);
    if (e->limits.grad_norm > 0) {
        compare(e, index, "grad_norm", command_number(line, "grad_norm"), e->grad_norm,
                e->limits.grad_norm);
    }
    assert_int_equal((int64_t)command_number(line, "applied"), index + 1);
}

/* Trains with up to two more --set and compares every step. */
static void check_run(const char *reference, const char *set, const char *other_set, limits within)
{
    char path[4][512];
    static const char *const names[] = {"", "/ds_config.json", "/tokens.u16", "/expected.json"};
    char dir[64];
    expectation e = {.limits = within, .what = reference};

    (void)command_path();
    for (int i = 0; i < 4; i++) {
        char name[128];
        (void)snprintf(name, sizeof(name), "reference/%s%s", reference, names[i]);
        (void)shared_path(name, path[i], sizeof(path[i]));
    }
    read_expected(path[3], &e);
    files_make_dir(dir, sizeof(dir));
    const char *words[] = {"train",      "--config", path[1],     "--model", path[0],
                           "--data",     path[2],    "--seq-len", "32",      "--order",
                           "sequential", "--steps",  "30",        "--out",   files_in(dir, "run"),
                           "--quiet",    "--set",    set,         "--set",   other_set,
                           NULL};
    if (other_set == NULL) {
        words[18] = NULL;
    }
    if (set == NULL) {
        words[16] = NULL;
    }
    command_expect(0, words, files_in(dir, "err"));
    assert_int_equal(command_read_lines(files_in(dir, "run/metrics.jsonl"), check_line, &e), 30);
    files_remove(dir);
}

static const char *const references[] = {"gpt2-tiny", "gpt2-tiny-clip-warmup", "llama-tiny"};

static void test_fp32(void **state)
{
    CERO_UNUSED(state);
    for (int i = 0; i < 3; i++) {
        check_run(references[i], NULL, NULL, (limits){1e-5, 1e-4});
    }
}

/* The batch of eight in one piece, in two, in fours and one by one. */
static void test_cuts(void **state)
{
    static const char *const micro[] = {"1", "2", "4", "8"};

    CERO_UNUSED(state);
    for (int i = 0; i < 3; i++) {
        for (int m = i; m < 4; m += i == 0 ? 1 : 3 - i) {
            char set[64];
            char units[64];
            (void)snprintf(set, sizeof(set), "train_micro_batch_size_per_gpu=%s", micro[m]);
            (void)snprintf(units, sizeof(units), "cero.checkpoint_units=%d", m % 2);
            check_run(references[i], set, units, (limits){1e-5, 1e-4});
        }
    }
}

static void test_half(void **state)
{
    CERO_UNUSED(state);
    for (int i = 0; i < 3; i++) {
        check_run(references[i], "bf16.enabled=true", NULL, (limits){0.02, 0});
        // Small enough a scale that no step is skipped: the reference skips none.
        check_run(references[i], "fp16.enabled=true", "fp16.initial_scale_power=8",
                  (limits){0.02, 0});
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fp32),
        cmocka_unit_test(test_cuts),
        cmocka_unit_test(test_half),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
