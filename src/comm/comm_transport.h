/* SPDX-License-Identifier: Apache-2.0 */
/* The table that a transport fills; for comm/ and its transports only. */
#ifndef CERO_COMM_COMM_TRANSPORT_H
#define CERO_COMM_COMM_TRANSPORT_H

#include "comm/comm.h"

typedef struct cero_comm_ops {
    const char *name;
    /* required */
    cero_status (*agree)(cero_comm *comm, cero_status local);
    cero_status (*all_reduce_exact)(cero_comm *comm, cero_exact *sums, int count);
    cero_status (*all_reduce_i64)(cero_comm *comm, int64_t *values, int count);
    /* optional: NULL when there is nothing to undo */
    void (*destroy)(cero_comm *comm);
} cero_comm_ops;

struct cero_comm {
    const cero_comm_ops *ops;
    int rank;
    int size;
    int64_t bytes_sent;
    void *context; /* the transport's, owned by it */
};

#endif
