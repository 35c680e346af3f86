/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The files of a checkpoint that is read: opened when needed, few at a time. Headers are in reader_header.c.
 *
 * Nothing but a regular file of the manifest's length is read: no symbolic link leads out of the folder, and no pipe
 * is waited for.
 */
#include "ckpt/checkpoint/reader_impl.h"

#include "base/io.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    PIECE = 256 << 10 /* bytes that are read and then hashed while they are in the cache */
};

static const char *name_of(const cero_reader *reader, int64_t file)
{
    return reader->manifest.files[file].name;
}

/* What is wrong with what stands under the name, before it is opened. */
static cero_status check_kind(const cero_reader *reader, int64_t file, const char *path)
{
    struct stat info;

    if (lstat(path, &info) != 0) {
        int error = errno;
        return CERO_FAIL(
            error == ENOENT || error == ENOTDIR ? CERO_ERR_CORRUPT : CERO_ERR_IO,
            error == ENOENT || error == ENOTDIR
                ? "%s is missing (%s); the manifest lists it: restore it or use another "
                  "checkpoint"
                : "cannot look at %s: %s; make it readable or use another checkpoint",
            path, strerror(error));
    }
    if (!S_ISREG(info.st_mode)) {
        return CERO_FAIL(CERO_ERR_CORRUPT,
                         "%s is a %s, expected a regular file of %lld bytes: put the file there or "
                         "use another checkpoint",
                         path,
                         S_ISLNK(info.st_mode)   ? "symbolic link"
                         : S_ISDIR(info.st_mode) ? "directory"
                                                 : "special file",
                         (long long)reader->manifest.files[file].nbytes);
    }
    return CERO_OK;
}

/* Closes the file that was opened first when there are as many as may be. */
static void make_room(cero_reader *reader)
{
    if (reader->open_count == CERO_READER_MAX_OPEN) {
        int64_t oldest = reader->opened[reader->open_first];
        (void)close(reader->fds[oldest]);
        reader->fds[oldest] = -1;
        reader->open_first = (reader->open_first + 1) % CERO_READER_MAX_OPEN;
        reader->open_count--;
    }
}

static void note_open(cero_reader *reader, int64_t file, int fd)
{
    int64_t at = (reader->open_first + reader->open_count++) % CERO_READER_MAX_OPEN;

    reader->opened[at] = file;
    reader->fds[file] = fd;
}

static cero_status fail_length(const cero_reader *reader, int64_t file, int fd, const char *path,
                               int64_t length)
{
    int64_t expected = reader->manifest.files[file].nbytes;
    cero_text owner = {0};
    cero_status st =
        cero_reader_file_owner(reader, file, fd, length, &owner)
            ? cero_reader_file_fail(reader, file, owner.data)
            : CERO_FAIL(CERO_ERR_CORRUPT,
                        "%s has %lld bytes, the manifest says %lld: %s; restore it or use another "
                        "checkpoint",
                        path, (long long)length, (long long)expected,
                        length < expected ? "it was cut off" : "something was added to it");
    cero_text_cleanup(&owner);
    return st;
}

static cero_status open_path(cero_reader *reader, int64_t file, const char *path)
{
    struct stat info;

    CERO_TRY(check_kind(reader, file, path));
    make_room(reader);
    int fd = cero_io_open_read(path);
    if (fd < 0) {
        return CERO_FAIL(CERO_ERR_IO,
                         "cannot open %s: %s; make it readable or use another checkpoint", path,
                         strerror(errno));
    }
    cero_status st = CERO_OK;
    if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
        st = CERO_FAIL(CERO_ERR_IO, "cannot look at %s: it changed while it was opened; try again",
                       path);
    } else if ((int64_t)info.st_size != reader->manifest.files[file].nbytes) {
        st = fail_length(reader, file, fd, path, (int64_t)info.st_size);
    }
    if (st != CERO_OK) {
        (void)close(fd);
        return st;
    }
    // Reads go forward through long ranges; the kernel may run far ahead.
    (void)posix_fadvise(fd, 0, 0, POSIX_FADV_SEQUENTIAL);
    note_open(reader, file, fd);
    return CERO_OK;
}

cero_status cero_reader_file_open(cero_reader *reader, int64_t file, int *fd)
{
    if (reader->fds[file] < 0) {
        cero_text path = {0};
        cero_text_printf(&path, "%s/%s", reader->path, name_of(reader, file));
        cero_status st = cero_text_finish(&path);
        if (st == CERO_OK) {
            st = open_path(reader, file, path.data);
        }
        cero_text_cleanup(&path);
        CERO_TRY(st);
    }
    *fd = reader->fds[file];
    return CERO_OK;
}

/* One piece, whole. */
static cero_status read_piece(cero_reader *reader, int64_t file, int fd, int64_t offset,
                              int64_t nbytes, char *out)
{
    for (int64_t done = 0; done < nbytes;) {
        ssize_t got = cero_io_pread(fd, out + done, (size_t)(nbytes - done), offset + done);
        if (got < 0) {
            return CERO_FAIL(CERO_ERR_IO,
                             "cannot read %s/%s at byte %lld, %lld bytes: %s; look at the disk or "
                             "use another checkpoint",
                             reader->path, name_of(reader, file), (long long)(offset + done),
                             (long long)(nbytes - done), strerror(errno));
        }
        if (got == 0) {
            return CERO_FAIL(
                CERO_ERR_CORRUPT,
                "%s/%s ends at byte %lld, expected %lld bytes; it was cut while it was "
                "read: restore it or use another checkpoint",
                reader->path, name_of(reader, file), (long long)(offset + done),
                (long long)reader->manifest.files[file].nbytes);
        }
        done += (int64_t)got;
    }
    reader->bytes_read += nbytes;
    return CERO_OK;
}

cero_status cero_reader_file_read(cero_reader *reader, int64_t file, int64_t offset, int64_t nbytes,
                                  char *out)
{
    int fd;

    CERO_TRY(cero_reader_file_open(reader, file, &fd));
    for (int64_t done = 0; done < nbytes; done += PIECE) {
        int64_t n = nbytes - done < PIECE ? nbytes - done : PIECE;
        CERO_TRY(read_piece(reader, file, fd, offset + done, n, out + done));
        (void)XXH3_64bits_update(reader->hash, out + done, (size_t)n);
    }
    return CERO_OK;
}
