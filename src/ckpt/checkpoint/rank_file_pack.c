/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What ranks tell each other of their files, and the manifest that it makes.
 *
 * A pack is a row of 64-bit words under a hash: a head, then each range with its hashes. It goes from process to
 * process of one job, never to a file, so the order of bytes is the machine's.
 */
#include "ckpt/checkpoint/rank_file_impl.h"

#include "base/memory.h"
#include "ckpt/checkpoint/manifest_impl.h"
#include "ckpt/safetensors.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#define MAGIC UINT64_C(0x31656c69666b6e72)

/* Words before the ranges, and of a range before its hashes. */
enum {
    HEAD = 8,
    RANGE = 4
};

static void put(cero_text *out, uint64_t word)
{
    cero_text_append(out, (const char *)&word, sizeof(word));
}

cero_status cero_rank_file_pack(const cero_rank_file *file, cero_text *out)
{
    cero_text text = {0};

    CERO_CHECK(file->is_written, CERO_ERR_INVALID, "the file of rank %d has not been written",
               file->rank);
    put(&text, MAGIC);
    put(&text, (uint64_t)file->rank);
    put(&text, (uint64_t)file->block_nbytes);
    put(&text, (uint64_t)file->tensor_count);
    put(&text, (uint64_t)cero_rank_file_bytes(file));
    put(&text, (uint64_t)file->header_nbytes);
    put(&text, file->header_hash);
    put(&text, (uint64_t)file->count);
    for (int64_t i = 0; i < file->count; i++) {
        const cero_rank_file_entry *e = &file->entries[i];
        int64_t end = i + 1 < file->count ? e[1].block : file->block_count;
        put(&text, (uint64_t)e->range.tensor);
        put(&text, (uint64_t)e->range.begin);
        put(&text, (uint64_t)e->range.end);
        put(&text, (uint64_t)(file->header_nbytes + e->offset));
        cero_text_append(&text, (const char *)&file->hashes[e->block],
                         (size_t)(end - e->block) * sizeof(uint64_t));
    }
    put(&text, XXH3_64bits(text.data, text.length));
    cero_status st = cero_text_finish(&text);
    if (st != CERO_OK) {
        cero_text_cleanup(&text);
        return st;
    }
    *out = text;
    return CERO_OK;
}

/* The words of one rank while they are read. */
typedef struct words {
    const char *bytes;
    size_t count;
    size_t at;
    int rank;
} words;

static uint64_t word(const words *w, size_t i)
{
    uint64_t value;

    memcpy(&value, w->bytes + i * sizeof(value), sizeof(value));
    return value;
}

static cero_status fail_pack(int i)
{
    return CERO_FAIL(CERO_ERR_CORRUPT,
                     "what pack %d says of its rank's file did not arrive as it was sent", i);
}

/* All that is read: tensors of the caller, files and ranges of the ranks. */
typedef struct collection {
    const cero_rank_file_tensor *tensors;
    cero_manifest m;
    int *ranks; /* [file_count], owned */
} collection;

static cero_status open_pack(int i, const char *packed, size_t length, words *w)
{
    *w = (words){.bytes = packed, .count = length / sizeof(uint64_t)};
    if (length % sizeof(uint64_t) != 0 || w->count < HEAD + 1 || word(w, 0) != MAGIC) {
        return fail_pack(i);
    }
    w->count--;
    if (word(w, w->count) != XXH3_64bits(packed, w->count * sizeof(uint64_t)) ||
        word(w, 1) > INT32_MAX) {
        return fail_pack(i);
    }
    w->rank = (int)word(w, 1);
    w->at = HEAD;
    return CERO_OK;
}

/* The next range; its hashes follow at w->at. */
static cero_status next_range(const collection *c, int i, words *w, int64_t *tensor,
                              cero_manifest_range *r)
{
    if (w->count - w->at < RANGE) {
        return fail_pack(i);
    }
    uint64_t index = word(w, w->at);
    r->file = i;
    r->begin = (int64_t)word(w, w->at + 1);
    r->end = (int64_t)word(w, w->at + 2);
    r->offset = (int64_t)word(w, w->at + 3);
    w->at += RANGE;
    if (index >= (uint64_t)c->m.tensor_count || r->begin < 0 || r->begin >= r->end ||
        r->end > c->m.tensors[index].numel) {
        return fail_pack(i);
    }
    *tensor = (int64_t)index;
    int64_t blocks = cero_manifest_block_count(&c->m, &c->m.tensors[index], r);
    return (uint64_t)blocks <= w->count - w->at ? CERO_OK : fail_pack(i);
}

/* Counts the ranges of each tensor (is_counting), then takes them. */
static cero_status take_ranges(collection *c, int i, words *w, bool is_counting)
{
    uint64_t count = word(w, HEAD - 1);

    for (uint64_t k = 0; k < count; k++) {
        cero_manifest_range r = {0};
        int64_t tensor = 0;
        CERO_TRY(next_range(c, i, w, &tensor, &r));
        cero_manifest_tensor *t = &c->m.tensors[tensor];
        size_t blocks = (size_t)cero_manifest_block_count(&c->m, t, &r);
        if (!is_counting) {
            r.hashes = cero_new(blocks, sizeof(r.hashes[0]));
            CERO_CHECK(r.hashes != NULL, CERO_ERR_NOMEM, "no memory for %zu hashes of tensor %s",
                       blocks, t->name);
            memcpy(r.hashes, w->bytes + w->at * sizeof(uint64_t), blocks * sizeof(uint64_t));
            t->ranges[t->range_count] = r;
        }
        t->range_count++;
        w->at += blocks;
    }
    return w->at == w->count ? CERO_OK : fail_pack(i);
}

static cero_status take_file(collection *c, int i, const words *w)
{
    char name[CERO_MANIFEST_MAX_FILE_NAME];

    CERO_CHECK(word(w, 2) == (uint64_t)c->m.block_nbytes, CERO_ERR_INVALID,
               "rank %d has blocks of %llu bytes, expected %lld", w->rank,
               (unsigned long long)word(w, 2), (long long)c->m.block_nbytes);
    CERO_CHECK(word(w, 3) == (uint64_t)c->m.tensor_count, CERO_ERR_INVALID,
               "rank %d knows %llu tensors, expected %lld", w->rank, (unsigned long long)word(w, 3),
               (long long)c->m.tensor_count);
    CERO_CHECK(i == 0 || w->rank > c->ranks[i - 1], CERO_ERR_INVALID,
               "rank %d comes after rank %d, expected them in their order", w->rank,
               i == 0 ? -1 : c->ranks[i - 1]);
    c->ranks[i] = w->rank;
    c->m.files[i] = (cero_manifest_file){.name = cero_strdup(cero_rank_file_name(w->rank, name)),
                                         .nbytes = (int64_t)word(w, 4),
                                         .header_nbytes = (int64_t)word(w, 5),
                                         .header_hash = word(w, 6)};
    CERO_CHECK(c->m.files[i].name != NULL, CERO_ERR_NOMEM, "no memory for the name of a file");
    return CERO_OK;
}

static cero_status take_tensors(collection *c)
{
    for (int64_t i = 0; i < c->m.tensor_count; i++) {
        const cero_shape *shape = &c->tensors[i].shape;
        cero_manifest_tensor *t = &c->m.tensors[i];
        *t = (cero_manifest_tensor){.name = cero_strdup(c->tensors[i].name),
                                    .dtype = CERO_DTYPE_F32,
                                    .shape = *shape,
                                    .numel = cero_shape_numel(shape)};
        CERO_CHECK(t->name != NULL, CERO_ERR_NOMEM, "no memory for the name of tensor %s",
                   c->tensors[i].name);
    }
    return CERO_OK;
}

static cero_status allocate(collection *c, int count)
{
    c->m.files = cero_new((size_t)count + 1, sizeof(c->m.files[0]));
    c->m.tensors = cero_new((size_t)c->m.tensor_count + 1, sizeof(c->m.tensors[0]));
    c->ranks = cero_new((size_t)count + 1, sizeof(c->ranks[0]));
    CERO_CHECK(c->m.files != NULL && c->m.tensors != NULL && c->ranks != NULL, CERO_ERR_NOMEM,
               "no memory for a manifest of %d files and %lld tensors", count,
               (long long)c->m.tensor_count);
    c->m.file_count = count;
    return take_tensors(c);
}

static cero_status allocate_ranges(collection *c)
{
    for (int64_t i = 0; i < c->m.tensor_count; i++) {
        cero_manifest_tensor *t = &c->m.tensors[i];
        t->ranges = cero_new((size_t)t->range_count + 1, sizeof(t->ranges[0]));
        CERO_CHECK(t->ranges != NULL, CERO_ERR_NOMEM, "no memory for %lld ranges of tensor %s",
                   (long long)t->range_count, t->name);
        t->range_count = 0;
    }
    return CERO_OK;
}

static int compare_ranges(const void *left, const void *right)
{
    const cero_manifest_range *a = left;
    const cero_manifest_range *b = right;

    return a->begin < b->begin ? -1 : a->begin > b->begin;
}

/* Names the ranks at both sides of the place where the ranges of a tensor do not meet. */
static cero_status fail_cover(const collection *c, const cero_manifest_tensor *t, int64_t i,
                              int64_t covered)
{
    char name[CERO_SAFETENSORS_QUOTE];
    int64_t next = i < t->range_count ? t->ranges[i].begin : t->numel;

    (void)cero_safetensors_quote(t->name, name, sizeof(name));
    if (next < covered) {
        return CERO_FAIL(CERO_ERR_CORRUPT,
                         "tensor %s: elements %lld to %lld were written by rank %d and by rank %d",
                         name, (long long)next, (long long)covered, c->ranks[t->ranges[i - 1].file],
                         c->ranks[t->ranges[i].file]);
    }
    cero_text sides = {0};
    if (i > 0) {
        cero_text_printf(&sides, "; rank %d wrote those before", c->ranks[t->ranges[i - 1].file]);
    }
    if (i < t->range_count) {
        cero_text_printf(&sides, "; rank %d wrote those after", c->ranks[t->ranges[i].file]);
    }
    cero_status st =
        CERO_FAIL(CERO_ERR_CORRUPT, "tensor %s: no rank wrote elements %lld to %lld of %lld%s",
                  name, (long long)covered, (long long)next, (long long)t->numel,
                  sides.data != NULL ? sides.data : "");
    cero_text_cleanup(&sides);
    return st;
}

static cero_status check_cover(collection *c)
{
    for (int64_t k = 0; k < c->m.tensor_count; k++) {
        cero_manifest_tensor *t = &c->m.tensors[k];
        int64_t covered = 0;
        qsort(t->ranges, (size_t)t->range_count, sizeof(t->ranges[0]), compare_ranges);
        for (int64_t i = 0; i < t->range_count; i++) {
            if (t->ranges[i].begin != covered) {
                return fail_cover(c, t, i, covered);
            }
            covered = t->ranges[i].end;
        }
        if (covered != t->numel) {
            return fail_cover(c, t, t->range_count, covered);
        }
    }
    return CERO_OK;
}

static cero_status collect(collection *c, const char *const *packed, const size_t *lengths,
                           int count)
{
    int64_t doubled;
    words w;

    CERO_TRY(allocate(c, count));
    for (int i = 0; i < count; i++) {
        CERO_TRY(open_pack(i, packed[i], lengths[i], &w));
        CERO_TRY(take_file(c, i, &w));
        CERO_TRY(take_ranges(c, i, &w, true));
    }
    CERO_TRY(allocate_ranges(c));
    for (int i = 0; i < count; i++) {
        CERO_TRY(open_pack(i, packed[i], lengths[i], &w));
        CERO_TRY(take_ranges(c, i, &w, false));
    }
    CERO_TRY(check_cover(c));
    CERO_TRY(cero_manifest_index(&c->m, &doubled));
    CERO_CHECK(doubled < 0, CERO_ERR_INVALID, "two tensors are called %s",
               c->m.tensors[doubled].name);
    return CERO_OK;
}

cero_status cero_rank_file_unpack(const cero_rank_file_tensor *tensors, int64_t tensor_count,
                                  const char *const *packed, const size_t *lengths, int count,
                                  int64_t block_nbytes, cero_manifest *manifest)
{
    collection c = {.tensors = tensors,
                    .m = {.tensor_count = tensor_count,
                          .block_nbytes = block_nbytes == 0 ? CERO_MANIFEST_BLOCK : block_nbytes}};
    cero_status st = collect(&c, packed, lengths, count);

    cero_delete(c.ranks);
    if (st != CERO_OK) {
        cero_manifest_cleanup(&c.m);
        return st;
    }
    manifest->block_nbytes = c.m.block_nbytes;
    manifest->files = c.m.files;
    manifest->file_count = c.m.file_count;
    manifest->tensors = c.m.tensors;
    manifest->tensor_count = c.m.tensor_count;
    manifest->by_name = c.m.by_name;
    manifest->document = NULL;
    manifest->root = NULL;
    return CERO_OK;
}
