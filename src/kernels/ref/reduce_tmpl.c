/* SPDX-License-Identifier: Apache-2.0 */
/* Sums of squares per block and sums of columns, for one dtype. */

static double FN(square_block)(int64_t n, const ELEMENT *x)
{
    double lane[16] = {0};
    double sum = 0;

    for (int64_t i = 0; i < n; i++) {
        double v = (double)LOAD(x + i);
        lane[i % 16] += v * v;
    }
    for (int j = 0; j < 16; j++) {
        sum += lane[j];
    }
    return sum;
}

static void FN(square_sums)(int64_t n, const void *x, double *sums)
{
    const ELEMENT *from = x;

    for (int64_t i = 0; i < n; i += CERO_SQUARE_BLOCK) {
        int64_t left = n - i;
        sums[i / CERO_SQUARE_BLOCK] =
            FN(square_block)(left < CERO_SQUARE_BLOCK ? left : CERO_SQUARE_BLOCK, from + i);
    }
}

static void FN(column_sums)(int64_t rows, int64_t cols, int64_t ld, const void *x, bool is_adding,
                            float *out)
{
    const ELEMENT *from = x;

    for (int64_t c = 0; c < cols; c++) {
        float sum = is_adding ? out[c] : 0.0f;
        for (int64_t r = 0; r < rows; r++) {
            sum += LOAD(from + r * ld + c);
        }
        out[c] = sum;
    }
}

static void FN(fill)(cero_kernels *k)
{
    k->square_sums[DTYPE_INDEX] = FN(square_sums);
    k->column_sums[DTYPE_INDEX] = FN(column_sums);
}
