/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Communicators: what ranks say to each other. The transport is a table of functions behind one type.
 *
 * A process that was started alone is a world of one (`self`), where every collective is its own result.
 * The transports between processes fill the same table.
 */
#ifndef CERO_COMM_COMM_H
#define CERO_COMM_COMM_H

#include "base/exact.h"
#include "base/status.h"

typedef struct cero_comm cero_comm;

/* A world of one. Not collective. */
CERO_NODISCARD cero_status cero_comm_create_self(cero_comm **out);

/* Not collective. */
void cero_comm_destroy(cero_comm **comm);

/* This process's number and how many there are. Not collective. */
int cero_comm_rank(const cero_comm *comm);
int cero_comm_size(const cero_comm *comm);

/*
 * Agrees on failure: every rank gives its local status; all get OK, or the failing ranks their own status
 * and the others REMOTE. Called before a collective that a local failure would leave hanging.
 *
 * Collective: over comm.
 * Errors:     the local status, REMOTE, COMM.
 * Cost:       one all_reduce of 8 bytes.
 */
CERO_NODISCARD cero_status cero_comm_agree(cero_comm *comm, cero_status local);

/*
 * Adds exact sums over ranks, limb by limb: the result has the same bits for any number of ranks.
 *
 * Collective: over comm.
 * Errors:     COMM.
 * Cost:       one all_reduce of count * sizeof(cero_exact) bytes.
 */
CERO_NODISCARD cero_status cero_comm_all_reduce_exact(cero_comm *comm, cero_exact *sums, int count);

/*
 * Adds integers over ranks.
 *
 * Collective: over comm.
 * Errors:     COMM.
 * Cost:       one all_reduce of 8 * count bytes.
 */
CERO_NODISCARD cero_status cero_comm_all_reduce_i64(cero_comm *comm, int64_t *values, int count);

/* Bytes this rank has sent so far. Not collective. */
int64_t cero_comm_bytes_sent(const cero_comm *comm);

/* Name and version of the MPI this was built with, or "none". Not collective. */
const char *cero_comm_mpi_library(void);

#endif
