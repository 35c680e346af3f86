/* SPDX-License-Identifier: Apache-2.0 */
/* What the tables of launchers share: hosts and program as words, and what those cannot carry. */
#include "cli/launch/launch.h"

#include <string.h>

enum {
    // Linux takes 128 KiB for one word of a command line.
    MAX_HOSTS_BYTES = 100000
};

void cero_launch_job_cleanup(cero_launch_job *job)
{
    cero_host_list_cleanup(&job->hosts);
    cero_vector_cleanup(&job->forwarded);
    cero_vector_cleanup(&job->extra);
    *job = (cero_launch_job){0};
}

static void format_hosts(const cero_launch_job *job, cero_text *out)
{
    for (int64_t i = 0; i < job->hosts.count; i++) {
        const cero_host *host = &job->hosts.host[i];
        cero_text_printf(out, "%s%s:%d", i > 0 ? "," : "", host->name, host->ranks);
    }
}

void cero_launch_add_hosts(const cero_launch_job *job, cero_vector *argv)
{
    cero_text text = {0};

    format_hosts(job, &text);
    argv->has_failed = argv->has_failed || text.has_failed;
    cero_vector_add(argv, text.data != NULL ? text.data : "");
    cero_text_cleanup(&text);
}

void cero_launch_add_program(const cero_launch_job *job, cero_vector *argv)
{
    for (int64_t i = 0; i < job->extra.count; i++) {
        cero_vector_add(argv, job->extra.word[i]);
    }
    cero_vector_add(argv, job->executable);
    for (int i = job->first_argument; i < job->program->count; i++) {
        cero_vector_add(argv, job->program->word[i]);
    }
}

cero_status cero_launch_check_words(const cero_launch_job *job)
{
    cero_text text = {0};

    for (int i = 0; i < job->program->count; i++) {
        CERO_CHECK(strcmp(job->program->word[i], ":") != 0, CERO_ERR_UNSUPPORTED,
                   "word %d of the program is ':', which parts programs for mpirun and mpiexec", i);
    }
    format_hosts(job, &text);
    size_t length = text.length;
    cero_status st = cero_text_finish(&text);
    cero_text_cleanup(&text);
    CERO_TRY(st);
    CERO_CHECK(length <= MAX_HOSTS_BYTES, CERO_ERR_UNSUPPORTED,
               "the names of %lld hosts take %zu bytes, and one word of a command line holds %d; "
               "start through srun, or under mpirun with a hostfile of its own",
               (long long)job->hosts.count, length, (int)MAX_HOSTS_BYTES);
    return CERO_OK;
}
