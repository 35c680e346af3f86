/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading safetensors files by range.
 *
 * Positioned reads rather than a map: a file that shrinks under the reader is an error and not a signal,
 * and what was read once does not count as resident. F32 goes straight to the caller's memory, other
 * dtypes through a buffer of CERO_SAFETENSORS_STAGING bytes.
 */
#include "ckpt/safetensors_impl.h"

#include "base/fault.h"
#include "base/memory.h"
#include "base/xxh3.h"
#include "ckpt/convert.h"
#include "ckpt/foreign.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    LENGTH_SIZE = 8 /* the length of the header, u64 */
};

struct cero_safetensors {
    char *path; /* owned */
    int fd;
    int64_t data_offset; /* 8 + header */
    int64_t bytes_read;
    unsigned char *staging; /* [CERO_SAFETENSORS_STAGING], owned */
    cero_safetensors_header header;
};

/* Reads exactly nbytes at an offset of the file. */
static cero_status read_at(cero_safetensors *file, int64_t offset, size_t nbytes, void *out)
{
    unsigned char *p = out;
    size_t done = 0;

    while (done < nbytes) {
        int error = cero_fault_next("read");
        size_t ask = error == CERO_FAULT_SHORT ? 1 : nbytes - done;
        ssize_t n = -1;
        if (error <= 0) {
            n = pread(file->fd, p + done, ask, (off_t)(offset + (int64_t)done));
            error = errno;
        }
        if (n == 0) {
            return CERO_FAIL(CERO_ERR_IO,
                             "reading %zu bytes at byte %lld of %s: the file ends after %zu; it "
                             "was cut while it was open",
                             nbytes, (long long)offset, file->path, done);
        }
        if (n < 0 && error != EINTR) {
            return CERO_FAIL(CERO_ERR_IO, "reading %zu bytes at byte %lld of %s, %zu done: %s",
                             nbytes, (long long)offset, file->path, done, strerror(error));
        }
        done += n > 0 ? (size_t)n : 0;
    }
    file->bytes_read += (int64_t)nbytes;
    return CERO_OK;
}

static cero_status open_descriptor(cero_safetensors *file, int64_t *length)
{
    struct stat info;
    int error = cero_fault_next("open");

    if (error <= 0) {
        // Not to wait for the other end of a pipe; without effect on regular files.
        file->fd = open(file->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
        error = errno;
    }
    if (file->fd < 0) {
        return CERO_FAIL(CERO_ERR_IO, "cannot open %s for reading: %s", file->path,
                         strerror(error));
    }
    if (fstat(file->fd, &info) != 0) {
        return CERO_FAIL(CERO_ERR_IO, "cannot look at %s: %s", file->path, strerror(errno));
    }
    if (!S_ISREG(info.st_mode)) {
        return CERO_FAIL(CERO_ERR_IO, "%s is no regular file, expected a safetensors file",
                         file->path);
    }
    *length = info.st_size;
    return CERO_OK;
}

/* The length in front of the header, believed only after it was compared with the file's. */
static cero_status read_header_length(cero_safetensors *file, int64_t length, uint64_t *header)
{
    unsigned char bytes[LENGTH_SIZE];

    if (length < LENGTH_SIZE) {
        return CERO_FAIL(CERO_ERR_CORRUPT,
                         "%s has %lld bytes; a safetensors file starts with 8 bytes for the length "
                         "of its header",
                         file->path, (long long)length);
    }
    CERO_TRY(read_at(file, 0, sizeof(bytes), bytes));
    memcpy(header, bytes, sizeof(*header));
    const char *foreign = cero_foreign_magic(bytes, sizeof(bytes));
    if (*header > CERO_SAFETENSORS_MAX_HEADER && foreign != NULL) {
        return CERO_FAIL(CERO_ERR_CORRUPT, "%s is no safetensors file but %s", file->path, foreign);
    }
    if (*header > CERO_SAFETENSORS_MAX_HEADER) {
        return CERO_FAIL(CERO_ERR_CORRUPT,
                         "%s: the header would have %llu bytes, the limit is %d; this is no "
                         "safetensors file",
                         file->path, (unsigned long long)*header, CERO_SAFETENSORS_MAX_HEADER);
    }
    if ((int64_t)*header > length - LENGTH_SIZE) {
        return CERO_FAIL(CERO_ERR_CORRUPT,
                         "%s: the header has %llu bytes, but the file has only %lld after the "
                         "first 8; it is cut off",
                         file->path, (unsigned long long)*header,
                         (long long)(length - LENGTH_SIZE));
    }
    return CERO_OK;
}

static cero_status read_header(cero_safetensors *file, int64_t length)
{
    uint64_t nbytes = 0;

    CERO_TRY(read_header_length(file, length, &nbytes));
    char *json = cero_new((size_t)nbytes + 1, 1);
    if (json == NULL) {
        return CERO_FAIL(CERO_ERR_NOMEM, "no memory for the header of %s, %llu bytes", file->path,
                         (unsigned long long)nbytes);
    }
    cero_status st = read_at(file, LENGTH_SIZE, (size_t)nbytes, json);
    if (st == CERO_OK) {
        st = cero_safetensors_header_parse(file->path, json, (size_t)nbytes, &file->header);
    }
    cero_delete(json);
    CERO_TRY(st);
    file->data_offset = LENGTH_SIZE + (int64_t)nbytes;
    if (file->header.data_bytes != length - file->data_offset) {
        return CERO_FAIL(
            CERO_ERR_CORRUPT,
            "%s has %lld bytes, expected %lld more than the %lld of its header and "
            "the 8 before it; the file is %s",
            file->path, (long long)length, (long long)file->header.data_bytes, (long long)nbytes,
            length - file->data_offset < file->header.data_bytes ? "cut off"
                                                                 : "longer than its tensors");
    }
    return CERO_OK;
}

cero_status cero_safetensors_open(const char *path, cero_safetensors **out)
{
    cero_status st = CERO_OK;
    int64_t length = 0;
    cero_safetensors *file = cero_new(1, sizeof(*file));

    if (file == NULL) {
        return CERO_FAIL(CERO_ERR_NOMEM, "no memory to open %s", path);
    }
    file->fd = -1;
    file->path = cero_strdup(path);
    file->staging = cero_new(CERO_SAFETENSORS_STAGING, 1);
    if (file->path == NULL || file->staging == NULL) {
        CERO_FAIL_GOTO(fail, CERO_ERR_NOMEM, "no memory to open %s", path);
    }
    CERO_TRY_GOTO(open_descriptor(file, &length), fail);
    CERO_TRY_GOTO(read_header(file, length), fail);
    *out = file;
    return CERO_OK;

fail:
    cero_safetensors_close(&file);
    return st;
}

void cero_safetensors_close(cero_safetensors **file)
{
    if (file == NULL || *file == NULL) {
        return;
    }
    cero_safetensors_header_cleanup(&(*file)->header);
    if ((*file)->fd >= 0) {
        (void)close((*file)->fd);
    }
    cero_delete((*file)->staging);
    cero_delete((*file)->path);
    cero_delete(*file);
    *file = NULL;
}

int64_t cero_safetensors_count(const cero_safetensors *file)
{
    return file->header.count;
}

const cero_safetensors_tensor *cero_safetensors_get(const cero_safetensors *file, int64_t i)
{
    CERO_ASSERT(i >= 0 && i < file->header.count);
    return &file->header.tensor[i];
}

const cero_safetensors_tensor *cero_safetensors_find(const cero_safetensors *file, const char *name)
{
    return cero_safetensors_header_find(&file->header, name);
}

bool cero_safetensors_metadata(const cero_safetensors *file, int64_t i, const char **key,
                               const char **value)
{
    const cero_json *m = file->header.metadata == NULL ? NULL : file->header.metadata->child;

    for (; m != NULL && i > 0; i--) {
        m = m->next;
    }
    if (m == NULL) {
        return false;
    }
    *key = m->key;
    *value = m->text;
    return true;
}

bool cero_safetensors_is_in_place(const cero_safetensors *file)
{
    struct stat mine;
    struct stat found;

    // The number of an open file's inode is given to no other.
    return fstat(file->fd, &mine) == 0 && stat(file->path, &found) == 0 &&
           mine.st_dev == found.st_dev && mine.st_ino == found.st_ino;
}

const char *cero_safetensors_path(const cero_safetensors *file)
{
    return file->path;
}

int64_t cero_safetensors_data_offset(const cero_safetensors *file)
{
    return file->data_offset;
}

int64_t cero_safetensors_bytes_read(const cero_safetensors *file)
{
    return file->bytes_read;
}

/* begin .. begin + count lies within 0 .. limit. */
static cero_status check_range(const cero_safetensors *file, const cero_safetensors_tensor *tensor,
                               int64_t begin, int64_t count, int64_t limit)
{
    char name[CERO_SAFETENSORS_QUOTE];

    CERO_CHECK(begin >= 0 && count >= 0 && begin <= limit && count <= limit - begin,
               CERO_ERR_INVALID, "%s: %lld from %lld on asked of tensor %s, which has %lld",
               file->path, (long long)count, (long long)begin,
               cero_safetensors_quote(tensor->name, name, sizeof(name)), (long long)limit);
    return CERO_OK;
}

static void convert(cero_safetensors_dtype dtype, const void *from, int64_t n, float *to)
{
    if (dtype == CERO_SAFETENSORS_BF16) {
        cero_convert_bf16_to_f32(from, n, to);
    } else if (dtype == CERO_SAFETENSORS_F16) {
        cero_convert_f16_to_f32(from, n, to);
    } else {
        cero_convert_f64_to_f32(from, n, to);
    }
}

cero_status cero_safetensors_read_f32(cero_safetensors *file, const cero_safetensors_tensor *tensor,
                                      int64_t begin, int64_t numel, float *out)
{
    char name[CERO_SAFETENSORS_QUOTE];
    int64_t size = cero_safetensors_dtype_bits(tensor->dtype) / 8;

    CERO_CHECK(cero_safetensors_dtype_is_real(tensor->dtype), CERO_ERR_UNSUPPORTED,
               "%s: tensor %s is stored as %s; F32, BF16, F16 and F64 can be read as real numbers",
               file->path, cero_safetensors_quote(tensor->name, name, sizeof(name)),
               cero_safetensors_dtype_name(tensor->dtype));
    CERO_TRY(check_range(file, tensor, begin, numel, tensor->numel));
    int64_t offset = file->data_offset + tensor->begin + begin * size;
    if (tensor->dtype == CERO_SAFETENSORS_F32) {
        return read_at(file, offset, (size_t)numel * sizeof(float), out);
    }
    for (int64_t done = 0; done < numel;) {
        int64_t n = CERO_SAFETENSORS_STAGING / size;
        n = n < numel - done ? n : numel - done;
        CERO_TRY(read_at(file, offset + done * size, (size_t)(n * size), file->staging));
        convert(tensor->dtype, file->staging, n, out + done);
        done += n;
    }
    return CERO_OK;
}

cero_status cero_safetensors_read_raw(cero_safetensors *file, const cero_safetensors_tensor *tensor,
                                      int64_t begin, int64_t nbytes, void *out)
{
    CERO_TRY(check_range(file, tensor, begin, nbytes, tensor->end - tensor->begin));
    return read_at(file, file->data_offset + tensor->begin + begin, (size_t)nbytes, out);
}

cero_status cero_safetensors_hash(cero_safetensors *file, const cero_safetensors_tensor *tensor,
                                  uint64_t *hash)
{
    cero_status st = CERO_OK;
    int64_t nbytes = tensor->end - tensor->begin;
    XXH3_state_t *state = XXH3_createState();

    if (state == NULL || XXH3_64bits_reset(state) != XXH_OK) {
        CERO_FAIL_GOTO(out, CERO_ERR_NOMEM, "no memory to hash %s", file->path);
    }
    for (int64_t done = 0; done < nbytes;) {
        int64_t n =
            nbytes - done < CERO_SAFETENSORS_STAGING ? nbytes - done : CERO_SAFETENSORS_STAGING;
        CERO_TRY_GOTO(
            read_at(file, file->data_offset + tensor->begin + done, (size_t)n, file->staging), out);
        (void)XXH3_64bits_update(state, file->staging, (size_t)n);
        done += n;
    }
    *hash = XXH3_64bits_digest(state);

out:
    (void)XXH3_freeState(state);
    return st;
}
