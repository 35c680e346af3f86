/* SPDX-License-Identifier: Apache-2.0 */
/* Sums over rows, updates and products have the same bits for 1, 2, 3 and 7 threads. */
#include "numbers.h"

enum {
    ROWS = 333,
    COLS = 200,
    COUNT = ROWS * COLS,
    VOCAB = 17,
    OUTPUTS = 8
};

static const int thread_counts[] = {1, 2, 3, 7};

/* Everything an operation wrote; the second run on other threads must write the same bytes. */
typedef struct record {
    void *out[OUTPUTS]; /* COUNT floats each */
} record;

static record record_create(void)
{
    record r;

    for (int i = 0; i < OUTPUTS; i++) {
        r.out[i] = number_scratch(COUNT * sizeof(float));
        memset(r.out[i], 0, COUNT * sizeof(float));
    }
    return r;
}

static void record_free(record *r)
{
    for (int i = 0; i < OUTPUTS; i++) {
        free(r->out[i]);
    }
}

typedef void (*operation)(cero_device *d, cero_dtype dtype, record *r);

static void run_column_sums(cero_device *d, cero_dtype dtype, record *r)
{
    void *x = number_random(dtype, COUNT, 1);
    void *scratch = number_scratch(cero_device_column_sums_scratch(ROWS, COLS));

    cero_device_scale(d, dtype, COUNT, 0.37f, x, x); // Sums that round.
    cero_device_column_sums(d, dtype, ROWS, COLS, x, CERO_DTYPE_F32, r->out[0], scratch);
    cero_device_column_sums(d, dtype, ROWS, COLS, x, dtype, r->out[1], scratch);
    free(x);
    free(scratch);
}

static void run_norm(cero_device *d, cero_dtype dtype, record *r, bool is_rms)
{
    void *x = number_random(dtype, COUNT, 1);
    void *dy = number_random(dtype, COUNT, 2);
    void *gamma = number_random(dtype, COLS, 3);
    void *beta = number_random(dtype, COLS, 4);
    void *scratch = number_scratch(cero_device_norm_scratch(ROWS, COLS));
    cero_norm_args args = {.dtype = dtype,
                           .is_rms = is_rms,
                           .rows = ROWS,
                           .cols = COLS,
                           .eps = 1e-5f,
                           .x = x,
                           .gamma = gamma,
                           .beta = is_rms ? NULL : beta,
                           .y = r->out[0],
                           .mean = r->out[1],
                           .rstd = r->out[2],
                           .dy = dy,
                           .dx = r->out[3],
                           .dgamma = r->out[4],
                           .dbeta = is_rms ? NULL : r->out[5],
                           .scratch = scratch};

    cero_device_norm_forward(d, &args);
    cero_device_norm_backward(d, &args);
    free(x);
    free(dy);
    free(gamma);
    free(beta);
    free(scratch);
}

static void run_layernorm(cero_device *d, cero_dtype dtype, record *r)
{
    run_norm(d, dtype, r, false);
}

static void run_rmsnorm(cero_device *d, cero_dtype dtype, record *r)
{
    run_norm(d, dtype, r, true);
}

static void run_embedding(cero_device *d, cero_dtype dtype, record *r)
{
    int32_t ids[ROWS];
    void *dy = number_random(dtype, COUNT, 5);

    for (int i = 0; i < ROWS; i++) {
        ids[i] = i * i % VOCAB;
    }
    cero_device_scale(d, dtype, COUNT, 0.37f, dy, dy);
    cero_device_embedding_forward(d, dtype, ROWS, COLS, ids, dy, r->out[0]);
    cero_device_embedding_backward(d, dtype, ROWS, COLS, ids, dy, r->out[1]);
    free(dy);
}

static void run_dropout_rotary(cero_device *d, cero_dtype dtype, record *r)
{
    void *x = number_random(dtype, COUNT, 6);
    float *angles = number_random(CERO_DTYPE_F32, ROWS * 20, 7);

    cero_device_dropout(d, &(cero_dropout_args){.dtype = dtype,
                                                .samples = ROWS / 3,
                                                .per_sample = 3 * COLS,
                                                .p = 0.3,
                                                .key = cero_rng_make_key(1, CERO_RNG_TEST, 2, 3),
                                                .x = x,
                                                .y = r->out[0]});
    cero_device_rotary(d, &(cero_rotary_args){.dtype = dtype,
                                              .batch = 3,
                                              .seq_len = ROWS / 3,
                                              .heads = COLS / 40,
                                              .head_dim = 40,
                                              .cos = angles,
                                              .sin = angles + 20,
                                              .x = x,
                                              .y = r->out[1]});
    free(x);
    free(angles);
}

static void run_update(cero_device *d, cero_dtype dtype, record *r)
{
    const int64_t n = COUNT - 13;
    void *grad = number_random(dtype, COUNT, 8);
    const cero_adamw_args args = {.grad_scale = 0.7f,
                                  .lr = 0.01f,
                                  .beta1 = 0.9f,
                                  .beta2 = 0.95f,
                                  .eps = 1e-8f,
                                  .weight_decay = 0.1f,
                                  .step_size = 0.01f,
                                  .inv_sqrt_bias2 = 1.5f,
                                  .is_decoupled = true};

    cero_device_square_sums(d, dtype, n, grad, r->out[0]);
    for (int step = 0; step < 2; step++) {
        cero_device_adamw(d, n, &args, dtype, grad, r->out[1], r->out[2], r->out[3],
                          CERO_DTYPE_BF16, r->out[4]);
    }
    cero_device_adamw(d, n, &args, dtype, grad, r->out[5], r->out[6], r->out[7], CERO_DTYPE_F32,
                      NULL);
    free(grad);
}

/* One row, both ways of storing the weights: our kernels. */
static void run_row_product(cero_device *d, cero_dtype dtype, record *r)
{
    void *x = number_random(dtype, COLS, 9);
    void *w = number_random(dtype, COUNT, 10);

    for (int t = 0; t < 2; t++) {
        cero_matmul_desc desc = {.M = 1,
                                 .N = ROWS,
                                 .K = COLS,
                                 .is_b_transposed = t != 0,
                                 .has_bias = true,
                                 .ab_dtype = dtype,
                                 .c_dtype = dtype};
        const cero_matmul *plan = NULL;
        assert_ok(cero_device_matmul_plan(d, &desc, &plan));
        // Sums of parts of K when the weights are stored [in, out].
        void *scratch = aligned_alloc(64, (cero_matmul_scratch(plan) + 64) / 64 * 64);
        assert_non_null(scratch);
        assert_ok(cero_device_matmul_run(d, plan, x, w, w, r->out[t], scratch));
        free(scratch);
    }
    free(x);
    free(w);
}

static const struct {
    const char *name;
    operation run;
} operations[] = {
    {"column sums", run_column_sums},
    {"layernorm", run_layernorm},
    {"rmsnorm", run_rmsnorm},
    {"embedding", run_embedding},
    {"dropout, rotary", run_dropout_rotary},
    {"update", run_update},
    {"product of one row", run_row_product},
};

static void check_operation(size_t which, cero_dtype dtype)
{
    record first = record_create();

    for (size_t t = 0; t < CERO_COUNT_OF(thread_counts); t++) {
        cero_device *d = device_with("cpu", thread_counts[t]);
        record other = record_create();
        operations[which].run(d, dtype, t == 0 ? &first : &other);
        for (int i = 0; t > 0 && i < OUTPUTS; i++) {
            if (memcmp(first.out[i], other.out[i], COUNT * sizeof(float)) != 0) {
                fail_msg("%s in %s: output %d has other bits on %d threads than on 1",
                         operations[which].name, cero_dtype_name(dtype), i, thread_counts[t]);
            }
        }
        record_free(&other);
        cero_device_destroy(&d);
    }
    record_free(&first);
}

static void test_operations(void **state)
{
    (void)state;
    for (size_t which = 0; which < CERO_COUNT_OF(operations); which++) {
        for (int t = 0; t < CERO_FLOAT_DTYPES; t++) {
            check_operation(which, number_dtypes[t]);
        }
    }
}

static void run_product(int threads, const cero_matmul_desc *desc, void *c)
{
    cero_device *d = device_with("cpu", threads);
    const cero_matmul *plan = NULL;
    void *a = number_random(desc->ab_dtype, desc->M * desc->K, 1);
    void *b = number_random(desc->ab_dtype, desc->K * desc->N, 2);

    cero_device_scale(d, desc->ab_dtype, desc->M * desc->K, 0.37f, a, a);
    assert_ok(cero_device_matmul_plan(d, desc, &plan));
    void *scratch = number_scratch(cero_matmul_scratch(plan));
    assert_ok(cero_device_matmul_run(d, plan, a, b, NULL, c, scratch));
    free(scratch);
    free(a);
    free(b);
    cero_device_destroy(&d);
}

/* Products of the sizes of training: forward, both gradients. */
static void test_products(void **state)
{
    static const cero_matmul_desc descs[] = {
        {.M = 64, .N = 512, .K = 256},
        {.M = 64, .N = 256, .K = 512, .is_b_transposed = true},
        {.M = 256, .N = 512, .K = 64, .is_a_transposed = true},
        {.M = 256, .N = 256, .K = 1024, .is_a_transposed = true},
    };

    cero_device *device = device_with("cpu", 1);
    bool is_whole = library_keeps_sums_whole(device);

    (void)state;
    cero_device_destroy(&device);
    if (!is_whole) {
        print_message("skipped: %s may split sums here\n", cero_device_matmul_library());
        skip();
    }
    for (size_t i = 0; i < CERO_COUNT_OF(descs); i++) {
        for (int t = 0; t < 2; t++) {
            cero_matmul_desc d = descs[i];
            d.ab_dtype = d.c_dtype = number_dtypes[t];
            size_t nbytes = (size_t)(d.M * d.N) * cero_dtype_size(d.c_dtype);
            void *one = number_scratch(nbytes);
            void *two = number_scratch(nbytes);
            run_product(1, &d, one);
            run_product(2, &d, two);
            assert_memory_equal(one, two, nbytes);
            free(one);
            free(two);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_operations),
        cmocka_unit_test(test_products),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
