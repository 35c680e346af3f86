/* SPDX-License-Identifier: Apache-2.0 */
/* A folder for the checkpoints of a test, the same for all ranks of a start, and what is in it. */
#ifndef CERO_TESTS_MPI_SHARED_DIR_H
#define CERO_TESTS_MPI_SHARED_DIR_H

#include "harness.h"

#include "base/file.h"

#include <dirent.h>
#include <mpi.h>
#include <sys/stat.h>
#include <unistd.h>

static char dir[128];

/* A new folder, the same on all ranks of the start. */
static inline void make_dir(void)
{
    const char *root = getenv("TMPDIR");
    int rank = -1;

    (void)snprintf(dir, sizeof(dir), "%.80s/cero-checkpoint-XXXXXX", root != NULL ? root : "/tmp");
    (void)MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 0) {
        assert_non_null(mkdtemp(dir));
    }
    (void)MPI_Bcast(dir, sizeof(dir), MPI_CHAR, 0, MPI_COMM_WORLD);
}

static inline void remove_tree(const char *path)
{
    DIR *d = opendir(path);
    char child[512];

    for (struct dirent *e = d != NULL ? readdir(d) : NULL; e != NULL; e = readdir(d)) {
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0) {
            (void)snprintf(child, sizeof(child), "%.240s/%.255s", path, e->d_name);
            if (unlink(child) != 0) {
                remove_tree(child);
            }
        }
    }
    if (d != NULL) {
        (void)closedir(d);
    }
    (void)rmdir(path);
}

static inline void remove_dir(void)
{
    int rank = -1;

    (void)MPI_Barrier(MPI_COMM_WORLD);
    (void)MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 0) {
        remove_tree(dir);
    }
    (void)MPI_Barrier(MPI_COMM_WORLD);
}

/* Entries of the folder that are no lock and no hint: checkpoints, and what failures left. */
static inline int count_entries(void)
{
    DIR *d = opendir(dir);
    int count = 0;

    assert_non_null(d);
    for (struct dirent *e = readdir(d); e != NULL; e = readdir(d)) {
        count += e->d_name[0] != '.' && strcmp(e->d_name, "latest") != 0 ? 1 : 0;
    }
    (void)closedir(d);
    return count;
}

/* True when DIR/NAME is there. */
static inline bool has_entry(const char *name)
{
    char path[512];

    (void)snprintf(path, sizeof(path), "%s/%s", dir, name);
    return cero_file_stat(path, NULL) != CERO_FILE_ABSENT;
}

/* On all ranks, of which those that failed first have the status. */
static inline void assert_fails_on_all(cero_status st, cero_status expected, const char *text)
{
    if (st != expected && st != CERO_ERR_REMOTE) {
        fail_msg("%s, expected %s: %s", cero_status_name(st), cero_status_name(expected),
                 st != CERO_OK ? cero_error_message() : "");
    }
    if (strstr(cero_error_message(), text) == NULL) {
        fail_msg("the message \"%s\" lacks \"%s\"", cero_error_message(), text);
    }
}

#endif
