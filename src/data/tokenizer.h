/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tokenizers: a Hugging Face tokenizer.json of the BPE kind (GPT-2, Llama and Qwen families), text to
 * token ids and back.
 *
 * The pipeline the file declares is what runs: added tokens, normalizer, pre-tokenizer, model,
 * post-processor, decoder. A component or a field that is not known is an error with its place,
 * never skipped. Bytes in, bytes out: line ends are not touched, and bytes that are not UTF-8 form
 * pieces of their own (a run of them is one piece), so decode(encode(x)) = x for a byte-level file
 * without normalizer. With NFC (Qwen), decode(encode(x)) = NFC(x).
 *
 * A tokenizer is used by one thread at a time (it owns the scratch memory and the piece cache).
 * Nothing here is collective.
 */
#ifndef CERO_DATA_TOKENIZER_H
#define CERO_DATA_TOKENIZER_H

#include "base/text.h"

typedef struct cero_tokenizer cero_tokenizer;

/* Growing list of token ids. Zero-initialise. */
typedef struct cero_token_ids {
    int32_t *id; /* [capacity], owned */
    int64_t count;
    int64_t capacity;
} cero_token_ids;

void cero_token_ids_cleanup(cero_token_ids *ids);

/* Makes room for `more` further ids. Errors: NOMEM. */
CERO_NODISCARD cero_status cero_token_ids_reserve(cero_token_ids *ids, int64_t more);

typedef enum cero_encode_flags {
    CERO_ENCODE_PLAIN_SPECIAL = 1, /* the text of special tokens is ordinary text */
    CERO_ENCODE_ADD_SPECIAL = 2    /* add what the post-processor adds (BOS, EOS) */
} cero_encode_flags;

typedef enum cero_decode_flags {
    CERO_DECODE_SKIP_SPECIAL = 1, /* special tokens give no text */
    CERO_DECODE_CONTINUE = 2      /* these ids follow others: strip no leading space */
} cero_decode_flags;

/*
 * Opens `path`: a tokenizer.json, or a directory that holds one. A tokenizer_config.json beside it
 * names the end-of-sequence token.
 *
 * Errors: IO, NOMEM; CORRUPT or UNSUPPORTED with file:line:column.
 */
CERO_NODISCARD cero_status cero_tokenizer_open(const char *path, cero_tokenizer **out);

/*
 * The same from memory. `name` is used in messages; `config` is the text of tokenizer_config.json or
 * NULL. The texts are copied.
 */
CERO_NODISCARD cero_status cero_tokenizer_parse(const char *name, const char *json, size_t length,
                                                const char *config, cero_tokenizer **out);

void cero_tokenizer_destroy(cero_tokenizer **tokenizer);

/* Writes tokenizer.json (and tokenizer_config.json, if there was one), as read, into a directory. */
CERO_NODISCARD cero_status cero_tokenizer_save(const cero_tokenizer *tokenizer, const char *dir);

/*
 * Appends the ids of a text; `flags` are of cero_encode_flags.
 * Errors: INVALID (a symbol without token), UNSUPPORTED (a pattern's limit), NOMEM; `out` then holds
 * an undefined number of further ids.
 */
CERO_NODISCARD cero_status cero_tokenizer_encode(cero_tokenizer *tokenizer, const void *bytes,
                                                 size_t length, unsigned flags,
                                                 cero_token_ids *out);

/* Receives ids as they come. */
typedef cero_status (*cero_token_sink)(void *context, const int32_t *ids, int64_t count);

/*
 * As encode, handing the ids to `sink` in portions, so that memory is bounded by a piece of text (with a
 * normalizer that changes the text: by the text).
 */
CERO_NODISCARD cero_status cero_tokenizer_encode_to(cero_tokenizer *tokenizer, const void *bytes,
                                                    size_t length, unsigned flags,
                                                    cero_token_sink sink, void *context);

/*
 * Appends the bytes of the ids; `flags` are of cero_decode_flags. Bytes are appended as they are: the
 * end of `out` may be half of a character until the next id.
 * Errors: INVALID with position, id and vocabulary; NOMEM.
 */
CERO_NODISCARD cero_status cero_tokenizer_decode(const cero_tokenizer *tokenizer,
                                                 const int32_t *ids, int64_t count, unsigned flags,
                                                 cero_text *out);

/* How many bytes at the start of `bytes` are whole characters: what streaming output may print now. */
size_t cero_tokenizer_printable(const void *bytes, size_t length);

/* The bytes of one token (a view, not terminated), NULL when no token has this id. */
const char *cero_tokenizer_token(const cero_tokenizer *tokenizer, int64_t id, size_t *length);

/* The id of the token with this text as written in the file, -1 if there is none. */
int32_t cero_tokenizer_find(const cero_tokenizer *tokenizer, const char *text);

/* Largest id + 1, added tokens included. */
int64_t cero_tokenizer_vocab_size(const cero_tokenizer *tokenizer);

/*
 * The end-of-document token: eos_token of tokenizer_config.json, else "<|endoftext|>",
 * "<|end_of_text|>" or "</s>" where the file has it, else -1.
 */
int32_t cero_tokenizer_eos(const cero_tokenizer *tokenizer);

/* True for an added token marked special. */
bool cero_tokenizer_is_special(const cero_tokenizer *tokenizer, int64_t id);

/* A hash of the file's bytes, the key of caches. */
uint64_t cero_tokenizer_hash(const cero_tokenizer *tokenizer);

#endif
