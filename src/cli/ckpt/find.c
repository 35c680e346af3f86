/* SPDX-License-Identifier: Apache-2.0 */
/* Which checkpoint a directory of the command line stands for. */
#include "base/file.h"
#include "base/memory.h"
#include "cli/ckpt/ckpt.h"

#include <stdio.h>
#include <string.h>

#define RUN_FOLDER "checkpoints"
#define FIRST_FILE "rank-00000.safetensors"

/* True if dir/name is there. */
static bool has(const char *dir, const char *name, cero_file_kind kind)
{
    char *path = cero_file_join(dir, name);
    bool found = path != NULL && cero_file_stat(path, NULL) == kind;

    cero_delete(path);
    return found;
}

bool cero_ckpt_is_one(const char *path)
{
    return has(path, CERO_MANIFEST_NAME, CERO_FILE_REGULAR);
}

/* A broken entry may be any directory: it is a checkpoint by its name or by what is in it. */
static bool is_checkpoint(const char *dir, const cero_folder_entry *e)
{
    if (e->kind != CERO_FOLDER_BROKEN || strncmp(e->name, "step-", 5) == 0) {
        return true;
    }
    char *path = cero_file_join(dir, e->name);
    bool found =
        path != NULL && (cero_ckpt_is_one(path) || has(path, FIRST_FILE, CERO_FILE_REGULAR));
    cero_delete(path);
    return found;
}

/* The list without directories that only stand beside checkpoints. */
static cero_status read_list(const char *dir, cero_folder_list *out)
{
    int64_t kept = 0;

    CERO_TRY(cero_folder_list_read(dir, out));
    for (int64_t i = 0; i < out->count; i++) {
        if (is_checkpoint(dir, &out->entries[i])) {
            out->entries[kept++] = out->entries[i];
        } else {
            cero_delete(out->entries[i].reason);
        }
    }
    out->count = kept;
    return CERO_OK;
}

cero_status cero_ckpt_has_some(const char *path, bool *out)
{
    cero_folder_list list = {0};

    *out = has(path, RUN_FOLDER, CERO_FILE_DIRECTORY);
    if (!*out) {
        CERO_TRY(read_list(path, &list));
        *out = list.count > 0;
        cero_folder_list_cleanup(&list);
    }
    return CERO_OK;
}

void cero_ckpt_place_cleanup(cero_ckpt_place *place)
{
    cero_folder_list_cleanup(&place->list);
    cero_delete(place->dir);
    cero_delete(place->path);
    *place = (cero_ckpt_place){0};
}

static cero_status find_folder(const char *word, cero_ckpt_place *place)
{
    bool is_run = has(word, RUN_FOLDER, CERO_FILE_DIRECTORY);

    place->dir = is_run ? cero_file_join(word, RUN_FOLDER) : cero_strdup(word);
    CERO_CHECK(place->dir != NULL, CERO_ERR_NOMEM, "no memory for a path in %s", word);
    CERO_CHECK(is_run || !has(word, FIRST_FILE, CERO_FILE_REGULAR), CERO_ERR_CORRUPT,
               "%s has files of ranks, but no %s: restore it or use another checkpoint", word,
               CERO_MANIFEST_NAME);
    CERO_TRY(read_list(place->dir, &place->list));
    CERO_CHECK(is_run || place->list.count > 0, CERO_ERR_INVALID,
               "%s is no checkpoint (there is no %s in it), no folder of checkpoints and no run "
               "directory (there is no %s/ in it): name one of these",
               word, CERO_MANIFEST_NAME, RUN_FOLDER);
    return CERO_OK;
}

cero_status cero_ckpt_find(cero_cli *cli, const char *word, cero_ckpt_place *out)
{
    cero_status st = CERO_OK;
    cero_ckpt_place place = {0};

    cero_cli_at(cli, CERO_CLI_READING_INPUT, word);
    cero_file_kind kind = cero_file_stat(word, NULL);
    CERO_CHECK(kind != CERO_FILE_ABSENT, CERO_ERR_IO, "%s: there is no such directory", word);
    CERO_CHECK(kind == CERO_FILE_DIRECTORY, CERO_ERR_INVALID,
               "%s is a file, expected the directory of a checkpoint, of checkpoints or of a run",
               word);
    if (cero_ckpt_is_one(word)) {
        place.path = cero_strdup(word);
        CERO_CHECK(place.path != NULL, CERO_ERR_NOMEM, "no memory for a path");
    } else {
        CERO_TRY_GOTO(find_folder(word, &place), fail);
    }
    *out = place;
    return CERO_OK;

fail:
    cero_ckpt_place_cleanup(&place);
    return st;
}

/* A checkpoint that was being written has a manifest only in the moment before it is committed. */
static cero_status check_committed(const char *path)
{
    const char *slash = strrchr(path, '/');

    CERO_CHECK(strstr(slash == NULL ? path : slash, ".tmp-") == NULL, CERO_ERR_INVALID,
               "%s was being written or removed and never committed: name another checkpoint",
               path);
    return CERO_OK;
}

static cero_status fail_none(const cero_ckpt_place *place)
{
    cero_text text = {0};
    int64_t broken = 0;

    for (int64_t i = 0; i < place->list.count; i++) {
        const cero_folder_entry *e = &place->list.entries[i];
        if (e->kind == CERO_FOLDER_BROKEN) {
            cero_text_printf(&text, "; %s: %s", e->name,
                             e->reason != NULL ? e->reason : "for an unknown reason");
            broken++;
        }
    }
    cero_status st =
        broken == 0 ? CERO_FAIL(CERO_ERR_INVALID,
                                "%s holds no checkpoint that was committed: name another directory",
                                place->dir)
                    : CERO_FAIL(CERO_ERR_CORRUPT, "%s holds no complete checkpoint%s", place->dir,
                                text.data == NULL ? "" : text.data);
    cero_text_cleanup(&text);
    return st;
}

/* The newest complete one stands first; what is broken is told, as it may be newer. */
static cero_status choose(const cero_cli *cli, cero_ckpt_place *place)
{
    if (place->list.count == 0 || place->list.entries[0].kind != CERO_FOLDER_COMPLETE) {
        return fail_none(place);
    }
    const cero_folder_entry *newest = &place->list.entries[0];
    place->path = cero_file_join(place->dir, newest->name);
    CERO_CHECK(place->path != NULL, CERO_ERR_NOMEM, "no memory for a path in %s", place->dir);
    if (cli->common.quiet) {
        return CERO_OK;
    }
    for (int64_t i = 0; i < place->list.count; i++) {
        const cero_folder_entry *e = &place->list.entries[i];
        if (e->kind == CERO_FOLDER_BROKEN) {
            (void)fprintf(stderr, "passed over %s/%s: %s\n", place->dir, e->name,
                          e->reason != NULL ? e->reason : "broken");
        }
    }
    (void)fprintf(stderr, "newest complete checkpoint: %s, step %lld\n", place->path,
                  (long long)newest->step);
    return CERO_OK;
}

cero_status cero_ckpt_find_one(cero_cli *cli, const char *word, cero_ckpt_place *out)
{
    cero_ckpt_place place;

    CERO_TRY(cero_ckpt_find(cli, word, &place));
    cero_status st = place.path != NULL ? check_committed(place.path) : choose(cli, &place);
    if (st != CERO_OK) {
        cero_ckpt_place_cleanup(&place);
        return st;
    }
    cero_cli_at(cli, CERO_CLI_READING_INPUT, place.path);
    *out = place;
    return CERO_OK;
}

int64_t cero_ckpt_bytes(const cero_manifest *manifest)
{
    int64_t nbytes = 0;

    for (int64_t i = 0; i < manifest->file_count; i++) {
        nbytes += manifest->files[i].nbytes;
    }
    return nbytes;
}

void cero_ckpt_put_string(cero_text *out, const char *key, const char *text)
{
    cero_text_printf(out, "\"%s\": ", key);
    if (text == NULL) {
        cero_text_printf(out, "null");
    } else {
        cero_text_append_json_string(out, text, strlen(text));
    }
}
