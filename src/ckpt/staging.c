/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The exchange of staging.h: old files into the folder's "old", new ones to their names, all back after an error.
 * What the journal looks like is in staging_journal.c.
 */
#include "ckpt/staging_impl.h"

#include "base/file.h"
#include "base/io.h"
#include "base/log.h"
#include "base/memory.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    MAX_PATH = 4096, /* as the system has it */
    LOCK_TRIES = 16
};

static cero_status fail_memory(const char *dir)
{
    return CERO_FAIL(CERO_ERR_NOMEM, "no memory to prepare the files of %s", dir);
}

/* True if something stands there, be it a link that leads nowhere. */
static bool exists(const char *path)
{
    struct stat info;

    return lstat(path, &info) == 0;
}

/* Removes the files of a folder, those that begin with a dot too; what is a link is removed itself. 0 or errno. */
static int empty_folder(const char *folder)
{
    struct stat info;
    int error = 0;

    if (lstat(folder, &info) != 0) {
        return errno == ENOENT ? 0 : errno;
    }
    if (!S_ISDIR(info.st_mode)) {
        return cero_io_unlink(folder) == 0 ? 0 : errno;
    }
    DIR *entries = opendir(folder);
    for (const struct dirent *e = entries == NULL ? NULL : readdir(entries); e != NULL;
         e = readdir(entries)) {
        char path[MAX_PATH]; // so that sweeping needs no memory
        int n = snprintf(path, sizeof(path), "%s/%s", folder, e->d_name);
        if (n < MAX_PATH && lstat(path, &info) == 0 && !S_ISDIR(info.st_mode) &&
            cero_io_unlink(path) != 0) {
            error = errno;
        }
    }
    if (entries != NULL) {
        (void)closedir(entries);
    }
    return error;
}

/* The folder goes with its files. 0 or errno. */
static int remove_folder(const char *folder)
{
    int error = empty_folder(folder);

    if (error == 0 && cero_io_rmdir(folder) != 0 && errno != ENOENT) {
        error = errno;
    }
    return error;
}

static void forget_changes(cero_staging *s)
{
    for (int64_t i = 0; i < s->count; i++) {
        cero_delete(s->changes[i].target);
        cero_delete(s->changes[i].fresh);
        cero_delete(s->changes[i].kept);
    }
    s->count = 0;
}

cero_status cero_staging_add_change(cero_staging *s, const char *name, bool is_new)
{
    void *array = s->changes;

    CERO_CHECK(name[0] != '\0' && strchr(name, '/') == NULL && strchr(name, '\n') == NULL &&
                   strcmp(name, ".") != 0 && strcmp(name, "..") != 0,
               CERO_ERR_INVALID, "%s: \"%.80s\" cannot be the name of a file in it", s->dir, name);
    cero_status st = cero_grow(&array, s->count, &s->capacity, sizeof(s->changes[0]));
    s->changes = array;
    CERO_TRY(st);
    cero_staging_change *c = &s->changes[s->count++];
    *c = (cero_staging_change){.target = cero_file_join(s->dir, name),
                               .fresh = is_new ? cero_file_join(s->folder, name) : NULL,
                               .kept = cero_file_join(s->old, name)};
    if (c->target == NULL || c->kept == NULL || (is_new && c->fresh == NULL)) {
        return fail_memory(s->dir);
    }
    c->name = strrchr(c->target, '/') + 1;
    return CERO_OK;
}

cero_status cero_staging_add(cero_staging *staging, const char *name)
{
    return cero_staging_add_change(staging, name, true);
}

cero_status cero_staging_retire(cero_staging *staging, const char *name)
{
    return cero_staging_add_change(staging, name, false);
}

static cero_status move(const char *from, const char *to)
{
    if (cero_io_rename(from, to) != 0) {
        return CERO_FAIL(CERO_ERR_IO, "moving %s to %s: %s", from, to, strerror(errno));
    }
    return CERO_OK;
}

static cero_status remove_file(const char *path)
{
    if (cero_io_unlink(path) != 0 && errno != ENOENT) {
        return CERO_FAIL(CERO_ERR_IO, "removing %s: %s", path, strerror(errno));
    }
    return CERO_OK;
}

static cero_status sync_dir(const char *dir)
{
    if (cero_io_fsync_folder(dir) != 0) {
        return CERO_FAIL(CERO_ERR_IO, "bringing the directory %s to disk: %s", dir,
                         strerror(errno));
    }
    return CERO_OK;
}

static cero_status sync_both(const cero_staging *s)
{
    CERO_TRY(sync_dir(s->old));
    return sync_dir(s->dir);
}

/* The moment at which the exchange is over: what holds from here on is what stands in the directory. */
static cero_status remove_journal(const cero_staging *s)
{
    CERO_TRY(remove_file(s->journal));
    return sync_dir(s->folder);
}

/* Gives every name back what it had; what was done already stays done. The last name comes last here too. */
static cero_status put_back(const cero_staging *s)
{
    if (s->count > 0) {
        const cero_staging_change *last = &s->changes[s->count - 1];
        CERO_TRY(!last->had_old || exists(last->kept) ? remove_file(last->target) : CERO_OK);
    }
    for (int64_t i = 0; i < s->count; i++) {
        const cero_staging_change *c = &s->changes[i];
        if (!c->had_old) {
            CERO_TRY(remove_file(c->target));
        } else if (exists(c->kept)) {
            CERO_TRY(move(c->kept, c->target));
        }
    }
    CERO_TRY(sync_both(s));
    return remove_journal(s);
}

/* What a killed export left in the folder, which is locked now. */
static cero_status recover(cero_staging *s)
{
    struct stat info;

    if (exists(s->journal)) {
        CERO_TRY(cero_staging_journal_read(s));
        if (lstat(s->old, &info) != 0 || !S_ISDIR(info.st_mode)) {
            return CERO_FAIL(CERO_ERR_CORRUPT, "%s should be a folder with the files that %s names",
                             s->old, s->journal);
        }
        CERO_TRY(put_back(s));
        forget_changes(s);
        cero_log(CERO_LOG_WARN, "ckpt",
                 "an earlier export into %s was cut off while it exchanged files; the files from "
                 "before it are back",
                 s->dir);
    }
    // A file left in "old" would be taken for one of the next exchange.
    int error = remove_folder(s->old);
    error = error == 0 ? empty_folder(s->folder) : error;
    if (error != 0) {
        return CERO_FAIL(CERO_ERR_IO, "removing what an earlier export left in %s: %s", s->folder,
                         strerror(error));
    }
    return CERO_OK;
}

/* Opens and locks the folder, and makes sure that it is still the one at its path. */
static cero_status lock_folder(cero_staging *s)
{
    for (int i = 0; i < LOCK_TRIES; i++) {
        struct stat mine;
        struct stat found;
        if (lstat(s->folder, &found) == 0 && !S_ISDIR(found.st_mode)) {
            return CERO_FAIL(CERO_ERR_IO,
                             "%s is in the way: a folder of this name is needed to write %s; "
                             "remove it",
                             s->folder, s->dir);
        }
        CERO_TRY(cero_file_make_dir(s->folder));
        s->lock = open(s->folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (s->lock < 0 && errno != ENOENT) {
            return CERO_FAIL(CERO_ERR_IO, "cannot open %s: %s", s->folder, strerror(errno));
        }
        // A file system without locks (ENOLCK and the like) has one export at a time by promise alone.
        if (s->lock >= 0 && flock(s->lock, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
            (void)close(s->lock);
            s->lock = -1; // the folder is the other's
            return CERO_FAIL(CERO_ERR_IO, "another export into %s is under way", s->dir);
        }
        if (s->lock >= 0 && fstat(s->lock, &mine) == 0 && lstat(s->folder, &found) == 0 &&
            mine.st_dev == found.st_dev && mine.st_ino == found.st_ino) {
            return CERO_OK;
        }
        if (s->lock >= 0) {
            (void)close(s->lock);
        }
        s->lock = -1;
    }
    return CERO_FAIL(CERO_ERR_IO, "other exports into %s come and go", s->dir);
}

cero_status cero_staging_begin(const char *dir, cero_staging **out)
{
    cero_status st = CERO_OK;
    cero_staging *s = cero_new(1, sizeof(*s));

    if (s == NULL) {
        return fail_memory(dir);
    }
    s->lock = -1;
    s->made_dir = cero_file_stat(dir, NULL) == CERO_FILE_ABSENT;
    s->dir = cero_strdup(dir);
    s->folder = cero_file_join(dir, CERO_STAGING_FOLDER);
    s->old = cero_file_join(dir, CERO_STAGING_OLD);
    s->journal = cero_file_join(dir, CERO_STAGING_JOURNAL);
    if (s->dir == NULL || s->folder == NULL || s->old == NULL || s->journal == NULL) {
        st = fail_memory(dir);
        goto fail;
    }
    CERO_TRY_GOTO(cero_file_make_dir(dir), fail);
    CERO_TRY_GOTO(lock_folder(s), fail);
    CERO_TRY_GOTO(recover(s), fail);
    CERO_TRY_GOTO(cero_file_make_dir(s->old), fail);
    *out = s;
    return CERO_OK;

fail:
    cero_staging_end(&s);
    return st;
}

const char *cero_staging_path(const cero_staging *staging)
{
    return staging->folder;
}

static cero_status look_at_targets(cero_staging *s)
{
    for (int64_t i = 0; i < s->count; i++) {
        cero_staging_change *c = &s->changes[i];
        c->had_old = exists(c->target);
        if (cero_file_stat(c->target, NULL) == CERO_FILE_DIRECTORY) {
            return CERO_FAIL(CERO_ERR_IO, "%s is a directory, expected a file that may be replaced",
                             c->target);
        }
    }
    return CERO_OK;
}

static cero_status exchange(cero_staging *s)
{
    int64_t last = s->count - 1;

    CERO_TRY(sync_dir(s->dir)); // the folder itself, before anything is moved into it
    for (int64_t i = last; i >= 0; i--) {
        CERO_TRY(s->changes[i].had_old ? move(s->changes[i].target, s->changes[i].kept) : CERO_OK);
        CERO_TRY(i == last ? sync_both(s) : CERO_OK);
    }
    CERO_TRY(sync_both(s));
    for (int64_t i = 0; i <= last; i++) {
        CERO_TRY(i == last ? sync_dir(s->dir) : CERO_OK);
        if (s->changes[i].fresh != NULL) {
            CERO_TRY(move(s->changes[i].fresh, s->changes[i].target));
        }
    }
    CERO_TRY(sync_dir(s->dir));
    CERO_TRY(sync_dir(s->folder)); // a move lasts when both its folders do
    return remove_journal(s);
}

/* After an error. Without a journal on the disk no name may be touched: first it must stand again. */
static void undo(cero_staging *s)
{
    cero_status st = exists(s->journal) ? CERO_OK : cero_staging_journal_write(s);

    if (st == CERO_OK) {
        st = put_back(s);
    }
    if (st != CERO_OK) {
        cero_log(CERO_LOG_ERROR, "ckpt",
                 "cannot put the files of %s back: %s; they are in %s, and the next export into %s "
                 "tries again",
                 s->dir, cero_error_message(), s->old, s->dir);
    }
}

cero_status cero_staging_commit(cero_staging *staging)
{
    CERO_TRY(look_at_targets(staging));
    cero_status st = cero_staging_journal_write(staging);

    if (st != CERO_OK && !exists(staging->journal)) {
        return st;
    }
    if (st == CERO_OK) {
        st = exchange(staging);
    }
    if (st != CERO_OK) {
        undo(staging);
        return st;
    }
    staging->is_committed = true;
    return CERO_OK;
}

void cero_staging_end(cero_staging **staging)
{
    cero_staging *s = staging == NULL ? NULL : *staging;

    if (s == NULL) {
        return;
    }
    // With a journal the folder is what the old files can be had back from.
    bool is_swept = s->lock >= 0 && !exists(s->journal);
    int error = is_swept ? remove_folder(s->old) : 0;
    error = is_swept && error == 0 ? remove_folder(s->folder) : error;
    if (error != 0) {
        cero_log(CERO_LOG_WARN, "ckpt", "cannot remove %s: %s", s->folder, strerror(error));
    }
    if (s->lock >= 0) {
        (void)close(s->lock);
    }
    if (s->made_dir && !s->is_committed && s->dir != NULL) {
        (void)cero_io_rmdir(s->dir);
    }
    forget_changes(s);
    cero_delete(s->changes);
    cero_delete(s->journal);
    cero_delete(s->old);
    cero_delete(s->folder);
    cero_delete(s->dir);
    cero_delete(s);
    *staging = NULL;
}
