/* SPDX-License-Identifier: Apache-2.0 */
/* Samples by position. The permutation is a balanced Feistel network, walked until it lands inside. */
#include "data/sampler.h"

#include "base/memory.h"
#include "base/rng.h"

#include <string.h>

enum {
    ROUNDS = 8
};

struct cero_sampler {
    cero_token_stream *stream; /* borrowed, outlives this */
    cero_sampler_params params;
    int64_t count;
    int32_t *window; /* [seq_len + 1], owned */
};

/* One pass over [0, 4^half_bits): left and right halves change places, mixed by Philox. */
static uint64_t feistel(uint64_t x, int half_bits, cero_rng_key key)
{
    uint64_t mask = (UINT64_C(1) << half_bits) - 1;
    uint64_t left = x >> half_bits;
    uint64_t right = x & mask;
    for (uint64_t round = 0; round < ROUNDS; round++) {
        uint32_t word[4];
        cero_rng_block(key, right, round, word);
        uint64_t mixed = left ^ (((uint64_t)word[0] << 32 | word[1]) & mask);
        left = right;
        right = mixed;
    }
    return left << half_bits | right;
}

int64_t cero_sampler_permute(int64_t x, int64_t n, uint64_t seed, int64_t epoch)
{
    CERO_ASSERT(n >= 1 && x >= 0 && x < n);
    cero_rng_key key = cero_rng_make_key(seed, CERO_RNG_SHUFFLE, (uint64_t)epoch, 0);
    int half_bits = 1;
    while (half_bits < 31 && (INT64_C(1) << 2 * half_bits) < n) {
        half_bits++;
    }
    if ((INT64_C(1) << 2 * half_bits) < n) {
        half_bits = 32;
    }
    // The domain is below 4n, so that four passes are expected at most; each cycle meets [0, n) again.
    uint64_t y = (uint64_t)x;
    do {
        y = feistel(y, half_bits, key);
    } while (y >= (uint64_t)n);
    return (int64_t)y;
}

cero_status cero_sampler_create(cero_token_stream *stream, const cero_sampler_params *params,
                                cero_sampler **out)
{
    int64_t total = cero_token_stream_count(stream);
    CERO_CHECK(params->seq_len >= 1 && params->seq_len < INT64_MAX / 8, CERO_ERR_INVALID,
               "the sequence length is %lld, expected 1 or more", (long long)params->seq_len);
    CERO_CHECK(total > params->seq_len, CERO_ERR_INVALID,
               "the data are too short for one sample: %lld tokens found, %lld needed for a "
               "sequence length of %lld; give more text or a smaller --seq-len",
               (long long)total, (long long)params->seq_len + 1, (long long)params->seq_len);
    cero_sampler *sampler = cero_new(1, sizeof(*sampler));
    if (sampler != NULL) {
        sampler->window = cero_new((size_t)params->seq_len + 1, sizeof(sampler->window[0]));
    }
    if (sampler == NULL || sampler->window == NULL) {
        cero_sampler_destroy(&sampler);
        return CERO_FAIL(CERO_ERR_NOMEM, "no memory for a sampler of %lld tokens",
                         (long long)params->seq_len);
    }
    sampler->stream = stream;
    sampler->params = *params;
    sampler->count = (total - 1) / params->seq_len;
    *out = sampler;
    return CERO_OK;
}

void cero_sampler_destroy(cero_sampler **sampler)
{
    if (sampler != NULL && *sampler != NULL) {
        cero_delete((*sampler)->window);
        cero_delete(*sampler);
        *sampler = NULL;
    }
}

int64_t cero_sampler_count(const cero_sampler *sampler)
{
    return sampler->count;
}

int64_t cero_sampler_unused_tokens(const cero_sampler *sampler)
{
    return cero_token_stream_count(sampler->stream) -
           (sampler->count * sampler->params.seq_len + 1);
}

void cero_sampler_locate(const cero_sampler *sampler, int64_t index, int64_t *epoch,
                         int64_t *sample)
{
    CERO_ASSERT(index >= 0);
    *epoch = index / sampler->count;
    *sample = index % sampler->count;
    if (sampler->params.order == CERO_SAMPLER_SHUFFLED) {
        *sample = cero_sampler_permute(*sample, sampler->count, sampler->params.seed, *epoch);
    }
}

cero_status cero_sampler_get(cero_sampler *sampler, int64_t index, int32_t *inputs,
                             int32_t *targets)
{
    int64_t length = sampler->params.seq_len;
    int64_t epoch;
    int64_t sample;
    CERO_CHECK(index >= 0, CERO_ERR_INVALID, "sample position %lld is negative", (long long)index);
    cero_sampler_locate(sampler, index, &epoch, &sample);
    CERO_TRY(cero_token_stream_read(sampler->stream, sample * length, length + 1, sampler->window));
    memcpy(inputs, sampler->window, (size_t)length * sizeof(inputs[0]));
    memcpy(targets, sampler->window + 1, (size_t)length * sizeof(targets[0]));
    return CERO_OK;
}
