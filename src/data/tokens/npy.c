/* SPDX-License-Identifier: Apache-2.0 */
/*
 * .npy files of one dimension: the head is a Python literal, of which exactly the form numpy writes is
 * read (three keys in any order). Objects are pickles and refused.
 */
#include "data/tokens/source.h"

#include <stdlib.h>
#include <string.h>

enum {
    HEAD_MAX = 65536
};

/* Reads the literal at text[at..end). */
typedef struct reader {
    const char *path;
    const char *text;
    size_t at;
    size_t end;
} reader;

typedef struct npy_head {
    char descr[16];
    int64_t count;
    bool has_descr;
    bool has_order;
    bool has_shape;
} npy_head;

static cero_status fail_at(const reader *r, const char *expected)
{
    return CERO_FAIL(CERO_ERR_CORRUPT, "reading %s: expected %s at byte %zu of the head", r->path,
                     expected, r->at);
}

static void skip_space(reader *r)
{
    while (r->at < r->end && (r->text[r->at] == ' ' || r->text[r->at] == '\t')) {
        r->at++;
    }
}

static bool take(reader *r, const char *word)
{
    size_t n = strlen(word);
    skip_space(r);
    if (r->end - r->at < n || memcmp(r->text + r->at, word, n) != 0) {
        return false;
    }
    r->at += n;
    return true;
}

static cero_status read_string(reader *r, char *out, size_t size)
{
    skip_space(r);
    char quote = r->at < r->end ? r->text[r->at] : '\0';
    if (quote != '\'' && quote != '"') {
        return fail_at(r, "a string");
    }
    size_t begin = r->at + 1;
    const char *close = memchr(r->text + begin, quote, r->end - begin);
    size_t n = close == NULL ? size : (size_t)(close - (r->text + begin));
    if (n >= size) {
        return fail_at(r, "a short string (a structured type is no list of tokens)");
    }
    memcpy(out, r->text + begin, n);
    out[n] = '\0';
    r->at = begin + n + 1;
    return CERO_OK;
}

/* "(N,)" */
static cero_status read_shape(reader *r, int64_t *count)
{
    if (!take(r, "(")) {
        return fail_at(r, "a shape");
    }
    skip_space(r);
    size_t begin = r->at;
    *count = 0;
    while (r->at < r->end && r->text[r->at] >= '0' && r->text[r->at] <= '9') {
        if (*count > INT64_MAX / 100) {
            return fail_at(r, "a smaller shape");
        }
        *count = *count * 10 + (r->text[r->at++] - '0');
    }
    if (r->at == begin || !take(r, ",") || !take(r, ")")) {
        return fail_at(r, "a shape of one dimension, such as (1000,)");
    }
    return CERO_OK;
}

static cero_status read_member(reader *r, npy_head *head)
{
    char key[16];
    CERO_TRY(read_string(r, key, sizeof(key)));
    if (!take(r, ":")) {
        return fail_at(r, "a colon");
    }
    if (strcmp(key, "descr") == 0 && !head->has_descr) {
        head->has_descr = true;
        return read_string(r, head->descr, sizeof(head->descr));
    }
    if (strcmp(key, "shape") == 0 && !head->has_shape) {
        head->has_shape = true;
        return read_shape(r, &head->count);
    }
    if (strcmp(key, "fortran_order") == 0 && !head->has_order) {
        head->has_order = true; // one dimension is the same in both orders
        return take(r, "False") || take(r, "True") ? CERO_OK : fail_at(r, "True or False");
    }
    return fail_at(r, "descr, fortran_order and shape, once each, before this");
}

static cero_status read_literal(reader *r, npy_head *head)
{
    if (!take(r, "{")) {
        return fail_at(r, "{");
    }
    while (!take(r, "}")) {
        CERO_TRY(read_member(r, head));
        if (!take(r, ",") && r->at < r->end && r->text[r->at] != '}') {
            return fail_at(r, "a comma or }");
        }
    }
    skip_space(r);
    if (r->at + 1 != r->end || r->text[r->at] != '\n') {
        return fail_at(r, "spaces and a line end");
    }
    if (!head->has_descr || !head->has_order || !head->has_shape) {
        return fail_at(r, "descr, fortran_order and shape before this");
    }
    return CERO_OK;
}

static cero_status find_type(const char *path, const char *descr, cero_token_type *type)
{
    static const struct {
        const char *descr;
        cero_token_type type;
    } known[] = {{"|u1", CERO_TOKEN_U8},  {"|i1", CERO_TOKEN_I8},  {"<u2", CERO_TOKEN_U16},
                 {"<i2", CERO_TOKEN_I16}, {"<u4", CERO_TOKEN_U32}, {"<i4", CERO_TOKEN_I32},
                 {"<u8", CERO_TOKEN_U64}, {"<i8", CERO_TOKEN_I64}};
    for (size_t i = 0; i < CERO_COUNT_OF(known); i++) {
        if (strcmp(descr, known[i].descr) == 0) {
            *type = known[i].type;
            return CERO_OK;
        }
    }
    return CERO_FAIL(CERO_ERR_UNSUPPORTED,
                     "reading %s: the type is \"%s\", expected little-endian integers (|u1 |i1 <u2 "
                     "<i2 <u4 <i4 <u8 <i8)",
                     path, descr);
}

/* Finds the literal behind magic, version and length. */
static cero_status open_head(const char *path, const unsigned char *p, size_t size, reader *r)
{
    if (size < 12 || memcmp(p, "\x93NUMPY", 6) != 0) {
        return CERO_FAIL(CERO_ERR_CORRUPT,
                         "reading %s: it does not begin as a .npy file (%zu bytes)", path, size);
    }
    if (p[6] < 1 || p[6] > 3 || p[7] != 0) {
        return CERO_FAIL(CERO_ERR_UNSUPPORTED,
                         "reading %s: format version %d.%d, expected 1.0, 2.0 or 3.0", path, p[6],
                         p[7]);
    }
    size_t begin = p[6] == 1 ? 10 : 12;
    size_t length = (size_t)p[8] | (size_t)p[9] << 8;
    if (p[6] != 1) {
        length |= (size_t)p[10] << 16 | (size_t)p[11] << 24;
    }
    if (length > HEAD_MAX || length > size - begin) {
        return CERO_FAIL(CERO_ERR_CORRUPT,
                         "reading %s: the head has %zu bytes in a file of %zu bytes", path, length,
                         size);
    }
    *r = (reader){.path = path, .text = (const char *)p, .at = begin, .end = begin + length};
    return CERO_OK;
}

cero_status cero_token_npy_parse(const char *path, const unsigned char *bytes, size_t length,
                                 cero_token_source *source)
{
    reader r = {0};
    npy_head head = {0};
    CERO_TRY(open_head(path, bytes, length, &r));
    CERO_TRY(read_literal(&r, &head));
    CERO_TRY(find_type(path, head.descr, &source->type));
    int64_t width = cero_token_type_width(source->type);
    int64_t nbytes = (int64_t)(length - r.end);
    if (nbytes % width != 0 || nbytes / width != head.count) {
        return CERO_FAIL(CERO_ERR_CORRUPT,
                         "reading %s: %lld bytes of ids found, %lld ids of %lld bytes expected",
                         path, (long long)nbytes, (long long)head.count, (long long)width);
    }
    source->offset = (int64_t)r.end;
    source->data = bytes + r.end;
    source->count = head.count;
    return CERO_OK;
}

cero_status cero_token_source_npy(const char *path, cero_token_source *source)
{
    CERO_TRY(cero_token_source_map(path, source));
    return cero_token_npy_parse(path, source->map.data, source->map.length, source);
}
