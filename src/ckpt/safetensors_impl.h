/* SPDX-License-Identifier: Apache-2.0 */
/* The parsed header of a safetensors file, shared by its reader, its writer and their tests. */
#ifndef CERO_CKPT_SAFETENSORS_IMPL_H
#define CERO_CKPT_SAFETENSORS_IMPL_H

#include "ckpt/safetensors.h"

#include "base/json.h"

typedef struct cero_safetensors_header {
    cero_json_document *document;            /* owned: names and metadata are views into it */
    cero_safetensors_tensor *tensor;         /* [count], owned, by place of their data */
    const cero_safetensors_tensor **by_name; /* [count], owned, sorted by name */
    int64_t *dim;                            /* owned: the dimensions of all tensors */
    const cero_json *metadata;               /* the object, or NULL */
    int64_t count;
    int64_t data_bytes; /* what the tensors cover */
} cero_safetensors_header;

/*
 * Parses and checks the JSON of a header by itself. `path` is for messages.
 *
 * Errors: CORRUPT, NOMEM; *out then holds nothing.
 */
CERO_NODISCARD cero_status cero_safetensors_header_parse(const char *path, const char *json,
                                                         size_t length,
                                                         cero_safetensors_header *out);
void cero_safetensors_header_cleanup(cero_safetensors_header *header);

/* By name, NULL if there is none. */
const cero_safetensors_tensor *cero_safetensors_header_find(const cero_safetensors_header *header,
                                                            const char *name);

/* Looks a dtype up by the format's name; false when there is none. */
bool cero_safetensors_dtype_find(const char *name, cero_safetensors_dtype *out);

/* Bytes of numel elements; false when that is no whole number or too big. */
bool cero_safetensors_dtype_bytes(cero_safetensors_dtype dtype, int64_t numel, int64_t *nbytes);

#endif
