/* SPDX-License-Identifier: Apache-2.0 */
/* Small tokenizer files for tests: byte-level with a few merges, and Llama's kind. */
#ifndef CERO_TESTS_UNIT_DATA_SMALL_TOKENIZER_H
#define CERO_TESTS_UNIT_DATA_SMALL_TOKENIZER_H

#include "harness.h"

#include "data/tokenizer.h"
#include "data/tokenizer/bpe.h"
#include "data/unicode/unicode.h"

/* What a test changes; NULL means the default. All are JSON values. */
typedef struct small_params {
    const char *added; /* members of the list after the special token, each with a leading comma */
    const char *normalizer;
    const char *pre_tokenizer;
    const char *post_processor;
    const char *decoder;
    const char *merges;
    const char *model; /* further members of the model, each with a trailing comma */
    const char *vocab; /* further members of the vocabulary, each with a leading comma */
} small_params;

static inline const char *small_or(const char *value, const char *otherwise)
{
    return value != NULL ? value : otherwise;
}

/* Ids: byte b has id b; 256 "ab", 257 "abc", 258 "bc", 259 "Ġa" (space a), 260 <|endoftext|>. */
static inline void small_byte_level_json(const small_params *p, cero_text *out)
{
    cero_text_printf(out,
                     "{\"version\": \"1.0\", \"truncation\": null, \"padding\": null,\n"
                     " \"added_tokens\": [{\"id\": 260, \"content\": \"<|endoftext|>\", "
                     "\"single_word\": false, \"lstrip\": false, \"rstrip\": false, "
                     "\"normalized\": false, \"special\": true}%s],\n",
                     small_or(p->added, ""));
    cero_text_printf(
        out, " \"normalizer\": %s,\n \"pre_tokenizer\": %s,\n", small_or(p->normalizer, "null"),
        small_or(p->pre_tokenizer, "{\"type\": \"ByteLevel\", \"add_prefix_space\": false, "
                                   "\"trim_offsets\": true, \"use_regex\": true}"));
    cero_text_printf(out, " \"post_processor\": %s,\n \"decoder\": %s,\n",
                     small_or(p->post_processor, "null"),
                     small_or(p->decoder, "{\"type\": \"ByteLevel\"}"));
    cero_text_printf(out, " \"model\": {\"type\": \"BPE\", %s\n \"vocab\": {",
                     small_or(p->model, ""));
    for (int byte = 0; byte < 256; byte++) {
        uint8_t utf8[4];
        int n = cero_utf8_put(cero_byte_to_char((uint8_t)byte), utf8);
        cero_text_append_json_string(out, (const char *)utf8, (size_t)n);
        cero_text_printf(out, ": %d, ", byte);
    }
    cero_text_printf(out,
                     "\"ab\": 256, \"abc\": 257, \"bc\": 258, \"\xC4\xA0"
                     "a\": 259%s},\n"
                     " \"merges\": %s}}\n",
                     small_or(p->vocab, ""),
                     small_or(p->merges, "[\"a b\", \"ab c\", \"b c\", \"\xC4\xA0 a\"]"));
}

static inline cero_tokenizer *small_byte_level(const small_params *p)
{
    cero_tokenizer *tokenizer = NULL;
    cero_text json = {0};
    small_byte_level_json(p, &json);
    assert_ok(cero_tokenizer_parse("small.json", json.data, json.length, NULL, &tokenizer));
    cero_text_cleanup(&json);
    return tokenizer;
}

/* Encodes and compares with `count` expected ids. */
static inline void check_ids(cero_tokenizer *tokenizer, const char *text, size_t length,
                             unsigned flags, const int32_t *expected, int64_t count)
{
    cero_token_ids ids = {0};
    assert_ok(cero_tokenizer_encode(tokenizer, text, length, flags, &ids));
    for (int64_t i = 0; i < count; i++) {
        if (i >= ids.count || ids.id[i] != expected[i]) {
            fail_msg("\"%s\": id %d is %d of %d, expected %d of %d", text, (int)i,
                     i < ids.count ? ids.id[i] : -1, (int)ids.count, expected[i], (int)count);
        }
    }
    assert_int_equal(ids.count, count);
    cero_token_ids_cleanup(&ids);
}

#define CHECK_IDS(tokenizer, text, flags, ...)                                            \
    check_ids((tokenizer), (text), strlen(text), (flags), (const int32_t[]){__VA_ARGS__}, \
              (int64_t)CERO_COUNT_OF(((const int32_t[]){__VA_ARGS__})))

/* decode(encode(bytes)) = bytes. */
static inline void check_round_trip(cero_tokenizer *tokenizer, const void *bytes, size_t length)
{
    cero_token_ids ids = {0};
    cero_text back = {0};
    assert_ok(cero_tokenizer_encode(tokenizer, bytes, length, 0, &ids));
    assert_ok(cero_tokenizer_decode(tokenizer, ids.id, ids.count, 0, &back));
    assert_int_equal(back.length, length);
    if (length > 0) {
        assert_memory_equal(back.data, bytes, length);
    }
    cero_text_cleanup(&back);
    cero_token_ids_cleanup(&ids);
}

#endif
