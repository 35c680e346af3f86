/* SPDX-License-Identifier: Apache-2.0 */
/* Philox4x32-10 and what is made of its words. */
#include "base/rng.h"

#include <math.h>

static uint64_t mix(uint64_t x)
{
    // The finaliser of SplitMix64 (Steele, Lea, Flood, OOPSLA 2014).
    x += 0x9E3779B97F4A7C15u;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
    return x ^ (x >> 31);
}

cero_rng_key cero_rng_make_key(uint64_t seed, cero_rng_stream stream, uint64_t a, uint64_t b)
{
    uint64_t h = mix(seed);

    h = mix(h ^ (uint64_t)stream);
    h = mix(h ^ a);
    h = mix(h ^ b);
    return (cero_rng_key){{(uint32_t)h, (uint32_t)(h >> 32)}};
}

void cero_rng_block(cero_rng_key key, uint64_t sample, uint64_t block, uint32_t out[4])
{
    uint32_t c0 = (uint32_t)block;
    uint32_t c1 = (uint32_t)(block >> 32);
    uint32_t c2 = (uint32_t)sample;
    uint32_t c3 = (uint32_t)(sample >> 32);
    uint32_t k0 = key.word[0];
    uint32_t k1 = key.word[1];

    for (int round = 0; round < 10; round++) {
        uint64_t p0 = (uint64_t)0xD2511F53u * c0;
        uint64_t p1 = (uint64_t)0xCD9E8D57u * c2;
        uint32_t n0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
        uint32_t n2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;

        c1 = (uint32_t)p1;
        c3 = (uint32_t)p0;
        c0 = n0;
        c2 = n2;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    out[0] = c0;
    out[1] = c1;
    out[2] = c2;
    out[3] = c3;
}

uint32_t cero_rng_word(cero_rng_key key, uint64_t sample, uint64_t element)
{
    uint32_t words[4];

    cero_rng_block(key, sample, element / 4, words);
    return words[element % 4];
}

float cero_rng_uniform_f32(uint32_t word)
{
    return (float)(word >> 8) * 0x1p-24f;
}

double cero_rng_uniform_f64(uint32_t high, uint32_t low)
{
    uint64_t bits = ((uint64_t)high << 32) | low;
    return ((double)(bits >> 12) + 0.5) * 0x1p-52;
}

void cero_rng_fill_normal(cero_rng_key key, int64_t begin, int64_t n, double mean, double std,
                          float *x)
{
    // Block i gives elements 2i and 2i+1, so any range can be filled alone.
    for (int64_t i = begin / 2; i < (begin + n + 1) / 2; i++) {
        uint32_t w[4];
        cero_rng_block(key, 0, (uint64_t)i, w);
        double radius = sqrt(-2.0 * log(cero_rng_uniform_f64(w[0], w[1])));
        double angle = 6.283185307179586 * cero_rng_uniform_f64(w[2], w[3]);
        double pair[2] = {radius * cos(angle), radius * sin(angle)};

        for (int64_t j = 0; j < 2; j++) {
            int64_t at = 2 * i + j - begin;
            if (at >= 0 && at < n) {
                x[at] = (float)(mean + std * pair[j]);
            }
        }
    }
}

uint64_t cero_rng_hash(const char *text)
{
    uint64_t h = 0xCBF29CE484222325u;

    for (const char *p = text; *p != '\0'; p++) {
        h = (h ^ (unsigned char)*p) * 0x100000001B3u;
    }
    return mix(h);
}
