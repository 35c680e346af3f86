/* SPDX-License-Identifier: Apache-2.0 */
/* Sums of squares per block and sums of columns, for one dtype. */

/* One block of at most 256 elements; lanes that a tail leaves idle add zero, which changes nothing. */
KERNEL_INLINE double FN(square_block)(int64_t n, const ELEMENT *x)
{
    square_lanes sums = {0};
    double lane[16];
    double sum = 0;
    int64_t i = 0;

    for (; i + 16 <= n; i += 16) {
        for (int64_t part = 0; part < 16; part += VEC_WIDTH) {
            square_lanes_add(&sums, part, LOAD(x + i + part));
        }
    }
    for (; i < n; i += VEC_WIDTH) {
        int64_t m = n - i < VEC_WIDTH ? n - i : VEC_WIDTH;
        square_lanes_add(&sums, i, LOAD_PART(x + i, m));
    }
    square_lanes_store(&sums, lane);
    for (int j = 0; j < 16; j++) {
        sum += lane[j];
    }
    return sum;
}

static void FN(square_sums)(int64_t n, const void *x, double *sums)
{
    const ELEMENT *from = x;
    int64_t i = 0;

    for (; i + CERO_SQUARE_BLOCK <= n; i += CERO_SQUARE_BLOCK) {
        sums[i / CERO_SQUARE_BLOCK] = FN(square_block)(CERO_SQUARE_BLOCK, from + i);
    }
    if (i < n) {
        sums[i / CERO_SQUARE_BLOCK] = FN(square_block)(n - i, from + i);
    }
}

/* Adds `rows` rows to m <= VEC_WIDTH columns, in order. */
KERNEL_INLINE void FN(column_step)(int64_t rows, int64_t ld, const ELEMENT *x, int64_t m,
                                   float *out)
{
    vec sum = load_part_f32(out, m);

    for (int64_t r = 0; r < rows; r++) {
        sum = sum + LOAD_PART(x + r * ld, m);
    }
    store_part_f32(out, m, sum);
}

KERNEL_INLINE void FN(column_rows)(int64_t rows, int64_t cols, int64_t ld, const ELEMENT *x,
                                   float *out)
{
    int64_t c = 0;

    for (; c + VEC_WIDTH <= cols; c += VEC_WIDTH) {
        FN(column_step)(rows, ld, x + c, VEC_WIDTH, out + c);
    }
    if (c < cols) {
        FN(column_step)(rows, ld, x + c, cols - c, out + c);
    }
}

static void FN(column_sums)(int64_t rows, int64_t cols, int64_t ld, const void *x, bool is_adding,
                            float *out)
{
    const ELEMENT *from = x;
    int64_t r = 0;

    if (!is_adding && cols > 0) {
        memset(out, 0, (size_t)cols * sizeof(float));
    }
    // Eight rows share one load and store of the sums.
    for (; r + 8 <= rows; r += 8) {
        FN(column_rows)(8, cols, ld, from + r * ld, out);
    }
    for (; r < rows; r++) {
        FN(column_rows)(1, cols, ld, from + r * ld, out);
    }
}

static void FN(fill)(cero_kernels *k)
{
    k->square_sums[DTYPE_INDEX] = FN(square_sums);
    k->column_sums[DTYPE_INDEX] = FN(column_sums);
}
