/* SPDX-License-Identifier: Apache-2.0 */
/* Turns a JSON value into the field of a supported key, or says what was expected there. */
#include "spec/train_impl.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

static bool contains_ignoring_case(const char *text, const char *part)
{
    size_t n = strlen(part);

    for (; n >= 3 && *text != '\0'; text++) {
        if (strncasecmp(text, part, n) == 0) {
            return true;
        }
    }
    return false;
}

const char *cero_train_nearest(const char *name, const char *(*next)(const void *context, int i),
                               const void *context)
{
    const char *found = NULL;
    const char *candidate;

    for (int i = 0; (candidate = next(context, i)) != NULL; i++) {
        if (strcasecmp(candidate, name) == 0) {
            return candidate;
        }
    }
    found = cero_text_nearest(name, next, context);
    for (int i = 0; found == NULL && (candidate = next(context, i)) != NULL; i++) {
        found = contains_ignoring_case(candidate, name) ? candidate : NULL;
    }
    return found;
}

cero_status cero_train_fail_type(const cero_train_place *at, const cero_json *v,
                                 const char *expected)
{
    const char *quote = v->type == CERO_JSON_STRING ? "\"" : "";
    const char *found = v->type == CERO_JSON_BOOL ? v->boolean ? "true" : "false"
                        : v->text != NULL         ? v->text
                                                  : cero_json_type_name(v->type);
    return CERO_JSON_FAIL(v, "%s: expected %s, found %s%.60s%s", at->path, expected, quote, found,
                          quote);
}

static const char *range_of(const cero_train_key *key, char *text, size_t size)
{
    const char *what = key->type == CERO_TRAIN_REAL ? "a number" : "an integer";

    if (key->max > 0) {
        (void)snprintf(text, size, "%s from %d to %g", what,
                       (key->flags & CERO_TRAIN_POSITIVE) != 0 ? 1 : 0, key->max);
    } else {
        (void)snprintf(text, size, "%s %s", what,
                       (key->flags & CERO_TRAIN_POSITIVE) != 0    ? "greater than 0"
                       : (key->flags & CERO_TRAIN_MINUS_ONE) != 0 ? "of at least -1"
                                                                  : "of at least 0");
    }
    return text;
}

static cero_status set_number(const cero_train_place *at, const cero_train_key *key,
                              const cero_json *v, void *out)
{
    char expected[80];
    int64_t number = 0;
    double real = v->number;
    bool is_good = v->type == CERO_JSON_NUMBER;

    (void)range_of(key, expected, sizeof(expected));
    if (is_good && key->type != CERO_TRAIN_REAL) {
        is_good = cero_json_int(v, &number) == CERO_OK;
        real = (double)number;
    }
    double least = (key->flags & CERO_TRAIN_MINUS_ONE) != 0 ? -1 : 0;
    if (!is_good || real < least || (real == 0 && (key->flags & CERO_TRAIN_POSITIVE) != 0) ||
        (key->max > 0 && real > key->max)) {
        return cero_train_fail_type(at, v, expected);
    }
    if (key->type == CERO_TRAIN_REAL) {
        *(double *)out = real;
    } else if (key->type == CERO_TRAIN_SMALL) {
        *(int *)out = (int)number;
    } else if (key->type == CERO_TRAIN_SEED) {
        *(uint64_t *)out = (uint64_t)number;
    } else {
        *(int64_t *)out = number;
    }
    return CERO_OK;
}

static cero_status set_text(const cero_train_place *at, const cero_train_key *key,
                            const cero_json *v, char *out)
{
    if (v->type != CERO_JSON_STRING) {
        return cero_train_fail_type(at, v, "a string");
    }
    if (v->text_length >= key->size || strlen(v->text) != v->text_length) {
        return CERO_JSON_FAIL(v, "%s: expected a string of less than %zu bytes, found %zu",
                              at->path, key->size, v->text_length);
    }
    memcpy(out, v->text, v->text_length + 1);
    return CERO_OK;
}

static const char *next_word(const void *context, int i)
{
    const char *const *words = context;
    return words[i];
}

static cero_status set_word(const cero_train_place *at, const cero_train_key *key,
                            const cero_json *v, int *out)
{
    char expected[128] = "one of";

    for (int i = 0; key->words[i] != NULL; i++) {
        if (v->type == CERO_JSON_STRING && strcmp(key->words[i], v->text) == 0) {
            *out = i;
            return CERO_OK;
        }
        size_t used = strlen(expected);
        (void)snprintf(expected + used, sizeof(expected) - used, "%s \"%s\"", i == 0 ? "" : ",",
                       key->words[i]);
    }
    const char *nearest =
        v->type == CERO_JSON_STRING ? cero_train_nearest(v->text, next_word, key->words) : NULL;
    if (nearest != NULL) {
        return CERO_JSON_FAIL(v, "%s: expected %s, found \"%.60s\"; did you mean \"%s\"?", at->path,
                              expected, v->text, nearest);
    }
    return cero_train_fail_type(at, v, expected);
}

static cero_status set_betas(const cero_train_place *at, const cero_json *v, double out[2])
{
    const cero_json *a = v->child;

    if (v->type != CERO_JSON_ARRAY || v->count != 2 || a->type != CERO_JSON_NUMBER ||
        a->next->type != CERO_JSON_NUMBER || !(a->number >= 0 && a->number < 1) ||
        !(a->next->number >= 0 && a->next->number < 1)) {
        return cero_train_fail_type(at, v,
                                    "a list of two numbers, each at least 0 and less than 1");
    }
    out[0] = a->number;
    out[1] = a->next->number;
    return CERO_OK;
}

/* A list may be of words that are known. */
static cero_status check_words(const cero_train_place *at, const cero_train_key *key,
                               const cero_json *item)
{
    for (int i = 0; key->words[i] != NULL; i++) {
        if (strcmp(key->words[i], item->text) == 0) {
            return CERO_OK;
        }
    }
    const char *nearest = cero_train_nearest(item->text, next_word, key->words);
    return CERO_JSON_FAIL(item, "%s: unknown \"%.60s\"%s%s%s", at->path, item->text,
                          nearest == NULL ? "; `cero info --config-docs` lists what is known"
                                          : ", did you mean \"",
                          nearest == NULL ? "" : nearest, nearest == NULL ? "" : "\"?");
}

static cero_status set_patterns(const cero_train_place *at, const cero_train_key *key,
                                const cero_json *v, cero_patterns *out)
{
    cero_patterns patterns = {0};

    if (v->type != CERO_JSON_ARRAY) {
        return cero_train_fail_type(at, v, "a list of patterns");
    }
    if (v->count > CERO_MAX_PATTERNS) {
        return CERO_JSON_FAIL(v, "%s: %lld patterns, at most %d are kept", at->path,
                              (long long)v->count, CERO_MAX_PATTERNS);
    }
    for (const cero_json *item = v->child; item != NULL; item = item->next) {
        if (item->type != CERO_JSON_STRING || item->text_length == 0 ||
            item->text_length >= CERO_MAX_PATTERN || strlen(item->text) != item->text_length) {
            return cero_train_fail_type(at, item, "a pattern of 1 to 127 bytes");
        }
        if (key->words != NULL) {
            CERO_TRY(check_words(at, key, item));
        }
        memcpy(patterns.pattern[patterns.count++], item->text, item->text_length + 1);
    }
    *out = patterns;
    return CERO_OK;
}

cero_status cero_train_set_value(const cero_train_place *at, const cero_train_key *key,
                                 const cero_json *v)
{
    void *out = (char *)&at->config->values + key->offset;

    switch (key->type) {
    case CERO_TRAIN_BOOL:
        if (v->type != CERO_JSON_BOOL) {
            return cero_train_fail_type(at, v, "true or false");
        }
        *(bool *)out = v->boolean;
        return CERO_OK;
    case CERO_TRAIN_TEXT:
        return set_text(at, key, v, out);
    case CERO_TRAIN_WORD:
        return set_word(at, key, v, out);
    case CERO_TRAIN_BETAS:
        return set_betas(at, v, out);
    case CERO_TRAIN_PATTERNS:
        return set_patterns(at, key, v, out);
    case CERO_TRAIN_INT:
    case CERO_TRAIN_SMALL:
    case CERO_TRAIN_SEED:
    case CERO_TRAIN_REAL:
    case CERO_TRAIN_TYPE_COUNT:
    default:
        return set_number(at, key, v, out);
    }
}

cero_status cero_train_set_defaults(cero_train_config *config)
{
    int count;
    const cero_train_key *keys = cero_train_keys(&count);

    for (int i = 0; i < count; i++) {
        cero_train_place at = {.config = config, .section = keys[i].section, .name = keys[i].name};
        if (keys[i].def == NULL) {
            continue;
        }
        cero_json_document *document = NULL;
        (void)cero_train_path(at.section, at.name, at.path, sizeof(at.path));
        CERO_TRY(cero_json_parse("default", keys[i].def, strlen(keys[i].def), NULL, &document));
        cero_status st = cero_train_set_value(&at, &keys[i], cero_json_root(document));
        cero_json_destroy(&document);
        CERO_TRY(st);
    }
    return CERO_OK;
}
