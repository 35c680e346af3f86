/* SPDX-License-Identifier: Apache-2.0 */
/* The world of a build without MPI: one process. Started as one of several, it says what is missing. */
#include "comm/comm.h"

#include <stdlib.h>

#if !CERO_HAVE_MPI

cero_status cero_comm_create_world(const cero_comm_params *params, cero_comm **out)
{
    static const char *const sizes[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MV2_COMM_WORLD_SIZE",
                                        "SLURM_STEP_NUM_TASKS"};

    CERO_UNUSED(params);
    for (size_t i = 0; i < CERO_COUNT_OF(sizes); i++) {
        const char *text = getenv(sizes[i]);
        long size = text != NULL ? strtol(text, NULL, 10) : 0;
        CERO_CHECK(size <= 1, CERO_ERR_UNSUPPORTED,
                   "started as one of %ld ranks (%s=%s), and this build has no MPI: %ld jobs would "
                   "write the same files; build with -DCERO_MPI=ON, or start one process",
                   size, sizes[i], text, size);
    }
    return cero_comm_create_self(out);
}

cero_status cero_comm_create_from(const void *mpi_comm, size_t nbytes,
                                  const cero_comm_params *params, cero_comm **out)
{
    CERO_UNUSED(mpi_comm);
    CERO_UNUSED(nbytes);
    CERO_UNUSED(params);
    CERO_UNUSED(out);
    return CERO_FAIL(CERO_ERR_UNSUPPORTED,
                     "a communicator of MPI was given, and this build has no MPI; build with "
                     "-DCERO_MPI=ON");
}

#else

/* With MPI these are in mpi/mpi_world.c. */
typedef int cero_world_is_elsewhere;

#endif
