/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What of this machine a job may use: processors, whole cores, NUMA nodes, read from /sys and the allowed
 * set of this process. Processors are what Linux counts (two to a core with simultaneous
 * multithreading); threads that compute want a core each.
 */
#ifndef CERO_CLI_LAUNCH_MACHINE_H
#define CERO_CLI_LAUNCH_MACHINE_H

#include "base/status.h"

/* Processors by their numbers. Zero-initialise. */
typedef struct cero_cpu_set {
    bool *has; /* [count], owned */
    int count;
} cero_cpu_set;

typedef struct cero_launch_machine {
    int cpus;           /* allowed processors */
    int cores;          /* cores with at least one of them */
    int numa_nodes;     /* nodes with at least one of them; at least 1 */
    bool is_restricted; /* there are processors online that are not allowed */
} cero_launch_machine;

enum {
    CERO_CPU_SET_MAX = 1 << 16
};

/* Reads the kernel's lists, "0-3,8,10-11"; false when it is something else. Errors: NOMEM. */
CERO_NODISCARD cero_status cero_cpu_set_parse(const char *text, cero_cpu_set *out, bool *is_list);

/* The processors this process may run on. Errors: NOMEM, INTERNAL. */
CERO_NODISCARD cero_status cero_cpu_set_allowed(cero_cpu_set *out);

void cero_cpu_set_cleanup(cero_cpu_set *set);

/*
 * Looks below `sys_root` ("/sys/devices/system"). What is not there is taken as one core for each
 * processor, one NUMA node, and nothing but the allowed processors. Errors: NOMEM.
 */
CERO_NODISCARD cero_status cero_launch_machine_look(const char *sys_root,
                                                    const cero_cpu_set *allowed,
                                                    cero_launch_machine *out);

#endif
