/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory is aligned, counted by category with current and peak, bounded by the budget, poisoned on
 * request; every allocator can be made to fail at the n-th call.
 */
#include "harness.h"

#include "base/memory.h"

#include <math.h>

static cero_mem *mem;

static int create(void **state)
{
    CERO_UNUSED(state);
    return cero_mem_create(0, &mem) == CERO_OK ? 0 : -1;
}

static int destroy(void **state)
{
    CERO_UNUSED(state);
    cero_mem_destroy(&mem);
    return mem == NULL ? 0 : -1;
}

static void test_accounts(void **state)
{
    CERO_UNUSED(state);
    size_t sizes[] = {0, 1, 63, 64, 4096, 2 * 1024 * 1024, 5 * 1024 * 1024 + 3};
    void *ptr[CERO_COUNT_OF(sizes)];
    size_t total = 0;
    for (size_t i = 0; i < CERO_COUNT_OF(sizes); i++) {
        cero_mem_category category = i % 2 == 0 ? CERO_MEM_PARAM : CERO_MEM_GRAD;
        assert_ok(cero_mem_alloc(mem, sizes[i], category, "a test buffer", &ptr[i]));
        assert_non_null(ptr[i]);
        assert_int_equal((uintptr_t)ptr[i] % CERO_MEM_ALIGNMENT, 0);
        memset(ptr[i], 0x5A, sizes[i]);
        total += sizes[i];
        assert_int_equal(cero_mem_total(mem).current, total);
    }
    assert_int_equal(cero_mem_get(mem, CERO_MEM_GRAD).current, 1 + 64 + 2 * 1024 * 1024);
    assert_int_equal(cero_mem_get(mem, CERO_MEM_MASTER).peak, 0);
    for (size_t i = 0; i < CERO_COUNT_OF(sizes); i++) {
        cero_mem_free(mem, ptr[i]);
    }
    cero_mem_free(mem, NULL);
    assert_int_equal(cero_mem_total(mem).current, 0);
    assert_int_equal(cero_mem_total(mem).peak, total);
    assert_int_equal(cero_mem_get(mem, CERO_MEM_GRAD).peak, 1 + 64 + 2 * 1024 * 1024);
}

/* The peak of the sum is not the sum of peaks. */
static void test_peak_of_the_sum(void **state)
{
    CERO_UNUSED(state);
    void *a = NULL;
    assert_ok(cero_mem_alloc(mem, 100, CERO_MEM_PARAM, "a", &a));
    cero_mem_free(mem, a);
    assert_ok(cero_mem_alloc(mem, 60, CERO_MEM_GRAD, "b", &a));
    cero_mem_free(mem, a);
    assert_int_equal(cero_mem_total(mem).peak, 100);
}

static void test_budget(void **state)
{
    CERO_UNUSED(state);
    cero_mem *bounded = NULL;
    void *a = NULL;
    void *b = NULL;
    assert_ok(cero_mem_create(1000, &bounded));
    assert_ok(cero_mem_alloc(bounded, 600, CERO_MEM_MASTER, "masters", &a));
    assert_fails(cero_mem_alloc(bounded, 401, CERO_MEM_OPTIM, "moments", &b), CERO_ERR_NOMEM,
                 "moments: 401 bytes of category optim asked for, 600 of the budget of 1000");
    assert_fails(cero_mem_alloc(bounded, SIZE_MAX, CERO_MEM_OPTIM, "moments", &b), CERO_ERR_NOMEM,
                 "moments");
    assert_null(b);
    assert_ok(cero_mem_alloc(bounded, 400, CERO_MEM_OPTIM, "moments", &b));
    cero_mem_free(bounded, a);
    cero_mem_free(bounded, b);
    cero_mem_destroy(&bounded);
    assert_fails(cero_mem_alloc(mem, SIZE_MAX - 8, CERO_MEM_OTHER, "too much", &a), CERO_ERR_NOMEM,
                 "too much");
}

static void test_poison(void **state)
{
    CERO_UNUSED(state);
    void *ptr = NULL;
    assert_int_equal(setenv("CERO_POISON", "1", 1), 0);
    assert_ok(cero_mem_alloc(mem, 103, CERO_MEM_PARAM, "poisoned", &ptr));
    assert_int_equal(unsetenv("CERO_POISON"), 0);
    const float *x = ptr;
    for (int i = 0; i < 25; i++) {
        uint32_t bits;
        memcpy(&bits, &x[i], sizeof(bits));
        assert_true(isnan(x[i]));
        assert_int_equal(bits, 0x7FC0CE20);
    }
    cero_mem_free(mem, ptr);
}

static void test_counting_and_failing(void **state)
{
    CERO_UNUSED(state);
    uint64_t before = cero_mem_calls();
    cero_mem_fail_at(2);
    char *a = cero_new(3, 1);
    assert_non_null(a);
    assert_true(a[0] == 0 && a[2] == 0);
    assert_null(cero_strdup("fails"));
    char *b = cero_strndup("works again", 5);
    assert_string_equal(b, "works");
    assert_int_equal(cero_mem_calls() - before, 3);
    cero_mem_fail_at(1);
    assert_null(cero_renew(b, 10, 1));
    assert_string_equal(b, "works");
    cero_mem_fail_at(1);
    void *ptr = NULL;
    assert_fails(cero_mem_alloc(mem, 8, CERO_MEM_IO, "a batch", &ptr), CERO_ERR_NOMEM, "a batch");
    assert_null(cero_renew(NULL, SIZE_MAX / 2, 4));
    cero_delete(a);
    cero_delete(b);
    cero_delete(NULL);
}

static void test_grow(void **state)
{
    CERO_UNUSED(state);
    void *array = NULL;
    int64_t capacity = 0;
    int64_t grown = 0;
    for (int64_t count = 0; count < 1000; count++) {
        int64_t old = capacity;
        assert_ok(cero_grow(&array, count, &capacity, sizeof(int64_t)));
        assert_true(capacity > count);
        grown += capacity != old;
        ((int64_t *)array)[count] = count;
    }
    assert_true(grown < 12);
    assert_int_equal(((int64_t *)array)[500], 500);
    void *same = array;
    int64_t full = capacity;
    cero_mem_fail_at(1);
    assert_fails(cero_grow(&array, capacity, &capacity, 8), CERO_ERR_NOMEM, "entries of 8 bytes");
    assert_ptr_equal(array, same);
    assert_int_equal(capacity, full);
    cero_delete(array);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_accounts, create, destroy),
        cmocka_unit_test_setup_teardown(test_peak_of_the_sum, create, destroy),
        cmocka_unit_test_setup_teardown(test_budget, create, destroy),
        cmocka_unit_test_setup_teardown(test_poison, create, destroy),
        cmocka_unit_test_setup_teardown(test_counting_and_failing, create, destroy),
        cmocka_unit_test_setup_teardown(test_grow, create, destroy),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
