/* SPDX-License-Identifier: Apache-2.0 */
/* The token texts of a tokenizer: id to text and text to id. */
#ifndef CERO_DATA_TOKENIZER_VOCAB_H
#define CERO_DATA_TOKENIZER_VOCAB_H

#include "base/text.h"

enum {
    CERO_VOCAB_MAX = 16777216 /* ids above are taken for a mistake in the file */
};

/* What ids of a file with `count` tokens must be below: gaps are allowed, tables of a size nothing explains not. */
int64_t cero_vocab_id_limit(int64_t count);

typedef struct cero_vocab_entry {
    int64_t offset; /* into text; -1 when no token has this id */
    int64_t length;
} cero_vocab_entry;

/* Zero-initialise. */
typedef struct cero_vocab {
    cero_text text;          /* all texts, one after the other */
    cero_vocab_entry *entry; /* [size], owned */
    int64_t size;            /* largest id + 1 */
    int64_t capacity;
    int64_t count; /* ids that have a token */
    int32_t *slot; /* [slot_count], id + 1 by hash of the text, owned */
    int64_t slot_count;
} cero_vocab;

void cero_vocab_cleanup(cero_vocab *vocab);

/* Errors: CORRUPT when the id or the text is taken already or the id is out of range; NOMEM. */
CERO_NODISCARD cero_status cero_vocab_add(cero_vocab *vocab, int64_t id, const char *text,
                                          size_t length);

/* The id of a text, -1 if there is none. */
int32_t cero_vocab_find(const cero_vocab *vocab, const char *text, size_t length);

/* The text of an id, NULL if no token has it. Not terminated. */
const char *cero_vocab_text(const cero_vocab *vocab, int64_t id, size_t *length);

#endif
