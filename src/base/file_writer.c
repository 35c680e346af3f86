/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writers: a whole file that appears at commit, or lines appended in place.
 *
 * A failed append is cut back to the last flush that succeeded, so that no half line stays. Devices and
 * pipes (/dev/stdout) are written directly: nothing is ever renamed over them.
 */
#include "base/file.h"

#include "base/io.h"
#include "base/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    BUFFER_SIZE = 64 * 1024
};

struct cero_file_writer {
    char *path;
    char *temporary; /* owned; NULL when the target itself is written */
    char *buffer;    /* [BUFFER_SIZE], owned */
    size_t used;
    int64_t flushed; /* file offset after the last flush */
    int fd;
    bool is_regular;
    bool has_failed;
};

/* Temporary beside the target: the same file system, so that rename is atomic. */
static cero_status name_temporary(cero_file_writer *w)
{
    static atomic_uint counter;
    size_t size = strlen(w->path) + 64;

    w->temporary = cero_new(size, 1);
    if (w->temporary == NULL) {
        return CERO_FAIL(CERO_ERR_NOMEM, "no memory to write %s", w->path);
    }
    (void)snprintf(w->temporary, size, "%s.tmp-%ld-%u", w->path, (long)getpid(),
                   atomic_fetch_add(&counter, 1));
    return CERO_OK;
}

static cero_status open_target(cero_file_writer *w, cero_file_mode mode)
{
    struct stat info;
    bool exists = stat(w->path, &info) == 0;

    if (exists && S_ISDIR(info.st_mode)) {
        return CERO_FAIL(CERO_ERR_IO, "cannot write %s: it is a directory", w->path);
    }
    w->is_regular = !exists || S_ISREG(info.st_mode);
    if (mode == CERO_FILE_REPLACE && w->is_regular) {
        CERO_TRY(name_temporary(w));
    }
    const char *target = w->temporary != NULL ? w->temporary : w->path;
    w->fd = cero_io_open_write(target, w->temporary != NULL ? O_EXCL : O_APPEND);
    if (w->fd < 0) {
        int error = errno;
        cero_delete(w->temporary);
        w->temporary = NULL;
        return CERO_FAIL(CERO_ERR_IO, "cannot create %s: %s", w->path, strerror(error));
    }
    if (w->temporary != NULL && exists) {
        (void)fchmod(w->fd, info.st_mode & 07777);
    }
    w->flushed = w->temporary == NULL && exists && w->is_regular ? (int64_t)info.st_size : 0;
    return CERO_OK;
}

cero_status cero_file_writer_open(const char *path, cero_file_mode mode, cero_file_writer **out)
{
    cero_status st = CERO_OK;
    cero_file_writer *w = cero_new(1, sizeof(*w));

    if (w == NULL) {
        return CERO_FAIL(CERO_ERR_NOMEM, "no memory to write %s", path);
    }
    w->fd = -1;
    w->path = cero_strdup(path);
    w->buffer = cero_new(BUFFER_SIZE, 1);
    if (w->path == NULL || w->buffer == NULL) {
        CERO_FAIL_GOTO(fail, CERO_ERR_NOMEM, "no memory to write %s", path);
    }
    CERO_TRY_GOTO(open_target(w, mode), fail);
    *out = w;
    return CERO_OK;

fail:
    cero_file_writer_close(&w);
    return st;
}

static cero_status fail_writer(cero_file_writer *w, const char *what, int error)
{
    w->has_failed = true;
    w->used = 0;
    if (w->temporary == NULL && w->is_regular && w->fd >= 0 &&
        cero_io_truncate(w->fd, w->flushed) != 0) {
        return CERO_FAIL(CERO_ERR_IO, "%s %s: %s; what was half written could not be cut off: %s",
                         what, w->path, strerror(error), strerror(errno));
    }
    return CERO_FAIL(CERO_ERR_IO, "%s %s: %s", what, w->path, strerror(error));
}

static cero_status write_out(cero_file_writer *w, const char *bytes, size_t length)
{
    size_t done = 0;

    while (done < length) {
        ssize_t n = cero_io_write(w->fd, bytes + done, length - done);
        int error = n == 0 ? EIO : errno;
        if (n > 0) {
            done += (size_t)n;
        } else {
            char what[96];
            (void)snprintf(what, sizeof(what), "writing %zu bytes at byte %lld, %zu done, to",
                           length, (long long)w->flushed, done);
            return fail_writer(w, what, error);
        }
    }
    w->flushed += (int64_t)length;
    return CERO_OK;
}

static cero_status check_usable(const cero_file_writer *w)
{
    if (w->has_failed) {
        return CERO_FAIL(CERO_ERR_IO, "%s is not written any further: an earlier write failed",
                         w->path);
    }
    return CERO_OK;
}

cero_status cero_file_writer_write(cero_file_writer *w, const void *bytes, size_t length)
{
    CERO_TRY(check_usable(w));
    if (length >= BUFFER_SIZE - w->used) {
        CERO_TRY(cero_file_writer_flush(w));
    }
    if (length >= BUFFER_SIZE) {
        return write_out(w, bytes, length);
    }
    if (length > 0) {
        memcpy(w->buffer + w->used, bytes, length);
        w->used += length;
    }
    return CERO_OK;
}

cero_status cero_file_writer_flush(cero_file_writer *w)
{
    CERO_TRY(check_usable(w));
    size_t length = w->used;
    w->used = 0;
    return length == 0 ? CERO_OK : write_out(w, w->buffer, length);
}

cero_status cero_file_writer_commit(cero_file_writer *w)
{
    CERO_TRY(cero_file_writer_flush(w));
    if (w->temporary == NULL) {
        return CERO_OK;
    }
    if (cero_io_fsync(w->fd) != 0) {
        return fail_writer(w, "bringing to disk", errno);
    }
    int rc = cero_io_close(w->fd);
    w->fd = -1;
    if (rc != 0) {
        return fail_writer(w, "closing", errno);
    }
    if (cero_io_rename(w->temporary, w->path) != 0) {
        return fail_writer(w, "moving the finished file to", errno);
    }
    cero_delete(w->temporary);
    w->temporary = NULL;
    if (cero_io_fsync_parent(w->path) != 0) {
        return fail_writer(w, "bringing to disk the folder of", errno);
    }
    return CERO_OK;
}

void cero_file_writer_close(cero_file_writer **writer)
{
    cero_file_writer *w = writer == NULL ? NULL : *writer;

    if (w == NULL) {
        return;
    }
    if (w->fd >= 0 && w->temporary == NULL && !w->has_failed && w->used > 0) {
        // Lines not yet flushed are not lost; who needs to know flushes first.
        cero_status ignored = cero_file_writer_flush(w);
        CERO_UNUSED(ignored);
    }
    if (w->fd >= 0) {
        (void)cero_io_close(w->fd);
    }
    if (w->temporary != NULL) {
        (void)cero_io_unlink(w->temporary);
    }
    cero_delete(w->temporary);
    cero_delete(w->buffer);
    cero_delete(w->path);
    cero_delete(w);
    *writer = NULL;
}

cero_status cero_file_write(const char *path, const void *bytes, size_t length)
{
    cero_file_writer *writer = NULL;
    cero_status st = cero_file_writer_open(path, CERO_FILE_REPLACE, &writer);

    st = st == CERO_OK ? cero_file_writer_write(writer, bytes, length) : st;
    st = st == CERO_OK ? cero_file_writer_commit(writer) : st;
    cero_file_writer_close(&writer);
    return st;
}
