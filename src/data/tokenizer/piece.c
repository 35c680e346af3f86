/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hand-written matchers of the GPT-2 pattern and of the cl100k pattern (Llama-3: digits in threes,
 * Qwen: one by one), over the class tables. Each follows the alternatives of its pattern in order.
 */
#include "data/tokenizer/piece.h"

#include "data/unicode/unicode.h"

#include <string.h>

const char cero_piece_gpt2_pattern[] =
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";
static const char llama3_pattern[] =
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| "
    "?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";
static const char qwen_pattern[] =
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| "
    "?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";

static inline uint32_t class_at(const uint8_t *p, int *n)
{
    if (CERO_LIKELY(p[0] < 0x80)) {
        *n = 1;
        return cero_unicode_class_table[p[0]] & CERO_UNICODE_CLASS;
    }
    return cero_unicode_get(cero_utf8_get(p, n)) & CERO_UNICODE_CLASS;
}

/* First place from i on whose character is not of the class. */
static inline size_t skip_class(const uint8_t *text, size_t i, size_t end, uint32_t class)
{
    int n;
    while (i < end && class_at(text + i, &n) == class) {
        i += (size_t)n;
    }
    return i;
}

static inline bool is_newline(uint8_t byte)
{
    return byte == '\n' || byte == '\r';
}

/* \s+(?!\S)|\s+ : a run of white space leaves its last character to what follows it. */
static size_t match_space(const uint8_t *text, size_t begin, size_t end)
{
    size_t last = begin;
    size_t i = begin;
    int n;
    while (i < end && class_at(text + i, &n) == CERO_UNICODE_SPACE) {
        last = i;
        i += (size_t)n;
    }
    return i == end || last == begin ? i : last;
}

/* 's 't 're 've 'm 'll 'd after the apostrophe at `begin`; 0 if there is none. */
static size_t match_contraction(const uint8_t *text, size_t begin, size_t end, bool any_case)
{
    uint8_t fold = any_case ? 0x20 : 0;
    uint8_t a = begin + 1 < end ? text[begin + 1] : 0;
    uint8_t b = begin + 2 < end ? text[begin + 2] : 0;
    if (any_case && a == 0xC5 && b == 0xBF) { // long s, which folds to s
        return begin + 3;
    }
    a |= fold;
    b |= fold;
    if (a == 's' || a == 't' || a == 'm' || a == 'd') {
        return begin + 2;
    }
    bool is_pair = (a == 'r' && b == 'e') || (a == 'v' && b == 'e') || (a == 'l' && b == 'l');
    return is_pair ? begin + 3 : 0;
}

size_t cero_piece_gpt2(const uint8_t *text, size_t begin, size_t end)
{
    int n;
    if (text[begin] == '\'') {
        size_t stop = match_contraction(text, begin, end, false);
        if (stop != 0) {
            return stop;
        }
    }
    uint32_t class = class_at(text + begin, &n);
    size_t i = begin + (size_t)n;
    if (text[begin] == ' ' && i < end) {
        class = class_at(text + i, &n);
        i += (size_t)n;
    }
    if (class != CERO_UNICODE_SPACE) {
        return skip_class(text, i, end, class);
    }
    return match_space(text, begin, end);
}

/* \s*[\r\n]+ and, where the run has no line end, match_space. */
static size_t match_lines(const uint8_t *text, size_t begin, size_t end)
{
    size_t stop = 0;
    int n;
    for (size_t i = begin; i < end && class_at(text + i, &n) == CERO_UNICODE_SPACE;) {
        i += (size_t)n;
        if (is_newline(text[i - 1]) && n == 1) {
            stop = i;
        }
    }
    return stop != 0 ? stop : match_space(text, begin, end);
}

static size_t match_digits(const uint8_t *text, size_t begin, size_t end, int limit)
{
    int n;
    while (limit-- > 0 && begin < end && class_at(text + begin, &n) == CERO_UNICODE_NUMBER) {
        begin += (size_t)n;
    }
    return begin;
}

static inline size_t match_cl100k(const uint8_t *text, size_t begin, size_t end, int digits)
{
    if (text[begin] == '\'') {
        size_t stop = match_contraction(text, begin, end, true);
        if (stop != 0) {
            return stop;
        }
    }
    int n;
    uint32_t class = class_at(text + begin, &n);
    size_t i = begin + (size_t)n;
    if (class == CERO_UNICODE_LETTER) {
        return skip_class(text, i, end, CERO_UNICODE_LETTER);
    }
    if (class == CERO_UNICODE_NUMBER) {
        return match_digits(text, begin, end, digits);
    }
    uint32_t next = i < end ? class_at(text + i, &n) : CERO_UNICODE_SPACE;
    if (next == CERO_UNICODE_LETTER && !is_newline(text[begin])) {
        return skip_class(text, i, end, CERO_UNICODE_LETTER);
    }
    if (class == CERO_UNICODE_OTHER || (text[begin] == ' ' && next == CERO_UNICODE_OTHER)) {
        i = skip_class(text, i, end, CERO_UNICODE_OTHER);
        while (i < end && is_newline(text[i])) {
            i++;
        }
        return i;
    }
    return match_lines(text, begin, end);
}

static size_t match_llama3(const uint8_t *text, size_t begin, size_t end)
{
    return match_cl100k(text, begin, end, 3);
}

static size_t match_qwen(const uint8_t *text, size_t begin, size_t end)
{
    return match_cl100k(text, begin, end, 1);
}

cero_piece_match cero_piece_find(const char *pattern, size_t length)
{
    static const struct {
        const char *pattern;
        cero_piece_match match;
    } known[] = {
        {cero_piece_gpt2_pattern, cero_piece_gpt2},
        {llama3_pattern, match_llama3},
        {qwen_pattern, match_qwen},
    };
    for (size_t i = 0; i < CERO_COUNT_OF(known); i++) {
        if (strlen(known[i].pattern) == length && memcmp(known[i].pattern, pattern, length) == 0) {
            return known[i].match;
        }
    }
    return NULL;
}
