/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A load on its way, for its files: loader.c, which tries candidates until one is good; loader_choice.c, which
 * candidates there are, on rank 0; loader_match.c, whether one fits the engine; loader_read.c, its contents.
 */
#ifndef CERO_TRAIN_CHECKPOINT_LOADER_IMPL_H
#define CERO_TRAIN_CHECKPOINT_LOADER_IMPL_H

#include "ckpt/checkpoint/folder.h"
#include "train/checkpoint/loader.h"
#include "train/checkpoint/tensor_list.h"

enum {
    CERO_LOADER_MAX_NAME = CERO_FOLDER_MAX_TAG + 48, /* of a folder in DIR */
    CERO_LOADER_ROOM = 1 << 18 /* elements on their way: a block of a checkpoint */
};

/* Rank 0's view of DIR. */
typedef struct cero_loader_choice {
    cero_folder_list list;
    bool *is_noted;    /* owned, [list.count]: said to be no checkpoint */
    int64_t next;      /* entry to look at */
    int64_t count;     /* entries that are checkpoints, sound or not */
    cero_text skipped; /* each that was not taken, and why */
} cero_loader_choice;

typedef struct cero_loader {
    cero_engine *engine; /* borrowed, like the next two */
    cero_comm *comm;
    const cero_loader_params *params;
    cero_tensor_list list;
    int64_t *stored; /* owned, [list.count]: the manifest's tensor, -1: values stay */
    int64_t kept;    /* how many stay */
    float *room;     /* owned, [CERO_LOADER_ROOM] */
    bool is_changed; /* the engine has contents of a candidate that may be wrong */
    cero_loader_choice choice;
    cero_loader_result result;
} cero_loader;

/* A candidate: its folder in DIR and the bytes of its manifest. */
typedef struct cero_loader_candidate {
    char name[CERO_LOADER_MAX_NAME]; /* empty: there is none left */
    char *bytes;                     /* owned */
    size_t length;
} cero_loader_candidate;

/* Reads DIR, on rank 0. Not collective. Errors: IO, NOMEM. */
CERO_NODISCARD cero_status cero_loader_choice_open(cero_loader *loader);
void cero_loader_choice_close(cero_loader *loader);
/*
 * The next candidate whose manifest can be read, for rank 0. None left is an error, unless nothing was there and
 * may be absent. Not collective. Errors: IO, CORRUPT naming each that was skipped; NOMEM.
 */
CERO_NODISCARD cero_status cero_loader_choose(cero_loader *loader, cero_loader_candidate *out);
/* Notes on rank 0, and logs, that a candidate is left because of the error at hand. Not collective. */
void cero_loader_skip(cero_loader *loader, const char *name);

/*
 * Finds the engine's tensors in a manifest, and its counters. Nothing changes. Not collective.
 * Errors: INVALID with all tensors that differ, or the optimizers; CORRUPT; NOMEM.
 */
CERO_NODISCARD cero_status cero_loader_match(cero_loader *loader, const cero_manifest *manifest,
                                             cero_engine_counters *counters);

/* The headers of this rank's share of the files. Not collective. Errors: CORRUPT, IO. */
CERO_NODISCARD cero_status cero_loader_check_files(cero_loader *loader, cero_reader *reader);
/* Reads what this rank takes of the contents into the engine. Not collective. Errors: CORRUPT, IO. */
CERO_NODISCARD cero_status cero_loader_read(cero_loader *loader, cero_reader *reader);

#endif
