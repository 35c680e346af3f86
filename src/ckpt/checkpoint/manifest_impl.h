/* SPDX-License-Identifier: Apache-2.0 */
/* What the files about the manifest share: its last line, its index of names. Nothing here is collective. */
#ifndef CERO_CKPT_CHECKPOINT_MANIFEST_IMPL_H
#define CERO_CKPT_CHECKPOINT_MANIFEST_IMPL_H

#include "ckpt/checkpoint/manifest.h"

#include <stdarg.h>

enum {
    CERO_MANIFEST_HASH_DIGITS = 16,
    /* "xxh3":" and the digits and "} with the end of the line */
    CERO_MANIFEST_TAIL = 8 + CERO_MANIFEST_HASH_DIGITS + 3,
    CERO_MANIFEST_MAX_BLOCK = 1 << 26
};

/* The last line for the bytes before it; `text` holds CERO_MANIFEST_TAIL + 1. Returns text. */
const char *cero_manifest_tail(const char *bytes, size_t length, char *text);

/* Sixteen lower-case hexadecimal digits, not terminated; reading refuses any other text. */
void cero_manifest_format_hash(uint64_t hash, char digits[CERO_MANIFEST_HASH_DIGITS]);
bool cero_manifest_parse_hash(const char *digits, uint64_t *hash);

/* True for the members of the manifest's object that are no sections. */
bool cero_manifest_is_member(const char *name);

/* 1 to 32 lower-case hexadecimal digits. */
bool cero_manifest_is_id(const char *text);

/*
 * Fills by_name. *doubled gets a tensor whose name an earlier one has, -1 if there is none.
 * Errors: NOMEM.
 */
CERO_NODISCARD cero_status cero_manifest_index(cero_manifest *manifest, int64_t *doubled);

/* Ranges, files and tensors against each other. Errors: CORRUPT, NOMEM. */
CERO_NODISCARD cero_status cero_manifest_check(const cero_manifest *manifest);

/* CORRUPT with "file:line:column: " and, unless NULL, the tensor. */
cero_status cero_manifest_fail(const cero_json *at, const char *tensor, const char *fmt, ...)
    CERO_PRINTF(3, 4);

/*
 * What a value must be, or CORRUPT: an object with these members, all of them and no others; a whole number in digits
 * alone; a string without NUL; a hash; a list. `tensor`, unless NULL, is named in the message.
 */
CERO_NODISCARD cero_status cero_manifest_get_members(const cero_json *object, const char *tensor,
                                                     const char *what, const char *const *keys,
                                                     int count, const cero_json **out);
CERO_NODISCARD cero_status cero_manifest_get_int(const cero_json *value, const char *tensor,
                                                 int64_t min, int64_t max, int64_t *out);
CERO_NODISCARD cero_status cero_manifest_get_string(const cero_json *value, const char *tensor,
                                                    const char **out);
CERO_NODISCARD cero_status cero_manifest_get_hash(const cero_json *value, const char *tensor,
                                                  uint64_t *out);
CERO_NODISCARD cero_status cero_manifest_get_array(const cero_json *value, const char *tensor);

#endif
