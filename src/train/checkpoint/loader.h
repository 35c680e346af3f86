/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loading a checkpoint into an engine of any layout: each rank reads the ranges that it holds.
 *
 * Which checkpoint: one by its tag, or the newest that verifies, by step; each that does not is named in the log
 * with the reason. A manifest is read by rank 0 and compared with the engine on all ranks before anything changes.
 * Contents are verified while they are read, by every rank what it reads, and between them everything.
 */
#ifndef CERO_TRAIN_CHECKPOINT_LOADER_H
#define CERO_TRAIN_CHECKPOINT_LOADER_H

#include "ckpt/checkpoint/reader.h"
#include "engine/engine.h"

typedef enum cero_loader_content {
    CERO_LOADER_ALL = 0,
    CERO_LOADER_WEIGHTS = 1 /* moments become zero, and counters those of a new run */
} cero_loader_content;

typedef struct cero_loader_params {
    const char *dir; /* of the checkpoints */
    const char *tag; /* NULL: the newest that verifies */
    cero_loader_content content;
    /* What the model has and the checkpoint has not, or in another shape, keeps its values, and what the checkpoint
     * has besides is left; both are listed in the log. Else both are errors, of all such tensors. */
    bool is_partial;
    bool may_be_absent; /* nothing in `dir` is no error */
    /* Called on every rank with each manifest that was chosen, before anything changes: for what the caller keeps in
     * sections of its own. An error ends the load, unless CORRUPT: then the next older one is tried. NULL: none. */
    cero_status (*check)(void *context, const cero_manifest *manifest);
    void *context;
} cero_loader_params;

/* What was loaded; is_loaded false: nothing was there. */
typedef struct cero_loader_result {
    bool is_loaded;
    char tag[128];
    int64_t step;
    int64_t skipped;       /* newer checkpoints that did not verify */
    int64_t bytes_read;    /* by this rank, of files' data and headers */
    int64_t bytes_all;     /* of all files */
    cero_step_stats stats; /* step, applied, skipped, loss_scale */
} cero_loader_result;

/*
 * Collective: over the world.
 * Errors:     INVALID (another model or optimizer; in the middle of a step), CORRUPT (nothing verifies: one line
 *             for each), IO (nothing is there); the engine is as before, unless contents of a checkpoint without
 *             an older one that verifies turned out wrong: then it is poisoned. COMM, REMOTE.
 */
CERO_NODISCARD cero_status cero_loader_load(cero_engine *engine, const cero_loader_params *params,
                                            cero_loader_result *out);

#endif
