/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The options of the commands that compile or run a model: train, generate and plan.
 *
 * Names of flags are names of fields. What a config says as well is left to the config unless it is given
 * here.
 */
#ifndef CERO_CLI_RUN_OPTIONS_H
#define CERO_CLI_RUN_OPTIONS_H

#include "cli/args.h"

/* Indices of --order's choices. */
typedef enum cero_cli_order {
    CERO_CLI_ORDER_SHUFFLED = 0,
    CERO_CLI_ORDER_SEQUENTIAL = 1
} cero_cli_order;

/* Indices of --on-save-error's choices. */
typedef enum cero_cli_on_save_error {
    CERO_CLI_ON_SAVE_ERROR_CONTINUE = 0,
    CERO_CLI_ON_SAVE_ERROR_STOP = 1
} cero_cli_on_save_error;

typedef struct cero_train_options {
    const char *config;    /* ds_config.json; required */
    const char *model;     /* directory, config.json or built-in name; required */
    const char *tokenizer; /* NULL: the model directory's, if there is one */
    const char *out;       /* run directory; required */
    cero_words data;       /* required */
    cero_words eval_data;
    cero_words set;     /* "key.path=value" */
    int64_t eval_every; /* steps; 0: at the end alone */
    int64_t steps;      /* 0: the schedule's total, else one epoch */
    int64_t seq_len;    /* 0: the model's context */
    int64_t seed;       /* -1: the config's */
    int64_t threads;    /* 0: the cores this process may use */
    int order;          /* a cero_cli_order */
    int export_dtype;   /* index of f32|bf16|f16 */
    bool no_weights;
    bool profile;
    bool no_eod;
    bool no_special;
    bool print_config;         /* print the effective config and leave */
    bool no_shared_memory;     /* ranks of a node exchange by messages */
    int64_t save_every;        /* steps; 0: never, but when a signal ends the run */
    int64_t keep_checkpoints;  /* 0: all */
    const char *resume;        /* never, auto, if-present, a step or a tag; NULL: never */
    cero_words resume_without; /* "data", "optimizer", or both with a comma */
    const char *init_from;     /* a checkpoint, a folder of them or a run; NULL: none */
    bool partial;              /* init_from need not fit the model */
    int on_save_error;         /* a cero_cli_on_save_error */
    int64_t export_shard_size; /* bytes of weights in one file; 0: 5e9 */
} cero_train_options;

extern const cero_option cero_train_option_table[];
void cero_train_options_set_defaults(void *values);

typedef struct cero_generate_options {
    const char *model;     /* directory with config.json, weights, tokenizer.json; required */
    const char *tokenizer; /* NULL: the model directory's */
    const char *prompt;    /* required; may be empty */
    int64_t max_tokens;
    double temperature; /* 0: always the likeliest token */
    int64_t top_k;      /* 0: off */
    double top_p;       /* 1: off */
    int64_t seed;
    int64_t threads;
    int dtype; /* index of stored|f32|bf16|f16 */
    bool no_special;
    bool json;
} cero_generate_options;

extern const cero_option cero_generate_option_table[];
void cero_generate_options_set_defaults(void *values);

typedef struct cero_plan_options {
    const char *model;  /* required */
    const char *config; /* required */
    cero_words set;
    int64_t seq_len;
    int64_t world;          /* ranks; 0: one */
    int64_t rank;           /* whose plan; -1: the last */
    int64_t ranks_per_node; /* 0: all on one node */
    int64_t threads;        /* of a rank; 0: the cores this process may use */
    bool no_shared_memory;
    bool eval;
    bool dump;
    bool json;
} cero_plan_options;

extern const cero_option cero_plan_option_table[];
void cero_plan_options_set_defaults(void *values);

#endif
