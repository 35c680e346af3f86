/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every other key that DeepSpeed knows: accepted without effect, because it cannot change a result here,
 * or refused unless it stands at its default, because the run would not be what was asked for.
 *
 * A default also gives the type that a value must have. An object as a whole is a name with {}.
 */
#include "spec/train_impl.h"

#include <string.h>

#define NAMES(...) ((const cero_train_name[]){__VA_ARGS__, {NULL, NULL}})

/* clang-format off */
static const cero_train_group groups[] = {
    {"", CERO_TRAIN_ACCEPTED, "Gradients are always added in fp32 in a fixed order, and gathered by plan.",
     NAMES({"prescale_gradients", "false"}, {"gradient_predivide_factor", "1.0"}, {"sparse_gradients", "false"}, {"disable_allgather", "false"}, {"fp32_allreduce", "false"}, {"allgather_size", "500000000"})},
    {"", CERO_TRAIN_ACCEPTED, "Has no counterpart here.",
     NAMES({"zero_allow_untested_optimizer", "false"}, {"zero_force_ds_cpu_optimizer", "true"}, {"vocabulary_size", "0"}, {"graph_harvesting", "false"}, {"use_data_before_expert_parallelism", "false"}, {"dataloader_drop_last", "false"})},
    {"", CERO_TRAIN_ACCEPTED, "Memory is in every line of metrics.jsonl; the log's level comes from -v and -q.",
     NAMES({"memory_breakdown", "false"}, {"log_level", "\"warning\""})},
    {"", CERO_TRAIN_REFUSED, "Gradients are exchanged in fp32 only.",
     NAMES({"communication_data_type", "\"fp32\""}, {"seq_parallel_communication_data_type", "\"fp32\""})},
    {"", CERO_TRAIN_REFUSED, "Gradients are averaged over the samples that were accumulated, always.",
     NAMES({"gradient_allreduce_op", "\"mean\""}, {"managed_gradient_accumulation", "true"})},
    {"", CERO_TRAIN_REFUSED, "Sequence parallelism and device meshes are not offered.",
     NAMES({"sequence_parallel_size", "1"}, {"data_parallel_size", "null"})},
    {"", CERO_TRAIN_REFUSED, "Not offered.",
     NAMES({"sparse_attention", "{}"}, {"compression_training", "{}"}, {"weight_quantization", "{}"}, {"tensor_parallel", "{}"}, {"datastates_ckpt", "{}"})},
    {"timers.throughput", CERO_TRAIN_ACCEPTED, "Every step is timed in metrics.jsonl.",
     NAMES({"enabled", "true"}, {"synchronized", "true"})},
    {"amp", CERO_TRAIN_REFUSED, "apex.amp is PyTorch's; use bf16 or fp16.", NAMES({"enabled", "false"})},
    {"amp", CERO_TRAIN_ACCEPTED, "Counts only with `amp.enabled`.",
     NAMES({"opt_level", NULL}, {"loss_scale", NULL}, {"cast_model_type", NULL}, {"cast_model_outputs", NULL}, {"patch_torch_functions", NULL}, {"keep_batchnorm_fp32", NULL}, {"master_weights", NULL}, {"num_losses", NULL}, {"verbosity", NULL}, {"min_loss_scale", NULL}, {"max_loss_scale", NULL})},
    {"torch_autocast", CERO_TRAIN_REFUSED, "PyTorch's autocast; use bf16 or fp16.", NAMES({"enabled", "false"})},
    {"torch_autocast", CERO_TRAIN_ACCEPTED, "Counts only with `torch_autocast.enabled`.", NAMES({"dtype", NULL}, {"lower_precision_safe_modules", NULL})},

    {"optimizer", CERO_TRAIN_ACCEPTED, "Updates are always fused.", NAMES({"legacy_fusion", "false"})},
    {"optimizer.params", CERO_TRAIN_ACCEPTED, "Same mathematics.", NAMES({"torch_adam", "false"}, {"ns_method", "\"standard\""})},
    {"optimizer.params", CERO_TRAIN_REFUSED, "Not offered: states are fp32, without the running maximum.", NAMES({"amsgrad", "false"}, {"fp32_optimizer_states", "true"})},
    {"optimizer.params", CERO_TRAIN_REFUSED, "Use the key `gradient_clipping` at the top.", NAMES({"max_grad_norm", "null"})},
    {"optimizer.params", CERO_TRAIN_REFUSED, "1-bit optimizers are not offered.",
     NAMES({"freeze_step", "100000"}, {"cuda_aware", "false"}, {"comm_backend_name", "\"nccl\""}, {"coeff_beta", "0.9"}, {"factor_max", "4.0"}, {"factor_min", "0.5"}, {"factor_threshold", "0.1"}, {"var_freeze_step", "100000"}, {"var_update_scaler", "16"}, {"local_step_scaler", "32678"}, {"local_step_clipper", "16"})},

    {"fp16", CERO_TRAIN_ACCEPTED, "Inputs are token ids.", NAMES({"auto_cast", "false"})},
    {"fp16", CERO_TRAIN_REFUSED, "Master weights and gradient sums are fp32.", NAMES({"fp16_master_weights_and_grads", "false"})},
    {"bf16", CERO_TRAIN_ACCEPTED, "Gradients are always added in fp32 as they come.", NAMES({"immediate_grad_update", "false"})},
    {"bf16", CERO_TRAIN_REFUSED, "Master weights, gradient sums and moments are fp32.", NAMES({"bf16_master_weights_and_grads", "false"}, {"bf16_optimizer_states", "false"})},
    {"data_types", CERO_TRAIN_REFUSED, "Gradients are added in fp32; the compute type comes from bf16 and fp16.", NAMES({"grad_accum_dtype", "\"fp32\""}, {"param_dtype", "null"}, {"buffer_dtype", "null"})},

    {"zero_optimization", CERO_TRAIN_ACCEPTED, "Gradients go through one fixed exchange; checkpoints load at any number of ranks.",
     NAMES({"contiguous_gradients", "true"}, {"reduce_scatter", "true"}, {"use_multi_rank_bucket_allreduce", "true"}, {"allgather_partitions", "true"}, {"round_robin_gradients", "false"}, {"load_from_fp32_weights", "true"}, {"elastic_checkpoint", "false"}, {"ignore_unused_parameters", "true"}, {"pipeline_loading_checkpoint", "false"})},
    {"zero_optimization", CERO_TRAIN_ACCEPTED, "Gathers and updates are planned from the program, not tuned by hand.",
     NAMES({"sub_group_size", "1000000000"}, {"stage3_model_persistence_threshold", "9223372036854775807"}, {"stage3_max_reuse_distance", "1000000000"}, {"stage3_module_granularity_threshold", "0"}, {"stage3_use_all_reduce_for_fetch_params", "false"}, {"stage3_allgather_sequential", "false"}, {"leaf_module", "{}"}, {"memory_efficient_linear", "true"}, {"override_module_apply", "true"}, {"log_trace_cache_warnings", "false"}, {"enable_sanity_checks", "false"}, {"save_muon_momentum_buffer_in_memory", "false"})},
    {"zero_optimization", CERO_TRAIN_ACCEPTED, "A run always ends with an export of whole weights.",
     NAMES({"stage3_gather_16bit_weights_on_model_save", "false"}, {"stage3_gather_fp16_weights_on_model_save", "false"})},
    {"zero_optimization", CERO_TRAIN_REFUSED, "Offloading to host memory or NVMe is not offered yet.", NAMES({"cpu_offload", "false"}, {"cpu_offload_param", "false"}, {"cpu_offload_params", "false"})},
    {"zero_optimization", CERO_TRAIN_ACCEPTED, "Counts only with offloading.", NAMES({"cpu_offload_use_pin_memory", "false"})},
    {"zero_optimization", CERO_TRAIN_REFUSED, "Not offered.", NAMES({"zenflow", "{}"}, {"zeropp_loco_param", "{}"}, {"legacy_stage1", "false"}, {"zero_hpz_partition_size", "1"}, {"zero_quantized_weights", "false"}, {"zero_quantized_nontrainable_weights", "false"}, {"zero_quantized_gradients", "false"}, {"mics_shard_size", "-1"}, {"mics_hierarchical_params_gather", "false"})},
    {"zero_optimization.offload_param", CERO_TRAIN_REFUSED, "Offloading to host memory or NVMe is not offered yet.", NAMES({"device", "\"none\""})},
    {"zero_optimization.offload_param", CERO_TRAIN_ACCEPTED, "Counts only with offloading.",
     NAMES({"nvme_path", NULL}, {"buffer_count", "5"}, {"buffer_size", "100000000"}, {"max_in_cpu", "1000000000"}, {"pin_memory", "true"})},
    {"zero_optimization.offload_optimizer", CERO_TRAIN_REFUSED, "Offloading to host memory or NVMe is not offered yet.", NAMES({"device", "\"none\""})},
    {"zero_optimization.offload_optimizer", CERO_TRAIN_ACCEPTED, "Counts only with offloading.",
     NAMES({"nvme_path", NULL}, {"buffer_count", "4"}, {"pin_memory", "true"}, {"pipeline_read", "false"}, {"pipeline_write", "false"}, {"fast_init", "false"}, {"ratio", "1.0"}, {"super_offload", "false"}, {"cpuadam_cores_perc", "0.8"})},

    {"activation_checkpointing", CERO_TRAIN_ACCEPTED, "Where activations lie is planned; `cero.checkpoint_units` says how often they are kept.",
     NAMES({"partition_activations", "false"}, {"number_checkpoints", "0"}, {"contiguous_memory_optimization", "false"}, {"synchronize_checkpoint_boundary", "false"}, {"profile", "false"})},
    {"activation_checkpointing", CERO_TRAIN_REFUSED, "Activations are not offloaded; use `cero.checkpoint_units`.", NAMES({"cpu_checkpointing", "false"})},
    {"flops_profiler", CERO_TRAIN_ACCEPTED, "Operations that are computed again are counted as they run, not estimated.", NAMES({"recompute_fwd_factor", "0.0"})},
    {"wandb", CERO_TRAIN_REFUSED, "Nothing is sent over the network; use tensorboard or csv_monitor.", NAMES({"enabled", "false"})},
    {"wandb", CERO_TRAIN_ACCEPTED, "Counts only with `wandb.enabled`.", NAMES({"group", NULL}, {"team", NULL}, {"project", "\"deepspeed\""})},
    {"comet", CERO_TRAIN_REFUSED, "Nothing is sent over the network; use tensorboard or csv_monitor.", NAMES({"enabled", "false"})},
    {"comet", CERO_TRAIN_ACCEPTED, "Counts only with `comet.enabled`.",
     NAMES({"samples_log_interval", "100"}, {"project", NULL}, {"workspace", NULL}, {"api_key", NULL}, {"experiment_name", NULL}, {"experiment_key", NULL}, {"online", NULL}, {"mode", NULL})},

    {"checkpoint", CERO_TRAIN_ACCEPTED, "Checkpoints are committed as a whole by all ranks.", NAMES({"tag_validation", "\"Warn\""}, {"checkpoint_serialization", "true"})},
    {"checkpoint", CERO_TRAIN_REFUSED, "Every checkpoint loads at any layout, from one shared folder.", NAMES({"load_universal", "false"}, {"use_node_local_storage", "false"})},
    {"checkpoint.parallel_write", CERO_TRAIN_ACCEPTED, "Every rank writes what it owns.", NAMES({"pipeline_stage", "false"})},
    {"checkpoint.writer", CERO_TRAIN_ACCEPTED, "Every rank writes what it owns.",
     NAMES({"type", "\"FAST\""}, {"io_buffer_size", "67108864"}, {"io_buffer_double", "true"}, {"io_multiplier", "1"}, {"show_statistics", "false"}, {"data_parallel", NULL})},
    {"nebula", CERO_TRAIN_REFUSED, "Not offered.", NAMES({"enabled", "false"})},
    {"nebula", CERO_TRAIN_ACCEPTED, "Counts only with `nebula.enabled`.",
     NAMES({"enable_nebula_load", "true"}, {"nebula_load_path", NULL}, {"persistent_storage_path", NULL}, {"persistent_time_interval", "100"}, {"num_of_version_in_retention", "2"})},

    {"pipeline", CERO_TRAIN_ACCEPTED, "Counts only with pipeline parallelism, which is not offered yet.",
     NAMES({"stages", NULL}, {"partition", "\"best\""}, {"seed_layers", "false"}, {"activation_checkpoint_interval", "0"}, {"pipe_partitioned", "true"}, {"grad_partitioned", "true"})},
    {"expert_parallel", CERO_TRAIN_REFUSED, "Experts are not offered yet.", NAMES({"enabled", "false"})},
    {"expert_parallel", CERO_TRAIN_ACCEPTED, "Counts only with `expert_parallel.enabled`.",
     NAMES({"autoep_size", "1"}, {"expert_tensor_parallel_size", "1"}, {"validate_folding_routing", "false"}, {"preset_model", NULL}, {"moe_layer_pattern", NULL}, {"expert_pattern", NULL}, {"router_pattern", NULL}, {"use_grouped_mm", "true"}, {"disable_triton_grouped_mm", "false"}, {"route_norm", NULL}, {"route_scale", "1.0"}, {"score_apply", NULL}, {"score_func", NULL}, {"combine_impl", NULL}, {"top_k", NULL}, {"routed_scaling_factor", NULL}, {"num_expert_groups", NULL}, {"num_limited_groups", NULL}, {"expert_w1", NULL}, {"expert_w2", NULL}, {"expert_w3", NULL}, {"num_experts_attr", NULL}, {"top_k_attr", NULL}, {"has_shared_experts", NULL}, {"shared_experts_pattern", NULL}, {"shared_experts_gate_pattern", NULL})},
    {"compile", CERO_TRAIN_REFUSED, "The program is compiled here anyway, in its own way.", NAMES({"deepcompile", "false"}, {"offload_activation", "false"}, {"offload_opt_states", "false"}, {"offload_parameters", "false"})},
    {"compile", CERO_TRAIN_ACCEPTED, "Counts only with `compile.deepcompile`.",
     NAMES({"free_activation", "false"}, {"free_activation_threshold", "10485760"}, {"offload_activation_pin_memory", "true"}, {"double_buffer", "true"}, {"symmetric_memory", "false"}, {"debug_log", "false"}, {"sync_before_reduce", "false"}, {"sync_after_reduce", "false"}, {"sync_before_allgather", "false"}, {"sync_after_allgather", "false"}, {"keep_int_input_tensors", "true"}, {"keep_all_input_tensors", "false"}, {"passes", NULL})},
    {"hybrid_engine", CERO_TRAIN_REFUSED, "Not offered.", NAMES({"enabled", "false"})},
    {"hybrid_engine", CERO_TRAIN_ACCEPTED, "Counts only with `hybrid_engine.enabled`.",
     NAMES({"max_out_tokens", "512"}, {"inference_tp_size", "1"}, {"release_inference_cache", "false"}, {"pin_parameters", "true"}, {"tp_gather_partition_size", "8"}, {"enable_cuda_graph", "false"})},
    {"aio", CERO_TRAIN_ACCEPTED, "Counts only with offloading to NVMe.",
     NAMES({"block_size", "1048576"}, {"queue_depth", "8"}, {"intra_op_parallelism", "1"}, {"thread_count", "1"}, {"single_submit", "false"}, {"overlap_events", "true"}, {"use_gds", "false"})},
    {"elasticity", CERO_TRAIN_REFUSED, "Not offered: results do not depend on the number of ranks, so a run restarts at any.", NAMES({"enabled", "false"})},
    {"elasticity", CERO_TRAIN_ACCEPTED, "Counts only with `elasticity.enabled`.",
     NAMES({"max_train_batch_size", "2000"}, {"micro_batch_sizes", "[]"}, {"min_gpus", "1"}, {"max_gpus", "10000"}, {"num_gpus_per_node", "1"}, {"model_parallel_size", "1"}, {"min_time", "0"}, {"prefer_larger_batch", "true"}, {"prefer_larger_batch_size", "true"}, {"ignore_non_elastic_batch_info", "false"}, {"version", "0.2"})},
    {"autotuning", CERO_TRAIN_REFUSED, "Use `cero plan --search`.", NAMES({"enabled", "false"})},
    {"autotuning", CERO_TRAIN_ACCEPTED, "Counts only with `autotuning.enabled`.",
     NAMES({"fast", "true"}, {"results_dir", "\"autotuning_results\""}, {"exps_dir", "\"autotuning_exps\""}, {"overwrite", "true"}, {"start_profile_step", "3"}, {"end_profile_step", "5"}, {"metric", "\"throughput\""}, {"metric_path", NULL}, {"tuner_type", "\"gridsearch\""}, {"tuner_early_stopping", "5"}, {"tuner_num_trials", "50"}, {"arg_mappings", "{}"}, {"max_train_batch_size", "0"}, {"min_train_batch_size", "1"}, {"max_train_micro_batch_size_per_gpu", "1024"}, {"min_train_micro_batch_size_per_gpu", "1"}, {"num_tuning_micro_batch_sizes", "3"}, {"mp_size", "1"}, {"model_info_path", NULL})},
    {"autotuning.model_info", CERO_TRAIN_ACCEPTED, "Counts only with `autotuning.enabled`.", NAMES({"profile", "false"}, {"num_params", "0"}, {"hidden_size", "0"}, {"num_layers", "0"})},

    {"curriculum_learning", CERO_TRAIN_REFUSED, "Not offered.", NAMES({"enabled", "false"})},
    {"curriculum_learning", CERO_TRAIN_ACCEPTED, "Counts only with `curriculum_learning.enabled`.",
     NAMES({"curriculum_type", "\"seqlen\""}, {"min_difficulty", "0"}, {"max_difficulty", "0"}, {"schedule_type", "\"fixed_linear\""}, {"schedule_config", "{}"})},
    {"data_efficiency", CERO_TRAIN_REFUSED, "Not offered.", NAMES({"enabled", "false"})},
    {"data_efficiency", CERO_TRAIN_ACCEPTED, "Counts only with `data_efficiency.enabled`.", NAMES({"seed", "1234"}, {"data_sampling", "{}"}, {"data_routing", "{}"})},
    {"progressive_layer_drop", CERO_TRAIN_REFUSED, "Not offered.", NAMES({"enabled", "false"})},
    {"progressive_layer_drop", CERO_TRAIN_ACCEPTED, "Counts only with `progressive_layer_drop.enabled`.", NAMES({"theta", "1.0"}, {"gamma", "0.001"})},
    {"eigenvalue", CERO_TRAIN_REFUSED, "Not offered.", NAMES({"enabled", "false"})},
    {"eigenvalue", CERO_TRAIN_ACCEPTED, "Counts only with `eigenvalue.enabled`.",
     NAMES({"verbose", "false"}, {"max_iter", "100"}, {"tol", "0.01"}, {"stability", "0.000001"}, {"gas_boundary_resolution", "1"}, {"layer_name", "\"bert.encoder.layer\""}, {"layer_num", "0"})},

    /* The keys inside objects that are taken or refused as a whole, for the documents. */
    {"sparse_attention", CERO_TRAIN_REFUSED, "Refused as a whole.",
     NAMES({"mode", NULL}, {"block", NULL}, {"different_layout_per_head", NULL}, {"num_local_blocks", NULL}, {"num_global_blocks", NULL}, {"attention", NULL}, {"horizontal_global_attention", NULL}, {"num_different_global_patterns", NULL}, {"num_random_blocks", NULL}, {"local_window_blocks", NULL}, {"global_block_indices", NULL}, {"global_block_end_indices", NULL}, {"num_sliding_window_blocks", NULL})},
    {"compression_training", CERO_TRAIN_REFUSED, "Refused as a whole.",
     NAMES({"layer_reduction", NULL}, {"weight_quantization", NULL}, {"activation_quantization", NULL}, {"sparse_pruning", NULL}, {"row_pruning", NULL}, {"head_pruning", NULL}, {"channel_pruning", NULL})},
    {"tensor_parallel", CERO_TRAIN_REFUSED, "Refused as a whole.",
     NAMES({"dtype", NULL}, {"autotp_size", NULL}, {"tp_overlap_comm", NULL}, {"tp", NULL}, {"injection_policy_tuple", NULL}, {"partition_config", NULL}, {"preset_model", NULL}, {"keep_module_on_host", NULL}, {"replace_with_kernel_inject", NULL}, {"kernel_inject", NULL})},
    {"zero_optimization.zenflow", CERO_TRAIN_REFUSED, "Refused as a whole.",
     NAMES({"topk_ratio", NULL}, {"select_strategy", NULL}, {"select_interval", NULL}, {"update_interval", NULL}, {"overlap_step", NULL}, {"offload", NULL}, {"auto_ratio", NULL}, {"full_warm_up_rounds", NULL}, {"pt_reserved_cores_perc", NULL}, {"steps_per_epoch", NULL})},
    {"zero_optimization.zeropp_loco_param", CERO_TRAIN_REFUSED, "Refused as a whole.", NAMES({"err_beta", NULL}, {"reset_T", NULL})},
    {"zero_optimization.leaf_module", CERO_TRAIN_ACCEPTED, "Units are given by the model.", NAMES({"classes", NULL}, {"names", NULL}, {"name_suffixes", NULL})},
    {"curriculum_learning.schedule_config", CERO_TRAIN_ACCEPTED, "Counts only with `curriculum_learning.enabled`.",
     NAMES({"total_curriculum_step", NULL}, {"difficulty_step", NULL}, {"root_degree", NULL}, {"difficulty", NULL}, {"max_step", NULL})},
    {"data_efficiency.data_sampling", CERO_TRAIN_ACCEPTED, "Counts only with `data_efficiency.enabled`.",
     NAMES({"enabled", NULL}, {"num_epochs", NULL}, {"num_workers", NULL}, {"pin_memory", NULL}, {"curriculum_learning", NULL}, {"dynamic_batching", NULL})},
    {"data_efficiency.data_routing", CERO_TRAIN_ACCEPTED, "Counts only with `data_efficiency.enabled`.",
     NAMES({"enabled", NULL}, {"random_ltd", NULL})},
};
/* clang-format on */

#undef NAMES

static const char *const sections[] = {
    "optimizer",
    "optimizer.params",
    "scheduler",
    "scheduler.params",
    "fp16",
    "bf16",
    "data_types",
    "zero_optimization",
    "zero_optimization.offload_param",
    "zero_optimization.offload_optimizer",
    "activation_checkpointing",
    "tensorboard",
    "csv_monitor",
    "cero",
    "timers",
    "timers.throughput",
    "amp",
    "torch_autocast",
    "flops_profiler",
    "comms_logger",
    "wandb",
    "comet",
    "checkpoint",
    "checkpoint.parallel_write",
    "checkpoint.writer",
    "nebula",
    "pipeline",
    "expert_parallel",
    "compile",
    "hybrid_engine",
    "aio",
    "elasticity",
    "autotuning",
    "autotuning.model_info",
    "curriculum_learning",
    "data_efficiency",
    "progressive_layer_drop",
    "eigenvalue",
};

const cero_train_group *cero_train_groups(int *count)
{
    *count = (int)CERO_COUNT_OF(groups);
    return groups;
}

const char *cero_train_section(int i)
{
    return i >= 0 && i < (int)CERO_COUNT_OF(sections) ? sections[i] : NULL;
}
