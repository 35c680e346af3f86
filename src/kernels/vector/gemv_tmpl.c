/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A matrix times one vector, for one dtype and both layouts. Every weight is read once, so what counts
 * is to read in few long streams; the order of each y[j] depends on k_count alone.
 */

enum {
    FN(GEMV_COLUMNS) = 4096, /* sums of gemv_n kept in the nearest cache: 16 KiB */
    FN(GEMV_ROWS) = 8,       /* rows of gemv_n that share a load and store of the sums … */
    FN(GEMV_PAGE) =
        4096 /* … when a row is at least this many bytes: streams want pages of their own */
};

/* sums[j] += x[0] w[0, j] + x[1] w[1, j] + …, in this order, for m <= VEC_WIDTH columns */
KERNEL_INLINE void FN(gemv_n_step)(int rows, int64_t m, const vec *x, const ELEMENT *w, int64_t ld,
                                   float *sums)
{
    vec sum = load_part_f32(sums, m);

    for (int r = 0; r < rows; r++) {
        sum = vec_fma(x[r], LOAD_PART(w + r * ld, m), sum);
    }
    store_part_f32(sums, m, sum);
}

KERNEL_INLINE void FN(gemv_n_rows)(int rows, int64_t cols, const ELEMENT *x, const ELEMENT *w,
                                   int64_t ld, float *sums)
{
    vec factor[FN(GEMV_ROWS)];
    int64_t j = 0;

    for (int r = 0; r < rows; r++) {
        factor[r] = vec_set(vec_first(LOAD_PART(x + r, 1)));
    }
    for (; j + VEC_WIDTH <= cols; j += VEC_WIDTH) {
        FN(gemv_n_step)(rows, VEC_WIDTH, factor, w + j, ld, sums + j);
    }
    if (j < cols) {
        FN(gemv_n_step)(rows, cols - j, factor, w + j, ld, sums + j);
    }
}

/* One block of columns, whose sums stay in the nearest cache. */
static void FN(gemv_n_block)(int64_t k_count, int64_t cols, const ELEMENT *x, const ELEMENT *w,
                             int64_t ld, float *sums)
{
    int64_t k = 0;

    memset(sums, 0, (size_t)cols * sizeof(float));
    // Short rows follow each other within a page: there one stream is faster than several.
    if (ld * (int64_t)sizeof(ELEMENT) >= FN(GEMV_PAGE)) {
        for (; k + FN(GEMV_ROWS) <= k_count; k += FN(GEMV_ROWS)) {
            FN(gemv_n_rows)(FN(GEMV_ROWS), cols, x + k, w + k * ld, ld, sums);
        }
    }
    for (; k < k_count; k++) {
        FN(gemv_n_rows)(1, cols, x + k, w + k * ld, ld, sums);
    }
}

static void FN(gemv_n)(int64_t k_count, int64_t n, const void *x, const void *w, int64_t ld,
                       float *sums)
{
    for (int64_t j = 0; j < n; j += FN(GEMV_COLUMNS)) {
        int64_t cols = n - j < FN(GEMV_COLUMNS) ? n - j : FN(GEMV_COLUMNS);
        FN(gemv_n_block)(k_count, cols, x, (const ELEMENT *)w + j, ld, sums + j);
    }
}

/*
 * The dot product of x with one row of w, in two vectors of sums. One row at a time: the rows lie one behind
 * the other, and a single stream is what memory gives fastest.
 */
KERNEL_INLINE vec FN(gemv_t_row)(int64_t k_count, const ELEMENT *x, const ELEMENT *w)
{
    vec sum[2] = {vec_set(0.0f), vec_set(0.0f)};
    int64_t k = 0;

    for (; k + 2 * VEC_WIDTH <= k_count; k += 2 * VEC_WIDTH) {
        sum[0] = vec_fma(LOAD(x + k), LOAD(w + k), sum[0]);
        sum[1] = vec_fma(LOAD(x + k + VEC_WIDTH), LOAD(w + k + VEC_WIDTH), sum[1]);
    }
    for (; k < k_count; k += VEC_WIDTH) {
        int64_t m = k_count - k < VEC_WIDTH ? k_count - k : VEC_WIDTH;
        sum[0] = vec_fma(LOAD_PART(x + k, m), LOAD_PART(w + k, m), sum[0]);
    }
    return vec_set(vec_sum(sum[0] + sum[1]));
}

static void FN(gemv_t)(int64_t k_count, int64_t n, const void *x, const void *w, int64_t ld,
                       const void *bias, void *y)
{
    const ELEMENT *offset = bias;
    ELEMENT *to = y;

    for (int64_t j = 0; j < n; j++) {
        vec total = FN(gemv_t_row)(k_count, x, (const ELEMENT *)w + j * ld);
        STORE_PART(to + j, 1, offset != NULL ? vec_add(total, LOAD_PART(offset + j, 1)) : total);
    }
}

static void FN(fill)(cero_kernels *k)
{
    k->gemv_n[DTYPE_INDEX] = FN(gemv_n);
    k->gemv_t[DTYPE_INDEX] = FN(gemv_t);
}
