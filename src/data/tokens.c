/* SPDX-License-Identifier: Apache-2.0 */
/* The stream: sources in order, found by position, read with every id checked. */
#include "data/tokens.h"

#include "base/memory.h"
#include "data/tokens/source.h"

#include <string.h>

struct cero_token_stream {
    cero_token_source *source; /* [source_count], owned */
    int64_t source_count;
    int64_t count;
    int64_t vocab_size;
};

void cero_token_stream_close(cero_token_stream **stream)
{
    if (stream == NULL || *stream == NULL) {
        return;
    }
    for (int64_t i = 0; i < (*stream)->source_count; i++) {
        cero_token_source_cleanup(&(*stream)->source[i]);
    }
    cero_delete((*stream)->source);
    cero_delete(*stream);
    *stream = NULL;
}

/* `path` without the 4 characters of its suffix, or whole. */
static cero_status open_megatron(const char *path, size_t length, cero_token_source *source)
{
    char *prefix = cero_strndup(path, length);
    if (prefix == NULL) {
        return CERO_FAIL(CERO_ERR_NOMEM, "no memory for a path");
    }
    cero_status st = cero_token_source_megatron(prefix, source);
    cero_delete(prefix);
    return st;
}

/* NAME stands for NAME.bin with NAME.idx when there is no NAME. */
static bool is_megatron_prefix(const char *path)
{
    cero_text bin = {0};
    cero_text_printf(&bin, "%s.bin", path);
    bool is_there = !bin.has_failed && cero_file_stat(bin.data, NULL) == CERO_FILE_REGULAR;
    cero_text_cleanup(&bin);
    return is_there;
}

static cero_status open_source(const char *path, const cero_token_stream_params *params,
                               cero_token_source *source)
{
    size_t length = strlen(path);
    cero_file_kind kind = cero_file_stat(path, NULL);
    if (kind == CERO_FILE_DIRECTORY) {
        return cero_token_source_text(path, params, source);
    }
    if (cero_token_name_ends(path, ".bin") || cero_token_name_ends(path, ".idx")) {
        return open_megatron(path, length - 4, source);
    }
    if (kind == CERO_FILE_ABSENT) {
        return is_megatron_prefix(path)
                   ? open_megatron(path, length, source)
                   : CERO_FAIL(CERO_ERR_IO, "opening the data: %s is not there", path);
    }
    if (cero_token_name_ends(path, ".u16")) {
        return cero_token_source_raw(path, CERO_TOKEN_U16, source);
    }
    if (cero_token_name_ends(path, ".u32")) {
        return cero_token_source_raw(path, CERO_TOKEN_U32, source);
    }
    if (cero_token_name_ends(path, ".npy")) {
        return cero_token_source_npy(path, source);
    }
    return cero_token_source_text(path, params, source);
}

cero_status cero_token_stream_open(const cero_token_stream_params *params, cero_token_stream **out)
{
    cero_status st = CERO_OK;
    cero_token_stream *stream = NULL;
    CERO_CHECK(params->path_count > 0, CERO_ERR_INVALID, "no data were given");
    stream = cero_new(1, sizeof(*stream));
    if (stream != NULL) {
        stream->source = cero_new((size_t)params->path_count, sizeof(stream->source[0]));
    }
    if (stream == NULL || stream->source == NULL) {
        CERO_FAIL_GOTO(fail, CERO_ERR_NOMEM, "no memory for %lld sources",
                       (long long)params->path_count);
    }
    stream->vocab_size = params->vocab_size > 0 ? params->vocab_size : INT64_C(1) << 31;
    for (int64_t i = 0; i < params->path_count; i++) {
        stream->source_count++;
        CERO_TRY_GOTO(open_source(params->path[i], params, &stream->source[i]), fail);
        stream->source[i].begin = stream->count;
        stream->count += stream->source[i].count;
    }
    if (stream->count == 0) {
        CERO_FAIL_GOTO(fail, CERO_ERR_INVALID,
                       "the data hold no token: %lld documents in %s%s, %lld of them empty",
                       (long long)cero_token_stream_documents(stream), params->path[0],
                       params->path_count > 1 ? " and others" : "",
                       (long long)cero_token_stream_empty_documents(stream));
    }
    *out = stream;
    return CERO_OK;

fail:
    cero_token_stream_close(&stream);
    return st;
}

int64_t cero_token_stream_count(const cero_token_stream *stream)
{
    return stream->count;
}

int64_t cero_token_stream_documents(const cero_token_stream *stream)
{
    int64_t n = 0;
    for (int64_t i = 0; i < stream->source_count; i++) {
        n += stream->source[i].documents;
    }
    return n;
}

int64_t cero_token_stream_empty_documents(const cero_token_stream *stream)
{
    int64_t n = 0;
    for (int64_t i = 0; i < stream->source_count; i++) {
        n += stream->source[i].empty_documents;
    }
    return n;
}

/* Token i as a number; an unsigned 64-bit one beyond INT64_MAX becomes negative, which is refused. */
static inline int64_t load(const unsigned char *data, cero_token_type type, int64_t i)
{
    union {
        int8_t i8;
        uint8_t u8;
        int16_t i16;
        uint16_t u16;
        int32_t i32;
        uint32_t u32;
        int64_t i64;
    } v;
    int width = cero_token_type_width(type);
    memcpy(&v, data + i * width, (size_t)width);
    switch (type) {
    case CERO_TOKEN_U8:
        return v.u8;
    case CERO_TOKEN_I8:
        return v.i8;
    case CERO_TOKEN_U16:
        return v.u16;
    case CERO_TOKEN_I16:
        return v.i16;
    case CERO_TOKEN_U32:
        return v.u32;
    case CERO_TOKEN_I32:
        return v.i32;
    case CERO_TOKEN_U64:
    case CERO_TOKEN_I64:
        return v.i64;
    }
    return -1;
}

/* Copies ids begin .. begin+n; returns the place of the first that is outside, -1 if none is. */
static int64_t copy_ids(const cero_token_source *source, int64_t begin, int64_t n, int64_t vocab,
                        int32_t *out)
{
    if (source->type == CERO_TOKEN_U16) { // the usual one, without the switch
        for (int64_t i = 0; i < n; i++) {
            uint16_t id;
            memcpy(&id, source->data + 2 * (begin + i), 2);
            if (CERO_UNLIKELY(id >= vocab)) {
                return begin + i;
            }
            out[i] = id;
        }
        return -1;
    }
    for (int64_t i = 0; i < n; i++) {
        int64_t id = load(source->data, source->type, begin + i);
        if (CERO_UNLIKELY(id < 0 || id >= vocab)) {
            return begin + i;
        }
        out[i] = (int32_t)id;
    }
    return -1;
}

/* The source that holds position `at`. */
static int64_t find_source(const cero_token_stream *stream, int64_t at)
{
    int64_t low = 0;
    int64_t high = stream->source_count - 1;
    while (low < high) {
        int64_t mid = (low + high + 1) / 2;
        if (stream->source[mid].begin <= at) {
            low = mid;
        } else {
            high = mid - 1;
        }
    }
    return low;
}

cero_status cero_token_stream_read(cero_token_stream *stream, int64_t begin, int64_t n,
                                   int32_t *out)
{
    CERO_CHECK(begin >= 0 && n >= 0 && n <= stream->count && begin <= stream->count - n,
               CERO_ERR_INVALID, "tokens %lld .. %lld were asked for, the data have %lld",
               (long long)begin, (long long)begin + n, (long long)stream->count);
    for (int64_t s = n > 0 ? find_source(stream, begin) : 0; n > 0; s++) {
        const cero_token_source *source = &stream->source[s];
        int64_t at = begin - source->begin;
        int64_t here = source->count - at < n ? source->count - at : n;
        int64_t bad = copy_ids(source, at, here, stream->vocab_size, out);
        if (bad >= 0) {
            int64_t id = load(source->data, source->type, bad);
            return CERO_FAIL(
                CERO_ERR_CORRUPT,
                "%s: token %lld at byte %lld is %lld, the vocabulary is %lld; the data "
                "were made with another tokenizer or width",
                source->path, (long long)bad,
                (long long)(source->offset + bad * cero_token_type_width(source->type)),
                (long long)id, (long long)stream->vocab_size);
        }
        begin += here;
        out += here;
        n -= here;
    }
    return CERO_OK;
}
