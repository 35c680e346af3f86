/* SPDX-License-Identifier: Apache-2.0 */
/* The calls of io.h: fault first, then the call, then the observer. */
#define _GNU_SOURCE // sync_file_range
#include "base/io.h"

#include "base/fault.h"
#include "base/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static cero_io_observer watching;
static void *watching_context;

void cero_io_observe(cero_io_observer observer, void *context)
{
    (void)pthread_mutex_lock(&lock);
    watching = observer;
    watching_context = context;
    (void)pthread_mutex_unlock(&lock);
}

static void tell(const cero_io_event *event)
{
    int error = errno;

    (void)pthread_mutex_lock(&lock);
    if (watching != NULL) {
        watching(watching_context, event);
    }
    (void)pthread_mutex_unlock(&lock);
    errno = error;
}

/* True when the call must fail: errno is set. *is_short: it may move one byte only. */
static bool must_fail(const char *call, bool is_change, bool *is_short)
{
    int error = cero_fault_next(call);

    if (is_change && error == CERO_FAULT_NONE) {
        error = cero_fault_next("io");
    }
    *is_short = error == CERO_FAULT_SHORT;
    if (error > 0) {
        errno = error;
    }
    return error > 0;
}

static bool fails(const char *call)
{
    bool ignored;

    return must_fail(call, true, &ignored);
}

/* Calls without a result but success. */
static int finish(int rc, const cero_io_event *event)
{
    if (rc == 0) {
        tell(event);
    }
    return rc;
}

int cero_io_open_read(const char *path)
{
    bool ignored;

    for (;;) {
        int fd = must_fail("open", false, &ignored) ? -1 : open(path, O_RDONLY | O_CLOEXEC);
        if (fd >= 0 || errno != EINTR) {
            return fd;
        }
    }
}

int cero_io_open_write(const char *path, int flags)
{
    struct stat info;
    bool is_new = (flags & O_EXCL) != 0 || stat(path, &info) != 0;

    for (;;) {
        int fd = fails("open") ? -1 : open(path, flags | O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
        if (fd >= 0 && is_new) {
            tell(&(cero_io_event){.change = CERO_IO_CREATE, .fd = fd, .path = path});
        }
        if (fd >= 0 || errno != EINTR) {
            return fd;
        }
    }
}

ssize_t cero_io_read(int fd, void *bytes, size_t nbytes)
{
    bool is_short;

    for (;;) {
        ssize_t got = must_fail("read", false, &is_short)
                          ? -1
                          : read(fd, bytes, is_short && nbytes > 1 ? 1 : nbytes);
        if (got >= 0 || errno != EINTR) {
            return got;
        }
    }
}

ssize_t cero_io_pread(int fd, void *bytes, size_t nbytes, int64_t offset)
{
    bool is_short;

    for (;;) {
        ssize_t got = must_fail("read", false, &is_short)
                          ? -1
                          : pread(fd, bytes, is_short && nbytes > 1 ? 1 : nbytes, (off_t)offset);
        if (got >= 0 || errno != EINTR) {
            return got;
        }
    }
}

ssize_t cero_io_write(int fd, const void *bytes, size_t nbytes)
{
    bool is_short;

    for (;;) {
        ssize_t done = must_fail("write", true, &is_short)
                           ? -1
                           : write(fd, bytes, is_short && nbytes > 1 ? 1 : nbytes);
        if (done > 0) {
            tell(&(cero_io_event){.change = CERO_IO_WRITE,
                                  .fd = fd,
                                  .offset = (int64_t)lseek(fd, 0, SEEK_CUR) - (int64_t)done,
                                  .bytes = bytes,
                                  .nbytes = (size_t)done});
        }
        if (done >= 0 || errno != EINTR) {
            return done;
        }
    }
}

int cero_io_truncate(int fd, int64_t length)
{
    int rc;

    do {
        rc = fails("truncate") ? -1 : ftruncate(fd, (off_t)length);
    } while (rc != 0 && errno == EINTR);
    return finish(rc, &(cero_io_event){.change = CERO_IO_TRUNCATE, .fd = fd, .offset = length});
}

int cero_io_fsync(int fd)
{
    int rc;

    do {
        rc = fails("fsync") ? -1 : fsync(fd);
    } while (rc != 0 && errno == EINTR);
    return finish(rc, &(cero_io_event){.change = CERO_IO_FSYNC, .fd = fd});
}

void cero_io_start_sync(int fd, int64_t offset, int64_t nbytes)
{
#ifdef SYNC_FILE_RANGE_WRITE
    // This flag alone waits for nothing, and leaves errors of the disk to fsync.
    (void)sync_file_range(fd, (off_t)offset, (off_t)nbytes, SYNC_FILE_RANGE_WRITE);
#else
    (void)fd;
    (void)offset;
    (void)nbytes;
#endif
}

/* The descriptor is gone whatever is returned. */
int cero_io_close(int fd)
{
    bool has_failed = fails("close");
    int error = errno;
    int rc = close(fd);

    tell(&(cero_io_event){.change = CERO_IO_CLOSE, .fd = fd});
    if (has_failed && error != EINTR) {
        errno = error;
        return -1;
    }
    return rc != 0 && errno == EINTR ? 0 : rc;
}

int cero_io_rename(const char *from, const char *to)
{
    int rc;

    do {
        rc = fails("rename") ? -1 : rename(from, to);
    } while (rc != 0 && errno == EINTR);
    return finish(rc, &(cero_io_event){.change = CERO_IO_RENAME, .fd = -1, .path = from, .to = to});
}

int cero_io_mkdir(const char *path)
{
    int rc;

    do {
        rc = fails("mkdir") ? -1 : mkdir(path, 0777);
    } while (rc != 0 && errno == EINTR);
    return finish(rc, &(cero_io_event){.change = CERO_IO_MKDIR, .fd = -1, .path = path});
}

int cero_io_unlink(const char *path)
{
    int rc;

    do {
        rc = fails("unlink") ? -1 : unlink(path);
    } while (rc != 0 && errno == EINTR);
    return finish(rc, &(cero_io_event){.change = CERO_IO_UNLINK, .fd = -1, .path = path});
}

int cero_io_rmdir(const char *path)
{
    int rc;

    do {
        rc = fails("rmdir") ? -1 : rmdir(path);
    } while (rc != 0 && errno == EINTR);
    return finish(rc, &(cero_io_event){.change = CERO_IO_RMDIR, .fd = -1, .path = path});
}

int cero_io_fsync_folder(const char *path)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int rc;

    do {
        rc = fd < 0 ? -1 : fails("fsync") ? -1 : fsync(fd);
    } while (fd >= 0 && rc != 0 && errno == EINTR);
    int error = errno;
    if (fd >= 0) {
        (void)close(fd);
    }
    errno = error;
    return finish(rc, &(cero_io_event){.change = CERO_IO_FSYNC, .fd = -1, .path = path});
}

int cero_io_fsync_parent(const char *path)
{
    const char *slash = strrchr(path, '/');
    char *dir = slash == NULL   ? cero_strdup(".")
                : slash == path ? cero_strdup("/")
                                : cero_strndup(path, (size_t)(slash - path));

    if (dir == NULL) {
        errno = ENOMEM;
        return -1;
    }
    int rc = cero_io_fsync_folder(dir);
    int error = errno;
    cero_delete(dir);
    errno = error;
    return rc;
}
