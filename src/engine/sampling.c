/* SPDX-License-Identifier: Apache-2.0 */
/* Sorts the logits once, cuts the tail, and walks the cumulative probabilities. */
#include "engine/sampling.h"

#include "base/rng.h"

#include <math.h>
#include <stdlib.h>

/* Likeliest first; of equals the smaller id, so that the order is total. */
static int compare(const void *a, const void *b)
{
    const cero_sampling_entry *x = a;
    const cero_sampling_entry *y = b;

    if (x->logit != y->logit) {
        return x->logit > y->logit ? -1 : 1;
    }
    return x->token < y->token ? -1 : x->token > y->token;
}

static int64_t collect(const float *logits, int64_t vocab, cero_sampling_entry *entries)
{
    int64_t count = 0;

    for (int64_t i = 0; i < vocab; i++) {
        if (!isnan(logits[i])) {
            entries[count++] = (cero_sampling_entry){.logit = logits[i], .token = (int32_t)i};
        }
    }
    return count;
}

static int32_t likeliest(const cero_sampling_entry *entries, int64_t count)
{
    int64_t best = 0;

    for (int64_t i = 1; i < count; i++) {
        if (entries[i].logit > entries[best].logit) {
            best = i;
        }
    }
    return entries[best].token;
}

static double weight_of(const cero_sampling *s, const cero_sampling_entry *entries, int64_t i)
{
    return exp(((double)entries[i].logit - (double)entries[0].logit) / s->temperature);
}

cero_status cero_sampling_choose(const cero_sampling *sampling, int64_t position,
                                 const float *logits, int64_t vocab, cero_sampling_entry *scratch,
                                 int32_t *token)
{
    int64_t count = collect(logits, vocab, scratch);
    double total = 0;

    if (count == 0) {
        return CERO_FAIL(CERO_ERR_NUMERIC,
                         "position %lld: none of %lld logits is a number; the weights are broken",
                         (long long)position, (long long)vocab);
    }
    if (sampling->temperature <= 0) {
        *token = likeliest(scratch, count);
        return CERO_OK;
    }
    qsort(scratch, (size_t)count, sizeof(*scratch), compare);
    if (sampling->top_k > 0 && sampling->top_k < count) {
        count = sampling->top_k;
    }
    for (int64_t i = 0; i < count; i++) {
        total += weight_of(sampling, scratch, i);
    }
    if (sampling->top_p > 0 && sampling->top_p < 1) {
        double kept = 0;
        int64_t i = 0;
        while (i < count && kept < sampling->top_p * total) {
            kept += weight_of(sampling, scratch, i++);
        }
        count = i;
        total = kept;
    }
    uint32_t words[4];
    cero_rng_block(cero_rng_make_key(sampling->seed, CERO_RNG_SAMPLE, (uint64_t)position, 0), 0, 0,
                   words);
    double target = cero_rng_uniform_f64(words[0], words[1]) * total;
    int64_t chosen = 0;
    double sum = weight_of(sampling, scratch, 0);
    while (chosen + 1 < count && sum < target) {
        sum += weight_of(sampling, scratch, ++chosen);
    }
    *token = scratch[chosen].token;
    return CERO_OK;
}
