/* SPDX-License-Identifier: Apache-2.0 */
/* cero over the ranks of a communicator that the program has already: for programs that use MPI themselves. */
#ifndef CERO_MPI_H
#define CERO_MPI_H

#include "cero/cero.h"

/* The C interface alone: the C++ one is obsolete, and does not compile without warnings. */
#ifndef OMPI_SKIP_MPICXX
    #define OMPI_SKIP_MPICXX 1
#endif
#ifndef MPICH_SKIP_MPICXX
    #define MPICH_SKIP_MPICXX 1
#endif
#include <mpi.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * A context over the ranks of `comm`, which are its world: a duplicate is used, and `comm` stays the caller's.
 *
 * MPI must be initialised, with MPI_THREAD_FUNNELED when threads are used, and is not finalised here; the
 * context is destroyed before MPI_Finalize.
 *
 * Collective: over comm.
 * Errors:     INVALID, COMM, REMOTE, NOMEM; UNSUPPORTED by a library built without MPI.
 */
static inline CERO_NODISCARD cero_status cero_context_create_mpi(MPI_Comm comm,
                                                                 const cero_context_params *params,
                                                                 cero_context **out)
{
    return cero_context_create_from(&comm, sizeof(comm), params, out);
}

#ifdef __cplusplus
}
#endif

#endif
