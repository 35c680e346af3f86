/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A ds_config means here what it means in DeepSpeed: defaults, the batch rule, "auto", names of types;
 * whatever would be ignored or contradicts is refused with its path (cases CF-*, LR-01, LR-05, LR-06,
 * LS-09).
 */
#include "train_files.h"

static cero_train_config *config;

#define B "\"train_batch_size\": 8"

static const cero_train_spec *accept(const char *text)
{
    assert_ok(create_config(text, NULL, 1, &config));
    return cero_train_config_spec(config);
}

static void done(void)
{
    cero_train_config_destroy(&config);
    assert_null(config);
}

static void refuse(const char *text, const char *message)
{
    assert_fails(create_config(text, NULL, 1, &config), CERO_ERR_INVALID, message);
}

static void refuse_unsupported(const char *text, const char *message)
{
    assert_fails(create_config(text, NULL, 1, &config), CERO_ERR_UNSUPPORTED, message);
}

static void test_defaults(void **state)
{
    CERO_UNUSED(state);
    const cero_train_spec *s = accept("{" B "}");
    assert_true(s->train_batch_size == 8 && s->train_micro_batch_size_per_gpu == 8 &&
                s->gradient_accumulation_steps == 1 && s->steps_per_print == 10);
    assert_int_equal(s->compute_dtype, CERO_DTYPE_F32);
    assert_true(s->gradient_clipping == 1.0 && s->check_grad_overflow);
    const cero_optim_spec *o = &s->optimizer;
    assert_true(o->type == CERO_OPTIM_ADAMW && o->lr == 1e-3 && o->beta1 == 0.9 &&
                o->beta2 == 0.999 && o->eps == 1e-8 && o->weight_decay == 0 && o->bias_correction);
    assert_true(s->scheduler.type == CERO_LR_CONSTANT && s->scheduler.base_lr == 1e-3);
    assert_true(s->zero_stage == 0 && s->reduce_bucket_size == 500000000 &&
                s->allgather_bucket_size == 500000000 && !s->overlap_comm &&
                s->stage3_prefetch_bucket_size == 50000000 &&
                s->stage3_param_persistence_threshold == 100000 &&
                s->stage3_max_live_parameters == 1000000000);
    assert_true(s->seed == 1234 && s->no_decay.count == 0 && s->frozen.count == 0 &&
                s->gradient_order == CERO_GRADIENT_ORDER_AUTO && s->max_consecutive_skips == 8 &&
                s->memory_budget == 0 && s->checkpoint_units == 0);
    assert_string_equal(s->tensorboard_job_name, "DeepSpeedJobName");
    assert_int_equal(cero_train_config_note_count(config), 0);
    assert_null(cero_train_config_note(config, 0));
    expect_effective(config, "train_batch_size", "8 file");
    expect_effective(config, "train_micro_batch_size_per_gpu", "8 derived");
    expect_effective(config, "gradient_clipping", "1 default");
    expect_effective(config, "scheduler.params.warmup_min_lr", "absent");
    done();
}

static void test_all_given(void **state)
{
    CERO_UNUSED(state);
    const cero_train_spec *s = accept(
        "// a comment\n{\"train_batch_size\": 2.4e1, \"train_micro_batch_size_per_gpu\": 4.0,\n"
        "\"gradient_accumulation_steps\": 6, # another\n\"steps_per_print\": null,\n"
        "\"optimizer\": {\"type\": \"lamb\", \"params\": {\"lr\": 2e-3, \"betas\": [0.8, 0.9], "
        "\"eps\": 1e-6, \"weight_decay\": 0.1, \"max_coeff\": 5, \"min_coeff\": 0.1, "
        "\"bias_correction\": false, \"eps_inside_sqrt\": true}},\n"
        "\"bfloat16\": {\"enabled\": true, \"check_grad_overflow\": false},\n"
        "\"zero_optimization\": {\"stage\": 3, \"reduce_bucket_size\": 5e8, \"overlap_comm\": "
        "null, \"round_robin_gradients\": true, \"offload_param\": {\"device\": \"none\", "
        "\"pin_memory\": true}},\n"
        "\"tensorboard\": {\"enabled\": true, \"output_path\": \"tb\", \"job_name\": \"j\"},\n"
        "\"cero\": {\"seed\": 7, \"no_decay\": [\"*.bias\", \"*ln_?.weight\"], \"frozen\": "
        "[\"wte.*\"], \"gradient_order\": \"node\", \"share_within_node\": true, "
        "\"max_consecutive_skips\": 3, \"memory_budget\": 1e9, \"checkpoint_units\": 2},\n"
        "/* more */ \"sparse_gradients\": true,}\n");
    assert_true(s->train_batch_size == 24 && s->steps_per_print == 0);
    const cero_optim_spec *o = &s->optimizer;
    assert_true(o->type == CERO_OPTIM_LAMB && o->lr == 2e-3 && o->beta1 == 0.8 && o->beta2 == 0.9 &&
                o->eps == 1e-6 && o->weight_decay == 0.1 && o->max_coeff == 5 &&
                o->min_coeff == 0.1 && !o->bias_correction && o->eps_inside_sqrt);
    assert_int_equal(s->compute_dtype, CERO_DTYPE_BF16);
    assert_true(!s->check_grad_overflow && s->zero_stage == 3 && s->overlap_comm);
    assert_true(s->tensorboard_enabled && strcmp(s->tensorboard_output_path, "tb") == 0);
    assert_true(s->seed == 7 && s->no_decay.count == 2 && s->frozen.count == 1 &&
                s->gradient_order == CERO_GRADIENT_ORDER_NODE && s->share_within_node &&
                s->max_consecutive_skips == 3 && s->memory_budget == 1000000000 &&
                s->checkpoint_units == 2);
    assert_string_equal(s->no_decay.pattern[1], "*ln_?.weight");
    assert_int_equal(cero_train_config_note_count(config), 3);
    assert_string_equal(cero_train_config_note(config, 0),
                        "zero_optimization.round_robin_gradients");
    assert_string_equal(cero_train_config_note(config, 1),
                        "zero_optimization.offload_param.pin_memory");
    assert_string_equal(cero_train_config_note(config, 2), "sparse_gradients");
    expect_effective(config, "cero.no_decay", "[\"*.bias\", \"*ln_?.weight\"] file");
    expect_effective(config, "optimizer.params.betas", "[0.8, 0.9] file");
    expect_effective(config, "cero.gradient_order", "\"node\" file");
    done();
}

/* The golden table of B.1, CF-03 and CF-04. A result of 0 is a refusal. */
static void test_batch_rule(void **state)
{
    CERO_UNUSED(state);
    static const struct {
        int train;
        int micro;
        int accum;
        int ranks;
        int want[3];
        const char *message;
    } cases[] = {
        {16, 4, 2, 2, {16, 4, 2}, NULL},
        {24, 3, 0, 2, {24, 3, 4}, NULL},
        {24, 0, 4, 2, {24, 3, 4}, NULL},
        {0, 3, 4, 2, {24, 3, 4}, NULL},
        {24, 0, 0, 2, {24, 12, 1}, NULL},
        {0, 3, 0, 2, {6, 3, 1}, NULL},
        {7, 0, 0, 7, {7, 1, 1}, NULL},
        {16,
         3,
         2,
         2,
         {0},
         "16 is not train_micro_batch_size_per_gpu 3 x "
         "gradient_accumulation_steps 2 x 2 data-parallel ranks = 12"},
        {16,
         3,
         0,
         2,
         {0},
         "16 does not divide by the micro batch 3 x 2 data-parallel ranks = 6 "
         "(remainder 4)"},
        {16,
         0,
         5,
         1,
         {0},
         "16 does not divide by the accumulation steps 5 x 1 data-parallel ranks "
         "= 5 (remainder 1)"},
        {16, 0, 0, 3, {0}, "16 does not divide by 1 x 3 data-parallel ranks = 3 (remainder 1)"},
        {2, 0, 0, 4, {0}, "(remainder 2)"},
        {2, 4, 0, 1, {0}, "(remainder 2)"},
        {0, 0, 4, 2, {0}, "train_batch_size or train_micro_batch_size_per_gpu must be given"},
        {0, 0, 0, 1, {0}, "train_batch_size or train_micro_batch_size_per_gpu must be given"},
    };
    for (size_t i = 0; i < CERO_COUNT_OF(cases); i++) {
        const char *const names[] = {"train_batch_size", "train_micro_batch_size_per_gpu",
                                     "gradient_accumulation_steps"};
        int given[3] = {cases[i].train, cases[i].micro, cases[i].accum};
        char text[256] = "{";
        for (int k = 0; k < 3; k++) {
            size_t used = strlen(text);
            if (given[k] > 0) {
                (void)snprintf(text + used, sizeof(text) - used, "\"%s\": %d,", names[k], given[k]);
            }
        }
        (void)strcat(text, "}");
        if (cases[i].message != NULL) {
            assert_fails(create_config(text, NULL, cases[i].ranks, &config), CERO_ERR_INVALID,
                         cases[i].message);
            continue;
        }
        assert_ok(create_config(text, NULL, cases[i].ranks, &config));
        const cero_train_spec *s = cero_train_config_spec(config);
        assert_int_equal(s->train_batch_size, cases[i].want[0]);
        assert_int_equal(s->train_micro_batch_size_per_gpu, cases[i].want[1]);
        assert_int_equal(s->gradient_accumulation_steps, cases[i].want[2]);
        done();
    }
}

static void test_optimizers(void **state)
{
    CERO_UNUSED(state);
    static const struct {
        const char *text;
        cero_optim_type type;
        double lr;
        double eps;
        double beta2;
    } cases[] = {
        {"\"AdamW\"", CERO_OPTIM_ADAMW, 1e-3, 1e-8, 0.999},
        {"\"ADAM\"", CERO_OPTIM_ADAMW, 1e-3, 1e-8, 0.999},
        {"\"Adam\", \"params\": {\"adam_w_mode\": false}", CERO_OPTIM_ADAM, 1e-3, 1e-8, 0.999},
        {"\"AdamW\", \"params\": {\"adam_w_mode\": false}", CERO_OPTIM_ADAMW, 1e-3, 1e-8, 0.999},
        {"\"SGD\", \"params\": {\"momentum\": 0.9, \"nesterov\": true}", CERO_OPTIM_SGD, 1e-3, 1e-8,
         0.999},
        {"\"Adagrad\"", CERO_OPTIM_ADAGRAD, 1e-2, 1e-10, 0.999},
        {"\"Lion\"", CERO_OPTIM_LION, 1e-3, 1e-8, 0.999},
        {"\"LAMB\"", CERO_OPTIM_LAMB, 1e-3, 1e-8, 0.999},
        {"\"muon\"", CERO_OPTIM_MUON, 0.02, 1e-10, 0.95},
    };
    for (size_t i = 0; i < CERO_COUNT_OF(cases); i++) {
        char text[256];
        (void)snprintf(text, sizeof(text), "{" B ", \"optimizer\": {\"type\": %s}}", cases[i].text);
        const cero_optim_spec *o = &accept(text)->optimizer;
        assert_int_equal(o->type, cases[i].type);
        assert_true(o->lr == cases[i].lr && o->eps == cases[i].eps && o->beta2 == cases[i].beta2);
        if (o->type == CERO_OPTIM_MUON) {
            assert_true(o->muon_lr == 0.02 && o->adam_lr == 3e-4 && o->momentum == 0.95 &&
                        o->nesterov && o->ns_steps == 5);
        }
        done();
    }
    const cero_optim_spec *o =
        &accept("{" B
                ", \"optimizer\": {\"type\": \"Muon\", \"params\": {\"lr\": 0.1, \"adam_lr\": "
                "0.2}}}")
             ->optimizer;
    assert_true(o->muon_lr == 0.1 && o->adam_lr == 0.2);
    done();
    refuse("{" B ",\n\"optimizer\": {\"type\": \"AdanW\"}}",
           ".json:2:15: optimizer.type: unknown optimizer \"AdanW\", did you mean AdamW?");
    refuse_unsupported("{" B ", \"optimizer\": {\"type\": \"OneBitAdam\"}}", "1-bit");
    refuse("{" B ", \"optimizer\": {\"params\": {\"momentum\": 0.9}}}",
           "optimizer.params.momentum: AdamW has no such parameter; it has lr betas eps");
    refuse_unsupported("{" B ", \"optimizer\": {\"params\": {\"max_grad_norm\": 1.0}}}",
                       "gradient_clipping");
    refuse_unsupported("{" B ", \"optimizer\": {\"params\": {\"amsgrad\": true}}}", "amsgrad");
    assert_string_equal(cero_optim_type_name(CERO_OPTIM_LAMB), "Lamb");
    assert_string_equal(cero_lr_schedule_type_name(CERO_LR_ONE_CYCLE), "OneCycle");
}

#define SCHEDULER(type, params)                                                                 \
    "{" B ", \"optimizer\": {\"type\": \"Adam\", \"params\": {\"lr\": 5e-5}},\n\"scheduler\": " \
    "{\"type\": \"" type "\", \"params\": {" params "}}}"

static void test_schedules(void **state)
{
    CERO_UNUSED(state);
    // LR-05: the peak comes from the optimizer.
    const cero_lr_schedule_spec *s = &accept(SCHEDULER("WarmupLR", ""))->scheduler;
    assert_true(s->type == CERO_LR_WARMUP && s->warmup_max_lr == 5e-5 && s->base_lr == 5e-5 &&
                s->warmup_min_lr == 0 && s->warmup_num_steps == 1000 && !s->warmup_is_linear);
    expect_effective(config, "scheduler.params.warmup_max_lr", "5e-05 derived");
    done();
    s = &accept(SCHEDULER("WarmupDecayLR", "\"total_num_steps\": 30, \"warmup_type\": \"linear\""))
             ->scheduler;
    assert_true(s->type == CERO_LR_WARMUP_DECAY && s->warmup_max_lr == 0.001 &&
                s->total_num_steps == 30 && s->warmup_is_linear);
    done();
    s = &accept(SCHEDULER("WarmupCosineLR", "\"total_num_steps\": 40, \"warmup_num_steps\": 8"))
             ->scheduler;
    assert_true(s->type == CERO_LR_WARMUP_COSINE && s->cos_min_ratio == 1e-4 &&
                s->warmup_min_ratio == 0 && s->warmup_num_steps == 8);
    done();
    s = &accept(SCHEDULER("OneCycle",
                          "\"cycle_min_lr\": 0.1, \"cycle_max_lr\": 0.2, "
                          "\"cycle_first_step_size\": 9, \"cycle_first_stair_count\": 3"))
             ->scheduler;
    assert_true(s->type == CERO_LR_ONE_CYCLE && s->cycle_second_step_size == 9 &&
                s->cycle_second_stair_count == 3 && s->cycle_momentum && s->cycle_max_mom == 0.9);
    expect_effective(config, "scheduler.params.cycle_second_step_size", "9 derived");
    done();
    s = &accept(SCHEDULER("LRRangeTest", "\"lr_range_test_staircase\": true"))->scheduler;
    assert_true(s->type == CERO_LR_RANGE_TEST && s->lr_range_test_staircase &&
                s->lr_range_test_min_lr == 1e-3 && s->lr_range_test_step_size == 2000);
    done();
    // LR-01
    refuse(SCHEDULER("WarmupLR", "\"warmup_num_steps\": 0"),
           "scheduler.params.warmup_num_steps: expected an integer greater than 0, found 0");
    (void)accept(SCHEDULER("WarmupLR", "\"warmup_num_steps\": 1"));
    done();
    // LR-06
    refuse(SCHEDULER("cosine", ""), "unknown schedule \"cosine\", did you mean WarmupCosineLR? "
                                    "(known: WarmupLR, WarmupDecayLR, WarmupCosineLR, OneCycle");
    refuse(SCHEDULER("WarmupCosineLr", ""), "did you mean WarmupCosineLR?");
    refuse(SCHEDULER("WarmupDecayLR", ""),
           "scheduler.params.total_num_steps: missing; WarmupDecayLR needs it");
    refuse(SCHEDULER("OneCycle", "\"cycle_min_lr\": 0.1"), "cycle_max_lr: missing");
    refuse(SCHEDULER("WarmupLR", "\"total_num_steps\": 5"), "WarmupLR has no such parameter");
    refuse(SCHEDULER("WarmupLR", "\"warmup_type\": \"Linear\""),
           "expected one of \"log\", \"linear\", found \"Linear\"; did you mean \"linear\"?");
}

static void test_precision(void **state)
{
    CERO_UNUSED(state);
    // LS-09
    const cero_train_spec *s = accept("{" B ", \"fp16\": {\"enabled\": true}}");
    assert_true(s->compute_dtype == CERO_DTYPE_F16 && s->loss_scale.initial_scale_power == 16 &&
                s->loss_scale.loss_scale == 0 && s->loss_scale.loss_scale_window == 1000 &&
                s->loss_scale.hysteresis == 2 && s->loss_scale.min_loss_scale == 1 &&
                s->max_consecutive_skips == 0);
    expect_effective(config, "fp16.initial_scale_power", "16 default");
    done();
    // CF-08
    refuse("{" B ", \"fp16\": {\"enabled\": true},\n \"bf16\": {\"enabled\": true}}",
           ".json:2:11: bf16.enabled: fp16 and bf16 are both enabled");
    refuse("{" B ", \"bf16\": {\"enabled\": true}, \"bfloat16\": {\"enabled\": true}}",
           "given twice");
    refuse_unsupported("{" B ", \"bf16\": {\"bf16_optimizer_states\": true}}", "fp32");
}

/* CF-11 */
static void test_zero_stage(void **state)
{
    CERO_UNUSED(state);
    static const char *const bad[] = {"4", "-1", "\"3\"", "true", "2.5", "null", "[1]", "1e30"};
    char text[256];
    for (size_t i = 0; i < CERO_COUNT_OF(bad); i++) {
        (void)snprintf(text, sizeof(text), "{" B ", \"zero_optimization\": {\n\"stage\": %s}}",
                       bad[i]);
        refuse(text, ".json:2:1: zero_optimization.stage: expected an integer from 0 to 3, found ");
    }
    assert_int_equal(accept("{" B ", \"zero_optimization\": {\"stage\": 2.0}}")->zero_stage, 2);
    done();
    assert_int_equal(accept("{" B ", \"zero_optimization\": true}")->zero_stage, 1);
    done();
    assert_int_equal(accept("{" B ", \"zero_optimization\": false}")->zero_stage, 0);
    done();
    refuse("{" B ", \"zero_optimization\": 2}", "zero_optimization: expected an object, found 2");
    refuse_unsupported("{" B ", \"zero_optimization\": {\"offload_optimizer\": {\"device\": "
                       "\"cpu\"}}}",
                       "zero_optimization.offload_optimizer.device is refused");
    refuse_unsupported("{" B ", \"zero_optimization\": {\"cpu_offload\": true}}", "Offloading");
}

static void test_unknown(void **state)
{
    CERO_UNUSED(state);
    // CF-01
    refuse("{" B ",\n  \"gradient_clipp1ng\": 1.0}",
           ".json:2:3: unknown key gradient_clipp1ng, did you mean gradient_clipping?");
    refuse("{" B ", \"zero_optimization\": {\"grad_hooks\": true}}",
           "unknown key zero_optimization.grad_hooks");
    refuse("{" B ", \"optimiser\": {}}", "did you mean optimizer?");
    refuse("{" B ", \"stage\": 2}", "unknown key stage; its place is zero_optimization.stage");
    refuse("{" B ", \"zzz\": 2}", "unknown key zzz; `cero info --config-docs`");
    refuse("{" B ", \"wall_clock_breakdwon\": 2}", "did you mean wall_clock_breakdown?");
    // CF-12
    assert_fails(create_config("{" B ", \"optimizer\": {},\n\"optimizer\": {}}", NULL, 1, &config),
                 CERO_ERR_CORRUPT, ".json:2:1: the key \"optimizer\" stands here for the second");
    // CF-14
    refuse_unsupported("{" B ", \"sparse_attention\": {\"mode\": \"fixed\"}}",
                       "sparse_attention is refused: Not offered.");
    refuse_unsupported("{" B ", \"elasticity\": {\"enabled\": true}}", "elasticity.enabled");
    (void)accept("{" B
                 ", \"elasticity\": {\"enabled\": false, \"min_gpus\": 2}, \"sparse_attention\": "
                 "null, \"timers\": {\"throughput\": {\"enabled\": true, \"synchronized\": "
                 "false}}}");
    assert_int_equal(cero_train_config_note_count(config), 3);
    assert_string_equal(cero_train_config_note(config, 1), "timers.throughput.enabled");
    done();
    assert_fails(create_config("[]", NULL, 1, &config), CERO_ERR_INVALID, "a config is an object");
    assert_fails(create_config("", NULL, 1, &config), CERO_ERR_CORRUPT, "end of the file");
    cero_train_config_params params = {.path = "/no/such/config.json"};
    assert_fails(cero_train_config_create(&params, &config), CERO_ERR_IO, "/no/such/config.json");
}

static void test_reports(void **state)
{
    CERO_UNUSED(state);
    const cero_train_spec *s = accept("{" B "}");
    assert_false(s->comms_logger_enabled || s->comms_logger_verbose || s->flops_profiler_enabled);
    assert_true(s->comms_logger_prof_all && s->flops_profiler_detailed);
    assert_true(s->flops_profiler_profile_step == 1 && s->flops_profiler_top_modules == 1);
    assert_int_equal(s->flops_profiler_module_depth, -1);
    done();
    s = accept(
        "{" B ", \"comms_logger\": {\"enabled\": true, \"prof_all\": false, \"prof_ops\": "
        "[\"all_reduce\", \"all_gather_into_tensor\"]}, \"flops_profiler\": {\"enabled\": "
        "true, \"module_depth\": -1, \"output_file\": null, \"recompute_fwd_factor\": 1.0}}");
    assert_int_equal(s->comms_logger_prof_ops.count, 2);
    assert_string_equal(s->comms_logger_prof_ops.pattern[1], "all_gather_into_tensor");
    assert_true(s->wall_clock_breakdown && s->flops_profiler_output_file[0] == '\0');
    expect_effective(config, "wall_clock_breakdown", "true derived");
    assert_int_equal(cero_train_config_origin(config, "flops_profiler.module_depth"),
                     CERO_ORIGIN_FILE);
    assert_int_equal(cero_train_config_origin(config, "flops_profiler.detailed"),
                     CERO_ORIGIN_DEFAULT);
    assert_int_equal(cero_train_config_origin(config, "nothing"), CERO_ORIGIN_DEFAULT);
    assert_int_equal(cero_train_config_note_count(config), 1);
    assert_string_equal(cero_train_config_note(config, 0), "flops_profiler.recompute_fwd_factor");
    done();
    s = accept("{" B ", \"wall_clock_breakdown\": false, \"flops_profiler\": {\"enabled\": true}}");
    assert_false(s->wall_clock_breakdown);
    done();
    refuse("{" B ", \"comms_logger\": {\"prof_ops\": [\"all_gather\",\n\"allreduce\"]}}",
           ".json:2:1: comms_logger.prof_ops: unknown \"allreduce\", did you mean \"all_reduce\"?");
    refuse("{" B ", \"comms_logger\": {\"prof_ops\": [\"qqqqqqqq\"]}}",
           "comms_logger.prof_ops: unknown \"qqqqqqqq\"; `cero info --config-docs`");
    refuse("{" B ", \"flops_profiler\": {\"module_depth\": -2}}",
           "flops_profiler.module_depth: expected an integer of at least -1, found -2");
    refuse("{" B ", \"flops_profiler\": {\"profile_step\": 0}}",
           "flops_profiler.profile_step: expected an integer greater than 0, found 0");
    refuse("{" B ", \"flops_profiler\": {\"top_modules\": -1}}", "an integer of at least 0");
}

/* CF-06 */
static void test_auto(void **state)
{
    CERO_UNUSED(state);
    const cero_train_spec *s = accept(
        "{\"train_batch_size\": 12, \"train_micro_batch_size_per_gpu\": \"auto\", "
        "\"gradient_accumulation_steps\": 3, \"gradient_clipping\": \"auto\", \"optimizer\": "
        "{\"type\": \"AdamW\", \"params\": {\"lr\": 0.1, \"betas\": \"auto\", \"eps\": "
        "\"auto\", \"weight_decay\": \"auto\"}}, \"scheduler\": {\"type\": \"WarmupDecayLR\", "
        "\"params\": {\"warmup_min_lr\": \"auto\", \"warmup_max_lr\": \"auto\", "
        "\"warmup_num_steps\": 4, \"total_num_steps\": 10}}, \"zero_optimization\": "
        "{\"stage\": 2, \"reduce_bucket_size\": \"auto\", \"contiguous_gradients\": \"auto\"}}");
    assert_true(s->train_micro_batch_size_per_gpu == 4 && s->gradient_clipping == 1.0 &&
                s->optimizer.beta2 == 0.999 && s->optimizer.eps == 1e-8 &&
                s->scheduler.warmup_max_lr == 0.1 && s->reduce_bucket_size == 500000000);
    expect_effective(config, "train_micro_batch_size_per_gpu", "4 derived");
    expect_effective(config, "zero_optimization.reduce_bucket_size", "500000000 derived");
    expect_effective(config, "scheduler.params.warmup_max_lr", "0.1 derived");
    done();
    refuse("{\"train_micro_batch_size_per_gpu\": \"auto\",\n\"optimizer\": {\"params\": {\"lr\": "
           "\"auto\"}}, \"bf16\": {\"enabled\": \"auto\"}, \"scheduler\": {\"type\": \"WarmupLR\", "
           "\"params\": {\"warmup_num_steps\": \"auto\"}}}",
           ".json:1:2: still \"auto\", and nothing determines them: "
           "train_micro_batch_size_per_gpu, optimizer.params.lr, "
           "scheduler.params.warmup_num_steps, bf16.enabled; give values");
    const char *const overrides[] = {"optimizer.params.lr=3e-4", NULL};
    assert_ok(create_config("{" B ", \"optimizer\": {\"params\": {\"lr\": \"auto\"}}}", overrides,
                            1, &config));
    expect_effective(config, "optimizer.params.lr", "0.0003 command");
    done();
}

static void test_overrides(void **state)
{
    CERO_UNUSED(state);
    static const char text[] = "{" B ", \"optimizer\": {\"type\": \"Adam\"}}";
    const char *const good[] = {"train_batch_size=32", "optimizer.type=Lion",
                                "cero.no_decay=[\"*.bias\"]", "bf16={\"enabled\": true}", NULL};
    assert_ok(create_config(text, good, 2, &config));
    const cero_train_spec *s = cero_train_config_spec(config);
    assert_true(s->train_batch_size == 32 && s->train_micro_batch_size_per_gpu == 16 &&
                s->optimizer.type == CERO_OPTIM_LION && s->no_decay.count == 1 &&
                s->compute_dtype == CERO_DTYPE_BF16);
    expect_effective(config, "optimizer.type", "\"Lion\" command");
    expect_effective(config, "bf16.enabled", "true command");
    done();
    static const char *const bad[][2] = {
        {"train_batch_size", "--set train_batch_size: expected key.path=value"},
        {"=3", "expected key.path=value"},
        {"zero_optimization.stgae=1", "--set zero_optimization.stgae:1:1: unknown key "
                                      "zero_optimization.stgae, did you mean "
                                      "zero_optimization.stage?"},
        {"optimiser.params.lr=1", "unknown key optimiser, did you mean optimizer?"},
        {"gradient_clipping.x=1", "unknown key gradient_clipping.x"},
        {"zero_optimization.stage=two", "zero_optimization.stage: expected an integer from 0 to 3, "
                                        "found \"two\""},
        {"zero_optimization.stage=", "found \"\""},
        {".=1", "unknown key"},
        {"a..b=1", "unknown key a"},
    };
    for (size_t i = 0; i < CERO_COUNT_OF(bad); i++) {
        const char *const one[] = {bad[i][0], NULL};
        assert_fails(create_config(text, one, 1, &config), CERO_ERR_INVALID, bad[i][1]);
    }
    cero_train_config_params params = {.overrides = good, .override_count = 1};
    assert_ok(cero_train_config_create(&params, &config));
    assert_int_equal(cero_train_config_spec(config)->train_batch_size, 32);
    done();
    assert_fails(cero_train_config_create(NULL, &config), CERO_ERR_INVALID, "must be given");
}

static void test_memory_runs_out(void **state)
{
    CERO_UNUSED(state);
    static const char *const overrides[] = {"train_batch_size=32", "aio.queue_depth=4", NULL};
    cero_train_config_params params = {.overrides = overrides, .override_count = 2};
    for (uint64_t n = 1;; n++) {
        cero_mem_fail_at(n);
        cero_status st = cero_train_config_create(&params, &config);
        cero_mem_fail_at(0);
        if (st == CERO_OK) {
            assert_true(n > 20);
            break;
        }
        assert_int_equal(st, CERO_ERR_NOMEM);
    }
    done();
}

static void test_references(void **state)
{
    CERO_UNUSED(state);
    static const char *const names[] = {"gpt2-tiny", "gpt2-tiny-clip-warmup", "llama-tiny"};
    for (size_t i = 0; i < CERO_COUNT_OF(names); i++) {
        char name[128];
        char path[512];
        (void)snprintf(name, sizeof(name), "reference/%s/ds_config.json", names[i]);
        cero_train_config_params params = {.path = shared_path(name, path, sizeof(path))};
        assert_ok(cero_train_config_create(&params, &config));
        const cero_train_spec *s = cero_train_config_spec(config);
        assert_int_equal(s->train_micro_batch_size_per_gpu * s->gradient_accumulation_steps, 8);
        done();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults),   cmocka_unit_test(test_all_given),
        cmocka_unit_test(test_batch_rule), cmocka_unit_test(test_optimizers),
        cmocka_unit_test(test_schedules),  cmocka_unit_test(test_precision),
        cmocka_unit_test(test_zero_stage), cmocka_unit_test(test_unknown),
        cmocka_unit_test(test_reports),    cmocka_unit_test(test_auto),
        cmocka_unit_test(test_overrides),  cmocka_unit_test(test_memory_runs_out),
        cmocka_unit_test(test_references),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
