/* SPDX-License-Identifier: Apache-2.0 */
/* Dropout whose mask is a function of the element's number, for one dtype. */

static void FN(dropout)(int64_t n, cero_rng_key key, uint64_t sample, uint64_t element,
                        uint32_t threshold, float scale, const void *x, void *y)
{
    const ELEMENT *from = x;
    ELEMENT *to = y;
    uint32_t words[4] = {0};

    for (int64_t i = 0; i < n; i++) {
        uint64_t at = element + (uint64_t)i;

        if (i == 0 || at % 4 == 0) {
            cero_rng_block(key, sample, at / 4, words);
        }
        STORE(to + i, words[at % 4] >= threshold ? scale * LOAD(from + i) : 0.0f);
    }
}

static void FN(fill)(cero_kernels *k)
{
    k->dropout[DTYPE_INDEX] = FN(dropout);
}
