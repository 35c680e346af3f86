/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Both layouts of a matrix times a vector follow the sum in double, for any ld (gemv_t with and without bias);
 * y[j] is the same bits whatever range of j a call covers.
 */
#include "kernels/check.h"

typedef struct problem {
    int64_t k_count;
    int64_t n;
    int64_t ld;
    bool is_transposed; /* gemv_t: w is [n, k_count] */
    check_tensor x;
    check_tensor w;
    check_tensor bias;
    check_tensor y; /* of gemv_n: f32 sums, without bias */
} problem;

static void open_problem(const check_case *c, problem *p)
{
    int64_t rows = p->is_transposed ? p->n : p->k_count;
    int64_t cols = p->is_transposed ? p->k_count : p->n;

    p->ld = cols + 5;
    p->x = check_make(c, p->k_count);
    p->w = check_make(c, rows > 0 ? (rows - 1) * p->ld + cols : 0);
    p->bias = check_make(c, p->n);
    p->y = p->is_transposed ? check_make(c, p->n) : check_make_f32(c, p->n);
    check_random(&p->x, 70, 1.0f);
    check_random(&p->w, 71, 1.0f);
    check_random(&p->bias, 72, 1.0f);
}

static void close_problem(problem *p)
{
    check_free(&p->x);
    check_free(&p->w);
    check_free(&p->bias);
    check_free(&p->y);
}

/* Outputs begin .. begin + n of the problem, into y at the same place; gemv_n knows no bias. */
static void run(const check_case *c, const problem *p, int64_t begin, int64_t n, bool has_bias)
{
    size_t size = cero_dtype_size(c->dtype);
    size_t at = (size_t)begin * size;
    const char *w = p->w.data;
    const char *bias = p->bias.data;
    char *y = p->y.data;

    if (p->is_transposed) {
        c->k->gemv_t[c->dtype](p->k_count, n, p->x.data, w + at * (size_t)p->ld, p->ld,
                               has_bias ? bias + at : NULL, y + at);
    } else {
        c->k->gemv_n[c->dtype](p->k_count, n, p->x.data, w + at, p->ld, (float *)p->y.data + begin);
    }
}

static void check_against_double(const problem *p, bool has_bias)
{
    for (int64_t j = 0; j < p->n; j++) {
        double sum = has_bias ? (double)check_get(&p->bias, j) : 0;

        for (int64_t k = 0; k < p->k_count; k++) {
            int64_t at = p->is_transposed ? j * p->ld + k : k * p->ld + j;
            sum += (double)check_get(&p->x, k) * (double)check_get(&p->w, at);
        }
        check_near(p->is_transposed ? "gemv_t" : "gemv_n", p->y.dtype, j,
                   (double)check_get(&p->y, j), sum, 1e-6, 1 + 4 * sqrt((double)p->k_count));
    }
}

static void check_problem(const check_case *c, int64_t k_count, int64_t n, bool is_transposed)
{
    problem p = {.k_count = k_count, .n = n, .is_transposed = is_transposed};

    open_problem(c, &p);
    run(c, &p, 0, n, false);
    check_against_double(&p, false);
    run(c, &p, 0, n, is_transposed);
    check_against_double(&p, is_transposed);
    check_tensor whole = check_clone(&p.y);
    memset(p.y.data, 0, (size_t)n * cero_dtype_size(p.y.dtype));
    run(c, &p, 0, n / 3, is_transposed);
    run(c, &p, n / 3, n - n / 3, is_transposed);
    check_same("a range cut in two", &p.y, &whole);
    if (k_count > 0) {
        check_set(&p.x, k_count - 1, NAN);
        run(c, &p, 0, n, false);
        for (int64_t j = 0; j < n; j++) {
            if (!isnan(check_get(&p.y, j))) {
                check_fail("NaN of x", j, (double)check_get(&p.y, j), (double)NAN);
            }
        }
    }
    check_free(&whole);
    close_problem(&p);
}

static void check_gemv(const check_case *c)
{
    static const int64_t others[] = {0, 1, 5, 8, 19};

    for (size_t i = 0; i < CERO_COUNT_OF(others); i++) {
        check_problem(c, others[i], c->n, false);
        check_problem(c, c->n, others[i], true);
        if (c->n <= 129) {
            check_problem(c, c->n, others[i], false);
            check_problem(c, others[i], c->n, true);
        }
    }
}

static void test_gemv(void **state)
{
    CERO_UNUSED(state);
    check_all(check_gemv);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_gemv)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
