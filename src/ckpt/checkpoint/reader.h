/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading a checkpoint by range, with every byte that is handed out checked, and verifying a whole one.
 *
 * A reader asks for elements of a tensor, whatever files they lie in. Blocks (manifest.h) that the elements touch are
 * read, compared with their hash, and counted. Files are opened when they are first needed. Nothing here is
 * collective; one thread at a time per reader.
 */
#ifndef CERO_CKPT_CHECKPOINT_READER_H
#define CERO_CKPT_CHECKPOINT_READER_H

#include "ckpt/checkpoint/manifest.h"

typedef struct cero_reader cero_reader;

/* Opens the checkpoint in folder `path`: reads and checks its manifest. Errors: IO, CORRUPT, UNSUPPORTED, NOMEM. */
CERO_NODISCARD cero_status cero_reader_open(const char *path, cero_reader **out);

/* The same with the bytes of its manifest, which another process read. */
CERO_NODISCARD cero_status cero_reader_open_manifest(const char *path, const char *bytes,
                                                     size_t length, cero_reader **out);
void cero_reader_close(cero_reader **reader);

/* A view; the folder's path; bytes read from the files so far. */
const cero_manifest *cero_reader_manifest(const cero_reader *reader);
const char *cero_reader_path(const cero_reader *reader);
int64_t cero_reader_bytes_read(const cero_reader *reader);

/*
 * Elements begin .. begin + n of tensor `tensor` (its index in the manifest).
 *
 * Blocks that lie in the range as a whole are read into `out` directly.
 * Errors: CORRUPT with file, tensor and offset of the block; IO; INVALID for a range outside.
 */
CERO_NODISCARD cero_status cero_reader_read(cero_reader *reader, int64_t tensor, int64_t begin,
                                            int64_t n, float *out);

/* The length of file i and the hash of its header, and that the header says what the manifest says. */
CERO_NODISCARD cero_status cero_reader_check_file(cero_reader *reader, int64_t file);

/* Called now and then while a long verification runs; may be NULL. */
typedef void (*cero_reader_progress)(void *context, int64_t nbytes_done, int64_t nbytes_total);

/* Everything: every file, every block. Errors: the first CORRUPT or IO found. */
CERO_NODISCARD cero_status cero_reader_verify(cero_reader *reader, cero_reader_progress progress,
                                              void *context);

/*
 * A hash of what a checkpoint means, whatever the layout that wrote it: names, shapes, values and the sections
 * "engine" and "train", and nothing else. Verifies what it reads.
 */
typedef struct cero_reader_digest {
    uint64_t weights;
    uint64_t moments;
    uint64_t state; /* of the sections */
    uint64_t all;
} cero_reader_digest;
CERO_NODISCARD cero_status cero_reader_hash(cero_reader *reader, cero_reader_digest *out);

#endif
