/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the tokenizers need of Unicode: UTF-8 steps, character classes and canonical composition (NFC).
 *
 * Tables are generated (tools/gen_unicode.py) for one Unicode version, so that the classes do not
 * depend on the C library. Written here, without a Unicode library, because classes and NFC are all
 * that is used and both must be of the same version.
 */
#ifndef CERO_DATA_UNICODE_UNICODE_H
#define CERO_DATA_UNICODE_UNICODE_H

#include "base/text.h"

typedef enum cero_unicode_class {
    CERO_UNICODE_OTHER = 0,
    CERO_UNICODE_LETTER = 1, /* \p{L} */
    CERO_UNICODE_NUMBER = 2, /* \p{N} */
    CERO_UNICODE_SPACE = 3,  /* White_Space, 25 code points */
    CERO_UNICODE_CLASS = 3,  /* mask of the above */
    CERO_UNICODE_WORD = 4,   /* \w */
    CERO_UNICODE_PUNCT = 8,  /* \p{P} and the ASCII symbols */
    CERO_UNICODE_NFC = 16    /* may change, or change with its neighbours, under NFC */
} cero_unicode_class;

typedef struct cero_unicode_triple {
    uint32_t a;
    uint32_t b;
    uint32_t c;
} cero_unicode_triple;

extern const uint16_t cero_unicode_block[8704];
extern const uint8_t cero_unicode_class_table[];
extern const cero_unicode_triple cero_unicode_decompose[]; /* code point, first, second or 0 */
extern const int cero_unicode_decompose_count;
extern const cero_unicode_triple cero_unicode_compose[]; /* first, second, composed */
extern const int cero_unicode_compose_count;
extern const cero_unicode_triple cero_unicode_combining[]; /* from, to, combining class */
extern const int cero_unicode_combining_count;

/* Class bits of a code point below 0x110000. */
static inline uint32_t cero_unicode_get(uint32_t cp)
{
    return cero_unicode_class_table[(size_t)cero_unicode_block[cp >> 7] * 128 + (cp & 127)];
}

/* The code point at p, which must be valid UTF-8; *length is its bytes. */
static inline uint32_t cero_utf8_get(const uint8_t *p, int *length)
{
    if (p[0] < 0x80) {
        *length = 1;
        return p[0];
    }
    if (p[0] < 0xE0) {
        *length = 2;
        return (uint32_t)(p[0] & 31) << 6 | (p[1] & 63);
    }
    *length = p[0] < 0xF0 ? 3 : 4;
    uint32_t cp = (uint32_t)(p[0] & 15) << 12 | (uint32_t)(p[1] & 63) << 6 | (p[2] & 63);
    return *length == 3 ? cp : (cp & 0x7FFF) << 6 | (p[3] & 63);
}

/* Writes cp as UTF-8 and returns the bytes, 1 to 4. */
int cero_utf8_put(uint32_t cp, uint8_t out[4]);

/* Bytes at the start that are valid UTF-8 (no surrogates, no overlong forms). */
size_t cero_utf8_valid_prefix(const uint8_t *bytes, size_t length);

/* Bytes at the start that are not: up to the next place where a valid character begins. */
size_t cero_utf8_invalid_prefix(const uint8_t *bytes, size_t length);

/* True when valid UTF-8 text surely is in NFC already; one pass without memory. */
bool cero_nfc_is_plain(const uint8_t *bytes, size_t length);

/*
 * Appends the canonical composition (NFC) of valid UTF-8 text.
 * Errors: NOMEM.
 */
CERO_NODISCARD cero_status cero_nfc_append(const uint8_t *bytes, size_t length, cero_text *out);

#endif
