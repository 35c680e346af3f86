/* SPDX-License-Identifier: Apache-2.0 */
/*
 * JSON, which most other formats are written in: any bytes give a tree or one line that names the file. A tree is
 * sound: children are counted, keys differ, texts are UTF-8 and end with a NUL, places lie in the file. What is
 * strict JSON is JSON with comments too, of the same shape.
 */
#include "fuzz.h"

#include "base/json.h"
#include "base/text.h"

#include <math.h>
#include <string.h>

#define NAME "some.json"

static void check_text(const char *text, size_t length)
{
    size_t n = 1;

    for (size_t i = 0; i < length; i += n) {
        n = cero_text_utf8_length((const unsigned char *)text + i, length - i);
        fuzz_expect(n > 0, "byte %zu of %zu is no UTF-8", i, length);
    }
    fuzz_expect(text[length] == '\0', "no end behind %zu bytes", length);
}

/* Integers come out exact or not at all. */
static void check_number(const cero_json *v)
{
    int64_t value;

    fuzz_expect(isfinite(v->number), "%s is %g", v->text, v->number);
    if (fuzz_is_ok(cero_json_int(v, &value), NAME)) {
        fuzz_expect(fabs((double)value - v->number) <= fabs(v->number) * 1e-15, "%s is %lld",
                    v->text, (long long)value);
    }
}

static void check_value(const cero_json *v, const cero_json *parent, int lines)
{
    int64_t count = 0;

    fuzz_expect(v->line >= 1 && v->line <= lines && v->column >= 1, "%d:%d of %d lines", v->line,
                v->column, lines);
    fuzz_expect((v->key != NULL) == (parent != NULL && parent->type == CERO_JSON_OBJECT), "key %s",
                v->key != NULL ? v->key : "(none)");
    if (v->key != NULL) {
        check_text(v->key, strlen(v->key));
        fuzz_expect(parent->count > 64 || cero_json_find(parent, v->key) == v, "\"%s\" twice",
                    v->key);
    }
    if (v->text != NULL) {
        check_text(v->text, v->text_length);
    }
    if (v->type == CERO_JSON_NUMBER) {
        check_number(v);
    }
    for (const cero_json *child = v->child; child != NULL; child = child->next) {
        check_value(child, v, lines);
        count++;
    }
    fuzz_expect(count == v->count, "%lld children of %lld", (long long)count, (long long)v->count);
}

static int64_t count_values(const cero_json *v)
{
    int64_t count = 1;

    for (const cero_json *child = v->child; child != NULL; child = child->next) {
        count += count_values(child);
    }
    return count;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const cero_json_options loose = {.allow_comments = true};
    const char *bytes = (const char *)data;
    cero_json_document *strict = NULL;
    cero_json_document *other = NULL;
    int lines = 1;

    for (size_t i = 0; i < size; i++) {
        lines += bytes[i] == '\n';
    }
    bool is_strict = fuzz_is_ok(cero_json_parse(NAME, bytes, size, NULL, &strict), NAME);
    bool is_loose = fuzz_is_ok(cero_json_parse(NAME, bytes, size, &loose, &other), NAME);
    fuzz_accepted = is_loose;
    if (is_strict) {
        fuzz_expect(is_loose, "%s", cero_error_message());
        check_value(cero_json_root(strict), NULL, lines);
    }
    if (is_loose) {
        check_value(cero_json_root(other), NULL, lines);
        fuzz_expect(!is_strict ||
                        count_values(cero_json_root(strict)) == count_values(cero_json_root(other)),
                    "%zu bytes", size);
    }
    cero_json_destroy(&strict);
    cero_json_destroy(&other);
    return 0;
}
