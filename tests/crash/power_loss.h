/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Scenes of saves played on a disk that is watched (disk.h), and the images of a loss of power at any moment of them
 * (image.h), each of which must recover.
 *
 * To recover is what a program does that is started again: list the folder, take the newest checkpoint that
 * verifies. What is taken must be a whole checkpoint of the scene, element by element: the one that was committed last
 * before the loss, or the one that was under way; and nothing else in the folder may verify either.
 */
#ifndef CERO_TESTS_CRASH_POWER_LOSS_H
#define CERO_TESTS_CRASH_POWER_LOSS_H

#include "crash/hand.h"
#include "crash/image.h"
#include "unit/ckpt/files.h"

enum {
    SCENE_MAX_SAVES = 8,
    SEEN_SLOTS = 1 << 18
};

/* A save of the scene: changes [begin, end) were made by it. */
typedef struct scene_save {
    int begin;
    int end;
    int64_t step;
    uint64_t digest;
} scene_save;

typedef struct scene {
    char home[64];           /* scratch */
    char root[PATH_MAX];     /* watched, in home */
    char dir[PATH_MAX + 16]; /* of the checkpoints, in root */
    char found[PATH_MAX];    /* where images are made, in home */
    disk disk;
    scene_save saves[SCENE_MAX_SAVES];
    int save_count;
    image image;
    image_open open;
    image_choice choice;
    image_chance chance;
} scene;

/* What was seen, over all scenes. */
typedef struct tally {
    uint64_t
        *seen; /* [SEEN_SLOTS], owned: hashes of images with what they may recover to; 0: free */
    int64_t images;     /* distinct ones */
    int64_t older;      /* of them recovered to the older checkpoint */
    int64_t newer;      /* to the one under way or just committed */
    int64_t none;       /* to nothing, when nothing had been committed */
    int64_t repaired;   /* of them swept and saved into again */
    int64_t violations; /* must be 0 */
    char first[1024];   /* the first violation in words */
} tally;

static inline void tally_begin(tally *t)
{
    memset(t, 0, sizeof(*t));
    t->seen = cero_new(SEEN_SLOTS, sizeof(*t->seen));
    assert_non_null(t->seen);
    memset(t->seen, 0, SEEN_SLOTS * sizeof(*t->seen));
}

static inline void tally_end(tally *t)
{
    cero_delete(t->seen);
    t->seen = NULL;
}

/* True the first time. */
static inline bool tally_is_new(tally *t, uint64_t hash)
{
    hash |= hash == 0;
    uint64_t at = hash % SEEN_SLOTS;
    for (; t->seen[at] != 0; at = (at + 1) % SEEN_SLOTS) {
        if (t->seen[at] == hash) {
            return false;
        }
    }
    assert_true(t->images < SEEN_SLOTS / 2);
    t->seen[at] = hash;
    t->images++;
    return true;
}

/* A folder's path without symbolic links, as the system names its files. */
static inline void real_path(const char *path, char real[PATH_MAX])
{
    char link[64];
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    assert_true(fd >= 0);
    (void)snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, real, PATH_MAX - 1);
    assert_true(length > 0);
    real[length] = '\0';
    (void)close(fd);
}

static inline void scene_begin(scene *s)
{
    char real[PATH_MAX];

    memset(s, 0, sizeof(*s));
    files_make_dir(s->home, sizeof(s->home));
    real_path(s->home, real);
    assert_true((size_t)snprintf(s->root, sizeof(s->root), "%s/disk", real) < sizeof(s->root));
    assert_int_equal(mkdir(s->root, 0777), 0);
    (void)snprintf(s->dir, sizeof(s->dir), "%s/run", s->root);
    assert_true((size_t)snprintf(s->found, sizeof(s->found), "%s/found", real) < sizeof(s->found));
    s->chance.key = cero_rng_make_key(41, CERO_RNG_TEST, 0, 0);
    disk_begin(&s->disk, s->root);
}

static inline void scene_end(scene *s)
{
    cero_io_observe(NULL, NULL);
    disk_cleanup(&s->disk);
    files_remove(s->home);
}

/* Everything of a checkpoint's folder is read; 0: it does not verify. */
static inline uint64_t digest_of(const char *path, int64_t *step)
{
    cero_reader *reader = NULL;
    cero_reader_digest digest = {0};
    cero_status st = cero_reader_open(path, &reader);

    if (st == CERO_OK) {
        st = cero_reader_verify(reader, NULL, NULL);
    }
    if (st == CERO_OK) {
        st = cero_reader_hash(reader, &digest);
    }
    if (st == CERO_OK) {
        *step = cero_reader_manifest(reader)->step;
    }
    cero_reader_close(&reader);
    return st == CERO_OK ? digest.all : 0;
}

/* Notes the change at which the scene stands as the begin of a save of this step. */
static inline void scene_save_begin(scene *s, int64_t step)
{
    assert_true(s->save_count < SCENE_MAX_SAVES);
    s->saves[s->save_count] = (scene_save){.begin = s->disk.count, .end = INT_MAX, .step = step};
}

/* The save returned: from here on it is the one that must be found. */
static inline void scene_save_end(scene *s, const char *tag)
{
    scene_save *save = &s->saves[s->save_count++];
    int64_t step = -1;

    save->end = s->disk.count;
    cero_io_observe(NULL, NULL); // reading closes files, which is no change here
    save->digest = digest_of(files_in(s->dir, tag), &step);
    cero_io_observe(disk_see, &s->disk);
    assert_true(save->digest != 0);
    assert_int_equal(step, save->step);
}

static inline void scene_save_by_hand(scene *s, int64_t step, const char *tag, int ranks)
{
    hand_save save = {.dir = s->dir, .tag = tag, .step = step, .ranks = ranks};
    char text[CERO_FOLDER_MAX_TAG];

    scene_save_begin(s, step);
    assert_ok(hand_save_run(&save));
    scene_save_end(s, hand_tag(&save, text));
}

/* What a program finds that is started again: digest of the newest that verifies, 0: nothing; *strange counts ones
 * that verify and are none of the scene's. */
static inline uint64_t recover(const scene *s, const char *dir, int *strange)
{
    cero_folder_list list = {0};
    uint64_t found = 0;

    assert_ok(cero_folder_list_read(dir, &list));
    for (int64_t i = 0; i < list.count; i++) {
        int64_t step = -1;
        bool is_known = false;
        if (list.entries[i].kind != CERO_FOLDER_COMPLETE) {
            continue;
        }
        uint64_t digest = digest_of(files_in(dir, list.entries[i].name), &step);
        for (int k = 0; k <= s->save_count && k < SCENE_MAX_SAVES; k++) {
            is_known = is_known || digest == s->saves[k].digest;
        }
        *strange += digest != 0 && !is_known ? 1 : 0;
        found = found != 0 ? found : digest;
    }
    cero_folder_list_cleanup(&list);
    return found;
}

/* Which save was committed, and which was under way, when `point` changes had been made; -1: none. */
static inline void scene_saves_at(const scene *s, int point, int *committed, int *underway)
{
    *committed = -1;
    *underway = -1;
    for (int i = 0; i < s->save_count; i++) {
        *committed = s->saves[i].end <= point ? i : *committed;
        *underway = s->saves[i].begin < point && point < s->saves[i].end ? i : *underway;
    }
}

static inline void scene_judge(scene *s, tally *t, int point, uint64_t found, int strange)
{
    int committed;
    int underway;

    scene_saves_at(s, point, &committed, &underway);
    uint64_t older = committed < 0 ? 0 : s->saves[committed].digest;
    bool is_older = found == older;
    bool is_newer = underway >= 0 && found == s->saves[underway].digest;
    t->none += is_older && older == 0 ? 1 : 0;
    t->older += is_older && older != 0 && underway >= 0 ? 1 : 0;
    t->newer += is_newer || (is_older && underway < 0) ? 1 : 0;
    if ((!is_older && !is_newer) || strange > 0) {
        t->violations++;
        if (t->violations == 1) {
            (void)snprintf(
                t->first, sizeof(t->first),
                "after %d of %d changes: found %016llx, committed was %016llx, under way "
                "%016llx; %d unknown ones verify",
                point, s->disk.count, (unsigned long long)found, (unsigned long long)older,
                (unsigned long long)(underway < 0 ? 0 : s->saves[underway].digest), strange);
        }
    }
}

static inline void repair_failed(tally *t, const char *what, const char *name)
{
    t->violations++;
    if (t->violations == 1) {
        (void)snprintf(t->first, sizeof(t->first), "after the next save %s: %s", what, name);
    }
}

/* What is found can be written to: after a sweep and a save only whole checkpoints are there, the new one first. */
static inline void repair(tally *t, const char *dir)
{
    hand_save save = {.dir = dir, .step = 1000, .ranks = 2};
    cero_folder_list list = {0};
    int64_t removed = 0;

    assert_ok(cero_folder_sweep(dir, &removed));
    assert_ok(hand_save_run(&save));
    assert_ok(cero_folder_sweep(dir, &removed));
    assert_ok(cero_folder_list_read(dir, &list));
    for (int64_t i = 0; i < list.count; i++) {
        const cero_folder_entry *e = &list.entries[i];
        if (e->kind != CERO_FOLDER_COMPLETE || e->is_replaced) {
            repair_failed(t, e->reason == NULL ? "something is left" : e->reason, e->name);
        }
    }
    if (list.count == 0 || list.entries[0].step != save.step) {
        repair_failed(t, "it is not the newest", list.count == 0 ? "" : list.entries[0].name);
    }
    cero_folder_list_cleanup(&list);
    t->repaired++;
}

/* Makes and recovers the image of the scene's choice, if it is new. True: it was. */
static inline bool scene_try(scene *s, tally *t, int point)
{
    int saves[2];
    int strange = 0;
    char dir[PATH_MAX + 16];

    scene_saves_at(s, point, &saves[0], &saves[1]);
    image_make(&s->disk, &s->open, &s->choice, &s->chance, &s->image);
    bool is_new = tally_is_new(t, image_hash_bytes(image_hash(&s->image), saves, sizeof(saves)));
    if (is_new) {
        image_store(&s->image, &s->disk, s->found);
        (void)snprintf(dir, sizeof(dir), "%s/run", s->found);
        uint64_t found = recover(s, dir, &strange);
        scene_judge(s, t, point, found, strange);
        if (t->images % 16 == 0) {
            repair(t, dir);
        }
        files_remove(s->found);
    }
    image_cleanup(&s->image);
    return is_new;
}

/*
 * Images of a loss after each number of changes from `first` on: of each all choices while there are at most `most`,
 * and new ones drawn by chance up to that number.
 */
static inline void scene_lose(scene *s, tally *t, int first, int64_t most)
{
    for (int point = first; point <= s->disk.count; point++) {
        int64_t made = 0;
        image_look(&s->disk, point, &s->open);
        int64_t choices = image_choices(&s->open, most);
        for (int64_t i = 0; i < choices && choices <= most; i++) {
            image_choose(&s->open, i, &s->choice);
            made += scene_try(s, t, point) ? 1 : 0;
        }
        for (int64_t i = 0; i < 2 * most && made < most && choices > 1; i++) {
            image_choose_by_chance(&s->open, &s->chance, &s->choice);
            made += scene_try(s, t, point) ? 1 : 0;
        }
    }
}

/* The ranks of each save wrote at the same time. */
static inline void scene_interleave(scene *s)
{
    for (int i = 0; i < s->save_count; i++) {
        disk_interleave(&s->disk, s->saves[i].begin, s->saves[i].end, image_draw, &s->chance);
    }
    disk_settle(&s->disk, NULL, 0);
}

/* With nothing lost the image is what stands in the scene's folder: every change passed the seam. */
static inline void scene_check_model(scene *s)
{
    char command[3 * PATH_MAX];

    disk_end(&s->disk);
    image_look(&s->disk, s->disk.count, &s->open);
    memset(&s->choice, 0, sizeof(s->choice));
    memset(s->choice.is_kept, 1, sizeof(s->choice.is_kept));
    image_make(&s->disk, &s->open, &s->choice, &s->chance, &s->image);
    image_store(&s->image, &s->disk, s->found);
    image_cleanup(&s->image);
    (void)snprintf(command, sizeof(command), "diff -r '%s' '%s' >&2", s->root, s->found);
    assert_int_equal(system(command), 0); // NOLINT(cert-env33-c)
    files_remove(s->found);
}

#endif
