/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files, through one layer that loops on short counts and names path, offset, asked and got in errors.
 *
 * Whole small files, read-only maps, positioned reads, and writers that appear under their final name
 * only when complete (temporary beside the target, fsync, rename, fsync of the folder). Every system
 * call passes io.h, so that a test can make the n-th one fail (CERO_FAULT=write:3:ENOSPC).
 */
#ifndef CERO_BASE_FILE_H
#define CERO_BASE_FILE_H

#include "base/status.h"

/* Reads a whole file. The bytes are terminated with a NUL that is not counted. max_bytes 0: no
 * limit. Free with cero_delete. Errors: IO (also for a file above the limit), NOMEM. */
CERO_NODISCARD cero_status cero_file_read(const char *path, size_t max_bytes, char **bytes,
                                          size_t *length);

/* A read-only map of a whole file; an empty file has data NULL. */
typedef struct cero_file_map {
    const unsigned char *data;
    size_t length;
} cero_file_map;

CERO_NODISCARD cero_status cero_file_map_open(const char *path, cero_file_map *out);
void cero_file_map_close(cero_file_map *map);

typedef struct cero_file_writer cero_file_writer;

typedef enum cero_file_mode {
    CERO_FILE_REPLACE = 0, /* appears, whole, at commit; what stood there stays until then */
    CERO_FILE_APPEND = 1   /* appended in place, line by line (metrics, logs) */
} cero_file_mode;

CERO_NODISCARD cero_status cero_file_writer_open(const char *path, cero_file_mode mode,
                                                 cero_file_writer **out);

/* Buffered. Errors: IO; the writer is then poisoned and only close is allowed. */
CERO_NODISCARD cero_status cero_file_writer_write(cero_file_writer *writer, const void *bytes,
                                                  size_t length);
CERO_NODISCARD cero_status cero_file_writer_flush(cero_file_writer *writer);

/* REPLACE: flush, fsync, rename over the target, fsync the folder. APPEND: flush. */
CERO_NODISCARD cero_status cero_file_writer_commit(cero_file_writer *writer);

/* Closes; a REPLACE writer that was not committed leaves nothing behind. */
void cero_file_writer_close(cero_file_writer **writer);

/* A whole file of these bytes, by a REPLACE writer: what stood there stays until all are on the disk.
 * Errors: IO, NOMEM. */
CERO_NODISCARD cero_status cero_file_write(const char *path, const void *bytes, size_t length);

/* Makes a directory and its parents, each brought to the disk; fine if it exists. Errors: IO (also when a file
 * stands there). */
CERO_NODISCARD cero_status cero_file_make_dir(const char *path);

typedef enum cero_file_kind {
    CERO_FILE_ABSENT = 0,
    CERO_FILE_REGULAR = 1,
    CERO_FILE_DIRECTORY = 2,
    CERO_FILE_OTHER = 3
} cero_file_kind;

/* What stands at a path; ABSENT also when it may not be looked at. Size in bytes for REGULAR (or NULL). */
cero_file_kind cero_file_stat(const char *path, int64_t *nbytes);

/* Regular files below a directory, recursively, sorted by name, symbolic links to files followed.
 * Names starting with '.' are left out. Free with cero_file_list_cleanup. Errors: IO, NOMEM. */
typedef struct cero_file_list {
    char **path;
    int64_t count;
    int64_t capacity;
} cero_file_list;

CERO_NODISCARD cero_status cero_file_list_dir(const char *path, bool is_recursive,
                                              cero_file_list *out);
void cero_file_list_cleanup(cero_file_list *list);

/* "dir/name" as a new string (cero_delete), NULL when there is no memory. */
char *cero_file_join(const char *dir, const char *name);

#endif
