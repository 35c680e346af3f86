/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What checkpoint.c (which checkpoint, and that all ranks mean the same), checkpoint_write.c and checkpoint_read.c
 * share: what a file holds.
 *
 * A checkpoint is one safetensors file: f32 weights under their names, moments under "optim.<moment>.<name>", and
 * counters as metadata. Rank 0 writes what it asks of the owners span by span; on loading every rank reads what
 * it holds, so that stage and number of ranks may differ.
 */
#ifndef CERO_TRAIN_CHECKPOINT_IMPL_H
#define CERO_TRAIN_CHECKPOINT_IMPL_H

#include "ckpt/safetensors.h"
#include "engine/engine.h"

#include <stddef.h>

#define CERO_CHECKPOINT_FORMAT "cero checkpoint 1"
#define CERO_CHECKPOINT_SCALE  "loss_scaler.scale"

enum {
    CERO_CHECKPOINT_SPAN = 1 << 16, /* elements that are asked for or read at once */
    CERO_CHECKPOINT_COUNTERS = 7
};

/* Which tensor of the engine an entry of the file is: moment -1 is the weights. */
typedef struct cero_checkpoint_tensor {
    int64_t param;
    int moment;
} cero_checkpoint_tensor;

typedef struct cero_checkpoint_list {
    cero_safetensors_decl *decls;    /* [count], owned, with the names */
    cero_checkpoint_tensor *tensors; /* [count], owned */
    int64_t count;
} cero_checkpoint_list;

/* All that a checkpoint of this engine holds. Errors: NOMEM; the list is to be cleaned up all the same. */
CERO_NODISCARD cero_status cero_checkpoint_list_create(const cero_engine *engine,
                                                       cero_checkpoint_list *list);
void cero_checkpoint_list_cleanup(cero_checkpoint_list *list);

/* The whole numbers of cero_engine_counters: their key in the file and place in the struct. */
typedef struct cero_checkpoint_counter {
    const char *key;
    size_t offset;
} cero_checkpoint_counter;
extern const cero_checkpoint_counter cero_checkpoint_counters[CERO_CHECKPOINT_COUNTERS];

/* "dir/tag/checkpoint.safetensors", or its folder. Errors: NOMEM; the text is to be cleaned up all the same. */
CERO_NODISCARD cero_status cero_checkpoint_path(const char *dir, const char *tag, bool is_folder,
                                                cero_text *path);

/* Collective. Errors: those of cero_engine_save. */
CERO_NODISCARD cero_status cero_checkpoint_write(cero_engine *engine, const char *dir,
                                                 const char *tag);

/* Collective. Errors: those of cero_engine_load. */
CERO_NODISCARD cero_status cero_checkpoint_read(cero_engine *engine, const char *dir,
                                                const char *tag, cero_step_stats *stats);

#endif
