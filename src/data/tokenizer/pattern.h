/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A pattern of a tokenizer file: a literal string, or a regular expression through PCRE2 with JIT.
 *
 * The files are written for Oniguruma's Ruby syntax. What both read alike is compiled; \s is rewritten
 * to Unicode's White_Space; what PCRE2 would read as something else is refused. Expressions come from
 * files of strangers, so matching has limits on steps, heap and stack.
 */
#ifndef CERO_DATA_TOKENIZER_PATTERN_H
#define CERO_DATA_TOKENIZER_PATTERN_H

#include "base/status.h"

typedef struct cero_pattern cero_pattern;

/* Errors: UNSUPPORTED or CORRUPT with the offset inside the pattern, NOMEM. */
CERO_NODISCARD cero_status cero_pattern_compile(const char *text, size_t length, bool is_literal,
                                                cero_pattern **out);

void cero_pattern_destroy(cero_pattern **pattern);

/*
 * Finds the first match that is not empty in text[from..end), looking behind to text[0].
 *
 * The text is valid UTF-8. *begin == *stop == end when there is none. One thread at a time.
 * Errors: UNSUPPORTED when a limit is reached.
 */
CERO_NODISCARD cero_status cero_pattern_find(cero_pattern *pattern, const uint8_t *text, size_t end,
                                             size_t from, size_t *begin, size_t *stop);

#endif
