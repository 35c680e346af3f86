/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Token data: text, Megatron .bin/.idx, raw .u16/.u32 and .npy as one stream of token ids, and the
 * writers of the three binary formats.
 *
 * A stream is its sources one after the other. Binary files are mapped and not copied; offsets are 64
 * bits wide. Ids are compared with the vocabulary each time they are read. Text is tokenized once and
 * kept in a cache file whose name is a hash of the texts, the tokenizer and the switches. Nothing
 * here is collective.
 */
#ifndef CERO_DATA_TOKENS_H
#define CERO_DATA_TOKENS_H

#include "data/tokenizer.h"

typedef struct cero_token_stream cero_token_stream;

typedef struct cero_token_stream_params {
    const char *const *path; /* [path_count], borrowed for the call */
    int64_t path_count;
    int64_t vocab_size;        /* of the model; ids must be below. 0: not compared */
    cero_tokenizer *tokenizer; /* borrowed for the call; compulsory for text only */
    const char *cache_dir;     /* where tokenized text is kept; NULL keeps it in memory */
    bool no_eod;               /* no end-of-document token after each document */
    bool no_special;           /* the text of special tokens is ordinary text */
} cero_token_stream_params;

/*
 * Opens the sources in order. What a path is follows from its name: NAME.bin or NAME.idx (both must be
 * there), NAME with both beside it, .u16, .u32, .npy, a directory of text files (recursively, sorted,
 * one document each), or a text file (one document).
 *
 * Post-processor specials (BOS) are never added: the end-of-document token is the only one. A document
 * without bytes is counted and gives no token.
 *
 * Errors: IO, NOMEM; CORRUPT for a file whose contents are wrong, INVALID for text without tokenizer,
 * a tokenizer with ids beyond vocab_size or without an end-of-document token, and no token at all.
 */
CERO_NODISCARD cero_status cero_token_stream_open(const cero_token_stream_params *params,
                                                  cero_token_stream **out);
void cero_token_stream_close(cero_token_stream **stream);

/* Tokens in all sources. */
int64_t cero_token_stream_count(const cero_token_stream *stream);

/* Text documents, and how many of them were empty (0 for binary sources). */
int64_t cero_token_stream_documents(const cero_token_stream *stream);
int64_t cero_token_stream_empty_documents(const cero_token_stream *stream);

/*
 * Reads tokens begin .. begin+n. Allocates nothing.
 * Errors: INVALID for a range outside the stream; CORRUPT for an id that is negative or not below
 * vocab_size, with file, byte offset, id and vocabulary.
 */
CERO_NODISCARD cero_status cero_token_stream_read(cero_token_stream *stream, int64_t begin,
                                                  int64_t n, int32_t *out);

typedef enum cero_token_format {
    CERO_TOKENS_MEGATRON = 0, /* PATH.bin and PATH.idx, one sequence per document */
    CERO_TOKENS_U16 = 1,
    CERO_TOKENS_U32 = 2,
    CERO_TOKENS_NPY = 3 /* kept in memory until commit: its header holds the count */
} cero_token_format;

typedef struct cero_token_writer cero_token_writer;

/*
 * Opens a writer. Nothing appears under `path` before commit. Megatron and .npy files hold 16-bit
 * unsigned ids when vocab_size < 65500 and 32-bit signed ones otherwise.
 * Errors: IO, NOMEM, INVALID (vocab_size < 1).
 */
CERO_NODISCARD cero_status cero_token_writer_open(const char *path, cero_token_format format,
                                                  int64_t vocab_size, cero_token_writer **out);

/* Appends ids of the document at hand. Errors: IO; INVALID for an id outside the vocabulary. */
CERO_NODISCARD cero_status cero_token_writer_add(cero_token_writer *writer, const int32_t *ids,
                                                 int64_t count);

/* Ends the document at hand, if it has tokens. */
CERO_NODISCARD cero_status cero_token_writer_end_document(cero_token_writer *writer);

/* Ends the last document and makes the files appear. */
CERO_NODISCARD cero_status cero_token_writer_commit(cero_token_writer *writer);

/* Closes; without commit nothing is left behind. */
void cero_token_writer_close(cero_token_writer **writer);

/* What a text document went through on its way into tokens. */
typedef struct cero_token_stats {
    int64_t documents;
    int64_t empty_documents;
    int64_t bytes;
    int64_t tokens; /* end-of-document tokens included */
} cero_token_stats;

/*
 * Tokenizes text files and directories of them into a writer, a document each, by the rules of
 * cero_token_stream_open (path, tokenizer, no_eod, no_special are used). Adds to *stats.
 */
CERO_NODISCARD cero_status cero_tokenize_files(const cero_token_stream_params *params,
                                               cero_token_writer *writer, cero_token_stats *stats);

#endif
