/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the kernel checks share: tensors between forbidden pages, random values, and comparisons.
 *
 * A check is a function of one case; check_all runs it for every instruction set this CPU has, every
 * dtype, every length of the table and both placements. A tensor ends at a page that may not be touched
 * (place 0) or starts one element after one (place 1), so that a stray access stops the program; the
 * bytes that are left on its pages are compared with a pattern.
 */
#ifndef CERO_TESTS_KERNELS_CHECK_H
#define CERO_TESTS_KERNELS_CHECK_H

#include "harness.h"

#include "kernels/kernels.h"

#include <math.h>
#include <sys/mman.h>
#include <unistd.h>

typedef struct check_case {
    const cero_kernels *k;   /* under test */
    const cero_kernels *ref; /* the oracle */
    cero_dtype dtype;
    int64_t n;
    int place;
} check_case;

typedef struct check_tensor {
    void *data;
    int64_t n;
    cero_dtype dtype;
    int place;
    unsigned char *pages; /* without the forbidden ones */
    size_t page_bytes;
} check_tensor;

enum {
    CHECK_PATTERN = 0xA5
};

static const int64_t check_lengths[] = {
    0,  1,  2,   3,   5,   7,   8,   9,   15,  16,  17,  24,   31,   32,   33,   47,   63,
    64, 65, 100, 127, 128, 129, 255, 256, 257, 511, 768, 1000, 1024, 1025, 2047, 2049, 4099};

/* Where a failure is: shown by check_fail. */
static const check_case *check_now;

static inline void check_fail(const char *what, int64_t at, double actual, double expected)
{
    fail_msg("%s: isa %s, dtype %s, n %lld, place %d, element %lld: %.9g, expected %.9g", what,
             check_now->k->isa, cero_dtype_name(check_now->dtype), (long long)check_now->n,
             check_now->place, (long long)at, actual, expected);
}

static inline size_t check_round_up(size_t nbytes)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    return (nbytes / page + 1) * page;
}

static inline check_tensor check_make_as(cero_dtype dtype, int64_t n, int place)
{
    check_tensor t = {.n = n, .dtype = dtype, .place = place};
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t nbytes = (size_t)n * cero_dtype_size(dtype);

    t.page_bytes = check_round_up(nbytes + cero_dtype_size(dtype));
    unsigned char *map = mmap(NULL, t.page_bytes + 2 * page, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(map != MAP_FAILED);
    assert_int_equal(mprotect(map, page, PROT_NONE), 0);
    assert_int_equal(mprotect(map + page + t.page_bytes, page, PROT_NONE), 0);
    t.pages = map + page;
    memset(t.pages, CHECK_PATTERN, t.page_bytes);
    t.data = place == 0 ? t.pages + t.page_bytes - nbytes : t.pages + cero_dtype_size(dtype);
    return t;
}

static inline check_tensor check_make(const check_case *c, int64_t n)
{
    return check_make_as(c->dtype, n, c->place);
}

static inline check_tensor check_make_f32(const check_case *c, int64_t n)
{
    return check_make_as(CERO_DTYPE_F32, n, c->place);
}

/* The bytes before and after are as they were. */
static inline void check_guards(const check_tensor *t)
{
    const unsigned char *begin = t->data;
    const unsigned char *end = begin + (size_t)t->n * cero_dtype_size(t->dtype);

    for (const unsigned char *p = t->pages; p < t->pages + t->page_bytes; p++) {
        if ((p < begin || p >= end) && *p != CHECK_PATTERN) {
            check_fail("a byte outside was written", p - begin, *p, CHECK_PATTERN);
        }
    }
}

static inline void check_free(check_tensor *t)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);

    check_guards(t);
    assert_int_equal(munmap(t->pages - page, t->page_bytes + 2 * page), 0);
    t->data = NULL;
}

static inline const cero_kernels *check_ref(void)
{
    const cero_kernels *ref = NULL;
    assert_ok(cero_kernels_get_isa("ref", &ref));
    return ref;
}

static inline float check_get(const check_tensor *t, int64_t i)
{
    float value = 0.0f;
    const char *at = (const char *)t->data + (size_t)i * cero_dtype_size(t->dtype);

    check_ref()->to_f32[t->dtype](1, at, &value);
    return value;
}

static inline void check_set(check_tensor *t, int64_t i, float value)
{
    check_ref()->from_f32[t->dtype](1, &value,
                                    (char *)t->data + (size_t)i * cero_dtype_size(t->dtype));
}

/* Uniform in (-range, range), a function of seed and place. */
static inline float check_value(uint64_t seed, int64_t i, float range)
{
    cero_rng_key key = cero_rng_make_key(seed, CERO_RNG_TEST, 0, 0);
    return range * (2.0f * cero_rng_uniform_f32(cero_rng_word(key, 0, (uint64_t)i)) - 1.0f);
}

static inline void check_random(check_tensor *t, uint64_t seed, float range)
{
    for (int64_t i = 0; i < t->n; i++) {
        check_set(t, i, check_value(seed, i, range));
    }
}

/* A few elements that are not finite, when there is room for them. */
static inline void check_poison(check_tensor *t)
{
    static const float odd[] = {NAN, INFINITY, -INFINITY, -0.0f, 1e-40f, 3e38f, -3e38f};

    for (int64_t i = 0; i < (int64_t)CERO_COUNT_OF(odd) && 5 * i + 3 < t->n; i++) {
        check_set(t, 5 * i + 3, odd[i]);
    }
}

static inline void check_copy(check_tensor *to, const check_tensor *from)
{
    memcpy(to->data, from->data, (size_t)from->n * cero_dtype_size(from->dtype));
}

static inline check_tensor check_clone(const check_tensor *from)
{
    check_tensor t = check_make_as(from->dtype, from->n, from->place);
    check_copy(&t, from);
    return t;
}

/* The same bits, or NaN in both. */
static inline void check_same(const char *what, const check_tensor *actual,
                              const check_tensor *expected)
{
    size_t size = cero_dtype_size(actual->dtype);

    for (int64_t i = 0; i < actual->n; i++) {
        size_t at = (size_t)i * size;
        if (memcmp((char *)actual->data + at, (char *)expected->data + at, size) == 0) {
            continue;
        }
        float a = check_get(actual, i);
        float e = check_get(expected, i);
        if (!(isnan(a) && isnan(e))) {
            check_fail(what, i, (double)a, (double)e);
        }
    }
}

/* Largest relative error of one rounding. */
static inline double check_unit(cero_dtype dtype)
{
    return dtype == CERO_DTYPE_F32 ? 0x1p-23 : dtype == CERO_DTYPE_BF16 ? 0x1p-7 : 0x1p-10;
}

/*
 * One element: the same class (NaN, infinity of one sign), or within `slack` of f32 arithmetic and one
 * rounding of the dtype. `scale` is the size of the terms that were added up.
 */
static inline void check_near(const char *what, cero_dtype dtype, int64_t at, double actual,
                              double expected, double slack, double scale)
{
    double unit = dtype == CERO_DTYPE_F32 ? 0.0 : check_unit(dtype);
    double limit = (unit + slack) * fabs(expected) + slack * scale;

    if (dtype == CERO_DTYPE_F16) {
        limit += 0x1p-24;
    }
    if (isnan(expected) ? isnan(actual) : actual == expected) {
        return;
    }
    if (!(fabs(actual - expected) <= limit)) {
        check_fail(what, at, actual, expected);
    }
}

/* Every element near, and the normalised mean square error below the dtype's limit. */
static inline void check_close(const char *what, const check_tensor *actual,
                               const check_tensor *expected, double slack, double scale)
{
    static const double nmse_limit[CERO_FLOAT_DTYPES] = {1e-11, 2e-6, 2e-7};
    double error = 0;
    double total = 0;

    for (int64_t i = 0; i < actual->n; i++) {
        double a = (double)check_get(actual, i);
        double e = (double)check_get(expected, i);

        check_near(what, actual->dtype, i, a, e, slack, scale);
        if (isfinite(e)) {
            error += (a - e) * (a - e);
            total += e * e;
        }
    }
    if (actual->n >= 64 && error > nmse_limit[actual->dtype] * total + 1e-30) {
        check_fail(what, -1, error / total, nmse_limit[actual->dtype]);
    }
}

static inline void check_isa(const cero_kernels *k, void (*check)(const check_case *))
{
    for (int dtype = 0; dtype < CERO_FLOAT_DTYPES; dtype++) {
        for (size_t i = 0; i < CERO_COUNT_OF(check_lengths); i++) {
            for (int place = 0; place < 2; place++) {
                check_case c = {k, check_ref(), (cero_dtype)dtype, check_lengths[i], place};
                check_now = &c;
                check(&c);
            }
        }
    }
    check_now = NULL;
}

/* Runs the check for every instruction set of this CPU. */
static inline void check_all(void (*check)(const check_case *))
{
    for (int i = 0; cero_kernels_isa_name(i) != NULL; i++) {
        const cero_kernels *k = NULL;
        cero_status st = cero_kernels_get_isa(cero_kernels_isa_name(i), &k);

        if (st == CERO_ERR_UNSUPPORTED) {
            print_message("skipped: this CPU lacks %s\n", cero_kernels_isa_name(i));
            continue;
        }
        assert_ok(st);
        check_isa(k, check);
    }
}

#endif
