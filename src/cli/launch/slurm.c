/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Words for srun, which takes the whole environment along and starts ranks through Slurm's own daemons,
 * without ssh. The hosts of the allocation are read in launch_slurm_hosts.c.
 */
#include "cli/launch/launch.h"

static const char *const programs[] = {"srun", NULL};

/* srun spreads ranks evenly, the first hosts getting one more; nothing else can be asked for. */
static bool is_even(const cero_launch_job *job)
{
    const cero_host_list *hosts = &job->hosts;
    int floor = job->ranks / (int)hosts->count;
    int64_t fuller = job->ranks % (int)hosts->count;

    for (int64_t i = 0; i < hosts->count; i++) {
        if (hosts->host[i].ranks != floor + (i < fuller ? 1 : 0)) {
            return false;
        }
    }
    return true;
}

static cero_status check(const cero_launch_job *job)
{
    CERO_CHECK(job->agent == NULL, CERO_ERR_UNSUPPORTED,
               "--remote-agent has no meaning with srun, which starts ranks without ssh");
    CERO_CHECK(is_even(job), CERO_ERR_UNSUPPORTED,
               "srun spreads %d ranks evenly over %lld host(s), and the slots are not even; use "
               "--include, another -n, or --launcher openmpi",
               job->ranks, (long long)job->hosts.count);
    return CERO_OK;
}

static void add_node_list(const cero_launch_job *job, cero_vector *argv)
{
    cero_text list = {0};

    for (int64_t i = 0; i < job->hosts.count; i++) {
        cero_text_printf(&list, "%s%s", i > 0 ? "," : "", job->hosts.host[i].name);
    }
    argv->has_failed = argv->has_failed || list.has_failed;
    cero_vector_printf(argv, "--nodelist=%s", list.data != NULL ? list.data : "");
    cero_text_cleanup(&list);
}

static void build(const cero_launch_job *job, const char *program, cero_vector *argv)
{
    cero_vector_add(argv, program);
    cero_vector_add(argv, "--mpi=pmix");
    cero_vector_printf(argv, "--nodes=%lld", (long long)job->hosts.count);
    add_node_list(job, argv);
    cero_vector_printf(argv, "--ntasks=%d", job->ranks);
    cero_vector_printf(argv, "--ntasks-per-node=%d", job->hosts.host[0].ranks);
    cero_vector_add(argv, "--distribution=block");
    if (job->is_overloaded) {
        cero_vector_add(argv, "--overcommit");
    } else {
        cero_vector_printf(argv, "--cpus-per-task=%d", job->threads);
    }
    cero_vector_printf(argv, "--cpu-bind=%s", job->is_bound ? "cores" : "none");
    cero_vector_add(argv, "--kill-on-bad-exit=1");
    cero_vector_add(argv, "--export=ALL");
    cero_launch_add_program(job, argv);
}

const cero_launch_ops cero_launch_slurm = {
    .name = "slurm",
    .programs = programs,
    .build = build,
    .check = check,
};
