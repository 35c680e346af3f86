/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pre-tokenizer: text runs through the steps depth first, piece by piece, so that memory does not
 * grow with the text. What leaves the last step is encoded at once.
 */
#include "data/tokenizer/tokenizer_impl.h"

#include "data/unicode/unicode.h"

#include <string.h>

/* A piece on its way; `readable` bytes may be read from text on. */
typedef struct piece {
    const uint8_t *text;
    size_t length;
    size_t readable;
    bool is_start; /* the first byte of the whole text is its first byte */
} piece;

static cero_status push(const cero_encoding *e, int64_t index, piece p);

static cero_status encode(const cero_encoding *e, piece p)
{
    cero_tokenizer *t = e->tokenizer;
    CERO_TRY(cero_bpe_encode(&t->bpe, t->state, p.text, p.length, p.readable, e->ids));
    return e->sink == NULL ? CERO_OK : cero_encoding_flush(e);
}

static inline piece part(piece p, size_t begin, size_t end)
{
    return (piece){.text = p.text + begin,
                   .length = end - begin,
                   .readable = p.readable - begin,
                   .is_start = p.is_start && begin == 0};
}

/* Pieces of a pattern that covers the text. */
static cero_status push_matches(const cero_encoding *e, int64_t index, piece p)
{
    const cero_step *step = &e->tokenizer->splitter.step[index];
    bool is_last = index + 1 == e->tokenizer->splitter.count;
    for (size_t i = 0; i < p.length;) {
        size_t end = step->match(p.text, i, p.length);
        CERO_TRY(is_last ? encode(e, part(p, i, end)) : push(e, index + 1, part(p, i, end)));
        i = end;
    }
    return CERO_OK;
}

/* First character with one of the class bits (or with the class SPACE or NUMBER). */
static void find_class(const cero_step *step, piece p, size_t from, size_t *begin, size_t *stop)
{
    int n = 0;
    for (size_t i = from; i < p.length; i += (size_t)n) {
        uint32_t bits = cero_unicode_get(cero_utf8_get(p.text + i, &n));
        uint32_t class = bits & CERO_UNICODE_CLASS;
        bool is_hit = step->kind == CERO_STEP_DIGITS  ? class == CERO_UNICODE_NUMBER
                      : step->kind == CERO_STEP_PUNCT ? (bits & CERO_UNICODE_PUNCT) != 0
                                                      : class == CERO_UNICODE_SPACE;
        if (is_hit) {
            *begin = i;
            *stop = i + (size_t)n;
            return;
        }
    }
    *begin = *stop = p.length;
}

/* \w+|[^\w\s]+ */
static void find_word(piece p, size_t from, size_t *begin, size_t *stop)
{
    int n = 0;
    int kind = 0; // 1 word, 2 other
    size_t i = from;
    *begin = p.length;
    for (; i < p.length; i += (size_t)n) {
        uint32_t bits = cero_unicode_get(cero_utf8_get(p.text + i, &n));
        bool is_space = (bits & CERO_UNICODE_CLASS) == CERO_UNICODE_SPACE;
        int now = (bits & CERO_UNICODE_WORD) != 0 ? 1 : is_space ? 0 : 2;
        if (kind == 0 && now != 0) {
            *begin = i;
            kind = now;
        } else if (kind != 0 && now != kind) {
            break;
        }
    }
    *stop = i;
}

static cero_status find_match(const cero_step *step, piece p, size_t from, size_t *begin,
                              size_t *stop)
{
    if (step->kind == CERO_STEP_SPLIT || step->kind == CERO_STEP_METASPACE) {
        return cero_pattern_find(step->pattern, p.text, p.length, from, begin, stop);
    }
    if (step->kind == CERO_STEP_WHITESPACE) {
        find_word(p, from, begin, stop);
    } else {
        find_class(step, p, from, begin, stop);
    }
    return CERO_OK;
}

/* Joins matches and what lies between them by the step's behavior, and pushes the results on. */
typedef struct joiner {
    const cero_encoding *e;
    const cero_step *step;
    int64_t index;
    piece whole;
    size_t begin; /* the piece not yet pushed: whole[begin..end) */
    size_t end;
    bool was_match; /* kind of the last part */
} joiner;

static cero_status joiner_flush(joiner *j)
{
    piece p = part(j->whole, j->begin, j->end);
    j->begin = j->end;
    return p.length == 0 ? CERO_OK : push(j->e, j->index + 1, p);
}

static cero_status joiner_add(joiner *j, size_t end, bool is_match)
{
    size_t begin = j->end;
    if (end == begin) {
        return CERO_OK;
    }
    is_match = is_match != j->step->is_inverted;
    cero_split_behavior how = j->step->behavior;
    bool joins = (how == CERO_SPLIT_CONTIGUOUS && is_match == j->was_match) ||
                 (how == CERO_SPLIT_PREVIOUS && is_match && !j->was_match) ||
                 (how == CERO_SPLIT_NEXT && !is_match && j->was_match);
    if (!joins) {
        CERO_TRY(joiner_flush(j));
    }
    j->end = end;
    if (how == CERO_SPLIT_REMOVED && is_match) {
        j->begin = end;
    }
    j->was_match = is_match;
    return CERO_OK;
}

static cero_status push_split(const cero_encoding *e, int64_t index, piece p)
{
    const cero_step *step = &e->tokenizer->splitter.step[index];
    joiner j = {.e = e, .step = step, .index = index, .whole = p};
    for (size_t i = 0; i < p.length;) {
        size_t begin;
        size_t stop;
        CERO_TRY(find_match(step, p, i, &begin, &stop));
        CERO_TRY(joiner_add(&j, begin, false));
        CERO_TRY(joiner_add(&j, stop, true));
        i = stop;
    }
    return joiner_flush(&j);
}

static piece scratch_piece(const cero_step *step, bool is_start)
{
    return (piece){.text = (const uint8_t *)step->scratch.data,
                   .length = step->scratch.length,
                   .readable = step->scratch.length,
                   .is_start = is_start};
}

static cero_status push_prefixed(const cero_encoding *e, int64_t index, piece p)
{
    cero_step *step = &e->tokenizer->splitter.step[index];
    if (p.text[0] == ' ') {
        return push(e, index + 1, p);
    }
    step->scratch.length = 0;
    cero_text_append(&step->scratch, " ", 1);
    cero_text_append(&step->scratch, (const char *)p.text, p.length);
    CERO_TRY(cero_text_finish(&step->scratch));
    return push(e, index + 1, scratch_piece(step, p.is_start));
}

/* Spaces become the step's text, which may also be put before; then cut before each of it. */
static cero_status push_metaspace(const cero_encoding *e, int64_t index, piece p)
{
    cero_step *step = &e->tokenizer->splitter.step[index];
    bool has_prefix = p.text[0] == ' ' || (p.length >= step->text_length &&
                                           memcmp(p.text, step->text, step->text_length) == 0);
    bool may_prepend =
        step->scheme == CERO_PREPEND_ALWAYS || (step->scheme == CERO_PREPEND_FIRST && p.is_start);
    step->scratch.length = 0;
    if (!has_prefix && may_prepend) {
        cero_text_append(&step->scratch, step->text, step->text_length);
    }
    for (size_t i = 0; i < p.length; i++) {
        bool is_space = p.text[i] == ' ';
        cero_text_append(&step->scratch, is_space ? step->text : (const char *)p.text + i,
                         is_space ? step->text_length : 1);
    }
    CERO_TRY(cero_text_finish(&step->scratch));
    piece q = scratch_piece(step, p.is_start);
    return step->is_whole ? push(e, index + 1, q) : push_split(e, index, q);
}

static cero_status push(const cero_encoding *e, int64_t index, piece p)
{
    if (index == e->tokenizer->splitter.count) {
        return encode(e, p);
    }
    const cero_step *step = &e->tokenizer->splitter.step[index];
    if (step->match != NULL) {
        return push_matches(e, index, p);
    }
    if (step->kind == CERO_STEP_PREFIX) {
        return push_prefixed(e, index, p);
    }
    return step->kind == CERO_STEP_METASPACE ? push_metaspace(e, index, p)
                                             : push_split(e, index, p);
}

cero_status cero_encoding_split(const cero_encoding *encoding, const uint8_t *bytes, size_t length,
                                bool is_start)
{
    piece whole = {.text = bytes, .length = length, .readable = length, .is_start = is_start};
    for (size_t i = 0; i < length;) {
        size_t n = cero_utf8_valid_prefix(bytes + i, length - i);
        if (n > 0) {
            CERO_TRY(push(encoding, 0, part(whole, i, i + n)));
        }
        i += n;
        n = cero_utf8_invalid_prefix(bytes + i, length - i);
        if (n > 0) {
            CERO_TRY(encode(encoding, part(whole, i, i + n)));
        }
        i += n;
    }
    return CERO_OK;
}
