/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Text that grows, numbers that read back to the same double, and the nearest name to a misspelt one.
 */
#ifndef CERO_BASE_TEXT_H
#define CERO_BASE_TEXT_H

#include "base/status.h"

/* A growing string. Zero-initialise; after a failed append every later one fails as well. */
typedef struct cero_text {
    char *data; /* owned, always terminated once something was appended */
    size_t length;
    size_t capacity;
    bool has_failed; /* memory ran out: data is what fitted */
} cero_text;

void cero_text_cleanup(cero_text *text);
void cero_text_append(cero_text *text, const char *bytes, size_t length);
void cero_text_printf(cero_text *text, const char *fmt, ...) CERO_PRINTF(2, 3);

/* Appends a JSON string with quotes; bytes that are not UTF-8 become U+FFFD. */
void cero_text_append_json_string(cero_text *text, const char *bytes, size_t length);

/*
 * Appends the shortest decimal that reads back to the same double ("0.1", "1e-08", "3"); as JSON has
 * no NaN or infinity these become null.
 */
void cero_text_append_double(cero_text *text, double value);

/* Errors: NOMEM when an append failed. */
CERO_NODISCARD cero_status cero_text_finish(const cero_text *text);

/*
 * The candidate with the smallest edit distance to `name`; NULL if none is near enough to be meant
 * (distance above 2 + length / 4). `next(context, i)` gives candidate i, NULL at the end.
 */
const char *cero_text_nearest(const char *name, const char *(*next)(const void *context, int i),
                              const void *context);

/*
 * Length of the well-formed UTF-8 sequence that starts at p (Unicode 15, table 3-7), 0 if there is none
 * within `left` bytes; left > 0.
 */
size_t cero_text_utf8_length(const unsigned char *p, size_t left);

/* Bytes with a unit, "1.5 GiB"; `text` holds at least 32 bytes. Returns text. */
const char *cero_text_bytes(double nbytes, char *text, size_t size);

/* True if `name` matches the shell-like pattern: `*` any run, `?` one character. */
bool cero_text_match(const char *pattern, const char *name);

#endif
