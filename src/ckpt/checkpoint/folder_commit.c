/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a checkpoint appears: everything is on the disk before the one rename that makes it one.
 *
 *     begun -> written: manifest and entries of the folder are on the disk
 *           -> aside:   what stood under the name is TAG.old-ID, which readers take while there is no other
 *           -> named:   the folder has its name, and the parent is on the disk
 *           -> hinted and tidied up, where a failure changes nothing that counts
 *
 * Before "named" is reached every failure goes back the way it came.
 */
#include "ckpt/checkpoint/folder_impl.h"

#include "base/file.h"
#include "base/io.h"
#include "base/log.h"
#include "base/memory.h"
#include "ckpt/checkpoint/manifest_impl.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct cero_folder_commit {
    char *dir;
    char *tag;
    char *path;  /* dir/tag.tmp-id */
    char *final; /* dir/tag */
    char *old;   /* dir/tag.old-id */
    bool is_begun;
    bool has_old;   /* something was moved to `old` */
    bool is_named;  /* path is final now */
    bool is_unsure; /* a way back is not on the disk: nothing may be removed */
};

static cero_status check_final(const cero_folder_commit *c)
{
    struct stat info;

    if (lstat(c->final, &info) == 0 && !S_ISDIR(info.st_mode)) {
        return CERO_FAIL(CERO_ERR_IO,
                         "%s is no folder and in the way of a checkpoint of this name: move it or "
                         "give the checkpoint another name",
                         c->final);
    }
    return CERO_OK;
}

cero_status cero_folder_begin(const char *dir, const char *tag, const char *id,
                              cero_folder_commit **out)
{
    cero_status st = CERO_OK;
    cero_folder_commit *c;

    CERO_TRY(cero_folder_check_tag(tag));
    CERO_CHECK(cero_manifest_is_id(id), CERO_ERR_INVALID,
               "a checkpoint cannot have the id \"%.40s\": 1 to 32 lower-case hexadecimal digits",
               id);
    c = cero_new(1, sizeof(*c));
    if (c == NULL) {
        return CERO_FAIL(CERO_ERR_NOMEM, "no memory to begin a checkpoint in %s", dir);
    }
    c->dir = cero_strdup(dir);
    c->tag = cero_strdup(tag);
    c->path = cero_folder_path(dir, tag, CERO_FOLDER_TMP, id);
    c->final = cero_folder_path(dir, tag, NULL, NULL);
    c->old = cero_folder_path(dir, tag, CERO_FOLDER_OLD, id);
    if (c->dir == NULL || c->tag == NULL || c->path == NULL || c->final == NULL || c->old == NULL) {
        CERO_FAIL_GOTO(fail, CERO_ERR_NOMEM, "no memory to begin a checkpoint in %s", dir);
    }
    CERO_TRY_GOTO(cero_file_make_dir(dir), fail);
    CERO_TRY_GOTO(check_final(c), fail);
    if (cero_io_mkdir(c->path) != 0) {
        CERO_FAIL_GOTO(fail, CERO_ERR_IO, "cannot make the directory %s: %s", c->path,
                       strerror(errno));
    }
    c->is_begun = true;
    *out = c;
    return CERO_OK;

fail:
    cero_folder_end(&c);
    return st;
}

const char *cero_folder_commit_path(const cero_folder_commit *commit)
{
    return commit->path;
}

static cero_status write_bytes(int fd, const char *path, const char *bytes, size_t length)
{
    for (size_t done = 0; done < length;) {
        ssize_t n = cero_io_write(fd, bytes + done, length - done);
        if (n <= 0) {
            return CERO_FAIL(CERO_ERR_IO, "writing %zu bytes at byte %zu of %s: %s", length - done,
                             done, path, n == 0 ? "nothing was written" : strerror(errno));
        }
        done += (size_t)n;
    }
    if (cero_io_fsync(fd) != 0) {
        return CERO_FAIL(CERO_ERR_IO, "bringing %s to disk: %s", path, strerror(errno));
    }
    return CERO_OK;
}

static cero_status write_manifest(const cero_folder_commit *c, const char *bytes, size_t length)
{
    cero_status st;
    char *path = cero_file_join(c->path, CERO_MANIFEST_NAME);

    if (path == NULL) {
        return CERO_FAIL(CERO_ERR_NOMEM, "no memory for the path of a manifest in %s", c->path);
    }
    int fd = cero_io_open_write(path, O_EXCL);
    if (fd < 0) {
        st = CERO_FAIL(CERO_ERR_IO, "cannot create %s: %s", path, strerror(errno));
    } else {
        st = write_bytes(fd, path, bytes, length);
        if (cero_io_close(fd) != 0 && st == CERO_OK) {
            st = CERO_FAIL(CERO_ERR_IO, "closing %s: %s", path, strerror(errno));
        }
    }
    cero_delete(path);
    CERO_TRY(st);
    if (cero_io_fsync_folder(c->path) != 0) {
        return CERO_FAIL(CERO_ERR_IO, "bringing the directory %s to disk: %s", c->path,
                         strerror(errno));
    }
    return CERO_OK;
}

static cero_status move(const char *from, const char *to)
{
    if (cero_io_rename(from, to) != 0) {
        return CERO_FAIL(CERO_ERR_IO, "moving %s to %s: %s", from, to, strerror(errno));
    }
    return CERO_OK;
}

/* One step of the way back. What cannot be undone stays where readers find it, and nothing of it is removed. */
static void move_back(cero_folder_commit *c, const char *from, const char *to)
{
    if (cero_io_rename(from, to) != 0) {
        c->is_unsure = true;
        cero_log(CERO_LOG_ERROR, "ckpt", "cannot move %s back to %s: %s", from, to,
                 strerror(errno));
    }
}

static void go_back(cero_folder_commit *c)
{
    if (c->is_named) {
        move_back(c, c->final, c->path);
        c->is_named = c->is_unsure;
    }
    if (c->has_old && !c->is_named) {
        move_back(c, c->old, c->final);
        c->has_old = c->is_unsure;
    }
    if (cero_io_fsync_folder(c->dir) != 0) {
        c->is_unsure = true;
    }
}

/* From "written" to "named". */
static cero_status give_name(cero_folder_commit *c)
{
    cero_status st = CERO_OK;

    if (cero_file_stat(c->final, NULL) != CERO_FILE_ABSENT) {
        CERO_TRY(move(c->final, c->old));
        c->has_old = true;
    }
    CERO_TRY_GOTO(move(c->path, c->final), fail);
    c->is_named = true;
    if (cero_io_fsync_folder(c->dir) != 0) {
        CERO_FAIL_GOTO(fail, CERO_ERR_IO, "bringing the directory %s to disk: %s", c->dir,
                       strerror(errno));
    }
    return CERO_OK;

fail:
    go_back(c);
    return st;
}

static cero_status write_hint(const char *path, const char *tag)
{
    char line[CERO_FOLDER_MAX_TAG + 1];

    (void)snprintf(line, sizeof(line), "%s\n", tag);
    return cero_file_write(path, line, strlen(line));
}

/* The checkpoint is there: what fails now is told and is no failure of it. */
static void tidy_up(const cero_folder_commit *c)
{
    char *path = cero_file_join(c->dir, CERO_FOLDER_LATEST);

    if (path == NULL || write_hint(path, c->tag) != CERO_OK) {
        cero_log(CERO_LOG_WARN, "ckpt", "%s is complete, but the hint \"%s\" does not name it: %s",
                 c->final, CERO_FOLDER_LATEST, path == NULL ? "no memory" : cero_error_message());
    }
    cero_delete(path);
    if (cero_folder_remove_old(c->dir, c->tag) != CERO_OK) {
        cero_log(CERO_LOG_WARN, "ckpt", "%s replaces an older one that cannot be removed: %s",
                 c->final, cero_error_message());
    }
}

cero_status cero_folder_finish(cero_folder_commit *commit, const char *manifest, size_t length)
{
    CERO_TRY(write_manifest(commit, manifest, length));
    CERO_TRY(check_final(commit));
    CERO_TRY(give_name(commit));
    tidy_up(commit);
    return CERO_OK;
}

void cero_folder_end(cero_folder_commit **commit)
{
    cero_folder_commit *c = commit == NULL ? NULL : *commit;

    if (c == NULL) {
        return;
    }
    if (c->is_begun && !c->is_named && !c->is_unsure && cero_folder_erase(c->path) != CERO_OK) {
        cero_log(CERO_LOG_WARN, "ckpt", "what was begun of a checkpoint stays: %s",
                 cero_error_message());
    }
    cero_delete(c->dir);
    cero_delete(c->tag);
    cero_delete(c->path);
    cero_delete(c->final);
    cero_delete(c->old);
    cero_delete(c);
    *commit = NULL;
}
