/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One rank's file on its way to the disk, and back for a check.
 *
 * What the source lends is written from where it is, and hashed piece by piece while the cache of a core still has
 * it; the disk is given work on the way. Only what is small is gathered first, so that few calls are made. Memory is
 * bounded by two parts.
 */
#include "ckpt/checkpoint/rank_file_impl.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/io.h"
#include "base/memory.h"
#include "base/xxh3.h"
#include "ckpt/safetensors.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

enum {
    GATHER = 1 << 20,  /* bytes kept until they are worth a call */
    SMALL = 64 << 10,  /* bytes that are copied there */
    PIECE = 256 << 10, /* bytes written and then hashed */
    AHEAD = 8 << 20    /* bytes after which the disk is given work */
};

typedef struct stream {
    cero_rank_file *file;
    const char *path;
    int fd;
    int64_t at;      /* bytes written */
    int64_t started; /* of them on their way to the disk */
    char *gathered;
    size_t used;
    float *room; /* for a source that lends nothing */
    XXH3_state_t *hash;
    cero_rank_file_source source;
    void *context;
    cero_rank_file_seconds seconds;
} stream;

static cero_status write_now(stream *s, const void *bytes, size_t nbytes)
{
    size_t done = 0;
    double start = cero_clock_now();

    while (done < nbytes) {
        ssize_t n = cero_io_write(s->fd, (const char *)bytes + done, nbytes - done);
        if (n <= 0) {
            return CERO_FAIL(CERO_ERR_IO, "writing %zu bytes at byte %lld of %s: %s", nbytes - done,
                             (long long)s->at, s->path,
                             n == 0 ? "nothing was written" : strerror(errno));
        }
        done += (size_t)n;
        s->at += (int64_t)n;
    }
    // The disk works while the next bytes are hashed, and few wait to be written when the file is synced.
    if (s->at - s->started >= AHEAD) {
        cero_io_start_sync(s->fd, s->started, s->at - s->started);
        s->started = s->at;
    }
    s->seconds.write += cero_clock_now() - start;
    return CERO_OK;
}

static cero_status flush(stream *s)
{
    size_t nbytes = s->used;

    s->used = 0;
    return write_now(s, s->gathered, nbytes);
}

static cero_status put(stream *s, const void *bytes, size_t nbytes)
{
    if (s->used > 0 && (nbytes > SMALL || s->used + nbytes > GATHER)) {
        CERO_TRY(flush(s));
    }
    if (nbytes > SMALL) {
        return write_now(s, bytes, nbytes);
    }
    memcpy(s->gathered + s->used, bytes, nbytes);
    s->used += nbytes;
    return CERO_OK;
}

/* A block, or what is left of the range. Written first: the copy brings the bytes near, and hashing is then quick. */
static cero_status write_block(stream *s, const char *bytes, int64_t nbytes, uint64_t *hash)
{
    (void)XXH3_64bits_reset(s->hash);
    for (int64_t done = 0; done < nbytes; done += PIECE) {
        size_t n = (size_t)(nbytes - done < PIECE ? nbytes - done : PIECE);
        CERO_TRY(put(s, bytes + done, n));
        double start = cero_clock_now();
        (void)XXH3_64bits_update(s->hash, bytes + done, n);
        s->seconds.hash += cero_clock_now() - start;
    }
    *hash = XXH3_64bits_digest(s->hash);
    return CERO_OK;
}

static cero_status write_entry(stream *s, const cero_rank_file_entry *e)
{
    int64_t part = cero_rank_file_part_bytes(s->file);
    int64_t block = s->file->block_nbytes;

    for (int64_t done = 0; done < e->nbytes; done += part) {
        int64_t nbytes = e->nbytes - done < part ? e->nbytes - done : part;
        const float *values = NULL;
        CERO_TRY(s->source(s->context, e->index, e->range.begin + done / (int64_t)sizeof(float),
                           nbytes / (int64_t)sizeof(float), s->room, &values));
        for (int64_t at = 0; at < nbytes; at += block) {
            CERO_TRY(write_block(s, (const char *)values + at,
                                 nbytes - at < block ? nbytes - at : block,
                                 &s->file->hashes[e->block + (done + at) / block]));
        }
    }
    return CERO_OK;
}

static cero_status write_header(stream *s, const char *id)
{
    cero_text header = {0};
    cero_status st = cero_rank_file_header(s->file, id, &header);

    if (st == CERO_OK) {
        s->file->header_hash = XXH3_64bits(header.data, header.length);
        st = put(s, header.data, header.length);
    }
    cero_text_cleanup(&header);
    return st;
}

static cero_status write_all(stream *s, const char *id)
{
    CERO_TRY(write_header(s, id));
    for (int64_t i = 0; i < s->file->count; i++) {
        CERO_TRY(write_entry(s, &s->file->entries[i]));
    }
    CERO_TRY(flush(s));
    double start = cero_clock_now();
    if (cero_io_fsync(s->fd) != 0) {
        return CERO_FAIL(CERO_ERR_IO, "bringing the %lld bytes of %s to disk: %s", (long long)s->at,
                         s->path, strerror(errno));
    }
    s->seconds.sync = cero_clock_now() - start;
    return CERO_OK;
}

static cero_status write_file(stream *s, const char *id)
{
    s->gathered = cero_new(GATHER, 1);
    s->room = cero_new((size_t)cero_rank_file_part_bytes(s->file), 1);
    s->hash = XXH3_createState();
    CERO_CHECK(s->gathered != NULL && s->room != NULL && s->hash != NULL, CERO_ERR_NOMEM,
               "no memory for the buffers to write %s", s->path);
    s->fd = cero_io_open_write(s->path, O_EXCL);
    if (s->fd < 0) {
        return CERO_FAIL(CERO_ERR_IO, "cannot create %s: %s", s->path, strerror(errno));
    }
    cero_status st = write_all(s, id);
    if (cero_io_close(s->fd) != 0 && st == CERO_OK) {
        st = CERO_FAIL(CERO_ERR_IO, "closing %s: %s", s->path, strerror(errno));
    }
    return st;
}

static char *path_of(const cero_rank_file *file, const char *dir)
{
    char name[CERO_MANIFEST_MAX_FILE_NAME];

    return cero_file_join(dir, cero_rank_file_name(file->rank, name));
}

static cero_status fail_path(const char *dir)
{
    return CERO_FAIL(CERO_ERR_NOMEM, "no memory for the path of a file in %s", dir);
}

cero_status cero_rank_file_write(cero_rank_file *file, const char *dir, const char *id,
                                 cero_rank_file_source source, void *context,
                                 cero_rank_file_seconds *seconds)
{
    char *path = path_of(file, dir);
    stream s = {.file = file, .path = path, .fd = -1, .source = source, .context = context};

    if (path == NULL) {
        return fail_path(dir);
    }
    file->is_written = false;
    cero_status st = write_file(&s, id);
    file->is_written = st == CERO_OK;
    if (st == CERO_OK && seconds != NULL) {
        *seconds = s.seconds;
    }
    cero_delete(s.gathered);
    cero_delete(s.room);
    (void)XXH3_freeState(s.hash);
    cero_delete(path);
    return st;
}

/* Fills `bytes` from the place; a file that is shorter is corrupt. */
static cero_status read_at(int fd, const char *path, int64_t at, char *bytes, int64_t nbytes)
{
    for (int64_t done = 0; done < nbytes;) {
        ssize_t n = cero_io_pread(fd, bytes + done, (size_t)(nbytes - done), at + done);
        if (n < 0) {
            return CERO_FAIL(CERO_ERR_IO, "reading back byte %lld of %s: %s",
                             (long long)(at + done), path, strerror(errno));
        }
        if (n == 0) {
            return CERO_FAIL(CERO_ERR_CORRUPT, "%s ends at byte %lld, after more were written",
                             path, (long long)(at + done));
        }
        done += (int64_t)n;
    }
    return CERO_OK;
}

static cero_status check_entry(const cero_rank_file *file, const cero_rank_file_entry *e, int fd,
                               const char *path, char *part)
{
    char name[CERO_SAFETENSORS_QUOTE];
    int64_t size = cero_rank_file_part_bytes(file);
    int64_t block = e->block;

    for (int64_t done = 0; done < e->nbytes; done += size) {
        int64_t nbytes = e->nbytes - done < size ? e->nbytes - done : size;
        int64_t at = file->header_nbytes + e->offset + done;
        CERO_TRY(read_at(fd, path, at, part, nbytes));
        for (int64_t from = 0; from < nbytes; from += file->block_nbytes, block++) {
            int64_t n = nbytes - from < file->block_nbytes ? nbytes - from : file->block_nbytes;
            uint64_t hash = XXH3_64bits(part + from, (size_t)n);
            if (hash != file->hashes[block]) {
                return CERO_FAIL(CERO_ERR_CORRUPT,
                                 "%s: tensor %s: the %lld bytes at byte %lld read back with the "
                                 "hash %016llx, they were written with %016llx: the disk did not "
                                 "keep them",
                                 path, cero_safetensors_quote(e->name, name, sizeof(name)),
                                 (long long)n, (long long)(at + from), (unsigned long long)hash,
                                 (unsigned long long)file->hashes[block]);
            }
        }
    }
    return CERO_OK;
}

static cero_status check_header(const cero_rank_file *file, int fd, const char *path)
{
    char *header = cero_new((size_t)file->header_nbytes, 1);

    if (header == NULL) {
        return CERO_FAIL(CERO_ERR_NOMEM, "no memory for the header of %s", path);
    }
    cero_status st = read_at(fd, path, 0, header, file->header_nbytes);
    if (st == CERO_OK && XXH3_64bits(header, (size_t)file->header_nbytes) != file->header_hash) {
        st = CERO_FAIL(CERO_ERR_CORRUPT,
                       "%s: the %lld bytes of its header are not those that were written", path,
                       (long long)file->header_nbytes);
    }
    cero_delete(header);
    return st;
}

static cero_status check_open(const cero_rank_file *file, int fd, const char *path)
{
    char more;
    int64_t nbytes = cero_rank_file_bytes(file);
    cero_status st = check_header(file, fd, path);
    char *part = st == CERO_OK ? cero_new((size_t)cero_rank_file_part_bytes(file), 1) : NULL;

    if (st == CERO_OK && part == NULL) {
        st = CERO_FAIL(CERO_ERR_NOMEM, "no memory to read back %s", path);
    }
    for (int64_t i = 0; i < file->count && st == CERO_OK; i++) {
        st = check_entry(file, &file->entries[i], fd, path, part);
    }
    cero_delete(part);
    CERO_TRY(st);
    CERO_CHECK(cero_io_pread(fd, &more, 1, nbytes) == 0, CERO_ERR_CORRUPT,
               "%s does not end at byte %lld, where it was ended", path, (long long)nbytes);
    return CERO_OK;
}

cero_status cero_rank_file_check(const cero_rank_file *file, const char *dir)
{
    CERO_CHECK(file->is_written, CERO_ERR_INVALID, "the file of rank %d has not been written",
               file->rank);
    char *path = path_of(file, dir);
    if (path == NULL) {
        return fail_path(dir);
    }
    int fd = cero_io_open_read(path);
    cero_status st = fd >= 0 ? CERO_OK
                             : CERO_FAIL(CERO_ERR_IO, "cannot open %s to read it back: %s", path,
                                         strerror(errno));
    if (st == CERO_OK) {
        // What memory still has of the file proves nothing about the disk.
        (void)posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
        st = check_open(file, fd, path);
        (void)close(fd);
    }
    cero_delete(path);
    return st;
}
