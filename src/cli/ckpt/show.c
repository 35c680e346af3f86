/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `cero ckpt show`: what a checkpoint's manifest says, for people or as one object. No data is read.
 *
 * The sections of engine and trainer are shown as they are, a line for each number, so that nothing that changes a
 * later step is hidden.
 */
#include "base/memory.h"
#include "cli/ckpt/ckpt.h"
#include "spec/model.h"

#include <stdio.h>
#include <string.h>

typedef struct show_values {
    bool json;
    bool tensors;
    cero_words dirs;
} show_values;

static const cero_option options[] = {
    {.name = "tensors",
     .kind = CERO_OPTION_FLAG,
     .offset = offsetof(show_values, tensors),
     .help = "every tensor, and where its elements lie"},
    {.name = "json",
     .kind = CERO_OPTION_FLAG,
     .offset = offsetof(show_values, json),
     .help = "one JSON object"},
    {0},
};

enum {
    LABEL = 34, /* columns of what stands before a value */
    PATH = 160  /* of a member's path in a section */
};

static bool is_moment(const cero_manifest_tensor *t)
{
    return strncmp(t->name, "optim.", 6) == 0;
}

static void put_label(cero_text *out, const char *label)
{
    cero_text_printf(out, "  %-*s ", LABEL, label);
}

/* "train.data.epoch    3": a line for each value below a member that is no object itself. */
static cero_status put_section(const cero_json *value, const char *path, cero_text *out)
{
    char inner[PATH];

    if (value->type != CERO_JSON_OBJECT) {
        put_label(out, path);
        CERO_TRY(cero_json_write(value, false, out));
        cero_text_printf(out, "\n");
        return CERO_OK;
    }
    for (const cero_json *m = value->child; m != NULL; m = m->next) {
        (void)snprintf(inner, sizeof(inner), "%.100s.%.50s", path, m->key);
        CERO_TRY(put_section(m, inner, out));
    }
    return CERO_OK;
}

/* The dtype that the effective config trains in: {"bf16.enabled": {"value": true, …}, …}. */
static const char *precision_of(const cero_manifest *m)
{
    static const char *const names[][2] = {{"bf16.enabled", "bf16"}, {"fp16.enabled", "fp16"}};
    const cero_json *config = cero_manifest_section_find(m, "config");

    for (size_t i = 0; config != NULL && i < CERO_COUNT_OF(names); i++) {
        const cero_json *key = cero_json_find(config, names[i][0]);
        const cero_json *value = key == NULL ? NULL : cero_json_find(key, "value");
        if (value != NULL && value->type == CERO_JSON_BOOL && value->boolean) {
            return names[i][1];
        }
    }
    return config == NULL ? NULL : "f32";
}

static void put_model(const cero_reader *reader, cero_text *out)
{
    const cero_manifest *m = cero_reader_manifest(reader);
    const cero_json *model = cero_manifest_section_find(m, "model");
    cero_model_spec spec;

    if (model == NULL) {
        return;
    }
    put_label(out, "model");
    if (cero_model_spec_read_json(cero_reader_path(reader), model, &spec) != CERO_OK) {
        cero_text_printf(out, "unknown: %s\n", cero_error_message());
        return;
    }
    cero_text_printf(out, "%s, %lld layers, hidden %lld, vocabulary %lld, %lld parameters\n",
                     spec.arch == CERO_ARCH_GPT2 ? "gpt2" : "llama", (long long)spec.layers,
                     (long long)spec.hidden, (long long)spec.vocab_size,
                     (long long)cero_model_spec_param_count(&spec));
}

static void put_counts(const cero_manifest *m, cero_text *out)
{
    int64_t count[2] = {0};
    int64_t numel[2] = {0};

    for (int64_t i = 0; i < m->tensor_count; i++) {
        int k = is_moment(&m->tensors[i]) ? 1 : 0;
        count[k]++;
        numel[k] += m->tensors[i].numel;
    }
    put_label(out, "weights");
    cero_text_printf(out, "%lld tensors, %lld elements\n", (long long)count[0],
                     (long long)numel[0]);
    put_label(out, "moments");
    cero_text_printf(out, "%lld tensors, %lld elements\n", (long long)count[1],
                     (long long)numel[1]);
}

static void put_tensors(const cero_manifest *m, cero_text *out)
{
    char shape[128];

    for (int64_t i = 0; i < m->tensor_count; i++) {
        const cero_manifest_tensor *t = &m->tensors[m->by_name[i]];
        cero_text_printf(out, "  %s %s %s\n", t->name, cero_dtype_name(t->dtype),
                         cero_shape_format(&t->shape, shape, sizeof(shape)));
        for (int64_t k = 0; k < t->range_count; k++) {
            const cero_manifest_range *r = &t->ranges[k];
            cero_text_printf(out, "    elements %lld .. %lld in %s at byte %lld\n",
                             (long long)r->begin, (long long)r->end, m->files[r->file].name,
                             (long long)r->offset);
        }
    }
}

static cero_status put_text(const cero_reader *reader, bool has_tensors, cero_text *out)
{
    static const char *const sections[] = {"engine", "train"};
    const cero_manifest *m = cero_reader_manifest(reader);
    const char *precision = precision_of(m);
    char nbytes[32];

    cero_text_printf(out, "%s: checkpoint\n", cero_reader_path(reader));
    put_label(out, "step");
    cero_text_printf(out, "%lld\n", (long long)m->step);
    put_label(out, "id");
    cero_text_printf(out, "%s of run %s\n", m->id, m->run);
    put_label(out, "size");
    cero_text_printf(out, "%s in %lld %s\n",
                     cero_text_bytes((double)cero_ckpt_bytes(m), nbytes, sizeof(nbytes)),
                     (long long)m->file_count, m->file_count == 1 ? "file" : "files");
    put_label(out, "written by");
    cero_text_printf(out, "%d %s (dp %d, tp %d, pp %d, sp %d), ZeRO stage %d\n", m->mesh.world_size,
                     m->mesh.world_size == 1 ? "rank" : "ranks", m->mesh.dp, m->mesh.tp, m->mesh.pp,
                     m->mesh.sp, m->mesh.zero_stage);
    put_model(reader, out);
    if (precision != NULL) {
        put_label(out, "precision");
        cero_text_printf(out, "%s, stored as f32\n", precision);
    }
    put_counts(m, out);
    for (size_t i = 0; i < CERO_COUNT_OF(sections); i++) {
        const cero_json *section = cero_manifest_section_find(m, sections[i]);
        if (section != NULL) {
            CERO_TRY(put_section(section, sections[i], out));
        }
    }
    if (has_tensors) {
        put_tensors(m, out);
    }
    return cero_text_finish(out);
}

static void put_json_tensor(const cero_manifest *m, const cero_manifest_tensor *t, cero_text *out)
{
    char shape[128];

    cero_text_printf(out, "{");
    cero_ckpt_put_string(out, "name", t->name);
    cero_text_printf(out, ", \"dtype\": \"%s\", \"shape\": %s, \"ranges\": [",
                     cero_dtype_name(t->dtype), cero_shape_format(&t->shape, shape, sizeof(shape)));
    for (int64_t k = 0; k < t->range_count; k++) {
        const cero_manifest_range *r = &t->ranges[k];
        cero_text_printf(out, "%s{", k > 0 ? ", " : "");
        cero_ckpt_put_string(out, "file", m->files[r->file].name);
        cero_text_printf(out, ", \"offset\": %lld, \"begin\": %lld, \"end\": %lld}",
                         (long long)r->offset, (long long)r->begin, (long long)r->end);
    }
    cero_text_printf(out, "]}");
}

static cero_status put_json_sections(const cero_manifest *m, cero_text *out)
{
    static const char *const sections[] = {"model", "config", "engine", "train"};

    for (size_t i = 0; i < CERO_COUNT_OF(sections); i++) {
        const cero_json *section = cero_manifest_section_find(m, sections[i]);
        cero_text_printf(out, ", \"%s\": ", sections[i]);
        if (section == NULL) {
            cero_text_printf(out, "null");
        } else {
            CERO_TRY(cero_json_write(section, false, out));
        }
    }
    return CERO_OK;
}

static cero_status put_json(const cero_reader *reader, bool has_tensors, cero_text *out)
{
    const cero_manifest *m = cero_reader_manifest(reader);

    cero_text_printf(out, "{\"kind\": \"checkpoint\", ");
    cero_ckpt_put_string(out, "path", cero_reader_path(reader));
    cero_text_printf(out, ", \"id\": \"%s\", \"run\": \"%s\", \"step\": %lld, \"nbytes\": %lld, ",
                     m->id, m->run, (long long)m->step, (long long)cero_ckpt_bytes(m));
    cero_ckpt_put_string(out, "precision", precision_of(m));
    cero_text_printf(out,
                     ", \"mesh\": {\"world_size\": %d, \"dp\": %d, \"tp\": %d, \"pp\": %d, "
                     "\"sp\": %d, \"zero_stage\": %d}, \"files\": [",
                     m->mesh.world_size, m->mesh.dp, m->mesh.tp, m->mesh.pp, m->mesh.sp,
                     m->mesh.zero_stage);
    for (int64_t i = 0; i < m->file_count; i++) {
        cero_text_printf(out, "%s{", i > 0 ? ", " : "");
        cero_ckpt_put_string(out, "name", m->files[i].name);
        cero_text_printf(out, ", \"nbytes\": %lld}", (long long)m->files[i].nbytes);
    }
    cero_text_printf(out, "], \"tensor_count\": %lld", (long long)m->tensor_count);
    CERO_TRY(put_json_sections(m, out));
    cero_text_printf(out, "%s", has_tensors ? ", \"tensors\": [" : "");
    for (int64_t i = 0; has_tensors && i < m->tensor_count; i++) {
        cero_text_printf(out, "%s", i > 0 ? ", " : "");
        put_json_tensor(m, &m->tensors[m->by_name[i]], out);
    }
    cero_text_printf(out, "%s}\n", has_tensors ? "]" : "");
    return cero_text_finish(out);
}

cero_status cero_ckpt_write_one(const cero_reader *reader, bool is_json, bool has_tensors,
                                cero_text *out)
{
    return is_json ? put_json(reader, has_tensors, out) : put_text(reader, has_tensors, out);
}

static cero_status run(cero_cli *cli, void *values)
{
    const show_values *v = values;
    cero_status st = CERO_OK;
    cero_ckpt_place place = {0};
    cero_reader *reader = NULL;
    cero_text text = {0};

    CERO_TRY_GOTO(cero_ckpt_find_one(cli, v->dirs.word[0], &place), out);
    CERO_TRY_GOTO(cero_reader_open(place.path, &reader), out);
    CERO_TRY_GOTO(cero_ckpt_write_one(reader, v->json, v->tensors, &text), out);
    cero_cli_at(cli, CERO_CLI_WORKING, NULL);
    CERO_TRY_GOTO(cero_cli_print(&text), out);

out:
    cero_text_cleanup(&text);
    cero_reader_close(&reader);
    cero_ckpt_place_cleanup(&place);
    return st;
}

const cero_command cero_command_ckpt_show = {
    .name = "ckpt show",
    .summary = "Tells what a checkpoint holds",
    .usage = "[--tensors] [--json] DIR",
    .details = "DIR is a checkpoint, a folder of checkpoints or a run directory; of several the "
               "newest complete one is shown.\n"
               "The manifest alone is read: `cero ckpt verify` looks at the data.",
    .options = options,
    .operands = {.name = "DIR", .min = 1, .max = 1, .offset = offsetof(show_values, dirs)},
    .values_size = sizeof(show_values),
    .run = run,
};
