/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The JSON reader: one pass over a private copy of the bytes.
 *
 * Strings are unescaped where they stand (an escape is never shorter than what it means, so the closing
 * quote's place is free for the terminator); nodes and number texts come from an arena of blocks. What
 * is asked of values afterwards is in json_value.c.
 */
#include "base/json.h"

#include "base/file.h"
#include "base/json_impl.h"
#include "base/memory.h"
#include "base/text.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

enum {
    DEFAULT_DEPTH = 64,
    DEFAULT_MAX_BYTES = 1 << 30,
    FIRST_BLOCK = 1024, /* doubled up to LAST_BLOCK: most documents are small */
    LAST_BLOCK = 512 * 1024,
    FEW_MEMBERS = 16 /* objects up to here are searched for duplicates pair by pair */
};

typedef struct block block;
struct block {
    block *next;
    size_t used;
    size_t size;
    char bytes[];
};

struct cero_json_document {
    char *file;
    char *bytes; /* [length + 1], owned; strings are views into it */
    block *blocks;
    cero_json *root;
};

typedef struct parser {
    cero_json_document *document;
    char *p; /* next byte; *end is NUL */
    char *end;
    const char *line_start;
    int line;
    int depth;
    int max_depth;
    bool allow_comments;
} parser;

static void *arena_alloc(cero_json_document *document, size_t nbytes)
{
    block *b = document->blocks;
    size_t wanted = (nbytes + 7) & ~(size_t)7;

    if (b == NULL || wanted > b->size - b->used) {
        size_t size = b == NULL ? FIRST_BLOCK : b->size < LAST_BLOCK ? b->size * 2 : LAST_BLOCK;
        size = wanted > size ? wanted : size;
        b = cero_new(1, sizeof(*b) + size);
        if (b == NULL) {
            return NULL;
        }
        b->size = size;
        b->next = document->blocks;
        document->blocks = b;
    }
    void *at = b->bytes + b->used;
    b->used += wanted;
    return at;
}

static cero_status no_memory(const parser *ps)
{
    return CERO_FAIL(CERO_ERR_NOMEM, "no memory for the values of %s", ps->document->file);
}

static int column_of(const parser *ps, const char *at)
{
    return (int)(at - ps->line_start) + 1;
}

/* CORRUPT at `at`, saying what was expected and what stands there. */
static cero_status fail_at(const parser *ps, const char *at, const char *expected)
{
    char found[48];
    unsigned char c = (unsigned char)*at;

    if (at >= ps->end) {
        (void)snprintf(found, sizeof(found), "the end of the file");
    } else if (c == '\n' || c == '\r') {
        (void)snprintf(found, sizeof(found), "the end of the line");
    } else if (c < 0x20 || c >= 0x7F) {
        (void)snprintf(found, sizeof(found), "the byte 0x%02x", c);
    } else {
        int length = 1;
        while (length < 24 && at[length] > ' ' && at[length] < 0x7F &&
               strchr(",:]}'", at[length]) == NULL) {
            length++;
        }
        (void)snprintf(found, sizeof(found), "'%.*s'", length, at);
    }
    return CERO_FAIL(CERO_ERR_CORRUPT, "%s:%d:%d: expected %s, found %s", ps->document->file,
                     ps->line, column_of(ps, at), expected, found);
}

static void skip_line_comment(parser *ps)
{
    while (ps->p < ps->end && *ps->p != '\n') {
        ps->p++;
    }
}

static cero_status skip_block_comment(parser *ps)
{
    int line = ps->line;
    int column = column_of(ps, ps->p);

    for (ps->p += 2; ps->p < ps->end; ps->p++) {
        if (ps->p[0] == '*' && ps->p[1] == '/') {
            ps->p += 2;
            return CERO_OK;
        }
        if (*ps->p == '\n') {
            ps->line++;
            ps->line_start = ps->p + 1;
        }
    }
    return CERO_FAIL(CERO_ERR_CORRUPT, "%s:%d:%d: the comment that starts here never ends",
                     ps->document->file, line, column);
}

static cero_status skip_space(parser *ps)
{
    for (;;) {
        char c = *ps->p;
        if (c == '\n') {
            ps->line++;
            ps->line_start = ++ps->p;
        } else if (c == ' ' || c == '\t' || c == '\r') {
            ps->p++;
        } else if (ps->allow_comments && (c == '#' || (c == '/' && ps->p[1] == '/'))) {
            skip_line_comment(ps);
        } else if (ps->allow_comments && c == '/' && ps->p[1] == '*') {
            CERO_TRY(skip_block_comment(ps));
        } else {
            return CERO_OK;
        }
    }
}

/* Four hexadecimal digits at p, or -1. The bytes end with a NUL, which is no digit. */
static int hex4(const char *p)
{
    int value = 0;

    for (int i = 0; i < 4; i++) {
        char c = p[i];
        int digit = c >= '0' && c <= '9'   ? c - '0'
                    : c >= 'a' && c <= 'f' ? c - 'a' + 10
                    : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                           : -1;
        if (digit < 0) {
            return -1;
        }
        value = value * 16 + digit;
    }
    return value;
}

static char *put_utf8(char *out, int code)
{
    if (code < 0x80) {
        *out++ = (char)code;
    } else if (code < 0x800) {
        *out++ = (char)(0xC0 | (code >> 6));
        *out++ = (char)(0x80 | (code & 0x3F));
    } else if (code < 0x10000) {
        *out++ = (char)(0xE0 | (code >> 12));
        *out++ = (char)(0x80 | ((code >> 6) & 0x3F));
        *out++ = (char)(0x80 | (code & 0x3F));
    } else {
        *out++ = (char)(0xF0 | (code >> 18));
        *out++ = (char)(0x80 | ((code >> 12) & 0x3F));
        *out++ = (char)(0x80 | ((code >> 6) & 0x3F));
        *out++ = (char)(0x80 | (code & 0x3F));
    }
    return out;
}

/* The backslash is at ps->p; writes what the escape means to *out and moves both on. */
static cero_status parse_escape(parser *ps, char **out)
{
    static const char from[] = "\"\\/bfnrt";
    static const char to[] = "\"\\/\b\f\n\r\t";
    const char *known = ps->p[1] == '\0' ? NULL : strchr(from, ps->p[1]);

    if (known != NULL) {
        *(*out)++ = to[known - from];
        ps->p += 2;
        return CERO_OK;
    }
    if (ps->p[1] != 'u') {
        return fail_at(ps, ps->p, "an escape (one of \\\" \\\\ \\/ \\b \\f \\n \\r \\t \\uXXXX)");
    }
    int code = hex4(ps->p + 2);
    if (code < 0) {
        return fail_at(ps, ps->p, "four hexadecimal digits after \\u");
    }
    int length = 6;
    if (code >= 0xD800 && code < 0xE000) {
        int low = code < 0xDC00 && ps->p[6] == '\\' && ps->p[7] == 'u' ? hex4(ps->p + 8) : -1;
        if (low < 0xDC00 || low >= 0xE000) {
            return fail_at(ps, ps->p, "both halves of a surrogate pair");
        }
        code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
        length = 12;
    }
    *out = put_utf8(*out, code);
    ps->p += length;
    return CERO_OK;
}

/* The opening quote is at ps->p. Unescapes in place and terminates. */
static cero_status parse_string(parser *ps, const char **text, size_t *length)
{
    const char *open = ps->p;
    char *start = ++ps->p;

    while ((unsigned char)*ps->p >= 0x20 && (unsigned char)*ps->p < 0x80 && *ps->p != '"' &&
           *ps->p != '\\') {
        ps->p++;
    }
    char *out = ps->p;
    while (*ps->p != '"') {
        unsigned char c = (unsigned char)*ps->p;
        if (c == '\\') {
            CERO_TRY(parse_escape(ps, &out));
            continue;
        }
        if (c < 0x20) {
            return ps->p >= ps->end
                       ? fail_at(ps, open, "a string that ends before the file does")
                       : fail_at(ps, ps->p, "a closing quote or an escaped control character");
        }
        size_t n = c < 0x80 ? 1
                            : cero_text_utf8_length((const unsigned char *)ps->p,
                                                    (size_t)(ps->end - ps->p));
        if (n == 0) {
            return fail_at(ps, ps->p, "UTF-8 text");
        }
        for (size_t i = 0; i < n; i++) {
            *out++ = *ps->p++;
        }
    }
    ps->p++;
    *out = '\0';
    *text = start;
    *length = (size_t)(out - start);
    return CERO_OK;
}

static const char *skip_digits(const char *p)
{
    while (*p >= '0' && *p <= '9') {
        p++;
    }
    return p;
}

/* RFC 8259, section 6. */
static cero_status parse_number(parser *ps, cero_json *value)
{
    const char *p = ps->p + (*ps->p == '-');
    const char *digits = p;

    p = *p == '0' ? p + 1 : skip_digits(p);
    bool is_good = p > digits;
    if (is_good && *p == '.') {
        digits = p + 1;
        p = skip_digits(digits);
        is_good = p > digits;
    }
    if (is_good && (*p == 'e' || *p == 'E')) {
        digits = p + 1 + (p[1] == '+' || p[1] == '-');
        p = skip_digits(digits);
        is_good = p > digits;
    }
    // What follows a number is never part of a word: 01, 1.5.2, 0x10.
    if (!is_good || (*p >= '0' && *p <= '9') || *p == '.' || (*p >= 'a' && *p <= 'z')) {
        return fail_at(ps, ps->p, "a number as JSON writes it");
    }
    value->type = CERO_JSON_NUMBER;
    value->text_length = (size_t)(p - ps->p);
    char *text = arena_alloc(ps->document, value->text_length + 1);
    if (text == NULL) {
        return no_memory(ps);
    }
    memcpy(text, ps->p, value->text_length);
    text[value->text_length] = '\0';
    value->text = text;
    if (!cero_json_to_double(text, &value->number)) {
        return fail_at(ps, ps->p, "a number that fits into a double");
    }
    ps->p += value->text_length;
    return CERO_OK;
}

static cero_status parse_word(parser *ps, cero_json *value)
{
    static const struct {
        const char *word;
        size_t length;
        cero_json_type type;
        bool boolean;
    } words[] = {
        {"null", 4, CERO_JSON_NULL, false},
        {"true", 4, CERO_JSON_BOOL, true},
        {"false", 5, CERO_JSON_BOOL, false},
    };
    size_t length =
        strspn(ps->p, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_");

    for (size_t i = 0; i < CERO_COUNT_OF(words); i++) {
        if (length == words[i].length && memcmp(ps->p, words[i].word, length) == 0) {
            value->type = words[i].type;
            value->boolean = words[i].boolean;
            ps->p += length;
            return CERO_OK;
        }
    }
    return fail_at(ps, ps->p,
                   *ps->p == '\''
                       ? "a string in double quotes"
                       : "a value (object, list, \"string\", number, true, false, null)");
}

/* Keyed by an address, so that nobody can prepare keys that all fall into one place of the table. */
static size_t hash_key(const char *key, uint64_t seed)
{
    uint64_t h = seed;

    for (const char *p = key; *p != '\0'; p++) {
        h = (h ^ (unsigned char)*p) * 0x9E3779B97F4A7C15u;
        h ^= h >> 29;
    }
    return (size_t)(h ^ (h >> 32));
}

static cero_status fail_duplicate(const cero_json *first, const cero_json *second)
{
    return CERO_FAIL(CERO_ERR_CORRUPT,
                     "%s:%d:%d: the key \"%.100s\" stands here for the second time (first at "
                     "%d:%d); remove one",
                     second->file, second->line, second->column, second->key, first->line,
                     first->column);
}

static cero_status check_many_keys(const parser *ps, const cero_json *object)
{
    size_t size = 64;
    uint64_t seed = (uint64_t)(uintptr_t)ps->document * 0xBF58476D1CE4E5B9u;
    cero_status st = CERO_OK;

    while (size < (size_t)object->count * 2) {
        size *= 2;
    }
    const cero_json **table = cero_new(size, sizeof(*table));
    if (table == NULL) {
        return no_memory(ps);
    }
    for (const cero_json *m = object->child; m != NULL && st == CERO_OK; m = m->next) {
        size_t at = hash_key(m->key, seed) & (size - 1);
        while (table[at] != NULL && strcmp(table[at]->key, m->key) != 0) {
            at = (at + 1) & (size - 1);
        }
        if (table[at] != NULL) {
            st = fail_duplicate(table[at], m);
        }
        table[at] = m;
    }
    cero_delete(table);
    return st;
}

static cero_status check_keys(const parser *ps, const cero_json *object)
{
    if (object->count > FEW_MEMBERS) {
        return check_many_keys(ps, object);
    }
    for (const cero_json *m = object->child; m != NULL; m = m->next) {
        for (const cero_json *before = object->child; before != m; before = before->next) {
            if (strcmp(before->key, m->key) == 0) {
                return fail_duplicate(before, m);
            }
        }
    }
    return CERO_OK;
}

static cero_status parse_value(parser *ps, cero_json **out);

static cero_status parse_key(parser *ps, const char **key)
{
    size_t length;
    const char *at = ps->p;

    if (*at != '"') {
        return fail_at(ps, at, "a key in double quotes");
    }
    CERO_TRY(parse_string(ps, key, &length));
    if (strlen(*key) != length) {
        return CERO_FAIL(CERO_ERR_CORRUPT, "%s:%d:%d: a key holds the character \\u0000",
                         ps->document->file, ps->line, column_of(ps, at));
    }
    CERO_TRY(skip_space(ps));
    if (*ps->p != ':') {
        return fail_at(ps, ps->p, "':' after a key");
    }
    ps->p++;
    return skip_space(ps);
}

/* Members or items, the opening bracket at ps->p. A member's position is that of its key. */
static cero_status parse_children(parser *ps, cero_json *parent)
{
    bool is_object = *ps->p == '{';
    char close = is_object ? '}' : ']';
    cero_json **link = &parent->child;

    if (++ps->depth > ps->max_depth) {
        return CERO_FAIL(CERO_ERR_CORRUPT, "%s:%d:%d: more than %d lists and objects are nested",
                         ps->document->file, ps->line, column_of(ps, ps->p), ps->max_depth);
    }
    parent->type = is_object ? CERO_JSON_OBJECT : CERO_JSON_ARRAY;
    ps->p++;
    CERO_TRY(skip_space(ps));
    while (*ps->p != close || (parent->count > 0 && !ps->allow_comments)) {
        const char *key = NULL;
        int line = ps->line;
        int column = column_of(ps, ps->p);
        if (is_object) {
            CERO_TRY(parse_key(ps, &key));
        }
        CERO_TRY(parse_value(ps, link));
        (*link)->key = key;
        (*link)->line = line;
        (*link)->column = column;
        link = &(*link)->next;
        parent->count++;
        CERO_TRY(skip_space(ps));
        if (*ps->p != ',') {
            if (*ps->p != close) {
                return fail_at(ps, ps->p, is_object ? "',' or '}'" : "',' or ']'");
            }
            break;
        }
        ps->p++;
        CERO_TRY(skip_space(ps));
    }
    ps->p++;
    ps->depth--;
    return is_object ? check_keys(ps, parent) : CERO_OK;
}

static cero_status parse_value(parser *ps, cero_json **out)
{
    cero_json *value = arena_alloc(ps->document, sizeof(*value));
    char c = *ps->p;

    if (value == NULL) {
        return no_memory(ps);
    }
    value->line = ps->line;
    value->column = column_of(ps, ps->p);
    value->file = ps->document->file;
    *out = value;
    if (c == '"') {
        value->type = CERO_JSON_STRING;
        return parse_string(ps, &value->text, &value->text_length);
    }
    if (c == '{' || c == '[') {
        return parse_children(ps, value);
    }
    return c == '-' || (c >= '0' && c <= '9') ? parse_number(ps, value) : parse_word(ps, value);
}

static cero_status parse_document(parser *ps)
{
    if (ps->end - ps->p >= 3 && memcmp(ps->p, "\xEF\xBB\xBF", 3) == 0 && ps->allow_comments) {
        ps->p += 3; // a byte-order mark, left by some editors
    }
    CERO_TRY(skip_space(ps));
    CERO_TRY(parse_value(ps, &ps->document->root));
    CERO_TRY(skip_space(ps));
    return ps->p == ps->end ? CERO_OK : fail_at(ps, ps->p, "nothing after the value");
}

/* Parses bytes[0..length), with bytes[length] == 0, and takes them, also on error. */
static cero_status parse_owned(const char *file, char *bytes, size_t length,
                               const cero_json_options *options, cero_json_document **out)
{
    static const cero_json_options defaults = {0};
    cero_status st;
    cero_json_document *document = cero_new(1, sizeof(*document));
    char *name = cero_strdup(file);

    if (document == NULL || name == NULL) {
        cero_delete(bytes);
        cero_delete(name);
        cero_delete(document);
        return CERO_FAIL(CERO_ERR_NOMEM, "no memory to parse %s", file);
    }
    document->bytes = bytes;
    document->file = name;
    options = options == NULL ? &defaults : options;
    parser ps = {.document = document,
                 .p = bytes,
                 .end = bytes + length,
                 .line_start = bytes,
                 .line = 1,
                 .max_depth = options->max_depth > 0 ? options->max_depth : DEFAULT_DEPTH,
                 .allow_comments = options->allow_comments};
    // Lines and columns are ints.
    st = length < INT_MAX
             ? parse_document(&ps)
             : CERO_FAIL(CERO_ERR_CORRUPT, "%s has %zu bytes, too many for JSON", file, length);
    if (st != CERO_OK) {
        cero_json_destroy(&document);
        return st;
    }
    *out = document;
    return CERO_OK;
}

cero_status cero_json_parse(const char *file, const char *bytes, size_t length,
                            const cero_json_options *options, cero_json_document **out)
{
    char *copy = cero_strndup(bytes, length);

    if (copy == NULL) {
        return CERO_FAIL(CERO_ERR_NOMEM, "no memory for the %zu bytes of %s", length, file);
    }
    CERO_TRY(parse_owned(file, copy, length, options, out));
    return CERO_OK;
}

cero_status cero_json_read(const char *path, const cero_json_options *options, size_t max_bytes,
                           cero_json_document **out)
{
    char *bytes;
    size_t length;

    CERO_TRY(cero_file_read(path, max_bytes == 0 ? DEFAULT_MAX_BYTES : max_bytes, &bytes, &length));
    CERO_TRY(parse_owned(path, bytes, length, options, out));
    return CERO_OK;
}

void cero_json_destroy(cero_json_document **document)
{
    if (document == NULL || *document == NULL) {
        return;
    }
    for (block *b = (*document)->blocks; b != NULL;) {
        block *next = b->next;
        cero_delete(b);
        b = next;
    }
    cero_delete((*document)->bytes);
    cero_delete((*document)->file);
    cero_delete(*document);
    *document = NULL;
}

const cero_json *cero_json_root(const cero_json_document *document)
{
    return document->root;
}
