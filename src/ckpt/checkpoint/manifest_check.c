/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of a manifest that was read say together: each element in one place, each place of one element. */
#include "ckpt/checkpoint/manifest_impl.h"

#include "base/memory.h"
#include "ckpt/safetensors.h"

#include <stdlib.h>
#include <string.h>

/* Bytes of a file that a range takes. */
typedef struct place {
    int64_t file;
    int64_t begin;
    int64_t end;
    int64_t tensor;
    const cero_json *json; /* of the range */
} place;

/* Element after element, from the first to the last. */
static cero_status check_cover(const cero_manifest_tensor *t, const cero_json *json)
{
    const cero_json *at = cero_json_find(json, "ranges");
    const cero_json *value = at->child;
    int64_t next = 0;

    for (int64_t i = 0; i < t->range_count; i++, value = value->next) {
        const cero_manifest_range *r = &t->ranges[i];
        if (r->begin != next) {
            return cero_manifest_fail(
                value, t->name, "a range starts at element %lld, expected %lld: %s",
                (long long)r->begin, (long long)next,
                r->begin > next ? "elements are missing" : "elements are stored twice");
        }
        next = r->end;
    }
    if (next != t->numel) {
        return cero_manifest_fail(at, t->name, "its ranges end at element %lld of %lld",
                                  (long long)next, (long long)t->numel);
    }
    return CERO_OK;
}

/* Between the header and the end of its file. */
static cero_status check_place(const cero_manifest *m, const cero_manifest_tensor *t,
                               const cero_manifest_range *r, place *p)
{
    const cero_manifest_file *f = &m->files[r->file];
    int64_t nbytes = (r->end - r->begin) * (int64_t)cero_dtype_size(t->dtype);

    p->file = r->file;
    p->begin = r->offset;
    if (r->offset < f->header_nbytes || r->offset > f->nbytes || nbytes > f->nbytes - r->offset) {
        return cero_manifest_fail(
            p->json, t->name,
            "elements %lld to %lld, %lld bytes at byte %lld of %s, are not between its header, "
            "which ends at %lld, and its end at %lld",
            (long long)r->begin, (long long)r->end, (long long)nbytes, (long long)r->offset,
            f->name, (long long)f->header_nbytes, (long long)f->nbytes);
    }
    p->end = r->offset + nbytes;
    return CERO_OK;
}

static cero_status collect_places(const cero_manifest *m, place *places)
{
    const cero_json *value = cero_json_find(m->root, "tensors")->child;
    int64_t n = 0;

    for (int64_t i = 0; i < m->tensor_count; i++, value = value->next) {
        const cero_manifest_tensor *t = &m->tensors[i];
        const cero_json *range = cero_json_find(value, "ranges")->child;
        CERO_TRY(check_cover(t, value));
        for (int64_t r = 0; r < t->range_count; r++, range = range->next) {
            places[n].tensor = i;
            places[n].json = range;
            CERO_TRY(check_place(m, t, &t->ranges[r], &places[n++]));
        }
    }
    return CERO_OK;
}

static int compare_places(const void *left, const void *right)
{
    const place *a = left;
    const place *b = right;

    if (a->file != b->file) {
        return a->file < b->file ? -1 : 1;
    }
    return a->begin < b->begin ? -1 : a->begin > b->begin;
}

static cero_status check_places(const cero_manifest *m, place *places, int64_t count)
{
    char other[CERO_SAFETENSORS_QUOTE];

    CERO_TRY(collect_places(m, places));
    qsort(places, (size_t)count, sizeof(places[0]), compare_places);
    for (int64_t i = 1; i < count; i++) {
        const place *a = &places[i - 1];
        const place *b = &places[i];
        if (a->file == b->file && b->begin < a->end) {
            return cero_manifest_fail(
                b->json, m->tensors[b->tensor].name,
                "its bytes %lld to %lld of %s are also those of tensor %s", (long long)b->begin,
                (long long)b->end, m->files[b->file].name,
                cero_safetensors_quote(m->tensors[a->tensor].name, other, sizeof(other)));
        }
    }
    return CERO_OK;
}

static int compare_names(const void *left, const void *right)
{
    const char *const *a = left;
    const char *const *b = right;

    return strcmp(*a, *b);
}

static cero_status check_file_names(const cero_manifest *m)
{
    cero_status st = CERO_OK;
    const char **names = cero_new((size_t)m->file_count + 1, sizeof(names[0]));

    if (names == NULL) {
        return CERO_FAIL(CERO_ERR_NOMEM, "no memory for the names of %lld files",
                         (long long)m->file_count);
    }
    for (int64_t i = 0; i < m->file_count; i++) {
        names[i] = m->files[i].name;
    }
    qsort((void *)names, (size_t)m->file_count, sizeof(names[0]), compare_names);
    for (int64_t i = 1; i < m->file_count && st == CERO_OK; i++) {
        if (strcmp(names[i - 1], names[i]) == 0) {
            st = cero_manifest_fail(cero_json_find(m->root, "files"), NULL,
                                    "the file %s is listed twice", names[i]);
        }
    }
    cero_delete((void *)names);
    return st;
}

cero_status cero_manifest_check(const cero_manifest *manifest)
{
    int64_t count = 0;

    CERO_TRY(check_file_names(manifest));
    for (int64_t i = 0; i < manifest->tensor_count; i++) {
        count += manifest->tensors[i].range_count;
    }
    place *places = cero_new((size_t)count + 1, sizeof(*places));
    if (places == NULL) {
        return CERO_FAIL(CERO_ERR_NOMEM, "no memory to check %lld ranges", (long long)count);
    }
    cero_status st = check_places(manifest, places, count);
    cero_delete(places);
    return st;
}
