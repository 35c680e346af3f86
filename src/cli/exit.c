/* SPDX-License-Identifier: Apache-2.0 */
/* What leaves the process: data on stdout, one message on stderr, one exit code. */
#include "base/clock.h"
#include "base/file.h"
#include "cli/cli.h"
#include "engine/engine.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void cero_cli_at(cero_cli *cli, cero_cli_doing doing, const char *path)
{
    cli->doing = doing;
    (void)snprintf(cli->path, sizeof(cli->path), "%s", path != NULL ? path : "");
}

/* The operating system refused: whose fault it is depends on what was being done. */
static cero_exit io_exit_code(cero_cli_doing doing, const char *path)
{
    bool is_reading = doing == CERO_CLI_READING_CONFIG || doing == CERO_CLI_READING_INPUT;

    if (is_reading && path != NULL && path[0] != '\0' &&
        cero_file_stat(path, NULL) == CERO_FILE_ABSENT) {
        return CERO_EXIT_NO_INPUT;
    }
    return doing == CERO_CLI_CREATING ? CERO_EXIT_CANNOT_CREATE : CERO_EXIT_IO;
}

cero_status cero_cli_require_inputs(cero_cli *cli, const cero_words *paths)
{
    for (int i = 0; i < paths->count; i++) {
        const char *path = paths->word[i];
        char both[sizeof(cli->path) + 8];
        (void)snprintf(both, sizeof(both), "%s.bin", path);
        cero_cli_at(cli, CERO_CLI_READING_INPUT, path);
        if (cero_file_stat(path, NULL) == CERO_FILE_ABSENT &&
            cero_file_stat(both, NULL) == CERO_FILE_ABSENT) {
            return CERO_FAIL(CERO_ERR_IO, "%s: there is no such file or directory", path);
        }
    }
    cero_cli_at(cli, CERO_CLI_READING_INPUT, NULL);
    return CERO_OK;
}

cero_exit cero_cli_exit_code(cero_status status, cero_cli_doing doing, const char *path)
{
    switch (status) {
    case CERO_OK:
        return CERO_EXIT_OK;
    case CERO_ERR_IO:
        return io_exit_code(doing, path);
    case CERO_ERR_INTERNAL:
        return CERO_EXIT_INTERNAL;
    case CERO_ERR_COMM:
    case CERO_ERR_REMOTE:
        return CERO_EXIT_TEMPORARY;
    case CERO_ERR_INVALID:
    case CERO_ERR_SHAPE:
    case CERO_ERR_CORRUPT:
    case CERO_ERR_UNSUPPORTED:
        if (doing == CERO_CLI_READING_CONFIG) {
            return CERO_EXIT_CONFIG;
        }
        if (doing == CERO_CLI_READING_INPUT || status == CERO_ERR_CORRUPT) {
            return CERO_EXIT_DATA;
        }
        if (doing == CERO_CLI_CREATING) {
            return CERO_EXIT_CANNOT_CREATE;
        }
        return doing == CERO_CLI_USAGE ? CERO_EXIT_USAGE : CERO_EXIT_FAILURE;
    case CERO_ERR_NOMEM:
    case CERO_ERR_NUMERIC:
    case CERO_STATUS_COUNT:
        break;
    }
    return CERO_EXIT_FAILURE;
}

cero_exit cero_cli_report(const cero_cli *cli, const char *command, cero_status status)
{
    bool has_color = cero_cli_has_color(cli, STDERR_FILENO);
    const char *text = cli->common.verbose ? cero_error_string() : cero_error_message();

    // The message may be about the last write to stdout; what is still buffered there comes first.
    (void)fflush(stdout);
    (void)fprintf(stderr, "cero%s%s: %serror:%s %s\n", command[0] != '\0' ? " " : "", command,
                  has_color ? "\033[1;31m" : "", has_color ? "\033[0m" : "", text);
    return cero_cli_exit_code(status, cli->doing, cli->path);
}

/* To the end: the signal by which a launcher ends its ranks interrupts a sleep. */
static void wait_to_be_ended(double seconds)
{
    double end = cero_clock_now() + seconds;

    for (double left = seconds; left > 0; left = end - cero_clock_now()) {
        cero_clock_sleep(left);
    }
}

/*
 * The world never came about: the rank that failed first has its own message, which a launcher that sees another
 * rank leave with an error might cut off.
 */
static void leave_without_world(cero_status status)
{
    enum {
        MESSAGE_SECONDS = 2
    };

    if (status == CERO_ERR_REMOTE) {
        wait_to_be_ended(MESSAGE_SECONDS);
        exit(CERO_EXIT_FAILURE);
    }
}

void cero_cli_leave(const cero_cli *cli, const char *command, cero_context *context,
                    cero_status status)
{
    enum {
        GRACE = 10 /* seconds in which the rank that speaks ends this one */
    };
    char name[64];

    if (context == NULL) {
        leave_without_world(status);
        return;
    }
    if (cero_context_size(context) == 1) {
        return;
    }
    // A rank that nobody ended speaks after all: whoever should have is gone.
    if (!cero_context_speaks(context, status)) {
        wait_to_be_ended(GRACE);
    }
    (void)snprintf(name, sizeof(name), "%.32s: rank %d of %d", command, cero_context_rank(context),
                   cero_context_size(context));
    cero_exit code = cero_cli_report(cli, name, status);
    (void)fflush(stderr);
    cero_context_abort(context, (int)code);
    exit((int)code);
}

cero_status cero_cli_fail_together(const cero_cli *cli, const char *command, cero_status status)
{
    char message[1024];
    cero_context *context = NULL;

    (void)snprintf(message, sizeof(message), "%s", cero_error_message());
    if (cero_context_create(NULL, &context) == CERO_OK) {
        status = cero_context_agree(context, CERO_FAIL(status, "%s", message));
        cero_cli_leave(cli, command, context, status);
        cero_context_destroy(&context);
        return status;
    }
    return CERO_FAIL(status, "%s", message);
}

bool cero_cli_has_color(const cero_cli *cli, int fd)
{
    const char *no_color = getenv("NO_COLOR");

    if (cli->common.color != CERO_CLI_COLOR_AUTO) {
        return cli->common.color == CERO_CLI_COLOR_ALWAYS;
    }
    return isatty(fd) == 1 && (no_color == NULL || no_color[0] == '\0');
}

cero_status cero_cli_print(const cero_text *text)
{
    CERO_TRY(cero_text_finish(text));
    if (fwrite(text->data, 1, text->length, stdout) != text->length || fflush(stdout) != 0) {
        return CERO_FAIL(CERO_ERR_IO, "writing to standard output: %s", strerror(errno));
    }
    return CERO_OK;
}
