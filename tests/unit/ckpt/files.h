/* SPDX-License-Identifier: Apache-2.0 */
/* Scratch folders and small files for the tests of ckpt. */
#ifndef CERO_TESTS_UNIT_CKPT_FILES_H
#define CERO_TESTS_UNIT_CKPT_FILES_H

#include "harness.h"

#include "base/file.h"

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

/* A fresh folder, in memory where there is such a file system; remove it with files_remove. */
static inline void files_make_dir(char *dir, size_t size)
{
    (void)snprintf(dir, size, "%s", "/dev/shm/cero-ckpt-XXXXXX");
    if (mkdtemp(dir) == NULL) {
        (void)snprintf(dir, size, "%s", "/tmp/cero-ckpt-XXXXXX");
        assert_non_null(mkdtemp(dir));
    }
}

/* Removes a folder and all below it. */
static inline void files_remove(const char *dir)
{
    DIR *d = opendir(dir);
    assert_non_null(d);
    for (const struct dirent *e = readdir(d); e != NULL; e = readdir(d)) {
        struct stat info;
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0) {
            continue;
        }
        char *path = cero_file_join(dir, e->d_name);
        assert_non_null(path);
        if (lstat(path, &info) == 0 && S_ISDIR(info.st_mode)) {
            files_remove(path);
        } else {
            assert_int_equal(unlink(path), 0);
        }
        cero_delete(path);
    }
    (void)closedir(d);
    assert_int_equal(rmdir(dir), 0);
}

/* "dir/name", valid until the 64th call after this one. */
static inline const char *files_in(const char *dir, const char *name)
{
    static char *path[64];
    static int turn;
    char *joined = cero_file_join(dir, name);

    assert_non_null(joined);
    turn = (turn + 1) % 64;
    cero_delete(path[turn]);
    path[turn] = joined;
    return joined;
}

static inline void files_write(const char *path, const void *bytes, size_t length)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, length, f), length);
    assert_int_equal(fclose(f), 0);
}

/* A safetensors file: this header (not padded), then `data_bytes` bytes of data, all `fill`. */
static inline size_t files_archive(const char *json, size_t data_bytes, int fill, char *out)
{
    uint64_t length = strlen(json);

    memcpy(out, &length, sizeof(length));
    memcpy(out + 8, json, length);
    memset(out + 8 + length, fill, data_bytes);
    return 8 + (size_t)length + data_bytes;
}

#endif
