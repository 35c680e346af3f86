/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading files and folders; writing is in file_writer.c.
 *
 * Sizes are not trusted: a regular file is read until its end even when it grew or shrank since it was
 * looked at, and pipes are read as they come, up to the caller's limit.
 */
#include "base/file.h"

#include "base/io.h"
#include "base/memory.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* Opens for reading and looks; refuses folders. */
static cero_status open_input(const char *path, int *fd, struct stat *info)
{
    int handle = cero_io_open_read(path);

    if (handle < 0) {
        return CERO_FAIL(CERO_ERR_IO, "cannot open %s for reading: %s", path, strerror(errno));
    }
    if (fstat(handle, info) != 0) {
        int error = errno;
        (void)close(handle);
        return CERO_FAIL(CERO_ERR_IO, "cannot look at %s: %s", path, strerror(error));
    }
    if (S_ISDIR(info->st_mode)) {
        (void)close(handle);
        return CERO_FAIL(CERO_ERR_IO, "%s is a directory, expected a file", path);
    }
    *fd = handle;
    return CERO_OK;
}

/* Reads to the end into a block that grows; one byte more than wanted shows that there is more. */
static cero_status read_all(int fd, const char *path, size_t expected, size_t max_bytes,
                            char **bytes, size_t *length)
{
    size_t capacity = expected + 2;
    size_t used = 0;
    char *block = cero_new(capacity, 1);

    while (block != NULL) {
        ssize_t got = cero_io_read(fd, block + used, capacity - 1 - used);
        if (got < 0) {
            int error = errno;
            cero_delete(block);
            return CERO_FAIL(CERO_ERR_IO, "cannot read %s at byte %zu: %s", path, used,
                             strerror(error));
        }
        if (got == 0) {
            block[used] = '\0';
            *bytes = block;
            *length = used;
            return CERO_OK;
        }
        used += (size_t)got;
        if (used > max_bytes) {
            cero_delete(block);
            return CERO_FAIL(CERO_ERR_IO, "%s has more than the %zu bytes that are read of it",
                             path, max_bytes);
        }
        if (used + 1 >= capacity) {
            char *grown = capacity > SIZE_MAX / 2 ? NULL : cero_renew(block, capacity * 2, 1);
            if (grown == NULL) {
                break;
            }
            block = grown;
            capacity *= 2;
        }
    }
    cero_delete(block);
    return CERO_FAIL(CERO_ERR_NOMEM, "no memory for %zu bytes of %s", capacity, path);
}

cero_status cero_file_read(const char *path, size_t max_bytes, char **bytes, size_t *length)
{
    struct stat info;
    int fd = -1;

    CERO_TRY(open_input(path, &fd, &info));
    if (max_bytes == 0) {
        max_bytes = SIZE_MAX;
    }
    size_t expected = S_ISREG(info.st_mode) ? (size_t)info.st_size : 4096;
    if (S_ISREG(info.st_mode) && expected > max_bytes) {
        (void)close(fd);
        return CERO_FAIL(CERO_ERR_IO, "%s has %zu bytes, more than the %zu that are read of it",
                         path, expected, max_bytes);
    }
    cero_status st = read_all(fd, path, expected, max_bytes, bytes, length);
    (void)close(fd);
    return st;
}

cero_status cero_file_map_open(const char *path, cero_file_map *out)
{
    struct stat info;
    int fd = -1;
    void *data = NULL;

    CERO_TRY(open_input(path, &fd, &info));
    if (!S_ISREG(info.st_mode)) {
        (void)close(fd);
        return CERO_FAIL(CERO_ERR_IO, "%s is not a regular file and cannot be mapped", path);
    }
    if (info.st_size > 0) {
        data = mmap(NULL, (size_t)info.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    }
    int error = errno;
    (void)close(fd);
    if (data == MAP_FAILED) {
        return CERO_FAIL(CERO_ERR_IO, "cannot map the %lld bytes of %s: %s",
                         (long long)info.st_size, path, strerror(error));
    }
    *out = (cero_file_map){.data = data, .length = (size_t)info.st_size};
    return CERO_OK;
}

void cero_file_map_close(cero_file_map *map)
{
    if (map->data != NULL) {
        (void)munmap((void *)(uintptr_t)map->data, map->length);
    }
    *map = (cero_file_map){0};
}

cero_file_kind cero_file_stat(const char *path, int64_t *nbytes)
{
    struct stat info;

    if (stat(path, &info) != 0) {
        return CERO_FILE_ABSENT;
    }
    if (S_ISREG(info.st_mode)) {
        if (nbytes != NULL) {
            *nbytes = info.st_size;
        }
        return CERO_FILE_REGULAR;
    }
    return S_ISDIR(info.st_mode) ? CERO_FILE_DIRECTORY : CERO_FILE_OTHER;
}

static cero_status make_one_dir(const char *path)
{
    if (cero_file_stat(path, NULL) == CERO_FILE_DIRECTORY) {
        return CERO_OK;
    }
    if (cero_io_mkdir(path) != 0) {
        int error = errno;
        // Another process may have made it meanwhile.
        if (cero_file_stat(path, NULL) == CERO_FILE_DIRECTORY) {
            return CERO_OK;
        }
        return error == EEXIST
                   ? CERO_FAIL(CERO_ERR_IO, "cannot make the directory %s: a file stands there",
                               path)
                   : CERO_FAIL(CERO_ERR_IO, "cannot make the directory %s: %s", path,
                               strerror(error));
    }
    // A parent that may be written and not read cannot be synced; whoever set that up knows.
    if (cero_io_fsync_parent(path) != 0 && errno != EACCES) {
        int error = errno;
        (void)cero_io_rmdir(path); // so that the next try does not take it for one that is safe
        return CERO_FAIL(CERO_ERR_IO, "cannot bring the new directory %s to disk: %s", path,
                         strerror(error));
    }
    return CERO_OK;
}

cero_status cero_file_make_dir(const char *path)
{
    cero_status st = CERO_OK;
    char *part = cero_strdup(path);

    if (part == NULL) {
        return CERO_FAIL(CERO_ERR_NOMEM, "no memory for the path %s", path);
    }
    for (char *slash = part; st == CERO_OK && (slash = strchr(slash + 1, '/')) != NULL;) {
        *slash = '\0';
        st = make_one_dir(part);
        *slash = '/';
    }
    size_t length = strlen(part);
    if (st == CERO_OK && length > 0 && part[length - 1] != '/') {
        st = make_one_dir(part);
    }
    cero_delete(part);
    return st;
}

char *cero_file_join(const char *dir, const char *name)
{
    size_t n = strlen(dir);
    size_t m = strlen(name);
    bool needs_slash = n > 0 && dir[n - 1] != '/';
    char *path = cero_new(n + m + 2, 1);

    if (path != NULL) {
        memcpy(path, dir, n);
        if (needs_slash) {
            path[n++] = '/';
        }
        memcpy(path + n, name, m);
    }
    return path;
}

static cero_status list_into(const char *path, bool is_recursive, cero_file_list *list);

/* Adds a file, walks into a folder; takes `path`. Links to folders are not followed: no circles. */
static cero_status list_entry(char *path, bool is_recursive, cero_file_list *list)
{
    struct stat info;
    cero_status st = CERO_OK;

    if (lstat(path, &info) == 0 && S_ISDIR(info.st_mode)) {
        st = is_recursive ? list_into(path, true, list) : CERO_OK;
    } else if (cero_file_stat(path, NULL) == CERO_FILE_REGULAR) {
        void *array = list->path;
        st = cero_grow(&array, list->count, &list->capacity, sizeof(list->path[0]));
        list->path = array;
        if (st == CERO_OK) {
            list->path[list->count++] = path;
            return CERO_OK;
        }
    }
    cero_delete(path);
    return st;
}

static cero_status list_into(const char *path, bool is_recursive, cero_file_list *list)
{
    cero_status st = CERO_OK;
    DIR *dir = opendir(path);

    if (dir == NULL) {
        return CERO_FAIL(CERO_ERR_IO, "cannot list the directory %s: %s", path, strerror(errno));
    }
    for (;;) {
        errno = 0;
        const struct dirent *entry = readdir(dir);
        if (entry == NULL) {
            if (errno != 0) {
                st = CERO_FAIL(CERO_ERR_IO, "cannot list the directory %s: %s", path,
                               strerror(errno));
            }
            break;
        }
        if (entry->d_name[0] == '.') {
            continue;
        }
        char *child = cero_file_join(path, entry->d_name);
        st = child == NULL ? CERO_FAIL(CERO_ERR_NOMEM, "no memory for a path below %s", path)
                           : list_entry(child, is_recursive, list);
        if (st != CERO_OK) {
            break;
        }
    }
    (void)closedir(dir);
    return st;
}

static int compare_paths(const void *a, const void *b)
{
    const char *const *x = a;
    const char *const *y = b;
    return strcmp(*x, *y);
}

cero_status cero_file_list_dir(const char *path, bool is_recursive, cero_file_list *out)
{
    cero_file_list list = {0};
    cero_status st = list_into(path, is_recursive, &list);

    if (st != CERO_OK) {
        cero_file_list_cleanup(&list);
        return st;
    }
    if (list.count > 1) {
        qsort(list.path, (size_t)list.count, sizeof(list.path[0]), compare_paths);
    }
    *out = list;
    return CERO_OK;
}

void cero_file_list_cleanup(cero_file_list *list)
{
    for (int64_t i = 0; i < list->count; i++) {
        cero_delete(list->path[i]);
    }
    cero_delete(list->path);
    *list = (cero_file_list){0};
}
