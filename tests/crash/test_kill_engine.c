/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A run that is killed at any change that its save makes to files, in the step or beside the next one, continues from
 * the last committed step bit for bit; its next save succeeds and leaves nothing over (CK-01, at every moment).
 */
#include "crash/small.h"

#include <signal.h>
#include <sys/wait.h>

enum {
    OLD = 2,
    NEW = 3,
    LAST = 5
};

/* How the run saves. */
typedef struct way {
    const char *name;
    const char *tag;
    int64_t keep;
    bool is_background;
} way;

static const way ways[] = {
    {.name = "in the step"},
    {.name = "beside the next step", .is_background = true},
    {.name = "in the step, keep 1", .keep = 1},
    {.name = "beside the next step, keep 1", .keep = 1, .is_background = true},
    {.name = "in the step, the same tag", .tag = "best"},
    {.name = "beside the next step, the same tag", .tag = "best", .is_background = true},
};

/* The child's part: the save that is struck, and the step beside it. */
static int save_struck(small *s, const way *w, int n)
{
    static const cero_manifest_section section = {"train", "{\"samples\": 7}"};
    cero_saver_stats stats = {0};
    char fault[64];
    bool has_ended = false;

    (void)snprintf(fault, sizeof(fault), "io:%d:SIGKILL", n);
    (void)setenv("CERO_FAULT", fault, 1);
    if (cero_saver_begin(s->saver, w->tag, &section, 1, &stats) != CERO_OK) {
        return 1;
    }
    if (w->is_background) {
        small_train(s, NEW + 1);
    }
    return cero_saver_wait(s->saver, &has_ended, &stats) == CERO_OK ? 0 : 2;
}

static bool strike(small *s, const way *w, const char *dir, int n)
{
    int status = 0;

    (void)fflush(stdout);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        small_saver(s, dir, w->keep, w->is_background);
        _exit(save_struck(s, w, n));
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    if (WIFSIGNALED(status)) {
        assert_int_equal(WTERMSIG(status), SIGKILL);
        return true;
    }
    assert_int_equal(WEXITSTATUS(status), 0);
    return false;
}

/* Trains from what is found to the end. */
static void expect_exact(small *s, const char *dir, bool is_killed, const float *straight,
                         int64_t count)
{
    cero_loader_result result = {0};
    int64_t numel = 0;

    assert_ok(small_load(s, dir, NULL, &result));
    assert_true(result.is_loaded && (s->step == NEW || (is_killed && s->step == OLD)));
    assert_int_equal(result.skipped, 0);
    small_train(s, LAST);
    float *weights = case_weights(s->engine, &numel);
    assert_int_equal(numel, count);
    assert_memory_equal(weights, straight, (size_t)count * sizeof(float));
    cero_delete(weights);
}

static void strike_everywhere(small *s, const way *w, const char *home, const float *straight,
                              int64_t count)
{
    char dir[80];
    char base[80];
    cero_loader_result result;
    cero_saver_stats stats;
    int n = 1;

    (void)snprintf(dir, sizeof(dir), "%s/run", home);
    (void)snprintf(base, sizeof(base), "%s/base", home);
    for (;; n++) {
        assert_ok(small_load(s, base, NULL, &result));
        small_saver(s, dir, 0, false);
        assert_ok(small_save(s, w->tag, &stats));
        cero_saver_destroy(&s->saver);
        small_train(s, NEW);
        bool is_killed = strike(s, w, dir, n);
        expect_exact(s, dir, is_killed, straight, count);

        int64_t newest = 0;
        (void)small_newest(dir, &newest);
        small_saver(s, dir, w->keep, w->is_background);
        assert_ok(small_save(s, w->tag, &stats));
        cero_saver_destroy(&s->saver);
        small_expect_clean(dir, w->tag != NULL || w->keep == 1 ? 1 : newest == NEW ? 3 : 2);
        (void)small_newest(dir, &newest);
        assert_int_equal(newest, LAST);
        files_remove(dir);
        if (!is_killed) {
            break;
        }
    }
    print_message("%s: killed %d times\n", w->name, n - 1);
    assert_true(n > 12);
}

static void test_every_change(void **state)
{
    char home[64];
    small s;
    int64_t count = 0;
    cero_saver_stats stats;

    CERO_UNUSED(state);
    files_make_dir(home, sizeof(home));
    small_open(&s);
    small_train(&s, OLD);
    small_saver(&s, files_in(home, "base"), 0, false);
    assert_ok(small_save(&s, NULL, &stats));
    cero_saver_destroy(&s.saver);
    small_train(&s, LAST);
    float *straight = case_weights(s.engine, &count);
    for (size_t i = 0; i < CERO_COUNT_OF(ways); i++) {
        strike_everywhere(&s, &ways[i], home, straight, count);
    }
    cero_delete(straight);
    small_close(&s);
    files_remove(home);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_change)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
