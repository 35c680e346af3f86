/* SPDX-License-Identifier: Apache-2.0 */
/* The saves during which power is lost, for 1, 2 and 3 ranks' files, and their images (power_loss.h). */
#ifndef CERO_TESTS_CRASH_POWER_SCENES_H
#define CERO_TESTS_CRASH_POWER_SCENES_H

#include "crash/power_loss.h"

typedef void (*scene_play)(scene *s, int ranks);

static inline void play_first(scene *s, int ranks)
{
    scene_save_by_hand(s, 1, NULL, ranks);
}

static inline void play_second(scene *s, int ranks)
{
    scene_save_by_hand(s, 1, NULL, ranks);
    scene_save_by_hand(s, 12, NULL, ranks);
}

/* The older one is removed when the newer is there, and another round. */
static inline void play_keep_one(scene *s, int ranks)
{
    char tag[CERO_FOLDER_MAX_TAG];
    int64_t removed = -1;

    for (int64_t step = 9; step <= 11; step++) {
        scene_save_by_hand(s, step, NULL, ranks);
        assert_ok(
            cero_folder_retain(s->dir, HAND_RUN, cero_folder_step_tag(step, tag), 1, &removed));
        assert_int_equal(removed, step == 9 ? 0 : 1);
    }
}

/* One tag, again and again. */
static inline void play_replace(scene *s, int ranks)
{
    for (int64_t step = 1; step <= 3; step++) {
        scene_save_by_hand(s, step, "best", ranks);
    }
}

/* The hint cannot be written, which fails no save: nothing but the commit brings the folder's names to the disk. */
static inline void play_no_hint(scene *s, int ranks)
{
    char latest[PATH_MAX + 32];

    scene_save_by_hand(s, 1, NULL, ranks);
    (void)snprintf(latest, sizeof(latest), "%s/latest", s->dir);
    assert_int_equal(cero_io_unlink(latest), 0);
    assert_int_equal(cero_io_mkdir(latest), 0);
    scene_save_by_hand(s, 2, NULL, ranks);
}

/* What a save that was killed left: a folder with a file that was never finished. */
static inline void leave_orphan(scene *s)
{
    char text[CERO_FOLDER_MAX_TAG];
    char path[PATH_MAX + CERO_FOLDER_MAX_TAG + 128];

    (void)snprintf(path, sizeof(path), "%s/%s.tmp-%s", s->dir, cero_folder_step_tag(2, text),
                   HAND_RUN);
    assert_int_equal(cero_io_mkdir(path), 0);
    strncat(path, "/rank-00000.safetensors", sizeof(path) - strlen(path) - 1);
    int fd = cero_io_open_write(path, O_EXCL);
    assert_true(fd >= 0);
    assert_int_equal(cero_io_write(fd, "half of a header", 16), 16);
    assert_int_equal(cero_io_close(fd), 0);
}

static inline void play_sweep(scene *s, int ranks)
{
    int64_t removed = -1;

    scene_save_by_hand(s, 1, NULL, ranks);
    leave_orphan(s);
    assert_ok(cero_folder_sweep(s->dir, &removed));
    assert_int_equal(removed, 1);
    scene_save_by_hand(s, 2, NULL, ranks);
}

static const struct {
    const char *name;
    scene_play play;
} power_scenes[] = {{"first save", play_first},      {"second save", play_second},
                    {"keep 1", play_keep_one},       {"the same tag again", play_replace},
                    {"an orphan swept", play_sweep}, {"no hint", play_no_hint}};

/* Every scene for 1, 2 and 3 ranks, which write at the same time, `most` images for each moment at most. */
static inline void lose_power(int64_t most, int64_t expected)
{
    static scene s;
    tally t;

    tally_begin(&t);
    for (size_t i = 0; i < CERO_COUNT_OF(power_scenes); i++) {
        for (int ranks = 1; ranks <= 3; ranks++) {
            int64_t before = t.images;
            scene_begin(&s);
            power_scenes[i].play(&s, ranks);
            scene_check_model(&s);
            scene_interleave(&s);
            scene_lose(&s, &t, 0, most);
            print_message("%s, %d ranks: %d changes, %lld images\n", power_scenes[i].name, ranks,
                          s.disk.count, (long long)(t.images - before));
            scene_end(&s);
            if (t.violations > 0) {
                fail_msg("%s, %d ranks: %lld images do not recover; the first: %s",
                         power_scenes[i].name, ranks, (long long)t.violations, t.first);
            }
        }
    }
    print_message(
        "%lld images: %lld recover to the newer checkpoint, %lld to the older one, %lld to "
        "nothing before the first commit\n",
        (long long)t.images, (long long)t.newer, (long long)t.older, (long long)t.none);
    print_message("%lld of them were repaired and saved into again\n", (long long)t.repaired);
    assert_true(t.images >= expected);
    assert_true(t.older > 0 && t.newer > 0 && t.none > 0 && t.repaired > 0);
    tally_end(&t);
}

#endif
