/* SPDX-License-Identifier: Apache-2.0 */
/* The exchange of files behind staging.h, for its files. */
#ifndef CERO_CKPT_STAGING_IMPL_H
#define CERO_CKPT_STAGING_IMPL_H

#include "ckpt/staging.h"

#define CERO_STAGING_FOLDER  ".cero-export"
#define CERO_STAGING_OLD     CERO_STAGING_FOLDER "/old"
#define CERO_STAGING_JOURNAL CERO_STAGING_FOLDER "/journal"

/* One name that is exchanged; owns its paths. */
typedef struct cero_staging_change {
    const char *name; /* view into target */
    char *target;     /* dir/name */
    char *fresh;      /* folder/name; NULL: the name goes */
    char *kept;       /* folder/old/name */
    bool had_old;     /* known from the journal on */
} cero_staging_change;

struct cero_staging {
    char *dir;
    char *folder;
    char *old;
    char *journal;
    cero_staging_change *changes; /* [count], owned */
    int64_t count;
    int64_t capacity;
    int lock; /* the folder, open and locked; -1: not yet */
    bool made_dir;
    bool is_committed;
};

/* Adds a name whose file is replaced (is_new) or goes. Errors: INVALID for a name with a '/', NOMEM. */
CERO_NODISCARD cero_status cero_staging_add_change(cero_staging *staging, const char *name,
                                                   bool is_new);

/* Writes the journal of all changes; when this succeeds it is on the disk. Errors: IO, NOMEM. */
CERO_NODISCARD cero_status cero_staging_journal_write(const cero_staging *staging);

/* Sets the changes from the journal that an earlier export left. Errors: IO, CORRUPT, INVALID, NOMEM. */
CERO_NODISCARD cero_status cero_staging_journal_read(cero_staging *staging);

#endif
