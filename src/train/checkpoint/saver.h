/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Saving an engine: all ranks write their part of one checkpoint, in the step or beside the ones that follow.
 *
 * Every element of a weight or moment belongs to one rank, which writes it; what was written, by whom and with which
 * hashes comes together on rank 0, which commits (ckpt/checkpoint/folder.h). In the background a copy of this rank's
 * part is taken first, planned in category IO, and a thread writes it; only the thread that owns the engine talks to
 * other ranks, at steps' ends. A checkpoint that failed leaves nothing behind, and the older ones alone.
 */
#ifndef CERO_TRAIN_CHECKPOINT_SAVER_H
#define CERO_TRAIN_CHECKPOINT_SAVER_H

#include "ckpt/checkpoint/manifest.h"
#include "engine/engine.h"

typedef struct cero_saver cero_saver;

typedef struct cero_saver_params {
    const char *dir;    /* of the checkpoints; borrowed for the saver's life */
    const char *run;    /* 32 hexadecimal digits, the same on all ranks; borrowed */
    int64_t keep;       /* newest checkpoints of this run that stay; 0: all */
    bool is_background; /* takes cero_engine_own_bytes more memory */
} cero_saver_params;

/*
 * Plans the files, and allocates the copy. No file is touched.
 *
 * Collective: over the world.
 * Errors:     NOMEM, REMOTE, COMM.
 */
CERO_NODISCARD cero_status cero_saver_create(cero_engine *engine, const cero_saver_params *params,
                                             cero_saver **out);
/* Waits for a thread that still writes, and leaves what it wrote uncommitted: cero_saver_wait first. */
void cero_saver_destroy(cero_saver **saver);

/* What a save did; of this rank but for the last two. */
typedef struct cero_saver_stats {
    bool is_committed;
    char tag[128];
    int64_t step;
    double seconds_snapshot; /* the step stood still for it */
    double seconds_write;    /* hashing and bringing to disk included */
    double seconds_hash;
    double seconds_commit;
    double seconds_verify; /* reading back, before older ones go */
    int64_t nbytes;        /* of all files */
    int64_t removed;       /* older checkpoints */
} cero_saver_stats;

/*
 * Saves the engine as it is now. In the background it returns when the copy is taken; a save that is still under
 * way is waited for first, and its error is this call's. `sections` besides "engine" and "config" are the caller's, and read on rank 0 only.
 * tag NULL: by the step.
 *
 * Free space is looked at before a byte is written: IO with the bytes needed and free.
 *
 * Collective: over the world.
 * Errors:     INVALID (the tag; in the middle of a step), IO, NOMEM; REMOTE with the message of the rank that
 *             failed. The engine is as before, and so are older checkpoints. COMM.
 */
CERO_NODISCARD cero_status cero_saver_begin(cero_saver *saver, const char *tag,
                                            const cero_manifest_section *sections,
                                            int section_count, cero_saver_stats *stats);

/*
 * Between steps: lets a save in the background go on to its next state when all ranks are through with theirs. True
 * in *has_ended once after it ended, well or not: the status is the save's.
 *
 * Collective: over the world. Nothing is sent when no save is under way.
 * Errors:     of the save that ended, as of cero_saver_begin.
 */
CERO_NODISCARD cero_status cero_saver_poll(cero_saver *saver, bool *has_ended,
                                           cero_saver_stats *stats);

/* The same until no save is under way. Collective: over the world. Errors: as cero_saver_poll. */
CERO_NODISCARD cero_status cero_saver_wait(cero_saver *saver, bool *has_ended,
                                           cero_saver_stats *stats);

/* Not collective. */
bool cero_saver_is_busy(const cero_saver *saver);

#endif
