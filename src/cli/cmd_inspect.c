/* SPDX-License-Identifier: Apache-2.0 */
/* `cero inspect`: tells what a file or a directory is and what is in it. */
#include "base/file.h"
#include "cli/inspect.h"

#include <string.h>

static const cero_option options[] = {
    {.name = "json",
     .kind = CERO_OPTION_FLAG,
     .offset = offsetof(cero_inspect_values, json),
     .help = "one JSON object for each file"},
    {.name = "svg",
     .kind = CERO_OPTION_TEXT,
     .offset = offsetof(cero_inspect_values, svg),
     .value = "FILE",
     .help = "draw the curve of a metrics.jsonl into this file"},
    {.name = "key",
     .kind = CERO_OPTION_TEXT,
     .offset = offsetof(cero_inspect_values, key),
     .value = "NAME",
     .help = "the number to draw (default: loss)"},
    {0},
};

static bool ends_with(const char *text, const char *end)
{
    size_t length = strlen(text);
    size_t end_length = strlen(end);

    return length >= end_length && strcmp(text + length - end_length, end) == 0;
}

/* By name first; a .json file is told apart by what is in it. */
static cero_status inspect_file(cero_cli *cli, const cero_inspect_values *values, const char *path,
                                cero_text *out)
{
    static const struct {
        const char *end;
        cero_inspect_function inspect;
    } kinds[] = {
        {".jsonl", cero_inspect_metrics},
    };

    for (size_t i = 0; i < CERO_COUNT_OF(kinds); i++) {
        if (ends_with(path, kinds[i].end)) {
            return kinds[i].inspect(cli, values, path, out);
        }
    }
    return CERO_FAIL(CERO_ERR_UNSUPPORTED, "%s: the name ends in nothing that is known (.jsonl)",
                     path);
}

static cero_status run(cero_cli *cli, void *values)
{
    const cero_inspect_values *v = values;
    cero_text text = {0};
    cero_status st = CERO_OK;

    for (int i = 0; i < v->files.count; i++) {
        const char *path = v->files.word[i];
        cero_cli_at(cli, CERO_CLI_READING_INPUT, path);
        if (cero_file_stat(path, NULL) == CERO_FILE_ABSENT) {
            CERO_FAIL_GOTO(out, CERO_ERR_IO, "%s: there is no such file", path);
        }
        CERO_TRY_GOTO(inspect_file(cli, v, path, &text), out);
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
    .usage = "[--json] [--key NAME] [--svg FILE] FILE…",
    .details = "metrics.jsonl    the numbers of a run, with a chart of one of them",
    .options = options,
    .operands = {.name = "FILE…", .min = 1, .offset = offsetof(cero_inspect_values, files)},
    .values_size = sizeof(cero_inspect_values),
    .run = run,
};
