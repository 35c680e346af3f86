/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compiles and runs patterns. The rewriting walks the expression once, knowing only escapes and
 * whether it is inside a class.
 */
#include "data/tokenizer/pattern.h"

#include "base/memory.h"
#include "base/text.h"
#include "data/unicode/unicode.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <string.h>

/* The 25 code points of White_Space: \s of PCRE2 lacks U+0085. */
#define WHITE_SPACE                                                                             \
    "\\x{9}-\\x{d}\\x{20}\\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}" \
    "\\x{205f}\\x{3000}"

enum {
    MATCH_LIMIT = 10000000,
    HEAP_LIMIT_KIB = 65536,
    JIT_STACK_START = 32768,
    JIT_STACK_LIMIT = 8388608
};

struct cero_pattern {
    uint8_t *literal; /* owned; NULL for an expression */
    size_t literal_length;
    pcre2_code *code;
    pcre2_match_data *data;
    pcre2_match_context *context;
    pcre2_jit_stack *stack;
};

/* Appends the rewritten escape at pattern[i], a backslash; *used is its length. */
static cero_status rewrite_escape(const char *pattern, size_t length, size_t i, bool in_class,
                                  cero_text *out, size_t *used)
{
    *used = 2;
    if (i + 1 >= length) {
        return CERO_FAIL(CERO_ERR_CORRUPT, "the pattern ends with a backslash");
    }
    char c = pattern[i + 1];
    if (strchr("hHRXGKCQEgk", c) != NULL) {
        return CERO_FAIL(CERO_ERR_UNSUPPORTED,
                         "\\%c at offset %zu of the pattern is not offered: the expression "
                         "libraries read it differently",
                         c, i);
    }
    if (c == 's') {
        cero_text_printf(out, in_class ? "%s" : "[%s]", WHITE_SPACE);
    } else if (c == 'S' && !in_class) {
        cero_text_printf(out, "[^%s]", WHITE_SPACE);
    } else if (c == 'S') {
        return CERO_FAIL(CERO_ERR_UNSUPPORTED,
                         "\\S inside a class at offset %zu of the pattern is not offered", i);
    } else {
        const char *brace = i + 2 < length && pattern[i + 2] == '{' && strchr("pPx", c) != NULL
                                ? memchr(pattern + i, '}', length - i)
                                : NULL;
        *used = brace == NULL ? 2 : (size_t)(brace + 1 - (pattern + i));
        cero_text_append(out, pattern + i, *used);
    }
    return CERO_OK;
}

/* Refuses what Ruby's syntax reads differently from PCRE2 at a plain character. */
static cero_status check_dialect(const char *pattern, size_t length, size_t i, bool in_class)
{
    const char *rest = pattern + i;
    size_t left = length - i;
    const char *what = NULL;
    if (in_class && left >= 2 && memcmp(rest, "&&", 2) == 0) {
        what = "&& inside a class";
    } else if (in_class && rest[0] == '[') {
        what = "a class inside a class";
    } else if (!in_class && left >= 2 && memcmp(rest, "}+", 2) == 0) {
        what = "}+";
    } else if (!in_class && left >= 2 && memcmp(rest, "(*", 2) == 0) {
        what = "(*";
    } else if (!in_class && left >= 3 && memcmp(rest, "(?", 2) == 0) {
        size_t flags = strspn(rest + 2, "imsxn-");
        if (flags > 0 && memchr(rest + 2, 'm', flags) != NULL) {
            what = "(?m";
        }
    }
    if (what != NULL) {
        return CERO_FAIL(CERO_ERR_UNSUPPORTED,
                         "%s at offset %zu of the pattern is not offered: the expression libraries "
                         "read it differently",
                         what, i);
    }
    return CERO_OK;
}

static cero_status rewrite(const char *pattern, size_t length, cero_text *out)
{
    bool in_class = false;
    size_t i = 0;
    while (i < length) {
        if (pattern[i] == '\\') {
            size_t used = 2;
            CERO_TRY(rewrite_escape(pattern, length, i, in_class, out, &used));
            i += used;
            continue;
        }
        CERO_TRY(check_dialect(pattern, length, i, in_class));
        if (!in_class && pattern[i] == '[') {
            in_class = true;
            size_t head = i + 1 < length && pattern[i + 1] == '^' ? 2 : 1;
            cero_text_append(out, pattern + i, head);
            i += head;
            if (i < length && pattern[i] == ']') {
                return CERO_FAIL(CERO_ERR_UNSUPPORTED,
                                 "an empty class at offset %zu of the pattern is not offered", i);
            }
            continue;
        }
        if (in_class && pattern[i] == ']') {
            in_class = false;
        }
        cero_text_append(out, pattern + i, 1);
        i++;
    }
    return cero_text_finish(out);
}

static cero_status compile_code(cero_pattern *pattern, const cero_text *text)
{
    int error = 0;
    PCRE2_SIZE offset = 0;
    uint32_t options =
        PCRE2_UTF | PCRE2_UCP | PCRE2_NO_UTF_CHECK | PCRE2_NEVER_BACKSLASH_C | PCRE2_MULTILINE;
    pattern->code =
        pcre2_compile((PCRE2_SPTR)text->data, text->length, options, &error, &offset, NULL);
    if (pattern->code == NULL) {
        char message[128];
        (void)pcre2_get_error_message(error, (PCRE2_UCHAR *)message, sizeof(message));
        return CERO_FAIL(CERO_ERR_CORRUPT, "the pattern is no regular expression: %s, near \"%s\"",
                         message, text->data + offset);
    }
    // Without JIT (a build or a machine that has none) the same code is interpreted.
    (void)pcre2_jit_compile(pattern->code, PCRE2_JIT_COMPLETE);
    pattern->data = pcre2_match_data_create_from_pattern(pattern->code, NULL);
    pattern->context = pcre2_match_context_create(NULL);
    pattern->stack = pcre2_jit_stack_create(JIT_STACK_START, JIT_STACK_LIMIT, NULL);
    if (pattern->data == NULL || pattern->context == NULL) {
        return CERO_FAIL(CERO_ERR_NOMEM, "no memory for a pattern");
    }
    (void)pcre2_set_match_limit(pattern->context, MATCH_LIMIT);
    (void)pcre2_set_heap_limit(pattern->context, HEAP_LIMIT_KIB);
    if (pattern->stack != NULL) {
        pcre2_jit_stack_assign(pattern->context, NULL, pattern->stack);
    }
    return CERO_OK;
}

cero_status cero_pattern_compile(const char *text, size_t length, bool is_literal,
                                 cero_pattern **out)
{
    cero_status st = CERO_OK;
    cero_text rewritten = {0};
    cero_pattern *pattern = cero_new(1, sizeof(*pattern));

    if (pattern == NULL) {
        return CERO_FAIL(CERO_ERR_NOMEM, "no memory for a pattern");
    }
    if (length == 0) {
        CERO_FAIL_GOTO(fail, CERO_ERR_CORRUPT, "the pattern is empty");
    }
    if (cero_utf8_valid_prefix((const uint8_t *)text, length) != length) {
        CERO_FAIL_GOTO(fail, CERO_ERR_CORRUPT, "the pattern is not UTF-8");
    }
    if (is_literal) {
        pattern->literal = (uint8_t *)cero_strndup(text, length);
        pattern->literal_length = length;
        if (pattern->literal == NULL) {
            CERO_FAIL_GOTO(fail, CERO_ERR_NOMEM, "no memory for a pattern");
        }
    } else {
        CERO_TRY_GOTO(rewrite(text, length, &rewritten), fail);
        CERO_TRY_GOTO(compile_code(pattern, &rewritten), fail);
    }
    cero_text_cleanup(&rewritten);
    *out = pattern;
    return CERO_OK;

fail:
    cero_text_cleanup(&rewritten);
    cero_pattern_destroy(&pattern);
    return st;
}

void cero_pattern_destroy(cero_pattern **pattern)
{
    if (pattern == NULL || *pattern == NULL) {
        return;
    }
    cero_pattern *p = *pattern;
    if (p->stack != NULL) {
        pcre2_jit_stack_free(p->stack);
    }
    pcre2_match_context_free(p->context);
    pcre2_match_data_free(p->data);
    pcre2_code_free(p->code);
    cero_delete(p->literal);
    cero_delete(p);
    *pattern = NULL;
}

static void find_literal(const cero_pattern *p, const uint8_t *text, size_t end, size_t from,
                         size_t *begin)
{
    *begin = end;
    while (from + p->literal_length <= end) {
        const uint8_t *hit = memchr(text + from, p->literal[0], end - from - p->literal_length + 1);
        if (hit == NULL) {
            return;
        }
        if (memcmp(hit, p->literal, p->literal_length) == 0) {
            *begin = (size_t)(hit - text);
            return;
        }
        from = (size_t)(hit - text) + 1;
    }
}

cero_status cero_pattern_find(cero_pattern *pattern, const uint8_t *text, size_t end, size_t from,
                              size_t *begin, size_t *stop)
{
    if (pattern->literal != NULL) {
        find_literal(pattern, text, end, from, begin);
        *stop = *begin == end ? end : *begin + pattern->literal_length;
        return CERO_OK;
    }
    int rc = pcre2_match(pattern->code, text, end, from, PCRE2_NO_UTF_CHECK | PCRE2_NOTEMPTY,
                         pattern->data, pattern->context);
    if (rc == PCRE2_ERROR_NOMATCH) {
        *begin = end;
        *stop = end;
        return CERO_OK;
    }
    if (rc < 0) {
        char message[128];
        (void)pcre2_get_error_message(rc, (PCRE2_UCHAR *)message, sizeof(message));
        return CERO_FAIL(CERO_ERR_UNSUPPORTED,
                         "the split pattern of the tokenizer gave up at byte %zu of the text: %s",
                         from, message);
    }
    const PCRE2_SIZE *match = pcre2_get_ovector_pointer(pattern->data);
    *begin = match[0];
    *stop = match[1];
    return CERO_OK;
}
