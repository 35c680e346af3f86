/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Saves by hand (hand.h) that meet a fault at their n-th call: in this process when the call fails, in a child when
 * the fault kills. And what must hold after: an older or a newer checkpoint is whole, the next save succeeds, and
 * nothing is left over then.
 */
#ifndef CERO_TESTS_CRASH_BLOW_H
#define CERO_TESTS_CRASH_BLOW_H

#include "crash/hand.h"
#include "unit/ckpt/files.h"

#include <signal.h>
#include <sys/wait.h>

enum {
    BLOW_OLD = 3, /* steps of the checkpoints: before, at and after the blow */
    BLOW_NEW = 4,
    BLOW_NEXT = 5
};

/* What is struck. */
typedef struct blow {
    const char *name;
    bool has_older;  /* there is a checkpoint before */
    bool has_orphan; /* and what a killed save left, which the save sweeps first */
    const char *tag; /* of both, when the new one replaces the old one */
    int64_t keep;    /* the older one is removed after */
} blow;

static const blow blows[] = {{.name = "first save"},
                             {.name = "second save", .has_older = true},
                             {.name = "keep 1", .has_older = true, .keep = 1},
                             {.name = "same tag again", .has_older = true, .tag = "best"},
                             {.name = "orphan swept", .has_older = true, .has_orphan = true}};

static inline cero_status blow_save(const blow *b, const char *dir, int64_t step, int ranks)
{
    hand_save save = {.dir = dir, .tag = b->tag, .step = step, .ranks = ranks};
    char tag[CERO_FOLDER_MAX_TAG];
    int64_t removed = 0;

    if (b->has_orphan) {
        CERO_TRY(cero_folder_sweep(dir, &removed));
    }
    CERO_TRY(hand_save_run(&save));
    return b->keep == 0
               ? CERO_OK
               : cero_folder_retain(dir, HAND_RUN, hand_tag(&save, tag), b->keep, &removed);
}

/* A fresh folder below `home` with what was there before the blow. */
static inline const char *blow_prepare(const blow *b, const char *home, int ranks)
{
    static char dir[128];

    (void)snprintf(dir, sizeof(dir), "%s/run", home);
    (void)unsetenv("CERO_FAULT");
    if (cero_file_stat(dir, NULL) != CERO_FILE_ABSENT) {
        files_remove(dir);
    }
    if (b->has_older) {
        hand_save save = {.dir = dir, .tag = b->tag, .step = BLOW_OLD, .ranks = ranks};
        assert_ok(hand_save_run(&save));
    }
    if (b->has_orphan) {
        const char *orphan = files_in(dir, "step-00000004.tmp-" HAND_RUN);
        assert_ok(cero_file_make_dir(orphan));
        files_write(files_in(orphan, "rank-00000.safetensors"), "half", 4);
    }
    return dir;
}

/* Step of the newest checkpoint that verifies, with every element as saved; -1: none. */
static inline int64_t blow_newest(const char *dir)
{
    cero_folder_list list = {0};
    int64_t step = -1;

    assert_ok(cero_folder_list_read(dir, &list));
    for (int64_t i = 0; i < list.count && step < 0; i++) {
        cero_reader *reader = NULL;
        if (list.entries[i].kind == CERO_FOLDER_COMPLETE &&
            cero_reader_open(files_in(dir, list.entries[i].name), &reader) == CERO_OK &&
            cero_reader_verify(reader, NULL, NULL) == CERO_OK) {
            step = cero_reader_manifest(reader)->step;
            assert_true(hand_is(reader, step));
        }
        cero_reader_close(&reader);
    }
    cero_folder_list_cleanup(&list);
    return step;
}

/* The folder holds `count` whole checkpoints, each with its files and no other, the hint, perhaps the lock. */
static inline void blow_expect_clean(const char *dir, int64_t count, int ranks)
{
    cero_folder_list list = {0};
    cero_file_list files = {0};

    assert_ok(cero_folder_list_read(dir, &list));
    for (int64_t i = 0; i < list.count; i++) {
        if (list.entries[i].kind != CERO_FOLDER_COMPLETE || list.entries[i].is_replaced ||
            strchr(list.entries[i].name, '.') != NULL) {
            fail_msg("%s is left over", list.entries[i].name);
        }
    }
    assert_int_equal(list.count, count);
    assert_ok(cero_file_list_dir(dir, true, &files));
    for (int64_t i = 0; i < files.count && files.count != count * (ranks + 1) + 1; i++) {
        print_message("%s\n", files.path[i]);
    }
    assert_int_equal(files.count, count * (ranks + 1) + 1);
    cero_file_list_cleanup(&files);
    cero_folder_list_cleanup(&list);
}

/* After a blow the older or the newer one is there, and the next save succeeds and leaves nothing over. */
static inline void blow_expect_whole(const blow *b, const char *dir, bool has_returned, int ranks)
{
    int64_t removed = 0;
    int64_t newest = blow_newest(dir);
    bool is_older = newest == (b->has_older ? BLOW_OLD : -1);

    if (newest != BLOW_NEW && (has_returned || !is_older)) {
        fail_msg("%s: the newest that verifies is of step %lld", b->name, (long long)newest);
    }
    assert_ok(cero_folder_sweep(dir, &removed));
    assert_int_equal(blow_newest(dir), newest);
    assert_ok(blow_save(b, dir, BLOW_NEXT, ranks));
    assert_int_equal(blow_newest(dir), BLOW_NEXT);
    bool is_alone = b->tag != NULL || b->keep == 1;
    // What was committed but for its return stays beside the older one.
    blow_expect_clean(dir, is_alone ? 1 : 1 + (b->has_older ? 1 : 0) + (newest == BLOW_NEW ? 1 : 0),
                      ranks);
}

/* Runs the save in a child that is killed at its n-th change. False: it ended by itself, well. */
static inline bool blow_kill(const blow *b, const char *dir, int n, int ranks)
{
    char fault[64];
    int status = 0;

    (void)snprintf(fault, sizeof(fault), "io:%d:SIGKILL", n);
    (void)fflush(stdout);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        (void)setenv("CERO_FAULT", fault, 1);
        _exit(blow_save(b, dir, BLOW_NEW, ranks) == CERO_OK ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    if (WIFSIGNALED(status)) {
        assert_int_equal(WTERMSIG(status), SIGKILL);
        return true;
    }
    assert_int_equal(WEXITSTATUS(status), 0);
    return false;
}

#endif
