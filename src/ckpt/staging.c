/* SPDX-License-Identifier: Apache-2.0 */
/* Moves with a way back: before a file is replaced or removed, it is kept in the folder's "old". */
#include "ckpt/staging.h"

#include "base/fault.h"
#include "base/file.h"
#include "base/log.h"
#include "base/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* One change of the directory; owns its paths. */
typedef struct change {
    char *target; /* dir/name */
    char *fresh;  /* folder/name; NULL: the target goes */
    char *kept;   /* folder/old/name */
    bool is_kept; /* what was at target is at kept */
    bool is_moved;
} change;

struct cero_staging {
    char *dir;
    char *folder;
    char *old;
    change *changes; /* [count], owned */
    int64_t count;
    int64_t capacity;
    bool made_dir;
    bool is_committed;
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

/* Removes the files and folders that are in the folder, and the folder. Never follows links. */
static void sweep(const cero_staging *s)
{
    cero_file_list list = {0};
    struct stat info;

    if (lstat(s->folder, &info) != 0 || !S_ISDIR(info.st_mode)) {
        return;
    }
    if (cero_file_list_dir(s->folder, true, &list) == CERO_OK) {
        for (int64_t i = 0; i < list.count; i++) {
            (void)unlink(list.path[i]);
        }
        cero_file_list_cleanup(&list);
    }
    for (int64_t i = 0; i < s->count; i++) {
        if (s->changes[i].kept != NULL) {
            (void)unlink(s->changes[i].kept); // links that lead nowhere are not in the list
        }
    }
    (void)rmdir(s->old);
    if (rmdir(s->folder) != 0) {
        cero_log(CERO_LOG_WARN, "ckpt", "cannot remove %s: %s", s->folder, strerror(errno));
    }
}

cero_status cero_staging_begin(const char *dir, cero_staging **out)
{
    cero_status st = CERO_OK;
    cero_staging *s = cero_new(1, sizeof(*s));

    if (s == NULL) {
        return fail_memory(dir);
    }
    s->made_dir = cero_file_stat(dir, NULL) == CERO_FILE_ABSENT;
    s->dir = cero_strdup(dir);
    s->folder = cero_file_join(dir, ".cero-export");
    s->old = cero_file_join(dir, ".cero-export/old");
    if (s->dir == NULL || s->folder == NULL || s->old == NULL) {
        st = fail_memory(dir);
        goto fail;
    }
    CERO_TRY_GOTO(cero_file_make_dir(dir), fail);
    sweep(s);
    if (exists(s->folder)) {
        CERO_FAIL_GOTO(fail, CERO_ERR_IO,
                       "%s is in the way: a folder of this name is needed to write %s; remove it",
                       s->folder, dir);
    }
    CERO_TRY_GOTO(cero_file_make_dir(s->folder), fail);
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

static cero_status add_change(cero_staging *s, const char *name, bool is_new)
{
    void *array = s->changes;
    cero_status st = cero_grow(&array, s->count, &s->capacity, sizeof(s->changes[0]));

    s->changes = array;
    CERO_TRY(st);
    change *c = &s->changes[s->count++];
    *c = (change){.target = cero_file_join(s->dir, name),
                  .fresh = is_new ? cero_file_join(s->folder, name) : NULL,
                  .kept = cero_file_join(s->old, name)};
    return c->target == NULL || c->kept == NULL || (is_new && c->fresh == NULL)
               ? fail_memory(s->dir)
               : CERO_OK;
}

cero_status cero_staging_add(cero_staging *staging, const char *name)
{
    return add_change(staging, name, true);
}

cero_status cero_staging_retire(cero_staging *staging, const char *name)
{
    return add_change(staging, name, false);
}

static cero_status move(const char *from, const char *to)
{
    int error = cero_fault_next("rename");

    if (error <= 0) {
        error = rename(from, to) == 0 ? 0 : errno;
    }
    if (error != 0) {
        return CERO_FAIL(CERO_ERR_IO, "moving %s to %s: %s", from, to, strerror(error));
    }
    return CERO_OK;
}

/* Keeps what stands at the target: by a second name where it is replaced, so that it is never absent. */
static cero_status keep(change *c)
{
    if (!exists(c->target)) {
        return CERO_OK;
    }
    if (cero_file_stat(c->target, NULL) == CERO_FILE_DIRECTORY) {
        return CERO_FAIL(CERO_ERR_IO, "%s is a directory, expected a file that may be replaced",
                         c->target);
    }
    if (c->fresh == NULL || link(c->target, c->kept) != 0) {
        CERO_TRY(move(c->target, c->kept));
    }
    c->is_kept = true;
    return CERO_OK;
}

static cero_status apply(change *c)
{
    CERO_TRY(keep(c));
    if (c->fresh != NULL) {
        CERO_TRY(move(c->fresh, c->target));
        c->is_moved = true;
    }
    return CERO_OK;
}

static void undo(cero_staging *s)
{
    for (int64_t i = s->count - 1; i >= 0; i--) {
        change *c = &s->changes[i];
        if (c->is_moved && !c->is_kept) {
            (void)unlink(c->target);
        }
        if (c->is_kept && rename(c->kept, c->target) != 0) {
            cero_log(CERO_LOG_ERROR, "ckpt", "cannot put %s back from %s: %s", c->target, c->kept,
                     strerror(errno));
        }
        c->is_kept = false;
        c->is_moved = false;
    }
}

static cero_status sync_dir(const char *dir)
{
    int error = cero_fault_next("fsync");
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (error <= 0) {
        error = fd >= 0 && fsync(fd) == 0 ? 0 : errno;
    }
    if (fd >= 0) {
        (void)close(fd);
    }
    if (error != 0) {
        return CERO_FAIL(CERO_ERR_IO, "bringing the directory %s to disk: %s", dir,
                         strerror(error));
    }
    return CERO_OK;
}

cero_status cero_staging_commit(cero_staging *staging)
{
    cero_status st = CERO_OK;

    for (int is_new = 0; is_new <= 1; is_new++) {
        for (int64_t i = 0; i < staging->count; i++) {
            if ((staging->changes[i].fresh != NULL) == (is_new == 1)) {
                CERO_TRY_GOTO(apply(&staging->changes[i]), fail);
            }
        }
    }
    CERO_TRY_GOTO(sync_dir(staging->dir), fail);
    staging->is_committed = true;
    return CERO_OK;

fail:
    undo(staging);
    return st;
}

void cero_staging_end(cero_staging **staging)
{
    cero_staging *s = staging == NULL ? NULL : *staging;

    if (s == NULL) {
        return;
    }
    if (s->folder != NULL && s->old != NULL) {
        sweep(s);
    }
    if (s->made_dir && !s->is_committed && s->dir != NULL) {
        (void)rmdir(s->dir);
    }
    for (int64_t i = 0; i < s->count; i++) {
        cero_delete(s->changes[i].target);
        cero_delete(s->changes[i].fresh);
        cero_delete(s->changes[i].kept);
    }
    cero_delete(s->changes);
    cero_delete(s->old);
    cero_delete(s->folder);
    cero_delete(s->dir);
    cero_delete(s);
    *staging = NULL;
}
