/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which launcher is installed: `mpirun` may be anybody's, so that it is asked for its version.
 */
#include "base/memory.h"
#include "cli/launch/launch.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

enum {
    MAX_VERSION_BYTES = 4096,
    VERSION_TIMEOUT_MS = 20000 // start-up over a network file system is slow
};

static const cero_launch_ops *const all_ops[] = {&cero_launch_openmpi, &cero_launch_mpich,
                                                 &cero_launch_slurm};

static bool is_executable_file(const char *path)
{
    struct stat info;

    return stat(path, &info) == 0 && S_ISREG(info.st_mode) && access(path, X_OK) == 0;
}

bool cero_launch_is_executable(const char *name)
{
    const char *path = cero_launch_foreign("PATH");

    if (strchr(name, '/') != NULL) {
        return is_executable_file(name);
    }
    path = path != NULL ? path : "/usr/local/bin:/usr/bin:/bin";
    for (;;) {
        char file[4096];
        size_t length = strcspn(path, ":");
        // An empty part means the current directory.
        int n = snprintf(file, sizeof(file), "%.*s%s%s", (int)length, path, length > 0 ? "/" : "",
                         name);
        if (n > 0 && (size_t)n < sizeof(file) && is_executable_file(file)) {
            return true;
        }
        if (path[length] == '\0') {
            return false;
        }
        path += length + 1;
    }
}

/* Starts `program --version` with stdout in a pipe and nothing else; gives its process or -1. */
static pid_t start_version(const char *program, int *out)
{
    char option[] = "--version";
    char *name = cero_strdup(program);
    char *argv[] = {name, option, NULL};
    posix_spawn_file_actions_t actions;
    int ends[2] = {-1, -1};
    pid_t child = -1;

    if (name == NULL || pipe(ends) != 0) {
        cero_delete(name);
        return -1;
    }
    (void)fcntl(ends[0], F_SETFD, FD_CLOEXEC);
    bool is_ready = posix_spawn_file_actions_init(&actions) == 0;
    if (is_ready) {
        is_ready = posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0) == 0 &&
                   posix_spawn_file_actions_adddup2(&actions, ends[1], 1) == 0 &&
                   posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0) == 0 &&
                   posix_spawn_file_actions_addclose(&actions, ends[1]) == 0;
        if (!is_ready || posix_spawnp(&child, program, &actions, NULL, argv, environ) != 0) {
            child = -1;
        }
        (void)posix_spawn_file_actions_destroy(&actions);
    }
    (void)close(ends[1]);
    cero_delete(name);
    if (child < 0) {
        (void)close(ends[0]);
    }
    *out = ends[0];
    return child;
}

/* Reads until the end, until the text is full, or until nothing comes for too long. */
static size_t read_version(int fd, char *text, size_t size)
{
    size_t used = 0;

    while (used + 1 < size) {
        struct pollfd wait = {.fd = fd, .events = POLLIN};
        int ready = poll(&wait, 1, VERSION_TIMEOUT_MS);
        if (ready < 0 && errno == EINTR) {
            continue;
        }
        ssize_t got = ready > 0 ? read(fd, text + used, size - 1 - used) : 0;
        if (got <= 0) {
            break;
        }
        used += (size_t)got;
    }
    text[used] = '\0';
    return used;
}

/* What `program --version` says; empty when it says nothing. */
static void ask_version(const char *program, char *text, size_t size)
{
    int fd = -1;
    pid_t child = start_version(program, &fd);

    text[0] = '\0';
    if (child < 0) {
        return;
    }
    (void)read_version(fd, text, size);
    (void)close(fd);
    // It has said what it had to say, or hangs.
    (void)kill(child, SIGKILL);
    while (waitpid(child, NULL, 0) < 0 && errno == EINTR) {
    }
}

/* One line for people: the first, and hydra's "Version:" from below it. */
static void shorten_version(const char *text, char *out, size_t size)
{
    const char *number = strstr(text, "Version:");
    size_t first = strcspn(text, "\r\n");

    if (strncmp(text, "HYDRA", 5) == 0 && number != NULL) {
        number += strlen("Version:");
        number += strspn(number, " \t");
        (void)snprintf(out, size, "hydra %.*s", (int)strcspn(number, "\r\n"), number);
        return;
    }
    (void)snprintf(out, size, "%.*s", (int)first, text);
}

/* True if `program` is there and is what `ops` knows; `text` gets what it said of itself. */
static bool is_program_of(const cero_launch_ops *ops, const char *program, char *text, size_t size)
{
    text[0] = '\0';
    if (!cero_launch_is_executable(program)) {
        return false;
    }
    if (ops->marker == NULL) {
        return true;
    }
    ask_version(program, text, size);
    return strstr(text, ops->marker) != NULL;
}

/* The first program of `ops` that is there. */
static bool find_program(const cero_launch_ops *ops, cero_launch_choice *out)
{
    char text[MAX_VERSION_BYTES];

    for (const char *const *p = ops->programs; *p != NULL; p++) {
        if (is_program_of(ops, *p, text, sizeof(text))) {
            *out = (cero_launch_choice){.ops = ops, .program = *p};
            shorten_version(text, out->version, sizeof(out->version));
            return true;
        }
    }
    return false;
}

/* `mpirun` is what the user's environment has chosen: it decides when it is one of ours. */
static bool find_mpirun(cero_launch_choice *out, char *unknown, size_t size)
{
    char text[MAX_VERSION_BYTES] = "";

    for (size_t i = 0; i < CERO_COUNT_OF(all_ops); i++) {
        if (all_ops[i]->marker != NULL && is_program_of(all_ops[i], "mpirun", text, sizeof(text))) {
            *out = (cero_launch_choice){.ops = all_ops[i], .program = "mpirun"};
            shorten_version(text, out->version, sizeof(out->version));
            return true;
        }
    }
    shorten_version(text, unknown, size);
    return false;
}

static cero_status find_any(bool prefers_slurm, cero_launch_choice *out)
{
    char unknown[128] = "";

    if (prefers_slurm && find_program(&cero_launch_slurm, out)) {
        return CERO_OK;
    }
    if (find_mpirun(out, unknown, sizeof(unknown)) || find_program(&cero_launch_openmpi, out) ||
        find_program(&cero_launch_mpich, out)) {
        return CERO_OK;
    }
    if (unknown[0] != '\0') {
        return CERO_FAIL(CERO_ERR_UNSUPPORTED,
                         "mpirun says '%s'; Open MPI, MPICH's hydra and Slurm are what cero launch "
                         "knows",
                         unknown);
    }
    return CERO_FAIL(CERO_ERR_UNSUPPORTED,
                     "no launcher is in PATH: looked for mpirun, mpiexec.hydra, mpiexec%s; install "
                     "Open MPI or MPICH, or start one process without cero launch",
                     prefers_slurm ? ", srun" : "");
}

static cero_status fail_not_found(const cero_launch_ops *ops)
{
    cero_text looked_for = {0};

    for (const char *const *p = ops->programs; *p != NULL; p++) {
        cero_text_printf(&looked_for, "%s%s", p == ops->programs ? "" : ", ", *p);
    }
    cero_status st = CERO_FAIL(CERO_ERR_UNSUPPORTED,
                               "--launcher %s: PATH has nothing of the kind (looked for %s)",
                               ops->name, looked_for.data);
    cero_text_cleanup(&looked_for);
    return st;
}

cero_status cero_launch_find(const char *name, bool prefers_slurm, bool must_exist,
                             cero_launch_choice *out)
{
    if (strcmp(name, "auto") == 0) {
        return find_any(prefers_slurm, out);
    }
    for (size_t i = 0; i < CERO_COUNT_OF(all_ops); i++) {
        const cero_launch_ops *ops = all_ops[i];
        if (strcmp(ops->name, name) != 0) {
            continue;
        }
        if (find_program(ops, out)) {
            return CERO_OK;
        }
        if (must_exist) {
            return fail_not_found(ops);
        }
        *out = (cero_launch_choice){.ops = ops, .program = ops->programs[0]};
        return CERO_OK;
    }
    return CERO_FAIL(CERO_ERR_INVALID, "there is no launcher '%s'", name);
}
