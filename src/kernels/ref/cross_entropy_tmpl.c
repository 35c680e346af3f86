/* SPDX-License-Identifier: Apache-2.0 */
/* Cross-entropy of one row of logits and its gradient, for one dtype. */

static float FN(cross_entropy)(int64_t n, const void *x, int64_t target, float scale, void *dx)
{
    const ELEMENT *logit = x;
    ELEMENT *to = dx;
    float max = -INFINITY;
    float sum = 0.0f;

    if (target < 0) {
        for (int64_t i = 0; i < n && to != NULL; i++) {
            STORE(to + i, 0.0f);
        }
        return 0.0f;
    }
    for (int64_t i = 0; i < n; i++) {
        max = LOAD(logit + i) > max ? LOAD(logit + i) : max;
    }
    for (int64_t i = 0; i < n; i++) {
        sum += expf(LOAD(logit + i) - max);
    }
    float loss = logf(sum) - (LOAD(logit + target) - max);
    for (int64_t i = 0; i < n && to != NULL; i++) {
        float p = expf(LOAD(logit + i) - max) / sum;
        STORE(to + i, (p - (i == target ? 1.0f : 0.0f)) * scale);
    }
    return loss;
}

static void FN(fill)(cero_kernels *k)
{
    k->cross_entropy[DTYPE_INDEX] = FN(cross_entropy);
}
