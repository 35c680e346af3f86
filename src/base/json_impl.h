/* SPDX-License-Identifier: Apache-2.0 */
/* What the two files of the JSON reader share. */
#ifndef CERO_BASE_JSON_IMPL_H
#define CERO_BASE_JSON_IMPL_H

#include "base/json.h"

/*
 * The nearest double of a number text that is well formed, whatever the locale; false when it is too big.
 */
bool cero_json_to_double(const char *text, double *out);

#endif
