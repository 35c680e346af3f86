/* SPDX-License-Identifier: Apache-2.0 */
/* The inside of a tokenizer, for the files of this folder. */
#ifndef CERO_DATA_TOKENIZER_TOKENIZER_IMPL_H
#define CERO_DATA_TOKENIZER_TOKENIZER_IMPL_H

#include "base/json.h"
#include "data/tokenizer.h"
#include "data/tokenizer/bpe.h"
#include "data/tokenizer/pattern.h"
#include "data/tokenizer/piece.h"

/* What a normalizer, pre-tokenizer or decoder step does. */
typedef enum cero_step_kind {
    CERO_STEP_NFC,
    CERO_STEP_PREPEND,     /* text before everything */
    CERO_STEP_REPLACE,     /* pattern by text */
    CERO_STEP_SPLIT,       /* pattern, behavior, is_inverted; match where the pattern is known */
    CERO_STEP_PREFIX,      /* a space before a piece that has none (ByteLevel) */
    CERO_STEP_DIGITS,      /* behavior */
    CERO_STEP_PUNCT,       /* behavior */
    CERO_STEP_WHITESPACE,  /* runs of word characters and runs of others */
    CERO_STEP_SPACE_SPLIT, /* cut at white space, which is dropped */
    CERO_STEP_METASPACE,   /* spaces become text; scheme */
    CERO_STEP_BYTE_LEVEL,  /* decoder */
    CERO_STEP_BYTE_FALLBACK
} cero_step_kind;

typedef enum cero_split_behavior {
    CERO_SPLIT_ISOLATED,
    CERO_SPLIT_REMOVED,
    CERO_SPLIT_PREVIOUS,
    CERO_SPLIT_NEXT,
    CERO_SPLIT_CONTIGUOUS
} cero_split_behavior;

typedef enum cero_prepend_scheme {
    CERO_PREPEND_ALWAYS,
    CERO_PREPEND_FIRST,
    CERO_PREPEND_NEVER
} cero_prepend_scheme;

typedef struct cero_step {
    cero_step_kind kind;
    cero_split_behavior behavior;
    cero_prepend_scheme scheme;
    bool is_inverted;
    bool is_whole;          /* METASPACE: replaces without cutting */
    cero_piece_match match; /* of a known pattern, which covers the whole text; else NULL */
    cero_pattern *pattern;  /* owned */
    char *text;             /* owned */
    size_t text_length;
    cero_text scratch; /* what this step wrote last */
} cero_step;

typedef struct cero_steps {
    cero_step *step; /* [count], owned */
    int64_t count;
    int64_t capacity;
} cero_steps;

void cero_steps_cleanup(cero_steps *steps);

/* A token that is found in the text before anything is split. */
typedef struct cero_added {
    int32_t id;
    bool is_single_word;
    bool strips_left;
    bool strips_right;
    bool is_normalized;
    bool is_special;
    char *text; /* owned, as written in the file */
    size_t length;
} cero_added;

typedef struct cero_added_node {
    int32_t added; /* index of the token that ends here, -1 */
    int32_t child;
    int32_t sibling;
    uint8_t byte;
} cero_added_node;

/* A set of added tokens as a trie; node 0 is the root. Zero-initialise. */
typedef struct cero_added_set {
    const cero_added *added; /* borrowed */
    cero_added_node *node;   /* [count], owned */
    int64_t count;
    int64_t capacity;
    int first_count; /* different first bytes */
    uint8_t first;   /* one of them */
    bool is_first[256];
} cero_added_set;

void cero_added_set_cleanup(cero_added_set *set);

/* Adds a text for added token `index`. Errors: NOMEM. */
CERO_NODISCARD cero_status cero_added_set_add(cero_added_set *set, const char *text, size_t length,
                                              int32_t index);

typedef struct cero_added_match {
    size_t begin;
    size_t stop;
    int32_t id;
} cero_added_match;

/* The first added token in text[from..length), the longest of several; false if there is none. */
bool cero_added_set_find(const cero_added_set *set, const uint8_t *text, size_t length, size_t from,
                         bool has_plain_special, cero_added_match *match);

struct cero_tokenizer {
    char *name;
    cero_bpe bpe;
    cero_bpe_state *state;
    cero_steps normalizer;
    cero_steps splitter;
    cero_added *added; /* [added_count], owned */
    int64_t added_count;
    int64_t added_capacity;
    cero_added_set raw_set;        /* found before normalizing */
    cero_added_set normalized_set; /* found after */
    cero_token_ids prefix;         /* what the post-processor puts before and after */
    cero_token_ids suffix;
    cero_steps decoder;
    int64_t strip_start; /* characters strip_char taken off the start of decoded text */
    char strip_char[5];
    bool strips_first_token; /* Metaspace: the first token loses its spaces */
    cero_text token_bytes;   /* decoded bytes of all tokens */
    cero_vocab_entry *token; /* [vocab_size], owned, into token_bytes */
    uint8_t *is_special;     /* [vocab_size], owned */
    int64_t vocab_size;
    int32_t eos;
    char *source; /* tokenizer.json as read, owned */
    size_t source_length;
    char *config; /* tokenizer_config.json as read, owned, or NULL */
    uint64_t hash;
};

/*
 * The bytes that a text of this length may become in a normalizer, a token's in a decoder: steps that replace one
 * after the other can make any length out of a few bytes.
 */
size_t cero_steps_room(size_t length);

/* Appends the normalized text. Errors: NOMEM; UNSUPPORTED for a pattern that gives up, or a text that grows out of
 * cero_steps_room. */
CERO_NODISCARD cero_status cero_tokenizer_normalize(cero_tokenizer *tokenizer, const uint8_t *bytes,
                                                    size_t length, cero_text *out);

/* True when normalizing surely changes nothing. */
bool cero_tokenizer_is_normal(const cero_tokenizer *tokenizer, const uint8_t *bytes, size_t length);

/* Receives the ids of the text so far; NULL sink means all are kept in ids. */
typedef struct cero_encoding {
    cero_tokenizer *tokenizer;
    cero_token_ids *ids;
    cero_token_sink sink;
    void *context;
    unsigned flags;
} cero_encoding;

/* Hands the ids to the sink when there are many. */
CERO_NODISCARD cero_status cero_encoding_flush(const cero_encoding *encoding);

/* Splits normalized text into pieces and encodes each. `is_start`: the text's first byte is here. */
CERO_NODISCARD cero_status cero_encoding_split(const cero_encoding *encoding, const uint8_t *bytes,
                                               size_t length, bool is_start);

/* Reading: each fills its part of the tokenizer from its section of the file. */
CERO_NODISCARD cero_status cero_load_steps(const cero_json *root, cero_tokenizer *tokenizer);
CERO_NODISCARD cero_status cero_load_decoder(const cero_json *value, cero_tokenizer *tokenizer);
CERO_NODISCARD cero_status cero_load_post(const cero_json *value, cero_tokenizer *tokenizer);
CERO_NODISCARD cero_status cero_load_added(const cero_json *list, cero_tokenizer *tokenizer);
CERO_NODISCARD cero_status cero_load_model(const cero_json *value, cero_tokenizer *tokenizer);

/* Runs the decoder over all tokens; call when model, added tokens and decoder are read. */
CERO_NODISCARD cero_status cero_tokenizer_build(cero_tokenizer *tokenizer);

/* Fields of a component. An absent one keeps what *out holds. */
CERO_NODISCARD cero_status cero_load_fields(const cero_json *object, const char *what,
                                            const char *const *known);
CERO_NODISCARD cero_status cero_load_bool(const cero_json *object, const char *key, bool *out);
CERO_NODISCARD cero_status cero_load_need(const cero_json *object, const char *key,
                                          cero_json_type type, const cero_json **out);
/* The id of a token of a file that has `count`. Errors: INVALID for one that is out of range. */
CERO_NODISCARD cero_status cero_load_check_id(const cero_json *place, int64_t id, int64_t count);

/* The value of "type"; the object is checked to be one. */
CERO_NODISCARD cero_status cero_load_type(const cero_json *value, const char *what,
                                          const char **out);
bool cero_json_is_text(const cero_json *value, const char *text);

/* Adds a step of this kind, cleared. Errors: NOMEM. */
CERO_NODISCARD cero_status cero_steps_add(cero_steps *steps, cero_step_kind kind, cero_step **out);

#endif
