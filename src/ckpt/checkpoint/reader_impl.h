/* SPDX-License-Identifier: Apache-2.0 */
/* What reader.c (ranges), reader_file.c (files and their headers), verify.c and digest.c share. */
#ifndef CERO_CKPT_CHECKPOINT_READER_IMPL_H
#define CERO_CKPT_CHECKPOINT_READER_IMPL_H

#include "base/xxh3.h"
#include "ckpt/checkpoint/reader.h"

enum {
    CERO_READER_MAX_OPEN = 64 /* files at a time: far below what a process may have */
};

/* Where a range lies; all of them, by file and offset. */
typedef struct cero_reader_place {
    int64_t file;
    int64_t offset;
    int64_t tensor;
    int64_t range;
} cero_reader_place;

struct cero_reader {
    char *path; /* owned */
    cero_manifest manifest;
    int *fds;                             /* [file_count], owned; -1: not open */
    int64_t opened[CERO_READER_MAX_OPEN]; /* a ring of the files that are open, oldest first */
    int64_t open_first;
    int64_t open_count;
    XXH3_state_t *hash; /* owned */
    char *block;        /* [block_capacity], owned: one block */
    int64_t block_capacity;
    const cero_manifest_range *kept; /* whose block `kept_block` lies in `block`; NULL: nothing */
    int64_t kept_block;
    int64_t bytes_read;
    cero_reader_place *places; /* [place_count], owned; NULL until asked for */
    int64_t place_count;
};

/* One block of a range: its number, and where it is. */
typedef struct cero_reader_block {
    int64_t tensor;
    const cero_manifest_range *range;
    int64_t index;
    int64_t begin; /* bytes from the start of the range */
    int64_t end;
} cero_reader_block;

cero_reader_block cero_reader_block_at(const cero_reader *reader, int64_t tensor,
                                       const cero_manifest_range *range, int64_t index);

/* The descriptor of a file, which is opened and looked at if it is not yet open. Errors: CORRUPT, IO. */
CERO_NODISCARD cero_status cero_reader_file_open(cero_reader *reader, int64_t file, int *fd);

/*
 * Reads bytes of a file into `out` and adds them to reader->hash; they are counted.
 * Errors: IO with path and offset; CORRUPT when the file ends before.
 */
CERO_NODISCARD cero_status cero_reader_file_read(cero_reader *reader, int64_t file, int64_t offset,
                                                 int64_t nbytes, char *out);

/*
 * Whose file an open one of `length` bytes is by its own header: true when it is not of this checkpoint and rank, and
 * then " is of …" is appended to `out`. A file that does not tell is nobody else's.
 */
bool cero_reader_file_owner(const cero_reader *reader, int64_t file, int fd, int64_t length,
                            cero_text *out);

/* The error that a file is another's; `owner` as above. */
cero_status cero_reader_file_fail(const cero_reader *reader, int64_t file, const char *owner);

/* As cero_reader_check_file; *is_foreign: it is another's. */
CERO_NODISCARD cero_status cero_reader_file_check(cero_reader *reader, int64_t file,
                                                  bool *is_foreign);

/* Reads a block into `out` and tells whether it has the manifest's hash. Errors: IO, CORRUPT. */
CERO_NODISCARD cero_status cero_reader_block_read(cero_reader *reader,
                                                  const cero_reader_block *block, char *out,
                                                  uint64_t *found);

/* The error that such a block is not what the manifest says. */
cero_status cero_reader_block_fail(cero_reader *reader, const cero_reader_block *block,
                                   uint64_t found);

/* Reads a block into reader->block, unless it is there, and compares it. Errors: CORRUPT, IO, NOMEM. */
CERO_NODISCARD cero_status cero_reader_block_keep(cero_reader *reader,
                                                  const cero_reader_block *block);

/* Makes room for one block. Errors: NOMEM. */
CERO_NODISCARD cero_status cero_reader_block_room(cero_reader *reader, int64_t nbytes);

/* Fills reader->places. Errors: NOMEM. */
CERO_NODISCARD cero_status cero_reader_places(cero_reader *reader);

/* The first place of a file, place_count if it has none. */
int64_t cero_reader_first_place(const cero_reader *reader, int64_t file);

#endif
