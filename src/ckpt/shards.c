/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opening one or several safetensors files as one model.
 *
 * model.safetensors wins over an index beside it, as in Hugging Face's loader; what an index may say is in
 * shards_index.c. Shards may be links, as in the cache of Hugging Face's hub, but only into the directory or into
 * that cache's own blobs.
 */
#include "ckpt/shards_impl.h"

#include "base/file.h"
#include "base/log.h"
#include "base/memory.h"
#include "ckpt/foreign.h"
#include "ckpt/staging.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct cero_shards {
    char *dir;                /* owned */
    cero_safetensors **file;  /* [file_count], owned */
    cero_shards_entry *entry; /* [count], owned, sorted by name */
    int64_t count;
    int file_count;
};

/* True if `path`, links resolved, lies in the folder `root`, links resolved. */
static bool is_inside(const char *path, const char *root)
{
    char *real_path = realpath(path, NULL);
    char *real_root = realpath(root, NULL);
    size_t n = real_root == NULL ? 0 : strlen(real_root);
    bool is_in =
        real_path != NULL && n > 1 && strncmp(real_path, real_root, n) == 0 && real_path[n] == '/';

    free(real_path); // from realpath, the only memory here that is not base's
    free(real_root);
    return is_in;
}

/* A link may lead to another file of the directory, or from hub/snapshots/X to hub/blobs. */
static cero_status check_links(const char *dir, const char *path)
{
    char *up = cero_file_join(dir, "../../snapshots");
    char *blobs = cero_file_join(dir, "../../blobs");
    bool has_memory = up != NULL && blobs != NULL;
    bool is_good =
        is_inside(path, dir) || (has_memory && is_inside(dir, up) && is_inside(path, blobs));

    cero_delete(up);
    cero_delete(blobs);
    if (!has_memory) {
        return CERO_FAIL(CERO_ERR_NOMEM, "no memory to open %s", path);
    }
    if (!is_good) {
        return CERO_FAIL(CERO_ERR_CORRUPT,
                         "%s is a link to a file outside of %s, which an index may not lead to",
                         path, dir);
    }
    return CERO_OK;
}

static cero_status add_file(cero_shards *shards, const char *path, cero_safetensors **file)
{
    cero_safetensors **grown =
        cero_renew((void *)shards->file, (size_t)shards->file_count + 1, sizeof(shards->file[0]));

    if (grown == NULL) {
        return CERO_FAIL(CERO_ERR_NOMEM, "no memory to open %s", path);
    }
    shards->file = grown;
    CERO_TRY(cero_safetensors_open(path, &shards->file[shards->file_count]));
    *file = shards->file[shards->file_count++];
    return CERO_OK;
}

/* The tensors of a file and those the index puts into it, both sorted by name, are the same. */
static cero_status check_same(const cero_shards_index *map, const cero_shards_place *m,
                              int64_t count, const cero_safetensors *file)
{
    char name[CERO_SAFETENSORS_QUOTE];

    for (int64_t i = 0; i < count; i++) {
        if (cero_safetensors_find(file, m[i].name) == NULL) {
            return CERO_FAIL(CERO_ERR_CORRUPT, "%s:%d:%d: tensor %s should be in %s and is not",
                             map->path, m[i].value->line, m[i].value->column,
                             cero_safetensors_quote(m[i].name, name, sizeof(name)),
                             cero_safetensors_path(file));
        }
    }
    for (int64_t i = 0; i < cero_safetensors_count(file); i++) {
        const cero_shards_place key = {.file = m[0].file,
                                       .name = cero_safetensors_get(file, i)->name};
        if (bsearch(&key, m, (size_t)count, sizeof(m[0]), cero_shards_place_compare) == NULL) {
            return CERO_FAIL(CERO_ERR_CORRUPT, "%s holds tensor %s, which %s does not place there",
                             cero_safetensors_path(file),
                             cero_safetensors_quote(key.name, name, sizeof(name)), map->path);
        }
    }
    return CERO_OK;
}

/* Opens the file that m[0..count) are mapped to. */
static cero_status open_shard(cero_shards *shards, const cero_shards_index *map,
                              const cero_shards_place *m, int64_t count)
{
    cero_safetensors *file = NULL;
    cero_status st = CERO_OK;
    char *path = cero_file_join(shards->dir, m[0].file);

    if (path == NULL) {
        return CERO_FAIL(CERO_ERR_NOMEM, "no memory to open %s", m[0].file);
    }
    if (cero_file_stat(path, NULL) == CERO_FILE_ABSENT) {
        CERO_FAIL_GOTO(out, CERO_ERR_IO, "%s is not there; %s places %lld of %lld tensors in it",
                       path, map->path, (long long)count, (long long)map->count);
    }
    CERO_TRY_GOTO(check_links(shards->dir, path), out);
    CERO_TRY_GOTO(add_file(shards, path, &file), out);
    CERO_TRY_GOTO(check_same(map, m, count, file), out);

out:
    cero_delete(path);
    return st;
}

static bool is_mapped(const cero_shards_index *map, const char *file)
{
    for (int64_t i = 0; i < map->count; i++) {
        if (strcmp(map->place[i].file, file) == 0) {
            return true;
        }
    }
    return false;
}

/* Weights beside the index that it does not name: one line each. */
static cero_status log_stray_files(const char *dir, const cero_shards_index *map)
{
    cero_file_list list = {0};

    CERO_TRY(cero_file_list_dir(dir, false, &list));
    for (int64_t i = 0; i < list.count; i++) {
        const char *slash = strrchr(list.path[i], '/');
        const char *name = slash == NULL ? list.path[i] : slash + 1;
        size_t n = strlen(name);
        if (n > 12 && strcmp(name + n - 12, ".safetensors") == 0 && !is_mapped(map, name)) {
            cero_log_warn_once("ckpt", "ignored %s: the index beside it does not name it",
                               list.path[i]);
        }
    }
    cero_file_list_cleanup(&list);
    return CERO_OK;
}

static cero_status open_indexed(cero_shards *shards)
{
    cero_status st = CERO_OK;
    cero_shards_index map = {0};

    CERO_TRY_GOTO(cero_shards_index_read(shards->dir, &map), out);
    for (int64_t i = 0; i < map.count;) {
        int64_t n = 1;
        while (i + n < map.count && strcmp(map.place[i].file, map.place[i + n].file) == 0) {
            n++;
        }
        CERO_TRY_GOTO(open_shard(shards, &map, &map.place[i], n), out);
        i += n;
    }
    CERO_TRY_GOTO(log_stray_files(shards->dir, &map), out);

out:
    cero_shards_index_cleanup(&map);
    return st;
}

static bool has_file(const char *dir, const char *name)
{
    char *path = cero_file_join(dir, name);
    bool is_there = path != NULL && cero_file_stat(path, NULL) != CERO_FILE_ABSENT;

    cero_delete(path);
    return is_there;
}

/* A file of weights that neither of the two names leads to, NULL if there is none. Free with cero_delete. */
static char *find_stray(const char *dir)
{
    char *found = NULL;
    cero_file_list list = {0};

    if (cero_file_list_dir(dir, false, &list) == CERO_OK) {
        for (int64_t i = 0; i < list.count && found == NULL; i++) {
            found =
                cero_text_match("*.safetensors", list.path[i]) ? cero_strdup(list.path[i]) : NULL;
        }
        cero_file_list_cleanup(&list);
    }
    return found;
}

static cero_status fail_without_weights(const char *dir)
{
    CERO_TRY(cero_foreign_check(dir));
    char *stray = find_stray(dir);
    cero_status st =
        CERO_FAIL(stray == NULL ? CERO_ERR_IO : CERO_ERR_CORRUPT,
                  "%s has no weights: neither %s nor %s is there%s%s", dir, CERO_SHARDS_SINGLE,
                  CERO_SHARDS_INDEX, stray == NULL ? "" : ", which would have to name ",
                  stray == NULL ? "" : stray);
    cero_delete(stray);
    return st;
}

cero_status cero_shards_look(const char *path, bool *has_weights)
{
    cero_status st = CERO_OK;
    char *stray = NULL;

    *has_weights = has_file(path, CERO_SHARDS_SINGLE) || has_file(path, CERO_SHARDS_INDEX);
    if (!*has_weights) {
        CERO_TRY(cero_foreign_check(path));
        stray = cero_file_stat(path, NULL) == CERO_FILE_DIRECTORY ? find_stray(path) : NULL;
        st = stray == NULL ? CERO_OK : fail_without_weights(path);
    }
    cero_delete(stray);
    return st;
}

static cero_status open_files(cero_shards *shards)
{
    if (has_file(shards->dir, CERO_SHARDS_SINGLE)) {
        cero_safetensors *file;
        char *path = cero_file_join(shards->dir, CERO_SHARDS_SINGLE);
        if (path == NULL) {
            return CERO_FAIL(CERO_ERR_NOMEM, "no memory to open the weights of %s", shards->dir);
        }
        if (has_file(shards->dir, CERO_SHARDS_INDEX)) {
            cero_log_warn_once("ckpt", "ignored %s of %s: %s beside it is taken", CERO_SHARDS_INDEX,
                               shards->dir, CERO_SHARDS_SINGLE);
        }
        cero_status st = add_file(shards, path, &file);
        cero_delete(path);
        return st;
    }
    return has_file(shards->dir, CERO_SHARDS_INDEX) ? open_indexed(shards)
                                                    : fail_without_weights(shards->dir);
}

static int compare_entries(const void *left, const void *right)
{
    const cero_shards_entry *a = left;
    const cero_shards_entry *b = right;

    return strcmp(a->tensor->name, b->tensor->name);
}

/* Names differ between files, as the index cannot map a name twice. */
static cero_status list_tensors(cero_shards *shards)
{
    int64_t total = 0;

    for (int i = 0; i < shards->file_count; i++) {
        total += cero_safetensors_count(shards->file[i]);
    }
    shards->entry = cero_new((size_t)total + 1, sizeof(shards->entry[0]));
    if (shards->entry == NULL) {
        return CERO_FAIL(CERO_ERR_NOMEM, "no memory for the %lld tensors of %s", (long long)total,
                         shards->dir);
    }
    for (int i = 0; i < shards->file_count; i++) {
        for (int64_t k = 0; k < cero_safetensors_count(shards->file[i]); k++) {
            shards->entry[shards->count++] = (cero_shards_entry){
                .file = shards->file[i], .tensor = cero_safetensors_get(shards->file[i], k)};
        }
    }
    qsort(shards->entry, (size_t)total, sizeof(shards->entry[0]), compare_entries);
    return CERO_OK;
}

/* All files were open at one time and under their names: none was exchanged since the first was opened. */
static cero_status check_unchanged(const cero_shards *shards)
{
    CERO_TRY(cero_staging_check(shards->dir));
    for (int i = 0; i < shards->file_count; i++) {
        if (!cero_safetensors_is_in_place(shards->file[i])) {
            return CERO_FAIL(CERO_ERR_IO,
                             "%s was replaced while the weights of %s were opened; try again",
                             cero_safetensors_path(shards->file[i]), shards->dir);
        }
    }
    return CERO_OK;
}

cero_status cero_shards_open(const char *dir, cero_shards **out)
{
    cero_status st = CERO_OK;
    cero_shards *shards = cero_new(1, sizeof(*shards));

    if (shards == NULL || (shards->dir = cero_strdup(dir)) == NULL) {
        CERO_FAIL_GOTO(fail, CERO_ERR_NOMEM, "no memory to open the weights of %s", dir);
    }
    CERO_TRY_GOTO(cero_staging_check(dir), fail);
    CERO_TRY_GOTO(open_files(shards), fail);
    CERO_TRY_GOTO(check_unchanged(shards), fail);
    CERO_TRY_GOTO(list_tensors(shards), fail);
    *out = shards;
    return CERO_OK;

fail:
    cero_shards_close(&shards);
    return st;
}

void cero_shards_close(cero_shards **shards)
{
    if (shards == NULL || *shards == NULL) {
        return;
    }
    for (int i = 0; i < (*shards)->file_count; i++) {
        cero_safetensors_close(&(*shards)->file[i]);
    }
    cero_delete((void *)(*shards)->file);
    cero_delete((*shards)->entry);
    cero_delete((*shards)->dir);
    cero_delete(*shards);
    *shards = NULL;
}

int64_t cero_shards_count(const cero_shards *shards)
{
    return shards->count;
}

const cero_shards_entry *cero_shards_get(const cero_shards *shards, int64_t i)
{
    CERO_ASSERT(i >= 0 && i < shards->count);
    return &shards->entry[i];
}

static int compare_key(const void *key, const void *element)
{
    const cero_shards_entry *entry = element;

    return strcmp(key, entry->tensor->name);
}

const cero_shards_entry *cero_shards_find(const cero_shards *shards, const char *name)
{
    return bsearch(name, shards->entry, (size_t)shards->count, sizeof(shards->entry[0]),
                   compare_key);
}

int cero_shards_file_count(const cero_shards *shards)
{
    return shards->file_count;
}

int64_t cero_shards_bytes_read(const cero_shards *shards)
{
    int64_t total = 0;

    for (int i = 0; i < shards->file_count; i++) {
        total += cero_safetensors_bytes_read(shards->file[i]);
    }
    return total;
}

const char *cero_shards_name(int64_t i, int64_t n, char *text, size_t size)
{
    if (n == 1) {
        (void)snprintf(text, size, "%s", CERO_SHARDS_SINGLE);
    } else {
        (void)snprintf(text, size, "model-%05lld-of-%05lld.safetensors", (long long)(i + 1),
                       (long long)n);
    }
    return text;
}

void cero_shards_split(const int64_t *nbytes, int64_t count, int64_t max_bytes, int64_t *shard_of,
                       int64_t *shard_count)
{
    int64_t shard = 0;
    int64_t used = 0;
    int64_t members = 0;

    for (int64_t i = 0; i < count; i++) {
        if (members > 0 && nbytes[i] > max_bytes - used) {
            shard++;
            used = 0;
            members = 0;
        }
        shard_of[i] = shard;
        used = nbytes[i] > max_bytes - used ? max_bytes : used + nbytes[i];
        members++;
    }
    *shard_count = shard + 1;
}
