/* SPDX-License-Identifier: Apache-2.0 */
/* Orphans of a launcher, found by their parent in /proc; see launch/orphans.h. */
#include "cli/launch/orphans.h"

#include "base/clock.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* Seconds from the end of the launcher until its orphans get SIGTERM, SIGKILL, and until they are left. */
#define TERM_AFTER 0.5
#define KILL_AFTER 2.5
#define GIVE_UP    10.0

/* The parent of a process as /proc/PID/stat says it: the second word behind the name's last ')'. */
static long parent_of(const char *pid)
{
    char path[64];
    char text[512];

    (void)snprintf(path, sizeof(path), "/proc/%.20s/stat", pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return -1;
    }
    ssize_t got = read(fd, text, sizeof(text) - 1);
    (void)close(fd);
    text[got > 0 ? got : 0] = '\0';
    const char *at = strrchr(text, ')');
    // ") S 123 …"
    return at != NULL && strlen(at) > 4 ? strtol(at + 4, NULL, 10) : -1;
}

static void signal_children(int signal)
{
    DIR *dir = opendir("/proc");

    while (dir != NULL) {
        const struct dirent *entry = readdir(dir);
        if (entry == NULL) {
            break;
        }
        if (entry->d_name[0] >= '1' && entry->d_name[0] <= '9' &&
            parent_of(entry->d_name) == (long)getpid()) {
            (void)kill((pid_t)strtol(entry->d_name, NULL, 10), signal);
        }
    }
    if (dir != NULL) {
        (void)closedir(dir);
    }
}

/* Reaps what has ended; false when there is nothing left to wait for. */
static bool has_children(void)
{
    pid_t ended;

    do {
        ended = waitpid(-1, NULL, WNOHANG);
    } while (ended > 0 || (ended < 0 && errno == EINTR));
    return ended == 0;
}

void cero_launch_end_orphans(void)
{
    static const struct timespec moment = {.tv_nsec = 20 * 1000 * 1000};
    double begin = cero_clock_now();
    bool was_told = false;

    while (has_children()) {
        double passed = cero_clock_now() - begin;
        if (passed > GIVE_UP) {
            return;
        }
        if (passed > KILL_AFTER) {
            signal_children(SIGKILL);
        } else if (passed > TERM_AFTER && !was_told) {
            was_told = true;
            signal_children(SIGTERM);
        }
        (void)nanosleep(&moment, NULL);
    }
}
