/* SPDX-License-Identifier: Apache-2.0 */
/* A matrix times one vector, for one dtype and both layouts of the weights. */

/* Weight (k, j) stands at w[k * k_stride + j * j_stride]. */
static void FN(gemv)(int64_t k_count, int64_t n, const ELEMENT *x, const ELEMENT *w,
                     int64_t k_stride, int64_t j_stride, const ELEMENT *bias, ELEMENT *y)
{
    for (int64_t j = 0; j < n; j++) {
        float sum = 0.0f;

        for (int64_t k = 0; k < k_count; k++) {
            sum += LOAD(x + k) * LOAD(w + k * k_stride + j * j_stride);
        }
        STORE(y + j, bias != NULL ? sum + LOAD(bias + j) : sum);
    }
}

static void FN(gemv_n)(int64_t k_count, int64_t n, const void *x, const void *w, int64_t ld,
                       const void *bias, void *y)
{
    FN(gemv)(k_count, n, x, w, ld, 1, bias, y);
}

static void FN(gemv_t)(int64_t k_count, int64_t n, const void *x, const void *w, int64_t ld,
                       const void *bias, void *y)
{
    FN(gemv)(k_count, n, x, w, 1, ld, bias, y);
}

static void FN(fill)(cero_kernels *k)
{
    k->gemv_n[DTYPE_INDEX] = FN(gemv_n);
    k->gemv_t[DTYPE_INDEX] = FN(gemv_t);
}
