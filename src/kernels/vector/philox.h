/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Philox4x32-10 for VEC_WIDTH blocks at once: the words of cero_rng_block.
 *
 * Included after the vec_<isa>.h of an instruction set, whose vec_int functions it uses.
 * There is no include guard: it is a template that each file compiles once with its own vectors.
 */
#include "base/rng.h"

enum {
    PHILOX_WORDS = 4 * VEC_WIDTH
};

/* Lane l of word[j] = word j of the block whose number has the halves low and high in lane l. */
KERNEL_INLINE void philox_blocks(cero_rng_key key, uint64_t sample, vec_int low, vec_int high,
                                 vec_int word[4])
{
    vec_int c0 = low;
    vec_int c1 = high;
    vec_int c2 = vec_int_set((uint32_t)sample);
    vec_int c3 = vec_int_set((uint32_t)(sample >> 32));
    uint32_t k0 = key.word[0];
    uint32_t k1 = key.word[1];

    for (int round = 0; round < 10; round++) {
        vec_int high0;
        vec_int high1;
        vec_int low0 = vec_int_mul(c0, 0xD2511F53u, &high0);
        vec_int low1 = vec_int_mul(c2, 0xCD9E8D57u, &high1);

        c0 = vec_int_xor3(high1, c1, vec_int_set(k0));
        c2 = vec_int_xor3(high0, c3, vec_int_set(k1));
        c1 = low1;
        c3 = low0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    word[0] = c0;
    word[1] = c1;
    word[2] = c2;
    word[3] = c3;
}

/* out[4 b + j] = word j of block `block` + b, b < VEC_WIDTH: the words in element order */
KERNEL_INLINE void philox_words(cero_rng_key key, uint64_t sample, uint64_t block,
                                uint32_t out[PHILOX_WORDS])
{
    vec_int first = vec_int_set((uint32_t)block);
    vec_int low = vec_int_add(first, vec_int_interleave_order());
    vec_int high = vec_int_add_carry(vec_int_set((uint32_t)(block >> 32)), first, low);
    vec_int word[4];

    philox_blocks(key, sample, low, high, word);
    vec_int_store_interleaved(out, word[0], word[1], word[2], word[3]);
}
