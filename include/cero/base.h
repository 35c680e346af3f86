/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The words every other public header needs: attributes, status codes, element types and shapes.
 *
 * Functions that can fail return a cero_status and leave a message in a thread-local record, which
 * cero_error_string() formats. The library prints no error and never ends the process.
 */
#ifndef CERO_BASE_H
#define CERO_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
    #define CERO_API                 __attribute__((visibility("default")))
    #define CERO_NODISCARD           __attribute__((warn_unused_result))
    #define CERO_PRINTF(fmt_, args_) __attribute__((format(printf, fmt_, args_)))
#else
    #define CERO_API
    #define CERO_NODISCARD
    #define CERO_PRINTF(fmt_, args_)
#endif

#define CERO_VERSION_MAJOR  0
#define CERO_VERSION_MINOR  1
#define CERO_VERSION_PATCH  0
#define CERO_VERSION_STRING "0.1.0"

/* One meaning per code; docs/errors.md has the table and the exit code of each. */
typedef enum cero_status {
    CERO_OK = 0,
    CERO_ERR_INVALID = 1,     /* an argument or a config value that the caller can change */
    CERO_ERR_SHAPE = 2,       /* tensors that do not fit together */
    CERO_ERR_NOMEM = 3,       /* no memory left, or a budget reached */
    CERO_ERR_IO = 4,          /* the operating system refused to read or write */
    CERO_ERR_CORRUPT = 5,     /* a file whose contents are wrong */
    CERO_ERR_COMM = 6,        /* the transport failed */
    CERO_ERR_REMOTE = 7,      /* another rank failed first */
    CERO_ERR_NUMERIC = 8,     /* a value that is not finite */
    CERO_ERR_UNSUPPORTED = 9, /* understood, and not offered by this build */
    CERO_ERR_INTERNAL = 10,   /* our mistake */
    CERO_STATUS_COUNT
} cero_status;

/* Short name of a code, for example "SHAPE". Not collective. */
CERO_API const char *cero_status_name(cero_status status);

/*
 * The message of this thread's last error, followed by the places it passed through.
 *
 * Ownership: the text belongs to the library and is valid until this thread's next error.
 * Not collective.
 */
CERO_API const char *cero_error_string(void);

/* The message alone, without places; empty if nothing failed yet. Not collective. */
CERO_API const char *cero_error_message(void);

/* Version of the library that is running, as "major.minor.patch". Not collective. */
CERO_API const char *cero_version(void);

/* Element types. The numbers are part of the interface. */
typedef enum cero_dtype {
    CERO_DTYPE_F32 = 0,
    CERO_DTYPE_BF16 = 1,
    CERO_DTYPE_F16 = 2,
    CERO_DTYPE_F64 = 3,
    CERO_DTYPE_I32 = 4,
    CERO_DTYPE_I64 = 5,
    CERO_DTYPE_U8 = 6,
    CERO_DTYPE_COUNT
} cero_dtype;

/* Bytes of one element. Not collective. */
CERO_API size_t cero_dtype_size(cero_dtype dtype);

/* Lower-case name: "f32", "bf16", "f16", "f64", "i32", "i64", "u8". Not collective. */
CERO_API const char *cero_dtype_name(cero_dtype dtype);

enum {
    CERO_MAX_NDIM = 6
};

/* A shape, outermost dimension first; ndim 0 is a scalar of one element. */
typedef struct cero_shape {
    int ndim;
    int64_t dim[CERO_MAX_NDIM];
} cero_shape;

/* What memory is for. Current and peak bytes are kept for each, and the planner predicts each. */
typedef enum cero_mem_category {
    CERO_MEM_PARAM = 0,      /* compute copies of parameters */
    CERO_MEM_GRAD = 1,       /* gradient staging buffers and sums */
    CERO_MEM_MASTER = 2,     /* fp32 master weights */
    CERO_MEM_OPTIM = 3,      /* moments */
    CERO_MEM_ACTIVATION = 4, /* the arena of a program: activations and scratch */
    CERO_MEM_COMM = 5,       /* staging and message buffers of the exchange */
    CERO_MEM_IO = 6,         /* batches, files on their way in or out */
    CERO_MEM_OTHER = 7,
    CERO_MEM_COUNT
} cero_mem_category;

/* Lower-case name of a category, the key used in metrics.jsonl. Not collective. */
CERO_API const char *cero_mem_category_name(cero_mem_category category);

#ifdef __cplusplus
}
#endif

#endif
