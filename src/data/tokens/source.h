/* SPDX-License-Identifier: Apache-2.0 */
/* One source of a token stream: ids of one type, one after the other, mapped or in memory. */
#ifndef CERO_DATA_TOKENS_SOURCE_H
#define CERO_DATA_TOKENS_SOURCE_H

#include "base/file.h"
#include "data/tokens.h"

typedef enum cero_token_type {
    CERO_TOKEN_U8,
    CERO_TOKEN_I8,
    CERO_TOKEN_U16,
    CERO_TOKEN_I16,
    CERO_TOKEN_U32,
    CERO_TOKEN_I32,
    CERO_TOKEN_U64,
    CERO_TOKEN_I64
} cero_token_type;

/* Zero-initialise. */
typedef struct cero_token_source {
    char *path; /* owned, for messages */
    cero_file_map map;
    cero_token_ids memory;     /* the ids, when there is no file */
    const unsigned char *data; /* view into map or memory; may be unaligned */
    int64_t offset;            /* bytes before data in the file */
    cero_token_type type;
    int64_t count;
    int64_t begin; /* position of its first token in the stream */
    int64_t documents;
    int64_t empty_documents;
} cero_token_source;

int cero_token_type_width(cero_token_type type);

/* Cleans up what any of the opening functions below made, also after an error. */
void cero_token_source_cleanup(cero_token_source *source);

/* Maps a file and remembers its name. Errors: IO; INVALID for an empty one. */
CERO_NODISCARD cero_status cero_token_source_map(const char *path, cero_token_source *source);

/* `prefix`.bin described by `prefix`.idx. */
CERO_NODISCARD cero_status cero_token_source_megatron(const char *prefix,
                                                      cero_token_source *source);

/* Raw little-endian ids of a type. */
CERO_NODISCARD cero_status cero_token_source_raw(const char *path, cero_token_type type,
                                                 cero_token_source *source);

CERO_NODISCARD cero_status cero_token_source_npy(const char *path, cero_token_source *source);

/*
 * What the bytes of an .idx say: the type of the ids and how many bytes of them the .bin must have. `path` is for
 * messages. Errors: CORRUPT with place, found and expected.
 */
CERO_NODISCARD cero_status cero_token_idx_parse(const char *path, const unsigned char *bytes,
                                                size_t length, cero_token_type *type,
                                                int64_t *bin_bytes);

/*
 * Sets type, offset, data (a view into the bytes) and count of `source` by the bytes of a .npy. `path` is for
 * messages. Errors: CORRUPT, UNSUPPORTED.
 */
CERO_NODISCARD cero_status cero_token_npy_parse(const char *path, const unsigned char *bytes,
                                                size_t length, cero_token_source *source);

/* A text file or a directory of them, tokenized now or found in the cache. */
CERO_NODISCARD cero_status cero_token_source_text(const char *path,
                                                  const cero_token_stream_params *params,
                                                  cero_token_source *source);

/* True when the name says that the file holds tokens (.bin .idx .u16 .u32 .npy). */
bool cero_token_name_is_binary(const char *path);
bool cero_token_name_ends(const char *path, const char *suffix);

#endif
