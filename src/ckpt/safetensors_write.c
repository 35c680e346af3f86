/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writing safetensors files as a stream: the header follows from the declarations alone, then the source
 * is asked for the data, part by part, in file order.
 *
 * The header is parsed by the reader's own checks before a byte is written, so nothing is made here that
 * would not open again.
 */
#include "ckpt/safetensors_impl.h"

#include "base/file.h"
#include "base/memory.h"
#include "base/xxh3.h"
#include "ckpt/convert.h"

#include <stdlib.h>
#include <string.h>

enum {
    PART_NUMEL = 128 * 1024 /* elements asked of the source at a time */
};

/* A tensor and its place in the caller's list. */
typedef struct entry {
    const cero_safetensors_decl *decl;
    int64_t index;
    int64_t numel;
    int64_t nbytes;
} entry;

typedef struct plan {
    entry *entries; /* [count], owned, in file order */
    int64_t count;
    cero_text header; /* owned */
    int64_t data_bytes;
} plan;

static void plan_cleanup(plan *p)
{
    cero_delete(p->entries);
    cero_text_cleanup(&p->header);
}

/* The reference's order: the widest dtype first, then by name. */
static int compare_entries(const void *left, const void *right)
{
    const entry *a = left;
    const entry *b = right;

    if (a->decl->dtype != b->decl->dtype) {
        return a->decl->dtype > b->decl->dtype ? -1 : 1;
    }
    return strcmp(a->decl->name, b->decl->name);
}

static bool dtype_can_be_written(cero_safetensors_dtype dtype, bool is_raw)
{
    return is_raw ? cero_safetensors_dtype_bits(dtype) % 8 == 0
                  : dtype == CERO_SAFETENSORS_F32 || dtype == CERO_SAFETENSORS_BF16 ||
                        dtype == CERO_SAFETENSORS_F16;
}

static cero_status measure_entry(const cero_safetensors_decl *decl, bool is_raw, entry *out)
{
    char name[CERO_SAFETENSORS_QUOTE];
    bool fits = decl->shape.ndim >= 0 && decl->shape.ndim <= CERO_MAX_NDIM;

    (void)cero_safetensors_quote(decl->name, name, sizeof(name));
    out->numel = 1;
    for (int i = 0; fits && i < decl->shape.ndim; i++) {
        fits = cero_mul_i64(out->numel, decl->shape.dim[i], &out->numel);
    }
    CERO_CHECK(dtype_can_be_written(decl->dtype, is_raw), CERO_ERR_UNSUPPORTED,
               "tensor %s cannot be written as %s", name, cero_safetensors_dtype_name(decl->dtype));
    CERO_CHECK(fits && cero_safetensors_dtype_bytes(decl->dtype, out->numel, &out->nbytes),
               CERO_ERR_INVALID, "tensor %s has a shape that no file can hold", name);
    out->decl = decl;
    return CERO_OK;
}

static cero_status plan_entries(const cero_safetensors_write_params *params, plan *p)
{
    char name[CERO_SAFETENSORS_QUOTE];

    p->entries = cero_new((size_t)params->count + 1, sizeof(p->entries[0]));
    if (p->entries == NULL) {
        return CERO_FAIL(CERO_ERR_NOMEM, "no memory for a list of %lld tensors",
                         (long long)params->count);
    }
    p->count = params->count;
    for (int64_t i = 0; i < p->count; i++) {
        CERO_TRY(measure_entry(&params->tensors[i], params->is_raw, &p->entries[i]));
        p->entries[i].index = i;
        CERO_CHECK(!__builtin_add_overflow(p->data_bytes, p->entries[i].nbytes, &p->data_bytes),
                   CERO_ERR_INVALID, "tensor %s makes the file larger than 2^63 bytes",
                   cero_safetensors_quote(params->tensors[i].name, name, sizeof(name)));
    }
    qsort(p->entries, (size_t)p->count, sizeof(p->entries[0]), compare_entries);
    return CERO_OK;
}

static void append_string(cero_text *text, const char *string)
{
    cero_text_append_json_string(text, string, strlen(string));
}

static void append_metadata(const cero_safetensors_write_params *params, cero_text *text)
{
    cero_text_printf(text, "\"__metadata__\":{");
    for (int i = 0; i < params->metadata_count; i++) {
        cero_text_printf(text, "%s", i > 0 ? "," : "");
        append_string(text, params->metadata[2 * i]);
        cero_text_printf(text, ":");
        append_string(text, params->metadata[2 * i + 1]);
    }
    cero_text_printf(text, "}%s", params->count > 0 ? "," : "");
}

static void append_entry(const entry *e, int64_t begin, cero_text *text)
{
    append_string(text, e->decl->name);
    cero_text_printf(text, ":{\"dtype\":\"%s\",\"shape\":[",
                     cero_safetensors_dtype_name(e->decl->dtype));
    for (int i = 0; i < e->decl->shape.ndim; i++) {
        cero_text_printf(text, "%s%lld", i > 0 ? "," : "", (long long)e->decl->shape.dim[i]);
    }
    cero_text_printf(text, "],\"data_offsets\":[%lld,%lld]}", (long long)begin,
                     (long long)(begin + e->nbytes));
}

static cero_status plan_header(const cero_safetensors_write_params *params, plan *p)
{
    int64_t begin = 0;

    cero_text_printf(&p->header, "{");
    if (params->metadata_count > 0) {
        append_metadata(params, &p->header);
    }
    for (int64_t i = 0; i < p->count; i++) {
        cero_text_printf(&p->header, "%s", i > 0 ? "," : "");
        append_entry(&p->entries[i], begin, &p->header);
        begin += p->entries[i].nbytes;
    }
    cero_text_printf(&p->header, "}");
    while (p->header.length % 8 != 0 && !p->header.has_failed) {
        cero_text_printf(&p->header, " ");
    }
    CERO_TRY(cero_text_finish(&p->header));
    CERO_CHECK(p->header.length <= CERO_SAFETENSORS_MAX_HEADER, CERO_ERR_INVALID,
               "the header of %lld tensors has %zu bytes, the limit of the format is %d",
               (long long)p->count, p->header.length, CERO_SAFETENSORS_MAX_HEADER);
    return CERO_OK;
}

/* What the reader makes of it: doubled names and names that are not UTF-8 show here. */
static cero_status check_header(const char *path, const plan *p)
{
    char name[CERO_SAFETENSORS_QUOTE];
    cero_safetensors_header header;

    CERO_TRY(cero_safetensors_header_parse(path, p->header.data, p->header.length, &header));
    for (int64_t i = 0; i < p->count; i++) {
        const char *wanted = p->entries[i].decl->name;
        if (cero_safetensors_header_find(&header, wanted) == NULL) {
            cero_safetensors_header_cleanup(&header);
            return CERO_FAIL(CERO_ERR_INVALID, "writing %s: the name of tensor %s is not UTF-8",
                             path, cero_safetensors_quote(wanted, name, sizeof(name)));
        }
    }
    cero_safetensors_header_cleanup(&header);
    return CERO_OK;
}

static int compare_names(const void *left, const void *right)
{
    const char *const *a = left;
    const char *const *b = right;

    return strcmp(*a, *b);
}

static cero_status check_names(const char *path, const plan *p)
{
    char name[CERO_SAFETENSORS_QUOTE];
    cero_status st = CERO_OK;
    const char **names = cero_new((size_t)p->count + 1, sizeof(names[0]));

    if (names == NULL) {
        return CERO_FAIL(CERO_ERR_NOMEM, "no memory to check the names of %s", path);
    }
    for (int64_t i = 0; i < p->count; i++) {
        names[i] = p->entries[i].decl->name;
    }
    qsort((void *)names, (size_t)p->count, sizeof(names[0]), compare_names);
    for (int64_t i = 0; i < p->count && st == CERO_OK; i++) {
        if (strcmp(names[i], "__metadata__") == 0) {
            st = CERO_FAIL(CERO_ERR_INVALID, "writing %s: no tensor may be called __metadata__",
                           path);
        } else if (i > 0 && strcmp(names[i], names[i - 1]) == 0) {
            st = CERO_FAIL(CERO_ERR_INVALID, "writing %s: tensor %s is declared twice", path,
                           cero_safetensors_quote(names[i], name, sizeof(name)));
        }
    }
    cero_delete((void *)names);
    return st;
}

static cero_status plan_file(const char *path, const cero_safetensors_write_params *params, plan *p)
{
    CERO_TRY(plan_entries(params, p));
    CERO_TRY(check_names(path, p));
    CERO_TRY(plan_header(params, p));
    return check_header(path, p);
}

cero_status cero_safetensors_file_bytes(const cero_safetensors_write_params *params,
                                        int64_t *nbytes)
{
    plan p = {0};
    cero_status st = plan_entries(params, &p);

    if (st == CERO_OK) {
        st = plan_header(params, &p);
    }
    if (st == CERO_OK) {
        *nbytes = 8 + (int64_t)p.header.length + p.data_bytes;
    }
    plan_cleanup(&p);
    return st;
}

/* The state of one file being written. */
typedef struct stream {
    const cero_safetensors_write_params *params;
    cero_file_writer *writer;
    XXH3_state_t *hash;
    unsigned char *from; /* [PART_NUMEL * 8]: what the source gave */
    unsigned char *to;   /* [PART_NUMEL * 2]: what is stored, when not the same */
} stream;

static cero_status stream_tensor(stream *s, const entry *e)
{
    cero_safetensors_dtype dtype = e->decl->dtype;
    int64_t size = cero_safetensors_dtype_bits(dtype) / 8;
    bool is_same = s->params->is_raw || dtype == CERO_SAFETENSORS_F32;

    (void)XXH3_64bits_reset(s->hash);
    for (int64_t done = 0; done < e->numel;) {
        int64_t n = e->numel - done < PART_NUMEL ? e->numel - done : PART_NUMEL;
        const void *stored = is_same ? s->from : s->to;
        CERO_TRY(s->params->source(s->params->context, e->index, done, n, s->from));
        if (!is_same && dtype == CERO_SAFETENSORS_BF16) {
            cero_convert_f32_to_bf16((const float *)(const void *)s->from, n, s->to);
        } else if (!is_same) {
            cero_convert_f32_to_f16((const float *)(const void *)s->from, n, s->to);
        }
        (void)XXH3_64bits_update(s->hash, stored, (size_t)(n * size));
        CERO_TRY(cero_file_writer_write(s->writer, stored, (size_t)(n * size)));
        done += n;
    }
    if (s->params->hashes != NULL) {
        s->params->hashes[e->index] = XXH3_64bits_digest(s->hash);
    }
    return CERO_OK;
}

static cero_status stream_file(stream *s, const plan *p)
{
    uint64_t length = p->header.length;

    CERO_TRY(cero_file_writer_write(s->writer, &length, sizeof(length)));
    CERO_TRY(cero_file_writer_write(s->writer, p->header.data, p->header.length));
    for (int64_t i = 0; i < p->count; i++) {
        CERO_TRY(stream_tensor(s, &p->entries[i]));
    }
    return cero_file_writer_commit(s->writer);
}

cero_status cero_safetensors_write(const char *path, const cero_safetensors_write_params *params)
{
    cero_status st = CERO_OK;
    plan p = {0};
    stream s = {.params = params, .hash = XXH3_createState()};

    CERO_TRY_GOTO(plan_file(path, params, &p), out);
    s.from = cero_new(PART_NUMEL, 8);
    s.to = cero_new(PART_NUMEL, 2);
    if (s.from == NULL || s.to == NULL || s.hash == NULL) {
        CERO_FAIL_GOTO(out, CERO_ERR_NOMEM, "no memory to write %s", path);
    }
    CERO_TRY_GOTO(cero_file_writer_open(path, CERO_FILE_REPLACE, &s.writer), out);
    CERO_TRY_GOTO(stream_file(&s, &p), out);

out:
    cero_file_writer_close(&s.writer);
    (void)XXH3_freeState(s.hash);
    cero_delete(s.from);
    cero_delete(s.to);
    plan_cleanup(&p);
    return st;
}
