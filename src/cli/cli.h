/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a command of `cero` is: a name, tables of options, and a function; and the exit codes.
 *
 * main.c owns the list of commands, parses the command line, and turns the status a command returns
 * into one message and an exit code. Commands write data to stdout and messages to stderr.
 */
#ifndef CERO_CLI_CLI_H
#define CERO_CLI_CLI_H

#include "base/status.h"
#include "cero/cero.h"
#include "cli/args.h"

/* Exit codes are part of the interface; docs/errors.md has the table. */
typedef enum cero_exit {
    CERO_EXIT_OK = 0,
    CERO_EXIT_FAILURE = 1,
    CERO_EXIT_USAGE = 2,
    CERO_EXIT_DATA = 65,
    CERO_EXIT_NO_INPUT = 66,
    CERO_EXIT_INTERNAL = 70,
    CERO_EXIT_CANNOT_CREATE = 73,
    CERO_EXIT_IO = 74,
    CERO_EXIT_TEMPORARY = 75,
    CERO_EXIT_CONFIG = 78
} cero_exit;

/* What a command is at, so that a status gets the right exit code. */
typedef enum cero_cli_doing {
    CERO_CLI_WORKING = 0,
    CERO_CLI_USAGE = 1,          /* looking at the command line */
    CERO_CLI_READING_CONFIG = 2, /* a config or a model description */
    CERO_CLI_READING_INPUT = 3,
    CERO_CLI_CREATING = 4 /* an output that does not exist yet */
} cero_cli_doing;

/* Indices of --color's choices. */
typedef enum cero_cli_color {
    CERO_CLI_COLOR_AUTO = 0,
    CERO_CLI_COLOR_ALWAYS = 1,
    CERO_CLI_COLOR_NEVER = 2
} cero_cli_color;

/* The options every command takes. */
typedef struct cero_cli_common {
    bool help;
    bool quiet;
    bool verbose;
    int color; /* a cero_cli_color */
} cero_cli_common;

typedef struct cero_command cero_command;

/* Handed to each command. */
typedef struct cero_cli {
    cero_cli_common common;
    cero_cli_doing doing; /* kept up to date by the command */
    char path[1024];      /* what is being read or created; empty: nothing in particular */
    bool is_stopped;      /* asked to stop by SIGTERM and did so cleanly: exit code 75 */
    int exit_code;        /* of a program that the command ran; what `cero` leaves with */
    const cero_command *const *commands; /* [command_count], all of them */
    int command_count;
} cero_cli;

struct cero_command {
    const char *name;    /* one or two words: "tokenizer train" */
    const char *summary; /* one line of the list of commands */
    const char *usage;   /* behind the name: "--out DIR FILE…" */
    const char *details; /* paragraphs below the usage; NULL: none */
    const cero_option *options;
    cero_operands operands;
    size_t values_size;                 /* of the struct that run gets, cleared before parsing */
    void (*set_defaults)(void *values); /* NULL: all zero */
    bool
        is_parallel; /* under a launcher the processes are ranks of one world, and agree when they joined it */
    cero_status (*run)(cero_cli *cli, void *values);
};

/* Notes what comes next, for the exit code of what fails from here on. */
void cero_cli_at(cero_cli *cli, cero_cli_doing doing, const char *path);

/*
 * Finds the input that is not there before any work is done. NAME also stands for NAME.bin and NAME.idx.
 * Leaves `cli` at reading input. Errors: IO.
 */
CERO_NODISCARD cero_status cero_cli_require_inputs(cero_cli *cli, const cero_words *paths);

/* The exit code of a status met while doing something with a path (or NULL, or empty). */
cero_exit cero_cli_exit_code(cero_status status, cero_cli_doing doing, const char *path);

/* Prints "cero train: error: …" once to stderr, with the trace when verbose; gives the exit code. */
cero_exit cero_cli_report(const cero_cli *cli, const char *command, cero_status status);

/*
 * In a world of several ranks, after an error: the rank that failed first reports and ends the job with its exit
 * code, so that nobody waits for a rank that has left; does not return then. Alone it does nothing. A context
 * that could not be created is NULL.
 */
void cero_cli_leave(const cero_cli *cli, const char *command, cero_context *context,
                    cero_status status);

/*
 * For an error that comes before the world: joins it, where the others are told or have failed alike, and leaves
 * as above. Returns the status, with its message, to a process that is alone.
 */
cero_status cero_cli_fail_together(const cero_cli *cli, const char *command, cero_status status);

/* True if colours are wanted on this stream (1: stdout, 2: stderr). */
bool cero_cli_has_color(const cero_cli *cli, int fd);

/* Writes a finished text to stdout. Errors: NOMEM, IO. */
CERO_NODISCARD cero_status cero_cli_print(const cero_text *text);

/* The commands, each in cmd_<name>.c, those of two words in a folder. */
extern const cero_command cero_command_bench;
extern const cero_command cero_command_ckpt_export;
extern const cero_command cero_command_ckpt_hash;
extern const cero_command cero_command_ckpt_ls;
extern const cero_command cero_command_ckpt_show;
extern const cero_command cero_command_ckpt_verify;
extern const cero_command cero_command_info;
extern const cero_command cero_command_generate;
extern const cero_command cero_command_inspect;
extern const cero_command cero_command_launch;
extern const cero_command cero_command_plan;
extern const cero_command cero_command_train;
extern const cero_command cero_command_tokenize;
extern const cero_command cero_command_tokenizer_train;

#endif
