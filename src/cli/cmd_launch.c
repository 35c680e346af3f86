/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `cero launch`: starts a program as the ranks of a job with mpirun, mpiexec or srun.
 *
 * Options become a job (launch.h), the job a vector of words, and the words a process that is watched
 * until it ends (launch/restart.h). docs/launch.md is the manual.
 */
#include "base/log.h"
#include "base/memory.h"
#include "cli/cli.h"
#include "cli/launch/host_filter.h"
#include "cli/launch/launch.h"
#include "cli/launch/options.h"
#include "cli/launch/progress.h"
#include "cli/launch/restart.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

extern char **environ;

static const char *const launchers[] = {"auto", "openmpi", "mpich", "slurm"};

/* A launch on its way. */
typedef struct launch {
    cero_cli *cli;
    const cero_launch_options *v;
    cero_launch_machine machine;
    cero_launch_choice choice;
    cero_launch_job job;
    bool is_slurm;       /* within an allocation, and no hostfile was named */
    bool is_own_command; /* the program is a command of cero */
    char executable[4096];
} launch;

/* Each rank of a job would start a whole job. */
static cero_status refuse_nested(void)
{
    static const char *const names[] = {"OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK"};

    for (size_t i = 0; i < CERO_COUNT_OF(names); i++) {
        CERO_CHECK(cero_launch_foreign(names[i]) == NULL, CERO_ERR_INVALID,
                   "%s is set: this is a rank of a job already, and would start another; start the "
                   "program itself, or cero launch outside of mpirun and srun",
                   names[i]);
    }
    return CERO_OK;
}

static cero_status look_at_machine(launch *l)
{
    cero_cpu_set allowed = {0};
    cero_status st = cero_cpu_set_allowed(&allowed);

    if (st == CERO_OK) {
        st = cero_launch_machine_look("/sys/devices/system", &allowed, &l->machine);
    }
    cero_cpu_set_cleanup(&allowed);
    return st;
}

/* This machine: a rank a NUMA node by itself, and room for one a core. */
static cero_status add_this_machine(launch *l)
{
    const char name[] = "localhost";
    int cores = l->v->cores > 0 ? (int)l->v->cores : l->machine.cores;

    CERO_TRY(cero_host_list_add(&l->job.hosts, name, strlen(name), l->machine.numa_nodes));
    cero_host *host = &l->job.hosts.host[0];
    host->room = cores > host->slots ? cores : host->slots;
    host->cores = cores;
    return CERO_OK;
}

static cero_status find_hosts(launch *l)
{
    const cero_launch_options *v = l->v;

    l->is_slurm = v->hostfile == NULL && cero_launch_foreign("SLURM_JOB_ID") != NULL;
    if (v->hostfile != NULL) {
        cero_cli_at(l->cli, CERO_CLI_READING_INPUT, v->hostfile);
        CERO_TRY(cero_hostfile_read(v->hostfile, &l->job.hosts));
    } else if (l->is_slurm) {
        CERO_TRY(cero_launch_slurm_hosts(l->machine.numa_nodes, &l->job.hosts));
    } else {
        CERO_CHECK(strcmp(launchers[v->launcher], "slurm") != 0, CERO_ERR_INVALID,
                   "--launcher slurm needs an allocation (sbatch, salloc) or --hostfile");
        CERO_TRY(add_this_machine(l));
    }
    cero_cli_at(l->cli, CERO_CLI_USAGE, NULL);
    CERO_TRY(cero_host_filter_apply(&l->job.hosts, v->include, v->exclude));
    return cero_launch_place(v->ranks, v->oversubscribe, &l->job);
}

/* What is guessed or unwise about cores is said before anything starts. */
static void warn_about_cores(const launch *l)
{
    const cero_launch_job *job = &l->job;
    const cero_host *unknown = NULL;

    for (int64_t i = 0; i < job->hosts.count; i++) {
        const cero_host *host = &job->hosts.host[i];
        bool is_known = host->cores > 0 || cero_launch_is_local(host->name);
        unknown = unknown == NULL && !is_known ? host : unknown;
    }
    if (unknown != NULL && job->sets_threads) {
        cero_log(CERO_LOG_WARN, "cli",
                 "the cores of %s are not known here: hosts are taken to have the %d core(s) of "
                 "this machine; --cores or OMP_NUM_THREADS says otherwise",
                 unknown->name, l->machine.cores);
    }
    for (int64_t i = 0; i < job->hosts.count && job->is_overloaded; i++) {
        const cero_host *host = &job->hosts.host[i];
        int cores = host->cores > 0 ? host->cores : l->machine.cores;
        if ((int64_t)job->threads * host->ranks > cores) {
            cero_log(CERO_LOG_WARN, "cli",
                     "host %s: %d rank(s) of %d thread(s) for %d core(s): they take turns and are "
                     "not bound; a smaller -n or OMP_NUM_THREADS binds them",
                     host->name, host->ranks, job->threads, cores);
            return;
        }
    }
}

static void divide_cores(launch *l)
{
    cero_launch_threads_params params = {
        .cores = l->machine.cores,
        .asked = cero_launch_parse_threads(getenv("OMP_NUM_THREADS")),
        .may_bind = l->v->bind == 0,
        .is_restricted_local = l->machine.is_restricted,
    };

    for (int64_t i = 0; i < l->job.hosts.count && l->v->cores > 0; i++) {
        l->job.hosts.host[i].cores = (int)l->v->cores;
    }
    cero_launch_divide_cores(&params, &l->job);
    warn_about_cores(l);
}

/* True if a command of cero is called so, or starts with this word. */
static bool is_command_word(const cero_cli *cli, const char *word)
{
    for (int i = 0; i < cli->command_count; i++) {
        const char *name = cli->commands[i]->name;
        size_t length = strcspn(name, " ");
        if (strlen(word) == length && memcmp(name, word, length) == 0) {
            return true;
        }
    }
    return false;
}

/* The program: this very cero for one of its commands, else what was named. */
static cero_status find_program(launch *l)
{
    const char *word = l->v->program.word[0];

    CERO_CHECK(word[0] != '-' && word[0] != '\0', CERO_ERR_INVALID,
               "the program '%s' is a launcher's option at best", word);
    CERO_CHECK(strcmp(word, "launch") != 0, CERO_ERR_INVALID,
               "cero launch does not start itself: each rank would start a whole job");
    l->job.program = &l->v->program;
    l->job.executable = word;
    l->job.first_argument = 1;
    l->is_own_command = is_command_word(l->cli, word);
    if (l->is_own_command) {
        ssize_t length = readlink("/proc/self/exe", l->executable, sizeof(l->executable) - 1);
        CERO_CHECK(length > 0, CERO_ERR_INTERNAL, "reading /proc/self/exe: %s", strerror(errno));
        l->executable[length] = '\0';
        l->job.executable = l->executable;
        l->job.first_argument = 0;
    }
    return CERO_OK;
}

/* Finds what is not there before the launcher reports it as a code that looks like a signal. */
static cero_status check_program(launch *l)
{
    for (int64_t i = 0; i < l->job.hosts.count; i++) {
        if (!cero_launch_is_local(l->job.hosts.host[i].name)) {
            return CERO_OK;
        }
    }
    cero_cli_at(l->cli, CERO_CLI_READING_INPUT, l->job.executable);
    CERO_CHECK(cero_launch_is_executable(l->job.executable), CERO_ERR_IO,
               "there is no program '%s' that can be started", l->job.executable);
    cero_cli_at(l->cli, CERO_CLI_USAGE, NULL);
    return CERO_OK;
}

static cero_status find_launcher(launch *l)
{
    const char *name = launchers[l->v->launcher];

    cero_cli_at(l->cli, CERO_CLI_WORKING, NULL);
    CERO_TRY(cero_launch_find(name, l->is_slurm, !l->v->dry_run, &l->choice));
    cero_cli_at(l->cli, CERO_CLI_USAGE, NULL);
    return CERO_OK;
}

/* From options to a job that the launcher takes. */
static cero_status prepare(launch *l)
{
    const cero_launch_options *v = l->v;

    cero_cli_at(l->cli, CERO_CLI_USAGE, NULL);
    CERO_TRY(refuse_nested());
    CERO_TRY(find_program(l));
    CERO_TRY(look_at_machine(l));
    CERO_TRY(find_hosts(l));
    CERO_TRY(find_launcher(l));
    divide_cores(l);
    l->job.allows_root = v->allow_run_as_root;
    l->job.agent = v->remote_agent;
    for (int i = 0; i < v->launcher_args.count; i++) {
        CERO_TRY(cero_vector_split(&l->job.extra, v->launcher_args.word[i]));
    }
    CERO_TRY(cero_vector_finish(&l->job.extra));
    CERO_TRY(cero_launch_collect_names(environ, &v->exports, &l->job));
    if (l->choice.ops->check != NULL) {
        CERO_TRY(l->choice.ops->check(&l->job));
    }
    return CERO_OK;
}

/* "node1: 2 rank(s) of 4 thread(s), 4 slot(s)", with a text before each line. */
static void format_hosts(const launch *l, const char *before, cero_text *out)
{
    const cero_launch_job *job = &l->job;

    for (int64_t i = 0; i < job->hosts.count; i++) {
        const cero_host *host = &job->hosts.host[i];
        cero_text_printf(out, "%s%s: %d rank(s) of %d thread(s), %s, %d slot(s)\n", before,
                         host->name, host->ranks, job->threads,
                         job->is_bound ? "bound to cores" : "not bound", host->slots);
    }
}

/* A shell script that does what would be done, a word a line. */
static cero_status print_dry_run(const launch *l, const cero_vector *argv)
{
    cero_text text = {0};

    cero_text_printf(&text, "# launcher %s%s%s\n", l->choice.ops->name,
                     l->choice.version[0] != '\0' ? ": " : "", l->choice.version);
    format_hosts(l, "# host ", &text);
    if (l->job.sets_threads) {
        cero_text_printf(&text, "OMP_NUM_THREADS=%d \\\n", l->job.threads);
    }
    for (int64_t i = 0; i < argv->count; i++) {
        cero_text_printf(&text, "%s", i > 0 ? "  " : "");
        cero_text_append_quoted(&text, argv->word[i]);
        cero_text_printf(&text, "%s", i + 1 < argv->count ? " \\\n" : "\n");
    }
    cero_status st = cero_cli_print(&text);
    cero_text_cleanup(&text);
    return st;
}

static void log_hosts(const launch *l)
{
    cero_text text = {0};

    if (!cero_log_enabled(CERO_LOG_INFO, "cli")) {
        return;
    }
    format_hosts(l, "host ", &text);
    for (char *line = text.data; line != NULL && *line != '\0';) {
        size_t length = strcspn(line, "\n");
        cero_log(CERO_LOG_INFO, "cli", "%.*s", (int)length, line);
        line += length + 1;
    }
    cero_text_cleanup(&text);
}

/* Restarts of `train` go on from its checkpoints, unless its words say what they do. */
static cero_status plan_restarts(const launch *l, cero_launch_train *train, cero_vector *argv)
{
    if (!l->is_own_command || strcmp(l->v->program.word[0], "train") != 0) {
        return CERO_OK;
    }
    CERO_TRY(cero_launch_train_read(&l->v->program, train));
    if (!train->chooses_restart) {
        l->choice.ops->build(&l->job, l->choice.program, argv);
        cero_vector_add(argv, "--resume");
        cero_vector_add(argv, "if-present");
        return cero_vector_finish(argv);
    }
    return CERO_OK;
}

static cero_status start(launch *l, const cero_vector *argv)
{
    cero_vector environment = {0};
    cero_vector restart_argv = {0};
    cero_launch_train train = {0};
    cero_launch_run_params params = {.exit_code = l->choice.ops->exit_code,
                                     .forgets_codes = l->choice.ops->forgets_codes,
                                     .max_restarts = (int)l->v->max_restarts,
                                     .no_progress_limit = (int)l->v->no_progress_limit};
    cero_status st = CERO_OK;

    CERO_TRY(check_program(l));
    log_hosts(l);
    cero_cli_at(l->cli, CERO_CLI_WORKING, NULL);
    CERO_TRY_GOTO(cero_launch_build_environment(environ, &l->job, &environment), out);
    CERO_TRY_GOTO(plan_restarts(l, &train, &restart_argv), out);
    params.restart_argv = restart_argv.word;
    params.checkpoints = l->v->progress_dir != NULL ? l->v->progress_dir : train.checkpoints;
    params.supervise = (cero_supervise_params){
        .argv = argv->word,
        .environment = environment.word,
        .is_gentle = l->v->stop_signal == CERO_LAUNCH_STOP_AUTO
                         ? l->is_own_command
                         : l->v->stop_signal == CERO_LAUNCH_STOP_USR1,
        .grace = l->v->grace,
    };
    CERO_TRY_GOTO(cero_launch_run(&params, &l->cli->exit_code), out);

out:
    cero_delete(train.checkpoints);
    cero_vector_cleanup(&restart_argv);
    cero_vector_cleanup(&environment);
    return st;
}

static cero_status run(cero_cli *cli, void *values)
{
    launch l = {.cli = cli, .v = values};
    cero_vector argv = {0};
    cero_status st = CERO_OK;

    CERO_TRY_GOTO(prepare(&l), out);
    l.choice.ops->build(&l.job, l.choice.program, &argv);
    CERO_TRY_GOTO(cero_vector_finish(&argv), out);
    if (l.v->dry_run) {
        CERO_TRY_GOTO(print_dry_run(&l, &argv), out);
    } else {
        CERO_TRY_GOTO(start(&l, &argv), out);
    }

out:
    cero_vector_cleanup(&argv);
    cero_launch_job_cleanup(&l.job);
    return st;
}

const cero_command cero_command_launch = {
    .name = "launch",
    .summary = "Starts a program on many ranks with mpirun, mpiexec or srun",
    .usage = "[-n N] [--hostfile F] [OPTION…] -- PROGRAM [ARGUMENT…]",
    .details =
        "PROGRAM is a command of cero (train …), or anything else: ./trainer, python.\n"
        "The exit code is that of the first rank that failed; 128 + n when signal n killed it.\n"
        "SIGINT and SIGTERM ask the ranks to save and leave; a second one ends them.",
    .options = cero_launch_option_table,
    .operands = {.name = "PROGRAM", .min = 1, .offset = offsetof(cero_launch_options, program)},
    .values_size = sizeof(cero_launch_options),
    .set_defaults = cero_launch_options_set_defaults,
    .run = run,
};
