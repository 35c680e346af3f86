/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The supported keys of the training config: one row each, which drives parsing, defaults, docs/config.md
 * and the effective config. Keys that are accepted without effect or refused: train_keys_other.c.
 *
 * Defaults are DeepSpeed's from 0.19.3 on where it has the key.
 */
#include "spec/train_impl.h"

#include <stdio.h>
#include <string.h>

#define BIT(type)   (1u << (type))
#define ADAMS       (BIT(CERO_OPTIM_ADAMW) | BIT(CERO_OPTIM_ADAM))
#define WARMUPS     (BIT(CERO_LR_WARMUP) | BIT(CERO_LR_WARMUP_DECAY))
#define ALL_WARMUPS (WARMUPS | BIT(CERO_LR_WARMUP_COSINE))
#define ROW(section_, name_, type_, member_, ...)                           \
    {                                                                       \
        .section = (section_), .name = (name_), .type = CERO_TRAIN_##type_, \
        .offset = offsetof(cero_train_values, member_), __VA_ARGS__         \
    }

static const char *const warmup_words[] = {"log", "linear", NULL};
static const char *const comms_words[] = {
    "all_gather_into_tensor",
    "allgather_fn",
    "all_gather_coalesced",
    "all_gather_unit",
    "reduce_scatter_tensor",
    "reduce_scatter",
    "reduce_scatter_fn",
    "reduce",
    "reduce_unit",
    "all_reduce",
    "inference_all_reduce",
    "all_reduce_coalesced",
    "all_gather",
    "all_gather_object",
    "broadcast",
    "broadcast_object_list",
    "send",
    "isend",
    "recv",
    "irecv",
    "barrier",
    "monitored_barrier",
    "all_to_all",
    "all_to_all_single",
    "gather",
    "scatter",
    NULL,
};
static const char *const order_words[] = {"auto", "global", "node", "local", NULL};

/* clang-format off */
static const cero_train_key keys[] = {
    ROW("", "train_batch_size", INT, spec.train_batch_size, .flags = CERO_TRAIN_POSITIVE, .max = 1e9,
        .def_note = "micro batch x accumulation x ranks",
        .meaning = "Samples per optimizer step over all data-parallel ranks. Always equal to `train_micro_batch_size_per_gpu` x `gradient_accumulation_steps` x ranks; of the three, what is not given is derived."),
    ROW("", "train_micro_batch_size_per_gpu", INT, spec.train_micro_batch_size_per_gpu, .flags = CERO_TRAIN_POSITIVE, .max = 1e9,
        .def_note = "batch / (accumulation x ranks)",
        .meaning = "Samples per rank in one forward and backward."),
    ROW("", "gradient_accumulation_steps", INT, spec.gradient_accumulation_steps, .flags = CERO_TRAIN_POSITIVE, .max = 1e9,
        .def_note = "batch / (micro batch x ranks), else 1",
        .meaning = "Micro-batches per optimizer step."),
    ROW("", "steps_per_print", INT, spec.steps_per_print, .flags = CERO_TRAIN_NULL, .def = "10",
        .meaning = "A log line every so many steps; null or 0: none. (DeepSpeed documents 10, its code has null.)"),
    ROW("", "gradient_clipping", REAL, spec.gradient_clipping, .def = "1.0",
        .meaning = "Limit of the global L2 norm of the gradient; 0: off. The default is DeepSpeed's since 0.19.3; before, it was 0."),
    ROW("", "wall_clock_breakdown", BOOL, spec.wall_clock_breakdown, .def = "false",
        .meaning = "Log the time of each phase of a step, over ranks, each `steps_per_print` steps. Unless given, true with `flops_profiler.enabled`."),
    ROW("", "dump_state", BOOL, spec.dump_state, .def = "false",
        .meaning = "Print the effective config at start."),

    ROW("optimizer", "type", TEXT, optimizer_type, .size = CERO_TRAIN_MAX_NAME, .flags = CERO_TRAIN_NO_AUTO, .def = "\"AdamW\"",
        .meaning = "AdamW, Adam, SGD, Adagrad, Lion, Lamb or Muon, in any case. Adam decouples the decay (is AdamW) unless `adam_w_mode` is false."),
    ROW("optimizer.params", "lr", REAL, spec.optimizer.lr, .flags = CERO_TRAIN_NO_AUTO,
        .def_note = "0.001; Adagrad 0.01; Muon 0.02",
        .meaning = "Learning rate; a scheduler takes over from it."),
    ROW("optimizer.params", "betas", BETAS, betas, .types = ADAMS | BIT(CERO_OPTIM_LION) | BIT(CERO_OPTIM_LAMB) | BIT(CERO_OPTIM_MUON),
        .def_note = "[0.9, 0.999]; Muon [0.9, 0.95]",
        .meaning = "Decay of the two moments."),
    ROW("optimizer.params", "eps", REAL, spec.optimizer.eps, .types = ADAMS | BIT(CERO_OPTIM_ADAGRAD) | BIT(CERO_OPTIM_LAMB) | BIT(CERO_OPTIM_MUON),
        .def_note = "1e-8; Adagrad and Muon 1e-10",
        .meaning = "Added to the denominator."),
    ROW("optimizer.params", "weight_decay", REAL, spec.optimizer.weight_decay, .def = "0",
        .meaning = "Decay of the weights; see `cero.no_decay`."),
    ROW("optimizer.params", "bias_correction", BOOL, spec.optimizer.bias_correction, .types = ADAMS | BIT(CERO_OPTIM_LAMB), .def = "true",
        .meaning = "Correct the moments for their start at zero."),
    ROW("optimizer.params", "adam_w_mode", BOOL, adam_w_mode, .types = ADAMS, .def = "true",
        .meaning = "Adam: true decouples the decay (AdamW), false adds it to the gradient (L2)."),
    ROW("optimizer.params", "momentum", REAL, spec.optimizer.momentum, .types = BIT(CERO_OPTIM_SGD) | BIT(CERO_OPTIM_MUON), .max = 1,
        .def_note = "0; Muon 0.95",
        .meaning = "Momentum."),
    ROW("optimizer.params", "dampening", REAL, spec.optimizer.dampening, .types = BIT(CERO_OPTIM_SGD), .max = 1, .def = "0",
        .meaning = "Dampening of the momentum."),
    ROW("optimizer.params", "nesterov", BOOL, spec.optimizer.nesterov, .types = BIT(CERO_OPTIM_SGD) | BIT(CERO_OPTIM_MUON),
        .def_note = "false; Muon true",
        .meaning = "Nesterov's momentum."),
    ROW("optimizer.params", "eps_inside_sqrt", BOOL, spec.optimizer.eps_inside_sqrt, .types = BIT(CERO_OPTIM_LAMB), .def = "false",
        .meaning = "Add eps below the root."),
    ROW("optimizer.params", "max_coeff", REAL, spec.optimizer.max_coeff, .types = BIT(CERO_OPTIM_LAMB), .def = "10.0",
        .meaning = "Greatest trust ratio."),
    ROW("optimizer.params", "min_coeff", REAL, spec.optimizer.min_coeff, .types = BIT(CERO_OPTIM_LAMB), .def = "0.01",
        .meaning = "Smallest trust ratio."),
    ROW("optimizer.params", "muon_lr", REAL, spec.optimizer.muon_lr, .types = BIT(CERO_OPTIM_MUON),
        .def_note = "lr, else 0.02",
        .meaning = "Rate of the matrices."),
    ROW("optimizer.params", "adam_lr", REAL, spec.optimizer.adam_lr, .types = BIT(CERO_OPTIM_MUON),
        .def_note = "lr, else 0.0003",
        .meaning = "Rate of everything that is not a matrix."),
    ROW("optimizer.params", "ns_steps", SMALL, spec.optimizer.ns_steps, .types = BIT(CERO_OPTIM_MUON), .flags = CERO_TRAIN_POSITIVE, .max = 100, .def = "5",
        .meaning = "Newton-Schulz steps."),

    ROW("scheduler", "type", TEXT, scheduler_type, .size = CERO_TRAIN_MAX_NAME, .flags = CERO_TRAIN_NO_AUTO | CERO_TRAIN_NULL, .def = "\"constant\"",
        .meaning = "WarmupLR, WarmupDecayLR, WarmupCosineLR, OneCycle, LRRangeTest or constant; case counts."),
    ROW("scheduler.params", "warmup_min_lr", REAL, spec.scheduler.warmup_min_lr, .types = WARMUPS, .def = "0",
        .meaning = "Rate at the start: of the first two updates, as in DeepSpeed."),
    ROW("scheduler.params", "warmup_max_lr", REAL, spec.scheduler.warmup_max_lr, .types = WARMUPS,
        .def_note = "WarmupLR: the optimizer's lr; WarmupDecayLR: 0.001",
        .meaning = "Rate after the warm-up."),
    ROW("scheduler.params", "warmup_num_steps", INT, spec.scheduler.warmup_num_steps, .types = ALL_WARMUPS, .flags = CERO_TRAIN_POSITIVE | CERO_TRAIN_NO_AUTO, .def = "1000",
        .meaning = "Updates of warm-up; 1 counts as 2."),
    ROW("scheduler.params", "warmup_type", WORD, warmup_type, .types = ALL_WARMUPS, .words = warmup_words, .def = "\"log\"",
        .meaning = "Shape of the warm-up."),
    ROW("scheduler.params", "total_num_steps", INT, spec.scheduler.total_num_steps, .types = BIT(CERO_LR_WARMUP_DECAY) | BIT(CERO_LR_WARMUP_COSINE), .flags = CERO_TRAIN_POSITIVE | CERO_TRAIN_NO_AUTO,
        .def_note = "required",
        .meaning = "Updates until the decay ends."),
    ROW("scheduler.params", "warmup_min_ratio", REAL, spec.scheduler.warmup_min_ratio, .types = BIT(CERO_LR_WARMUP_COSINE), .max = 1, .def = "0",
        .meaning = "Part of the optimizer's rate at the start."),
    ROW("scheduler.params", "cos_min_ratio", REAL, spec.scheduler.cos_min_ratio, .types = BIT(CERO_LR_WARMUP_COSINE), .max = 1, .def = "0.0001",
        .meaning = "Part of the optimizer's rate at the end."),
    ROW("scheduler.params", "cycle_min_lr", REAL, spec.scheduler.cycle_min_lr, .types = BIT(CERO_LR_ONE_CYCLE), .flags = CERO_TRAIN_NO_AUTO,
        .def_note = "required",
        .meaning = "Rate at the ends of the cycle."),
    ROW("scheduler.params", "cycle_max_lr", REAL, spec.scheduler.cycle_max_lr, .types = BIT(CERO_LR_ONE_CYCLE), .flags = CERO_TRAIN_NO_AUTO,
        .def_note = "required",
        .meaning = "Rate at its peak."),
    ROW("scheduler.params", "decay_lr_rate", REAL, spec.scheduler.decay_lr_rate, .types = BIT(CERO_LR_ONE_CYCLE), .def = "0",
        .meaning = "Decay of the rate after the cycle."),
    ROW("scheduler.params", "cycle_first_step_size", INT, spec.scheduler.cycle_first_step_size, .types = BIT(CERO_LR_ONE_CYCLE), .flags = CERO_TRAIN_POSITIVE, .def = "2000",
        .meaning = "Updates of the rising half."),
    ROW("scheduler.params", "cycle_second_step_size", INT, spec.scheduler.cycle_second_step_size, .types = BIT(CERO_LR_ONE_CYCLE), .flags = CERO_TRAIN_POSITIVE | CERO_TRAIN_NULL,
        .def_note = "cycle_first_step_size",
        .meaning = "Updates of the falling half."),
    ROW("scheduler.params", "cycle_first_stair_count", INT, spec.scheduler.cycle_first_stair_count, .types = BIT(CERO_LR_ONE_CYCLE), .def = "0",
        .meaning = "Stairs of the rising half; 0: a straight line."),
    ROW("scheduler.params", "cycle_second_stair_count", INT, spec.scheduler.cycle_second_stair_count, .types = BIT(CERO_LR_ONE_CYCLE), .flags = CERO_TRAIN_NULL,
        .def_note = "cycle_first_stair_count",
        .meaning = "Stairs of the falling half."),
    ROW("scheduler.params", "decay_step_size", INT, spec.scheduler.decay_step_size, .types = BIT(CERO_LR_ONE_CYCLE), .def = "0",
        .meaning = "Updates per unit of decay after the cycle; 0: no decay."),
    ROW("scheduler.params", "cycle_momentum", BOOL, spec.scheduler.cycle_momentum, .types = BIT(CERO_LR_ONE_CYCLE), .def = "true",
        .meaning = "Cycle beta1 against the rate."),
    ROW("scheduler.params", "cycle_min_mom", REAL, spec.scheduler.cycle_min_mom, .types = BIT(CERO_LR_ONE_CYCLE), .max = 1, .def = "0.8",
        .meaning = "Smallest beta1."),
    ROW("scheduler.params", "cycle_max_mom", REAL, spec.scheduler.cycle_max_mom, .types = BIT(CERO_LR_ONE_CYCLE), .max = 1, .def = "0.9",
        .meaning = "Greatest beta1."),
    ROW("scheduler.params", "decay_mom_rate", REAL, spec.scheduler.decay_mom_rate, .types = BIT(CERO_LR_ONE_CYCLE), .def = "0",
        .meaning = "Decay of beta1 after the cycle."),
    ROW("scheduler.params", "lr_range_test_min_lr", REAL, spec.scheduler.lr_range_test_min_lr, .types = BIT(CERO_LR_RANGE_TEST), .def = "0.001",
        .meaning = "Rate at the start of the test."),
    ROW("scheduler.params", "lr_range_test_step_size", INT, spec.scheduler.lr_range_test_step_size, .types = BIT(CERO_LR_RANGE_TEST), .flags = CERO_TRAIN_POSITIVE, .def = "2000",
        .meaning = "Updates per unit of growth."),
    ROW("scheduler.params", "lr_range_test_step_rate", REAL, spec.scheduler.lr_range_test_step_rate, .types = BIT(CERO_LR_RANGE_TEST), .def = "1.0",
        .meaning = "Growth per unit."),
    ROW("scheduler.params", "lr_range_test_staircase", BOOL, spec.scheduler.lr_range_test_staircase, .types = BIT(CERO_LR_RANGE_TEST), .def = "false",
        .meaning = "Grow in stairs."),

    ROW("fp16", "enabled", BOOL, fp16_enabled, .flags = CERO_TRAIN_NO_AUTO, .def = "false",
        .meaning = "Compute in fp16 with loss scaling. Not together with bf16."),
    ROW("fp16", "loss_scale", REAL, spec.loss_scale.loss_scale, .def = "0",
        .meaning = "Fixed loss scale; 0: dynamic."),
    ROW("fp16", "initial_scale_power", SMALL, spec.loss_scale.initial_scale_power, .max = 100, .def = "16",
        .meaning = "The dynamic scale starts at 2 to this power."),
    ROW("fp16", "loss_scale_window", INT, spec.loss_scale.loss_scale_window, .flags = CERO_TRAIN_POSITIVE, .def = "1000",
        .meaning = "The scale doubles after so many steps without overflow."),
    ROW("fp16", "hysteresis", INT, spec.loss_scale.hysteresis, .def = "2",
        .meaning = "Overflows until the scale is halved."),
    ROW("fp16", "consecutive_hysteresis", BOOL, spec.loss_scale.consecutive_hysteresis, .def = "false",
        .meaning = "Restore the hysteresis after each good step."),
    ROW("fp16", "min_loss_scale", REAL, spec.loss_scale.min_loss_scale, .flags = CERO_TRAIN_POSITIVE, .def = "1",
        .meaning = "The scale never falls below this."),
    ROW("bf16", "enabled", BOOL, bf16_enabled, .flags = CERO_TRAIN_NO_AUTO, .def = "false",
        .meaning = "Compute in bf16. The section may also be called `bfloat16`."),
    ROW("bf16", "check_grad_overflow", BOOL, spec.check_grad_overflow, .def = "true",
        .meaning = "Skip a step whose gradient is not finite (fp32 and fp16 always do). DeepSpeed's default since 0.19.3."),

    ROW("zero_optimization", "stage", SMALL, spec.zero_stage, .max = 3, .flags = CERO_TRAIN_NO_AUTO, .def = "0",
        .meaning = "What is sharded over ranks: 0 nothing, 1 optimizer states, 2 and gradients, 3 and parameters. Results do not depend on it; with one process all stages are the same. `zero_optimization` may also be true (stage 1) or false."),
    ROW("zero_optimization", "reduce_bucket_size", INT, spec.reduce_bucket_size, .flags = CERO_TRAIN_POSITIVE, .def = "500000000",
        .meaning = "Most elements of one gradient exchange; clamped to the model."),
    ROW("zero_optimization", "allgather_bucket_size", INT, spec.allgather_bucket_size, .flags = CERO_TRAIN_POSITIVE, .def = "500000000",
        .meaning = "Most elements of one gather in DeepSpeed. Here a gather is always of one unit."),
    ROW("zero_optimization", "overlap_comm", BOOL, spec.overlap_comm, .flags = CERO_TRAIN_NULL,
        .def_note = "true at stage 3, else false",
        .meaning = "Exchange gradients while the backward pass goes on."),
    ROW("zero_optimization", "stage3_prefetch_bucket_size", INT, spec.stage3_prefetch_bucket_size, .def = "50000000",
        .meaning = "Stage 3: elements gathered ahead of their use; at most an eighth of the model."),
    ROW("zero_optimization", "stage3_param_persistence_threshold", INT, spec.stage3_param_persistence_threshold, .def = "100000",
        .meaning = "Stage 3: units (a block, the embedding) of at most so many elements stay whole."),
    ROW("zero_optimization", "stage3_max_live_parameters", INT, spec.stage3_max_live_parameters, .def = "1000000000",
        .meaning = "Stage 3: most gathered elements at a time."),

    ROW("tensorboard", "enabled", BOOL, spec.tensorboard_enabled, .def = "false",
        .meaning = "Write TensorBoard event files."),
    ROW("tensorboard", "output_path", TEXT, spec.tensorboard_output_path, .size = sizeof(((cero_train_spec *)0)->tensorboard_output_path), .def = "\"\"",
        .meaning = "Their folder; empty: the run's folder."),
    ROW("tensorboard", "job_name", TEXT, spec.tensorboard_job_name, .size = sizeof(((cero_train_spec *)0)->tensorboard_job_name), .def = "\"DeepSpeedJobName\"",
        .meaning = "Folder below it."),
    ROW("csv_monitor", "enabled", BOOL, spec.csv_monitor_enabled, .def = "false",
        .meaning = "Write one CSV file per metric."),
    ROW("csv_monitor", "output_path", TEXT, spec.csv_monitor_output_path, .size = sizeof(((cero_train_spec *)0)->csv_monitor_output_path), .def = "\"\"",
        .meaning = "Their folder; empty: the run's folder."),
    ROW("csv_monitor", "job_name", TEXT, spec.csv_monitor_job_name, .size = sizeof(((cero_train_spec *)0)->csv_monitor_job_name), .def = "\"DeepSpeedJobName\"",
        .meaning = "Folder below it."),

    ROW("comms_logger", "enabled", BOOL, spec.comms_logger_enabled, .def = "false",
        .meaning = "At the end a table of what rank 0 exchanged, by operation and size, in the log; see docs/metrics.md."),
    ROW("comms_logger", "verbose", BOOL, spec.comms_logger_verbose, .def = "false",
        .meaning = "A line for each operation in each rank's log, at level debug."),
    ROW("comms_logger", "prof_all", BOOL, spec.comms_logger_prof_all, .def = "true",
        .meaning = "All operations; false: those of `prof_ops`."),
    ROW("comms_logger", "prof_ops", PATTERNS, spec.comms_logger_prof_ops, .words = comms_words, .def = "[]",
        .meaning = "Names of operations, for `prof_all` false; the last four never occur here."),
    ROW("comms_logger", "debug", BOOL, spec.comms_logger_debug, .def = "false",
        .meaning = "Verbose lines name the unit whose parameters or gradients are exchanged."),
    ROW("flops_profiler", "enabled", BOOL, spec.flops_profiler_enabled, .def = "false",
        .meaning = "Profile one step of rank 0 by unit and operation; see docs/metrics.md."),
    ROW("flops_profiler", "profile_step", INT, spec.flops_profiler_profile_step, .flags = CERO_TRAIN_POSITIVE, .def = "1",
        .meaning = "The step, from 1."),
    ROW("flops_profiler", "module_depth", INT, spec.flops_profiler_module_depth, .flags = CERO_TRAIN_MINUS_ONE, .def = "-1",
        .meaning = "0: the model, 1: and its units, 2: and their operations; -1: all."),
    ROW("flops_profiler", "top_modules", INT, spec.flops_profiler_top_modules, .def = "1",
        .meaning = "Units and operations that are named as the largest."),
    ROW("flops_profiler", "detailed", BOOL, spec.flops_profiler_detailed, .def = "true",
        .meaning = "A row for each unit and operation."),
    ROW("flops_profiler", "output_file", TEXT, spec.flops_profiler_output_file, .size = sizeof(((cero_train_spec *)0)->flops_profiler_output_file), .flags = CERO_TRAIN_NULL, .def = "\"\"",
        .meaning = "File for the report; empty or null: the log."),

    ROW("checkpoint.writer", "decoupled", BOOL, spec.checkpoint_background, .def = "false",
        .meaning = "Write checkpoints in the background: a step stands still for a copy of this rank's part, which needs its memory, and training goes on while it is written."),

    ROW("cero", "seed", SEED, spec.seed, .flags = CERO_TRAIN_NO_AUTO, .def = "1234",
        .meaning = "Seed of initial weights, dropout and shuffling; the only source of chance."),
    ROW("cero", "no_decay", PATTERNS, spec.no_decay, .def = "[]",
        .meaning = "Parameters without weight decay: patterns of names with `*` and `?`, such as `*.bias`."),
    ROW("cero", "frozen", PATTERNS, spec.frozen, .def = "[]",
        .meaning = "Parameters that are not trained: patterns of names. They have no gradient and no optimizer state."),
    ROW("cero", "gradient_order", WORD, spec.gradient_order, .words = order_words, .flags = CERO_TRAIN_NO_AUTO, .def = "\"auto\"",
        .meaning = "Order in which gradients are added: `global` (independent of the number of ranks), `node` (by node first), `local` (on each rank first), or `auto`."),
    ROW("cero", "share_within_node", BOOL, spec.share_within_node, .def = "false",
        .meaning = "Keep one copy of the compute weights per node, in shared memory."),
    ROW("cero", "max_consecutive_skips", INT, spec.max_consecutive_skips,
        .def_note = "8; fp16: 0",
        .meaning = "Stop after so many skipped steps in a row; 0: never (fp16 stops at its smallest scale)."),
    ROW("cero", "memory_budget", INT, spec.memory_budget, .def = "0",
        .meaning = "Most bytes per rank; 0: no limit."),
    ROW("cero", "timeout_seconds", REAL, spec.timeout_seconds, .flags = CERO_TRAIN_POSITIVE | CERO_TRAIN_NO_AUTO, .def = "60",
        .meaning = "Seconds without a sign of life from a rank that others wait for: the run then ends with a report of what each rank did last. A rank that computes gives signs of life."),
    ROW("cero", "checkpoint_units", INT, spec.checkpoint_units, .def = "0",
        .meaning = "Activation checkpointing: recompute the activations of every k units (blocks) in the backward pass; 0: keep all."),
};
/* clang-format on */

#undef ROW
#undef BIT
#undef ADAMS
#undef WARMUPS
#undef ALL_WARMUPS

_Static_assert(CERO_COUNT_OF(keys) <= CERO_TRAIN_MAX_KEYS, "the config has room for every key");
_Static_assert(sizeof(cero_gradient_order) == sizeof(int), "words are stored as int");

const cero_train_key *cero_train_keys(int *count)
{
    *count = (int)CERO_COUNT_OF(keys);
    return keys;
}

int cero_train_find_key(const char *section, const char *name)
{
    for (int i = 0; i < (int)CERO_COUNT_OF(keys); i++) {
        if (strcmp(keys[i].name, name) == 0 && strcmp(keys[i].section, section) == 0) {
            return i;
        }
    }
    return -1;
}

const char *cero_train_path(const char *section, const char *name, char *path, size_t size)
{
    (void)snprintf(path, size, "%s%s%s", section, section[0] == '\0' ? "" : ".", name);
    return path;
}
