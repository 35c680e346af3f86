/* SPDX-License-Identifier: Apache-2.0 */
/* What is in a file, for `cero inspect`: text for people or one JSON object, from the header alone. */
#ifndef CERO_CKPT_INSPECT_H
#define CERO_CKPT_INSPECT_H

#include "base/status.h"
#include "base/text.h"

/*
 * Appends name, dtype, shape and bytes of every tensor, the metadata, and totals per dtype.
 *
 * `path` is a safetensors file, or a directory with a model's weights, whose shards are listed as one.
 * JSON: {"path", "files", "metadata"?, "tensors": [{"name", "dtype", "shape", "numel", "bytes", "file"?}],
 * "totals": {DTYPE: {"tensors", "numel", "bytes"}}, "tensor_count", "numel", "bytes"}.
 * Not collective. Errors: those of opening, NOMEM.
 */
CERO_NODISCARD cero_status cero_ckpt_inspect_safetensors(const char *path, cero_text *out,
                                                         bool as_json);

#endif
