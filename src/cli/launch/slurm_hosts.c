/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The hosts of a Slurm allocation, from the variables that Slurm sets in it: a list of names with ranges,
 * "node[01-03,7],gpu1", and counts with repetitions, "72(x2),36".
 */
#include "base/memory.h"
#include "cli/launch/launch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    MAX_HOSTS = 100000
};

/* Digits at *at within `width` and value; *at moves behind them. */
static bool read_padded(const char **at, const char *end, int *width, int *value)
{
    const char *begin = *at;
    int n = 0;

    while (*at < end && **at >= '0' && **at <= '9' && *at - begin < 9) {
        n = n * 10 + (**at - '0');
        (*at)++;
    }
    *width = (int)(*at - begin);
    *value = n;
    return *width > 0;
}

static cero_status expand_item(const char *prefix, const char *begin, const char *end,
                               cero_host_list *out);

/* Each number of one "[01-03,7]" between a prefix and the rest of the item. */
static cero_status expand_range(const char *prefix, const char *range, const char *close,
                                const char *end, cero_host_list *out)
{
    while (range < close) {
        int width = 0;
        int last_width = 0;
        int first = 0;
        bool is_good = read_padded(&range, close, &width, &first);
        int last = first;
        if (is_good && range < close && *range == '-') {
            range++;
            is_good = read_padded(&range, close, &last_width, &last) && last >= first;
        }
        is_good = is_good && (range == close || *range == ',');
        CERO_CHECK(is_good, CERO_ERR_INVALID, "a range of hosts is not understood at '%.*s'",
                   (int)(close - range), range);
        range++;
        for (int i = first; i <= last; i++) {
            char name[300];
            int length = snprintf(name, sizeof(name), "%s%0*d", prefix, width, i);
            CERO_CHECK(length > 0 && length < 256, CERO_ERR_INVALID, "a host name of %d bytes",
                       length);
            CERO_TRY(expand_item(name, close + 1, end, out));
        }
    }
    return CERO_OK;
}

/* One item of the list: plain text and ranges in turn; `prefix` is what is expanded already. */
static cero_status expand_item(const char *prefix, const char *begin, const char *end,
                               cero_host_list *out)
{
    const char *open = memchr(begin, '[', (size_t)(end - begin));
    char name[300];

    int length = snprintf(name, sizeof(name), "%s%.*s", prefix,
                          (int)((open != NULL ? open : end) - begin), begin);
    CERO_CHECK(length >= 0 && length < 256, CERO_ERR_INVALID, "a host name of %d bytes", length);
    CERO_CHECK(out->count < MAX_HOSTS, CERO_ERR_INVALID, "more than %d hosts", (int)MAX_HOSTS);
    if (open == NULL) {
        return cero_host_list_add(out, name, (size_t)length, 1);
    }
    const char *close = memchr(open, ']', (size_t)(end - open));
    CERO_CHECK(close != NULL && close > open + 1, CERO_ERR_INVALID,
               "a range of hosts is not closed at '%.*s'", (int)(end - open), open);
    return expand_range(name, open + 1, close, end, out);
}

/* The comma that ends the item at `at`, or the end: commas within brackets part ranges. */
static const char *item_end(const char *at)
{
    int depth = 0;

    while (*at != '\0' && (*at != ',' || depth > 0)) {
        depth += *at == '[' ? 1 : 0;
        depth -= *at == ']' ? 1 : 0;
        at++;
    }
    return at;
}

cero_status cero_launch_slurm_expand(const char *text, cero_host_list *out)
{
    const char *at = text;
    cero_status st = CERO_OK;

    for (;;) {
        const char *end = item_end(at);
        CERO_TRY_GOTO(expand_item("", at, end, out), fail);
        if (*end == '\0') {
            return CERO_OK;
        }
        at = end + 1;
    }

fail:
    cero_host_list_cleanup(out);
    return cero_error_prefix(st, "the list of hosts '%s'", text);
}

/* The number for host `index` in Slurm's "72(x2),36"; false when the text has none. */
static bool count_at(const char *text, int64_t index, int *out)
{
    while (*text != '\0') {
        char *end = NULL;
        long value = strtol(text, &end, 10);
        long times = 1;
        if (end == text || value < 1 || value > CERO_HOST_MAX_SLOTS) {
            return false;
        }
        if (strncmp(end, "(x", 2) == 0) {
            times = strtol(end + 2, &end, 10);
            if (times < 1 || *end++ != ')') {
                return false;
            }
        }
        if (index < times) {
            *out = (int)value;
            return true;
        }
        index -= times;
        if (*end != ',') {
            return false;
        }
        text = end + 1;
    }
    return false;
}

/* Numbers of one variable for every host; fine if it is not set. */
static cero_status read_counts(const char *name, const cero_host_list *hosts, int *counts,
                               bool *is_set)
{
    const char *text = cero_launch_foreign(name);

    *is_set = text != NULL;
    for (int64_t i = 0; text != NULL && i < hosts->count; i++) {
        CERO_CHECK(count_at(text, i, &counts[i]), CERO_ERR_INVALID,
                   "%s is '%s', which has no number for host %lld of %lld", name, text,
                   (long long)i + 1, (long long)hosts->count);
    }
    return CERO_OK;
}

/* Slots, room and cores of every host. */
static cero_status fill_hosts(int slots_per_host, const int *tasks, const int *cpus,
                              cero_host_list *hosts)
{
    for (int64_t i = 0; i < hosts->count; i++) {
        cero_host *host = &hosts->host[i];
        host->cores = cpus[i];
        host->slots = tasks != NULL ? tasks[i] : slots_per_host;
        host->room = tasks == NULL && cpus[i] > host->slots ? cpus[i] : host->slots;
    }
    return CERO_OK;
}

cero_status cero_launch_slurm_hosts(int slots_per_host, cero_host_list *out)
{
    const char *list = cero_launch_foreign("SLURM_JOB_NODELIST");
    cero_status st = CERO_OK;
    bool has_tasks = false;
    bool has_cpus = false;

    CERO_CHECK(list != NULL && list[0] != '\0', CERO_ERR_INVALID,
               "SLURM_JOB_ID is set and SLURM_JOB_NODELIST is not: start within the allocation, or "
               "give --hostfile");
    CERO_TRY(cero_launch_slurm_expand(list, out));
    int *tasks = cero_new((size_t)out->count, sizeof(*tasks));
    int *cpus = cero_new((size_t)out->count, sizeof(*cpus));
    if (tasks == NULL || cpus == NULL) {
        CERO_FAIL_GOTO(out, CERO_ERR_NOMEM, "no memory for %lld hosts", (long long)out->count);
    }
    // Slurm sets SLURM_NTASKS when the user asked for tasks; without it the other one says little.
    if (cero_launch_foreign("SLURM_NTASKS") != NULL) {
        CERO_TRY_GOTO(read_counts("SLURM_TASKS_PER_NODE", out, tasks, &has_tasks), out);
    }
    CERO_TRY_GOTO(read_counts("SLURM_JOB_CPUS_PER_NODE", out, cpus, &has_cpus), out);
    st = fill_hosts(slots_per_host, has_tasks ? tasks : NULL, cpus, out);

out:
    cero_delete(tasks);
    cero_delete(cpus);
    if (st != CERO_OK) {
        cero_host_list_cleanup(out);
    }
    return st;
}
