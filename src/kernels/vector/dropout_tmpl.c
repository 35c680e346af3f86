/* SPDX-License-Identifier: Apache-2.0 */
/* Dropout whose mask is a function of the element's number, for one dtype. */

KERNEL_INLINE void FN(dropout_step)(int64_t m, const uint32_t *words, uint32_t threshold,
                                    float scale, const ELEMENT *x, ELEMENT *y)
{
    vec_mask is_kept = vec_int_reaches(vec_int_load(words), threshold);
    vec scaled = vec_set(scale) * LOAD_PART(x, m);
    STORE_PART(y, m, vec_select(is_kept, scaled, vec_set(0.0f)));
}

static void FN(dropout)(int64_t n, cero_rng_key key, uint64_t sample, uint64_t element,
                        uint32_t threshold, float scale, const void *x, void *y)
{
    const ELEMENT *from = x;
    ELEMENT *to = y;
    // The first round may start inside a block and a tail may look at words past its end.
    uint32_t words[PHILOX_WORDS + VEC_WIDTH] = {0};
    int64_t i = 0;

    while (i < n) {
        uint64_t at = element + (uint64_t)i;
        int64_t skip = (int64_t)(at % 4);
        int64_t m = PHILOX_WORDS - skip < n - i ? PHILOX_WORDS - skip : n - i;
        int64_t j = 0;

        philox_words(key, sample, at / 4, words);
        for (; j + VEC_WIDTH <= m; j += VEC_WIDTH) {
            FN(dropout_step)
            (VEC_WIDTH, words + skip + j, threshold, scale, from + i + j, to + i + j);
        }
        if (j < m) {
            FN(dropout_step)(m - j, words + skip + j, threshold, scale, from + i + j, to + i + j);
        }
        i += m;
    }
}

static void FN(fill)(cero_kernels *k)
{
    k->dropout[DTYPE_INDEX] = FN(dropout);
}
