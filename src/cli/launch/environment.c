/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which variables the ranks get, and the environment of the launcher that carries them; see launch.h.
 *
 * Launchers are told names alone and take the values from their own environment: values pass no quoting
 * and no list of processes.
 */
#include "base/memory.h"
#include "cli/launch/launch.h"

#include <stdlib.h>
#include <string.h>

static const char threads_name[] = "OMP_NUM_THREADS";

const char *cero_launch_foreign(const char *name)
{
    return getenv(name);
}

static bool is_name(const char *text, size_t length)
{
    if (length == 0 || (text[0] >= '0' && text[0] <= '9')) {
        return false;
    }
    return strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") >=
           length;
}

static bool is_forwarded(const char *name)
{
    return strncmp(name, "CERO_", 5) == 0 || strncmp(name, "OMP_", 4) == 0;
}

static bool is_set(char *const *environment, const char *name)
{
    size_t length = strlen(name);

    for (; *environment != NULL; environment++) {
        if (strncmp(*environment, name, length) == 0 && (*environment)[length] == '=') {
            return true;
        }
    }
    return false;
}

static int compare_words(const void *a, const void *b)
{
    char *const *x = a;
    char *const *y = b;

    return strcmp(*x, *y);
}

/* Sorts, and drops what comes twice. */
static void sort_unique(cero_vector *names)
{
    int64_t count = 0;

    if (names->count == 0) {
        return;
    }
    qsort(names->word, (size_t)names->count, sizeof(names->word[0]), compare_words);
    for (int64_t i = 0; i < names->count; i++) {
        if (count > 0 && strcmp(names->word[count - 1], names->word[i]) == 0) {
            cero_delete(names->word[i]);
        } else {
            names->word[count++] = names->word[i];
        }
    }
    names->count = count;
}

static cero_status add_export(char *const *environment, const char *name, cero_vector *names)
{
    CERO_CHECK(is_name(name, strlen(name)), CERO_ERR_INVALID,
               "--export: '%s' is not the name of a variable; values come from the environment",
               name);
    CERO_CHECK(is_set(environment, name), CERO_ERR_INVALID,
               "--export: %s is not set in the environment of cero launch", name);
    cero_vector_add(names, name);
    return CERO_OK;
}

cero_status cero_launch_collect_names(char *const *environment, const cero_words *exports,
                                      cero_launch_job *job)
{
    cero_vector *names = &job->forwarded;

    for (char *const *e = environment; *e != NULL; e++) {
        size_t length = strcspn(*e, "=");
        if ((*e)[length] == '=' && is_forwarded(*e) && is_name(*e, length)) {
            cero_vector_printf(names, "%.*s", (int)length, *e);
        }
    }
    if (job->sets_threads) {
        cero_vector_add(names, threads_name);
    }
    for (int i = 0; i < exports->count; i++) {
        CERO_TRY(add_export(environment, exports->word[i], names));
    }
    CERO_TRY(cero_vector_finish(names));
    sort_unique(names);
    return cero_vector_finish(names);
}

cero_status cero_launch_build_environment(char *const *environment, const cero_launch_job *job,
                                          cero_vector *out)
{
    size_t length = strlen(threads_name);

    for (; *environment != NULL; environment++) {
        bool is_ours =
            strncmp(*environment, threads_name, length) == 0 && (*environment)[length] == '=';
        if (!(is_ours && job->sets_threads)) {
            cero_vector_add(out, *environment);
        }
    }
    if (job->sets_threads) {
        cero_vector_printf(out, "%s=%d", threads_name, job->threads);
    }
    return cero_vector_finish(out);
}
