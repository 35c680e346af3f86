/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The name of the MPI this was built with. Open MPI and MPICH say who they are in macros of their
 * header; of any other the version of the standard is all that is known.
 */
#include "comm/comm.h"

#include <mpi.h>

#define TEXT_OF(token_)          #token_
#define TEXT_OF_VALUE(macro_)    TEXT_OF(macro_)
#define DOTTED(version_, minor_) version_ "." TEXT_OF_VALUE(minor_)

#if defined(OPEN_MPI)
    #define OPEN_MPI_MINOR DOTTED(TEXT_OF_VALUE(OMPI_MAJOR_VERSION), OMPI_MINOR_VERSION)
    #define LIBRARY        "Open MPI " DOTTED(OPEN_MPI_MINOR, OMPI_RELEASE_VERSION)
#elif defined(MPICH_VERSION)
    #define LIBRARY "MPICH " MPICH_VERSION
#else
    #define LIBRARY "MPI " DOTTED(TEXT_OF_VALUE(MPI_VERSION), MPI_SUBVERSION)
#endif

const char *cero_comm_mpi_library(void)
{
    return LIBRARY;
}
