/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How errors are named, passed on and checked inside the library.
 *
 * The function that first knows of an error calls CERO_FAIL with a message that holds the numbers;
 * callers pass it on with CERO_TRY or CERO_TRY_GOTO, which only add a frame. Nothing here prints.
 */
#ifndef CERO_BASE_STATUS_H
#define CERO_BASE_STATUS_H

#include "cero/base.h"

#define CERO_COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))
#define CERO_UNUSED(x)       ((void)(x))
#define CERO_LIKELY(x)       __builtin_expect(!!(x), 1)
#define CERO_UNLIKELY(x)     __builtin_expect(!!(x), 0)

/* Detects: names the error once, where it is first known; the value is the status. */
#define CERO_FAIL(st, ...) cero_error_set(__FILE__, __LINE__, __func__, (st), __VA_ARGS__)

/* Propagates. Only where the function owns nothing that would leak. */
#define CERO_TRY(call)                                                     \
    do {                                                                   \
        cero_status try_st_ = (call);                                      \
        if (CERO_UNLIKELY(try_st_ != CERO_OK)) {                           \
            return cero_error_push(__FILE__, __LINE__, __func__, try_st_); \
        }                                                                  \
    } while (0)

/* Propagates through a label; the function has a local `cero_status st`. */
#define CERO_TRY_GOTO(call, label)                                  \
    do {                                                            \
        st = (call);                                                \
        if (CERO_UNLIKELY(st != CERO_OK)) {                         \
            st = cero_error_push(__FILE__, __LINE__, __func__, st); \
            goto label;                                             \
        }                                                           \
    } while (0)

/* Detects through a label; the function has a local `cero_status st`. */
#define CERO_FAIL_GOTO(label, code, ...)     \
    do {                                     \
        st = CERO_FAIL((code), __VA_ARGS__); \
        goto label;                          \
    } while (0)

/* What a caller can get wrong. Always on; at public entry points, not below them. */
#define CERO_CHECK(cond, st, ...)                \
    do {                                         \
        if (CERO_UNLIKELY(!(cond))) {            \
            return CERO_FAIL((st), __VA_ARGS__); \
        }                                        \
    } while (0)

/* What only our own mistake can break. Debug builds stop here; release builds do not look. */
#ifdef NDEBUG
    #define CERO_ASSERT(cond) ((void)sizeof(!(cond)))
#else
    #define CERO_ASSERT(cond) \
        ((cond) ? (void)0 : cero_assert_failed(__FILE__, __LINE__, __func__, #cond))
#endif

/*
 * Starts a new record with one message and one frame. Returns `status`.
 *
 * Control characters, which only the arguments can bring along (names out of a file), become '?'. So do line ends,
 * but in reports about other ranks (COMM, REMOTE).
 */
cero_status cero_error_set(const char *file, int line, const char *func, cero_status status,
                           const char *fmt, ...) CERO_PRINTF(5, 6);

/* Adds a frame to the record (the first 16 are kept). Returns `status`. */
cero_status cero_error_push(const char *file, int line, const char *func, cero_status status);

/* Puts a phrase before the message: what was being done when the error was met. Returns `status`. */
cero_status cero_error_prefix(cero_status status, const char *fmt, ...) CERO_PRINTF(2, 3);

/* Prints place and condition, then aborts. */
_Noreturn void cero_assert_failed(const char *file, int line, const char *func, const char *cond);

/* Casts that shrink, checked in debug builds. */
int cero_to_int(int64_t value);

/* Sets *out = a * b; false when the product does not fit or an operand is negative. */
bool cero_mul_i64(int64_t a, int64_t b, int64_t *out);

/* Product of the dimensions (1 for a scalar). The caller has checked that it fits. */
int64_t cero_shape_numel(const cero_shape *shape);

bool cero_shape_equal(const cero_shape *a, const cero_shape *b);

/* Writes "[2, 3]" into `text` (always terminated) and returns it. */
const char *cero_shape_format(const cero_shape *shape, char *text, size_t size);

#endif
