/* SPDX-License-Identifier: Apache-2.0 */
/* `cero tokenize`: text into token files, and with --decode token files back into text. */
#include "base/clock.h"
#include "base/file.h"
#include "base/memory.h"
#include "cli/cli.h"
#include "data/tokens.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum {
    DECODE_TOKENS = 65536 /* tokens decoded at once */
};

typedef struct tokenize_values {
    const char *tokenizer;
    const char *out;
    int format; /* a cero_token_format */
    bool decode;
    bool no_eod;
    bool no_special;
    bool json;
    cero_words files;
} tokenize_values;

static const cero_option options[] = {
    {.name = "tokenizer",
     .is_required = true,
     .kind = CERO_OPTION_TEXT,
     .offset = offsetof(tokenize_values, tokenizer),
     .value = "DIR|FILE",
     .help = "a tokenizer.json, or a directory with one"},
    {.name = "out",
     .letter = 'o',
     .kind = CERO_OPTION_TEXT,
     .offset = offsetof(tokenize_values, out),
     .value = "PREFIX",
     .help = "writes PREFIX.bin and PREFIX.idx, or PREFIX.u16, .u32, .npy"},
    {.name = "format",
     .kind = CERO_OPTION_CHOICE,
     .offset = offsetof(tokenize_values, format),
     .value = "NAME",
     .choices = "megatron|u16|u32|npy",
     .help = "megatron (default), u16, u32 or npy"},
    {.name = "decode",
     .kind = CERO_OPTION_FLAG,
     .offset = offsetof(tokenize_values, decode),
     .help = "the other way: token files to text on stdout"},
    {.name = "no-eod",
     .kind = CERO_OPTION_FLAG,
     .offset = offsetof(tokenize_values, no_eod),
     .help = "no end-of-document token after each file"},
    {.name = "no-special",
     .kind = CERO_OPTION_FLAG,
     .offset = offsetof(tokenize_values, no_special),
     .help = "the text of special tokens is ordinary text"},
    {.name = "json",
     .kind = CERO_OPTION_FLAG,
     .offset = offsetof(tokenize_values, json),
     .help = "the summary as a JSON object"},
    {0},
};

static cero_status print_summary(const cero_cli *cli, const tokenize_values *v, const char *path,
                                 const cero_token_stats *stats, double seconds)
{
    double megabytes = (double)stats->bytes / 1e6;
    cero_text text = {0};

    if (v->json) {
        cero_text_printf(&text, "{\"path\": ");
        cero_text_append_json_string(&text, path, strlen(path));
        cero_text_printf(&text,
                         ", \"documents\": %lld, \"empty_documents\": %lld, \"bytes\": %lld, "
                         "\"tokens\": %lld, \"seconds\": ",
                         (long long)stats->documents, (long long)stats->empty_documents,
                         (long long)stats->bytes, (long long)stats->tokens);
        cero_text_append_double(&text, seconds);
        cero_text_printf(&text, "}\n");
    } else if (!cli->common.quiet) {
        cero_text_printf(&text, "%s: %lld documents, %lld bytes, %lld tokens, %.1f MB/s\n", path,
                         (long long)stats->documents, (long long)stats->bytes,
                         (long long)stats->tokens, seconds > 0 ? megabytes / seconds : 0);
    }
    cero_status st = text.length > 0 ? cero_cli_print(&text) : CERO_OK;
    cero_text_cleanup(&text);
    return st;
}

static cero_token_stream_params stream_params(const tokenize_values *v, cero_tokenizer *tokenizer)
{
    return (cero_token_stream_params){
        .path = v->files.word,
        .path_count = v->files.count,
        .vocab_size = cero_tokenizer_vocab_size(tokenizer),
        .tokenizer = tokenizer,
        .no_eod = v->no_eod,
        .no_special = v->no_special,
    };
}

static cero_status encode(cero_cli *cli, const tokenize_values *v, cero_tokenizer *tokenizer)
{
    static const char *const ends[] = {"", ".u16", ".u32", ".npy"};
    cero_token_stream_params params = stream_params(v, tokenizer);
    cero_token_writer *writer = NULL;
    cero_token_stats stats = {0};
    cero_status st = CERO_OK;
    cero_text path = {0};
    double start = cero_clock_now();

    cero_text_printf(&path, "%s%s", v->out, ends[v->format]);
    CERO_TRY_GOTO(cero_text_finish(&path), out);
    cero_cli_at(cli, CERO_CLI_CREATING, path.data);
    CERO_TRY_GOTO(
        cero_token_writer_open(path.data, (cero_token_format)v->format, params.vocab_size, &writer),
        out);
    cero_cli_at(cli, CERO_CLI_READING_INPUT, NULL);
    CERO_TRY_GOTO(cero_tokenize_files(&params, writer, &stats), out);
    cero_cli_at(cli, CERO_CLI_CREATING, path.data);
    CERO_TRY_GOTO(cero_token_writer_commit(writer), out);
    cero_cli_at(cli, CERO_CLI_WORKING, NULL);
    CERO_TRY_GOTO(print_summary(cli, v, path.data, &stats, cero_clock_now() - start), out);

out:
    cero_token_writer_close(&writer);
    cero_text_cleanup(&path);
    return st;
}

static cero_status write_decoded(const cero_tokenizer *tokenizer, cero_token_stream *stream,
                                 int32_t *ids, cero_text *text)
{
    int64_t count = cero_token_stream_count(stream);

    for (int64_t at = 0; at < count; at += DECODE_TOKENS) {
        int64_t n = count - at < DECODE_TOKENS ? count - at : DECODE_TOKENS;
        CERO_TRY(cero_token_stream_read(stream, at, n, ids));
        text->length = 0;
        CERO_TRY(cero_tokenizer_decode(tokenizer, ids, n, at > 0 ? CERO_DECODE_CONTINUE : 0, text));
        CERO_TRY(cero_cli_print(text));
    }
    return CERO_OK;
}

static cero_status decode(cero_cli *cli, const tokenize_values *v, cero_tokenizer *tokenizer)
{
    cero_token_stream_params params = stream_params(v, tokenizer);
    cero_token_stream *stream = NULL;
    cero_status st = CERO_OK;
    cero_text text = {0};
    int32_t *ids = cero_new(DECODE_TOKENS, sizeof(ids[0]));

    if (ids == NULL) {
        return CERO_FAIL(CERO_ERR_NOMEM, "no memory for %d tokens", DECODE_TOKENS);
    }
    // Token files need no tokenizer to be read; text among them is then an error that says so.
    params.tokenizer = NULL;
    cero_cli_at(cli, CERO_CLI_READING_INPUT, NULL);
    CERO_TRY_GOTO(cero_token_stream_open(&params, &stream), out);
    CERO_TRY_GOTO(write_decoded(tokenizer, stream, ids, &text), out);

out:
    cero_token_stream_close(&stream);
    cero_text_cleanup(&text);
    cero_delete(ids);
    return st;
}

static cero_status run(cero_cli *cli, void *values)
{
    const tokenize_values *v = values;
    cero_tokenizer *tokenizer = NULL;

    cero_cli_at(cli, CERO_CLI_USAGE, NULL);
    CERO_CHECK((v->out != NULL) != v->decode, CERO_ERR_INVALID,
               v->decode ? "--decode writes to stdout: --out cannot be given with it"
                         : "--out PREFIX is missing (or --decode)");
    CERO_TRY(cero_cli_require_inputs(cli, &v->files));
    cero_cli_at(cli, CERO_CLI_READING_INPUT, v->tokenizer);
    CERO_TRY(cero_tokenizer_open(v->tokenizer, &tokenizer));
    cero_status st = v->decode ? decode(cli, v, tokenizer) : encode(cli, v, tokenizer);
    cero_tokenizer_destroy(&tokenizer);
    return st;
}

const cero_command cero_command_tokenize = {
    .name = "tokenize",
    .summary = "Turns text into token files, or back",
    .usage = "--tokenizer DIR|FILE (--out PREFIX | --decode) FILE|DIR…",
    .details = "Each file is one document; directories are read recursively, in order of name.\n"
               "What is written can be given to `cero train --data`, and to Megatron.",
    .options = options,
    .operands = {.name = "FILE|DIR…", .min = 1, .offset = offsetof(tokenize_values, files)},
    .values_size = sizeof(tokenize_values),
    .run = run,
};
