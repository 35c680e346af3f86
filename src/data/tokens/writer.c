/* SPDX-License-Identifier: Apache-2.0 */
/* Writers of token files. Everything is committed by rename, the .idx of a pair last. */
#include "data/tokens.h"

#include "base/file.h"
#include "base/memory.h"

#include <stdio.h>
#include <string.h>

enum {
    U16_VOCAB = 65500, /* Megatron's limit for 16-bit ids */
    CODE_I32 = 4,
    CODE_U16 = 8,
    CHUNK = 4096
};

struct cero_token_writer {
    cero_token_format format;
    int width;
    int64_t vocab_size;
    char *path;             /* owned */
    cero_file_writer *file; /* ids */
    cero_file_writer *idx;
    int32_t *length; /* [length_count], tokens of each sequence, owned */
    int64_t length_count;
    int64_t length_capacity;
    int64_t pending; /* tokens of the document at hand */
    int64_t count;
    cero_text memory; /* NPY: the ids so far */
};

static cero_status open_with_suffix(const char *path, const char *suffix, cero_file_writer **out)
{
    cero_text name = {0};
    cero_text_printf(&name, "%s%s", path, suffix);
    cero_status st = cero_text_finish(&name);
    if (st == CERO_OK) {
        st = cero_file_writer_open(name.data, CERO_FILE_REPLACE, out);
    }
    cero_text_cleanup(&name);
    return st;
}

static cero_status open_files(cero_token_writer *w)
{
    if (w->format != CERO_TOKENS_MEGATRON) {
        return open_with_suffix(w->path, "", &w->file);
    }
    CERO_TRY(open_with_suffix(w->path, ".bin", &w->file));
    return open_with_suffix(w->path, ".idx", &w->idx);
}

cero_status cero_token_writer_open(const char *path, cero_token_format format, int64_t vocab_size,
                                   cero_token_writer **out)
{
    cero_status st = CERO_OK;
    cero_token_writer *w = NULL;
    CERO_CHECK(vocab_size >= 1 && vocab_size <= INT32_MAX, CERO_ERR_INVALID,
               "writing %s: the vocabulary is %lld, expected 1 to %d", path, (long long)vocab_size,
               INT32_MAX);
    CERO_CHECK(format != CERO_TOKENS_U16 || vocab_size <= 65536, CERO_ERR_INVALID,
               "writing %s: a vocabulary of %lld does not fit 16 bits; write .u32", path,
               (long long)vocab_size);
    w = cero_new(1, sizeof(*w));
    if (w == NULL || (w->path = cero_strdup(path)) == NULL) {
        CERO_FAIL_GOTO(fail, CERO_ERR_NOMEM, "no memory for a writer");
    }
    w->format = format;
    w->vocab_size = vocab_size;
    w->width = format == CERO_TOKENS_U16   ? 2
               : format == CERO_TOKENS_U32 ? 4
               : vocab_size < U16_VOCAB    ? 2
                                           : 4;
    CERO_TRY_GOTO(open_files(w), fail);
    *out = w;
    return CERO_OK;

fail:
    cero_token_writer_close(&w);
    return st;
}

void cero_token_writer_close(cero_token_writer **writer)
{
    if (writer == NULL || *writer == NULL) {
        return;
    }
    cero_token_writer *w = *writer;
    cero_file_writer_close(&w->idx);
    cero_file_writer_close(&w->file);
    cero_text_cleanup(&w->memory);
    cero_delete(w->length);
    cero_delete(w->path);
    cero_delete(w);
    *writer = NULL;
}

static cero_status write_bytes(cero_token_writer *w, const void *bytes, size_t length)
{
    if (w->format == CERO_TOKENS_NPY) {
        cero_text_append(&w->memory, bytes, length);
        return cero_text_finish(&w->memory);
    }
    return cero_file_writer_write(w->file, bytes, length);
}

cero_status cero_token_writer_add(cero_token_writer *writer, const int32_t *ids, int64_t count)
{
    cero_token_writer *w = writer;
    uint16_t narrow[CHUNK];
    for (int64_t i = 0; i < count; i++) {
        CERO_CHECK(ids[i] >= 0 && ids[i] < w->vocab_size, CERO_ERR_INVALID,
                   "writing %s: token %lld is %d, the vocabulary is %lld", w->path,
                   (long long)(w->count + i), ids[i], (long long)w->vocab_size);
    }
    for (int64_t i = 0; w->width == 2 && i < count; i += CHUNK) {
        int64_t n = count - i < CHUNK ? count - i : CHUNK;
        for (int64_t k = 0; k < n; k++) {
            narrow[k] = (uint16_t)ids[i + k];
        }
        CERO_TRY(write_bytes(w, narrow, (size_t)n * 2));
    }
    if (w->width == 4) {
        CERO_TRY(write_bytes(w, ids, (size_t)count * 4));
    }
    w->pending += count;
    w->count += count;
    return CERO_OK;
}

cero_status cero_token_writer_end_document(cero_token_writer *writer)
{
    cero_token_writer *w = writer;
    if (w->pending == 0) {
        return CERO_OK;
    }
    CERO_CHECK(w->pending <= INT32_MAX, CERO_ERR_UNSUPPORTED,
               "writing %s: a document of %lld tokens is longer than the format's %d", w->path,
               (long long)w->pending, INT32_MAX);
    if (w->format == CERO_TOKENS_MEGATRON) {
        CERO_TRY(cero_grow((void **)&w->length, w->length_count, &w->length_capacity,
                           sizeof(w->length[0])));
        w->length[w->length_count++] = (int32_t)w->pending;
    }
    w->pending = 0;
    return CERO_OK;
}

static cero_status write_i64(cero_file_writer *file, int64_t value)
{
    return cero_file_writer_write(file, &value, sizeof(value));
}

static cero_status write_idx(cero_token_writer *w)
{
    unsigned char code = w->width == 2 ? CODE_U16 : CODE_I32;
    int64_t pointer = 0;
    CERO_TRY(cero_file_writer_write(w->idx, "MMIDIDX\0", 9));
    CERO_TRY(write_i64(w->idx, 1));
    CERO_TRY(cero_file_writer_write(w->idx, &code, 1));
    CERO_TRY(write_i64(w->idx, w->length_count));
    CERO_TRY(write_i64(w->idx, w->length_count + 1));
    CERO_TRY(cero_file_writer_write(w->idx, w->length, (size_t)w->length_count * 4));
    for (int64_t i = 0; i < w->length_count; i++) {
        CERO_TRY(write_i64(w->idx, pointer));
        pointer += (int64_t)w->width * w->length[i];
    }
    for (int64_t i = 0; i <= w->length_count; i++) {
        CERO_TRY(write_i64(w->idx, i));
    }
    return cero_file_writer_flush(w->idx);
}

static cero_status write_npy(cero_token_writer *w)
{
    char head[128];
    memset(head, ' ', sizeof(head));
    memcpy(head, "\x93NUMPY\x01\x00\x76\x00", 10); // 118 bytes follow: 128 in all
    int n = snprintf(head + 10, sizeof(head) - 10,
                     "{'descr': '%s', 'fortran_order': False, 'shape': (%lld,), }",
                     w->width == 2 ? "<u2" : "<i4", (long long)w->count);
    head[10 + n] = ' ';
    head[sizeof(head) - 1] = '\n';
    CERO_TRY(cero_file_writer_write(w->file, head, sizeof(head)));
    return cero_file_writer_write(w->file, w->memory.data, w->memory.length);
}

cero_status cero_token_writer_commit(cero_token_writer *writer)
{
    cero_token_writer *w = writer;
    CERO_TRY(cero_token_writer_end_document(w));
    if (w->format == CERO_TOKENS_NPY) {
        CERO_TRY(write_npy(w));
    }
    if (w->idx != NULL) {
        CERO_TRY(write_idx(w));
    }
    CERO_TRY(cero_file_writer_commit(w->file));
    return w->idx == NULL ? CERO_OK : cero_file_writer_commit(w->idx);
}
