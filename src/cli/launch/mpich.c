/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Words for MPICH's mpiexec (hydra), which gives every rank the whole environment by itself.
 */
#include "cli/launch/launch.h"

static const char *const programs[] = {"mpiexec.hydra", "mpiexec.mpich", "mpirun.mpich",
                                       "mpiexec",       "mpirun",        NULL};

static void build(const cero_launch_job *job, const char *program, cero_vector *argv)
{
    cero_vector_add(argv, program);
    cero_vector_add(argv, "-hosts");
    cero_launch_add_hosts(job, argv);
    cero_vector_add(argv, "-n");
    cero_vector_printf(argv, "%d", job->ranks);
    cero_vector_add(argv, "-bind-to");
    if (job->is_bound) {
        cero_vector_printf(argv, "core:%d", job->threads);
    } else {
        cero_vector_add(argv, "none");
    }
    cero_vector_add(argv, "-genvall");
    if (job->agent != NULL) {
        cero_vector_add(argv, "-launcher");
        cero_vector_add(argv, "ssh");
        cero_vector_add(argv, "-launcher-exec");
        cero_vector_add(argv, job->agent);
    }
    cero_launch_add_program(job, argv);
}

/*
 * Hydra reports a rank that signal 9 killed as 9, not as 137. No command of cero leaves with a code from
 * 4 to 15, so that these are the signals that kill: SIGILL to SIGTERM.
 */
static int exit_code(int code)
{
    return code >= 4 && code <= 15 ? 128 + code : code;
}

const cero_launch_ops cero_launch_mpich = {
    .name = "mpich",
    .programs = programs,
    .build = build,
    .marker = "HYDRA",
    .check = cero_launch_check_words,
    .exit_code = exit_code,
    .forgets_codes =
        true, // in one of four runs of hydra 4.0, ranks that left with 75 after SIGUSR1
};
