/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What one rank's file will hold, and where: ranges by tensor and element, one after the other behind the header.
 *
 * The header is made from the ranges alone and read by the reader of safetensors files before anything is written;
 * the checkpoint's id, which is not known yet, has its room. Writing is in rank_file_write.c, what other ranks are
 * told in rank_file_pack.c.
 */
#include "ckpt/checkpoint/rank_file_impl.h"

#include "base/memory.h"
#include "ckpt/checkpoint/manifest_impl.h"
#include "ckpt/safetensors_impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *cero_rank_file_name(int rank, char text[CERO_MANIFEST_MAX_FILE_NAME])
{
    (void)snprintf(text, CERO_MANIFEST_MAX_FILE_NAME, "rank-%05d.safetensors", rank);
    return text;
}

int64_t cero_rank_file_bytes(const cero_rank_file *file)
{
    return file->header_nbytes + file->data_nbytes;
}

int64_t cero_rank_file_data_bytes(const cero_rank_file *file)
{
    return file->data_nbytes;
}

int64_t cero_rank_file_data_offset(const cero_rank_file *file, int64_t range)
{
    return file->offsets[range];
}

int64_t cero_rank_file_part_bytes(const cero_rank_file *file)
{
    int64_t blocks = CERO_RANK_FILE_PART / file->block_nbytes;

    return (blocks > 0 ? blocks : 1) * file->block_nbytes;
}

/* Elements of a tensor whose bytes can be counted; false otherwise. */
static bool count_elements(const cero_shape *shape, int64_t *numel)
{
    int64_t nbytes;
    bool fits = shape->ndim >= 0 && shape->ndim <= CERO_MAX_NDIM;

    *numel = 1;
    for (int i = 0; fits && i < shape->ndim; i++) {
        fits = cero_mul_i64(*numel, shape->dim[i], numel);
    }
    return fits && cero_mul_i64(*numel, (int64_t)sizeof(float), &nbytes);
}

static cero_status check_range(const cero_rank_file_params *params, int64_t i)
{
    const cero_rank_file_range *r = &params->ranges[i];
    char name[CERO_SAFETENSORS_QUOTE];
    int64_t numel = 0;

    CERO_CHECK(r->tensor >= 0 && r->tensor < params->tensor_count, CERO_ERR_INVALID,
               "range %lld of rank %d is of tensor %lld of %lld", (long long)i, params->rank,
               (long long)r->tensor, (long long)params->tensor_count);
    const cero_rank_file_tensor *t = &params->tensors[r->tensor];
    (void)cero_safetensors_quote(t->name, name, sizeof(name));
    CERO_CHECK(count_elements(&t->shape, &numel), CERO_ERR_INVALID,
               "tensor %s has a shape that no file can hold", name);
    CERO_CHECK(r->begin >= 0 && r->begin < r->end && r->end <= numel, CERO_ERR_INVALID,
               "rank %d cannot write elements %lld to %lld of tensor %s, which has %lld",
               params->rank, (long long)r->begin, (long long)r->end, name, (long long)numel);
    return CERO_OK;
}

static int compare_entries(const void *left, const void *right)
{
    const cero_rank_file_entry *a = left;
    const cero_rank_file_entry *b = right;

    if (a->range.tensor != b->range.tensor) {
        return a->range.tensor < b->range.tensor ? -1 : 1;
    }
    return a->range.begin < b->range.begin ? -1 : a->range.begin > b->range.begin;
}

static cero_status place_entries(cero_rank_file *file)
{
    char name[CERO_SAFETENSORS_QUOTE];

    for (int64_t i = 0; i < file->count; i++) {
        cero_rank_file_entry *e = &file->entries[i];
        bool follows = i > 0 && e[-1].range.tensor == e->range.tensor;
        CERO_CHECK(!follows || e[-1].range.end <= e->range.begin, CERO_ERR_INVALID,
                   "rank %d would write elements %lld to %lld of tensor %s twice", file->rank,
                   (long long)e->range.begin, (long long)e[-1].range.end,
                   cero_safetensors_quote(e->name, name, sizeof(name)));
        e->offset = file->data_nbytes;
        e->nbytes = (e->range.end - e->range.begin) * (int64_t)sizeof(float);
        e->block = file->block_count;
        file->block_count += e->nbytes / file->block_nbytes + (e->nbytes % file->block_nbytes != 0);
        CERO_CHECK(!__builtin_add_overflow(file->data_nbytes, e->nbytes, &file->data_nbytes),
                   CERO_ERR_INVALID, "the file of rank %d would be larger than 2^63 bytes",
                   file->rank);
        file->offsets[e->index] = e->offset;
    }
    return CERO_OK;
}

static cero_status plan_entries(const cero_rank_file_params *params, cero_rank_file *file)
{
    file->entries = cero_new((size_t)params->range_count + 1, sizeof(file->entries[0]));
    file->offsets = cero_new((size_t)params->range_count + 1, sizeof(file->offsets[0]));
    CERO_CHECK(file->entries != NULL && file->offsets != NULL, CERO_ERR_NOMEM,
               "no memory to plan %lld ranges of rank %d", (long long)params->range_count,
               params->rank);
    for (int64_t i = 0; i < params->range_count; i++) {
        CERO_TRY(check_range(params, i));
        file->entries[i] =
            (cero_rank_file_entry){.range = params->ranges[i],
                                   .name = params->tensors[params->ranges[i].tensor].name,
                                   .index = i};
    }
    file->count = params->range_count;
    qsort(file->entries, (size_t)file->count, sizeof(file->entries[0]), compare_entries);
    CERO_TRY(place_entries(file));
    file->hashes = cero_new((size_t)file->block_count + 1, sizeof(file->hashes[0]));
    CERO_CHECK(file->hashes != NULL, CERO_ERR_NOMEM, "no memory for %lld hashes of rank %d",
               (long long)file->block_count, file->rank);
    return CERO_OK;
}

/* The name in the file: that of a whole tensor, or of the part. */
static void entry_name(const cero_rank_file *file, const cero_rank_file_entry *e, bool *is_whole,
                       cero_text *out)
{
    *is_whole = e->range.begin == 0 &&
                e->range.end == cero_shape_numel(&file->tensors[e->range.tensor].shape);
    cero_text_printf(out, "%s", e->name);
    if (!*is_whole) {
        cero_text_printf(out, "[%lld:%lld]", (long long)e->range.begin, (long long)e->range.end);
    }
}

static cero_status append_entry(const cero_rank_file *file, const cero_rank_file_entry *e,
                                cero_text *out)
{
    const cero_shape *shape = &file->tensors[e->range.tensor].shape;
    cero_text name = {0};
    bool is_whole;

    entry_name(file, e, &is_whole, &name);
    cero_status st = cero_text_finish(&name);
    if (st == CERO_OK) {
        cero_text_append_json_string(out, name.data, name.length);
    }
    cero_text_cleanup(&name);
    cero_text_printf(out, ":{\"dtype\":\"F32\",\"shape\":[");
    if (!is_whole) {
        cero_text_printf(out, "%lld", (long long)(e->range.end - e->range.begin));
    }
    for (int i = 0; is_whole && i < shape->ndim; i++) {
        cero_text_printf(out, "%s%lld", i > 0 ? "," : "", (long long)shape->dim[i]);
    }
    cero_text_printf(out, "],\"data_offsets\":[%lld,%lld]}", (long long)e->offset,
                     (long long)(e->offset + e->nbytes));
    return st;
}

/* Eight bytes of length, then JSON, then spaces up to `nbytes`, or to the next aligned place when that is 0. */
static cero_status make_header(const cero_rank_file *file, const char *id, int64_t nbytes,
                               cero_text *out)
{
    uint64_t length = 0;

    cero_text_append(out, (const char *)&length, sizeof(length));
    cero_text_printf(out, "{\"__metadata__\":{\"format\":\"%s\",\"id\":\"%s\",\"rank\":\"%d\"}",
                     CERO_MANIFEST_FORMAT, id, file->rank);
    for (int64_t i = 0; i < file->count && !out->has_failed; i++) {
        cero_text_append(out, ",", 1);
        CERO_TRY(append_entry(file, &file->entries[i], out));
    }
    cero_text_append(out, "}", 1);
    while (!out->has_failed && (nbytes > 0 ? (int64_t)out->length < nbytes
                                           : out->length % CERO_RANK_FILE_ALIGNMENT != 0)) {
        cero_text_append(out, " ", 1);
    }
    CERO_TRY(cero_text_finish(out));
    length = out->length - sizeof(length);
    memcpy(out->data, &length, sizeof(length));
    CERO_CHECK(length <= CERO_SAFETENSORS_MAX_HEADER, CERO_ERR_INVALID,
               "the header of the %lld ranges of rank %d has %llu bytes, the limit of the format "
               "is %d",
               (long long)file->count, file->rank, (unsigned long long)length,
               CERO_SAFETENSORS_MAX_HEADER);
    return CERO_OK;
}

cero_status cero_rank_file_header(const cero_rank_file *file, const char *id, cero_text *out)
{
    CERO_CHECK(cero_manifest_is_id(id), CERO_ERR_INVALID,
               "a checkpoint cannot have the id \"%.40s\": 1 to 32 lower-case hexadecimal digits",
               id);
    return make_header(file, id, file->header_nbytes, out);
}

/* Every range is found in the header under its name, and where it was placed. */
static cero_status check_names(const cero_rank_file *file, const char *path,
                               const cero_safetensors_header *header)
{
    for (int64_t i = 0; i < file->count; i++) {
        const cero_rank_file_entry *e = &file->entries[i];
        char quoted[CERO_SAFETENSORS_QUOTE];
        cero_text name = {0};
        bool is_whole;
        entry_name(file, e, &is_whole, &name);
        cero_status st = cero_text_finish(&name);
        const cero_safetensors_tensor *t =
            st == CERO_OK ? cero_safetensors_header_find(header, name.data) : NULL;
        cero_text_cleanup(&name);
        CERO_TRY(st);
        CERO_CHECK(t != NULL && t->begin == e->offset, CERO_ERR_INVALID,
                   "%s cannot hold tensor %s: its name is not UTF-8", path,
                   cero_safetensors_quote(e->name, quoted, sizeof(quoted)));
    }
    return CERO_OK;
}

static cero_status plan_header(cero_rank_file *file)
{
    char id[CERO_MANIFEST_ID];
    char path[CERO_MANIFEST_MAX_FILE_NAME];
    cero_safetensors_header header;
    cero_text text = {0};

    memset(id, '0', sizeof(id) - 1);
    id[sizeof(id) - 1] = '\0';
    (void)cero_rank_file_name(file->rank, path);
    cero_status st = make_header(file, id, 0, &text);
    file->header_nbytes = (int64_t)text.length;
    if (st == CERO_OK) {
        st = cero_safetensors_header_parse(path, text.data + 8, text.length - 8, &header);
        if (st == CERO_ERR_CORRUPT) {
            st = CERO_FAIL(CERO_ERR_INVALID, "this file could not be read again: %s",
                           cero_error_message());
        }
    }
    cero_text_cleanup(&text);
    CERO_TRY(st);
    st = check_names(file, path, &header);
    cero_safetensors_header_cleanup(&header);
    return st;
}

cero_status cero_rank_file_create(const cero_rank_file_params *params, cero_rank_file **out)
{
    cero_status st = CERO_OK;
    int64_t block_nbytes = params->block_nbytes == 0 ? CERO_MANIFEST_BLOCK : params->block_nbytes;
    cero_rank_file *file;

    CERO_CHECK(block_nbytes > 0 && block_nbytes <= CERO_MANIFEST_MAX_BLOCK &&
                   block_nbytes % (int64_t)sizeof(float) == 0,
               CERO_ERR_INVALID, "blocks of %lld bytes, expected a multiple of 4 up to %d",
               (long long)block_nbytes, CERO_MANIFEST_MAX_BLOCK);
    CERO_CHECK(params->rank >= 0 && params->range_count >= 0, CERO_ERR_INVALID,
               "a file of rank %d with %lld ranges", params->rank, (long long)params->range_count);
    file = cero_new(1, sizeof(*file));
    if (file == NULL) {
        return CERO_FAIL(CERO_ERR_NOMEM, "no memory to plan the file of rank %d", params->rank);
    }
    file->tensors = params->tensors;
    file->tensor_count = params->tensor_count;
    file->block_nbytes = block_nbytes;
    file->rank = params->rank;
    CERO_TRY_GOTO(plan_entries(params, file), fail);
    CERO_TRY_GOTO(plan_header(file), fail);
    *out = file;
    return CERO_OK;

fail:
    cero_rank_file_destroy(&file);
    return st;
}

void cero_rank_file_destroy(cero_rank_file **file)
{
    if (file == NULL || *file == NULL) {
        return;
    }
    cero_delete((*file)->entries);
    cero_delete((*file)->offsets);
    cero_delete((*file)->hashes);
    cero_delete(*file);
    *file = NULL;
}
