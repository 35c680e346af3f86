/* SPDX-License-Identifier: Apache-2.0 */
/* `cero inspect`: tells what a file or a directory is and what is in it. */
#include "base/file.h"
#include "base/json.h"
#include "base/memory.h"
#include "ckpt/foreign.h"
#include "cli/ckpt/ckpt.h"
#include "cli/inspect.h"

#include <string.h>

enum {
    MAX_JSON_BYTES = 64 << 20
};

static const cero_option options[] = {
    {.name = "json",
     .kind = CERO_OPTION_FLAG,
     .offset = offsetof(cero_inspect_values, json),
     .help = "one JSON object for each thing found"},
    {.name = "svg",
     .kind = CERO_OPTION_TEXT,
     .offset = offsetof(cero_inspect_values, svg),
     .value = "FILE",
     .help = "draw the curve of a metrics.jsonl into this file"},
    {.name = "key",
     .kind = CERO_OPTION_TEXT,
     .offset = offsetof(cero_inspect_values, key),
     .value = "NAME",
     .help = "the number of a metrics.jsonl to draw (default: loss)"},
    {0},
};

static bool ends_with(const char *text, const char *end)
{
    size_t length = strlen(text);
    size_t end_length = strlen(end);

    return length >= end_length && strcmp(text + length - end_length, end) == 0;
}

/* Of a file that tells about its directory. */
static cero_status inspect_parent(cero_cli *cli, const cero_inspect_values *values,
                                  const char *path, cero_inspect_function inspect, cero_text *out)
{
    const char *slash = strrchr(path, '/');
    char *dir = slash == NULL ? cero_strdup(".")
                              : cero_strndup(path, (size_t)(slash - path) + (slash == path));

    CERO_CHECK(dir != NULL, CERO_ERR_NOMEM, "no memory for the directory of %s", path);
    cero_status st = inspect(cli, values, dir, out);
    cero_delete(dir);
    return st;
}

static cero_status inspect_index(cero_cli *cli, const cero_inspect_values *values, const char *path,
                                 cero_text *out)
{
    return inspect_parent(cli, values, path, cero_inspect_weights, out);
}

static cero_status inspect_manifest(cero_cli *cli, const cero_inspect_values *values,
                                    const char *path, cero_text *out)
{
    return inspect_parent(cli, values, path, cero_inspect_checkpoint, out);
}

/* What a .json file is, by the keys that only one kind has. */
static cero_status sniff_json(const char *path, cero_inspect_function *out)
{
    static const struct {
        const char *key;
        cero_inspect_function inspect;
    } kinds[] = {
        {"model_type", cero_inspect_model},
        {"architectures", cero_inspect_model},
        {"pre_tokenizer", cero_inspect_tokenizer},
        {"added_tokens", cero_inspect_tokenizer},
        {"weight_map", inspect_index},
        {"block_nbytes", inspect_manifest},
        {"train_batch_size", cero_inspect_config},
        {"train_micro_batch_size_per_gpu", cero_inspect_config},
        {"optimizer", cero_inspect_config},
        {"zero_optimization", cero_inspect_config},
        {"gradient_accumulation_steps", cero_inspect_config},
        {"gradient_clipping", cero_inspect_config},
        {"scheduler", cero_inspect_config},
        {"bf16", cero_inspect_config},
        {"fp16", cero_inspect_config},
        {"checkpoint", cero_inspect_config},
        {"cero", cero_inspect_config},
    };
    cero_json_document *document = NULL;
    cero_json_options json = {.allow_comments = true};

    CERO_TRY(cero_json_read(path, &json, MAX_JSON_BYTES, &document));
    *out = NULL;
    for (size_t i = 0; i < CERO_COUNT_OF(kinds) && *out == NULL; i++) {
        const cero_json *root = cero_json_root(document);
        if (root->type == CERO_JSON_OBJECT && cero_json_find(root, kinds[i].key) != NULL) {
            *out = kinds[i].inspect;
        }
    }
    cero_json_destroy(&document);
    return CERO_OK;
}

/* By the end of the name. */
static cero_inspect_function kind_of_name(const char *path)
{
    static const struct {
        const char *end;
        cero_inspect_function inspect;
    } kinds[] = {
        {".jsonl", cero_inspect_metrics}, {".safetensors", cero_inspect_safetensors},
        {".bin", cero_inspect_tokens},    {".idx", cero_inspect_tokens},
        {".u16", cero_inspect_tokens},    {".u32", cero_inspect_tokens},
        {".npy", cero_inspect_tokens},
    };

    for (size_t i = 0; i < CERO_COUNT_OF(kinds); i++) {
        if (ends_with(path, kinds[i].end)) {
            return kinds[i].inspect;
        }
    }
    return NULL;
}

static cero_status inspect_file(cero_cli *cli, const cero_inspect_values *values, const char *path,
                                cero_text *out)
{
    cero_inspect_function inspect = kind_of_name(path);

    if (inspect == NULL && ends_with(path, ".json")) {
        CERO_TRY(sniff_json(path, &inspect));
    }
    if (inspect == NULL || inspect == cero_inspect_tokens) {
        CERO_TRY(cero_foreign_check(path));
    }
    if (inspect == NULL) {
        return CERO_FAIL(CERO_ERR_UNSUPPORTED,
                         "%s: neither name nor contents are of a kind that is known; "
                         "cero inspect --help lists the kinds",
                         path);
    }
    return inspect(cli, values, path, out);
}

/* Runs `inspect` on dir/name, or on dir itself, if the file is there; counts what was found. */
static cero_status inspect_member(cero_cli *cli, const cero_inspect_values *values, const char *dir,
                                  const char *name, cero_inspect_function inspect, bool takes_dir,
                                  cero_text *out, int *found)
{
    char *path = cero_file_join(dir, name);
    cero_status st = CERO_OK;

    if (path == NULL) {
        return CERO_FAIL(CERO_ERR_NOMEM, "no memory for a path in %s", dir);
    }
    if (cero_file_stat(path, NULL) != CERO_FILE_ABSENT) {
        *found += 1;
        cero_cli_at(cli, CERO_CLI_READING_INPUT, path);
        CERO_TRY_GOTO(inspect(cli, values, takes_dir ? dir : path, out), out);
    }

out:
    cero_delete(path);
    return st;
}

/* A checkpoint, a model directory, a run directory, or a directory with some of their files. */
static cero_status inspect_dir(cero_cli *cli, const cero_inspect_values *values, const char *path,
                               cero_text *out)
{
    static const struct {
        const char *name;
        cero_inspect_function inspect;
        bool takes_dir;
    } members[] = {
        {"config.json", cero_inspect_model, false},
        {"model.safetensors.index.json", cero_inspect_weights, true},
        {"model.safetensors", cero_inspect_weights, true},
        {"tokenizer.json", cero_inspect_tokenizer, false},
        {"metrics.jsonl", cero_inspect_metrics, false},
    };
    int found = 0;
    int weights = 0;
    bool has_checkpoints = false;

    if (cero_ckpt_is_one(path)) {
        return cero_inspect_checkpoint(cli, values, path, out);
    }
    for (size_t i = 0; i < CERO_COUNT_OF(members); i++) {
        bool is_weights = members[i].inspect == cero_inspect_weights;
        if (is_weights && weights > 0) {
            continue;
        }
        CERO_TRY(inspect_member(cli, values, path, members[i].name, members[i].inspect,
                                members[i].takes_dir, out, is_weights ? &weights : &found));
    }
    CERO_TRY(cero_ckpt_has_some(path, &has_checkpoints));
    if (has_checkpoints) {
        found++;
        CERO_TRY(cero_inspect_checkpoints(cli, values, path, out));
    }
    if (found + weights == 0) {
        CERO_TRY(cero_foreign_check(path));
        return CERO_FAIL(CERO_ERR_INVALID,
                         "%s: the directory holds none of config.json, model.safetensors, "
                         "model.safetensors.index.json, tokenizer.json, metrics.jsonl, and no "
                         "checkpoints",
                         path);
    }
    return CERO_OK;
}

static cero_status inspect(cero_cli *cli, const cero_inspect_values *values, const char *path,
                           cero_text *out)
{
    cero_cli_at(cli, CERO_CLI_READING_INPUT, path);
    switch (cero_file_stat(path, NULL)) {
    case CERO_FILE_ABSENT:
        return CERO_FAIL(CERO_ERR_IO, "%s: there is no such file", path);
    case CERO_FILE_DIRECTORY:
        return inspect_dir(cli, values, path, out);
    case CERO_FILE_REGULAR:
    case CERO_FILE_OTHER:
        break;
    }
    return inspect_file(cli, values, path, out);
}

static cero_status run(cero_cli *cli, void *values)
{
    const cero_inspect_values *v = values;
    cero_text text = {0};
    cero_status st = CERO_OK;

    for (int i = 0; i < v->files.count; i++) {
        CERO_TRY_GOTO(inspect(cli, v, v->files.word[i], &text), out);
        cero_cli_at(cli, CERO_CLI_WORKING, NULL);
        CERO_TRY_GOTO(cero_cli_print(&text), out);
        cero_text_cleanup(&text);
    }

out:
    cero_text_cleanup(&text);
    return st;
}

const cero_command cero_command_inspect = {
    .name = "inspect",
    .summary = "Tells what a file or a directory is and what is in it",
    .usage = "[--json] [--key NAME] [--svg FILE] FILE|DIR…",
    .details = "Kinds:\n"
               "  metrics.jsonl    the numbers of a run, with a chart of one of them\n"
               "  *.safetensors    every tensor with its dtype, shape and bytes\n"
               "  *.safetensors.index.json   the weights of its directory as a sum\n"
               "  config.json      a model description of Hugging Face\n"
               "  tokenizer.json   a tokenizer\n"
               "  ds_config.json   a training config, as it takes effect\n"
               "  *.bin, *.idx, *.u16, *.u32, *.npy   tokens\n"
               "  a checkpoint     its directory or manifest.json, as `cero ckpt show`\n"
               "  checkpoints      a folder of them, as `cero ckpt ls`\n"
               "  a directory      those of the above that are in it, weights as a sum",
    .options = options,
    .operands = {.name = "FILE|DIR…", .min = 1, .offset = offsetof(cero_inspect_values, files)},
    .values_size = sizeof(cero_inspect_values),
    .run = run,
};
