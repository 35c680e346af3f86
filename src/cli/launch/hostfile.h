/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The hosts of a job and how many ranks each may run, read from a hostfile of any of the three dialects.
 *
 *   node1 slots=8                 DeepSpeed and Open MPI
 *   node1 slots=8 max_slots=16    Open MPI
 *   node1:8                       MPICH
 *   node1                         one slot; such lines may repeat and add up, as in a PBS node file
 *
 * The order of hosts is the order of ranks. Comments (#), blank lines and CRLF are accepted; a host that
 * comes twice with a count is an error, as in DeepSpeed: it is a copied line more often than a wish.
 */
#ifndef CERO_CLI_HOSTFILE_H
#define CERO_CLI_HOSTFILE_H

#include "base/status.h"

typedef struct cero_host {
    char *name;    /* owned */
    int slots;     /* ranks when nothing else is asked for; at least 1 */
    int room;      /* ranks that need no --oversubscribe; at least `slots` */
    int max_slots; /* ranks at all; 0: no bound */
    int cores;     /* 0: not known */
    int ranks;     /* placed here; see launch/place.c */
    int line;      /* of the hostfile; 0: from elsewhere */
    bool is_bare;  /* a line without a count */
} cero_host;

/* Zero-initialise. Names differ. */
typedef struct cero_host_list {
    cero_host *host; /* [count], owned */
    int64_t count;
    int64_t capacity;
} cero_host_list;

enum {
    CERO_HOST_MAX_SLOTS = 1000000 /* of one host: beyond it is a typing mistake */
};

/* Reads a file. Errors: IO; INVALID with file, line, text and the expected form; NOMEM. */
CERO_NODISCARD cero_status cero_hostfile_read(const char *path, cero_host_list *out);

/* The same from memory; `path` is for messages. `out` is empty before, and after an error. */
CERO_NODISCARD cero_status cero_hostfile_parse(const char *path, const char *text, size_t length,
                                               cero_host_list *out);

/* Appends a host; `room` starts as `slots`. Errors: INVALID when it is no host name, NOMEM. */
CERO_NODISCARD cero_status cero_host_list_add(cero_host_list *list, const char *name, size_t length,
                                              int slots);

/* The host of this name, or NULL. */
cero_host *cero_host_list_find(const cero_host_list *list, const char *name, size_t length);

/* Sum of the slots. */
int64_t cero_host_list_slots(const cero_host_list *list);

/* Letters, digits, '.', '-' and '_', not starting with a dash: it becomes a word of a command line. */
bool cero_host_name_is_valid(const char *name, size_t length);

void cero_host_list_cleanup(cero_host_list *list);

#endif
