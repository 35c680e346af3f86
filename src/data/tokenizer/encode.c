/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Encoding: the order of the pipeline. Added tokens of the raw text, then the normalizer, then added
 * tokens of the normalized text, and what lies between goes to the pre-tokenizer and the model.
 */
#include "data/tokenizer/tokenizer_impl.h"

#include <string.h>

enum {
    SINK_IDS = 65536 /* ids handed to a sink at a time */
};

cero_status cero_encoding_flush(const cero_encoding *encoding)
{
    cero_token_ids *ids = encoding->ids;
    if (encoding->sink != NULL && ids->count >= SINK_IDS) {
        CERO_TRY(encoding->sink(encoding->context, ids->id, ids->count));
        ids->count = 0;
    }
    return CERO_OK;
}

static cero_status add_id(const cero_encoding *e, int32_t id)
{
    CERO_TRY(cero_token_ids_reserve(e->ids, 1));
    e->ids->id[e->ids->count++] = id;
    return cero_encoding_flush(e);
}

/* Text between added tokens that are found before normalizing. */
static cero_status encode_segment(const cero_encoding *e, const uint8_t *bytes, size_t length,
                                  bool is_start)
{
    cero_status st = CERO_OK;
    cero_tokenizer *t = e->tokenizer;
    cero_text normal = {0};
    bool is_plain = (e->flags & CERO_ENCODE_PLAIN_SPECIAL) != 0;
    size_t i = 0;
    cero_added_match match;
    if (length == 0) {
        return CERO_OK;
    }
    if (!cero_tokenizer_is_normal(t, bytes, length)) {
        CERO_TRY_GOTO(cero_tokenizer_normalize(t, bytes, length, &normal), out);
        bytes = (const uint8_t *)normal.data;
        length = normal.length;
    }
    while (cero_added_set_find(&t->normalized_set, bytes, length, i, is_plain, &match)) {
        CERO_TRY_GOTO(cero_encoding_split(e, bytes + i, match.begin - i, is_start && i == 0), out);
        CERO_TRY_GOTO(add_id(e, match.id), out);
        i = match.stop;
    }
    CERO_TRY_GOTO(cero_encoding_split(e, bytes + i, length - i, is_start && i == 0), out);

out:
    cero_text_cleanup(&normal);
    return st;
}

static cero_status append_ids(cero_token_ids *ids, const cero_token_ids *more)
{
    if (more->count > 0) {
        CERO_TRY(cero_token_ids_reserve(ids, more->count));
        memcpy(ids->id + ids->count, more->id, (size_t)more->count * sizeof(ids->id[0]));
        ids->count += more->count;
    }
    return CERO_OK;
}

static cero_status encode_all(const cero_encoding *e, const uint8_t *bytes, size_t length)
{
    const cero_tokenizer *t = e->tokenizer;
    bool is_plain = (e->flags & CERO_ENCODE_PLAIN_SPECIAL) != 0;
    bool adds = (e->flags & CERO_ENCODE_ADD_SPECIAL) != 0;
    size_t i = 0;
    cero_added_match match;
    if (adds) {
        CERO_TRY(append_ids(e->ids, &t->prefix));
    }
    while (cero_added_set_find(&t->raw_set, bytes, length, i, is_plain, &match)) {
        CERO_TRY(encode_segment(e, bytes + i, match.begin - i, i == 0));
        CERO_TRY(add_id(e, match.id));
        i = match.stop;
    }
    CERO_TRY(encode_segment(e, bytes + i, length - i, i == 0));
    return adds ? append_ids(e->ids, &t->suffix) : CERO_OK;
}

cero_status cero_tokenizer_encode(cero_tokenizer *tokenizer, const void *bytes, size_t length,
                                  unsigned flags, cero_token_ids *out)
{
    cero_encoding e = {.tokenizer = tokenizer, .ids = out, .flags = flags};
    if (length == 0) {
        bytes = "";
    }
    CERO_TRY(encode_all(&e, bytes, length));
    return CERO_OK;
}

cero_status cero_tokenizer_encode_to(cero_tokenizer *tokenizer, const void *bytes, size_t length,
                                     unsigned flags, cero_token_sink sink, void *context)
{
    cero_status st = CERO_OK;
    cero_token_ids ids = {0};
    cero_encoding e = {
        .tokenizer = tokenizer, .ids = &ids, .sink = sink, .context = context, .flags = flags};
    CERO_TRY_GOTO(encode_all(&e, length == 0 ? "" : bytes, length), out);
    if (ids.count > 0) {
        CERO_TRY_GOTO(sink(context, ids.id, ids.count), out);
    }

out:
    cero_token_ids_cleanup(&ids);
    return st;
}
