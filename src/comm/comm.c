/* SPDX-License-Identifier: Apache-2.0 */
/* The calls of comm.h, passed to the transport. */
#include "comm/comm.h"

#include "base/memory.h"
#include "comm/comm_transport.h"

void cero_comm_destroy(cero_comm **comm)
{
    if (comm == NULL || *comm == NULL) {
        return;
    }
    if ((*comm)->ops->destroy != NULL) {
        (*comm)->ops->destroy(*comm);
    }
    cero_delete(*comm);
    *comm = NULL;
}

int cero_comm_rank(const cero_comm *comm)
{
    return comm->rank;
}

int cero_comm_size(const cero_comm *comm)
{
    return comm->size;
}

cero_status cero_comm_agree(cero_comm *comm, cero_status local)
{
    return comm->ops->agree(comm, local);
}

cero_status cero_comm_all_reduce_exact(cero_comm *comm, cero_exact *sums, int count)
{
    return comm->ops->all_reduce_exact(comm, sums, count);
}

cero_status cero_comm_all_reduce_i64(cero_comm *comm, int64_t *values, int count)
{
    return comm->ops->all_reduce_i64(comm, values, count);
}

int64_t cero_comm_bytes_sent(const cero_comm *comm)
{
    return comm->bytes_sent;
}

#if !CERO_HAVE_MPI
const char *cero_comm_mpi_library(void)
{
    return "none";
}
#endif
