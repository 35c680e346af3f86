/* SPDX-License-Identifier: Apache-2.0 */
/* Runs the command in a child process and reads what it left: exit code, stderr, metrics.jsonl. */
#ifndef CERO_TESTS_COMMAND_H
#define CERO_TESTS_COMMAND_H

#include "harness.h"

#include "base/file.h"
#include "base/json.h"

#include <fcntl.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    COMMAND_MAX_WORDS = 48
};

/* Path of the command; the test skips with a line when CERO_COMMAND does not say it. */
static inline const char *command_path(void)
{
    const char *program = getenv("CERO_COMMAND");

    if (program == NULL) {
        print_message("skipped: CERO_COMMAND is not set\n");
        skip();
    }
    return program;
}

/* Starts "cero WORD…" (up to the first NULL) with stdout thrown away and stderr in the file `err`. */
static inline pid_t command_start(const char *const *words, const char *err)
{
    const char *program = command_path();
    char *argv[COMMAND_MAX_WORDS + 2];
    int count = 0;

    argv[count++] = cero_strdup(program);
    for (int i = 0; words[i] != NULL; i++) {
        assert_true(count < COMMAND_MAX_WORDS);
        argv[count++] = cero_strdup(words[i]);
    }
    argv[count] = NULL;
    (void)fflush(stdout);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        int null = open("/dev/null", O_RDWR);
        int file = open(err, O_WRONLY | O_CREAT | O_TRUNC, 0600);
        if (null < 0 || file < 0 || dup2(null, 0) < 0 || dup2(null, 1) < 0 || dup2(file, 2) < 0) {
            _exit(126);
        }
        (void)execv(program, argv);
        _exit(127);
    }
    for (int i = 0; i < count; i++) {
        cero_delete(argv[i]);
    }
    return child;
}

/* Its exit code; a signal is an error of the test. */
static inline int command_wait(pid_t child)
{
    int status = 0;

    assert_int_equal(waitpid(child, &status, 0), child);
    if (!WIFEXITED(status)) {
        fail_msg("the command ended by signal %d", WTERMSIG(status));
    }
    return WEXITSTATUS(status);
}

static inline int command_run(const char *const *words, const char *err)
{
    return command_wait(command_start(words, err));
}

/* Runs; shows stderr when the exit code is another one. */
static inline void command_expect(int code, const char *const *words, const char *err)
{
    int found = command_run(words, err);
    char *text = NULL;
    size_t length = 0;

    if (found != code) {
        assert_ok(cero_file_read(err, 0, &text, &length));
        fail_msg("cero %s gave %d, expected %d: %s", words[0], found, code, text);
    }
}

/* stderr holds this text. */
static inline void command_expect_text(const char *err, const char *wanted)
{
    char *text = NULL;
    size_t length = 0;

    assert_ok(cero_file_read(err, 0, &text, &length));
    if (strstr(text, wanted) == NULL) {
        fail_msg("stderr lacks \"%s\": %s", wanted, text);
    }
    cero_delete(text);
}

typedef void (*command_line_visitor)(void *context, int64_t index, const cero_json *line);

/* Gives each line of a .jsonl file; returns how many there are. */
static inline int64_t command_read_lines(const char *path, command_line_visitor visit,
                                         void *context)
{
    char *text = NULL;
    size_t length = 0;
    int64_t count = 0;

    assert_ok(cero_file_read(path, 0, &text, &length));
    for (char *at = text; *at != '\0';) {
        cero_json_document *line = NULL;
        char *end = strchr(at, '\n');
        assert_non_null(end); // every line is whole
        assert_ok(cero_json_parse(path, at, (size_t)(end - at), NULL, &line));
        if (visit != NULL) {
            visit(context, count, cero_json_root(line));
        }
        cero_json_destroy(&line);
        count++;
        at = end + 1;
    }
    cero_delete(text);
    return count;
}

/* A number of a line of metrics. */
static inline double command_number(const cero_json *line, const char *key)
{
    const cero_json *value = cero_json_find(line, key);

    if (value == NULL || value->type != CERO_JSON_NUMBER) {
        fail_msg("the line has no number \"%s\"", key);
        return 0;
    }
    return value->number;
}

#endif
