/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The header of a rank's file against the manifest: its hash, whose file it says it is, and where its tensors lie.
 *
 * A file of another rank or step is as sound as the right one: it is told apart by the checkpoint's id and the rank
 * in its metadata, and named as what it is.
 */
#include "ckpt/checkpoint/reader_impl.h"

#include "base/io.h"
#include "base/memory.h"
#include "ckpt/checkpoint/rank_file.h"
#include "ckpt/safetensors_impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    LENGTH_SIZE = 8 /* before the JSON of a header */
};

static const char *name_of(const cero_reader *reader, int64_t file)
{
    return reader->manifest.files[file].name;
}

/* The header's JSON of a file of `length` bytes, as a document; false when there is none. */
static bool read_foreign_header(const char *path, int fd, int64_t length,
                                cero_safetensors_header *out)
{
    uint64_t nbytes = 0;

    if (length < LENGTH_SIZE || cero_io_pread(fd, &nbytes, LENGTH_SIZE, 0) != LENGTH_SIZE ||
        nbytes > CERO_SAFETENSORS_MAX_HEADER || (int64_t)nbytes > length - LENGTH_SIZE) {
        return false;
    }
    char *json = cero_new((size_t)nbytes + 1, 1);
    bool is_read = json != NULL &&
                   cero_io_pread(fd, json, (size_t)nbytes, LENGTH_SIZE) == (ssize_t)nbytes &&
                   cero_safetensors_header_parse(path, json, (size_t)nbytes, out) == CERO_OK;
    cero_delete(json);
    return is_read;
}

static const char *metadata_of(const cero_safetensors_header *header, const char *key)
{
    const cero_json *value =
        header->metadata == NULL ? NULL : cero_json_find(header->metadata, key);

    return value == NULL || value->type != CERO_JSON_STRING ? NULL : value->text;
}

/* Whether a header is of another checkpoint or rank than the manifest's file; then `out` says of which. */
static bool is_foreign_header(const cero_reader *reader, int64_t file,
                              const cero_safetensors_header *header, cero_text *out)
{
    const char *id = metadata_of(header, "id");
    const char *rank = metadata_of(header, "rank");
    char name[CERO_MANIFEST_MAX_FILE_NAME];

    if (id == NULL || rank == NULL) {
        return false;
    }
    (void)cero_rank_file_name((int)strtol(rank, NULL, 10), name);
    if (strcmp(id, reader->manifest.id) == 0 && strcmp(name, name_of(reader, file)) == 0) {
        return false;
    }
    cero_text_printf(out, " says that it is of checkpoint %.32s, rank %.10s, not of %s", id, rank,
                     reader->manifest.id);
    return true;
}

bool cero_reader_file_owner(const cero_reader *reader, int64_t file, int fd, int64_t length,
                            cero_text *out)
{
    cero_safetensors_header header = {0};

    if (!read_foreign_header(name_of(reader, file), fd, length, &header)) {
        return false;
    }
    bool is_foreign = is_foreign_header(reader, file, &header, out);
    cero_safetensors_header_cleanup(&header);
    return is_foreign;
}

cero_status cero_reader_file_fail(const cero_reader *reader, int64_t file, const char *owner)
{
    return CERO_FAIL(CERO_ERR_CORRUPT, "%s/%s%s: put the right file back or use another checkpoint",
                     reader->path, name_of(reader, file), owner);
}

/* The header's bytes do not have their hash: of another file, or damaged. */
static cero_status fail_hash(const cero_reader *reader, int64_t file, uint64_t found,
                             bool *is_foreign)
{
    const cero_manifest_file *f = &reader->manifest.files[file];
    cero_text owner = {0};

    *is_foreign = cero_reader_file_owner(reader, file, reader->fds[file], f->nbytes, &owner);
    cero_status st =
        *is_foreign
            ? cero_reader_file_fail(reader, file, owner.data)
            : CERO_FAIL(CERO_ERR_CORRUPT,
                        "%s/%s: the header (bytes 0 .. %lld of the file) has the hash %016llx, the "
                        "manifest says %016llx; the file is damaged: restore it or use another "
                        "checkpoint",
                        reader->path, f->name, (long long)f->header_nbytes,
                        (unsigned long long)found, (unsigned long long)f->header_hash);
    cero_text_cleanup(&owner);
    return st;
}

/* What the file calls a range: the tensor, or "<name>[begin:end]" for a part of it. */
static cero_status range_name(const cero_manifest_tensor *tensor, const cero_manifest_range *range,
                              cero_text *out)
{
    out->length = 0;
    cero_text_printf(out, "%s", tensor->name);
    if (range->begin != 0 || range->end != tensor->numel) {
        cero_text_printf(out, "[%lld:%lld]", (long long)range->begin, (long long)range->end);
    }
    return cero_text_finish(out);
}

static cero_status check_tensor(const cero_reader *reader, int64_t file,
                                const cero_reader_place *place, const cero_safetensors_tensor *t,
                                cero_text *expected)
{
    const cero_manifest_file *f = &reader->manifest.files[file];
    const cero_manifest_tensor *tensor = &reader->manifest.tensors[place->tensor];
    const cero_manifest_range *range = &tensor->ranges[place->range];
    char names[2][CERO_SAFETENSORS_QUOTE];
    bool is_whole = range->begin == 0 && range->end == tensor->numel;

    CERO_TRY(range_name(tensor, range, expected));
    bool is_same = strcmp(t->name, expected->data) == 0 &&
                   t->dtype == cero_safetensors_dtype_of(tensor->dtype) &&
                   f->header_nbytes + t->begin == range->offset &&
                   t->numel == range->end - range->begin &&
                   (is_whole ? cero_safetensors_shape_equal(t, &tensor->shape) : t->ndim == 1);
    return is_same ? CERO_OK
                   : CERO_FAIL(CERO_ERR_CORRUPT,
                               "%s/%s: its header has tensor %s of %lld elements at byte %lld, the "
                               "manifest %s of %lld at byte %lld; they are not of one checkpoint: "
                               "use another",
                               reader->path, f->name,
                               cero_safetensors_quote(t->name, names[0], sizeof(names[0])),
                               (long long)t->numel, (long long)(f->header_nbytes + t->begin),
                               cero_safetensors_quote(expected->data, names[1], sizeof(names[1])),
                               (long long)(range->end - range->begin), (long long)range->offset);
}

/* Both lists are in the order of the file, and the header's has no hole. */
static cero_status check_tensors(cero_reader *reader, int64_t file,
                                 const cero_safetensors_header *header)
{
    cero_status st = CERO_OK;
    const cero_manifest_file *f = &reader->manifest.files[file];
    cero_text expected = {0};

    CERO_TRY(cero_reader_places(reader));
    int64_t first = cero_reader_first_place(reader, file);
    int64_t count = cero_reader_first_place(reader, file + 1) - first;
    if (count != header->count || header->data_bytes != f->nbytes - f->header_nbytes) {
        CERO_FAIL_GOTO(out, CERO_ERR_CORRUPT,
                       "%s/%s: its header has %lld tensors in %lld bytes, the manifest %lld in "
                       "%lld; they are not of one checkpoint: use another",
                       reader->path, f->name, (long long)header->count,
                       (long long)header->data_bytes, (long long)count,
                       (long long)(f->nbytes - f->header_nbytes));
    }
    for (int64_t i = 0; i < count; i++) {
        CERO_TRY_GOTO(
            check_tensor(reader, file, &reader->places[first + i], &header->tensor[i], &expected),
            out);
    }

out:
    cero_text_cleanup(&expected);
    return st;
}

/* Bytes that have their hash: they say what the manifest says. */
static cero_status check_contents(cero_reader *reader, int64_t file, const char *bytes,
                                  bool *is_foreign)
{
    cero_status st = CERO_OK;
    const cero_manifest_file *f = &reader->manifest.files[file];
    cero_safetensors_header header = {0};
    cero_text path = {0};
    cero_text owner = {0};
    uint64_t nbytes;

    cero_text_printf(&path, "%s/%s", reader->path, f->name);
    CERO_TRY_GOTO(cero_text_finish(&path), out);
    memcpy(&nbytes, bytes, sizeof(nbytes));
    if (nbytes != (uint64_t)f->header_nbytes - LENGTH_SIZE) {
        CERO_FAIL_GOTO(out, CERO_ERR_CORRUPT,
                       "%s: its header has %llu bytes after the first 8, the manifest says %lld; "
                       "they are not of one checkpoint: use another",
                       path.data, (unsigned long long)nbytes,
                       (long long)f->header_nbytes - LENGTH_SIZE);
    }
    CERO_TRY_GOTO(
        cero_safetensors_header_parse(path.data, bytes + LENGTH_SIZE, (size_t)nbytes, &header),
        out);
    *is_foreign = is_foreign_header(reader, file, &header, &owner);
    if (*is_foreign) {
        st = cero_reader_file_fail(reader, file, owner.data);
        goto out;
    }
    CERO_TRY_GOTO(check_tensors(reader, file, &header), out);

out:
    cero_safetensors_header_cleanup(&header);
    cero_text_cleanup(&owner);
    cero_text_cleanup(&path);
    return st;
}

cero_status cero_reader_file_check(cero_reader *reader, int64_t file, bool *is_foreign)
{
    cero_status st = CERO_OK;
    const cero_manifest_file *f = &reader->manifest.files[file];
    uint64_t found;
    int fd;

    *is_foreign = false;
    CERO_TRY(cero_reader_file_open(reader, file, &fd));
    CERO_CHECK(f->header_nbytes >= LENGTH_SIZE && f->header_nbytes <= f->nbytes, CERO_ERR_CORRUPT,
               "%s: the manifest says that %s has a header of %lld bytes of %lld; use another "
               "checkpoint",
               reader->path, f->name, (long long)f->header_nbytes, (long long)f->nbytes);
    char *bytes = cero_new((size_t)f->header_nbytes, 1);
    CERO_CHECK(bytes != NULL, CERO_ERR_NOMEM, "no memory for the header of %s/%s, %lld bytes",
               reader->path, f->name, (long long)f->header_nbytes);
    (void)XXH3_64bits_reset(reader->hash);
    CERO_TRY_GOTO(cero_reader_file_read(reader, file, 0, f->header_nbytes, bytes), out);
    found = XXH3_64bits_digest(reader->hash);
    st = found == f->header_hash ? check_contents(reader, file, bytes, is_foreign)
                                 : fail_hash(reader, file, found, is_foreign);

out:
    cero_delete(bytes);
    return st;
}

cero_status cero_reader_check_file(cero_reader *reader, int64_t file)
{
    bool is_foreign;

    CERO_CHECK(file >= 0 && file < reader->manifest.file_count, CERO_ERR_INVALID,
               "%s has %lld files, number %lld was asked for", reader->path,
               (long long)reader->manifest.file_count, (long long)file);
    return cero_reader_file_check(reader, file, &is_foreign);
}
