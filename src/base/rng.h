/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random numbers as a pure function of where they are used: Philox4x32-10 (Salmon et al., "Parallel
 * random numbers: as easy as 1, 2, 3", SC 2011), never a running state.
 *
 * A key names the use (seed, stream, and two words such as step and operation); a counter names the
 * place (global sample, block of four elements). The same key and counter give the same four words
 * on every rank, thread count and instruction set.
 */
#ifndef CERO_BASE_RNG_H
#define CERO_BASE_RNG_H

#include "base/status.h"

/* What the numbers are for: no two uses share a stream. */
typedef enum cero_rng_stream {
    CERO_RNG_INIT = 1,    /* initial weights: a = hash of the tensor's name */
    CERO_RNG_DROPOUT = 2, /* a = step, b = operation in the program */
    CERO_RNG_SHUFFLE = 3, /* a = epoch */
    CERO_RNG_SAMPLE = 4,  /* text generation: a = position */
    CERO_RNG_TEST = 5
} cero_rng_stream;

typedef struct cero_rng_key {
    uint32_t word[2];
} cero_rng_key;

/* Mixes the words into a key; different inputs give unrelated keys. */
cero_rng_key cero_rng_make_key(uint64_t seed, cero_rng_stream stream, uint64_t a, uint64_t b);

/* Four words for block `block` (elements 4*block .. 4*block+3) of sample `sample`. */
void cero_rng_block(cero_rng_key key, uint64_t sample, uint64_t block, uint32_t out[4]);

/* One word: element `element` of sample `sample`. Slow; for single draws. */
uint32_t cero_rng_word(cero_rng_key key, uint64_t sample, uint64_t element);

/* A word as a float in [0, 1) with 24 bits, and as a double in (0, 1) from two words with 52. */
float cero_rng_uniform_f32(uint32_t word);
double cero_rng_uniform_f64(uint32_t high, uint32_t low);

/* Fills x[0..n) with N(mean, std²) for elements begin..begin+n of a tensor (Box-Muller, in double). */
void cero_rng_fill_normal(cero_rng_key key, int64_t begin, int64_t n, double mean, double std,
                          float *x);

/* 64-bit FNV-1a of text, finalised; names tensors in CERO_RNG_INIT. */
uint64_t cero_rng_hash(const char *text);

#endif
