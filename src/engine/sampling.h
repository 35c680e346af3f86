/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Choosing the next token from logits: temperature, top-k, top-p (nucleus sampling, Holtzman et al. 2020),
 * in that order, as Hugging Face's generate does. The choice is a function of (seed, position, logits).
 */
#ifndef CERO_ENGINE_SAMPLING_H
#define CERO_ENGINE_SAMPLING_H

#include "base/status.h"

typedef struct cero_sampling {
    double temperature; /* 0: the likeliest token, the first of equals */
    int64_t top_k;      /* keep the k likeliest; 0: all */
    double top_p;       /* keep the likeliest until their probabilities reach this; 0 or 1: all */
    uint64_t seed;
} cero_sampling;

/* One entry of the scratch that cero_sampling_choose sorts. */
typedef struct cero_sampling_entry {
    float logit;
    int32_t token;
} cero_sampling_entry;

/*
 * Chooses a token. `scratch` has `vocab` entries. NaN logits are never chosen. Not collective.
 * Errors: NUMERIC when no logit is a number.
 */
CERO_NODISCARD cero_status cero_sampling_choose(const cero_sampling *sampling, int64_t position,
                                                const float *logits, int64_t vocab,
                                                cero_sampling_entry *scratch, int32_t *token);

#endif
