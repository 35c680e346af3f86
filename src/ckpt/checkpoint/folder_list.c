/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which checkpoints a folder has, by their names and manifests; tensors are not read.
 *
 * Nothing in the folder is trusted or an error of the list: what is no checkpoint is told with its reason, and what
 * has none of our names is not ours.
 */
#include "ckpt/checkpoint/folder_impl.h"

#include "base/file.h"
#include "base/memory.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum {
    MAX_FAULTS = 6 /* files that a message names */
};

/* Why a file is not what the manifest says; NULL if it is. `text` holds the reason. */
static const char *find_fault(const char *path, const cero_manifest_file *file, char *text,
                              size_t size)
{
    struct stat info;

    if (lstat(path, &info) != 0) {
        (void)snprintf(text, size, "%s", strerror(errno));
    } else if (!S_ISREG(info.st_mode)) {
        (void)snprintf(text, size, "%s",
                       S_ISLNK(info.st_mode) ? "a symbolic link" : "not a regular file");
    } else if ((int64_t)info.st_size != file->nbytes) {
        (void)snprintf(text, size, "%lld bytes, expected %lld", (long long)info.st_size,
                       (long long)file->nbytes);
    } else {
        return NULL;
    }
    return text;
}

cero_status cero_folder_check_files(const char *path, const cero_manifest *manifest)
{
    cero_text faults = {0};
    int64_t count = 0;
    cero_status st = CERO_OK;

    for (int64_t i = 0; i < manifest->file_count && st == CERO_OK; i++) {
        char text[128];
        char *file = cero_file_join(path, manifest->files[i].name);
        if (file == NULL) {
            st = CERO_FAIL(CERO_ERR_NOMEM, "no memory for the path of a file in %s", path);
        } else if (find_fault(file, &manifest->files[i], text, sizeof(text)) != NULL) {
            if (count++ < MAX_FAULTS) {
                cero_text_printf(&faults, "%s%s (%s)", count > 1 ? ", " : "",
                                 manifest->files[i].name, text);
            }
        }
        cero_delete(file);
    }
    if (st == CERO_OK && count > 0) {
        if (count > MAX_FAULTS) {
            cero_text_printf(&faults, " and %lld more", (long long)(count - MAX_FAULTS));
        }
        st =
            CERO_FAIL(CERO_ERR_IO,
                      "%lld of the %lld files of %s, which are named by the ranks that wrote them, "
                      "are not there as they were written: %s; all ranks must see one folder, on "
                      "a file system that their hosts share",
                      (long long)count, (long long)manifest->file_count, path,
                      faults.data != NULL ? faults.data : "");
    }
    cero_text_cleanup(&faults);
    return st;
}

static cero_status set_reason(cero_folder_entry *entry, const char *reason)
{
    entry->kind = CERO_FOLDER_BROKEN;
    entry->reason = cero_strdup(reason);
    return entry->reason != NULL
               ? CERO_OK
               : CERO_FAIL(CERO_ERR_NOMEM, "no memory for what is wrong with %s", entry->name);
}

static int64_t count_bytes(const char *path, const cero_manifest *manifest)
{
    int64_t total = 0;
    char *file = cero_file_join(path, CERO_MANIFEST_NAME);

    if (file != NULL) {
        (void)cero_file_stat(file, &total);
    }
    cero_delete(file);
    for (int64_t i = 0; i < manifest->file_count; i++) {
        if (__builtin_add_overflow(total, manifest->files[i].nbytes, &total)) {
            return INT64_MAX;
        }
    }
    return total;
}

/* A folder under a final name, or one that was replaced. */
static cero_status look_into(const char *path, cero_folder_entry *entry)
{
    cero_manifest manifest = {0};
    cero_status st = cero_manifest_read(path, &manifest);

    if (st == CERO_OK) {
        st = cero_folder_check_files(path, &manifest);
    }
    if (st == CERO_OK) {
        entry->kind = CERO_FOLDER_COMPLETE;
        entry->step = manifest.step;
        memcpy(entry->id, manifest.id, sizeof(entry->id));
        memcpy(entry->run, manifest.run, sizeof(entry->run));
        entry->nbytes = count_bytes(path, &manifest);
    } else if (st != CERO_ERR_NOMEM) {
        st = set_reason(entry, cero_error_message());
    }
    cero_manifest_cleanup(&manifest);
    return st;
}

/* Takes what stands under a name into the list, if it is one of ours. */
static cero_status add_entry(const char *dir, const char *name, int64_t *capacity,
                             cero_folder_list *list)
{
    char tag[CERO_FOLDER_MAX_TAG];
    struct stat info;
    cero_folder_name kind = cero_folder_name_parse(name, tag);
    // What a writer of the hint left when it was killed.
    bool is_hint = strncmp(name, CERO_FOLDER_LATEST CERO_FOLDER_TMP,
                           strlen(CERO_FOLDER_LATEST CERO_FOLDER_TMP)) == 0;
    cero_folder_entry entry = {.kind = CERO_FOLDER_ORPHAN, .step = -1};

    if ((kind == CERO_FOLDER_NAME_OTHER && !is_hint) || strlen(name) >= sizeof(entry.name)) {
        return CERO_OK;
    }
    memcpy(entry.name, name, strlen(name) + 1);
    char *path = cero_file_join(dir, name);
    void *array = list->entries;
    cero_status st = path == NULL
                         ? CERO_FAIL(CERO_ERR_NOMEM, "no memory for a path in %s", dir)
                         : cero_grow(&array, list->count, capacity, sizeof(list->entries[0]));
    list->entries = array;
    bool is_there = st == CERO_OK && lstat(path, &info) == 0;
    bool is_ours = is_there && (is_hint ? S_ISREG(info.st_mode) : S_ISDIR(info.st_mode));
    if (is_ours && !is_hint && kind != CERO_FOLDER_NAME_TMP) {
        st = look_into(path, &entry);
    } else if (is_there && kind == CERO_FOLDER_NAME_TAG && S_ISLNK(info.st_mode)) {
        is_ours = true;
        st = set_reason(&entry, "it is a symbolic link; a checkpoint is a folder of its own");
    }
    if (st == CERO_OK && is_ours) {
        list->entries[list->count++] = entry;
    }
    cero_delete(path);
    return st;
}

static int entry_group(const cero_folder_entry *entry)
{
    return entry->kind != CERO_FOLDER_COMPLETE ? 2 : entry->is_replaced ? 1 : 0;
}

static int compare_entries(const void *left, const void *right)
{
    const cero_folder_entry *a = left;
    const cero_folder_entry *b = right;
    int group = entry_group(a) - entry_group(b);

    if (group != 0) {
        return group;
    }
    if (a->step != b->step) {
        return a->step > b->step ? -1 : 1;
    }
    return strcmp(a->name, b->name);
}

static void mark_replaced(cero_folder_list *list)
{
    for (int64_t i = 0; i < list->count; i++) {
        cero_folder_entry *old = &list->entries[i];
        char tag[CERO_FOLDER_MAX_TAG];
        if (cero_folder_name_parse(old->name, tag) != CERO_FOLDER_NAME_OLD) {
            continue;
        }
        for (int64_t k = 0; k < list->count && !old->is_replaced; k++) {
            old->is_replaced = list->entries[k].kind == CERO_FOLDER_COMPLETE &&
                               strcmp(list->entries[k].name, tag) == 0;
        }
    }
}

static void read_hint(const char *dir, cero_folder_list *list)
{
    char *path = cero_file_join(dir, CERO_FOLDER_LATEST);
    char *text = NULL;
    size_t length;

    if (path != NULL && cero_file_stat(path, NULL) == CERO_FILE_REGULAR &&
        cero_file_read(path, 4096, &text, &length) == CERO_OK) {
        text[strcspn(text, "\r\n")] = '\0';
        if (cero_folder_is_tag(text)) {
            memcpy(list->latest, text, strlen(text) + 1); // shorter: it is a tag
        }
    }
    cero_delete(text);
    cero_delete(path);
}

static cero_status read_names(const char *dir, DIR *stream, cero_folder_list *list)
{
    int64_t capacity = 0;

    for (;;) {
        errno = 0;
        const struct dirent *e = readdir(stream);
        if (e == NULL) {
            CERO_CHECK(errno == 0, CERO_ERR_IO, "cannot list the checkpoints in %s: %s", dir,
                       strerror(errno));
            return CERO_OK;
        }
        CERO_TRY(add_entry(dir, e->d_name, &capacity, list));
    }
}

cero_status cero_folder_list_read(const char *dir, cero_folder_list *out)
{
    cero_folder_list list = {0};
    DIR *stream = opendir(dir);

    if (stream == NULL && errno == ENOENT) {
        *out = list;
        return CERO_OK;
    }
    if (stream == NULL) {
        return CERO_FAIL(CERO_ERR_IO, "cannot list the checkpoints in %s: %s", dir,
                         strerror(errno));
    }
    cero_status st = read_names(dir, stream, &list);
    (void)closedir(stream);
    if (st != CERO_OK) {
        cero_folder_list_cleanup(&list);
        return st;
    }
    mark_replaced(&list);
    if (list.count > 1) {
        qsort(list.entries, (size_t)list.count, sizeof(list.entries[0]), compare_entries);
    }
    read_hint(dir, &list);
    *out = list;
    return CERO_OK;
}

void cero_folder_list_cleanup(cero_folder_list *list)
{
    for (int64_t i = 0; i < list->count; i++) {
        cero_delete(list->entries[i].reason);
    }
    cero_delete(list->entries);
    *list = (cero_folder_list){0};
}
