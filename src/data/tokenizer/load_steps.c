/* SPDX-License-Identifier: Apache-2.0 */
/* Reading the normalizer, the pre-tokenizer and the decoder of a tokenizer.json. */
#include "data/tokenizer/tokenizer_impl.h"

#include "base/memory.h"
#include "data/unicode/unicode.h"

#include <string.h>

static bool is_null(const cero_json *value)
{
    return value == NULL || value->type == CERO_JSON_NULL;
}

/* One, and not NUL, which ends a text of C. */
static bool is_one_character(const cero_json *value)
{
    return value->text_length > 0 && value->text[0] != '\0' &&
           cero_text_utf8_length((const unsigned char *)value->text, value->text_length) ==
               value->text_length;
}

static cero_status set_text(cero_step *step, const cero_json *value)
{
    step->text = cero_strndup(value->text, value->text_length);
    step->text_length = value->text_length;
    return step->text != NULL ? CERO_OK : CERO_FAIL(CERO_ERR_NOMEM, "no memory for a step");
}

/* {"String": "..."} or {"Regex": "..."}; *text is the pattern's value. */
static cero_status load_pattern(const cero_json *object, cero_step *step, bool *is_literal,
                                const cero_json **text)
{
    const cero_json *pattern = NULL;
    CERO_TRY(cero_load_need(object, "pattern", CERO_JSON_OBJECT, &pattern));
    const cero_json *value = pattern->child;
    *is_literal = value != NULL && strcmp(value->key, "String") == 0;
    if (pattern->count != 1 || value->type != CERO_JSON_STRING ||
        (!*is_literal && strcmp(value->key, "Regex") != 0)) {
        return CERO_JSON_FAIL(pattern, "expected {\"Regex\": text} or {\"String\": text}");
    }
    *text = value;
    cero_status st =
        cero_pattern_compile(value->text, value->text_length, *is_literal, &step->pattern);
    if (st != CERO_OK) {
        return cero_error_prefix(st, "%s:%d:%d: ", value->file, value->line, value->column);
    }
    return CERO_OK;
}

/* Each item of a Sequence's list. */
typedef cero_status (*load_one)(const cero_json *value, cero_tokenizer *tokenizer);

static cero_status load_sequence(const cero_json *value, const char *key, load_one load,
                                 cero_tokenizer *tokenizer)
{
    const char *const known[] = {"type", key, NULL};
    const cero_json *list = NULL;
    CERO_TRY(cero_load_fields(value, "Sequence", known));
    CERO_TRY(cero_load_need(value, key, CERO_JSON_ARRAY, &list));
    for (const cero_json *item = list->child; item != NULL; item = item->next) {
        CERO_TRY(load(item, tokenizer));
    }
    return CERO_OK;
}

static cero_status load_replace(const cero_json *value, cero_steps *steps)
{
    static const char *const known[] = {"type", "pattern", "content", NULL};
    const cero_json *content = NULL;
    const cero_json *text = NULL;
    cero_step *step = NULL;
    bool is_literal;
    CERO_TRY(cero_load_fields(value, "Replace", known));
    CERO_TRY(cero_load_need(value, "content", CERO_JSON_STRING, &content));
    CERO_TRY(cero_steps_add(steps, CERO_STEP_REPLACE, &step));
    CERO_TRY(load_pattern(value, step, &is_literal, &text));
    return set_text(step, content);
}

static cero_status load_normalizer(const cero_json *value, cero_tokenizer *tokenizer)
{
    static const char *const bare[] = {"type", NULL};
    static const char *const prepend[] = {"type", "prepend", NULL};
    cero_steps *steps = &tokenizer->normalizer;
    const char *type = NULL;
    cero_step *step = NULL;
    CERO_TRY(cero_load_type(value, "the normalizer", &type));
    if (strcmp(type, "Sequence") == 0) {
        return load_sequence(value, "normalizers", load_normalizer, tokenizer);
    }
    if (strcmp(type, "NFC") == 0) {
        CERO_TRY(cero_load_fields(value, "NFC", bare));
        return cero_steps_add(steps, CERO_STEP_NFC, &step);
    }
    if (strcmp(type, "Prepend") == 0) {
        const cero_json *text = NULL;
        CERO_TRY(cero_load_fields(value, "Prepend", prepend));
        CERO_TRY(cero_load_need(value, "prepend", CERO_JSON_STRING, &text));
        CERO_TRY(cero_steps_add(steps, CERO_STEP_PREPEND, &step));
        return set_text(step, text);
    }
    if (strcmp(type, "Replace") == 0) {
        return load_replace(value, steps);
    }
    return CERO_JSON_FAIL(
        value, "unknown normalizer \"%s\"; known are NFC, Prepend, Replace, Sequence", type);
}

static cero_status load_behavior(const cero_json *value, cero_split_behavior *out)
{
    static const struct {
        const char *name;
        cero_split_behavior behavior;
    } known[] = {{"Isolated", CERO_SPLIT_ISOLATED},
                 {"Removed", CERO_SPLIT_REMOVED},
                 {"MergedWithPrevious", CERO_SPLIT_PREVIOUS},
                 {"MergedWithNext", CERO_SPLIT_NEXT},
                 {"Contiguous", CERO_SPLIT_CONTIGUOUS}};
    const cero_json *behavior = NULL;
    CERO_TRY(cero_load_need(value, "behavior", CERO_JSON_STRING, &behavior));
    for (size_t i = 0; i < CERO_COUNT_OF(known); i++) {
        if (cero_json_is_text(behavior, known[i].name)) {
            *out = known[i].behavior;
            return CERO_OK;
        }
    }
    return CERO_JSON_FAIL(behavior,
                          "unknown behavior \"%s\"; known are Isolated, Removed, "
                          "MergedWithPrevious, MergedWithNext, Contiguous",
                          behavior->text);
}

static cero_status load_split(const cero_json *value, cero_steps *steps)
{
    static const char *const known[] = {"type", "pattern", "behavior", "invert", NULL};
    const cero_json *text = NULL;
    cero_step *step = NULL;
    bool is_literal;
    CERO_TRY(cero_load_fields(value, "Split", known));
    CERO_TRY(cero_steps_add(steps, CERO_STEP_SPLIT, &step));
    CERO_TRY(load_behavior(value, &step->behavior));
    CERO_TRY(cero_load_bool(value, "invert", &step->is_inverted));
    CERO_TRY(load_pattern(value, step, &is_literal, &text));
    // A known pattern leaves no gaps, so that dropping what does not match drops nothing.
    bool keeps_all = step->is_inverted ? step->behavior == CERO_SPLIT_REMOVED
                                       : step->behavior == CERO_SPLIT_ISOLATED;
    if (!is_literal && keeps_all) {
        step->match = cero_piece_find(text->text, text->text_length);
    }
    return CERO_OK;
}

static cero_status load_byte_level(const cero_json *value, cero_tokenizer *tokenizer)
{
    static const char *const known[] = {"type", "add_prefix_space", "trim_offsets", "use_regex",
                                        NULL};
    bool has_prefix = true;
    bool uses_regex = true;
    bool trims = true;
    cero_step *step = NULL;
    CERO_TRY(cero_load_fields(value, "ByteLevel", known));
    CERO_TRY(cero_load_bool(value, "add_prefix_space", &has_prefix));
    CERO_TRY(cero_load_bool(value, "use_regex", &uses_regex));
    CERO_TRY(cero_load_bool(value, "trim_offsets", &trims));
    if (has_prefix) {
        CERO_TRY(cero_steps_add(&tokenizer->splitter, CERO_STEP_PREFIX, &step));
    }
    if (uses_regex) {
        CERO_TRY(cero_steps_add(&tokenizer->splitter, CERO_STEP_SPLIT, &step));
        step->match = cero_piece_gpt2;
    }
    tokenizer->bpe.is_byte_level = true;
    return CERO_OK;
}

static cero_status load_scheme(const cero_json *value, cero_prepend_scheme *out)
{
    const cero_json *scheme = cero_json_find(value, "prepend_scheme");
    const cero_json *old = cero_json_find(value, "add_prefix_space");
    *out = CERO_PREPEND_ALWAYS;
    if (scheme == NULL) {
        bool has_prefix = true;
        CERO_TRY(cero_load_bool(value, "add_prefix_space", &has_prefix));
        *out = has_prefix ? CERO_PREPEND_ALWAYS : CERO_PREPEND_NEVER;
    } else if (cero_json_is_text(scheme, "first")) {
        *out = CERO_PREPEND_FIRST;
    } else if (cero_json_is_text(scheme, "never")) {
        *out = CERO_PREPEND_NEVER;
    } else if (!cero_json_is_text(scheme, "always")) {
        return CERO_JSON_FAIL(scheme, "unknown prepend_scheme; known are first, always, never");
    }
    if (scheme != NULL && old != NULL && old->type == CERO_JSON_BOOL && !old->boolean &&
        *out != CERO_PREPEND_NEVER) {
        return CERO_JSON_FAIL(old, "add_prefix_space false contradicts prepend_scheme");
    }
    return CERO_OK;
}

static const char *const metaspace_known[] = {
    "type", "replacement", "prepend_scheme", "split", "str_rep", "add_prefix_space", NULL};

static cero_status load_metaspace(const cero_json *value, cero_steps *steps)
{
    const cero_json *text = NULL;
    cero_step *step = NULL;
    bool splits = true;
    CERO_TRY(cero_load_fields(value, "Metaspace", metaspace_known));
    CERO_TRY(cero_load_need(value, "replacement", CERO_JSON_STRING, &text));
    CERO_TRY(cero_load_bool(value, "split", &splits));
    CERO_TRY(cero_steps_add(steps, CERO_STEP_METASPACE, &step));
    CERO_TRY(load_scheme(value, &step->scheme));
    CERO_TRY(set_text(step, text));
    step->behavior = CERO_SPLIT_NEXT;
    if (!is_one_character(text)) {
        return CERO_JSON_FAIL(text, "the replacement \"%.40s\" is not one character", text->text);
    }
    step->is_whole = !splits;
    return cero_pattern_compile(text->text, text->text_length, true, &step->pattern);
}

static cero_status load_class_step(const cero_json *value, const char *type, cero_steps *steps)
{
    static const char *const bare[] = {"type", NULL};
    static const char *const digits[] = {"type", "individual_digits", NULL};
    static const char *const punct[] = {"type", "behavior", NULL};
    cero_step *step = NULL;
    if (strcmp(type, "Digits") == 0) {
        bool is_single = false;
        CERO_TRY(cero_load_fields(value, type, digits));
        CERO_TRY(cero_load_bool(value, "individual_digits", &is_single));
        CERO_TRY(cero_steps_add(steps, CERO_STEP_DIGITS, &step));
        step->behavior = is_single ? CERO_SPLIT_ISOLATED : CERO_SPLIT_CONTIGUOUS;
    } else if (strcmp(type, "Punctuation") == 0) {
        CERO_TRY(cero_load_fields(value, type, punct));
        CERO_TRY(cero_steps_add(steps, CERO_STEP_PUNCT, &step));
        if (cero_json_find(value, "behavior") != NULL) {
            CERO_TRY(load_behavior(value, &step->behavior));
        }
    } else if (strcmp(type, "Whitespace") == 0) {
        CERO_TRY(cero_load_fields(value, type, bare));
        CERO_TRY(cero_steps_add(steps, CERO_STEP_WHITESPACE, &step));
        step->behavior = CERO_SPLIT_REMOVED;
        step->is_inverted = true;
    } else if (strcmp(type, "WhitespaceSplit") == 0) {
        CERO_TRY(cero_load_fields(value, type, bare));
        CERO_TRY(cero_steps_add(steps, CERO_STEP_SPACE_SPLIT, &step));
        step->behavior = CERO_SPLIT_REMOVED;
    } else {
        return CERO_JSON_FAIL(value,
                              "unknown pre-tokenizer \"%s\"; known are ByteLevel, Digits, "
                              "Metaspace, Punctuation, Sequence, Split, Whitespace, "
                              "WhitespaceSplit",
                              type);
    }
    return CERO_OK;
}

static cero_status load_pre_tokenizer(const cero_json *value, cero_tokenizer *tokenizer)
{
    const char *type = NULL;
    CERO_TRY(cero_load_type(value, "the pre-tokenizer", &type));
    if (tokenizer->bpe.is_byte_level) {
        return CERO_JSON_FAIL(value,
                              "\"%s\" after ByteLevel is not offered: it would see bytes "
                              "in disguise",
                              type);
    }
    if (strcmp(type, "Sequence") == 0) {
        return load_sequence(value, "pretokenizers", load_pre_tokenizer, tokenizer);
    }
    if (strcmp(type, "ByteLevel") == 0) {
        return load_byte_level(value, tokenizer);
    }
    if (strcmp(type, "Split") == 0) {
        return load_split(value, &tokenizer->splitter);
    }
    if (strcmp(type, "Metaspace") == 0) {
        return load_metaspace(value, &tokenizer->splitter);
    }
    return load_class_step(value, type, &tokenizer->splitter);
}

cero_status cero_load_steps(const cero_json *root, cero_tokenizer *tokenizer)
{
    const cero_json *normalizer = cero_json_find(root, "normalizer");
    const cero_json *pre = cero_json_find(root, "pre_tokenizer");
    if (!is_null(normalizer)) {
        CERO_TRY(load_normalizer(normalizer, tokenizer));
    }
    return is_null(pre) ? CERO_OK : load_pre_tokenizer(pre, tokenizer);
}

/* Strip{content, start, stop}: only off the start of the whole text. */
static cero_status load_strip(const cero_json *value, cero_tokenizer *tokenizer)
{
    static const char *const known[] = {"type", "content", "start", "stop", NULL};
    const cero_json *content = NULL;
    const cero_json *start = NULL;
    const cero_json *stop = NULL;
    int64_t at_end;
    CERO_TRY(cero_load_fields(value, "Strip", known));
    CERO_TRY(cero_load_need(value, "content", CERO_JSON_STRING, &content));
    CERO_TRY(cero_load_need(value, "start", CERO_JSON_NUMBER, &start));
    CERO_TRY(cero_load_need(value, "stop", CERO_JSON_NUMBER, &stop));
    CERO_TRY(cero_json_int(start, &tokenizer->strip_start));
    CERO_TRY(cero_json_int(stop, &at_end));
    if (at_end != 0 || tokenizer->strip_start < 0) {
        return CERO_JSON_FAIL(value,
                              "Strip with start %lld and stop %lld is not offered; "
                              "expected start >= 0 and stop 0",
                              (long long)tokenizer->strip_start, (long long)at_end);
    }
    if (!is_one_character(content)) {
        return CERO_JSON_FAIL(content, "the content of Strip is not one character");
    }
    memset(tokenizer->strip_char, 0, sizeof(tokenizer->strip_char));
    memcpy(tokenizer->strip_char, content->text, content->text_length);
    return CERO_OK;
}

static cero_status load_metaspace_decoder(const cero_json *value, cero_tokenizer *tokenizer)
{
    cero_step *step = NULL;
    CERO_TRY(load_metaspace(value, &tokenizer->decoder));
    step = &tokenizer->decoder.step[tokenizer->decoder.count - 1];
    tokenizer->strips_first_token = step->scheme != CERO_PREPEND_NEVER;
    return CERO_OK;
}

static cero_status load_decoder_step(const cero_json *value, cero_tokenizer *tokenizer)
{
    static const char *const bare[] = {"type", NULL};
    static const char *const byte_level[] = {"type", "add_prefix_space", "trim_offsets",
                                             "use_regex", NULL};
    const char *type = NULL;
    cero_step *step = NULL;
    CERO_TRY(cero_load_type(value, "the decoder", &type));
    if (strcmp(type, "Sequence") == 0) {
        return load_sequence(value, "decoders", load_decoder_step, tokenizer);
    }
    if (strcmp(type, "ByteLevel") == 0) {
        CERO_TRY(cero_load_fields(value, type, byte_level));
        return cero_steps_add(&tokenizer->decoder, CERO_STEP_BYTE_LEVEL, &step);
    }
    if (strcmp(type, "ByteFallback") == 0) {
        CERO_TRY(cero_load_fields(value, type, bare));
        return cero_steps_add(&tokenizer->decoder, CERO_STEP_BYTE_FALLBACK, &step);
    }
    if (strcmp(type, "Fuse") == 0) {
        return cero_load_fields(value, type, bare);
    }
    if (strcmp(type, "Replace") == 0) {
        return load_replace(value, &tokenizer->decoder);
    }
    if (strcmp(type, "Strip") == 0) {
        return load_strip(value, tokenizer);
    }
    if (strcmp(type, "Metaspace") == 0) {
        return load_metaspace_decoder(value, tokenizer);
    }
    return CERO_JSON_FAIL(value,
                          "unknown decoder \"%s\"; known are ByteFallback, ByteLevel, Fuse, "
                          "Metaspace, Replace, Sequence, Strip",
                          type);
}

cero_status cero_load_decoder(const cero_json *value, cero_tokenizer *tokenizer)
{
    if (is_null(value)) {
        return CERO_FAIL(CERO_ERR_UNSUPPORTED,
                         "%s has no decoder, which would put a space between any two tokens; "
                         "expected for example {\"type\": \"ByteLevel\"}",
                         tokenizer->name);
    }
    return load_decoder_step(value, tokenizer);
}
