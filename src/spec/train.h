/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a model is trained: DeepSpeed's ds_config.json as one open struct, and our own keys under "cero".
 *
 * One table (spec/train_keys.c) holds every key DeepSpeed knows with its class: supported, accepted
 * without effect, or refused with the reason. docs/config.md is generated from it. The origin of each
 * value (default, file, derived, command line) is kept, so that the effective config can be printed.
 */
#ifndef CERO_SPEC_TRAIN_H
#define CERO_SPEC_TRAIN_H

#include "base/json.h"
#include "base/status.h"
#include "base/text.h"

typedef enum cero_optim_type {
    CERO_OPTIM_ADAMW = 0, /* decoupled decay; DeepSpeed's Adam with adam_w_mode true is this */
    CERO_OPTIM_ADAM = 1,  /* L2 decay: Adam with adam_w_mode false */
    CERO_OPTIM_SGD = 2,
    CERO_OPTIM_ADAGRAD = 3,
    CERO_OPTIM_LION = 4,
    CERO_OPTIM_LAMB = 5,
    CERO_OPTIM_MUON = 6,
    CERO_OPTIM_COUNT
} cero_optim_type;

/* All optimizers' hyper-parameters with DeepSpeed's names; which are used depends on type. */
typedef struct cero_optim_spec {
    cero_optim_type type;
    double lr;
    double beta1;
    double beta2;
    double eps;
    double weight_decay;
    double momentum; /* SGD, Muon */
    double dampening;
    bool nesterov;
    bool bias_correction;
    bool eps_inside_sqrt; /* LAMB */
    double max_coeff;     /* LAMB */
    double min_coeff;     /* LAMB */
    double muon_lr;       /* Muon: matrices; 0.02 */
    double adam_lr;       /* Muon: the rest; 3e-4 */
    int ns_steps;         /* Muon: Newton-Schulz steps; 5 */
} cero_optim_spec;

typedef enum cero_lr_schedule_type {
    CERO_LR_CONSTANT = 0,
    CERO_LR_WARMUP = 1,
    CERO_LR_WARMUP_DECAY = 2,
    CERO_LR_WARMUP_COSINE = 3,
    CERO_LR_ONE_CYCLE = 4,
    CERO_LR_RANGE_TEST = 5,
    CERO_LR_COUNT
} cero_lr_schedule_type;

typedef struct cero_lr_schedule_spec {
    cero_lr_schedule_type type;
    double base_lr; /* the optimizer's lr */
    double warmup_min_lr;
    double warmup_max_lr;
    int64_t warmup_num_steps;
    bool warmup_is_linear; /* else log */
    int64_t total_num_steps;
    double warmup_min_ratio;
    double cos_min_ratio;
    double cycle_min_lr;
    double cycle_max_lr;
    double decay_lr_rate;
    int64_t cycle_first_step_size;
    int64_t cycle_second_step_size;
    int64_t cycle_first_stair_count;
    int64_t cycle_second_stair_count;
    int64_t decay_step_size;
    bool cycle_momentum;
    double cycle_min_mom;
    double cycle_max_mom;
    double decay_mom_rate;
    double lr_range_test_min_lr;
    int64_t lr_range_test_step_size;
    double lr_range_test_step_rate;
    bool lr_range_test_staircase;
} cero_lr_schedule_spec;

typedef struct cero_loss_scale_spec {
    double loss_scale; /* 0: dynamic */
    int initial_scale_power;
    int64_t loss_scale_window;
    int64_t hysteresis;
    bool consecutive_hysteresis;
    double min_loss_scale;
} cero_loss_scale_spec;

typedef enum cero_gradient_order {
    CERO_GRADIENT_ORDER_AUTO = 0,
    CERO_GRADIENT_ORDER_GLOBAL = 1,
    CERO_GRADIENT_ORDER_NODE = 2,
    CERO_GRADIENT_ORDER_LOCAL = 3
} cero_gradient_order;

enum {
    CERO_MAX_PATTERNS = 32,
    CERO_MAX_PATTERN = 128
};

/* Shell-like patterns over parameter names. */
typedef struct cero_patterns {
    int count;
    char pattern[CERO_MAX_PATTERNS][CERO_MAX_PATTERN];
} cero_patterns;

/* True if one of the patterns matches the name. NULL has no patterns. */
bool cero_patterns_match(const cero_patterns *patterns, const char *name);

/* The supported keys. Key, field and command-line flag have one name. */
typedef struct cero_train_spec {
    int64_t train_batch_size;
    int64_t train_micro_batch_size_per_gpu;
    int64_t gradient_accumulation_steps;
    int64_t steps_per_print;
    cero_dtype compute_dtype; /* fp16 / bf16 sections; f32 when neither is enabled */
    cero_loss_scale_spec loss_scale;
    bool check_grad_overflow; /* bf16.check_grad_overflow; fp32 and fp16 always check */
    double gradient_clipping; /* 0: off */
    cero_optim_spec optimizer;
    cero_lr_schedule_spec scheduler;
    int zero_stage;
    int64_t reduce_bucket_size;
    int64_t allgather_bucket_size;
    bool overlap_comm;
    int64_t stage3_prefetch_bucket_size;
    int64_t stage3_param_persistence_threshold;
    int64_t stage3_max_live_parameters;
    bool wall_clock_breakdown;
    bool dump_state;
    int64_t checkpoint_units; /* activation checkpointing: every k units; 0: off ("cero" section) */
    bool tensorboard_enabled;
    char tensorboard_output_path[512];
    char tensorboard_job_name[128];
    bool csv_monitor_enabled;
    char csv_monitor_output_path[512];
    char csv_monitor_job_name[128];
    bool comms_logger_enabled;
    bool comms_logger_verbose;
    bool comms_logger_prof_all;
    bool comms_logger_debug;
    cero_patterns comms_logger_prof_ops; /* names of operations */
    bool flops_profiler_enabled;
    int64_t flops_profiler_profile_step;
    int64_t flops_profiler_module_depth; /* -1: all */
    int64_t flops_profiler_top_modules;
    bool flops_profiler_detailed;
    char flops_profiler_output_file[512]; /* empty: the log */
    bool checkpoint_background;           /* checkpoint.writer.decoupled */
    /* "cero" */
    uint64_t seed;
    cero_patterns no_decay;
    cero_patterns frozen;
    cero_gradient_order gradient_order;
    bool share_within_node;
    int64_t
        max_consecutive_skips; /* stop after this many; default 8 in fp32 and bf16, 0: fp16's floor */
    int64_t memory_budget;     /* bytes per rank; 0: none */
    double timeout_seconds;    /* without a sign of life of a rank */
} cero_train_spec;

/* One line of the effective config: where a value came from. */
typedef enum cero_origin {
    CERO_ORIGIN_DEFAULT = 0,
    CERO_ORIGIN_FILE = 1,
    CERO_ORIGIN_DERIVED = 2,
    CERO_ORIGIN_COMMAND = 3
} cero_origin;

typedef struct cero_train_config
    cero_train_config; /* spec, origins and the notes to print at start */

/* "key.path=value" pairs of --set, value parsed as JSON, or as a string when it is none. */
typedef struct cero_train_config_params {
    const char *path; /* ds_config.json; NULL: all defaults (then a batch size must be set) */
    const char *const *overrides; /* [override_count], borrowed for the call */
    int override_count;
    int dp_size; /* W of the batch rule; 0 means 1 */
    const char *
        text; /* [text_length], borrowed: read instead of the file, which `path` then only names; or NULL */
    size_t text_length;
} cero_train_config_params;

/*
 * Reads, checks and completes a config.
 *
 * Unknown keys, duplicate keys, contradictions and "auto" that cannot be derived are errors with
 * file:line:column and the nearest known key. Batch sizes follow DeepSpeed's rule.
 * Errors: IO, CORRUPT, INVALID, UNSUPPORTED.
 */
CERO_NODISCARD cero_status cero_train_config_create(const cero_train_config_params *params,
                                                    cero_train_config **out);
void cero_train_config_destroy(cero_train_config **config);

/* View into the config, valid until it is destroyed. */
const cero_train_spec *cero_train_config_spec(const cero_train_config *config);

/* Keys that are accepted without effect, in file order: "zero_optimization.round_robin_gradients". */
int cero_train_config_note_count(const cero_train_config *config);
const char *cero_train_config_note(const cero_train_config *config, int i);

/* Where the value of a supported key is from; DEFAULT for other names. Not collective. */
cero_origin cero_train_config_origin(const cero_train_config *config, const char *path);

/* The effective config as JSON: {"key.path": {"value": …, "origin": "file"}}. */
CERO_NODISCARD cero_status cero_train_config_write_json(const cero_train_config *config,
                                                        cero_text *out);

/* The key table as Markdown: docs/config.md. */
CERO_NODISCARD cero_status cero_train_config_write_docs(cero_text *out);

/* "AdamW", "WarmupLR": the names configs use. */
const char *cero_optim_type_name(cero_optim_type type);
const char *cero_lr_schedule_type_name(cero_lr_schedule_type type);

#endif
