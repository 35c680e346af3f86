/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Byte-pair merging: a piece of text to token ids, by the ranks of a merge list.
 *
 * The model is constant after loading; what changes while encoding (scratch and the cache of short
 * pieces) lives in cero_bpe_state, one per thread.
 */
#ifndef CERO_DATA_TOKENIZER_BPE_H
#define CERO_DATA_TOKENIZER_BPE_H

#include "data/tokenizer.h"
#include "data/tokenizer/vocab.h"

/* A slot of the merge table: open addressing, key UINT64_MAX is free. */
typedef struct cero_bpe_merge {
    uint64_t key; /* left id << 32 | right id */
    uint32_t rank;
    uint32_t id; /* of the merged token */
} cero_bpe_merge;

/* Zero-initialise, then cero_bpe_init, cero_bpe_add_merge for each, cero_bpe_set_bytes. */
typedef struct cero_bpe {
    cero_vocab vocab;
    cero_bpe_merge *merge; /* [merge_slots], owned */
    int64_t merge_slots;
    int32_t *result; /* [merge_count], id of the merged token by rank, owned */
    int64_t merge_count;
    bool is_byte_level;    /* symbols are bytes in the byte alphabet, else characters */
    bool ignore_merges;    /* a piece that is a token is that token */
    bool byte_fallback;    /* a character without token becomes its <0xNN> bytes */
    bool fuse_unk;         /* neighbouring unknowns become one */
    int32_t unk_id;        /* -1: an unknown symbol is an error */
    int32_t byte_id[256];  /* token of a byte in the byte alphabet, -1 if none */
    int32_t fallback[256]; /* token <0xNN>, -1 if none */
} cero_bpe;

typedef struct cero_bpe_state cero_bpe_state;

/* Makes room for the merges. Errors: NOMEM. */
CERO_NODISCARD cero_status cero_bpe_init(cero_bpe *bpe, int64_t merge_count);
void cero_bpe_cleanup(cero_bpe *bpe);

/* Adds merge `rank`; a later merge of the same pair replaces an earlier one. */
void cero_bpe_add_merge(cero_bpe *bpe, int32_t left, int32_t right, int64_t rank, int32_t id);

/* Looks the tokens of single bytes up; call when the vocabulary is complete. */
void cero_bpe_set_bytes(cero_bpe *bpe);

CERO_NODISCARD cero_status cero_bpe_state_create(cero_bpe_state **out);
void cero_bpe_state_destroy(cero_bpe_state **state);

/*
 * Appends the ids of one piece.
 *
 * `readable` is how many bytes may be read from `piece` on (>= length); no more than 16 are used.
 * Errors: INVALID for a symbol without token, NOMEM.
 */
CERO_NODISCARD cero_status cero_bpe_encode(const cero_bpe *bpe, cero_bpe_state *state,
                                           const uint8_t *piece, size_t length, size_t readable,
                                           cero_token_ids *out);

/* The byte alphabet of ByteLevel: every byte as a printable code point, and back (-1 if not in it). */
uint32_t cero_byte_to_char(uint8_t byte);
int cero_char_to_byte(uint32_t cp);

/* Appends the bytes a byte-level text stands for; false (and nothing) if a character is foreign. */
bool cero_byte_level_decode(const char *text, size_t length, cero_text *out);

#endif
