/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which checkpoints go, and how: the name first, on the disk, then the files.
 *
 * A folder that has lost files never has a name that readers look at. Only folders with our names and files in them
 * are touched; a folder inside one is not ours and stays.
 */
#include "ckpt/checkpoint/folder_impl.h"

#include "base/file.h"
#include "base/io.h"
#include "base/log.h"
#include "base/memory.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static int compare_names(const void *left, const void *right)
{
    const char *const *a = left;
    const char *const *b = right;

    return strcmp(*a, *b);
}

/* Paths, sorted, of all in a folder but for "." and "..", hidden ones and links that lead nowhere included. */
static cero_status list_names(const char *path, char ***names, int64_t *count)
{
    DIR *stream = opendir(path);
    int64_t capacity = 0;
    cero_status st = CERO_OK;

    if (stream == NULL) {
        return CERO_FAIL(CERO_ERR_IO, "cannot list %s: %s", path, strerror(errno));
    }
    for (const struct dirent *e = readdir(stream); e != NULL && st == CERO_OK;
         e = readdir(stream)) {
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0) {
            continue;
        }
        void *array = *names;
        st = cero_grow(&array, *count, &capacity, sizeof((*names)[0]));
        *names = array;
        if (st == CERO_OK) {
            (*names)[*count] = cero_file_join(path, e->d_name);
            st = (*names)[*count] != NULL
                     ? CERO_OK
                     : CERO_FAIL(CERO_ERR_NOMEM, "no memory for a path in %s", path);
            *count += st == CERO_OK;
        }
    }
    (void)closedir(stream);
    if (*count > 1) {
        qsort((void *)*names, (size_t)*count, sizeof((*names)[0]), compare_names);
    }
    return st;
}

cero_status cero_folder_erase(const char *path)
{
    char **names = NULL;
    int64_t count = 0;
    cero_status st = list_names(path, &names, &count);

    for (int64_t i = 0; i < count; i++) {
        if (st == CERO_OK && cero_io_unlink(names[i]) != 0) {
            st = CERO_FAIL(CERO_ERR_IO, "cannot remove %s: %s", names[i], strerror(errno));
        }
        cero_delete(names[i]);
    }
    cero_delete((void *)names);
    CERO_TRY(st);
    if (cero_io_rmdir(path) != 0) {
        return CERO_FAIL(CERO_ERR_IO, "cannot remove %s: %s", path, strerror(errno));
    }
    return CERO_OK;
}

cero_status cero_folder_remove(const char *dir, const char *name)
{
    char tag[CERO_FOLDER_MAX_TAG];
    char id[CERO_MANIFEST_ID];
    cero_status st = CERO_OK;

    (void)cero_folder_name_parse(name, tag);
    cero_manifest_make_id(id);
    char *from = cero_file_join(dir, name);
    char *to = cero_folder_path(dir, tag, CERO_FOLDER_TMP, id);
    if (from == NULL || to == NULL) {
        CERO_FAIL_GOTO(out, CERO_ERR_NOMEM, "no memory to remove %s from %s", name, dir);
    }
    if (cero_io_rename(from, to) != 0) {
        CERO_FAIL_GOTO(out, CERO_ERR_IO, "cannot remove %s: moving it to %s: %s", from, to,
                       strerror(errno));
    }
    if (cero_io_fsync_folder(dir) != 0) {
        CERO_FAIL_GOTO(out, CERO_ERR_IO, "bringing the directory %s to disk: %s", dir,
                       strerror(errno));
    }
    CERO_TRY_GOTO(cero_folder_erase(to), out);

out:
    cero_delete(from);
    cero_delete(to);
    return st;
}

cero_status cero_folder_remove_old(const char *dir, const char *tag)
{
    char **names = NULL;
    int64_t count = 0;
    cero_status st = list_names(dir, &names, &count);

    for (int64_t i = 0; i < count; i++) {
        const char *name = strrchr(names[i], '/') + 1;
        char of[CERO_FOLDER_MAX_TAG];
        if (st == CERO_OK && cero_folder_name_parse(name, of) == CERO_FOLDER_NAME_OLD &&
            strcmp(of, tag) == 0) {
            st = cero_folder_remove(dir, name);
        }
        cero_delete(names[i]);
    }
    cero_delete((void *)names);
    return st;
}

static cero_status sweep_entry(const char *dir, const cero_folder_entry *entry)
{
    char tag[CERO_FOLDER_MAX_TAG];
    char *path;
    cero_status st;

    if (entry->is_replaced) {
        return cero_folder_remove(dir, entry->name);
    }
    path = cero_file_join(dir, entry->name);
    if (path == NULL) {
        return CERO_FAIL(CERO_ERR_NOMEM, "no memory to remove %s from %s", entry->name, dir);
    }
    if (cero_folder_name_parse(entry->name, tag) == CERO_FOLDER_NAME_TMP) {
        st = cero_folder_erase(path);
    } else {
        st = cero_io_unlink(path) == 0
                 ? CERO_OK
                 : CERO_FAIL(CERO_ERR_IO, "cannot remove %s: %s", path, strerror(errno));
    }
    cero_delete(path);
    return st;
}

/* True when a name says that something may be left over: what costs a look at manifests is rare. */
static cero_status has_leftovers(const char *dir, bool *found)
{
    char **names = NULL;
    int64_t count = 0;
    cero_status st = CERO_OK;

    *found = false;
    if (cero_file_stat(dir, NULL) == CERO_FILE_DIRECTORY) {
        st = list_names(dir, &names, &count);
    }
    for (int64_t i = 0; i < count; i++) {
        const char *name = strrchr(names[i], '/') + 1;
        *found = *found || strstr(name, CERO_FOLDER_TMP) != NULL ||
                 strstr(name, CERO_FOLDER_OLD) != NULL;
        cero_delete(names[i]);
    }
    cero_delete((void *)names);
    return st;
}

cero_status cero_folder_sweep(const char *dir, int64_t *removed)
{
    cero_folder_list list = {0};
    cero_status st = CERO_OK;
    int64_t count = 0;
    bool found = false;

    *removed = 0;
    CERO_TRY(has_leftovers(dir, &found));
    if (found) {
        CERO_TRY(cero_folder_list_read(dir, &list));
    }
    for (int64_t i = 0; i < list.count && st != CERO_ERR_NOMEM; i++) {
        const cero_folder_entry *e = &list.entries[i];
        if (e->kind != CERO_FOLDER_ORPHAN && !e->is_replaced) {
            continue;
        }
        st = sweep_entry(dir, e);
        count += st == CERO_OK;
        if (st == CERO_ERR_IO) {
            cero_log(CERO_LOG_WARN, "ckpt", "%s is left over in %s and stays: %s", e->name, dir,
                     cero_error_message());
        }
    }
    cero_folder_list_cleanup(&list);
    if (st == CERO_ERR_NOMEM) {
        return st;
    }
    *removed = count;
    return CERO_OK;
}

/* True for the checkpoints that are counted and may go. */
static bool is_of_run(const cero_folder_entry *entry, const char *run)
{
    return entry->kind == CERO_FOLDER_COMPLETE && !entry->is_replaced &&
           strcmp(entry->run, run) == 0;
}

cero_status cero_folder_retain(const char *dir, const char *run, const char *tag, int64_t keep,
                               int64_t *removed)
{
    cero_folder_list list = {0};
    cero_status st = CERO_OK;
    int64_t seen = 0;
    int64_t count = 0;

    if (keep > 0) {
        CERO_TRY(cero_folder_list_read(dir, &list));
    }
    // By falling step: what comes after the first `keep` goes.
    for (int64_t i = 0; i < list.count && st == CERO_OK; i++) {
        const cero_folder_entry *e = &list.entries[i];
        if (is_of_run(e, run) && ++seen > keep && strcmp(e->name, tag) != 0) {
            st = cero_folder_remove(dir, e->name);
            count += st == CERO_OK;
        }
    }
    cero_folder_list_cleanup(&list);
    CERO_TRY(st);
    *removed = count;
    return CERO_OK;
}

cero_status cero_folder_is_full(const char *dir, const char *run, int64_t keep, bool *is_full)
{
    cero_folder_list list = {0};
    int64_t count = 0;

    if (keep > 0) {
        CERO_TRY(cero_folder_list_read(dir, &list));
    }
    for (int64_t i = 0; i < list.count; i++) {
        count += is_of_run(&list.entries[i], run);
    }
    cero_folder_list_cleanup(&list);
    *is_full = keep > 0 && count >= keep;
    return CERO_OK;
}
