/* SPDX-License-Identifier: Apache-2.0 */
/* Head and loss in chunks and panels give the losses and gradients of the whole softmax in double. */
#include "numbers.h"

typedef struct head_case {
    int64_t rows;
    int64_t cols;
    int64_t vocab;
} head_case;

/* More than one chunk (600 rows), one, two and more panels (4096 columns), a last panel of one. */
static const head_case cases[] = {
    {5, 8, 11},    {1, 16, 64},   {64, 8, 2048}, {600, 4, 100},
    {33, 6, 4097}, {17, 5, 8192}, {3, 7, 9001},
};

typedef struct head {
    cero_dtype dtype;
    head_case c;
    void *x;
    void *weight;
    int32_t *targets;
    float *row_grad;
    float *row_loss;
    void *dx;
    float *dweight;
} head;

static head head_create(cero_dtype dtype, head_case c)
{
    head h = {.dtype = dtype, .c = c};

    h.x = number_random(dtype, c.rows * c.cols, 1);
    h.weight = number_random(dtype, c.vocab * c.cols, 2);
    h.row_grad = number_random(CERO_DTYPE_F32, c.rows, 3);
    h.targets = malloc((size_t)c.rows * sizeof(int32_t));
    h.row_loss = number_scratch((size_t)c.rows * sizeof(float));
    h.dx = number_scratch((size_t)(c.rows * c.cols) * sizeof(float));
    h.dweight = number_scratch((size_t)(c.vocab * c.cols) * sizeof(float));
    assert_non_null(h.targets);
    for (int64_t r = 0; r < c.rows; r++) {
        h.targets[r] = r % 5 == 3 ? -100 : (int32_t)((r * 7919 + c.vocab - 1) % c.vocab);
    }
    return h;
}

static void head_free(head *h)
{
    free(h->x);
    free(h->weight);
    free(h->row_grad);
    free(h->targets);
    free(h->row_loss);
    free(h->dx);
    free(h->dweight);
}

static void head_run(cero_device *d, const head *h, bool is_backward)
{
    const cero_head_loss *plan = NULL;

    assert_ok(cero_device_head_loss_plan(d, h->dtype, h->c.rows, h->c.cols, h->c.vocab, is_backward,
                                         &plan));
    void *scratch = number_scratch(cero_head_loss_scratch(plan));
    cero_head_loss_args args = {.dtype = h->dtype,
                                .rows = h->c.rows,
                                .cols = h->c.cols,
                                .vocab = h->c.vocab,
                                .x = h->x,
                                .weight = h->weight,
                                .targets = h->targets,
                                .row_loss = h->row_loss,
                                .row_grad = is_backward ? h->row_grad : NULL,
                                .dx = is_backward ? h->dx : NULL,
                                .dweight = is_backward ? h->dweight : NULL,
                                .scratch = scratch};
    assert_ok(cero_device_head_loss_run(d, plan, &args));
    free(scratch);
}

/* softmax of row r of x * W^T into p; returns its loss. */
static double naive_row(const head *h, int64_t r, double *p)
{
    double most = -1e300;
    double sum = 0;

    for (int64_t v = 0; v < h->c.vocab; v++) {
        p[v] = 0;
        for (int64_t k = 0; k < h->c.cols; k++) {
            p[v] += number_get(h->dtype, h->x, r * h->c.cols + k) *
                    number_get(h->dtype, h->weight, v * h->c.cols + k);
        }
        most = p[v] > most ? p[v] : most;
    }
    double target = h->targets[r] < 0 ? 0 : p[h->targets[r]] - most;
    for (int64_t v = 0; v < h->c.vocab; v++) {
        p[v] = exp(p[v] - most);
        sum += p[v];
    }
    for (int64_t v = 0; v < h->c.vocab; v++) {
        p[v] /= sum;
    }
    return h->targets[r] < 0 ? 0 : log(sum) - target;
}

static void assert_close(const char *what, const head *h, int64_t at, double found, double want,
                         double limit)
{
    if (!(fabs(found - want) <= limit)) {
        fail_msg("%s [%d] of %d rows, %d columns, vocabulary %d in %s: %g, expected %g", what,
                 (int)at, (int)h->c.rows, (int)h->c.cols, (int)h->c.vocab,
                 cero_dtype_name(h->dtype), found, want);
    }
}

static void check_against_naive(const head *h)
{
    int64_t cols = h->c.cols;
    int64_t vocab = h->c.vocab;
    double eps = 8 * number_epsilon(h->dtype); // Logits of size up to 8 are stored in the type.
    double *p = calloc((size_t)vocab, sizeof(double));
    double *dweight = calloc((size_t)(vocab * cols), sizeof(double));

    assert_non_null(p);
    assert_non_null(dweight);
    for (int64_t r = 0; r < h->c.rows; r++) {
        double loss = naive_row(h, r, p);
        double scale = h->targets[r] < 0 ? 0 : (double)h->row_grad[r];
        assert_close("loss", h, r, (double)h->row_loss[r], loss, h->targets[r] < 0 ? 0 : 4 * eps);
        for (int64_t k = 0; k < cols; k++) {
            double dx = 0;
            for (int64_t v = 0; v < vocab; v++) {
                double g = scale * (p[v] - (v == h->targets[r] ? 1 : 0));
                dx += g * number_get(h->dtype, h->weight, v * cols + k);
                dweight[v * cols + k] += g * number_get(h->dtype, h->x, r * cols + k);
            }
            assert_close("dx", h, r * cols + k, number_get(h->dtype, h->dx, r * cols + k), dx,
                         h->targets[r] < 0 ? 0 : 4 * eps);
        }
    }
    for (int64_t i = 0; i < vocab * cols; i++) {
        assert_close("dweight", h, i, (double)h->dweight[i], dweight[i],
                     eps * (1 + 4 * fabs(dweight[i])));
    }
    free(p);
    free(dweight);
}

static void test_against_naive(void **state)
{
    cero_device *d = device_with("cpu", 2);

    (void)state;
    for (size_t i = 0; i < CERO_COUNT_OF(cases); i++) {
        for (int t = 0; t < CERO_FLOAT_DTYPES; t++) {
            head h = head_create(number_dtypes[t], cases[i]);
            head_run(d, &h, true);
            check_against_naive(&h);
            head_free(&h);
        }
    }
    cero_device_destroy(&d);
}

static void assert_same_bits(const head *x, const head *y)
{
    size_t size = cero_dtype_size(x->dtype);

    assert_memory_equal(x->row_loss, y->row_loss, (size_t)x->c.rows * sizeof(float));
    assert_memory_equal(x->dx, y->dx, (size_t)(x->c.rows * x->c.cols) * size);
    assert_memory_equal(x->dweight, y->dweight, (size_t)(x->c.vocab * x->c.cols) * sizeof(float));
}

/*
 * A second run gives the same bits, loss alone is the loss of the pass with gradients, and 1 thread
 * gives the bits of 2 for sizes at which the library does not split sums (see test_threads.c).
 */
static void test_same_bits(void **state)
{
    cero_device *one = device_with("cpu", 1);
    cero_device *two = device_with("cpu", 2);
    head_case c = {600, 64, 5000};

    (void)state;
    for (int t = 0; t < CERO_FLOAT_DTYPES; t++) {
        head x = head_create(number_dtypes[t], c);
        head y = head_create(number_dtypes[t], c);
        head_run(two, &x, true);
        head_run(two, &y, true);
        assert_same_bits(&x, &y);
        head_run(two, &y, false);
        assert_memory_equal(x.row_loss, y.row_loss, (size_t)c.rows * sizeof(float));
        if (library_keeps_sums_whole(one)) {
            head_run(one, &y, true);
            assert_same_bits(&x, &y);
        }
        head_free(&x);
        head_free(&y);
    }
    cero_device_destroy(&one);
    cero_device_destroy(&two);
}

/* A frozen weight leaves dx as it is; no rows leave a weight gradient of zeros. */
static void test_parts_of_backward(void **state)
{
    cero_device *d = device_with("cpu", 2);
    head h = head_create(CERO_DTYPE_F32, cases[0]);
    head none = head_create(CERO_DTYPE_F32, (head_case){0, 8, 11});
    float *dweight = h.dweight;
    float *dx = h.dx;

    (void)state;
    head_run(d, &h, true);
    h.dweight = NULL;
    h.dx = number_scratch((size_t)(h.c.rows * h.c.cols) * sizeof(float));
    head_run(d, &h, true);
    assert_memory_equal(h.dx, dx, (size_t)(h.c.rows * h.c.cols) * sizeof(float));
    free(dx);
    h.dweight = dweight;
    head_free(&h);
    head_run(d, &none, true);
    for (int64_t i = 0; i < 88; i++) {
        assert_true(none.dweight[i] == 0.0f);
    }
    head_free(&none);
    cero_device_destroy(&d);
}

static void test_plans(void **state)
{
    cero_device *cpu = device_with("cpu", 2);
    cero_device *meta = device_with("meta", 2);
    const cero_head_loss *a = NULL;
    const cero_head_loss *b = NULL;

    (void)state;
    for (int t = 0; t < 2; t++) {
        // Vocabulary and rows of GPT-2: scratch stays below 128 MiB.
        assert_ok(cero_device_head_loss_plan(cpu, number_dtypes[t], 4096, 768, 50257, true, &a));
        assert_ok(cero_device_head_loss_plan(meta, number_dtypes[t], 4096, 768, 50257, true, &b));
        assert_int_equal(cero_head_loss_scratch(a), cero_head_loss_scratch(b));
        assert_in_range(cero_head_loss_scratch(a), 32u << 20, 128u << 20);
        assert_ok(cero_device_head_loss_plan(cpu, number_dtypes[t], 4096, 768, 50257, true, &b));
        assert_ptr_equal(a, b);
    }
    assert_fails(cero_device_head_loss_plan(cpu, CERO_DTYPE_F32, 4, 0, 3, false, &a),
                 CERO_ERR_SHAPE, "0 columns");
    assert_fails(cero_device_head_loss_plan(cpu, CERO_DTYPE_F64, 4, 4, 3, false, &a),
                 CERO_ERR_UNSUPPORTED, "f64");
    cero_device_destroy(&cpu);
    cero_device_destroy(&meta);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_against_naive),
        cmocka_unit_test(test_same_bits),
        cmocka_unit_test(test_parts_of_backward),
        cmocka_unit_test(test_plans),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
