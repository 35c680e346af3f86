/* SPDX-License-Identifier: Apache-2.0 */
/* The options of `cero launch`; names of flags are names of fields. */
#ifndef CERO_CLI_LAUNCH_OPTIONS_H
#define CERO_CLI_LAUNCH_OPTIONS_H

#include "cli/args.h"

/* Indices of --stop-signal's choices. */
typedef enum cero_launch_stop {
    CERO_LAUNCH_STOP_AUTO = 0,
    CERO_LAUNCH_STOP_TERM = 1,
    CERO_LAUNCH_STOP_USR1 = 2
} cero_launch_stop;

typedef struct cero_launch_options {
    int64_t ranks; /* 0: one for each slot */
    const char *hostfile;
    const char *include;
    const char *exclude;
    int launcher; /* index of auto|openmpi|mpich|slurm */
    cero_words launcher_args;
    const char *remote_agent;
    int bind;      /* index of auto|none */
    int64_t cores; /* 0: look */
    bool oversubscribe;
    int64_t max_restarts;
    const char *progress_dir; /* NULL: OUT/checkpoints of `train` */
    int64_t no_progress_limit;
    cero_words exports;
    double grace;
    int stop_signal; /* a cero_launch_stop */
    bool allow_run_as_root;
    bool dry_run;
    cero_words program;
} cero_launch_options;

extern const cero_option cero_launch_option_table[];
void cero_launch_options_set_defaults(void *values);

#endif
