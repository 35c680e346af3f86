/* SPDX-License-Identifier: Apache-2.0 */
/* A device splits every count of tasks over its threads, each task once, and refuses bad requests. */
#include "numbers.h"

#include <stdatomic.h>

enum {
    MOST_TASKS = 1000
};

typedef struct visits {
    atomic_int seen[MOST_TASKS];
    int threads;
} visits;

static void visit_task(void *context, int64_t begin, int64_t end, int thread)
{
    visits *v = context;

    assert_true(begin < end);
    assert_in_range(thread, 0, v->threads - 1);
    for (int64_t i = begin; i < end; i++) {
        atomic_fetch_add(&v->seen[i], 1);
    }
}

typedef void (*split)(const cero_device *d, int64_t count, cero_task task, void *context);

static void check_split(split run)
{
    static const int64_t counts[] = {0, 1, 2, 3, 5, 64, MOST_TASKS};
    static visits v;

    for (int threads = 1; threads <= 5; threads++) {
        cero_device *d = device_with("cpu", threads);
        for (size_t c = 0; c < CERO_COUNT_OF(counts); c++) {
            memset(&v, 0, sizeof(v));
            v.threads = threads;
            run(d, counts[c], visit_task, &v);
            for (int64_t i = 0; i < MOST_TASKS; i++) {
                assert_int_equal(atomic_load(&v.seen[i]), i < counts[c] ? 1 : 0);
            }
        }
        cero_device_destroy(&d);
    }
}

static void test_each_task_runs_once(void **state)
{
    (void)state;
    check_split(cero_device_parallel_for);
    check_split(cero_device_parallel_dynamic);
}

static void test_create(void **state)
{
    cero_device *d = NULL;

    (void)state;
    assert_ok(cero_device_create(NULL, &d));
    assert_string_equal(cero_device_name(d), "cpu");
    assert_false(cero_device_is_meta(d));
    assert_int_equal(cero_device_threads(d), 2); // OMP_NUM_THREADS of the test.
    assert_non_null(cero_device_kernels(d));
    cero_device_destroy(&d);
    assert_null(d);
    d = device_with("meta", 96);
    assert_true(cero_device_is_meta(d));
    assert_int_equal(cero_device_threads(d), 96);
    cero_device_destroy(&d);
    cero_device_destroy(&d);
    assert_fails(cero_device_create(&(cero_device_params){.name = "gpu"}, &d), CERO_ERR_INVALID,
                 "cpu and meta");
    assert_fails(cero_device_create(&(cero_device_params){.threads = -1}, &d), CERO_ERR_INVALID,
                 "-1 threads");
    assert_int_equal(strncmp(cero_device_matmul_library(), "oneDNN ", 7), 0);
}

static void test_create_without_memory(void **state)
{
    (void)state;
    for (uint64_t n = 1; n <= 2; n++) {
        cero_device *d = NULL;
        cero_mem_fail_at(n);
        assert_fails(cero_device_create(NULL, &d), CERO_ERR_NOMEM, "no memory");
        assert_null(d);
    }
    cero_mem_fail_at(0);
}

static void test_row_parts(void **state)
{
    (void)state;
    assert_int_equal(cero_device_row_parts(0), 0);
    assert_int_equal(cero_device_row_parts(1), 1);
    assert_int_equal(cero_device_row_parts(64), 1);
    assert_int_equal(cero_device_row_parts(65), 2);
    assert_int_equal(cero_device_row_parts(4096), 64);
    assert_int_equal(cero_device_row_parts(1000000), 64);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_task_runs_once),
        cmocka_unit_test(test_create),
        cmocka_unit_test(test_create_without_memory),
        cmocka_unit_test(test_row_parts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
