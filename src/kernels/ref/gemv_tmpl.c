/* SPDX-License-Identifier: Apache-2.0 */
/* A matrix times one vector, for one dtype and both layouts of the weights. */

/* Output j: weight k stands at w[k * stride]. */
static float FN(gemv_sum)(int64_t k_count, const ELEMENT *x, const ELEMENT *w, int64_t stride)
{
    float sum = 0.0f;

    for (int64_t k = 0; k < k_count; k++) {
        sum += LOAD(x + k) * LOAD(w + k * stride);
    }
    return sum;
}

static void FN(gemv_n)(int64_t k_count, int64_t n, const void *x, const void *w, int64_t ld,
                       float *sums)
{
    for (int64_t j = 0; j < n; j++) {
        sums[j] = FN(gemv_sum)(k_count, x, (const ELEMENT *)w + j, ld);
    }
}

static void FN(gemv_t)(int64_t k_count, int64_t n, const void *x, const void *w, int64_t ld,
                       const void *bias, void *y)
{
    const ELEMENT *offset = bias;
    ELEMENT *to = y;

    for (int64_t j = 0; j < n; j++) {
        float sum = FN(gemv_sum)(k_count, x, (const ELEMENT *)w + j * ld, 1);
        STORE(to + j, offset != NULL ? sum + LOAD(offset + j) : sum);
    }
}

static void FN(fill)(cero_kernels *k)
{
    k->gemv_n[DTYPE_INDEX] = FN(gemv_n);
    k->gemv_t[DTYPE_INDEX] = FN(gemv_t);
}
