/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The command `cero`: finds the sub-command, parses its options, runs it, and turns its status into one
 * message and an exit code.
 */
#include "base/log.h"
#include "base/memory.h"
#include "cli/cli.h"
#include "engine/bench.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static const cero_command *const commands[] = {
    &cero_command_train, // in the order of the overview
    &cero_command_launch,      &cero_command_generate,        &cero_command_plan,
    &cero_command_tokenize,    &cero_command_tokenizer_train, &cero_command_ckpt_ls,
    &cero_command_ckpt_show,   &cero_command_ckpt_verify,     &cero_command_ckpt_hash,
    &cero_command_ckpt_export, &cero_command_inspect,         &cero_command_bench,
    &cero_command_info,
};

static const cero_option common_options[] = {
    {.name = "help",
     .letter = 'h',
     .kind = CERO_OPTION_FLAG,
     .offset = offsetof(cero_cli_common, help),
     .help = "show this text"},
    {.name = "quiet",
     .letter = 'q',
     .kind = CERO_OPTION_FLAG,
     .offset = offsetof(cero_cli_common, quiet),
     .help = "errors alone"},
    {.name = "verbose",
     .letter = 'v',
     .kind = CERO_OPTION_FLAG,
     .offset = offsetof(cero_cli_common, verbose),
     .help = "more messages, and where an error came from"},
    {.name = "color",
     .kind = CERO_OPTION_CHOICE,
     .offset = offsetof(cero_cli_common, color),
     .value = "WHEN",
     .choices = "auto|always|never",
     .help = "auto, always or never"},
    {0},
};

static void print_version(void)
{
    (void)printf("cero %s\n", cero_version());
    (void)printf("features: openmp onednn pcre2 xxhash\n");
    (void)printf("mpi: %s\n", cero_engine_mpi_library());
#if defined(__clang__)
    (void)printf("compiler: clang %s\n", __clang_version__);
#else
    (void)printf("compiler: gcc %s\n", __VERSION__);
#endif
}

static cero_status print_overview(void)
{
    cero_text text = {0};

    cero_text_printf(&text, "usage: cero COMMAND [OPTION…]\n\n"
                            "Trains large neural networks. Commands:\n\n");
    for (size_t i = 0; i < CERO_COUNT_OF(commands); i++) {
        cero_text_printf(&text, "  %-26s %s\n", commands[i]->name, commands[i]->summary);
    }
    cero_text_printf(&text, "\nOptions of every command:\n\n");
    cero_args_help(common_options, &text);
    cero_text_printf(&text, "  %-26s %s\n", "--version", "show version and features");
    cero_text_printf(&text, "\n`cero COMMAND --help` tells more about one.\n");
    cero_status st = cero_cli_print(&text);
    cero_text_cleanup(&text);
    return st;
}

static cero_status print_help(const cero_command *command)
{
    cero_text text = {0};

    cero_text_printf(&text, "usage: cero %s %s\n\n%s.\n", command->name, command->usage,
                     command->summary);
    if (command->details != NULL) {
        cero_text_printf(&text, "\n%s\n", command->details);
    }
    cero_text_printf(&text, "\nOptions:\n\n");
    cero_args_help(command->options, &text);
    cero_args_help(common_options, &text);
    cero_status st = cero_cli_print(&text);
    cero_text_cleanup(&text);
    return st;
}

/* Words of `name` if the command line starts with them, else 0. */
static int match_words(const char *name, int argc, char *const *argv)
{
    int words = 0;

    while (*name != '\0') {
        size_t length = strcspn(name, " ");
        if (words >= argc || strlen(argv[words]) != length ||
            memcmp(argv[words], name, length) != 0) {
            return 0;
        }
        words++;
        name += length + (name[length] == ' ' ? 1 : 0);
    }
    return words;
}

static const char *command_name_at(const void *context, int i)
{
    CERO_UNUSED(context);
    return i < (int)CERO_COUNT_OF(commands) ? commands[i]->name : NULL;
}

/* The longest name that matches, so that a group may have a command of its own name. */
static const cero_command *find_command(int argc, char *const *argv, int *words)
{
    const cero_command *best = NULL;

    *words = 0;
    for (size_t i = 0; i < CERO_COUNT_OF(commands); i++) {
        int matched = match_words(commands[i]->name, argc, argv);
        if (matched > *words) {
            *words = matched;
            best = commands[i];
        }
    }
    return best;
}

static cero_status fail_unknown_command(int argc, char *const *argv)
{
    char name[64];

    (void)snprintf(name, sizeof(name), "%.40s", argv[0]);
    for (size_t i = 0; i < CERO_COUNT_OF(commands); i++) {
        size_t length = strlen(name);
        if (strncmp(commands[i]->name, name, length) == 0 && commands[i]->name[length] == ' ') {
            return CERO_FAIL(CERO_ERR_INVALID, "%s%s%s is not a command; did you mean '%s'?", name,
                             argc > 1 ? " " : "", argc > 1 ? argv[1] : "", commands[i]->name);
        }
    }
    const char *nearest = cero_text_nearest(name, command_name_at, NULL);
    if (nearest != NULL) {
        return CERO_FAIL(CERO_ERR_INVALID, "%s is not a command; did you mean '%s'?", name,
                         nearest);
    }
    return CERO_FAIL(CERO_ERR_INVALID, "%s is not a command; cero --help lists them", name);
}

static cero_status run_command(const cero_command *command, int argc, char *const *argv,
                               cero_cli *cli)
{
    cero_args_table table = {
        .options = command->options, .common = common_options, .operands = command->operands};
    void *values = cero_new(1, command->values_size);
    cero_status st = CERO_OK;

    if (values == NULL) {
        return CERO_FAIL(CERO_ERR_NOMEM, "no memory for the options");
    }
    if (command->set_defaults != NULL) {
        command->set_defaults(values);
    }
    st = cero_args_parse(&table, argc, argv, values, &cli->common);
    if (st == CERO_OK && !cli->common.help) {
        st = cero_args_check(&table, values);
    }
    if (st != CERO_OK) {
        st = command->is_parallel ? cero_cli_fail_together(cli, command->name, st) : st;
        goto out;
    }
    if (cli->common.help) {
        CERO_TRY_GOTO(print_help(command), out);
        goto out;
    }
    if (cli->common.quiet || cli->common.verbose) {
        cero_log_set_level(cli->common.quiet ? CERO_LOG_ERROR : CERO_LOG_DEBUG);
    }
    cero_cli_at(cli, CERO_CLI_WORKING, NULL);
    CERO_TRY_GOTO(command->run(cli, values), out);

out:
    cero_args_cleanup(&table, values);
    cero_delete(values);
    return st;
}

/* Options before the command: those every command takes, and --version. */
static cero_status run_leading_options(int argc, char *const *argv, int *used, cero_cli *cli,
                                       bool *is_done)
{
    cero_args_table table = {.common = common_options};

    *used = 0;
    while (*used < argc && argv[*used][0] == '-') {
        if (strcmp(argv[*used], "--version") == 0 || strcmp(argv[*used], "-V") == 0) {
            print_version();
            *is_done = true;
            return CERO_OK;
        }
        int words = strcmp(argv[*used], "--color") == 0 && *used + 1 < argc ? 2 : 1;
        CERO_TRY(cero_args_parse(&table, words, argv + *used, NULL, &cli->common));
        *used += words;
    }
    *is_done = cli->common.help;
    return cli->common.help ? print_overview() : CERO_OK;
}

static cero_status run_line(int argc, char *const *argv, cero_cli *cli, const char **name)
{
    bool is_done = false;
    int used = 0;
    int words = 0;

    cli->doing = CERO_CLI_USAGE;
    CERO_TRY(run_leading_options(argc, argv, &used, cli, &is_done));
    if (is_done) {
        return CERO_OK;
    }
    argc -= used;
    argv += used;
    if (argc == 0) {
        return CERO_FAIL(CERO_ERR_INVALID, "a command is missing; cero --help lists them");
    }
    if (strcmp(argv[0], "help") == 0) {
        return print_overview();
    }
    const cero_command *command = find_command(argc, argv, &words);
    if (command == NULL) {
        return fail_unknown_command(argc, argv);
    }
    *name = command->name;
    return run_command(command, argc - words, argv + words, cli);
}

int main(int argc, char **argv)
{
    cero_cli cli = {.commands = commands, .command_count = (int)CERO_COUNT_OF(commands)};
    const char *name = "";

    cero_log_init();
    cero_status st = run_line(argc - 1, argv + 1, &cli, &name);
    if (st == CERO_OK && fflush(stdout) != 0) {
        cero_cli_at(&cli, CERO_CLI_WORKING, NULL);
        st = CERO_FAIL(CERO_ERR_IO, "writing to standard output: %s", strerror(errno));
    }
    if (st == CERO_OK && cli.is_stopped) {
        return CERO_EXIT_TEMPORARY;
    }
    return st == CERO_OK ? cli.exit_code : (int)cero_cli_report(&cli, name, st);
}
