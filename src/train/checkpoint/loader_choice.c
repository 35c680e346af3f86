/* SPDX-License-Identifier: Apache-2.0 */
/* Which checkpoints of a folder may be loaded, newest first, and what is said of those that are not taken. */
#include "train/checkpoint/loader_impl.h"

#include "base/file.h"
#include "base/log.h"

#include <stdio.h>
#include <string.h>

/* "TAG" or "TAG.old-<id>". */
static bool is_of_tag(const cero_folder_entry *entry, const char *tag)
{
    size_t length = strlen(tag);

    return strncmp(entry->name, tag, length) == 0 &&
           (entry->name[length] == '\0' || strncmp(entry->name + length, ".old-", 5) == 0);
}

static bool is_candidate(const cero_loader *loader, const cero_folder_entry *entry)
{
    const char *tag = loader->params->tag;

    return entry->kind == CERO_FOLDER_COMPLETE && !entry->is_replaced &&
           (tag == NULL || is_of_tag(entry, tag));
}

static void note(cero_loader *loader, const char *name, const char *reason)
{
    cero_log(CERO_LOG_WARN, "train", "skipped %s/%s: %s", loader->params->dir, name, reason);
    cero_text_printf(&loader->choice.skipped, "%s%s: %s",
                     loader->choice.skipped.length > 0 ? "; " : "", name, reason);
    loader->result.skipped++;
}

void cero_loader_skip(cero_loader *loader, const char *name)
{
    if (cero_comm_rank(loader->comm) == 0) {
        char reason[1024];
        (void)snprintf(reason, sizeof(reason), "%s", cero_error_message());
        note(loader, name, reason);
    }
}

/* Its name says that it is of an earlier step: it is not what is being skipped. */
static bool is_older(const cero_folder_entry *entry, int64_t step)
{
    char tag[CERO_FOLDER_MAX_TAG];
    long long found = 0;

    return sscanf(entry->name, "step-%lld", &found) == 1 && found < step &&
           is_of_tag(entry, cero_folder_step_tag(found, tag));
}

/* Tells of what is no checkpoint, as far as it may be newer than `step`; each once. */
static void note_broken(cero_loader *loader, int64_t step)
{
    cero_loader_choice *c = &loader->choice;

    for (int64_t i = 0; i < c->list.count && loader->params->tag == NULL; i++) {
        const cero_folder_entry *e = &c->list.entries[i];
        if (e->kind == CERO_FOLDER_BROKEN && !c->is_noted[i] && !is_older(e, step)) {
            c->is_noted[i] = true;
            note(loader, e->name, e->reason);
        }
    }
}

cero_status cero_loader_choice_open(cero_loader *loader)
{
    cero_loader_choice *c = &loader->choice;

    CERO_TRY(cero_folder_list_read(loader->params->dir, &c->list));
    c->is_noted = cero_new((size_t)c->list.count, sizeof(bool));
    CERO_CHECK(c->is_noted != NULL, CERO_ERR_NOMEM, "no memory for a list of %lld checkpoints",
               (long long)c->list.count);
    for (int64_t i = 0; i < c->list.count; i++) {
        c->count += c->list.entries[i].kind != CERO_FOLDER_ORPHAN ? 1 : 0;
    }
    return CERO_OK;
}

void cero_loader_choice_close(cero_loader *loader)
{
    cero_folder_list_cleanup(&loader->choice.list);
    cero_delete(loader->choice.is_noted);
    cero_text_cleanup(&loader->choice.skipped);
}

static cero_status read_manifest(const cero_loader *loader, const char *name,
                                 cero_loader_candidate *out)
{
    cero_status st = CERO_OK;
    cero_text path = {0};

    cero_text_printf(&path, "%s/%s/" CERO_MANIFEST_NAME, loader->params->dir, name);
    CERO_TRY_GOTO(cero_text_finish(&path), out);
    CERO_TRY_GOTO(cero_file_read(path.data, CERO_MANIFEST_MAX_BYTES, &out->bytes, &out->length),
                  out);
    (void)snprintf(out->name, sizeof(out->name), "%s", name);
out:
    cero_text_cleanup(&path);
    return st;
}

/* What there is, for a message about what is not. */
static cero_status fail_absent_tag(const cero_loader *loader)
{
    const cero_loader_choice *c = &loader->choice;
    cero_text names = {0};

    for (int64_t i = 0; i < c->list.count; i++) {
        const cero_folder_entry *e = &c->list.entries[i];
        bool is_broken = e->kind == CERO_FOLDER_BROKEN && is_of_tag(e, loader->params->tag);
        CERO_CHECK(!is_broken, CERO_ERR_CORRUPT, "%s/%s: %s", loader->params->dir, e->name,
                   e->reason);
    }
    for (int64_t i = 0; i < c->list.count; i++) {
        const cero_folder_entry *e = &c->list.entries[i];
        if (e->kind == CERO_FOLDER_COMPLETE && names.length < 400) {
            cero_text_printf(&names, "%s%s", names.length > 0 ? ", " : "", e->name);
        }
    }
    cero_status st =
        CERO_FAIL(CERO_ERR_IO, "%s/%s: there is no such checkpoint; there %s %s",
                  loader->params->dir, loader->params->tag, names.length > 0 ? "are" : "is",
                  names.length > 0 ? names.data : "none");
    cero_text_cleanup(&names);
    return st;
}

static cero_status fail_none(cero_loader *loader)
{
    const cero_loader_params *params = loader->params;
    const cero_loader_choice *c = &loader->choice;

    if (params->tag != NULL) {
        return fail_absent_tag(loader);
    }
    note_broken(loader, 0);
    CERO_CHECK(c->count == 0, CERO_ERR_CORRUPT, "none of the checkpoints in %s verifies: %s",
               params->dir, c->skipped.data != NULL ? c->skipped.data : "");
    // A name without what it names is what somebody removed: to begin anew would hide it.
    CERO_CHECK(
        c->list.latest[0] == '\0', CERO_ERR_IO,
        "%s has no checkpoint, and its file `latest` names %s: bring that back, or remove the "
        "file to start at step 0",
        params->dir, c->list.latest);
    CERO_CHECK(params->may_be_absent, CERO_ERR_IO, "%s has no checkpoint to load", params->dir);
    return CERO_OK;
}

cero_status cero_loader_choose(cero_loader *loader, cero_loader_candidate *out)
{
    cero_loader_choice *c = &loader->choice;

    *out = (cero_loader_candidate){0};
    while (c->next < c->list.count) {
        const cero_folder_entry *entry = &c->list.entries[c->next++];
        if (!is_candidate(loader, entry)) {
            continue;
        }
        note_broken(loader, entry->step);
        cero_status st = read_manifest(loader, entry->name, out);
        if (st != CERO_ERR_IO || loader->params->tag != NULL) {
            return st;
        }
        cero_loader_skip(loader, entry->name);
    }
    return fail_none(loader);
}
