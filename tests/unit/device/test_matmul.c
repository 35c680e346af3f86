/* SPDX-License-Identifier: Apache-2.0 */
/* Products of every type, transpose, stride and addition agree with a naive sum in double. */
#include "numbers.h"

typedef struct shape {
    int64_t M;
    int64_t N;
    int64_t K;
    int64_t pad; /* added to each leading dimension */
} shape;

static const shape shapes[] = {
    {1, 1, 1, 0},    {1, 130, 37, 0},  {1, 67, 300, 3},  {2, 3, 5, 1},      {7, 1, 9, 0},
    {33, 65, 17, 0}, {64, 64, 64, 0},  {31, 257, 3, 5},  {5, 7, 0, 0},      {0, 4, 4, 0},
    {4, 0, 4, 0},    {97, 50, 129, 7}, {256, 96, 48, 0}, {48, 771, 80, 29}, {1, 8, 0, 0},
};

static double naive(const cero_matmul_desc *d, const void *a, const void *b, int64_t i, int64_t j,
                    double *magnitude)
{
    double sum = 0;

    for (int64_t k = 0; k < d->K; k++) {
        double x = number_get(d->ab_dtype, a, d->is_a_transposed ? k * d->lda + i : i * d->lda + k);
        double y = number_get(d->ab_dtype, b, d->is_b_transposed ? j * d->ldb + k : k * d->ldb + j);
        sum += x * y;
        *magnitude += fabs(x * y);
    }
    return sum;
}

static void check_result(const cero_matmul_desc *d, const void *a, const void *b, const void *bias,
                         const void *before, const void *c)
{
    for (int64_t i = 0; i < d->M; i++) {
        for (int64_t j = 0; j < d->ldc; j++) {
            int64_t at = i * d->ldc + j;
            double found = number_get(d->c_dtype, c, at);
            if (j >= d->N) { // Between rows nothing is written.
                assert_true(found == number_get(d->c_dtype, before, at));
                continue;
            }
            double magnitude = 0;
            double want = naive(d, a, b, i, j, &magnitude);
            want += d->has_bias ? number_get(d->ab_dtype, bias, j) : 0;
            want += d->is_adding ? number_get(d->c_dtype, before, at) : 0;
            double limit = 4e-7 * (magnitude + 4) + number_epsilon(d->c_dtype) * fabs(want);
            if (!(fabs(found - want) <= limit)) {
                fail_msg("M %d N %d K %d, ta %d tb %d bias %d add %d, %s to %s: C[%d, %d] is %g, "
                         "expected %g",
                         (int)d->M, (int)d->N, (int)d->K, d->is_a_transposed, d->is_b_transposed,
                         d->has_bias, d->is_adding, cero_dtype_name(d->ab_dtype),
                         cero_dtype_name(d->c_dtype), (int)i, (int)j, found, want);
            }
        }
    }
}

static void check_product(cero_device *cpu, cero_device *meta, const cero_matmul_desc *d)
{
    const cero_matmul *plan = NULL;
    const cero_matmul *meta_plan = NULL;
    int64_t c_count = d->M * d->ldc;
    void *a = number_random(d->ab_dtype, (d->is_a_transposed ? d->K : d->M) * d->lda, 1);
    void *b = number_random(d->ab_dtype, (d->is_b_transposed ? d->N : d->K) * d->ldb, 2);
    void *bias = number_random(d->ab_dtype, d->N, 3);
    void *c = number_random(d->c_dtype, c_count, 4);
    void *before = number_random(d->c_dtype, c_count, 4);

    assert_ok(cero_device_matmul_plan(cpu, d, &plan));
    assert_ok(cero_device_matmul_plan(meta, d, &meta_plan));
    assert_int_equal(cero_matmul_scratch(plan), cero_matmul_scratch(meta_plan));
    void *scratch = number_scratch(cero_matmul_scratch(plan));
    if (!d->is_adding) { // What is not added to may hold NaN.
        for (int64_t i = 0; i < d->M; i++) {
            memset((char *)c + (size_t)(i * d->ldc) * cero_dtype_size(d->c_dtype), 0xFF,
                   (size_t)d->N * cero_dtype_size(d->c_dtype));
        }
    }
    assert_ok(cero_device_matmul_run(cpu, plan, a, b, bias, c, scratch));
    check_result(d, a, b, bias, before, c);
    free(a);
    free(b);
    free(bias);
    free(c);
    free(before);
    free(scratch);
}

/* The eight combinations of a bit mask, for one shape and pair of types. */
static void check_flags(cero_device *cpu, cero_device *meta, const shape *s, cero_dtype ab,
                        cero_dtype c)
{
    for (int flags = 0; flags < 16; flags++) {
        cero_matmul_desc d = {.M = s->M,
                              .N = s->N,
                              .K = s->K,
                              .is_a_transposed = (flags & 1) != 0,
                              .is_b_transposed = (flags & 2) != 0,
                              .has_bias = (flags & 4) != 0,
                              .is_adding = (flags & 8) != 0,
                              .ab_dtype = ab,
                              .c_dtype = c};
        d.lda = (d.is_a_transposed ? s->M : s->K) + s->pad;
        d.ldb = (d.is_b_transposed ? s->K : s->N) + s->pad;
        d.ldc = s->N + s->pad;
        if (d.lda == 0 || d.ldb == 0 || d.ldc == 0 || (d.is_adding && c != CERO_DTYPE_F32)) {
            continue;
        }
        check_product(cpu, meta, &d);
    }
}

static void test_products(void **state)
{
    cero_device *cpu = device_with("cpu", 2);
    cero_device *meta = device_with("meta", 2);

    (void)state;
    for (size_t i = 0; i < CERO_COUNT_OF(shapes); i++) {
        for (int t = 0; t < CERO_FLOAT_DTYPES; t++) {
            check_flags(cpu, meta, &shapes[i], number_dtypes[t], number_dtypes[t]);
            if (t != 0) {
                check_flags(cpu, meta, &shapes[i], number_dtypes[t], CERO_DTYPE_F32);
            }
        }
    }
    cero_device_destroy(&cpu);
    cero_device_destroy(&meta);
}

static void test_plans_are_shared(void **state)
{
    cero_device *d = device_with("cpu", 2);
    const cero_matmul *first = NULL;
    const cero_matmul *again = NULL;
    const cero_matmul *other = NULL;
    cero_matmul_desc desc = {.M = 8, .N = 16, .K = 4};

    (void)state;
    assert_ok(cero_device_matmul_plan(d, &desc, &first));
    desc.ldb = 16; // What 0 stands for.
    assert_ok(cero_device_matmul_plan(d, &desc, &again));
    assert_ptr_equal(first, again);
    desc.has_bias = true;
    assert_ok(cero_device_matmul_plan(d, &desc, &other));
    assert_ptr_not_equal(first, other);
    cero_device_destroy(&d);
}

static void test_bad_requests(void **state)
{
    cero_device *d = device_with("cpu", 1);
    const cero_matmul *plan = NULL;
    cero_matmul_desc desc = {.M = 8, .N = 16, .K = 4};

    (void)state;
    desc.M = -1;
    assert_fails(cero_device_matmul_plan(d, &desc, &plan), CERO_ERR_SHAPE, "negative");
    desc.M = 8;
    desc.ldb = 15;
    assert_fails(cero_device_matmul_plan(d, &desc, &plan), CERO_ERR_SHAPE, "shorter");
    desc.ldb = 0;
    desc.c_dtype = CERO_DTYPE_BF16;
    assert_fails(cero_device_matmul_plan(d, &desc, &plan), CERO_ERR_UNSUPPORTED, "f32 giving bf16");
    desc.ab_dtype = CERO_DTYPE_BF16;
    desc.is_adding = true;
    assert_fails(cero_device_matmul_plan(d, &desc, &plan), CERO_ERR_UNSUPPORTED, "added to a bf16");
    desc.ab_dtype = CERO_DTYPE_I32;
    assert_fails(cero_device_matmul_plan(d, &desc, &plan), CERO_ERR_UNSUPPORTED, "product of i32");
    cero_device_destroy(&d);
}

static void test_without_memory(void **state)
{
    cero_device *d = device_with("cpu", 1);
    const cero_matmul *plan = NULL;
    cero_matmul_desc desc = {.M = 8, .N = 16, .K = 4};

    (void)state;
    for (uint64_t n = 1; n <= 2; n++) {
        cero_mem_fail_at(n);
        assert_fails(cero_device_matmul_plan(d, &desc, &plan), CERO_ERR_NOMEM, "no memory");
    }
    cero_mem_fail_at(0);
    assert_ok(cero_device_matmul_plan(d, &desc, &plan));
    cero_device_destroy(&d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_products),
        cmocka_unit_test(test_plans_are_shared),
        cmocka_unit_test(test_bad_requests),
        cmocka_unit_test(test_without_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
