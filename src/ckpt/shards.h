/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The weights of a model directory as one list of tensors, whether they lie in model.safetensors or in
 * the shards that model.safetensors.index.json names.
 *
 * The index is not trusted: a shard is a file of the directory itself, each tensor stands in exactly the
 * shard the index says, and files the index does not name are left alone, with a line in the log.
 * Nothing here is collective.
 */
#ifndef CERO_CKPT_SHARDS_H
#define CERO_CKPT_SHARDS_H

#include "ckpt/safetensors.h"

typedef struct cero_shards cero_shards;

/* One tensor and the file it is in; both are views into the shards. */
typedef struct cero_shards_entry {
    cero_safetensors *file;
    const cero_safetensors_tensor *tensor;
} cero_shards_entry;

/*
 * Opens the weights of `dir` and checks that files and index agree. Not collective.
 *
 * Errors: IO, CORRUPT, NOMEM; a missing shard is named with the number of tensors in it.
 */
CERO_NODISCARD cero_status cero_shards_open(const char *dir, cero_shards **out);
void cero_shards_close(cero_shards **shards);

/*
 * Whether a model's path holds weights that cero_shards_open would look at. Not collective.
 *
 * Errors: UNSUPPORTED when it holds, or is, weights of another format (foreign.h); CORRUPT for shards without an index;
 * NOMEM.
 */
CERO_NODISCARD cero_status cero_shards_look(const char *path, bool *has_weights);

/* Tensors of all files, sorted by name. Not collective. */
int64_t cero_shards_count(const cero_shards *shards);
const cero_shards_entry *cero_shards_get(const cero_shards *shards, int64_t i);

/* By name, NULL if there is none. Not collective. */
const cero_shards_entry *cero_shards_find(const cero_shards *shards, const char *name);

int cero_shards_file_count(const cero_shards *shards);
int64_t cero_shards_bytes_read(const cero_shards *shards);

/* The name of a model's weights: "model.safetensors", or shard i of n, "model-00001-of-00003.safetensors". */
const char *cero_shards_name(int64_t i, int64_t n, char *text, size_t size);

#define CERO_SHARDS_SINGLE "model.safetensors"
#define CERO_SHARDS_INDEX  "model.safetensors.index.json"

/*
 * Cuts tensors into shards of at most max_bytes of data, in their order; a tensor that is larger has a
 * shard to itself. Sets shard_of[i], [count], and *shard_count (at least 1).
 */
void cero_shards_split(const int64_t *nbytes, int64_t count, int64_t max_bytes, int64_t *shard_of,
                       int64_t *shard_count);

#endif
