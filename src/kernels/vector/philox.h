/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Philox4x32-10 for VEC_WIDTH blocks at once: the words of cero_rng_block, in element order.
 *
 * Included after the vec_<isa>.h of an instruction set, whose vec_int functions it uses.
 * There is no include guard: it is a template that each file compiles once with its own vectors.
 */
#include "base/rng.h"

enum {
    PHILOX_WORDS = 4 * VEC_WIDTH
};

/* out[4 b + j] = word j of block `block` + b, b < VEC_WIDTH */
KERNEL_INLINE void philox_words(cero_rng_key key, uint64_t sample, uint64_t block,
                                uint32_t out[PHILOX_WORDS])
{
    vec_int low = vec_int_set((uint32_t)block);
    vec_int c0 = vec_int_add(low, vec_int_interleave_order());
    vec_int c1 = vec_int_add_carry(vec_int_set((uint32_t)(block >> 32)), low, c0);
    vec_int c2 = vec_int_set((uint32_t)sample);
    vec_int c3 = vec_int_set((uint32_t)(sample >> 32));
    uint32_t k0 = key.word[0];
    uint32_t k1 = key.word[1];

    for (int round = 0; round < 10; round++) {
        vec_int high0;
        vec_int high1;
        vec_int low0 = vec_int_mul(c0, 0xD2511F53u, &high0);
        vec_int low1 = vec_int_mul(c2, 0xCD9E8D57u, &high1);

        c0 = vec_int_xor(vec_int_xor(high1, c1), vec_int_set(k0));
        c2 = vec_int_xor(vec_int_xor(high0, c3), vec_int_set(k1));
        c1 = low1;
        c3 = low0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    vec_int_store_interleaved(out, c0, c1, c2, c3);
}
