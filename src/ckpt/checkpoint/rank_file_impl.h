/* SPDX-License-Identifier: Apache-2.0 */
/* One rank's file, planned and written: shared by the files about it. Nothing here is collective. */
#ifndef CERO_CKPT_CHECKPOINT_RANK_FILE_IMPL_H
#define CERO_CKPT_CHECKPOINT_RANK_FILE_IMPL_H

#include "ckpt/checkpoint/rank_file.h"

enum {
    CERO_RANK_FILE_ALIGNMENT = 64, /* of the data in the file */
    CERO_RANK_FILE_PART =
        4 << 20 /* bytes asked of the source, written or read at a time, or one block */
};

/* A range in file order. */
typedef struct cero_rank_file_entry {
    cero_rank_file_range range;
    const char *name; /* of the tensor, a view into the caller's */
    int64_t index;    /* as in params */
    int64_t offset;   /* bytes, in the data */
    int64_t nbytes;
    int64_t block; /* its first hash */
} cero_rank_file_entry;

struct cero_rank_file {
    const cero_rank_file_tensor *tensors; /* borrowed */
    int64_t tensor_count;
    cero_rank_file_entry *entries; /* [count], owned */
    int64_t *offsets;              /* [count], owned: of the data, by index of params */
    int64_t count;
    uint64_t *hashes; /* [block_count], owned */
    int64_t block_count;
    int64_t block_nbytes;
    int64_t header_nbytes; /* with the 8 bytes of its length */
    int64_t data_nbytes;
    uint64_t header_hash;
    int rank;
    bool is_written; /* hashes are known */
};

/* Bytes of a part: whole blocks. */
int64_t cero_rank_file_part_bytes(const cero_rank_file *file);

/* The bytes before the data, with the checkpoint's id. Errors: NOMEM, INVALID. */
CERO_NODISCARD cero_status cero_rank_file_header(const cero_rank_file *file, const char *id,
                                                 cero_text *out);

#endif
