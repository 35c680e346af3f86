/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whenever power is lost while an engine saves, in the step or beside the next ones, with all checkpoints kept or one,
 * the older or the newer checkpoint is found whole, and can be saved beside: 1,000 images of the disk and more.
 */
#include "crash/power_loss.h"
#include "crash/small.h"

typedef struct way {
    const char *name;
    int64_t keep;
    bool is_background;
} way;

/* Three saves; those in the background go on while the engine trains. */
static void play(scene *s, small *run, const way *w)
{
    static const cero_manifest_section section = {"train", "{\"samples\": 7}"};
    char tag[CERO_FOLDER_MAX_TAG];
    cero_saver_stats stats = {0};
    bool has_ended = false;

    run->step = 0;
    small_saver(run, s->dir, w->keep, w->is_background);
    for (int k = 0; k < 3; k++) {
        int64_t step = run->step + 1;
        small_train(run, step);
        scene_save_begin(s, step);
        assert_ok(cero_saver_begin(run->saver, NULL, &section, 1, &stats));
        if (w->is_background) {
            small_train(run, step + 1);
        }
        assert_ok(cero_saver_wait(run->saver, &has_ended, &stats));
        assert_true(stats.is_committed);
        scene_save_end(s, cero_folder_step_tag(step, tag));
    }
    cero_saver_destroy(&run->saver);
}

static void test_images(void **state)
{
    static const way ways[] = {{"in the step", 0, false},
                               {"beside the next step", 0, true},
                               {"in the step, keep 1", 1, false},
                               {"beside the next step, keep 1", 1, true}};
    static scene s;
    small run;
    tally t;

    CERO_UNUSED(state);
    tally_begin(&t);
    for (size_t i = 0; i < CERO_COUNT_OF(ways); i++) {
        int64_t before = t.images;
        small_open(&run);
        scene_begin(&s);
        play(&s, &run, &ways[i]);
        scene_check_model(&s);
        scene_lose(&s, &t, 0, 60);
        print_message("%s: %d changes, %lld images\n", ways[i].name, s.disk.count,
                      (long long)(t.images - before));
        scene_end(&s);
        small_close(&run);
        if (t.violations > 0) {
            fail_msg("%s: %lld images do not recover; the first: %s", ways[i].name,
                     (long long)t.violations, t.first);
        }
    }
    assert_true(t.images > 1000 && t.older > 0 && t.newer > 0 && t.none > 0);
    tally_end(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_images)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
