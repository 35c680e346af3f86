/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Both normalisations and their gradients follow the formulas in double; a row's bits do not depend on
 * the rows beside it, and a NaN stays in its row.
 */
#include "kernels/check.h"

typedef struct problem {
    int64_t rows;
    int64_t cols;
    bool is_rms;
    bool has_beta;
    check_tensor x;
    check_tensor gamma;
    check_tensor beta;
    check_tensor y;
    check_tensor dy;
    check_tensor dx;
    check_tensor mean;
    check_tensor rstd;
    check_tensor dgamma;
    check_tensor dbeta;
} problem;

static const float eps = 1e-5f;

static void open_problem(const check_case *c, problem *p)
{
    int64_t n = p->rows * p->cols;
    check_tensor *wide[] = {&p->x, &p->y, &p->dy, &p->dx};
    check_tensor *row[] = {&p->gamma, &p->beta};
    check_tensor *scalar[] = {&p->mean, &p->rstd};
    check_tensor *sums[] = {&p->dgamma, &p->dbeta};

    for (size_t i = 0; i < 4; i++) {
        *wide[i] = check_make(c, n);
        check_random(wide[i], 80 + i, 2.0f);
    }
    for (size_t i = 0; i < 2; i++) {
        *row[i] = check_make(c, p->cols);
        *scalar[i] = check_make_f32(c, p->rows);
        *sums[i] = check_make_f32(c, p->cols);
        check_random(row[i], 90 + i, 1.5f);
        check_random(sums[i], 92 + i, 1.0f);
    }
    for (int64_t i = 0; i < n; i++) { // Off centre, as activations are.
        check_set(&p->x, i, check_get(&p->x, i) + 0.75f);
    }
}

static void close_problem(problem *p)
{
    check_tensor *all[] = {&p->x,    &p->y,    &p->dy,   &p->dx,     &p->gamma,
                           &p->beta, &p->mean, &p->rstd, &p->dgamma, &p->dbeta};

    for (size_t i = 0; i < CERO_COUNT_OF(all); i++) {
        check_free(all[i]);
    }
}

static char *row_of(const problem *p, const check_tensor *t, int64_t r)
{
    return (char *)t->data + (size_t)(r * p->cols) * cero_dtype_size(t->dtype);
}

/* Rows begin .. begin + rows. */
static void run_forward(const check_case *c, problem *p, int64_t begin, int64_t rows)
{
    float *mean = (float *)p->mean.data + begin;
    float *rstd = (float *)p->rstd.data + begin;

    if (p->is_rms) {
        c->k->rmsnorm_forward[c->dtype](rows, p->cols, eps, row_of(p, &p->x, begin), p->gamma.data,
                                        row_of(p, &p->y, begin), rstd);
    } else {
        c->k->layernorm_forward[c->dtype](rows, p->cols, eps, row_of(p, &p->x, begin),
                                          p->gamma.data, p->has_beta ? p->beta.data : NULL,
                                          row_of(p, &p->y, begin), mean, rstd);
    }
}

static void run_backward(const check_case *c, problem *p, int64_t begin, int64_t rows,
                         bool is_adding)
{
    const float *mean = (const float *)p->mean.data + begin;
    const float *rstd = (const float *)p->rstd.data + begin;

    if (p->is_rms) {
        c->k->rmsnorm_backward[c->dtype](rows, p->cols, row_of(p, &p->dy, begin),
                                         row_of(p, &p->x, begin), p->gamma.data, rstd, is_adding,
                                         row_of(p, &p->dx, begin), p->dgamma.data);
    } else {
        c->k->layernorm_backward[c->dtype](rows, p->cols, row_of(p, &p->dy, begin),
                                           row_of(p, &p->x, begin), p->gamma.data, mean, rstd,
                                           is_adding, row_of(p, &p->dx, begin), p->dgamma.data,
                                           p->has_beta ? p->dbeta.data : NULL);
    }
}

static double at(const problem *p, const check_tensor *t, int64_t r, int64_t c)
{
    return (double)check_get(t, r * p->cols + c);
}

/* mean and rstd of a row in double. */
static void exact_moments(const problem *p, int64_t r, double *mean, double *rstd)
{
    double sum = 0;
    double square = 0;

    for (int64_t c = 0; c < p->cols; c++) {
        sum += at(p, &p->x, r, c);
    }
    *mean = p->is_rms ? 0 : sum / (double)p->cols;
    for (int64_t c = 0; c < p->cols; c++) {
        square += pow(at(p, &p->x, r, c) - *mean, 2);
    }
    *rstd = 1 / sqrt(square / (double)p->cols + (double)eps);
}

static void check_forward(const check_case *c, problem *p)
{
    run_forward(c, p, 0, p->rows);
    for (int64_t r = 0; r < p->rows; r++) {
        double mean;
        double rstd;

        exact_moments(p, r, &mean, &rstd);
        check_near("rstd", CERO_DTYPE_F32, r, (double)check_get(&p->rstd, r), rstd, 3e-6, 0);
        if (!p->is_rms) {
            check_near("mean", CERO_DTYPE_F32, r, (double)check_get(&p->mean, r), mean, 1e-6, 1.0);
        }
        // The error of the mean, about 1e-7, is blown up by rstd (row of one column: 1 / sqrt(eps)).
        for (int64_t j = 0; j < p->cols; j++) {
            double bias = p->has_beta ? (double)check_get(&p->beta, j) : 0;
            double y = (double)check_get(&p->gamma, j) * (at(p, &p->x, r, j) - mean) * rstd + bias;
            check_near("y", c->dtype, r * p->cols + j, at(p, &p->y, r, j), y, 4e-6, 1 + rstd);
        }
    }
}

/* One row in double: adds to dgamma and dbeta, compares dx. */
static void check_backward_row(const check_case *c, const problem *p, int64_t r, double *dgamma,
                               double *dbeta)
{
    double mean = p->is_rms ? 0 : (double)check_get(&p->mean, r);
    double rstd = (double)check_get(&p->rstd, r);
    double mean_g = 0;
    double mean_gx = 0;

    for (int64_t j = 0; j < p->cols; j++) {
        double xhat = (at(p, &p->x, r, j) - mean) * rstd;
        double g = (double)check_get(&p->gamma, j) * at(p, &p->dy, r, j);

        mean_g += g / (double)p->cols;
        mean_gx += g * xhat / (double)p->cols;
        dgamma[j] += at(p, &p->dy, r, j) * xhat;
        dbeta[j] += at(p, &p->dy, r, j);
    }
    mean_g = p->is_rms ? 0 : mean_g;
    for (int64_t j = 0; j < p->cols; j++) {
        double xhat = (at(p, &p->x, r, j) - mean) * rstd;
        double g = (double)check_get(&p->gamma, j) * at(p, &p->dy, r, j);
        double dx = rstd * (g - mean_g - xhat * mean_gx);

        check_near("dx", c->dtype, r * p->cols + j, at(p, &p->dx, r, j), dx, 2e-6, 4 * rstd);
    }
}

static void check_backward(const check_case *c, problem *p, bool is_adding)
{
    double dgamma[300] = {0};
    double dbeta[300] = {0};

    for (int64_t j = 0; j < p->cols && is_adding; j++) {
        dgamma[j] = (double)check_get(&p->dgamma, j);
        dbeta[j] = (double)check_get(&p->dbeta, j);
    }
    if (!is_adding && p->cols > 0) { // What is written may hold NaN before.
        check_set(&p->dgamma, p->cols - 1, NAN);
        check_set(&p->dbeta, p->cols - 1, NAN);
    }
    run_backward(c, p, 0, p->rows, is_adding);
    for (int64_t r = 0; r < p->rows; r++) {
        check_backward_row(c, p, r, dgamma, dbeta);
    }
    for (int64_t j = 0; j < p->cols; j++) {
        double scale = 4.0 * (double)p->rows + 1;
        check_near("dgamma", CERO_DTYPE_F32, j, (double)check_get(&p->dgamma, j), dgamma[j], 1e-6,
                   scale);
        if (p->has_beta && !p->is_rms) {
            check_near("dbeta", CERO_DTYPE_F32, j, (double)check_get(&p->dbeta, j), dbeta[j], 1e-6,
                       scale);
        }
    }
}

/* Row by row gives the bits of one call. */
static void check_rows_alone(const check_case *c, problem *p)
{
    run_backward(c, p, 0, p->rows, false);
    check_tensor y = check_clone(&p->y);
    check_tensor dx = check_clone(&p->dx);
    check_tensor dgamma = check_clone(&p->dgamma);

    for (int64_t r = 0; r < p->rows; r++) {
        run_forward(c, p, r, 1);
        run_backward(c, p, r, 1, r > 0);
    }
    check_same("y row by row", &p->y, &y);
    check_same("dx row by row", &p->dx, &dx);
    check_same("dgamma row by row", &p->dgamma, &dgamma);
    check_free(&y);
    check_free(&dx);
    check_free(&dgamma);
}

static void check_nan(const check_case *c, problem *p)
{
    if (p->rows == 0 || p->cols == 0) {
        return;
    }
    check_set(&p->x, (p->rows - 1) * p->cols + p->cols / 2, NAN);
    run_forward(c, p, 0, p->rows);
    run_backward(c, p, 0, p->rows, false);
    for (int64_t i = 0; i < p->rows * p->cols; i++) {
        bool is_spoiled = i / p->cols == p->rows - 1;
        if (!isnan(check_get(&p->y, i)) == is_spoiled ||
            !isnan(check_get(&p->dx, i)) == is_spoiled) {
            check_fail("NaN in the last row", i, (double)check_get(&p->y, i), (double)is_spoiled);
        }
    }
}

static void check_norm_of(const check_case *c, int64_t rows, bool is_rms, bool has_beta)
{
    problem p = {.rows = rows, .cols = c->n, .is_rms = is_rms, .has_beta = has_beta};

    open_problem(c, &p);
    check_forward(c, &p);
    check_backward(c, &p, false);
    check_backward(c, &p, true);
    check_rows_alone(c, &p);
    check_nan(c, &p);
    close_problem(&p);
}

static void check_norm(const check_case *c)
{
    static const int64_t rows[] = {0, 1, 4, 7};

    for (size_t i = 0; i < CERO_COUNT_OF(rows) && c->n <= 257; i++) {
        check_norm_of(c, rows[i], false, true);
        check_norm_of(c, rows[i], false, false);
        check_norm_of(c, rows[i], true, false);
    }
}

/* A hidden size as models have, against ref. */
static void check_wide(const check_case *c)
{
    problem p = {.rows = 5, .cols = c->n, .has_beta = true};

    if (c->n < 768) {
        return;
    }
    open_problem(c, &p);
    run_forward(c, &p, 0, p.rows);
    run_backward(c, &p, 0, p.rows, false);
    check_tensor y = check_clone(&p.y);
    check_tensor dx = check_clone(&p.dx);
    check_tensor dgamma = check_clone(&p.dgamma);
    check_case oracle = *c;
    oracle.k = c->ref;
    run_forward(&oracle, &p, 0, p.rows);
    run_backward(&oracle, &p, 0, p.rows, false);
    check_close("wide y", &y, &p.y, 4e-6, 4.0);
    check_close("wide dx", &dx, &p.dx, 4e-6, 4.0);
    check_close("wide dgamma", &dgamma, &p.dgamma, 4e-6, 8.0);
    check_free(&y);
    check_free(&dx);
    check_free(&dgamma);
    close_problem(&p);
}

static void test_norm(void **state)
{
    CERO_UNUSED(state);
    check_all(check_norm);
    check_all(check_wide);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_norm)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
