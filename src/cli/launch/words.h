/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Command lines and environments as vectors of words: nothing here ever passes through a shell.
 *
 * Quoting is for people: what --dry-run prints can be pasted into a shell and gives the same words.
 */
#ifndef CERO_CLI_LAUNCH_WORDS_H
#define CERO_CLI_LAUNCH_WORDS_H

#include "base/text.h"

/* Owned words. Zero-initialise; after a failed addition every later one fails as well. */
typedef struct cero_vector {
    char **word; /* [count] and a NULL, owned */
    int64_t count;
    int64_t capacity;
    bool has_failed;
} cero_vector;

void cero_vector_add(cero_vector *vector, const char *word);
void cero_vector_printf(cero_vector *vector, const char *fmt, ...) CERO_PRINTF(2, 3);
void cero_vector_cleanup(cero_vector *vector);

/* Puts the NULL behind the last word. Errors: NOMEM when an addition failed. */
CERO_NODISCARD cero_status cero_vector_finish(cero_vector *vector);

/*
 * Adds the words of a text as a POSIX shell would cut them: blanks part words, single and double quotes
 * and backslashes keep them together; nothing is expanded. Errors: INVALID for a quote that stays open.
 */
CERO_NODISCARD cero_status cero_vector_split(cero_vector *vector, const char *text);

/* Appends a word as a shell reads it: plain when it may be, else between single quotes. */
void cero_text_append_quoted(cero_text *text, const char *word);

#endif
