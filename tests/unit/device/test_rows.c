/* SPDX-License-Identifier: Apache-2.0 */
/* Row-wise operations of a device follow their formulas, whatever the split over threads. */
#include "numbers.h"

enum {
    ROWS = 150, /* three parts */
    COLS = 70,  /* a block of columns and a tail */
    COUNT = ROWS * COLS
};

static cero_device *cpu;

static int open_device(void **state)
{
    (void)state;
    cpu = device_with("cpu", 2);
    return 0;
}

static int close_device(void **state)
{
    (void)state;
    cero_device_destroy(&cpu);
    return 0;
}

static void assert_near(const char *what, cero_dtype dtype, int64_t at, double found, double want,
                        double limit)
{
    if (!(fabs(found - want) <= limit)) {
        fail_msg("%s %s [%d] is %g, expected %g", what, cero_dtype_name(dtype), (int)at, found,
                 want);
    }
}

static void check_column_sums(cero_dtype dtype, int64_t rows)
{
    void *x = number_random(dtype, rows * COLS, 1);
    void *scratch = number_scratch(cero_device_column_sums_scratch(rows, COLS));
    void *out = number_scratch(COLS * sizeof(float));

    cero_device_column_sums(cpu, dtype, rows, COLS, x, CERO_DTYPE_F32, out, scratch);
    for (int64_t c = 0; c < COLS; c++) {
        double want = 0;
        for (int64_t r = 0; r < rows; r++) {
            want += number_get(dtype, x, r * COLS + c);
        }
        assert_near("column sum", dtype, c, number_get(CERO_DTYPE_F32, out, c), want, 1e-3);
    }
    free(x);
    free(scratch);
    free(out);
}

static void test_column_sums(void **state)
{
    (void)state;
    for (int t = 0; t < CERO_FLOAT_DTYPES; t++) {
        check_column_sums(number_dtypes[t], 0);
        check_column_sums(number_dtypes[t], 1);
        check_column_sums(number_dtypes[t], ROWS);
    }
}

typedef struct norm_case {
    cero_norm_args args;
    void *memory[10];
} norm_case;

static norm_case norm_create(cero_dtype dtype, bool is_rms)
{
    norm_case n = {
        .args = {.dtype = dtype, .is_rms = is_rms, .rows = ROWS, .cols = COLS, .eps = 1e-5f}};

    n.memory[0] = number_random(dtype, COUNT, 1);
    n.memory[1] = number_random(dtype, COLS, 2);
    n.memory[2] = number_random(dtype, COLS, 3);
    n.memory[3] = number_random(dtype, COUNT, 4);
    n.memory[4] = number_scratch(COUNT * sizeof(float));
    n.memory[5] = number_scratch(COUNT * sizeof(float));
    n.memory[6] = number_scratch(2 * ROWS * sizeof(float));
    n.memory[7] = number_scratch(COLS * sizeof(float));
    n.memory[8] = number_scratch(COLS * sizeof(float));
    n.memory[9] = number_scratch(cero_device_norm_scratch(ROWS, COLS));
    n.args.x = n.memory[0];
    n.args.gamma = n.memory[1];
    n.args.beta = is_rms ? NULL : n.memory[2];
    n.args.dy = n.memory[3];
    n.args.y = n.memory[4];
    n.args.dx = n.memory[5];
    n.args.rstd = n.memory[6];
    n.args.mean = is_rms ? NULL : n.args.rstd + ROWS;
    n.args.dgamma = n.memory[7];
    n.args.dbeta = is_rms ? NULL : n.memory[8];
    n.args.scratch = n.memory[9];
    return n;
}

static void norm_free(norm_case *n)
{
    for (size_t i = 0; i < CERO_COUNT_OF(n->memory); i++) {
        free(n->memory[i]);
    }
}

/* Checks row r and adds its part of dgamma and dbeta. */
static void check_norm_row(const cero_norm_args *a, int64_t r, double *dgamma, double *dbeta)
{
    double eps = number_epsilon(a->dtype);
    double mean = 0;
    double square = 0;
    double g_mean = 0;
    double gx_mean = 0;

    for (int64_t c = 0; c < COLS && !a->is_rms; c++) {
        mean += number_get(a->dtype, a->x, r * COLS + c) / COLS;
    }
    for (int64_t c = 0; c < COLS; c++) {
        square += pow(number_get(a->dtype, a->x, r * COLS + c) - mean, 2) / COLS;
    }
    double rstd = 1 / sqrt(square + (double)a->eps);
    for (int64_t c = 0; c < COLS; c++) {
        double x = (number_get(a->dtype, a->x, r * COLS + c) - mean) * rstd;
        double dy = number_get(a->dtype, a->dy, r * COLS + c);
        double y = x * number_get(a->dtype, a->gamma, c) +
                   (a->is_rms ? 0 : number_get(a->dtype, a->beta, c));
        assert_near("y", a->dtype, r * COLS + c, number_get(a->dtype, a->y, r * COLS + c), y,
                    eps * (4 + fabs(y)));
        g_mean += a->is_rms ? 0 : dy * number_get(a->dtype, a->gamma, c) / COLS;
        gx_mean += dy * number_get(a->dtype, a->gamma, c) * x / COLS;
        dgamma[c] += dy * x;
        dbeta[c] += dy;
    }
    for (int64_t c = 0; c < COLS; c++) {
        double x = (number_get(a->dtype, a->x, r * COLS + c) - mean) * rstd;
        double g = number_get(a->dtype, a->dy, r * COLS + c) * number_get(a->dtype, a->gamma, c);
        double dx = rstd * (g - g_mean - x * gx_mean);
        assert_near("dx", a->dtype, r * COLS + c, number_get(a->dtype, a->dx, r * COLS + c), dx,
                    eps * (4 + fabs(dx)));
    }
}

static void check_norm(cero_dtype dtype, bool is_rms)
{
    norm_case n = norm_create(dtype, is_rms);
    double dgamma[COLS] = {0};
    double dbeta[COLS] = {0};

    cero_device_norm_forward(cpu, &n.args);
    cero_device_norm_backward(cpu, &n.args);
    for (int64_t r = 0; r < ROWS; r++) {
        check_norm_row(&n.args, r, dgamma, dbeta);
    }
    for (int64_t c = 0; c < COLS; c++) {
        double eps = number_epsilon(dtype);
        assert_near("dgamma", dtype, c, number_get(dtype, n.args.dgamma, c), dgamma[c],
                    eps * (20 + fabs(dgamma[c])));
        if (!is_rms) {
            assert_near("dbeta", dtype, c, number_get(dtype, n.args.dbeta, c), dbeta[c],
                        eps * (20 + fabs(dbeta[c])));
        }
    }
    norm_free(&n);
}

static void test_norms(void **state)
{
    (void)state;
    for (int t = 0; t < CERO_FLOAT_DTYPES; t++) {
        check_norm(number_dtypes[t], false);
        check_norm(number_dtypes[t], true);
    }
}

static void check_rotary(cero_dtype dtype, int64_t pad)
{
    enum {
        BATCH = 2,
        SEQ = 9,
        HEADS = 3,
        DIM = 10,
        HALF = DIM / 2,
        POSITION = 4
    };
    int64_t ld = HEADS * DIM + pad;
    float *cosines = number_random(CERO_DTYPE_F32, (SEQ + POSITION) * HALF, 5);
    float *sines = number_random(CERO_DTYPE_F32, (SEQ + POSITION) * HALF, 6);
    void *x = number_random(dtype, BATCH * SEQ * ld, 7);
    void *y = number_random(dtype, BATCH * SEQ * ld, 7);
    cero_rotary_args args = {.dtype = dtype,
                             .batch = BATCH,
                             .seq_len = SEQ,
                             .heads = HEADS,
                             .head_dim = DIM,
                             .ld = pad == 0 ? 0 : ld,
                             .position = POSITION,
                             .cos = cosines,
                             .sin = sines,
                             .x = x,
                             .y = y};

    for (int backward = 0; backward < 2; backward++) {
        args.is_backward = backward != 0;
        cero_device_rotary(cpu, &args);
        for (int64_t i = 0; i < BATCH * SEQ * HEADS * HALF; i++) {
            int64_t row = i / (HEADS * HALF);
            int64_t at = row * ld + i / HALF % HEADS * DIM + i % HALF;
            int64_t angle = (POSITION + row % SEQ) * HALF + i % HALF;
            double c = (double)cosines[angle];
            double s = (double)sines[angle] * (backward != 0 ? -1 : 1);
            double low = number_get(dtype, x, at);
            double high = number_get(dtype, x, at + HALF);
            assert_near("rotary", dtype, at, number_get(dtype, y, at), low * c - high * s,
                        8 * number_epsilon(dtype));
            assert_near("rotary", dtype, at + HALF, number_get(dtype, y, at + HALF),
                        high * c + low * s, 8 * number_epsilon(dtype));
        }
    }
    if (pad > 0) { // What lies between rows is not touched.
        assert_true(number_get(dtype, x, HEADS * DIM) == number_get(dtype, y, HEADS * DIM));
    }
    free(cosines);
    free(sines);
    free(x);
    free(y);
}

static void test_rotary(void **state)
{
    (void)state;
    for (int t = 0; t < CERO_FLOAT_DTYPES; t++) {
        check_rotary(number_dtypes[t], 0);
        check_rotary(number_dtypes[t], 13);
    }
}

static void check_dropout(cero_dtype dtype, double p)
{
    cero_rng_key key = cero_rng_make_key(3, CERO_RNG_DROPOUT, 1, 2);
    void *x = number_random(dtype, COUNT, 8);
    void *y = number_scratch(COUNT * sizeof(float));
    int kept = 0;
    cero_dropout_args args = {.dtype = dtype,
                              .samples = 3,
                              .per_sample = COUNT / 3,
                              .p = p,
                              .key = key,
                              .first_sample = 1000,
                              .x = x,
                              .y = y};

    cero_device_dropout(cpu, &args);
    for (int64_t i = 0; i < COUNT; i++) {
        uint64_t sample = 1000u + (uint64_t)(i / (COUNT / 3));
        uint32_t word = cero_rng_word(key, sample, (uint64_t)(i % (COUNT / 3)));
        bool is_kept = word >= (uint32_t)(p * 4294967296.0);
        double want = is_kept ? number_get(dtype, x, i) / (1 - p) : 0;
        assert_near("dropout", dtype, i, number_get(dtype, y, i), want,
                    2 * number_epsilon(dtype) * fabs(want));
        kept += is_kept ? 1 : 0;
    }
    assert_in_range(kept, (int)(COUNT * (1 - p) * 0.9), COUNT);
    free(x);
    free(y);
}

static void test_dropout(void **state)
{
    (void)state;
    for (int t = 0; t < CERO_FLOAT_DTYPES; t++) {
        check_dropout(number_dtypes[t], 0.0);
        check_dropout(number_dtypes[t], 0.25);
        check_dropout(number_dtypes[t], 0.9);
    }
}

static void check_embedding(cero_dtype dtype)
{
    enum {
        VOCAB = 13
    };
    int32_t ids[ROWS];
    void *table = number_random(dtype, VOCAB * COLS, 9);
    void *y = number_scratch(COUNT * sizeof(float));
    void *dy = number_random(dtype, COUNT, 10);
    float *grad = number_random(CERO_DTYPE_F32, VOCAB * COLS, 11);
    double *want = calloc(VOCAB * COLS, sizeof(double));

    assert_non_null(want);
    for (int64_t i = 0; i < VOCAB * COLS; i++) {
        want[i] = (double)grad[i];
    }
    for (int64_t i = 0; i < ROWS; i++) {
        ids[i] = (int32_t)(i * i % VOCAB);
    }
    cero_device_embedding_forward(cpu, dtype, ROWS, COLS, ids, table, y);
    cero_device_embedding_backward(cpu, dtype, ROWS, COLS, ids, dy, grad);
    for (int64_t i = 0; i < COUNT; i++) {
        int64_t at = ids[i / COLS] * COLS + i % COLS;
        assert_true(number_get(dtype, y, i) == number_get(dtype, table, at));
        want[at] += number_get(dtype, dy, i);
    }
    for (int64_t i = 0; i < VOCAB * COLS; i++) { // Multiples of 1/64: the sums are exact.
        assert_true((double)grad[i] == want[i]);
    }
    free(table);
    free(y);
    free(dy);
    free(grad);
    free(want);
}

static void test_embedding(void **state)
{
    (void)state;
    for (int t = 0; t < CERO_FLOAT_DTYPES; t++) {
        check_embedding(number_dtypes[t]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_column_sums), cmocka_unit_test(test_norms),
        cmocka_unit_test(test_rotary),      cmocka_unit_test(test_dropout),
        cmocka_unit_test(test_embedding),
    };
    return cmocka_run_group_tests(tests, open_device, close_device);
}
