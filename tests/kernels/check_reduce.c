/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Block sums of squares have the stated order, bit for bit, on every instruction set, and are not finite
 * if and only if an element is not; sums of columns add rows in order, bit for bit.
 */
#include "kernels/check.h"

/* The contract of square_sums, written again. */
static double block_by_definition(const check_tensor *x, int64_t begin, int64_t end)
{
    double lane[16] = {0};
    double sum = 0;

    for (int64_t i = begin; i < end; i++) {
        double v = (double)check_get(x, i);
        lane[(i - begin) % 16] += v * v;
    }
    for (int j = 0; j < 16; j++) {
        sum += lane[j];
    }
    return sum;
}

static void check_square_sums_of(const check_case *c, float range, bool has_odd)
{
    int64_t blocks = (c->n + CERO_SQUARE_BLOCK - 1) / CERO_SQUARE_BLOCK;
    check_tensor x = check_make(c, c->n);
    check_tensor sums = check_make_as(CERO_DTYPE_F64, blocks, c->place);

    check_random(&x, 5, range);
    for (int64_t i = 0; has_odd && i < c->n; i += 300) {
        check_set(&x, i, i % 600 == 0 ? INFINITY : NAN);
    }
    c->k->square_sums[c->dtype](c->n, x.data, sums.data);
    for (int64_t b = 0; b < blocks; b++) {
        int64_t end = (b + 1) * CERO_SQUARE_BLOCK;
        double expected = block_by_definition(&x, b * CERO_SQUARE_BLOCK, end < c->n ? end : c->n);
        double got = ((double *)sums.data)[b];

        if (isfinite(expected) ? memcmp(&got, &expected, sizeof(got)) != 0 : isfinite(got)) {
            check_fail("square_sums", b, got, expected);
        }
    }
    check_free(&x);
    check_free(&sums);
}

static void check_square_sums(const check_case *c)
{
    check_square_sums_of(c, 1.0f, false);
    check_square_sums_of(c, c->dtype == CERO_DTYPE_F16 ? 6e4f : 3e38f, false);
    check_square_sums_of(c, 1.0f, true);
}

static void check_columns_of(const check_case *c, int64_t rows, bool is_adding)
{
    int64_t ld = c->n + 3;
    check_tensor x = check_make(c, rows > 0 ? (rows - 1) * ld + c->n : 0);
    check_tensor out = check_make_f32(c, c->n);

    check_random(&x, 6, 3.0f);
    check_random(&out, 7, 3.0f);
    if (!is_adding) {
        check_poison(&out);
    }
    check_tensor expected = check_clone(&out);
    for (int64_t j = 0; j < c->n; j++) {
        float sum = is_adding ? ((float *)expected.data)[j] : 0.0f;
        for (int64_t r = 0; r < rows; r++) {
            sum += check_get(&x, r * ld + j);
        }
        ((float *)expected.data)[j] = sum;
    }
    c->k->column_sums[c->dtype](rows, c->n, ld, x.data, is_adding, out.data);
    check_same("column_sums", &out, &expected);
    check_free(&x);
    check_free(&out);
    check_free(&expected);
}

static void check_column_sums(const check_case *c)
{
    static const int64_t rows[] = {0, 1, 7, 8, 9, 17};

    for (size_t i = 0; i < CERO_COUNT_OF(rows) && c->n <= 257; i++) {
        check_columns_of(c, rows[i], false);
        check_columns_of(c, rows[i], true);
    }
}

static void test_square_sums(void **state)
{
    CERO_UNUSED(state);
    check_all(check_square_sums);
}

static void test_column_sums(void **state)
{
    CERO_UNUSED(state);
    check_all(check_column_sums);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_square_sums),
        cmocka_unit_test(test_column_sums),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
