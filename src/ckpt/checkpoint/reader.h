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

/* Everything: every file, every block, each byte once. Errors: the first CORRUPT or IO found. */
CERO_NODISCARD cero_status cero_reader_verify(cero_reader *reader, cero_reader_progress progress,
                                              void *context);

/* What is wrong with one file, or with one tensor's range in it. */
typedef struct cero_reader_finding {
    cero_status status;  /* CORRUPT or IO */
    int64_t file;        /* index */
    int64_t tensor;      /* index; -1: the file as a whole, or its header */
    int64_t begin;       /* elements from the first damaged block to the last */
    int64_t end;         /* of a file as a whole both are 0 */
    int64_t bad_blocks;  /* damaged blocks of the range */
    const char *message; /* lives for the call */
} cero_reader_finding;
typedef void (*cero_reader_report)(void *context, const cero_reader_finding *finding);

typedef struct cero_reader_scan_params {
    cero_reader_report report;     /* each finding, in the order of files and offsets */
    cero_reader_progress progress; /* may be NULL */
    void *context;                 /* of both */
} cero_reader_scan_params;

/* As cero_reader_verify, but goes on after what is damaged. *findings counts. Errors: NOMEM. */
CERO_NODISCARD cero_status cero_reader_scan(cero_reader *reader,
                                            const cero_reader_scan_params *params,
                                            int64_t *findings);

/*
 * A hash of what a checkpoint means, whatever the layout that wrote it: names, shapes, values and the sections
 * "engine" and "train", and nothing else. Verifies what it reads.
 */
typedef struct cero_reader_digest {
    uint64_t weights; /* tensors whose name does not begin with "optim." */
    uint64_t moments; /* the others */
    uint64_t state;   /* of the sections */
    uint64_t all;     /* of the three */
} cero_reader_digest;
CERO_NODISCARD cero_status cero_reader_hash(cero_reader *reader, cero_reader_digest *out);

/* A tensor's own: XXH3 of its values in C order. */
typedef void (*cero_reader_tensor_hash)(void *context, int64_t tensor, uint64_t hash);

/* The same, and calls `each` (NULL: nobody) for every tensor, by name. Errors: as cero_reader_read. */
CERO_NODISCARD cero_status cero_reader_hash_tensors(cero_reader *reader,
                                                    cero_reader_tensor_hash each, void *context,
                                                    cero_reader_digest *out);

#endif
