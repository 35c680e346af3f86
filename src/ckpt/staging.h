/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Several files that replace those of a directory together, or not at all.
 *
 * New files are made in a folder inside the directory (".cero-export"), so that moving them to their place
 * is a rename on the same file system. If a move fails, those before it are undone. A kill between two
 * moves can leave some files new and some old, each of them whole; the next begin sweeps the folder.
 * Nothing here is collective.
 */
#ifndef CERO_CKPT_STAGING_H
#define CERO_CKPT_STAGING_H

#include "base/status.h"

typedef struct cero_staging cero_staging;

/* Makes `dir` and an empty folder in it. Not collective. Errors: IO, NOMEM. */
CERO_NODISCARD cero_status cero_staging_begin(const char *dir, cero_staging **out);

/* Where new files are to be made; a view. Not collective. */
const char *cero_staging_path(const cero_staging *staging);

/* Says that commit moves the file of this name from the folder to the directory. Not collective. */
CERO_NODISCARD cero_status cero_staging_add(cero_staging *staging, const char *name);

/* Says that commit removes the file of this name from the directory, if it is there. Not collective. */
CERO_NODISCARD cero_status cero_staging_retire(cero_staging *staging, const char *name);

/* Removes what is to go, then moves what was added, in order. Not collective. Errors: IO; nothing moved. */
CERO_NODISCARD cero_status cero_staging_commit(cero_staging *staging);

/* Not collective. Removes the folder; without a commit also the directory, when begin made it. NULL is fine. */
void cero_staging_end(cero_staging **staging);

#endif
