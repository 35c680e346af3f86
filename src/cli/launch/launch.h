/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A job on its way from options to the command line of mpirun, mpiexec or srun.
 *
 * Hosts come from a hostfile, a Slurm allocation or this machine. They are filtered (host_filter.h), ranks
 * are placed on them and cores divided over ranks (launch/place.c), and the launcher's table of functions
 * turns the job into words (launch/<launcher>.c). Starting and watching it is launch/supervise.h.
 */
#ifndef CERO_CLI_LAUNCH_H
#define CERO_CLI_LAUNCH_H

#include "cli/args.h"
#include "cli/launch/hostfile.h"
#include "cli/launch/machine.h"
#include "cli/launch/words.h"

/* Everything that a launcher turns into words. */
typedef struct cero_launch_job {
    cero_host_list hosts;   /* after placing: those with ranks */
    int ranks;              /* sum over hosts */
    int threads;            /* of each rank */
    bool sets_threads;      /* OMP_NUM_THREADS is ours to set, not the user's */
    bool is_bound;          /* each rank gets `threads` cores of its own */
    bool is_overloaded;     /* more threads than cores on a host */
    bool allows_root;       /* --allow-run-as-root */
    const char *agent;      /* --remote-agent; NULL: the launcher's own */
    cero_vector forwarded;  /* names of variables, sorted */
    cero_vector extra;      /* --launcher-args */
    const char *executable; /* first word of the program */
    const cero_words *program;
    int first_argument; /* index into program of the word behind `executable` */
} cero_launch_job;

void cero_launch_job_cleanup(cero_launch_job *job);

/* A way to start ranks on hosts. */
typedef struct cero_launch_ops {
    /* Required. */
    const char *name;            /* of --launcher */
    const char *const *programs; /* looked for in PATH in this order, up to a NULL */
    void (*build)(const cero_launch_job *job, const char *program, cero_vector *argv);

    /* Optional, nothing to say when NULL. */
    const char *marker;                               /* what its --version contains */
    cero_status (*check)(const cero_launch_job *job); /* refuses what it cannot do */
    int (*exit_code)(int code); /* of a rank that failed, when the launcher reports another */
    bool forgets_codes; /* may report 0 for ranks that failed after a signal was handed on */
} cero_launch_ops;

extern const cero_launch_ops cero_launch_openmpi;
extern const cero_launch_ops cero_launch_mpich;
extern const cero_launch_ops cero_launch_slurm;

/* "node1:8,node2:8", as mpirun and mpiexec take hosts; a sticky failure shows in the vector. */
void cero_launch_add_hosts(const cero_launch_job *job, cero_vector *argv);

/* The words of --launcher-args, then the program and its arguments. */
void cero_launch_add_program(const cero_launch_job *job, cero_vector *argv);

/* Refuses what those two cannot carry: a lone ':', a list of hosts too long for a word. UNSUPPORTED. */
CERO_NODISCARD cero_status cero_launch_check_words(const cero_launch_job *job);

/* A launcher that was found. */
typedef struct cero_launch_choice {
    const cero_launch_ops *ops;
    const char *program; /* its name, as found in PATH */
    char version[128];   /* one line; empty: was not asked */
} cero_launch_choice;

/*
 * Finds the launcher of a name, or with "auto" the one that is installed: srun when `prefers_slurm`, else
 * what `mpirun --version` says it is, else the first that is there. Without `must_exist` a launcher that was
 * named is taken as it is usually called.
 *
 * Errors: UNSUPPORTED with what was looked for; NOMEM.
 */
CERO_NODISCARD cero_status cero_launch_find(const char *name, bool prefers_slurm, bool must_exist,
                                            cero_launch_choice *out);

/* True if PATH has an executable of this name (with a slash: if it is one). */
bool cero_launch_is_executable(const char *name);

/*
 * Places `wanted` ranks (0: one for each slot) in the order of hosts: slots first, then room, then, with
 * `oversubscribe`, one a host in turn up to max_slots. Hosts without ranks leave the list.
 *
 * Errors: INVALID with both numbers and the option that permits it.
 */
CERO_NODISCARD cero_status cero_launch_place(int64_t wanted, bool oversubscribe,
                                             cero_launch_job *job);

/* How cores become threads. */
typedef struct cero_launch_threads_params {
    int cores;                /* of a host that says nothing else */
    int asked;                /* OMP_NUM_THREADS of the environment; 0: not set */
    bool may_bind;            /* not --bind none */
    bool is_restricted_local; /* this machine's allowed set is smaller than the machine */
} cero_launch_threads_params;

/*
 * Divides the cores of each host over its ranks: `threads` is what the fullest host leaves. Ranks are
 * bound when every host has the cores for it; within a restricted set they are not, as launchers bind to
 * cores outside of it.
 */
void cero_launch_divide_cores(const cero_launch_threads_params *params, cero_launch_job *job);

/* The thread count in OMP_NUM_THREADS ("4" or "4,2"); 0 when it says none. */
int cero_launch_parse_threads(const char *text);

/*
 * A variable of another program: Slurm's, Open MPI's, the shell's PATH; NULL when it is not set. Those that
 * are cero's own are listed in environment.h and shown by `cero info`.
 */
const char *cero_launch_foreign(const char *name);

/* True if the name means this machine. */
bool cero_launch_is_local(const char *host);

/*
 * The names of variables that ranks get: CERO_* and OMP_* of the environment, OMP_NUM_THREADS when the
 * job sets it, and `exports`. Errors: INVALID for a name that is none or is not set; NOMEM.
 */
CERO_NODISCARD cero_status cero_launch_collect_names(char *const *environment,
                                                     const cero_words *exports,
                                                     cero_launch_job *job);

/* The environment the launcher starts with: ours, and OMP_NUM_THREADS when the job sets it. */
CERO_NODISCARD cero_status cero_launch_build_environment(char *const *environment,
                                                         const cero_launch_job *job,
                                                         cero_vector *out);

/*
 * The hosts of the Slurm allocation this process runs in, from SLURM_JOB_NODELIST and its companions:
 * with --ntasks as many slots as Slurm gave tasks, else `slots_per_host` with room for each processor.
 *
 * Errors: INVALID when a variable cannot be read; NOMEM.
 */
CERO_NODISCARD cero_status cero_launch_slurm_hosts(int slots_per_host, cero_host_list *out);

/* Expands "node[01-03,7],gpu1" into names. Errors: INVALID, NOMEM. */
CERO_NODISCARD cero_status cero_launch_slurm_expand(const char *text, cero_host_list *out);

#endif
