/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cross-entropy of one row of logits and its gradient, for one dtype, in two passes over the row.
 *
 * The first keeps a running maximum M and the sum of exp(x - M) over blocks that stay in the nearest
 * cache (Milakov and Gimelshein, 2018, by block): when a block raises M, the sum so far is scaled by
 * exp(M - M'). The second writes the gradient. The order depends on n and on where the maxima are.
 */

enum {
    FN(SOFTMAX_BLOCK) = 1024
};

KERNEL_INLINE float FN(block_max)(int64_t n, const ELEMENT *x)
{
    vec max[2] = {vec_set(-INFINITY), vec_set(-INFINITY)};
    int64_t i = 0;

    for (; i + 2 * VEC_WIDTH <= n; i += 2 * VEC_WIDTH) {
        max[0] = vec_max(max[0], LOAD(x + i));
        max[1] = vec_max(max[1], LOAD(x + i + VEC_WIDTH));
    }
    for (; i < n; i += VEC_WIDTH) {
        int64_t m = n - i < VEC_WIDTH ? n - i : VEC_WIDTH;
        max[0] = vec_max(max[0], vec_fill_part(LOAD_PART(x + i, m), m, -INFINITY));
    }
    return vec_max_lane(vec_max(max[0], max[1]));
}

/* Sum of exp(x - shift) */
KERNEL_INLINE float FN(block_exp_sum)(int64_t n, const ELEMENT *x, float shift)
{
    vec offset = vec_set(shift);
    vec sum[2] = {vec_set(0.0f), vec_set(0.0f)};
    int64_t i = 0;

    for (; i + 2 * VEC_WIDTH <= n; i += 2 * VEC_WIDTH) {
        sum[0] = sum[0] + vec_exp(LOAD(x + i) - offset);
        sum[1] = sum[1] + vec_exp(LOAD(x + i + VEC_WIDTH) - offset);
    }
    for (; i < n; i += VEC_WIDTH) {
        int64_t m = n - i < VEC_WIDTH ? n - i : VEC_WIDTH;
        sum[0] = sum[0] + vec_part(vec_exp(LOAD_PART(x + i, m) - offset), m);
    }
    return vec_sum(sum[0] + sum[1]);
}

/* Sets *max and *sum = sum of exp(x - *max). */
static void FN(max_and_sum)(int64_t n, const ELEMENT *x, float *max, float *sum)
{
    float m = -INFINITY;
    float s = 0.0f;

    for (int64_t i = 0; i < n; i += FN(SOFTMAX_BLOCK)) {
        int64_t count = n - i < FN(SOFTMAX_BLOCK) ? n - i : FN(SOFTMAX_BLOCK);
        float block = FN(block_max)(count, x + i);

        if (block > m) {
            s *= expf(m - block);
            m = block;
        }
        // While all are -infinity any shift will do: exp gives 0 for them and NaN for NaN.
        s += FN(block_exp_sum)(count, x + i, m == -INFINITY ? 0.0f : m);
    }
    *max = m;
    *sum = s;
}

static float FN(cross_entropy)(int64_t n, const void *x, int64_t target, float scale, void *dx)
{
    const ELEMENT *logit = x;
    ELEMENT *to = dx;
    float max;
    float sum;
    int64_t i = 0;

    if (target < 0) {
        if (to != NULL && n > 0) {
            memset(to, 0, (size_t)n * sizeof(ELEMENT));
        }
        return 0.0f;
    }
    FN(max_and_sum)(n, logit, &max, &sum);
    float shifted = vec_first(LOAD_PART(logit + target, 1)) - max;
    if (to == NULL) {
        return logf(sum) - shifted;
    }
    vec offset = vec_set(max);
    vec factor = vec_set(scale / sum);
    for (; i + VEC_WIDTH <= n; i += VEC_WIDTH) {
        STORE(to + i, vec_exp(LOAD(logit + i) - offset) * factor);
    }
    if (i < n) {
        STORE_PART(to + i, n - i, vec_exp(LOAD_PART(logit + i, n - i) - offset) * factor);
    }
    STORE_PART(to + target, 1,
               (vec_exp(vec_set(shifted)) / vec_set(sum) - vec_set(1.0f)) * vec_set(scale));
    return logf(sum) - shifted;
}

static void FN(fill)(cero_kernels *k)
{
    k->cross_entropy[DTYPE_INDEX] = FN(cross_entropy);
}
