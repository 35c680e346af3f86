/* SPDX-License-Identifier: Apache-2.0 */
/*
 * System calls on files and folders: the one seam below file.h and the checkpoints.
 *
 * Each is the call of its name, repeated when interrupted, and passes fault.h first: CERO_FAULT=write:3:ENOSPC lets
 * the third write fail, CERO_FAULT=io:7:SIGKILL ends the process before the seventh call of any kind that changes
 * something. An observer sees every change that was made, in order, so that a test can replay any part of them:
 * what a disk may hold after a loss of power. Errors are errno's, as the calls give them; file.h makes messages.
 */
#ifndef CERO_BASE_IO_H
#define CERO_BASE_IO_H

#include "base/status.h"

#include <sys/types.h>

/* Calls that change something; read is none of them. close and fsync of a folder count too. */
typedef enum cero_io_change {
    CERO_IO_CREATE = 0, /* a file that did not exist was opened */
    CERO_IO_WRITE = 1,
    CERO_IO_TRUNCATE = 2,
    CERO_IO_FSYNC = 3, /* of a file or a folder */
    CERO_IO_CLOSE = 4,
    CERO_IO_RENAME = 5,
    CERO_IO_MKDIR = 6,
    CERO_IO_UNLINK = 7,
    CERO_IO_RMDIR = 8
} cero_io_change;

/* One change that was made; pointers live for the call. */
typedef struct cero_io_event {
    cero_io_change change;
    int fd; /* CREATE, WRITE, TRUNCATE, FSYNC, CLOSE; else -1 */
    const char
        *path;      /* CREATE, FSYNC of a folder, RENAME (from), MKDIR, UNLINK, RMDIR; else NULL */
    const char *to; /* RENAME */
    int64_t offset; /* WRITE: where the bytes went; TRUNCATE: the new length */
    const void *bytes;
    size_t nbytes; /* WRITE: written */
} cero_io_event;

/* Called on the thread that made the change, one at a time. NULL ends it. For tests. */
typedef void (*cero_io_observer)(void *context, const cero_io_event *event);
void cero_io_observe(cero_io_observer observer, void *context);

/* -1 and errno on failure, like the calls of these names. */
int cero_io_open_read(const char *path);
/* O_WRONLY | O_CREAT | O_CLOEXEC and `flags` (O_EXCL, O_APPEND, O_TRUNC). */
int cero_io_open_write(const char *path, int flags);
ssize_t cero_io_read(int fd, void *bytes, size_t nbytes);
ssize_t cero_io_pread(int fd, void *bytes, size_t nbytes, int64_t offset);
ssize_t cero_io_write(int fd, const void *bytes, size_t nbytes);
int cero_io_truncate(int fd, int64_t length);
int cero_io_fsync(int fd);
/* Asks the system to begin to bring these bytes to the disk, where it can be asked. Neither a promise nor a change:
 * it cannot fail, and cero_io_fsync is what brings them there and tells errors. */
void cero_io_start_sync(int fd, int64_t offset, int64_t nbytes);
int cero_io_close(int fd);
int cero_io_rename(const char *from, const char *to);
int cero_io_mkdir(const char *path);
int cero_io_unlink(const char *path);
int cero_io_rmdir(const char *path);

/* Opens, syncs and closes a folder: what was created, renamed or removed in it is on the disk then. */
int cero_io_fsync_folder(const char *path);
/* The same of the folder that holds `path`. */
int cero_io_fsync_parent(const char *path);

#endif
