/* SPDX-License-Identifier: Apache-2.0 */
/* Growing text and the few things done with names. */
#include "base/text.h"
#include "base/memory.h"

#include <locale.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    MAX_NAME = 128
};

void cero_text_cleanup(cero_text *text)
{
    cero_delete(text->data);
    *text = (cero_text){0};
}

static bool reserve(cero_text *text, size_t more)
{
    size_t need;

    if (text->has_failed || __builtin_add_overflow(text->length, more, &need) ||
        __builtin_add_overflow(need, 1, &need)) {
        text->has_failed = true;
        return false;
    }
    if (need > text->capacity) {
        size_t wanted = text->capacity < 64 ? 64 : text->capacity;
        while (wanted < need) {
            wanted = wanted > SIZE_MAX / 2 ? need : wanted * 2;
        }
        char *grown = cero_renew(text->data, wanted, 1);
        if (grown == NULL) {
            text->has_failed = true;
            return false;
        }
        text->data = grown;
        text->capacity = wanted;
    }
    return true;
}

void cero_text_append(cero_text *text, const char *bytes, size_t length)
{
    if (reserve(text, length)) {
        if (length > 0) {
            memcpy(text->data + text->length, bytes, length);
        }
        text->length += length;
        text->data[text->length] = '\0';
    }
}

void cero_text_printf(cero_text *text, const char *fmt, ...)
{
    va_list args;
    va_list again;

    va_start(args, fmt);
    va_copy(again, args);
    int n = vsnprintf(NULL, 0, fmt, args);
    va_end(args);
    if (n >= 0 && reserve(text, (size_t)n)) {
        (void)vsnprintf(text->data + text->length, (size_t)n + 1, fmt, again);
        text->length += (size_t)n;
    }
    va_end(again);
}

size_t cero_text_utf8_length(const unsigned char *p, size_t left)
{
    unsigned char c = p[0];
    size_t n = c < 0x80 ? 1 : c < 0xC2 ? 0 : c < 0xE0 ? 2 : c < 0xF0 ? 3 : c < 0xF5 ? 4 : 0;

    if (n == 0 || n > left) {
        return 0;
    }
    for (size_t i = 1; i < n; i++) {
        if ((p[i] & 0xC0) != 0x80) {
            return 0;
        }
    }
    if ((c == 0xE0 && p[1] < 0xA0) || (c == 0xED && p[1] > 0x9F) || (c == 0xF0 && p[1] < 0x90) ||
        (c == 0xF4 && p[1] > 0x8F)) {
        return 0;
    }
    return n;
}

void cero_text_append_json_string(cero_text *text, const char *bytes, size_t length)
{
    const unsigned char *p = (const unsigned char *)bytes;

    cero_text_append(text, "\"", 1);
    for (size_t i = 0; i < length;) {
        size_t n = cero_text_utf8_length(p + i, length - i);
        if (n == 0) {
            cero_text_append(text, "\xEF\xBF\xBD", 3);
            n = 1;
        } else if (p[i] == '"' || p[i] == '\\') {
            cero_text_printf(text, "\\%c", p[i]);
        } else if (p[i] == '\n') {
            cero_text_append(text, "\\n", 2);
        } else if (p[i] == '\t') {
            cero_text_append(text, "\\t", 2);
        } else if (p[i] < 0x20 || p[i] == 0x7F) {
            cero_text_printf(text, "\\u%04x", p[i]);
        } else {
            cero_text_append(text, bytes + i, n);
        }
        i += n;
    }
    cero_text_append(text, "\"", 1);
}

void cero_text_append_double(cero_text *text, double value)
{
    char digits[40];

    if (!isfinite(value)) {
        cero_text_append(text, "null", 4);
        return;
    }
    for (int precision = 1; precision <= 17; precision++) {
        (void)snprintf(digits, sizeof(digits), "%.*g", precision, value);
        if (strtod(digits, NULL) == value) {
            break;
        }
    }
    // The host program may have set a locale with another decimal point.
    const char *point = localeconv()->decimal_point;
    char *at = strcmp(point, ".") == 0 ? NULL : strstr(digits, point);
    if (at != NULL) {
        cero_text_append(text, digits, (size_t)(at - digits));
        cero_text_append(text, ".", 1);
        at += strlen(point);
    }
    at = at == NULL ? digits : at;
    cero_text_append(text, at, strlen(at));
}

cero_status cero_text_finish(const cero_text *text)
{
    if (text->has_failed) {
        return CERO_FAIL(CERO_ERR_NOMEM, "no memory for a text of more than %zu bytes",
                         text->length);
    }
    return CERO_OK;
}

/* Edit distance with neighbouring swaps counted once (optimal string alignment). */
static int distance(const char *a, const char *b)
{
    int row[3][MAX_NAME + 1];
    int n = (int)strnlen(a, MAX_NAME);
    int m = (int)strnlen(b, MAX_NAME);

    for (int j = 0; j <= m; j++) {
        row[0][j] = j;
    }
    for (int i = 1; i <= n; i++) {
        int *now = row[i % 3];
        const int *before = row[(i + 2) % 3];
        const int *two_before = row[(i + 1) % 3];
        now[0] = i;
        for (int j = 1; j <= m; j++) {
            int best = before[j - 1] + (a[i - 1] != b[j - 1]);
            best = before[j] + 1 < best ? before[j] + 1 : best;
            best = now[j - 1] + 1 < best ? now[j - 1] + 1 : best;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
                two_before[j - 2] + 1 < best) {
                best = two_before[j - 2] + 1;
            }
            now[j] = best;
        }
    }
    return row[n % 3][m];
}

const char *cero_text_nearest(const char *name, const char *(*next)(const void *context, int i),
                              const void *context)
{
    const char *best = NULL;
    int limit = 3 + (int)strnlen(name, MAX_NAME) / 4;

    for (int i = 0;; i++) {
        const char *candidate = next(context, i);
        if (candidate == NULL) {
            return best;
        }
        int d = distance(name, candidate);
        if (d < limit) {
            limit = d;
            best = candidate;
        }
    }
}

const char *cero_text_bytes(double nbytes, char *text, size_t size)
{
    static const char *const units[] = {"bytes", "KiB", "MiB", "GiB", "TiB", "PiB"};
    size_t unit = 0;

    while (nbytes >= 1024 && unit + 1 < CERO_COUNT_OF(units)) {
        nbytes /= 1024;
        unit++;
    }
    (void)snprintf(text, size, unit == 0 ? "%.0f %s" : "%.2f %s", nbytes, units[unit]);
    return text;
}

bool cero_text_match(const char *pattern, const char *name)
{
    const char *star = NULL;
    const char *from = NULL;

    while (*name != '\0') {
        if (*pattern == '*') {
            star = ++pattern;
            from = name;
        } else if (*pattern == '?' || *pattern == *name) {
            pattern++;
            name++;
        } else if (star != NULL) {
            pattern = star;
            name = ++from;
        } else {
            return false;
        }
    }
    while (*pattern == '*') {
        pattern++;
    }
    return *pattern == '\0';
}
