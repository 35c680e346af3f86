/* SPDX-License-Identifier: Apache-2.0 */
/*
 * JSON with positions: every value knows the line and column where it stands, so that an error about a
 * config names its place.
 *
 * Strict JSON, plus (on request) what DeepSpeed's reader accepts in configs: comments (// # and block) and
 * trailing commas. Duplicate keys are an error. Numbers keep their text, so that 64-bit integers stay
 * exact and 5e8 can be taken as an integer. Libraries for C keep neither positions nor number texts,
 * which is why this reader is written here.
 */
#ifndef CERO_BASE_JSON_H
#define CERO_BASE_JSON_H

#include "base/status.h"
#include "base/text.h"

typedef enum cero_json_type {
    CERO_JSON_NULL = 0,
    CERO_JSON_BOOL = 1,
    CERO_JSON_NUMBER = 2,
    CERO_JSON_STRING = 3,
    CERO_JSON_ARRAY = 4,
    CERO_JSON_OBJECT = 5,
    CERO_JSON_COUNT
} cero_json_type;

typedef struct cero_json cero_json;

/* One value. Open for reading; children form a list in file order. */
struct cero_json {
    cero_json_type type;
    bool boolean;
    int line;           /* 1-based; of a member: where its key stands */
    int column;         /* 1-based, in bytes */
    int64_t count;      /* children of an array or object */
    const char *key;    /* member of an object: its key, terminated; else NULL */
    const char *text;   /* string: bytes (may hold NUL); number: its text */
    size_t text_length; /* without the terminator */
    double number;      /* number: nearest double */
    cero_json *child;   /* first child */
    cero_json *next;    /* next sibling */
    const char *file;   /* name for messages, shared by the whole document */
};

typedef struct cero_json_document cero_json_document;

typedef struct cero_json_options {
    bool allow_comments; /* comments and trailing commas */
    int max_depth;       /* 0 means 64 */
} cero_json_options;

/*
 * Parses `length` bytes of UTF-8. `file` is the name used in messages (copied).
 * Errors: CORRUPT with file:line:column, found and expected. NOMEM.
 */
CERO_NODISCARD cero_status cero_json_parse(const char *file, const char *bytes, size_t length,
                                           const cero_json_options *options,
                                           cero_json_document **out);

/* Reads and parses a file of at most max_bytes (0: 1 GiB). Errors: IO, CORRUPT, NOMEM. */
CERO_NODISCARD cero_status cero_json_read(const char *path, const cero_json_options *options,
                                          size_t max_bytes, cero_json_document **out);

void cero_json_destroy(cero_json_document **document);

const cero_json *cero_json_root(const cero_json_document *document);

/* Member of an object by key, NULL if absent. Linear: for objects of config size. */
const cero_json *cero_json_find(const cero_json *object, const char *key);

/*
 * Takes a number as an integer: "16", "5e8" and "2.0" are, "2.5" and numbers beyond 64 bits are not.
 * Errors: INVALID with the place.
 */
CERO_NODISCARD cero_status cero_json_int(const cero_json *value, int64_t *out);

/*
 * Appends a value as JSON without spaces: strings quoted anew, numbers by their text; members in the order of the
 * file, or sorted by key.
 * Errors: NOMEM.
 */
CERO_NODISCARD cero_status cero_json_write(const cero_json *value, bool is_sorted, cero_text *out);

/* "null", "true or false", "a number", "a string", "a list", "an object". */
const char *cero_json_type_name(cero_json_type type);

/* INVALID with "file:line:column: " before the message. */
#define CERO_JSON_FAIL(value, ...) \
    cero_json_fail((value), __FILE__, __LINE__, __func__, __VA_ARGS__)
cero_status cero_json_fail(const cero_json *value, const char *file, int line, const char *func,
                           const char *fmt, ...) CERO_PRINTF(5, 6);

#endif
