/* SPDX-License-Identifier: Apache-2.0 */
/* A program outside the tree: prints the version of the library it was linked to. */
#include <cero/base.h>
#ifdef WITH_MPI
    #include <cero/mpi.h>
#endif

#include <stdio.h>

int main(void)
{
    (void)printf("%s %s\n", cero_version(), cero_status_name(CERO_ERR_SHAPE));
    return 0;
}
