/* SPDX-License-Identifier: Apache-2.0 */
/* What the files about the folder of checkpoints share. Nothing here is collective. */
#ifndef CERO_CKPT_CHECKPOINT_FOLDER_IMPL_H
#define CERO_CKPT_CHECKPOINT_FOLDER_IMPL_H

#include "ckpt/checkpoint/folder.h"

#define CERO_FOLDER_LATEST "latest"
#define CERO_FOLDER_TMP    ".tmp-"
#define CERO_FOLDER_OLD    ".old-"

enum {
    CERO_FOLDER_MAX_NAME = CERO_FOLDER_MAX_TAG + 48 /* of a tag with a suffix, with its end */
};

typedef enum cero_folder_name {
    CERO_FOLDER_NAME_OTHER = 0, /* none of ours */
    CERO_FOLDER_NAME_TAG = 1,
    CERO_FOLDER_NAME_TMP = 2,
    CERO_FOLDER_NAME_OLD = 3
} cero_folder_name;

/* What kind of name it is; `tag` gets what stands before the suffix. */
cero_folder_name cero_folder_name_parse(const char *name, char tag[CERO_FOLDER_MAX_TAG]);

/* True if a tag is one that may be used. */
bool cero_folder_is_tag(const char *tag);

/* "dir/tag" with a suffix and an id unless these are NULL. NULL when there is no memory; cero_delete. */
char *cero_folder_path(const char *dir, const char *tag, const char *suffix, const char *id);

/* Removes a folder that no reader looks at and the files in it. Errors: IO, NOMEM. */
CERO_NODISCARD cero_status cero_folder_erase(const char *path);

/* Takes a checkpoint's name from it, so that no reader looks at it any more, then erases it. Errors: IO, NOMEM. */
CERO_NODISCARD cero_status cero_folder_remove(const char *dir, const char *name);

/* Removes what a checkpoint of this tag, which is complete, replaced, now or when a save was killed. As above. */
CERO_NODISCARD cero_status cero_folder_remove_old(const char *dir, const char *tag);

#endif
