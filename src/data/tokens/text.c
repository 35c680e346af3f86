/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Text as a source: documents are tokenized into a cache file, or into memory.
 *
 * Cache file: ids of 2 or 4 bytes, then a trailer of 64 bytes with counts, the key it was made for and
 * a checksum. A file that is not whole or not for this key is made again.
 */
#include "data/tokens/source.h"

#include "base/log.h"
#include "base/memory.h"

#include <stdio.h>
#include <string.h>
#include <xxhash.h>

enum {
    CACHE_VERSION = 1,
    U16_VOCAB = 65500 /* smaller vocabularies are kept in 16 bits */
};

typedef struct cache_trailer {
    uint64_t checksum; /* XXH3 of the ids */
    uint64_t key[2];
    uint64_t count;
    uint64_t documents;
    uint64_t empty_documents;
    uint32_t version;
    uint32_t width;
    char magic[8];
} cache_trailer;

_Static_assert(sizeof(cache_trailer) == 64, "the trailer is part of a file format");

static const char cache_magic[8] = {'C', 'E', 'R', 'O', 'T', 'O', 'K', 0};

/* Where ids go, document by document. */
typedef struct text_sink {
    cero_token_sink add;
    cero_status (*end_document)(void *context); /* NULL: nothing */
    void *context;
} text_sink;

/* Names that promise something else than text. */
static cero_status check_name(const char *path)
{
    static const char *const refused[] = {".gz",  ".zst",     ".xz",    ".bz2",         ".zip",
                                          ".tar", ".parquet", ".arrow", ".safetensors", ".pt",
                                          ".pth", ".pkl",     ".npz"};
    for (size_t i = 0; i < CERO_COUNT_OF(refused); i++) {
        if (cero_token_name_ends(path, refused[i])) {
            return CERO_FAIL(
                CERO_ERR_INVALID,
                "reading text of %s: a %s file is not text; unpack or convert it first", path,
                refused[i]);
        }
    }
    return CERO_OK;
}

static cero_status list_documents(const char *path, cero_file_list *list)
{
    if (cero_file_stat(path, NULL) == CERO_FILE_DIRECTORY) {
        CERO_TRY(cero_file_list_dir(path, true, list));
        if (list->count == 0) {
            return CERO_FAIL(CERO_ERR_INVALID, "reading text of %s: the directory holds no file",
                             path);
        }
    } else {
        CERO_TRY(cero_grow((void **)&list->path, 0, &list->capacity, sizeof(list->path[0])));
        list->path[0] = cero_strdup(path);
        list->count = list->path[0] != NULL;
        if (list->count == 0) {
            return CERO_FAIL(CERO_ERR_NOMEM, "no memory for a path");
        }
    }
    for (int64_t i = 0; i < list->count; i++) {
        CERO_TRY(check_name(list->path[i]));
        if (cero_token_name_is_binary(list->path[i])) {
            return CERO_FAIL(CERO_ERR_INVALID,
                             "reading text of %s: %s is a token file; name token files one by one",
                             path, list->path[i]);
        }
    }
    return CERO_OK;
}

static cero_status check_tokenizer(const char *path, const cero_token_stream_params *params)
{
    if (params->tokenizer == NULL) {
        return CERO_FAIL(CERO_ERR_INVALID,
                         "reading text of %s: a tokenizer is needed; name one (--tokenizer), or "
                         "give token files (.bin and .idx, .u16, .u32, .npy)",
                         path);
    }
    int64_t size = cero_tokenizer_vocab_size(params->tokenizer);
    if (params->vocab_size > 0 && size > params->vocab_size) {
        return CERO_FAIL(
            CERO_ERR_INVALID,
            "the tokenizer has ids up to %lld, the model's vocabulary is %lld; use the "
            "model's own tokenizer or a larger vocab_size",
            (long long)size - 1, (long long)params->vocab_size);
    }
    if (!params->no_eod && cero_tokenizer_eos(params->tokenizer) < 0) {
        return CERO_FAIL(CERO_ERR_INVALID,
                         "the tokenizer names no end-of-document token (eos_token of "
                         "tokenizer_config.json, <|endoftext|>, <|end_of_text|> or </s>); name one "
                         "or use --no-eod");
    }
    return CERO_OK;
}

static cero_status encode_document(const char *path, const cero_token_stream_params *params,
                                   const text_sink *sink, cero_token_stats *stats)
{
    cero_status st = CERO_OK;
    cero_file_map map = {0};
    unsigned flags = params->no_special ? CERO_ENCODE_PLAIN_SPECIAL : 0;
    CERO_TRY(cero_file_map_open(path, &map));
    stats->documents++;
    stats->bytes += (int64_t)map.length;
    stats->empty_documents += map.length == 0;
    if (map.length > 0) {
        st = cero_tokenizer_encode_to(params->tokenizer, map.data, map.length, flags, sink->add,
                                      sink->context);
        if (st != CERO_OK) {
            (void)cero_error_prefix(st, "tokenizing %s: ", path);
            goto out;
        }
        if (!params->no_eod) {
            int32_t eod = cero_tokenizer_eos(params->tokenizer);
            CERO_TRY_GOTO(sink->add(sink->context, &eod, 1), out);
        }
        if (sink->end_document != NULL) {
            CERO_TRY_GOTO(sink->end_document(sink->context), out);
        }
    }

out:
    cero_file_map_close(&map);
    return st;
}

static cero_status encode_documents(const cero_file_list *list,
                                    const cero_token_stream_params *params, const text_sink *sink,
                                    cero_token_stats *stats)
{
    for (int64_t i = 0; i < list->count; i++) {
        CERO_TRY(encode_document(list->path[i], params, sink, stats));
    }
    return CERO_OK;
}

static cero_status add_to_memory(void *context, const int32_t *ids, int64_t count)
{
    cero_token_ids *memory = context;
    CERO_TRY(cero_token_ids_reserve(memory, count));
    memcpy(memory->id + memory->count, ids, (size_t)count * sizeof(ids[0]));
    memory->count += count;
    return CERO_OK;
}

static cero_status open_memory(const cero_file_list *list, const cero_token_stream_params *params,
                               cero_token_source *source)
{
    cero_token_stats stats = {0};
    text_sink sink = {.add = add_to_memory, .context = &source->memory};
    CERO_TRY(encode_documents(list, params, &sink, &stats));
    source->data = (const unsigned char *)source->memory.id;
    source->type = CERO_TOKEN_I32;
    source->count = source->memory.count;
    source->documents = stats.documents;
    source->empty_documents = stats.empty_documents;
    return CERO_OK;
}

/* A cache file on its way out. */
typedef struct cache_writer {
    cero_file_writer *file;
    XXH3_state_t *hash;
    cache_trailer trailer;
} cache_writer;

static cero_status add_to_cache(void *context, const int32_t *ids, int64_t count)
{
    cache_writer *w = context;
    uint16_t narrow[4096];
    w->trailer.count += (uint64_t)count;
    if (w->trailer.width == 4) {
        (void)XXH3_64bits_update(w->hash, ids, (size_t)count * 4);
        return cero_file_writer_write(w->file, ids, (size_t)count * 4);
    }
    while (count > 0) {
        int64_t n = count < (int64_t)CERO_COUNT_OF(narrow) ? count : (int64_t)CERO_COUNT_OF(narrow);
        for (int64_t i = 0; i < n; i++) {
            narrow[i] = (uint16_t)ids[i];
        }
        (void)XXH3_64bits_update(w->hash, narrow, (size_t)n * 2);
        CERO_TRY(cero_file_writer_write(w->file, narrow, (size_t)n * 2));
        ids += n;
        count -= n;
    }
    return CERO_OK;
}

static cero_status write_cache(const char *path, const uint64_t key[2], const cero_file_list *list,
                               const cero_token_stream_params *params)
{
    cero_status st = CERO_OK;
    cero_token_stats stats = {0};
    cache_writer w = {.hash = XXH3_createState()};
    text_sink sink = {.add = add_to_cache, .context = &w};
    cache_trailer *t = &w.trailer;
    if (w.hash == NULL) {
        return CERO_FAIL(CERO_ERR_NOMEM, "no memory for a checksum");
    }
    (void)XXH3_64bits_reset(w.hash);
    t->version = CACHE_VERSION;
    t->width = cero_tokenizer_vocab_size(params->tokenizer) < U16_VOCAB ? 2 : 4;
    t->key[0] = key[0];
    t->key[1] = key[1];
    memcpy(t->magic, cache_magic, sizeof(cache_magic));
    CERO_TRY_GOTO(cero_file_writer_open(path, CERO_FILE_REPLACE, &w.file), out);
    CERO_TRY_GOTO(encode_documents(list, params, &sink, &stats), out);
    t->documents = (uint64_t)stats.documents;
    t->empty_documents = (uint64_t)stats.empty_documents;
    t->checksum = XXH3_64bits_digest(w.hash);
    CERO_TRY_GOTO(cero_file_writer_write(w.file, t, sizeof(*t)), out);
    CERO_TRY_GOTO(cero_file_writer_commit(w.file), out);

out:
    cero_file_writer_close(&w.file);
    (void)XXH3_freeState(w.hash);
    return st;
}

/* True when the mapped file is a whole cache file for this key; fills the source. */
static bool accept_cache(const uint64_t key[2], cero_token_source *source)
{
    cache_trailer t;
    if (source->map.length < sizeof(t)) {
        return false;
    }
    size_t bytes = source->map.length - sizeof(t);
    memcpy(&t, source->map.data + bytes, sizeof(t));
    bool is_whole = memcmp(t.magic, cache_magic, sizeof(t.magic)) == 0 &&
                    t.version == CACHE_VERSION && (t.width == 2 || t.width == 4) &&
                    t.key[0] == key[0] && t.key[1] == key[1] && bytes % t.width == 0 &&
                    t.count == bytes / t.width;
    if (!is_whole || XXH3_64bits(source->map.data, bytes) != t.checksum) {
        return false;
    }
    source->data = source->map.data;
    source->type = t.width == 2 ? CERO_TOKEN_U16 : CERO_TOKEN_I32;
    source->count = (int64_t)t.count;
    source->documents = (int64_t)t.documents;
    source->empty_documents = (int64_t)t.empty_documents;
    return true;
}

/* Everything the ids depend on. */
static cero_status hash_documents(const cero_file_list *list,
                                  const cero_token_stream_params *params, uint64_t key[2])
{
    cero_status st = CERO_OK;
    XXH3_state_t *state = XXH3_createState();
    XXH128_hash_t digest;
    int32_t eod = params->no_eod ? -1 : cero_tokenizer_eos(params->tokenizer);
    const uint64_t head[3] = {CACHE_VERSION, cero_tokenizer_hash(params->tokenizer),
                              (uint64_t)(uint32_t)eod << 1 | params->no_special};
    if (state == NULL) {
        return CERO_FAIL(CERO_ERR_NOMEM, "no memory for a checksum");
    }
    (void)XXH3_128bits_reset(state);
    (void)XXH3_128bits_update(state, head, sizeof(head));
    for (int64_t i = 0; i < list->count; i++) {
        cero_file_map map = {0};
        CERO_TRY_GOTO(cero_file_map_open(list->path[i], &map), out);
        uint64_t length = map.length;
        (void)XXH3_128bits_update(state, &length, sizeof(length));
        (void)XXH3_128bits_update(state, map.data, map.length);
        cero_file_map_close(&map);
    }
    digest = XXH3_128bits_digest(state);
    key[0] = digest.low64;
    key[1] = digest.high64;

out:
    (void)XXH3_freeState(state);
    return st;
}

static cero_status open_cached(const cero_file_list *list, const cero_token_stream_params *params,
                               cero_token_source *source)
{
    cero_status st = CERO_OK;
    uint64_t key[2] = {0, 0};
    char name[64];
    char *path = NULL;
    CERO_TRY(hash_documents(list, params, key));
    (void)snprintf(name, sizeof(name), "text-%016llx%016llx.tokens", (unsigned long long)key[1],
                   (unsigned long long)key[0]);
    CERO_TRY(cero_file_make_dir(params->cache_dir));
    path = cero_file_join(params->cache_dir, name);
    if (path == NULL) {
        return CERO_FAIL(CERO_ERR_NOMEM, "no memory for a path");
    }
    if (cero_file_stat(path, NULL) == CERO_FILE_REGULAR) {
        CERO_TRY_GOTO(cero_file_map_open(path, &source->map), out);
        if (accept_cache(key, source)) {
            goto out;
        }
        cero_file_map_close(&source->map);
        cero_log_warn_once("data", "%s is damaged and is made again", path);
    }
    CERO_TRY_GOTO(write_cache(path, key, list, params), out);
    CERO_TRY_GOTO(cero_file_map_open(path, &source->map), out);
    if (!accept_cache(key, source)) {
        CERO_FAIL_GOTO(out, CERO_ERR_IO, "%s reads back differently from what was written", path);
    }

out:
    cero_delete(path);
    return st;
}

cero_status cero_token_source_text(const char *path, const cero_token_stream_params *params,
                                   cero_token_source *source)
{
    cero_status st = CERO_OK;
    cero_file_list list = {0};
    CERO_TRY(check_tokenizer(path, params));
    source->path = cero_strdup(path);
    if (source->path == NULL) {
        return CERO_FAIL(CERO_ERR_NOMEM, "no memory for a path");
    }
    CERO_TRY_GOTO(list_documents(path, &list), out);
    CERO_TRY_GOTO(params->cache_dir == NULL ? open_memory(&list, params, source)
                                            : open_cached(&list, params, source),
                  out);

out:
    cero_file_list_cleanup(&list);
    return st;
}

/* Counts what passes on its way to the writer. */
typedef struct counter {
    cero_token_writer *writer;
    int64_t tokens;
} counter;

static cero_status add_counted(void *context, const int32_t *ids, int64_t count)
{
    counter *c = context;
    c->tokens += count;
    return cero_token_writer_add(c->writer, ids, count);
}

static cero_status end_counted(void *context)
{
    return cero_token_writer_end_document(((counter *)context)->writer);
}

cero_status cero_tokenize_files(const cero_token_stream_params *params, cero_token_writer *writer,
                                cero_token_stats *stats)
{
    cero_status st = CERO_OK;
    counter c = {.writer = writer};
    text_sink sink = {.add = add_counted, .end_document = end_counted, .context = &c};
    for (int64_t i = 0; i < params->path_count && st == CERO_OK; i++) {
        cero_file_list list = {0};
        st = check_tokenizer(params->path[i], params);
        if (st == CERO_OK) {
            st = list_documents(params->path[i], &list);
        }
        if (st == CERO_OK) {
            st = encode_documents(&list, params, &sink, stats);
        }
        cero_file_list_cleanup(&list);
    }
    stats->tokens += c.tokens;
    return st;
}
