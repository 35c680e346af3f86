/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Several files that replace those of a directory together, or not at all, whenever the process ends.
 *
 * New files are made in a folder inside the directory (".cero-export"), so that moving them to their place
 * is a rename on the same file system. No file system renames several files at once; so a journal in the folder
 * says which names are being exchanged, and at every instant one of these holds:
 *
 *   1. There is no journal, and no name was touched: the old files are complete.
 *   2. There is a journal, itself renamed into place and on the disk before the first name is touched. Readers
 *      refuse the directory (cero_staging_check). Every old file is either at its name or in the folder's "old";
 *      the journal says which names had none. Putting them back is idempotent, so that an error, a kill, and a
 *      kill while they are put back all end the same way: commit itself on an error, and else the next begin,
 *      gives the old files back.
 *   3. The journal is gone again, after all new files were in place and the directory on the disk: the new files
 *      are complete. Only then is "old" swept.
 *
 * Readers of others do not know the journal. For them the name said last (a model's config.json) goes first and comes
 * last: in between, the directory is no model. It is assumed that a rename is one change for the disk, and
 * that it lasts once both its folders were synced. One export into a directory at a time: the
 * folder is locked, which the death of the process ends. Nothing here is collective.
 */
#ifndef CERO_CKPT_STAGING_H
#define CERO_CKPT_STAGING_H

#include "base/status.h"

typedef struct cero_staging cero_staging;

/*
 * Makes `dir` and an empty, locked folder in it; what a killed export left is put in order first. With
 * cero_staging_end right after, that is all it does. Not collective.
 *
 * Errors: IO, also while another export into `dir` runs; CORRUPT for a journal that is none; NOMEM.
 */
CERO_NODISCARD cero_status cero_staging_begin(const char *dir, cero_staging **out);

/* Where new files are to be made; a view. Not collective. */
const char *cero_staging_path(const cero_staging *staging);

/*
 * Says that commit moves the file of this name from the folder to the directory. The last name said is that of the
 * file without which the directory is nothing. Not collective. Errors: INVALID for a name with a '/', NOMEM.
 */
CERO_NODISCARD cero_status cero_staging_add(cero_staging *staging, const char *name);

/* Says that commit removes the file of this name from the directory, if it is there. Not collective. */
CERO_NODISCARD cero_status cero_staging_retire(cero_staging *staging, const char *name);

/*
 * Exchanges the files. Not collective.
 *
 * Errors: IO; the old files stand, or, when they could not be put back either, the journal does.
 */
CERO_NODISCARD cero_status cero_staging_commit(cero_staging *staging);

/* Not collective. Removes the folder; without a commit also the directory, when begin made it. NULL is fine. */
void cero_staging_end(cero_staging **staging);

/*
 * For readers, before they open files of `dir` and after they opened them all. Not collective.
 *
 * Errors: CORRUPT while files are being exchanged, and after an exchange that was cut off.
 */
CERO_NODISCARD cero_status cero_staging_check(const char *dir);

#endif
