/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A save on its way, for its files: saver.c, which goes through its phases with the other ranks; saver_part.c, what
 * this rank writes; saver_work.c, the thread that does it; saver_commit.c, what rank 0 does with the files of all.
 *
 * In each phase a rank has some work of its own, on the thread, where nothing is said to other ranks; when all
 * are through with theirs, they agree on how it went, and the next phase begins.
 */
#ifndef CERO_TRAIN_CHECKPOINT_SAVER_IMPL_H
#define CERO_TRAIN_CHECKPOINT_SAVER_IMPL_H

#include "ckpt/checkpoint/folder.h"
#include "ckpt/checkpoint/rank_file.h"
#include "train/checkpoint/saver.h"
#include "train/checkpoint/tensor_list.h"

#include <pthread.h>
#include <stdatomic.h>

enum {
    CERO_SAVER_MAX_MESSAGE = 4096 /* characters of an error on its way from the thread */
};

typedef enum cero_saver_phase {
    CERO_SAVER_IDLE = 0,
    CERO_SAVER_WRITE = 1,  /* every rank its file */
    CERO_SAVER_COMMIT = 2, /* rank 0: manifest, and the name */
    CERO_SAVER_VERIFY = 3, /* every rank reads its file back, before an older checkpoint goes */
    CERO_SAVER_RETAIN = 4  /* rank 0 removes older ones */
} cero_saver_phase;

/* The work of a phase. The owner reads status and message after the thread has ended. */
typedef struct cero_saver_work {
    pthread_t thread;
    bool is_running; /* the thread is to be joined */
    atomic_bool is_done;
    atomic_bool is_awaited; /* the owner stands still for it */
    double computed;        /* the thread's seconds when it last rested */
    cero_status status;
    char message[CERO_SAVER_MAX_MESSAGE];
} cero_saver_work;

/* What rank 0 gathers and makes for the commit. */
typedef struct cero_saver_commit {
    cero_folder_commit *folder;      /* owned; NULL on other ranks */
    cero_manifest_section *sections; /* [section_count], owned with names and texts */
    int section_count;
    cero_manifest_mesh mesh;
    char **packed; /* [size], owned with its texts: what ranks say of their files */
    size_t *lengths;
    bool is_full;    /* older checkpoints go afterwards */
    int64_t removed; /* of them */
} cero_saver_commit;

/* Where a range lies in the file's data, and in the copy. */
typedef struct cero_saver_place {
    int64_t at; /* element */
    int64_t range;
} cero_saver_place;

struct cero_saver {
    cero_engine *engine; /* borrowed */
    cero_comm *comm;     /* view: the engine's */
    cero_saver_params params;
    cero_tensor_list list;
    cero_rank_file_range
        *ranges; /* owned, [range_count]: this rank's part, in the order of the list */
    int64_t range_count;
    cero_saver_place *places; /* owned, [range_count]: in the order of the file */
    cero_rank_file *file;     /* owned */
    float *snapshot; /* owned, [data of the file], category IO; NULL: values are the engine's */

    cero_saver_phase phase;
    cero_saver_work work;
    char id[CERO_MANIFEST_ID];
    char *path; /* owned: of the folder that is being written */
    cero_saver_commit commit;
    cero_saver_stats stats;
};

/* This rank's part: ranges, the file's plan, the copy. Not collective. Errors: NOMEM, INVALID. */
CERO_NODISCARD cero_status cero_saver_part_create(cero_saver *saver);
void cero_saver_part_destroy(cero_saver *saver);
/* Copies values, on all threads of the device. Not collective. */
void cero_saver_part_copy(cero_saver *saver);
/* Phases WRITE and VERIFY. Not collective. Errors: those of rank_file.h. */
CERO_NODISCARD cero_status cero_saver_part_write(cero_saver *saver);
CERO_NODISCARD cero_status cero_saver_part_verify(cero_saver *saver);

/*
 * On rank 0: an id, sections, a look at the space for `nbytes` of files, orphans removed, the folder made.
 * Not collective. Errors: IO, NOMEM, INVALID.
 */
CERO_NODISCARD cero_status cero_saver_commit_begin(cero_saver *saver,
                                                   const cero_manifest_section *sections, int count,
                                                   int64_t nbytes);
/* Gives rank 0 what it must know of the files. Collective. Errors: NOMEM, COMM, REMOTE. */
CERO_NODISCARD cero_status cero_saver_commit_gather(cero_saver *saver);
/* Phases COMMIT and RETAIN, on rank 0. Not collective. Errors: IO, NOMEM, CORRUPT. */
CERO_NODISCARD cero_status cero_saver_commit_finish(cero_saver *saver);
CERO_NODISCARD cero_status cero_saver_commit_retain(cero_saver *saver);
/* Removes what was begun and not finished. Not collective. */
void cero_saver_commit_end(cero_saver *saver);

/* Starts this rank's work of the phase; an error is the work's. Not collective. */
void cero_saver_work_start(cero_saver *saver);
bool cero_saver_work_is_done(const cero_saver *saver);
/* On the thread, between two parts of what it writes: steps go first, unless the owner waits for it. */
void cero_saver_work_rest(cero_saver *saver);
/* Waits, alive for other ranks, and gives the work's status. Not collective. */
cero_status cero_saver_work_take(cero_saver *saver);

#endif
