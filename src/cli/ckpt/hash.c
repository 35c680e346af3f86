/* SPDX-License-Identifier: Apache-2.0 */
/* `cero ckpt hash`: what a checkpoint means, as numbers that do not depend on the layout that wrote it. */
#include "cli/ckpt/ckpt.h"

#include <stdio.h>
#include <string.h>

typedef struct hash_values {
    bool json;
    bool tensors;
    cero_words dirs;
} hash_values;

static const cero_option options[] = {
    {.name = "tensors",
     .kind = CERO_OPTION_FLAG,
     .offset = offsetof(hash_values, tensors),
     .help = "also of every tensor"},
    {.name = "json",
     .kind = CERO_OPTION_FLAG,
     .offset = offsetof(hash_values, json),
     .help = "one JSON object"},
    {0},
};

/* Lines or members of the tensors, as they are hashed. */
typedef struct tensor_hashes {
    const cero_manifest *manifest;
    bool is_json;
    cero_text text;
} tensor_hashes;

static void note_tensor(void *context, int64_t tensor, uint64_t hash)
{
    tensor_hashes *t = context;
    const char *name = t->manifest->tensors[tensor].name;
    char digits[24];

    (void)snprintf(digits, sizeof(digits), "%016llx", (unsigned long long)hash);
    if (t->is_json) {
        cero_text_printf(&t->text, "%s", t->text.length > 0 ? ", " : "");
        cero_text_append_json_string(&t->text, name, strlen(name));
        cero_text_printf(&t->text, ": \"%s\"", digits);
    } else {
        cero_text_printf(&t->text, "%s  %s\n", digits, name);
    }
}

static cero_status put_digest(const cero_reader *reader, const cero_reader_digest *d,
                              const hash_values *v, const tensor_hashes *tensors, cero_text *out)
{
    const struct {
        const char *name;
        uint64_t hash;
    } parts[] = {
        {"weights", d->weights}, {"moments", d->moments}, {"state", d->state}, {"all", d->all}};
    long long step = (long long)cero_reader_manifest(reader)->step;

    CERO_TRY(cero_text_finish(&tensors->text));
    if (v->json) {
        cero_text_printf(out, "{\"kind\": \"digest\", ");
        cero_ckpt_put_string(out, "path", cero_reader_path(reader));
        cero_text_printf(out, ", \"step\": %lld", step);
    } else if (v->tensors && tensors->text.length > 0) {
        cero_text_append(out, tensors->text.data, tensors->text.length);
    }
    for (size_t i = 0; i < CERO_COUNT_OF(parts); i++) {
        if (v->json) {
            cero_text_printf(out, ", \"%s\": \"%016llx\"", parts[i].name,
                             (unsigned long long)parts[i].hash);
        } else {
            cero_text_printf(out, "%016llx  %s\n", (unsigned long long)parts[i].hash,
                             parts[i].name);
        }
    }
    if (v->json) {
        cero_text_printf(out, "%s%s%s}\n", v->tensors ? ", \"tensors\": {" : "",
                         v->tensors && tensors->text.length > 0 ? tensors->text.data : "",
                         v->tensors ? "}" : "");
    }
    return cero_text_finish(out);
}

static cero_status run(cero_cli *cli, void *values)
{
    const hash_values *v = values;
    cero_status st = CERO_OK;
    cero_ckpt_place place = {0};
    cero_reader *reader = NULL;
    cero_reader_digest digest;
    tensor_hashes tensors = {.is_json = v->json};
    cero_text text = {0};

    CERO_TRY_GOTO(cero_ckpt_find_one(cli, v->dirs.word[0], &place), out);
    CERO_TRY_GOTO(cero_reader_open(place.path, &reader), out);
    tensors.manifest = cero_reader_manifest(reader);
    CERO_TRY_GOTO(cero_reader_hash_tensors(reader, note_tensor, &tensors, &digest), out);
    CERO_TRY_GOTO(put_digest(reader, &digest, v, &tensors, &text), out);
    cero_cli_at(cli, CERO_CLI_WORKING, NULL);
    CERO_TRY_GOTO(cero_cli_print(&text), out);

out:
    cero_text_cleanup(&tensors.text);
    cero_text_cleanup(&text);
    cero_reader_close(&reader);
    cero_ckpt_place_cleanup(&place);
    return st;
}

const cero_command cero_command_ckpt_hash = {
    .name = "ckpt hash",
    .summary = "Gives the hash of what a checkpoint means",
    .usage = "[--tensors] [--json] DIR",
    .details =
        "Two checkpoints with the same weights, moments and state have the same hashes, whatever "
        "ranks and stage wrote them:\n"
        "  weights   names, shapes and values of the weights\n"
        "  moments   the same of the optimizer's moments\n"
        "  state     counters, scaler, schedule and data position\n"
        "  all       of the three\n"
        "DIR is a checkpoint, a folder of checkpoints or a run directory; of several the newest "
        "complete one is taken.\n"
        "All that is read is verified.",
    .options = options,
    .operands = {.name = "DIR", .min = 1, .max = 1, .offset = offsetof(hash_values, dirs)},
    .values_size = sizeof(hash_values),
    .run = run,
};
