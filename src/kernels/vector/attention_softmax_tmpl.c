/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The online softmax's words: powers of two, and the masks that causality and dropout give a panel of
 * queries. Included after attention_blocks_tmpl.c.
 */

/*
 * 2^x with an error of 1 unit in the last place: a polynomial on the fraction (Chebyshev nodes, exact
 * at 0), scaled by the floor. Below -160 the result is 0; NaN stays NaN.
 */
KERNEL_INLINE vec vec_exp2(vec x)
{
    vec f;
    vec whole = split_exponent(vec_max(vec_set(-160.0f), x), &f);
    vec p = vec_set(0x1.b49554p-13f);
    p = vec_fma(p, f, vec_set(0x1.4cb7b0p-10f));
    p = vec_fma(p, f, vec_set(0x1.3c487cp-7f));
    p = vec_fma(p, f, vec_set(0x1.c69f98p-5f));
    p = vec_fma(p, f, vec_set(0x1.ebfc3ep-3f));
    p = vec_fma(p, f, vec_set(0x1.62e430p-1f));
    p = vec_fma(p, f, vec_set(1.0f));
    return vec_scale2(p, whole);
}

/* x, and 0 where x is -inf. */
KERNEL_INLINE vec finite_base(vec x)
{
    return vec_select(vec_less_equal(x, vec_set(-INFINITY)), vec_set(0.0f), x);
}

/* Bit l: key `key` is visible to the query of lane l, whose position is first + l. */
KERNEL_INLINE uint32_t visible_bits(int64_t key, int64_t first)
{
    uint32_t all = WIDTH == 32 ? 0xFFFFFFFFu : (1u << (WIDTH % 32)) - 1u;
    int64_t hidden = key - first;

    return hidden <= 0 ? all : hidden >= WIDTH ? 0u : all & all << hidden;
}

/* Numbers of the blocks of four words that hold one key's word for VEC_WIDTH queries. */
typedef struct lane_blocks {
    vec_int low;
    vec_int high;
} lane_blocks;

/* first + lane * step */
KERNEL_INLINE lane_blocks lane_blocks_of(uint64_t first, uint64_t step)
{
    static const uint32_t numbers[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    vec_int lane = vec_int_load(numbers);
    vec_int begin = vec_int_set((uint32_t)first);
    vec_int carried;
    vec_int overflow;
    vec_int ahead = vec_int_mul(lane, (uint32_t)step, &carried);
    vec_int high = vec_int_mul(lane, (uint32_t)(step >> 32), &overflow);

    high = vec_int_add(vec_int_add(high, carried), vec_int_set((uint32_t)(first >> 32)));
    vec_int low = vec_int_add(begin, ahead);
    return (lane_blocks){low, vec_int_add_carry(high, begin, low)};
}

/*
 * Bit l of result[r] says that the probability of (query + l, key + r) is kept, l < WIDTH and r < rows.
 * The result points into `buffer` of rows + 7 words.
 */
static const uint32_t *keep_bits(const cero_attention_args *args, int64_t query, int64_t key,
                                 int64_t rows, uint32_t *buffer)
{
    uint64_t step = args->drop_stride / 4;
    uint64_t first = args->drop_element + (uint64_t)query * args->drop_stride + (uint64_t)key;
    int64_t phase = (int64_t)(first % 4);

    // The stride is a multiple of 4, so all queries have the same phase in their blocks of four words.
    memset(buffer, 0, (size_t)(rows + 7) * sizeof(*buffer));
    for (int lane = 0; lane < WIDTH; lane += VEC_WIDTH) {
        lane_blocks blocks = lane_blocks_of(first / 4 + (uint64_t)lane * step, step);
        for (int64_t b = 0; 4 * b < phase + rows; b++) {
            vec_int low = vec_int_add(blocks.low, vec_int_set((uint32_t)b));
            vec_int high = vec_int_add_carry(blocks.high, blocks.low, low);
            vec_int words[4];
            philox_blocks(args->drop_key, args->drop_sample, low, high, words);
            for (int w = 0; w < 4; w++) {
                vec_mask is_kept = vec_int_reaches(words[w], args->drop_threshold);
                buffer[4 * b + w] |= vec_mask_bits(is_kept) << lane;
            }
        }
    }
    return buffer + phase;
}
