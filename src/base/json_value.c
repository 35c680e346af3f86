/* SPDX-License-Identifier: Apache-2.0 */
/* What is asked of parsed values: members, exact integers, names of types, errors with their place. */
#include "base/json.h"

#include "base/json_impl.h"

#include <locale.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    MAX_NUMBER = 400,
    MAX_EXPONENT = 100000
};

/* strtod reads the decimal point of the program's locale, which a host may have set. */
static double locale_strtod(const char *text)
{
    const char *dot = strchr(text, '.');
    const char *point = localeconv()->decimal_point;
    char local[MAX_NUMBER + 16];

    if (dot == NULL || strcmp(point, ".") == 0 || strlen(text) > MAX_NUMBER) {
        return strtod(text, NULL);
    }
    (void)snprintf(local, sizeof(local), "%.*s%.8s%s", (int)(dot - text), text, point, dot + 1);
    return strtod(local, NULL);
}

bool cero_json_to_double(const char *text, double *out)
{
    const char *digits = text + (*text == '-');
    size_t length = strlen(digits);
    int64_t value = 0;

    // Up to 15 digits are exact: the common case needs no strtod.
    if (length <= 15 && strspn(digits, "0123456789") == length) {
        for (const char *p = digits; *p != '\0'; p++) {
            value = value * 10 + (*p - '0');
        }
        *out = *text == '-' ? -(double)value : (double)value;
        return true;
    }
    *out = locale_strtod(text);
    return isfinite(*out);
}

const cero_json *cero_json_find(const cero_json *object, const char *key)
{
    if (object == NULL || object->type != CERO_JSON_OBJECT) {
        return NULL;
    }
    for (const cero_json *m = object->child; m != NULL; m = m->next) {
        if (strcmp(m->key, key) == 0) {
            return m;
        }
    }
    return NULL;
}

/* Appends a decimal digit with the sign of the number; false when 64 bits do not hold it. */
static bool push_digit(int64_t *value, int digit, bool is_negative)
{
    return !__builtin_mul_overflow(*value, (int64_t)10, value) &&
           !__builtin_add_overflow(*value, (int64_t)(is_negative ? -digit : digit), value);
}

/* Zeros that end the digits before `end`, the point not counted; all of them for zero itself. */
static int64_t trailing_zeros(const char *digits, const char *end)
{
    int64_t zeros = 0;

    for (const char *p = end; p > digits && (p[-1] == '0' || p[-1] == '.'); p--) {
        zeros += p[-1] == '0';
    }
    return zeros;
}

typedef enum int_result {
    INT_GOOD,
    INT_FRACTION,
    INT_RANGE
} int_result;

/* digits * 10^exponent without rounding: the exponent may cancel the digits after the point. */
static int_result number_to_int(const char *text, int64_t *out)
{
    bool is_negative = *text == '-';
    const char *digits = text + is_negative;
    const char *end = digits + strcspn(digits, "eE");
    const char *point = memchr(digits, '.', (size_t)(end - digits));
    long exponent = *end == '\0' ? 0 : strtol(end + 1, NULL, 10);
    int64_t count = end - digits - (point != NULL);
    int64_t scale = point == NULL ? 0 : end - point - 1;
    int64_t value = 0;

    exponent = exponent > MAX_EXPONENT    ? MAX_EXPONENT
               : exponent < -MAX_EXPONENT ? -MAX_EXPONENT
                                          : exponent;
    int64_t zeros = trailing_zeros(digits, end);
    if (zeros == count) {
        *out = 0;
        return INT_GOOD;
    }
    // Drop as many zeros as the negative part of the exponent asks for; more is a fraction.
    int64_t shift = (int64_t)exponent - scale;
    if (shift < -zeros) {
        return INT_FRACTION;
    }
    int64_t keep = shift < 0 ? count + shift : count;
    for (const char *p = digits; keep > 0; p++) {
        if (*p != '.') {
            keep--;
            if (!push_digit(&value, *p - '0', is_negative)) {
                return INT_RANGE;
            }
        }
    }
    for (; shift > 0; shift--) {
        if (!push_digit(&value, 0, is_negative)) {
            return INT_RANGE;
        }
    }
    *out = value;
    return INT_GOOD;
}

cero_status cero_json_int(const cero_json *value, int64_t *out)
{
    const char *key = value->key == NULL ? "" : value->key;
    const char *colon = value->key == NULL ? "" : ": ";
    int64_t result = 0;

    if (value->type == CERO_JSON_STRING) {
        return CERO_JSON_FAIL(value, "%.80s%sexpected an integer, found the string \"%.60s\"", key,
                              colon, value->text);
    }
    if (value->type != CERO_JSON_NUMBER) {
        return CERO_JSON_FAIL(value, "%.80s%sexpected an integer, found %s", key, colon,
                              value->type == CERO_JSON_BOOL ? value->boolean ? "true" : "false"
                                                            : cero_json_type_name(value->type));
    }
    switch (number_to_int(value->text, &result)) {
    case INT_FRACTION:
        return CERO_JSON_FAIL(value, "%.80s%sexpected an integer, found %.60s", key, colon,
                              value->text);
    case INT_RANGE:
        return CERO_JSON_FAIL(value, "%.80s%sthe integer %.60s does not fit into 64 bits", key,
                              colon, value->text);
    case INT_GOOD:
    default:
        *out = result;
        return CERO_OK;
    }
}

const char *cero_json_type_name(cero_json_type type)
{
    static const char *const names[CERO_JSON_COUNT] = {"null",     "true or false", "a number",
                                                       "a string", "a list",        "an object"};
    return (unsigned)type < CERO_JSON_COUNT ? names[type] : "unknown";
}

cero_status cero_json_fail(const cero_json *value, const char *file, int line, const char *func,
                           const char *fmt, ...)
{
    char message[1536];
    va_list args;

    va_start(args, fmt);
    (void)vsnprintf(message, sizeof(message), fmt, args);
    va_end(args);
    return cero_error_set(file, line, func, CERO_ERR_INVALID, "%s:%d:%d: %s", value->file,
                          value->line, value->column, message);
}
