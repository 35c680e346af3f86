/* SPDX-License-Identifier: Apache-2.0 */
/* Vectors of words, and the two ways between words and text; see launch_words.h. */
#include "cli/launch/words.h"

#include "base/memory.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Takes the word, which may be NULL for want of memory. */
static void take(cero_vector *v, char *word)
{
    void *array = v->word;

    // One place more than words: the NULL at the end.
    if (word == NULL || v->has_failed ||
        cero_grow(&array, v->count + 1, &v->capacity, sizeof(v->word[0])) != CERO_OK) {
        cero_delete(word);
        v->has_failed = true;
        return;
    }
    v->word = array;
    v->word[v->count++] = word;
    v->word[v->count] = NULL;
}

void cero_vector_add(cero_vector *vector, const char *word)
{
    take(vector, cero_strdup(word));
}

void cero_vector_printf(cero_vector *vector, const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    int length = vsnprintf(NULL, 0, fmt, args);
    va_end(args);
    char *word = length < 0 ? NULL : cero_new((size_t)length + 1, 1);
    if (word != NULL) {
        va_start(args, fmt);
        (void)vsnprintf(word, (size_t)length + 1, fmt, args);
        va_end(args);
    }
    take(vector, word);
}

void cero_vector_cleanup(cero_vector *vector)
{
    for (int64_t i = 0; i < vector->count; i++) {
        cero_delete(vector->word[i]);
    }
    cero_delete(vector->word);
    *vector = (cero_vector){0};
}

cero_status cero_vector_finish(cero_vector *vector)
{
    void *array = vector->word;

    CERO_CHECK(!vector->has_failed, CERO_ERR_NOMEM, "no memory for the words of a command line");
    CERO_TRY(cero_grow(&array, vector->count, &vector->capacity, sizeof(vector->word[0])));
    vector->word = array;
    vector->word[vector->count] = NULL;
    return CERO_OK;
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

/* Appends what stands between quotes; `at` is behind the first. NULL when the second is missing. */
static const char *split_quoted(const char *at, char quote, cero_text *word)
{
    while (*at != quote) {
        if (*at == '\0') {
            return NULL;
        }
        // Within double quotes a backslash keeps its meaning before these alone.
        if (quote == '"' && *at == '\\' && at[1] != '\0' && strchr("\"\\$`", at[1]) != NULL) {
            at++;
        }
        cero_text_append(word, at++, 1);
    }
    return at + 1;
}

/* Appends one word; gives where it ends, or NULL when a quote stays open. */
static const char *split_word(const char *at, cero_text *word)
{
    while (at != NULL && *at != '\0' && !is_blank(*at)) {
        if (*at == '\'' || *at == '"') {
            at = split_quoted(at + 1, *at, word);
        } else {
            at += *at == '\\' && at[1] != '\0' ? 1 : 0;
            cero_text_append(word, at++, 1);
        }
    }
    return at;
}

cero_status cero_vector_split(cero_vector *vector, const char *text)
{
    const char *at = text;

    for (;;) {
        cero_text word = {0};
        while (is_blank(*at)) {
            at++;
        }
        if (*at == '\0') {
            return CERO_OK;
        }
        at = split_word(at, &word);
        if (word.has_failed) {
            vector->has_failed = true;
        }
        cero_vector_add(vector, word.data != NULL ? word.data : "");
        cero_text_cleanup(&word);
        CERO_CHECK(at != NULL, CERO_ERR_INVALID, "a quote stays open in '%s'", text);
    }
}

void cero_text_append_quoted(cero_text *text, const char *word)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                "%+,-./:=@_";

    // A word with '=' is plain as well, but for the first of a line, which is never one of ours.
    if (word[0] != '\0' && word[strspn(word, plain)] == '\0') {
        cero_text_append(text, word, strlen(word));
        return;
    }
    cero_text_append(text, "'", 1);
    while (*word != '\0') {
        size_t length = strcspn(word, "'");
        cero_text_append(text, word, length);
        word += length;
        if (*word == '\'') {
            cero_text_append(text, "'\\''", 4);
            word++;
        }
    }
    cero_text_append(text, "'", 1);
}
