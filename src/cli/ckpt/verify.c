/* SPDX-License-Identifier: Apache-2.0 */
/* `cero ckpt verify`: every byte of one checkpoint, or of all in a folder, against its hash. */
#include "base/file.h"
#include "base/memory.h"
#include "cli/ckpt/ckpt.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

typedef struct verify_values {
    bool json;
    cero_words dirs;
} verify_values;

static const cero_option options[] = {
    {.name = "json",
     .kind = CERO_OPTION_FLAG,
     .offset = offsetof(verify_values, json),
     .help = "one JSON object"},
    {0},
};

typedef struct verification {
    const cero_cli *cli;
    bool is_json;
    bool has_line;    /* progress stands on the terminal's last line */
    const char *path; /* of the checkpoint at hand */
    const cero_manifest *manifest;
    cero_text *findings; /* of the checkpoint at hand */
    cero_text out;
    int64_t count;
    int64_t damaged;
    int64_t unreadable; /* of these: the disk gave an error and nothing else was found */
    int64_t percent;
    int corrupt; /* findings of this checkpoint that are no errors of the disk */
} verification;

/* A line for people, or an object. */
static void put_finding(verification *v, const char *file, const char *tensor, int64_t begin,
                        int64_t end, const char *message)
{
    cero_text *out = v->findings;

    if (!v->is_json) {
        cero_text_printf(out, "  %s\n", message);
        return;
    }
    cero_text_printf(out, "%s{", out->length > 0 ? ", " : "");
    cero_ckpt_put_string(out, "file", file);
    cero_text_printf(out, ", ");
    cero_ckpt_put_string(out, "tensor", tensor);
    if (tensor != NULL) {
        cero_text_printf(out, ", \"begin\": %lld, \"end\": %lld", (long long)begin, (long long)end);
    }
    cero_text_printf(out, ", ");
    cero_ckpt_put_string(out, "message", message);
    cero_text_printf(out, "}");
}

static void report(void *context, const cero_reader_finding *f)
{
    verification *v = context;

    v->corrupt += f->status == CERO_ERR_CORRUPT;
    put_finding(v, v->manifest->files[f->file].name,
                f->tensor < 0 ? NULL : v->manifest->tensors[f->tensor].name, f->begin, f->end,
                f->message);
}

static void end_line(verification *v)
{
    if (v->has_line) {
        (void)fprintf(stderr, "\r\033[K");
        v->has_line = false;
    }
}

/* On a terminal, when the percentage has changed. */
static void progress(void *context, int64_t done, int64_t total)
{
    verification *v = context;
    int64_t percent = total <= 0 ? 100 : (int64_t)(100.0 * (double)done / (double)total);

    if (percent == v->percent || v->cli->common.quiet || isatty(STDERR_FILENO) != 1) {
        return;
    }
    v->percent = percent;
    v->has_line = true;
    (void)fprintf(stderr, "\r\033[K%s: %lld %%", v->path, (long long)percent);
    (void)fflush(stderr);
}

static void put_result(verification *v, const cero_manifest *m, bool is_good)
{
    char nbytes[32];

    if (v->is_json) {
        cero_text_printf(&v->out, "%s{", v->count > 1 ? ", " : "");
        cero_ckpt_put_string(&v->out, "path", v->path);
        cero_text_printf(&v->out, ", \"is_good\": %s", is_good ? "true" : "false");
        if (m != NULL) {
            cero_text_printf(&v->out, ", \"step\": %lld, \"files\": %lld, \"nbytes\": %lld",
                             (long long)m->step, (long long)m->file_count,
                             (long long)cero_ckpt_bytes(m));
        }
        cero_text_printf(&v->out, ", \"findings\": [");
    } else if (is_good) {
        cero_text_printf(&v->out, "%s: good, step %lld, %s in %lld %s\n", v->path,
                         (long long)m->step,
                         cero_text_bytes((double)cero_ckpt_bytes(m), nbytes, sizeof(nbytes)),
                         (long long)m->file_count, m->file_count == 1 ? "file" : "files");
    } else {
        cero_text_printf(&v->out, "%s: damaged\n", v->path);
    }
    if (v->findings->length > 0) {
        cero_text_append(&v->out, v->findings->data, v->findings->length);
    }
    cero_text_printf(&v->out, "%s", v->is_json ? "]}" : "");
}

/* What is wrong with its manifest is a finding like any other. */
static cero_status verify_path(verification *v, const char *path)
{
    cero_reader *reader = NULL;
    cero_text findings = {0};
    int64_t count = 0;

    v->path = path;
    v->findings = &findings;
    v->percent = -1;
    v->corrupt = 0;
    v->count++;
    cero_status st = cero_reader_open(path, &reader);
    if (st == CERO_OK) {
        cero_reader_scan_params params = {.report = report, .progress = progress, .context = v};
        v->manifest = cero_reader_manifest(reader);
        st = cero_reader_scan(reader, &params, &count);
    } else if (st == CERO_ERR_CORRUPT || st == CERO_ERR_IO || st == CERO_ERR_UNSUPPORTED) {
        v->corrupt += st != CERO_ERR_IO;
        count = 1;
        put_finding(v, CERO_MANIFEST_NAME, NULL, 0, 0, cero_error_message());
        st = CERO_OK;
    }
    end_line(v);
    if (st == CERO_OK) {
        v->damaged += count > 0;
        v->unreadable += count > 0 && v->corrupt == 0;
        st = cero_text_finish(&findings);
        put_result(v, reader == NULL ? NULL : v->manifest, count == 0);
    }
    cero_text_cleanup(&findings);
    cero_reader_close(&reader);
    return st;
}

/* All under a final name, newest first; what was never committed is none. */
static cero_status verify_folder(verification *v, const cero_ckpt_place *place)
{
    for (int64_t i = 0; i < place->list.count; i++) {
        const cero_folder_entry *e = &place->list.entries[i];
        if (e->kind == CERO_FOLDER_ORPHAN) {
            continue;
        }
        char *path = cero_file_join(place->dir, e->name);
        CERO_CHECK(path != NULL, CERO_ERR_NOMEM, "no memory for a path in %s", place->dir);
        cero_status st = verify_path(v, path);
        cero_delete(path);
        CERO_TRY(st);
    }
    CERO_CHECK(v->count > 0, CERO_ERR_INVALID,
               "%s holds no checkpoint that was committed: name another directory", place->dir);
    return CERO_OK;
}

static cero_status result(const verification *v, const char *word)
{
    if (v->damaged == 0) {
        return CERO_OK;
    }
    return CERO_FAIL(v->unreadable == v->damaged ? CERO_ERR_IO : CERO_ERR_CORRUPT,
                     "%s: %lld of %lld %s damaged or cannot be read: restore the files that are "
                     "named, or use another checkpoint",
                     word, (long long)v->damaged, (long long)v->count,
                     v->damaged > 1 ? "checkpoints are"
                     : v->count > 1 ? "checkpoints is"
                                    : "checkpoint is");
}

static cero_status run(cero_cli *cli, void *values)
{
    const verify_values *o = values;
    const char *word = o->dirs.word[0];
    cero_status st = CERO_OK;
    cero_ckpt_place place = {0};
    verification v = {.cli = cli, .is_json = o->json};

    cero_text_printf(&v.out, "%s",
                     o->json ? "{\"kind\": \"verification\", \"checkpoints\": [" : "");
    CERO_TRY_GOTO(cero_ckpt_find(cli, word, &place), out);
    st = place.path != NULL ? verify_path(&v, place.path) : verify_folder(&v, &place);
    if (st != CERO_OK) {
        goto out;
    }
    cero_text_printf(&v.out, "%s", o->json ? "]}\n" : "");
    CERO_TRY_GOTO(cero_cli_print(&v.out), out);
    st = result(&v, word);

out:
    cero_text_cleanup(&v.out);
    cero_ckpt_place_cleanup(&place);
    return st;
}

const cero_command cero_command_ckpt_verify = {
    .name = "ckpt verify",
    .summary = "Reads checkpoints and compares every byte with its hash",
    .usage = "[--json] DIR",
    .details = "DIR is a checkpoint, a folder of checkpoints or a run directory, of which all are "
               "verified.\n"
               "Every file and tensor that is damaged is named, with the elements and bytes. Exit "
               "code 65 tells of damage.",
    .options = options,
    .operands = {.name = "DIR", .min = 1, .max = 1, .offset = offsetof(verify_values, dirs)},
    .values_size = sizeof(verify_values),
    .run = run,
};
