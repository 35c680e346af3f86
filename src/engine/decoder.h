/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Generation: a model compiled for one sequence with a key/value cache.
 *
 * Two programs share parameters and cache: one takes a block of the prompt at once, the other one token.
 */
#ifndef CERO_ENGINE_DECODER_H
#define CERO_ENGINE_DECODER_H

#include "engine/engine.h"

typedef struct cero_decoder cero_decoder;

typedef struct cero_decoder_params {
    cero_build build;    /* required; called with CERO_MODEL_DECODE */
    const void *context; /* given to build; borrowed, outlives the decoder */
    cero_dtype dtype;    /* of parameters, activations and cache */
    int64_t cache_len;   /* most positions; required */
} cero_decoder_params;

/* Errors: what the model reports, NOMEM. Not collective. */
CERO_NODISCARD cero_status cero_decoder_create(cero_context *context,
                                               const cero_decoder_params *params,
                                               cero_decoder **out);
void cero_decoder_destroy(cero_decoder **decoder);

/* Parameters in canonical order, and their setter (f32 in). Not collective. */
int64_t cero_decoder_param_count(const cero_decoder *decoder);
cero_param_info cero_decoder_param_info(const cero_decoder *decoder, int64_t i);
CERO_NODISCARD cero_status cero_decoder_set_param(cero_decoder *decoder, int64_t i, int64_t begin,
                                                  int64_t n, const float *values);

/*
 * Appends tokens to the sequence; *logits [vocab] f32 are those after the last one, valid until the next call.
 * Errors: INVALID when the cache is full or a token is outside the vocabulary. Not collective.
 */
CERO_NODISCARD cero_status cero_decoder_append(cero_decoder *decoder, const int32_t *tokens,
                                               int64_t count, const float **logits);

/* Positions in the cache now, and entries of the vocabulary. Not collective. */
int64_t cero_decoder_length(const cero_decoder *decoder);
int64_t cero_decoder_vocab(const cero_decoder *decoder);

/* Forgets the sequence from position `length` on. Not collective. */
void cero_decoder_truncate(cero_decoder *decoder, int64_t length);

/* Bytes that one more token must read: parameters used, without the unread rows of tables. Not collective. */
double cero_decoder_bytes_per_token(const cero_decoder *decoder);

#endif
