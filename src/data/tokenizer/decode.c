/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decoding: every token stands for bytes that do not depend on its neighbours, so the decoder runs once
 * over the vocabulary and decoding is copying. Only the start of a text has rules of its own.
 */
#include "data/tokenizer/tokenizer_impl.h"

#include "base/memory.h"
#include "data/unicode/unicode.h"

#include <string.h>

/* Replaces every occurrence of the step's pattern in `in`. */
static cero_status decode_replace(const cero_step *step, const cero_text *in, size_t room,
                                  cero_text *out)
{
    const char *with = step->kind == CERO_STEP_METASPACE ? " " : step->text;
    size_t with_length = step->kind == CERO_STEP_METASPACE ? 1 : step->text_length;
    size_t valid = cero_utf8_valid_prefix((const uint8_t *)in->data, in->length);
    for (size_t i = 0; i < valid;) {
        size_t begin;
        size_t stop;
        CERO_TRY(
            cero_pattern_find(step->pattern, (const uint8_t *)in->data, valid, i, &begin, &stop));
        cero_text_append(out, in->data + i, begin - i);
        if (stop > begin) {
            cero_text_append(out, with, with_length);
        }
        if (out->length > room) {
            return CERO_FAIL(CERO_ERR_UNSUPPORTED,
                             "the decoder makes more than %zu bytes of a token; its Replace steps "
                             "let it grow without bound",
                             room);
        }
        i = stop;
    }
    cero_text_append(out, in->data + valid, in->length - valid);
    return CERO_OK;
}

static int hex_digit(char c)
{
    const char *digits = "0123456789ABCDEF";
    const char *hit = c == '\0' ? NULL : strchr(digits, c);
    return hit == NULL ? -1 : (int)(hit - digits);
}

/* "<0xNN>" gives the byte; any other text itself. */
static void decode_fallback(const cero_text *in, cero_text *out)
{
    if (in->length == 6 && memcmp(in->data, "<0x", 3) == 0 && in->data[5] == '>') {
        int high = hex_digit(in->data[3]);
        int low = hex_digit(in->data[4]);
        if (high >= 0 && low >= 0) {
            char byte = (char)(high * 16 + low);
            cero_text_append(out, &byte, 1);
            return;
        }
    }
    cero_text_append(out, in->data, in->length);
}

/* Runs the decoder's steps over the text of one token; the result is in work[0]. */
static cero_status decode_token(const cero_tokenizer *t, const char *text, size_t length,
                                cero_text work[2])
{
    work[0].length = 0;
    cero_text_append(&work[0], text, length);
    for (int64_t i = 0; i < t->decoder.count; i++) {
        const cero_step *step = &t->decoder.step[i];
        work[1].length = 0;
        if (step->kind == CERO_STEP_BYTE_LEVEL) {
            if (!cero_byte_level_decode(work[0].data, work[0].length, &work[1])) {
                cero_text_append(&work[1], work[0].data, work[0].length);
            }
        } else if (step->kind == CERO_STEP_BYTE_FALLBACK) {
            decode_fallback(&work[0], &work[1]);
        } else {
            CERO_TRY(decode_replace(step, &work[0], cero_steps_room(length), &work[1]));
        }
        cero_text swap = work[0];
        work[0] = work[1];
        work[1] = swap;
    }
    CERO_TRY(cero_text_finish(&work[0]));
    return cero_text_finish(&work[1]);
}

static cero_status set_token(cero_tokenizer *t, int64_t id, const char *bytes, size_t length)
{
    t->token[id].offset = (int64_t)t->token_bytes.length;
    t->token[id].length = (int64_t)length;
    cero_text_append(&t->token_bytes, bytes, length);
    return cero_text_finish(&t->token_bytes);
}

/* An id that another text has, in the vocabulary or among the added tokens before, would stand for both. */
static cero_status check_added(const cero_tokenizer *t, const cero_added *a)
{
    size_t length = 0;
    const char *text = cero_vocab_text(&t->bpe.vocab, a->id, &length);
    if (text == NULL) {
        text = cero_tokenizer_token(t, a->id, &length);
    }
    if (text != NULL && (length != a->length || memcmp(text, a->text, length) != 0)) {
        return CERO_FAIL(CERO_ERR_CORRUPT,
                         "%s: the added token \"%.60s\" has the id %d, which is that of \"%.*s\"",
                         t->name, a->text, a->id, length < 60 ? (int)length : 60, text);
    }
    return CERO_OK;
}

/* The bytes of every token: of the vocabulary through the decoder, of added ones as written. */
cero_status cero_tokenizer_build(cero_tokenizer *t)
{
    cero_status st = CERO_OK;
    cero_text work[2] = {{0}, {0}};
    t->vocab_size = t->bpe.vocab.size;
    for (int64_t i = 0; i < t->added_count; i++) {
        t->vocab_size = t->added[i].id >= t->vocab_size ? t->added[i].id + 1 : t->vocab_size;
    }
    t->token = cero_new((size_t)t->vocab_size + 1, sizeof(t->token[0]));
    t->is_special = cero_new((size_t)t->vocab_size + 1, 1);
    if (t->token == NULL || t->is_special == NULL) {
        return CERO_FAIL(CERO_ERR_NOMEM, "no memory for %lld tokens", (long long)t->vocab_size);
    }
    for (int64_t id = 0; id < t->vocab_size; id++) {
        size_t length;
        const char *text = cero_vocab_text(&t->bpe.vocab, id, &length);
        t->token[id].offset = -1;
        if (text != NULL) {
            CERO_TRY_GOTO(decode_token(t, text, length, work), out);
            CERO_TRY_GOTO(set_token(t, id, work[0].data, work[0].length), out);
        }
    }
    for (int64_t i = 0; i < t->added_count; i++) {
        const cero_added *a = &t->added[i];
        CERO_TRY_GOTO(check_added(t, a), out);
        CERO_TRY_GOTO(set_token(t, a->id, a->text, a->length), out);
        t->is_special[a->id] = a->is_special;
    }

out:
    cero_text_cleanup(&work[0]);
    cero_text_cleanup(&work[1]);
    return st;
}

/* Takes the leading characters off out[begin..) that Strip names. */
static void strip_start(const cero_tokenizer *t, cero_text *out, size_t begin)
{
    size_t width = strlen(t->strip_char);
    size_t i = begin;
    for (int64_t n = 0; n < t->strip_start && i + width <= out->length; n++) {
        if (memcmp(out->data + i, t->strip_char, width) != 0) {
            break;
        }
        i += width;
    }
    if (i > begin) {
        memmove(out->data + begin, out->data + i, out->length - i + 1);
        out->length -= i - begin;
    }
}

/* Metaspace: the first token of a text loses its spaces. */
static void append_first(cero_text *out, const char *bytes, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        if (bytes[i] != ' ') {
            cero_text_append(out, bytes + i, 1);
        }
    }
}

cero_status cero_tokenizer_decode(const cero_tokenizer *tokenizer, const int32_t *ids,
                                  int64_t count, unsigned flags, cero_text *out)
{
    const cero_tokenizer *t = tokenizer;
    size_t begin = out->length;
    bool is_first = (flags & CERO_DECODE_CONTINUE) == 0;
    bool strips = is_first && t->strip_start > 0;
    for (int64_t i = 0; i < count; i++) {
        size_t length;
        const char *bytes = cero_tokenizer_token(t, ids[i], &length);
        if (bytes == NULL) {
            return CERO_FAIL(CERO_ERR_INVALID,
                             "id %d at position %lld is not a token of %s (vocabulary %lld)",
                             ids[i], (long long)i, t->name, (long long)t->vocab_size);
        }
        if ((flags & CERO_DECODE_SKIP_SPECIAL) != 0 && t->is_special[ids[i]]) {
            continue;
        }
        if (is_first && t->strips_first_token) {
            append_first(out, bytes, length);
        } else {
            cero_text_append(out, bytes, length);
        }
        is_first = false;
    }
    CERO_TRY(cero_text_finish(out));
    if (strips) {
        strip_start(t, out, begin);
    }
    return CERO_OK;
}

size_t cero_tokenizer_printable(const void *bytes, size_t length)
{
    const uint8_t *p = bytes;
    for (size_t back = 1; back <= 3 && back <= length; back++) {
        uint8_t byte = p[length - back];
        if (byte >= 0xC0) {
            size_t need = byte >= 0xF0 ? 4 : byte >= 0xE0 ? 3 : 2;
            return back < need ? length - back : length;
        }
        if (byte < 0x80) {
            break;
        }
    }
    return length;
}

const char *cero_tokenizer_token(const cero_tokenizer *tokenizer, int64_t id, size_t *length)
{
    const cero_tokenizer *t = tokenizer;
    if (id < 0 || id >= t->vocab_size || t->token[id].offset < 0) {
        return NULL;
    }
    *length = (size_t)t->token[id].length;
    return t->token_bytes.data + t->token[id].offset;
}
