/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pre-tokenizer patterns of the large model families, matched by hand.
 *
 * The general way is a regular expression (pattern.h); these do the same for the known texts of the
 * pattern at many times the speed. A test compares the two on random text.
 */
#ifndef CERO_DATA_TOKENIZER_PIECE_H
#define CERO_DATA_TOKENIZER_PIECE_H

#include "base/status.h"

/* End of the piece that begins at `begin` < `end`; the text is valid UTF-8. */
typedef size_t (*cero_piece_match)(const uint8_t *text, size_t begin, size_t end);

/* The pattern of GPT-2, which ByteLevel with use_regex stands for. */
extern const char cero_piece_gpt2_pattern[];
size_t cero_piece_gpt2(const uint8_t *text, size_t begin, size_t end);

/* The matcher for the text of a regular expression, NULL when it is not a known one. */
cero_piece_match cero_piece_find(const char *pattern, size_t length);

#endif
