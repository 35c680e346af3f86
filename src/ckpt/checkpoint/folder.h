/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The folder of a run's checkpoints: how one appears, which there are, which may go.
 *
 *     DIR/step-00000120/            a checkpoint: its manifest and the ranks' files
 *     DIR/step-00000120.tmp-<id>/   one being written or removed; never read
 *     DIR/step-00000120.old-<id>/   one that another of the same name replaces; read while there is no other
 *     DIR/latest                    the tag of the last one committed: a hint for people (latest.tmp- while it is written)
 *     DIR/.lock                     of the process that writes
 *
 * A commit goes through states, each a change that a loss of power keeps or loses as a whole: files and manifest
 * are on the disk, then the folder's entries, then one rename, then the parent's entries, then the hint. Whatever
 * happens in between, what stood under a final name before is still there. Called by one process for all ranks;
 * nothing here is collective. Every call on the system passes base/io.h.
 */
#ifndef CERO_CKPT_CHECKPOINT_FOLDER_H
#define CERO_CKPT_CHECKPOINT_FOLDER_H

#include "ckpt/checkpoint/manifest.h"

enum {
    CERO_FOLDER_MAX_TAG = 128 /* characters of a tag, with its end */
};

/* A tag is a folder's name: no '/', no leading '.', not "latest", none of our suffixes. Errors: INVALID. */
CERO_NODISCARD cero_status cero_folder_check_tag(const char *tag);

/* "step-00000120". Returns text. */
const char *cero_folder_step_tag(int64_t step, char text[CERO_FOLDER_MAX_TAG]);

typedef enum cero_folder_kind {
    CERO_FOLDER_COMPLETE =
        0, /* its manifest was read and is sound, and its files have their length */
    CERO_FOLDER_BROKEN = 1, /* a final name, and it is not */
    CERO_FOLDER_ORPHAN = 2  /* .tmp- */
} cero_folder_kind;

typedef struct cero_folder_entry {
    char name[CERO_FOLDER_MAX_TAG + 48]; /* in DIR */
    cero_folder_kind kind;
    bool is_replaced; /* .old-, and there is a complete one without */
    int64_t step;     /* COMPLETE: the manifest's, as the next three; ORPHAN, BROKEN: -1 */
    char id[CERO_MANIFEST_ID];
    char run[CERO_MANIFEST_ID];
    int64_t nbytes; /* of all files */
    char *reason;   /* BROKEN: why, in one line; owned by the list */
} cero_folder_entry;

/* Complete ones first, by falling step (numbers, not names), .old- after its successor; then the others. */
typedef struct cero_folder_list {
    cero_folder_entry *entries; /* [count], owned */
    int64_t count;
    char latest[CERO_FOLDER_MAX_TAG]; /* what the hint names; empty: none */
} cero_folder_list;

/* Reads DIR; a DIR that is not there has none. Contents are not hashed. Errors: IO, NOMEM. */
CERO_NODISCARD cero_status cero_folder_list_read(const char *dir, cero_folder_list *out);
void cero_folder_list_cleanup(cero_folder_list *list);

/*
 * Errors: IO with the bytes needed and free, when `nbytes` more do not fit on the file system of DIR (or of the
 * nearest folder above that is there).
 */
CERO_NODISCARD cero_status cero_folder_check_space(const char *dir, int64_t nbytes);

/* One checkpoint on its way. */
typedef struct cero_folder_commit cero_folder_commit;

/* Makes DIR and DIR/TAG.tmp-ID. Errors: IO, NOMEM, INVALID. */
CERO_NODISCARD cero_status cero_folder_begin(const char *dir, const char *tag, const char *id,
                                             cero_folder_commit **out);
/* Where the ranks' files go; a view. */
const char *cero_folder_commit_path(const cero_folder_commit *commit);

/*
 * Which of the files of a manifest are not there with their length, in one error that counts and names ranks.
 * Errors: IO, NOMEM.
 */
CERO_NODISCARD cero_status cero_folder_check_files(const char *path, const cero_manifest *manifest);

/*
 * Writes the manifest and makes the checkpoint appear under its tag; one of the same tag is replaced. On an error
 * everything that was there before is there. Once the checkpoint is, a hint that cannot be written or an .old- one
 * that cannot be removed is told in the log alone.
 * Errors: IO, NOMEM.
 */
CERO_NODISCARD cero_status cero_folder_finish(cero_folder_commit *commit, const char *manifest,
                                              size_t length);
/* Without a finish that succeeded removes what was begun. NULL is fine. */
void cero_folder_end(cero_folder_commit **commit);

/*
 * Removes orphans, and .old- ones whose successor is complete; *removed counts them. What cannot be removed is
 * told in the log. Only for the one process that may write to DIR (cero_folder_lock). Errors: IO, NOMEM.
 */
CERO_NODISCARD cero_status cero_folder_sweep(const char *dir, int64_t *removed);

/*
 * Removes complete checkpoints of `run` until the `keep` newest by step are left; `tag`, which was just verified,
 * stays whatever its step, and so does what is not the run's. keep 0: removes none. Errors: IO, NOMEM.
 */
CERO_NODISCARD cero_status cero_folder_retain(const char *dir, const char *run, const char *tag,
                                              int64_t keep, int64_t *removed);

/* True when retain would remove something after one more checkpoint. Errors: IO, NOMEM. */
CERO_NODISCARD cero_status cero_folder_is_full(const char *dir, const char *run, int64_t keep,
                                               bool *is_full);

/*
 * One process at a time writes to DIR: a lock on DIR/.lock that ends with the process. File systems without locks
 * give a line in the log and no lock. A process takes it once: it is the system's for the whole process, and its
 * first release ends it. DIR must be there.
 * Errors: INVALID naming the process that holds it; IO, NOMEM.
 */
typedef struct cero_folder_lock cero_folder_lock;
CERO_NODISCARD cero_status cero_folder_lock_take(const char *dir, cero_folder_lock **out);
void cero_folder_lock_release(cero_folder_lock **lock);

#endif
