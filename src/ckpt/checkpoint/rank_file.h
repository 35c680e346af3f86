/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writing one rank's file of a checkpoint: ranges of tensors, hashed on their way to the disk.
 *
 * Where everything lies follows from the ranges alone, so that the bytes of a save are known before it begins. The
 * file is an ordinary safetensors file: a whole tensor under its name and shape, a part of one as a vector under
 * "<name>[begin:end]". Nothing here is collective; write may run on a thread of its own.
 */
#ifndef CERO_CKPT_CHECKPOINT_RANK_FILE_H
#define CERO_CKPT_CHECKPOINT_RANK_FILE_H

#include "ckpt/checkpoint/manifest.h"

/* A tensor that a checkpoint has, on all ranks the same list. */
typedef struct cero_rank_file_tensor {
    const char *name; /* borrowed for the life of the file */
    cero_shape shape; /* f32 */
} cero_rank_file_tensor;

/* What this rank writes of tensor `tensor`: begin < end. */
typedef struct cero_rank_file_range {
    int64_t tensor;
    int64_t begin;
    int64_t end;
} cero_rank_file_range;

typedef struct cero_rank_file_params {
    const cero_rank_file_tensor *tensors;
    int64_t tensor_count;
    const cero_rank_file_range *ranges; /* copied; in any order, at most one of a tensor */
    int64_t range_count;
    int rank;
    int64_t block_nbytes; /* 0: CERO_MANIFEST_BLOCK */
} cero_rank_file_params;

typedef struct cero_rank_file cero_rank_file;

/* Decides where everything lies. Errors: NOMEM, INVALID. */
CERO_NODISCARD cero_status cero_rank_file_create(const cero_rank_file_params *params,
                                                 cero_rank_file **out);
void cero_rank_file_destroy(cero_rank_file **file);

/* Bytes of the file, and of its data alone: the ranges one after the other in the order of the file. */
int64_t cero_rank_file_bytes(const cero_rank_file *file);
int64_t cero_rank_file_data_bytes(const cero_rank_file *file);

/* Range i (as in params) lies at this byte of the data. */
int64_t cero_rank_file_data_offset(const cero_rank_file *file, int64_t range);

/*
 * Gives elements begin .. begin + n (of the tensor) of a range: a view that lives until the next call, or `room`
 * ([n]) filled. Called in file order, each element once.
 */
typedef cero_status (*cero_rank_file_source)(void *context, int64_t range, int64_t begin, int64_t n,
                                             float *room, const float **out);

/* Seconds of a write by what they went to. */
typedef struct cero_rank_file_seconds {
    double hash;
    double write;
    double sync;
} cero_rank_file_seconds;

/*
 * Writes DIR/rank-NNNNN.safetensors, which must not be there, and brings it to the disk. `id` is the checkpoint's.
 * Hashes are then known. May be called again after a failure, which leaves what was written. seconds may be NULL.
 * Errors: IO with path and offset, NOMEM, and what the source gives.
 */
CERO_NODISCARD cero_status cero_rank_file_write(cero_rank_file *file, const char *dir,
                                                const char *id, cero_rank_file_source source,
                                                void *context, cero_rank_file_seconds *seconds);

/* Reads what was written and compares it with the hashes. Errors: CORRUPT with file, tensor and offset; IO. */
CERO_NODISCARD cero_status cero_rank_file_check(const cero_rank_file *file, const char *dir);

/*
 * What another rank needs to know of a written file, as bytes (pack), and the manifest that the bytes of all
 * ranks, in their order, make (unpack into `manifest`: files and tensors; the rest is the caller's).
 * Errors: NOMEM; CORRUPT when the ranks' ranges do not cover a tensor, with the tensor and the ranks.
 */
CERO_NODISCARD cero_status cero_rank_file_pack(const cero_rank_file *file, cero_text *out);
CERO_NODISCARD cero_status cero_rank_file_unpack(const cero_rank_file_tensor *tensors,
                                                 int64_t tensor_count, const char *const *packed,
                                                 const size_t *lengths, int count,
                                                 int64_t block_nbytes, cero_manifest *manifest);

/* "rank-00003.safetensors". Returns text. */
const char *cero_rank_file_name(int rank, char text[CERO_MANIFEST_MAX_FILE_NAME]);

#endif
