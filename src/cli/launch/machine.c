/* SPDX-License-Identifier: Apache-2.0 */
/* The processors of this machine; see launch_machine.h. */
#define _GNU_SOURCE // sched_getaffinity
#include "cli/launch/machine.h"

#include "base/file.h"
#include "base/memory.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void cero_cpu_set_cleanup(cero_cpu_set *set)
{
    cero_delete(set->has);
    *set = (cero_cpu_set){0};
}

/* Marks first … last, growing the set. */
static cero_status mark(cero_cpu_set *set, long first, long last)
{
    if (last >= set->count) {
        bool *grown = cero_renew(set->has, (size_t)last + 1, sizeof(set->has[0]));
        CERO_CHECK(grown != NULL, CERO_ERR_NOMEM, "no memory for %ld processors", last + 1);
        memset(grown + set->count, 0, (size_t)(last + 1 - set->count) * sizeof(grown[0]));
        set->has = grown;
        set->count = (int)last + 1;
    }
    for (long i = first; i <= last; i++) {
        set->has[i] = true;
    }
    return CERO_OK;
}

/* One number at *at, which moves behind it. */
static bool read_number(const char **at, long *out)
{
    char *end = NULL;

    if (**at < '0' || **at > '9') {
        return false;
    }
    *out = strtol(*at, &end, 10);
    *at = end;
    return *out < CERO_CPU_SET_MAX;
}

cero_status cero_cpu_set_parse(const char *text, cero_cpu_set *out, bool *is_list)
{
    cero_cpu_set set = {0};

    *is_list = false;
    while (*text != '\0' && *text != '\n') {
        long first;
        long last;
        bool is_good = read_number(&text, &first);
        last = first;
        if (is_good && *text == '-') {
            text++;
            is_good = read_number(&text, &last) && last >= first;
        }
        if (is_good && *text == ',') {
            text++;
        } else if (*text != '\0' && *text != '\n') {
            is_good = false;
        }
        cero_status st = is_good ? mark(&set, first, last) : CERO_OK;
        if (!is_good || st != CERO_OK) {
            cero_cpu_set_cleanup(&set);
            return st;
        }
    }
    *is_list = true;
    *out = set;
    return CERO_OK;
}

cero_status cero_cpu_set_allowed(cero_cpu_set *out)
{
    // The kernel refuses a mask that is smaller than its own; how large that is nobody says.
    for (int cpus = 1024; cpus <= CERO_CPU_SET_MAX; cpus *= 2) {
        size_t size = CPU_ALLOC_SIZE(cpus);
        cpu_set_t *mask = cero_new(size, 1);
        CERO_CHECK(mask != NULL, CERO_ERR_NOMEM, "no memory for %d processors", cpus);
        int rc = sched_getaffinity(0, size, mask);
        cero_status st = CERO_OK;
        for (int i = 0; rc == 0 && i < cpus && st == CERO_OK; i++) {
            st = CPU_ISSET_S((size_t)i, size, mask) ? mark(out, i, i) : CERO_OK;
        }
        cero_delete(mask);
        if (rc == 0) {
            return st;
        }
        if (errno != EINVAL) {
            break;
        }
    }
    return CERO_FAIL(CERO_ERR_INTERNAL, "asking for the allowed processors: %s", strerror(errno));
}

/* A list in a file of the kernel; *is_list is false when there is none. */
static cero_status read_list(const char *path, cero_cpu_set *out, bool *is_list)
{
    char *text = NULL;
    size_t length = 0;

    *is_list = false;
    if (cero_file_stat(path, NULL) != CERO_FILE_REGULAR ||
        cero_file_read(path, 1 << 20, &text, &length) != CERO_OK) {
        return CERO_OK;
    }
    cero_status st = cero_cpu_set_parse(text, out, is_list);
    cero_delete(text);
    return st;
}

static bool has(const cero_cpu_set *set, int i)
{
    return i < set->count && set->has[i];
}

static bool overlaps(const cero_cpu_set *a, const cero_cpu_set *b)
{
    for (int i = 0; i < a->count; i++) {
        if (a->has[i] && has(b, i)) {
            return true;
        }
    }
    return false;
}

/* Counts cores: a processor adds one when it is the first allowed of its siblings. */
static cero_status count_cores(const char *root, const cero_cpu_set *allowed,
                               cero_launch_machine *out)
{
    for (int i = 0; i < allowed->count; i++) {
        char path[512];
        cero_cpu_set siblings = {0};
        bool is_list = false;
        if (!allowed->has[i]) {
            continue;
        }
        (void)snprintf(path, sizeof(path), "%s/cpu/cpu%d/topology/thread_siblings_list", root, i);
        CERO_TRY(read_list(path, &siblings, &is_list));
        int first = 0;
        while (is_list && first < i && !(has(&siblings, first) && has(allowed, first))) {
            first++;
        }
        out->cores += !is_list || first == i ? 1 : 0;
        out->cpus++;
        cero_cpu_set_cleanup(&siblings);
    }
    return CERO_OK;
}

static cero_status count_numa_nodes(const char *root, const cero_cpu_set *allowed,
                                    cero_launch_machine *out)
{
    char path[512];
    cero_cpu_set nodes = {0};
    bool is_list = false;
    cero_status st = CERO_OK;

    (void)snprintf(path, sizeof(path), "%s/node/online", root);
    CERO_TRY(read_list(path, &nodes, &is_list));
    for (int i = 0; i < nodes.count; i++) {
        cero_cpu_set cpus = {0};
        if (!nodes.has[i]) {
            continue;
        }
        (void)snprintf(path, sizeof(path), "%s/node/node%d/cpulist", root, i);
        CERO_TRY_GOTO(read_list(path, &cpus, &is_list), out);
        out->numa_nodes += overlaps(&cpus, allowed) ? 1 : 0;
        cero_cpu_set_cleanup(&cpus);
    }
    out->numa_nodes = out->numa_nodes > 0 ? out->numa_nodes : 1;

out:
    cero_cpu_set_cleanup(&nodes);
    return st;
}

cero_status cero_launch_machine_look(const char *sys_root, const cero_cpu_set *allowed,
                                     cero_launch_machine *out)
{
    cero_launch_machine machine = {0};
    cero_cpu_set online = {0};
    char path[512];
    bool is_list = false;

    CERO_TRY(count_cores(sys_root, allowed, &machine));
    CERO_TRY(count_numa_nodes(sys_root, allowed, &machine));
    (void)snprintf(path, sizeof(path), "%s/cpu/online", sys_root);
    CERO_TRY(read_list(path, &online, &is_list));
    for (int i = 0; i < online.count; i++) {
        machine.is_restricted = machine.is_restricted || (online.has[i] && !has(allowed, i));
    }
    cero_cpu_set_cleanup(&online);
    *out = machine;
    return CERO_OK;
}
