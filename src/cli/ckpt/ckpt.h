/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the commands `cero ckpt …` share: which checkpoint a directory stands for, and reports that `cero inspect`
 * gives as well.
 */
#ifndef CERO_CLI_CKPT_CKPT_H
#define CERO_CLI_CKPT_CKPT_H

#include "ckpt/checkpoint/folder.h"
#include "ckpt/checkpoint/reader.h"
#include "cli/cli.h"

/* What a directory of the command line is. */
typedef struct cero_ckpt_place {
    char *dir;             /* the folder of checkpoints; of a checkpoint named itself NULL; owned */
    char *path;            /* the checkpoint, named or chosen; NULL: none yet; owned */
    cero_folder_list list; /* of dir */
} cero_ckpt_place;

/*
 * Looks at a directory: a checkpoint, a folder of checkpoints, or a run directory with checkpoints/ in it. Leaves `cli`
 * at reading input. `out` is to be cleaned up on success.
 * Errors: IO when it is not there; INVALID when it is none of the three.
 */
CERO_NODISCARD cero_status cero_ckpt_find(cero_cli *cli, const char *word, cero_ckpt_place *out);

/*
 * The same, and of a folder the newest complete checkpoint, which is said on stderr together with what was passed
 * over. Errors: also CORRUPT when no checkpoint is complete, with each reason.
 */
CERO_NODISCARD cero_status cero_ckpt_find_one(cero_cli *cli, const char *word,
                                              cero_ckpt_place *out);
void cero_ckpt_place_cleanup(cero_ckpt_place *place);

/* True when the directory itself is a checkpoint; true when checkpoints lie in it or in its checkpoints/. */
bool cero_ckpt_is_one(const char *path);
CERO_NODISCARD cero_status cero_ckpt_has_some(const char *path, bool *out);

/* Appends the table of a folder, and what one checkpoint holds. */
CERO_NODISCARD cero_status cero_ckpt_write_list(const cero_ckpt_place *place, bool is_json,
                                                cero_text *out);
CERO_NODISCARD cero_status cero_ckpt_write_one(const cero_reader *reader, bool is_json,
                                               bool has_tensors, cero_text *out);

/* Bytes of all files of a checkpoint. */
int64_t cero_ckpt_bytes(const cero_manifest *manifest);

/* Appends ["key": "text"]; text NULL: null. */
void cero_ckpt_put_string(cero_text *out, const char *key, const char *text);

#endif
