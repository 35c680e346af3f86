/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Training samples from a token stream: sample k is tokens[k*T .. k*T+T], T inputs and T targets
 * shifted by one.
 *
 * The order is sequential, or a permutation of each epoch that needs no memory: a Feistel network
 * over Philox with cycle walking, keyed by seed and epoch. A position is one number, the samples
 * consumed so far; what sample it means is a pure function of it, so that resuming is exact and
 * ranks agree without talking. Epochs follow each other without a gap: no sample is dropped at the
 * end of one, and each is used once per epoch. Nothing here is collective.
 */
#ifndef CERO_DATA_SAMPLER_H
#define CERO_DATA_SAMPLER_H

#include "data/tokens.h"

typedef struct cero_sampler cero_sampler;

typedef enum cero_sampler_order {
    CERO_SAMPLER_SHUFFLED = 0,
    CERO_SAMPLER_SEQUENTIAL = 1
} cero_sampler_order;

typedef struct cero_sampler_params {
    int64_t seq_len; /* T, compulsory */
    cero_sampler_order order;
    uint64_t seed; /* of the shuffle */
} cero_sampler_params;

/*
 * Creates a sampler; the stream is borrowed and outlives it.
 *
 * Errors: INVALID when seq_len < 1, or the stream has fewer than T+1 tokens (both numbers are named).
 */
CERO_NODISCARD cero_status cero_sampler_create(cero_token_stream *stream,
                                               const cero_sampler_params *params,
                                               cero_sampler **out);
void cero_sampler_destroy(cero_sampler **sampler);

/* Samples of one epoch. */
int64_t cero_sampler_count(const cero_sampler *sampler);

/* Tokens at the end of the stream that are in no sample, neither as input nor as target. */
int64_t cero_sampler_unused_tokens(const cero_sampler *sampler);

/* The epoch and the sample in the stream that position `index` (>= 0) means. */
void cero_sampler_locate(const cero_sampler *sampler, int64_t index, int64_t *epoch,
                         int64_t *sample);

/*
 * Reads the sample at position `index`: inputs[T] and targets[T]. Allocates nothing.
 * Errors: INVALID for an id outside the vocabulary, with file, offset, id.
 */
CERO_NODISCARD cero_status cero_sampler_get(cero_sampler *sampler, int64_t index, int32_t *inputs,
                                            int32_t *targets);

/*
 * Where `x` goes in the permutation of [0, n) of a seed and an epoch; a bijection for every n >= 1.
 * The numbers are part of the format of checkpoints: a saved position means the same sample for ever.
 */
int64_t cero_sampler_permute(int64_t x, int64_t n, uint64_t seed, int64_t epoch);

#endif
