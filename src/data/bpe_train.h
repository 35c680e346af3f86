/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Training a byte-level BPE tokenizer on texts (Sennrich et al., "Neural machine translation of rare
 * words with subword units", ACL 2016; bytes as in GPT-2).
 *
 * Ids: 256 bytes in the order of the byte alphabet, then merges in the order found, then
 * "<|endoftext|>" as the last. The same texts give the same file: the pair of highest count is merged,
 * of several the one with the smallest ids. Not collective; one thread.
 */
#ifndef CERO_DATA_BPE_TRAIN_H
#define CERO_DATA_BPE_TRAIN_H

#include "data/tokenizer.h"

typedef struct cero_bpe_trainer cero_bpe_trainer;

typedef struct cero_bpe_train_params {
    int64_t vocab_size; /* compulsory, 257 or more */
    int64_t min_count;  /* pairs seen less often are not merged; 0 means 2 */
} cero_bpe_train_params;

/* Errors: INVALID for a vocabulary below 257 or above 2^24, NOMEM. */
CERO_NODISCARD cero_status cero_bpe_trainer_create(const cero_bpe_train_params *params,
                                                   cero_bpe_trainer **out);
void cero_bpe_trainer_destroy(cero_bpe_trainer **trainer);

/*
 * Counts the pieces of a text; texts are read once and not kept. The text of the special token
 * separates, and is not trained on.
 */
CERO_NODISCARD cero_status cero_bpe_trainer_add(cero_bpe_trainer *trainer, const void *bytes,
                                                size_t length);

/*
 * Finds the merges and makes the tokenizer, which is what cero_tokenizer_save then writes. Its
 * vocabulary is smaller than asked when the texts have no more pairs to merge. Call once.
 * Errors: INVALID without any text, NOMEM.
 */
CERO_NODISCARD cero_status cero_bpe_trainer_finish(cero_bpe_trainer *trainer, cero_tokenizer **out);

#endif
