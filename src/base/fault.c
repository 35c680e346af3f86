/* SPDX-License-Identifier: Apache-2.0 */
/* Reads CERO_FAULT and counts the calls it is about. */
#include "base/fault.h"

#include "base/log.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum {
    MAX_VALUE = 64
};

typedef struct fault {
    char value[MAX_VALUE]; /* the text of CERO_FAULT this was read from */
    char call[16];
    unsigned long left; /* calls until it strikes; 0: it has struck, or the text was wrong */
    int error;
    int signal; /* instead of an error; 0: none */
} fault;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static atomic_bool is_armed;
static fault current;

static int error_by_name(const char *name)
{
    static const struct {
        const char *name;
        int error;
    } errors[] = {
        {"SHORT", CERO_FAULT_SHORT},
        {"EACCES", EACCES},
        {"EDQUOT", EDQUOT},
        {"EEXIST", EEXIST},
        {"EFBIG", EFBIG},
        {"EINTR", EINTR},
        {"EIO", EIO},
        {"EMFILE", EMFILE},
        {"ENOENT", ENOENT},
        {"ENOSPC", ENOSPC},
        {"EPERM", EPERM},
        {"EROFS", EROFS},
    };
    for (size_t i = 0; i < CERO_COUNT_OF(errors); i++) {
        if (strcmp(errors[i].name, name) == 0) {
            return errors[i].error;
        }
    }
    return CERO_FAULT_NONE;
}

static int signal_by_name(const char *name)
{
    return strcmp(name, "SIGKILL") == 0   ? SIGKILL
           : strcmp(name, "SIGSTOP") == 0 ? SIGSTOP
           : strcmp(name, "SIGTERM") == 0 ? SIGTERM
           : strcmp(name, "SIGUSR1") == 0 ? SIGUSR1
           : strcmp(name, "SIGINT") == 0  ? SIGINT
                                          : 0;
}

static void arm(const char *value)
{
    const char *first = strchr(value, ':');
    const char *second = first == NULL ? NULL : strchr(first + 1, ':');

    current = (fault){0};
    strncpy(current.value, value, sizeof(current.value) - 1);
    if (second != NULL && (size_t)(first - value) < sizeof(current.call)) {
        memcpy(current.call, value, (size_t)(first - value));
        current.error = error_by_name(second + 1);
        current.signal = signal_by_name(second + 1);
        bool is_known = current.error != CERO_FAULT_NONE || current.signal != 0;
        char *end = NULL;
        current.left = strtoul(first + 1, &end, 10);
        current.left = end == second && is_known ? current.left : 0;
    }
    if (current.left == 0) {
        cero_log(CERO_LOG_WARN, "base",
                 "CERO_FAULT is %s, expected call:n:ERRNO or call:n:SIGNAL; it has no effect",
                 value);
    }
}

int cero_fault_next(const char *call)
{
    const char *value = getenv("CERO_FAULT");
    int error = CERO_FAULT_NONE;
    int signal_number = 0;

    if (value == NULL) {
        atomic_store_explicit(&is_armed, false, memory_order_relaxed);
        return CERO_FAULT_NONE;
    }
    (void)pthread_mutex_lock(&lock);
    if (!atomic_load(&is_armed) || strncmp(current.value, value, MAX_VALUE - 1) != 0) {
        arm(value);
        atomic_store(&is_armed, true);
    }
    if (current.left > 0 && strcmp(current.call, call) == 0 && --current.left == 0) {
        error = current.error;
        signal_number = current.signal;
    }
    (void)pthread_mutex_unlock(&lock);
    if (signal_number != 0) {
        (void)raise(signal_number);
    }
    return error;
}
