/* SPDX-License-Identifier: Apache-2.0 */
/* `cero tokenizer train`: makes a byte-level BPE tokenizer from text. */
#include "base/file.h"
#include "cli/cli.h"
#include "data/bpe_train.h"

typedef struct train_values {
    int64_t vocab_size;
    int64_t min_count;
    const char *out;
    cero_words files;
} train_values;

static const cero_option options[] = {
    {.name = "vocab-size",
     .is_required = true,
     .kind = CERO_OPTION_INT,
     .offset = offsetof(train_values, vocab_size),
     .value = "N",
     .min = 257,
     .max = 1 << 24,
     .help = "tokens in all: 256 bytes, the merges, and the end of document"},
    {.name = "min-count",
     .kind = CERO_OPTION_INT,
     .offset = offsetof(train_values, min_count),
     .value = "N",
     .min = 1,
     .max = 1 << 30,
     .help = "pairs seen less often are not merged (default: 2)"},
    {.name = "out",
     .letter = 'o',
     .is_required = true,
     .kind = CERO_OPTION_TEXT,
     .offset = offsetof(train_values, out),
     .value = "DIR",
     .help = "the directory for tokenizer.json; made if it is not there"},
    {0},
};

static cero_status add_file(cero_cli *cli, cero_bpe_trainer *trainer, const char *path,
                            int64_t *nbytes)
{
    cero_file_map map;

    cero_cli_at(cli, CERO_CLI_READING_INPUT, path);
    CERO_TRY(cero_file_map_open(path, &map));
    cero_status st = cero_bpe_trainer_add(trainer, map.data, map.length);
    *nbytes += (int64_t)map.length;
    cero_file_map_close(&map);
    return st;
}

static cero_status add_path(cero_cli *cli, cero_bpe_trainer *trainer, const char *path,
                            int64_t *nbytes)
{
    cero_file_list list = {0};
    cero_status st = CERO_OK;

    if (cero_file_stat(path, NULL) != CERO_FILE_DIRECTORY) {
        return add_file(cli, trainer, path, nbytes);
    }
    cero_cli_at(cli, CERO_CLI_READING_INPUT, path);
    CERO_TRY(cero_file_list_dir(path, true, &list));
    for (int64_t i = 0; i < list.count; i++) {
        CERO_TRY_GOTO(add_file(cli, trainer, list.path[i], nbytes), out);
    }

out:
    cero_file_list_cleanup(&list);
    return st;
}

static cero_status save(cero_cli *cli, const train_values *v, const cero_tokenizer *tokenizer,
                        int64_t nbytes)
{
    cero_text text = {0};

    cero_cli_at(cli, CERO_CLI_CREATING, v->out);
    CERO_TRY(cero_file_make_dir(v->out));
    CERO_TRY(cero_tokenizer_save(tokenizer, v->out));
    if (cli->common.quiet) {
        return CERO_OK;
    }
    cero_cli_at(cli, CERO_CLI_WORKING, NULL);
    cero_text_printf(&text, "%s: tokenizer of %lld tokens from %lld bytes\n", v->out,
                     (long long)cero_tokenizer_vocab_size(tokenizer), (long long)nbytes);
    cero_status st = cero_cli_print(&text);
    cero_text_cleanup(&text);
    return st;
}

static cero_status run(cero_cli *cli, void *values)
{
    const train_values *v = values;
    cero_bpe_train_params params = {.vocab_size = v->vocab_size, .min_count = v->min_count};
    cero_bpe_trainer *trainer = NULL;
    cero_tokenizer *tokenizer = NULL;
    cero_status st = CERO_OK;
    int64_t nbytes = 0;

    CERO_TRY_GOTO(cero_bpe_trainer_create(&params, &trainer), out);
    for (int i = 0; i < v->files.count; i++) {
        CERO_TRY_GOTO(add_path(cli, trainer, v->files.word[i], &nbytes), out);
    }
    cero_cli_at(cli, CERO_CLI_READING_INPUT, NULL);
    CERO_TRY_GOTO(cero_bpe_trainer_finish(trainer, &tokenizer), out);
    CERO_TRY_GOTO(save(cli, v, tokenizer, nbytes), out);

out:
    cero_tokenizer_destroy(&tokenizer);
    cero_bpe_trainer_destroy(&trainer);
    return st;
}

const cero_command cero_command_tokenizer_train = {
    .name = "tokenizer train",
    .summary = "Makes a byte-level BPE tokenizer from text",
    .usage = "--vocab-size N --out DIR FILE|DIR…",
    .details = "The same texts give the same tokenizer. Its last token is \"<|endoftext|>\".",
    .options = options,
    .operands = {.name = "FILE|DIR…", .min = 1, .offset = offsetof(train_values, files)},
    .values_size = sizeof(train_values),
    .run = run,
};
