/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading a checkpoint's tensors by range.
 *
 * A block that is wanted as a whole is read into the caller's memory and hashed there, piece by piece while it is in
 * the cache; of one that is wanted in part the whole is read into a block of the reader's own, which is kept, so
 * that requests that follow each other read every byte once. Files and their headers are in reader_file.c.
 */
#include "ckpt/checkpoint/reader_impl.h"

#include "base/memory.h"
#include "ckpt/safetensors.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static cero_status create(const char *path, cero_reader **out)
{
    cero_reader *reader = cero_new(1, sizeof(*reader));

    CERO_CHECK(reader != NULL, CERO_ERR_NOMEM, "no memory to open checkpoint %s", path);
    reader->path = cero_strdup(path);
    reader->hash = XXH3_createState();
    if (reader->path == NULL || reader->hash == NULL) {
        cero_reader_close(&reader);
        return CERO_FAIL(CERO_ERR_NOMEM, "no memory to open checkpoint %s", path);
    }
    *out = reader;
    return CERO_OK;
}

/* After the manifest. */
static cero_status prepare(cero_reader *reader)
{
    int64_t count = reader->manifest.file_count;

    reader->fds = cero_new((size_t)count, sizeof(reader->fds[0]));
    CERO_CHECK(reader->fds != NULL, CERO_ERR_NOMEM, "no memory for the %lld files of %s",
               (long long)count, reader->path);
    for (int64_t i = 0; i < count; i++) {
        reader->fds[i] = -1;
    }
    return CERO_OK;
}

cero_status cero_reader_open(const char *path, cero_reader **out)
{
    cero_status st = CERO_OK;
    cero_reader *reader = NULL;

    CERO_TRY_GOTO(create(path, &reader), fail);
    CERO_TRY_GOTO(cero_manifest_read(path, &reader->manifest), fail);
    CERO_TRY_GOTO(prepare(reader), fail);
    *out = reader;
    return CERO_OK;

fail:
    cero_reader_close(&reader);
    return st;
}

cero_status cero_reader_open_manifest(const char *path, const char *bytes, size_t length,
                                      cero_reader **out)
{
    cero_status st = CERO_OK;
    cero_reader *reader = NULL;
    cero_text name = {0};

    cero_text_printf(&name, "%s/%s", path, CERO_MANIFEST_NAME);
    CERO_TRY_GOTO(cero_text_finish(&name), fail);
    CERO_TRY_GOTO(create(path, &reader), fail);
    CERO_TRY_GOTO(cero_manifest_parse(name.data, bytes, length, &reader->manifest), fail);
    CERO_TRY_GOTO(prepare(reader), fail);
    cero_text_cleanup(&name);
    *out = reader;
    return CERO_OK;

fail:
    cero_text_cleanup(&name);
    cero_reader_close(&reader);
    return st;
}

void cero_reader_close(cero_reader **reader)
{
    cero_reader *r = reader == NULL ? NULL : *reader;

    if (r == NULL) {
        return;
    }
    for (int64_t i = 0; r->fds != NULL && i < r->manifest.file_count; i++) {
        if (r->fds[i] >= 0) {
            (void)close(r->fds[i]);
        }
    }
    cero_manifest_cleanup(&r->manifest);
    (void)XXH3_freeState(r->hash);
    cero_delete(r->places);
    cero_delete(r->block);
    cero_delete(r->fds);
    cero_delete(r->path);
    cero_delete(r);
    *reader = NULL;
}

const cero_manifest *cero_reader_manifest(const cero_reader *reader)
{
    return &reader->manifest;
}

const char *cero_reader_path(const cero_reader *reader)
{
    return reader->path;
}

int64_t cero_reader_bytes_read(const cero_reader *reader)
{
    return reader->bytes_read;
}

static int64_t element_bytes(const cero_reader *reader, int64_t tensor)
{
    return (int64_t)cero_dtype_size(reader->manifest.tensors[tensor].dtype);
}

cero_reader_block cero_reader_block_at(const cero_reader *reader, int64_t tensor,
                                       const cero_manifest_range *range, int64_t index)
{
    int64_t size = reader->manifest.block_nbytes;
    int64_t nbytes = (range->end - range->begin) * element_bytes(reader, tensor);

    return (cero_reader_block){.tensor = tensor,
                               .range = range,
                               .index = index,
                               .begin = index * size,
                               .end = least((index + 1) * size, nbytes)};
}

cero_status cero_reader_block_room(cero_reader *reader, int64_t nbytes)
{
    if (nbytes <= reader->block_capacity) {
        return CERO_OK;
    }
    reader->kept = NULL;
    char *grown = cero_renew(reader->block, (size_t)nbytes, 1);
    CERO_CHECK(grown != NULL, CERO_ERR_NOMEM, "no memory for a block of %lld bytes of %s",
               (long long)nbytes, reader->path);
    reader->block = grown;
    reader->block_capacity = nbytes;
    return CERO_OK;
}

cero_status cero_reader_block_read(cero_reader *reader, const cero_reader_block *block, char *out,
                                   uint64_t *found)
{
    (void)XXH3_64bits_reset(reader->hash);
    CERO_TRY(cero_reader_file_read(reader, block->range->file, block->range->offset + block->begin,
                                   block->end - block->begin, out));
    *found = XXH3_64bits_digest(reader->hash);
    return CERO_OK;
}

cero_status cero_reader_block_fail(cero_reader *reader, const cero_reader_block *block,
                                   uint64_t found)
{
    const cero_manifest_tensor *t = &reader->manifest.tensors[block->tensor];
    const cero_manifest_range *r = block->range;
    int64_t size = element_bytes(reader, block->tensor);
    const cero_manifest_file *f = &reader->manifest.files[r->file];
    char name[CERO_SAFETENSORS_QUOTE];
    cero_text owner = {0};

    cero_status st =
        cero_reader_file_owner(reader, r->file, reader->fds[r->file], f->nbytes, &owner)
            ? cero_reader_file_fail(reader, r->file, owner.data)
            : CERO_FAIL(CERO_ERR_CORRUPT,
                        "%s/%s: tensor %s, elements %lld .. %lld (bytes %lld .. %lld of the file): "
                        "its hash is %016llx, the manifest says %016llx; the file is damaged: "
                        "restore it or use another checkpoint",
                        reader->path, f->name, cero_safetensors_quote(t->name, name, sizeof(name)),
                        (long long)(r->begin + block->begin / size),
                        (long long)(r->begin + (block->end + size - 1) / size),
                        (long long)(r->offset + block->begin), (long long)(r->offset + block->end),
                        (unsigned long long)found, (unsigned long long)r->hashes[block->index]);
    cero_text_cleanup(&owner);
    return st;
}

/* A block into `out`; an error unless it is what the manifest says. */
static cero_status read_whole(cero_reader *reader, const cero_reader_block *block, char *out)
{
    uint64_t found = 0;

    CERO_TRY(cero_reader_block_read(reader, block, out, &found));
    return found == block->range->hashes[block->index]
               ? CERO_OK
               : cero_reader_block_fail(reader, block, found);
}

cero_status cero_reader_block_keep(cero_reader *reader, const cero_reader_block *block)
{
    if (reader->kept == block->range && reader->kept_block == block->index) {
        return CERO_OK;
    }
    int fd;
    // A file of the right length is there before its manifest is trusted with memory.
    CERO_TRY(cero_reader_file_open(reader, block->range->file, &fd));
    CERO_TRY(cero_reader_block_room(reader, block->end - block->begin));
    reader->kept = NULL;
    CERO_TRY(read_whole(reader, block, reader->block));
    reader->kept = block->range;
    reader->kept_block = block->index;
    return CERO_OK;
}

/* Bytes begin .. end of a range. */
static cero_status read_range(cero_reader *reader, int64_t tensor, const cero_manifest_range *range,
                              int64_t begin, int64_t end, char *out)
{
    for (int64_t at = begin; at < end;) {
        cero_reader_block b =
            cero_reader_block_at(reader, tensor, range, at / reader->manifest.block_nbytes);
        bool is_kept = reader->kept == range && reader->kept_block == b.index;
        int64_t stop = least(b.end, end);
        if (b.begin >= begin && b.end <= end && !is_kept) {
            CERO_TRY(read_whole(reader, &b, out + (at - begin)));
        } else {
            CERO_TRY(cero_reader_block_keep(reader, &b));
            memcpy(out + (at - begin), reader->block + (at - b.begin), (size_t)(stop - at));
        }
        at = stop;
    }
    return CERO_OK;
}

/* The range that holds an element; ranges lie by begin, without holes. */
static int64_t find_range(const cero_manifest_tensor *tensor, int64_t element)
{
    int64_t first = 0;
    int64_t last = tensor->range_count - 1;

    while (first < last) {
        int64_t middle = first + (last - first) / 2;
        if (tensor->ranges[middle].end > element) {
            last = middle;
        } else {
            first = middle + 1;
        }
    }
    return first;
}

cero_status cero_reader_read(cero_reader *reader, int64_t tensor, int64_t begin, int64_t n,
                             float *out)
{
    const cero_manifest *m = &reader->manifest;

    CERO_CHECK(tensor >= 0 && tensor < m->tensor_count, CERO_ERR_INVALID,
               "%s has %lld tensors, number %lld was asked for", reader->path,
               (long long)m->tensor_count, (long long)tensor);
    const cero_manifest_tensor *t = &m->tensors[tensor];
    CERO_CHECK(t->dtype == CERO_DTYPE_F32, CERO_ERR_UNSUPPORTED,
               "%s: tensor %s is stored as %s; f32 can be read", reader->path, t->name,
               cero_dtype_name(t->dtype));
    CERO_CHECK(begin >= 0 && n >= 0 && begin <= t->numel && n <= t->numel - begin, CERO_ERR_INVALID,
               "%s: %lld elements from %lld on asked of tensor %s, which has %lld", reader->path,
               (long long)n, (long long)begin, t->name, (long long)t->numel);
    if (n == 0) {
        return CERO_OK;
    }
    int64_t size = element_bytes(reader, tensor);
    for (int64_t i = find_range(t, begin), at = begin; at < begin + n; i++) {
        const cero_manifest_range *r = &t->ranges[i];
        int64_t stop = least(r->end, begin + n);
        CERO_TRY(read_range(reader, tensor, r, (at - r->begin) * size, (stop - r->begin) * size,
                            (char *)out + (at - begin) * size));
        at = stop;
    }
    return CERO_OK;
}

static int compare_places(const void *a, const void *b)
{
    const cero_reader_place *x = a;
    const cero_reader_place *y = b;

    if (x->file != y->file) {
        return x->file < y->file ? -1 : 1;
    }
    return x->offset < y->offset ? -1 : x->offset > y->offset ? 1 : 0;
}

cero_status cero_reader_places(cero_reader *reader)
{
    const cero_manifest *m = &reader->manifest;
    int64_t count = 0;

    if (reader->places != NULL) {
        return CERO_OK;
    }
    for (int64_t t = 0; t < m->tensor_count; t++) {
        count += m->tensors[t].range_count;
    }
    reader->places = cero_new((size_t)count, sizeof(reader->places[0]));
    CERO_CHECK(reader->places != NULL, CERO_ERR_NOMEM, "no memory for the %lld ranges of %s",
               (long long)count, reader->path);
    for (int64_t t = 0; t < m->tensor_count; t++) {
        for (int64_t r = 0; r < m->tensors[t].range_count; r++) {
            const cero_manifest_range *range = &m->tensors[t].ranges[r];
            reader->places[reader->place_count++] = (cero_reader_place){
                .file = range->file, .offset = range->offset, .tensor = t, .range = r};
        }
    }
    qsort(reader->places, (size_t)count, sizeof(reader->places[0]), compare_places);
    return CERO_OK;
}

int64_t cero_reader_first_place(const cero_reader *reader, int64_t file)
{
    int64_t first = 0;
    int64_t last = reader->place_count;

    while (first < last) {
        int64_t middle = first + (last - first) / 2;
        if (reader->places[middle].file >= file) {
            last = middle;
        } else {
            first = middle + 1;
        }
    }
    return first;
}
