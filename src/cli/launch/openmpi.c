/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Words for Open MPI's mpirun.
 *
 * Hosts go onto the command line with the ranks that were placed on them, so that no file has to be
 * written and removed, and mpirun has nothing left to decide.
 */
#include "cli/launch/launch.h"

#include <string.h>
#include <unistd.h>

static const char *const programs[] = {"mpirun", "mpirun.openmpi", "orterun", "mpiexec", NULL};

/* Open MPI itself refuses root with thirty lines; this says it in one, before anything starts. */
static cero_status check(const cero_launch_job *job)
{
    const char *allow = cero_launch_foreign("OMPI_ALLOW_RUN_AS_ROOT");
    const char *confirm = cero_launch_foreign("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM");
    bool is_allowed = job->allows_root || (allow != NULL && strcmp(allow, "1") == 0 &&
                                           confirm != NULL && strcmp(confirm, "1") == 0);

    CERO_CHECK(
        geteuid() != 0 || is_allowed, CERO_ERR_INVALID,
        "Open MPI does not start as root; run as a user, or set OMPI_ALLOW_RUN_AS_ROOT=1 and "
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1, or give --allow-run-as-root");
    return cero_launch_check_words(job);
}

static void build(const cero_launch_job *job, const char *program, cero_vector *argv)
{
    cero_vector_add(argv, program);
    if (job->allows_root) {
        cero_vector_add(argv, "--allow-run-as-root");
    }
    cero_vector_add(argv, "--host");
    cero_launch_add_hosts(job, argv);
    cero_vector_add(argv, "-n");
    cero_vector_printf(argv, "%d", job->ranks);
    cero_vector_add(argv, "--map-by");
    if (job->is_bound) {
        cero_vector_printf(argv, "slot:PE=%d", job->threads);
    } else {
        cero_vector_add(argv, "slot");
    }
    cero_vector_add(argv, "--bind-to");
    cero_vector_add(argv, job->is_bound ? "core" : "none");
    if (job->is_overloaded) {
        // A rank that waits gives its core to one that computes.
        cero_vector_add(argv, "--mca");
        cero_vector_add(argv, "mpi_yield_when_idle");
        cero_vector_add(argv, "1");
    }
    if (job->agent != NULL) {
        cero_vector_add(argv, "--mca");
        cero_vector_add(argv, "plm_rsh_agent");
        cero_vector_add(argv, job->agent);
    }
    for (int64_t i = 0; i < job->forwarded.count; i++) {
        cero_vector_add(argv, "-x");
        cero_vector_add(argv, job->forwarded.word[i]);
    }
    cero_launch_add_program(job, argv);
}

const cero_launch_ops cero_launch_openmpi = {
    .name = "openmpi",
    .programs = programs,
    .build = build,
    .marker = "Open MPI",
    .check = check,
};
