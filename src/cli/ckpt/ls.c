/* SPDX-License-Identifier: Apache-2.0 */
/* `cero ckpt ls`: the checkpoints of a folder, complete, broken or left over. */
#include "base/file.h"
#include "base/memory.h"
#include "cli/ckpt/ckpt.h"

#include <string.h>

typedef struct ls_values {
    bool json;
    cero_words dirs;
} ls_values;

static const cero_option options[] = {
    {.name = "json",
     .kind = CERO_OPTION_FLAG,
     .offset = offsetof(ls_values, json),
     .help = "one JSON object"},
    {0},
};

/* What the manifest of a complete checkpoint adds to its entry. */
typedef struct facts {
    int64_t files;
    int64_t nbytes;
    cero_manifest_mesh mesh;
} facts;

static cero_status read_facts(const char *dir, const cero_folder_entry *entry, facts *out)
{
    cero_manifest manifest;
    char *path = cero_file_join(dir, entry->name);

    CERO_CHECK(path != NULL, CERO_ERR_NOMEM, "no memory for a path in %s", dir);
    cero_status st = cero_manifest_read(path, &manifest);
    cero_delete(path);
    CERO_TRY(st);
    *out = (facts){
        .files = manifest.file_count, .nbytes = cero_ckpt_bytes(&manifest), .mesh = manifest.mesh};
    cero_manifest_cleanup(&manifest);
    return CERO_OK;
}

static bool is_latest(const cero_folder_list *list, const cero_folder_entry *e)
{
    return list->latest[0] != '\0' && strcmp(list->latest, e->name) == 0;
}

static const char *kind_name(cero_folder_kind kind)
{
    return kind == CERO_FOLDER_COMPLETE ? "complete"
           : kind == CERO_FOLDER_BROKEN ? "broken"
                                        : "orphan";
}

static void put_line(const cero_folder_list *list, const cero_folder_entry *e, const facts *f,
                     cero_text *out)
{
    char nbytes[32];

    if (e->kind == CERO_FOLDER_COMPLETE) {
        cero_text_printf(out, "%10lld  %-24s %10s  %5lld  %5d  %-8.8s  complete",
                         (long long)e->step, e->name,
                         cero_text_bytes((double)f->nbytes, nbytes, sizeof(nbytes)),
                         (long long)f->files, f->mesh.zero_stage, e->run);
    } else {
        cero_text_printf(out, "%10s  %-24s %10s  %5s  %5s  %-8s  %s", "-", e->name, "-", "-", "-",
                         "-", kind_name(e->kind));
    }
    cero_text_printf(out, "%s%s", is_latest(list, e) ? ", latest" : "",
                     e->is_replaced ? ", replaced" : "");
    if (e->kind == CERO_FOLDER_ORPHAN) {
        cero_text_printf(out, ": left by a save that did not end; the next one removes it");
    }
    cero_text_printf(out, "%s%s\n", e->reason != NULL ? ": " : "",
                     e->reason != NULL ? e->reason : "");
}

static void put_object(const cero_folder_list *list, const cero_folder_entry *e, const facts *f,
                       cero_text *out)
{
    cero_text_printf(out, "{");
    cero_ckpt_put_string(out, "tag", e->name);
    cero_text_printf(out, ", \"state\": \"%s\", \"is_latest\": %s, \"is_replaced\": %s",
                     kind_name(e->kind), is_latest(list, e) ? "true" : "false",
                     e->is_replaced ? "true" : "false");
    if (e->kind == CERO_FOLDER_COMPLETE) {
        cero_text_printf(out,
                         ", \"step\": %lld, \"id\": \"%s\", \"run\": \"%s\", \"nbytes\": %lld, "
                         "\"files\": %lld, \"world_size\": %d, \"zero_stage\": %d",
                         (long long)e->step, e->id, e->run, (long long)f->nbytes,
                         (long long)f->files, f->mesh.world_size, f->mesh.zero_stage);
    }
    if (e->reason != NULL) {
        cero_text_printf(out, ", ");
        cero_ckpt_put_string(out, "reason", e->reason);
    }
    cero_text_printf(out, "}");
}

static void put_head(const cero_ckpt_place *place, bool is_json, cero_text *out)
{
    const cero_folder_list *list = &place->list;
    bool is_there = list->latest[0] == '\0';

    if (is_json) {
        cero_text_printf(out, "{\"kind\": \"checkpoints\", ");
        cero_ckpt_put_string(out, "dir", place->dir);
        cero_text_printf(out, ", ");
        cero_ckpt_put_string(out, "latest", list->latest[0] != '\0' ? list->latest : NULL);
        cero_text_printf(out, ", \"checkpoints\": [");
        return;
    }
    cero_text_printf(out, "%s:", place->dir);
    if (list->count == 0) {
        cero_text_printf(out, " no checkpoints\n");
    } else {
        cero_text_printf(out, "\n%10s  %-24s %10s  %5s  %5s  %-8s  %s\n", "step", "tag", "size",
                         "files", "stage", "run", "state");
    }
    for (int64_t i = 0; i < list->count; i++) {
        is_there = is_there || is_latest(list, &list->entries[i]);
    }
    if (!is_there) {
        cero_text_printf(out, "  (latest names %s, which is not there; it is only a hint)\n",
                         list->latest);
    }
}

cero_status cero_ckpt_write_list(const cero_ckpt_place *place, bool is_json, cero_text *out)
{
    const cero_folder_list *list = &place->list;
    int64_t count = 0;

    put_head(place, is_json, out);
    for (int64_t i = 0; i < list->count; i++) {
        const cero_folder_entry *e = &list->entries[i];
        facts f = {0};
        cero_status st = e->kind == CERO_FOLDER_COMPLETE ? read_facts(place->dir, e, &f) : CERO_OK;
        if (st == CERO_ERR_NOMEM) {
            return st;
        }
        if (st != CERO_OK) {
            continue; // a run that goes on has removed it since
        }
        if (is_json) {
            cero_text_printf(out, "%s", count++ > 0 ? ", " : "");
            put_object(list, e, &f, out);
        } else {
            put_line(list, e, &f, out);
        }
    }
    cero_text_printf(out, "%s", is_json ? "]}\n" : "");
    return cero_text_finish(out);
}

static cero_status run(cero_cli *cli, void *values)
{
    const ls_values *v = values;
    const char *word = v->dirs.word[0];
    cero_status st = CERO_OK;
    cero_ckpt_place place = {0};
    cero_text text = {0};

    CERO_TRY_GOTO(cero_ckpt_find(cli, word, &place), out);
    if (place.dir == NULL) {
        CERO_FAIL_GOTO(out, CERO_ERR_INVALID,
                       "%s is one checkpoint: name its folder, or use cero ckpt show", word);
    }
    CERO_TRY_GOTO(cero_ckpt_write_list(&place, v->json, &text), out);
    cero_cli_at(cli, CERO_CLI_WORKING, NULL);
    CERO_TRY_GOTO(cero_cli_print(&text), out);

out:
    cero_text_cleanup(&text);
    cero_ckpt_place_cleanup(&place);
    return st;
}

const cero_command cero_command_ckpt_ls = {
    .name = "ckpt ls",
    .summary = "Lists the checkpoints of a run",
    .usage = "[--json] DIR",
    .details = "DIR is a folder of checkpoints or a run directory. States:\n"
               "  complete   its manifest is sound and its files have their lengths; `cero ckpt "
               "verify` reads them\n"
               "  broken     it is not, with the reason; no run resumes from it\n"
               "  orphan     left by a save that did not end; the next save removes it\n"
               "`latest` marks what the file of that name says: a hint, which no run relies on.",
    .options = options,
    .operands = {.name = "DIR", .min = 1, .max = 1, .offset = offsetof(ls_values, dirs)},
    .values_size = sizeof(ls_values),
    .run = run,
};
