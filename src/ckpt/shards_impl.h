/* SPDX-License-Identifier: Apache-2.0 */
/* The parsed model.safetensors.index.json, shared by its parser and by what opens the shards it names. */
#ifndef CERO_CKPT_SHARDS_IMPL_H
#define CERO_CKPT_SHARDS_IMPL_H

#include "ckpt/shards.h"

#include "base/json.h"

/* A place in weight_map: which file holds which tensor. */
typedef struct cero_shards_place {
    const char *file; /* views into the index */
    const char *name;
    const cero_json *value;
} cero_shards_place;

typedef struct cero_shards_index {
    cero_json_document *document; /* owned */
    char *path;                   /* owned */
    cero_shards_place *place;     /* [count], owned, sorted by cero_shards_place_compare */
    int64_t count;
} cero_shards_index;

/* By file, then by name. */
int cero_shards_place_compare(const void *left, const void *right);

/*
 * Parses an index and checks that it places at least one tensor, each in a safetensors file of the directory
 * itself, and says nothing else. `path` is for messages. `out` is to be cleaned up, also after an error.
 *
 * Errors: CORRUPT with the place, NOMEM.
 */
CERO_NODISCARD cero_status cero_shards_index_parse(const char *path, const char *json,
                                                   size_t length, cero_shards_index *out);

/* The same of the index in `dir`. Errors: also IO. */
CERO_NODISCARD cero_status cero_shards_index_read(const char *dir, cero_shards_index *out);
void cero_shards_index_cleanup(cero_shards_index *index);

#endif
