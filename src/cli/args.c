/* SPDX-License-Identifier: Apache-2.0 */
/* The parser behind every command line of `cero`; see args.h. */
#include "cli/args.h"

#include "base/memory.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The command line on its way through. */
typedef struct cursor {
    const cero_args_table *table;
    int argc;
    char *const *argv;
    int next; /* index of the next word */
    void *values;
    void *common_values;
} cursor;

/* An option that was found, and the struct its field is in. */
typedef struct match {
    const cero_option *option;
    void *field;
} match;

static void *field_of(const cero_option *option, void *values)
{
    return (char *)values + option->offset;
}

static const cero_option *find_name(const cero_option *options, const char *name, size_t length)
{
    for (const cero_option *o = options; o != NULL && o->name != NULL; o++) {
        if (strlen(o->name) == length && memcmp(o->name, name, length) == 0) {
            return o;
        }
    }
    return NULL;
}

static const cero_option *find_letter(const cero_option *options, char letter)
{
    for (const cero_option *o = options; o != NULL && o->name != NULL; o++) {
        if (o->letter == letter && letter != '\0') {
            return o;
        }
    }
    return NULL;
}

/* Option names of both tables, for the nearest one. */
static const char *name_at(const void *context, int i)
{
    const cero_args_table *table = context;

    for (const cero_option *o = table->options; o != NULL && o->name != NULL; o++) {
        if (i-- == 0) {
            return o->name;
        }
    }
    return table->common == NULL ? NULL : table->common[i].name;
}

static cero_status fail_unknown(const cero_args_table *table, const char *name)
{
    const char *nearest = cero_text_nearest(name, name_at, table);

    if (nearest == NULL) {
        return CERO_FAIL(CERO_ERR_INVALID, "unknown option --%s; --help lists them", name);
    }
    return CERO_FAIL(CERO_ERR_INVALID, "unknown option --%s; did you mean --%s?", name, nearest);
}

static cero_status words_push(cero_words *words, const char *word)
{
    const char **grown = cero_renew(words->word, (size_t)words->count + 1, sizeof(words->word[0]));

    if (grown == NULL) {
        return CERO_FAIL(CERO_ERR_NOMEM, "no memory for the words of the command line");
    }
    words->word = grown;
    words->word[words->count++] = word;
    return CERO_OK;
}

static bool has_bounds(const cero_option *o)
{
    return o->min < o->max;
}

static cero_status set_real(const cero_option *o, const char *text, double *out)
{
    char *end = NULL;
    double value = strtod(text, &end);

    if (end == text || *end != '\0' || !isfinite(value)) {
        return CERO_FAIL(CERO_ERR_INVALID, "--%s: '%s' is not a number", o->name, text);
    }
    if (has_bounds(o) && (value < o->min || value > o->max)) {
        return CERO_FAIL(CERO_ERR_INVALID, "--%s: %s is outside %g … %g", o->name, text, o->min,
                         o->max);
    }
    *out = value;
    return CERO_OK;
}

static cero_status set_int(const cero_option *o, const char *text, int64_t *out)
{
    char *end = NULL;

    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (end == text || *end != '\0') {
        return CERO_FAIL(CERO_ERR_INVALID, "--%s: '%s' is not a whole number", o->name, text);
    }
    bool is_outside = has_bounds(o) && ((double)value < o->min || (double)value > o->max);
    if (errno == ERANGE || is_outside) {
        return CERO_FAIL(CERO_ERR_INVALID, "--%s: %s is outside %.0f … %.0f", o->name, text,
                         has_bounds(o) ? o->min : (double)INT64_MIN,
                         has_bounds(o) ? o->max : (double)INT64_MAX);
    }
    *out = value;
    return CERO_OK;
}

static cero_status set_choice(const cero_option *o, const char *text, int *out)
{
    const char *name = o->choices;

    for (int i = 0; *name != '\0'; i++) {
        size_t length = strcspn(name, "|");
        if (strlen(text) == length && memcmp(text, name, length) == 0) {
            *out = i;
            return CERO_OK;
        }
        name += length + (name[length] == '|' ? 1 : 0);
    }
    return CERO_FAIL(CERO_ERR_INVALID, "--%s: '%s' is not one of %s", o->name, text, o->choices);
}

static cero_status set_value(const match *m, const char *text)
{
    const cero_option *o = m->option;

    switch (o->kind) {
    case CERO_OPTION_FLAG:
        *(bool *)m->field = true;
        return CERO_OK;
    case CERO_OPTION_TEXT:
        *(const char **)m->field = text;
        return CERO_OK;
    case CERO_OPTION_INT:
        return set_int(o, text, m->field);
    case CERO_OPTION_REAL:
        return set_real(o, text, m->field);
    case CERO_OPTION_CHOICE:
        return set_choice(o, text, m->field);
    case CERO_OPTION_LIST:
    case CERO_OPTION_WORDS:
        return words_push(m->field, text);
    }
    return CERO_FAIL(CERO_ERR_INTERNAL, "option --%s has no kind", o->name);
}

/* A lone dash is an operand (standard input), and a negative number is a value. */
static bool is_option_word(const char *word)
{
    return word[0] == '-' && word[1] != '\0' && strchr("0123456789.", word[1]) == NULL;
}

/* Takes the value of an option from behind '=' or from the words that follow. */
static cero_status take_value(cursor *c, const match *m, const char *inline_value)
{
    const cero_option *o = m->option;

    if (o->kind == CERO_OPTION_FLAG) {
        CERO_CHECK(inline_value == NULL, CERO_ERR_INVALID, "--%s takes no value, found '%s'",
                   o->name, inline_value);
        return set_value(m, NULL);
    }
    if (inline_value != NULL) {
        return set_value(m, inline_value);
    }
    // A value may start with a dash (a prompt may), but not be one of our options.
    if (c->next >= c->argc || strcmp(c->argv[c->next], "--") == 0 ||
        (strncmp(c->argv[c->next], "--", 2) == 0 && is_option_word(c->argv[c->next]))) {
        return CERO_FAIL(CERO_ERR_INVALID, "--%s needs a value: --%s %s", o->name, o->name,
                         o->value);
    }
    CERO_TRY(set_value(m, c->argv[c->next++]));
    while (o->kind == CERO_OPTION_WORDS && c->next < c->argc && !is_option_word(c->argv[c->next])) {
        CERO_TRY(set_value(m, c->argv[c->next++]));
    }
    return CERO_OK;
}

static bool find_option(const cursor *c, const char *name, size_t length, char letter, match *out)
{
    const cero_option *own = letter != '\0' ? find_letter(c->table->options, letter)
                                            : find_name(c->table->options, name, length);
    const cero_option *common = letter != '\0' ? find_letter(c->table->common, letter)
                                               : find_name(c->table->common, name, length);

    if (own == NULL && common == NULL) {
        return false;
    }
    out->option = own != NULL ? own : common;
    out->field = own != NULL ? field_of(own, c->values) : field_of(common, c->common_values);
    return true;
}

static cero_status parse_long(cursor *c, const char *word)
{
    const char *name = word + 2;
    size_t length = strcspn(name, "=");
    match m;

    if (!find_option(c, name, length, '\0', &m)) {
        char copy[64];
        (void)snprintf(copy, sizeof(copy), "%.*s", (int)(length < 60 ? length : 60), name);
        return fail_unknown(c->table, copy);
    }
    return take_value(c, &m, name[length] == '=' ? name + length + 1 : NULL);
}

/* One or several letters behind one dash; the last may take a value. */
static cero_status parse_letters(cursor *c, const char *word)
{
    for (const char *p = word + 1; *p != '\0'; p++) {
        match m;
        if (!find_option(c, NULL, 0, *p, &m)) {
            return CERO_FAIL(CERO_ERR_INVALID, "unknown option -%c in '%s'; --help lists them", *p,
                             word);
        }
        bool is_last = p[1] == '\0';
        if (m.option->kind != CERO_OPTION_FLAG) {
            return take_value(c, &m, is_last ? NULL : p + 1);
        }
        CERO_TRY(take_value(c, &m, NULL));
    }
    return CERO_OK;
}

static cero_status push_operand(cursor *c, const char *word)
{
    const cero_operands *operands = &c->table->operands;

    CERO_CHECK(operands->name != NULL, CERO_ERR_INVALID, "unexpected word '%s'; --help shows how",
               word);
    return words_push((cero_words *)(void *)((char *)c->values + operands->offset), word);
}

cero_status cero_args_parse(const cero_args_table *table, int argc, char *const *argv, void *values,
                            void *common_values)
{
    cursor c = {.table = table,
                .argc = argc,
                .argv = argv,
                .values = values,
                .common_values = common_values};
    bool only_operands = false;

    while (c.next < argc) {
        const char *word = argv[c.next++];
        if (only_operands || !is_option_word(word)) {
            CERO_TRY(push_operand(&c, word));
        } else if (strcmp(word, "--") == 0) {
            only_operands = true;
        } else if (word[1] == '-') {
            CERO_TRY(parse_long(&c, word));
        } else {
            CERO_TRY(parse_letters(&c, word));
        }
    }
    return CERO_OK;
}

static bool is_given(const cero_option *o, const void *values)
{
    const char *field = (const char *)values + o->offset;

    switch (o->kind) {
    case CERO_OPTION_TEXT:
        return *(const char *const *)(const void *)field != NULL;
    case CERO_OPTION_INT:
        return *(const int64_t *)(const void *)field != 0;
    case CERO_OPTION_LIST:
    case CERO_OPTION_WORDS:
        return ((const cero_words *)(const void *)field)->count > 0;
    case CERO_OPTION_FLAG:
    case CERO_OPTION_REAL:
    case CERO_OPTION_CHOICE:
        break;
    }
    return true;
}

cero_status cero_args_check(const cero_args_table *table, const void *values)
{
    const cero_operands *operands = &table->operands;

    for (const cero_option *o = table->options; o != NULL && o->name != NULL; o++) {
        if (o->is_required && !is_given(o, values)) {
            return CERO_FAIL(CERO_ERR_INVALID, "--%s %s is missing", o->name, o->value);
        }
    }
    if (operands->name == NULL) {
        return CERO_OK;
    }
    const cero_words *words =
        (const cero_words *)(const void *)((const char *)values + operands->offset);
    if (words->count < operands->min) {
        return CERO_FAIL(CERO_ERR_INVALID, "%s is missing", operands->name);
    }
    if (operands->max != 0 && words->count > operands->max) {
        return CERO_FAIL(CERO_ERR_INVALID, "unexpected word '%s'; %s stands for %d at most",
                         words->word[operands->max], operands->name, operands->max);
    }
    return CERO_OK;
}

void cero_args_cleanup(const cero_args_table *table, void *values)
{
    for (const cero_option *o = table->options; o != NULL && o->name != NULL; o++) {
        if (o->kind == CERO_OPTION_LIST || o->kind == CERO_OPTION_WORDS) {
            cero_words *words = field_of(o, values);
            cero_delete(words->word);
            *words = (cero_words){0};
        }
    }
    if (table->operands.name != NULL) {
        cero_words *words = (cero_words *)(void *)((char *)values + table->operands.offset);
        cero_delete(words->word);
        *words = (cero_words){0};
    }
}

void cero_args_help(const cero_option *options, cero_text *out)
{
    for (const cero_option *o = options; o != NULL && o->name != NULL; o++) {
        char left[64];
        char letter[8] = "";
        if (o->letter != '\0') {
            (void)snprintf(letter, sizeof(letter), "-%c, ", o->letter);
        }
        (void)snprintf(left, sizeof(left), "%s--%s%s%s", letter, o->name,
                       o->value != NULL ? " " : "", o->value != NULL ? o->value : "");
        cero_text_printf(out, "  %-26s %s\n", left, o->help);
    }
}
