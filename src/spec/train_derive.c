/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Completes a config: precision, defaults that depend on the optimizer's or schedule's type, the batch
 * rule, and the list of keys that still say "auto".
 */
#include "spec/train_impl.h"

#include "base/log.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

enum {
    DEFAULT_MAX_SKIPS = 8
};

typedef struct type_name {
    const char *name;
    int type;
} type_name;

static const type_name optimizers[] = {
    {"AdamW", CERO_OPTIM_ADAMW},     {"Adam", CERO_OPTIM_ADAM}, {"SGD", CERO_OPTIM_SGD},
    {"Adagrad", CERO_OPTIM_ADAGRAD}, {"Lion", CERO_OPTIM_LION}, {"Lamb", CERO_OPTIM_LAMB},
    {"Muon", CERO_OPTIM_MUON},
};
static const type_name schedules[] = {
    {"constant", CERO_LR_CONSTANT},          {"WarmupLR", CERO_LR_WARMUP},
    {"WarmupDecayLR", CERO_LR_WARMUP_DECAY}, {"WarmupCosineLR", CERO_LR_WARMUP_COSINE},
    {"OneCycle", CERO_LR_ONE_CYCLE},         {"LRRangeTest", CERO_LR_RANGE_TEST},
};

const char *cero_optim_type_name(cero_optim_type type)
{
    return (unsigned)type < CERO_COUNT_OF(optimizers) ? optimizers[type].name : "unknown";
}

const char *cero_lr_schedule_type_name(cero_lr_schedule_type type)
{
    return (unsigned)type < CERO_COUNT_OF(schedules) ? schedules[type].name : "unknown";
}

static const char *next_optimizer(const void *context, int i)
{
    CERO_UNUSED(context);
    return (size_t)i < CERO_COUNT_OF(optimizers) ? optimizers[i].name : NULL;
}

static const char *next_schedule(const void *context, int i)
{
    CERO_UNUSED(context);
    return (size_t)i < CERO_COUNT_OF(schedules) ? schedules[i].name : NULL;
}

/* Index of a key that the table surely has. */
static int index_of(const char *section, const char *name)
{
    int i = cero_train_find_key(section, name);
    CERO_ASSERT(i >= 0);
    return i;
}

static bool is_given(const cero_train_config *config, int i)
{
    return config->origin[i] == CERO_ORIGIN_FILE || config->origin[i] == CERO_ORIGIN_COMMAND;
}

static bool param_given(const cero_train_config *config, const char *section, const char *name)
{
    return is_given(config, index_of(section, name));
}

/* A message about key i: at its value when it is given, else about the file. */
static cero_status fail_key(const cero_train_config *config, int i, cero_status status,
                            const char *message)
{
    int count;
    const cero_train_key *key = &cero_train_keys(&count)[i];
    char path[CERO_TRAIN_MAX_PATH];

    (void)cero_train_path(key->section, key->name, path, sizeof(path));
    if (config->where[i] != NULL) {
        (void)CERO_JSON_FAIL(config->where[i], "%s: %s", path, message);
        return status;
    }
    return CERO_FAIL(status, "%s: %s: %s", config->source, path, message);
}

static cero_status derive_precision(cero_train_config *config)
{
    cero_train_values *v = &config->values;

    if (v->fp16_enabled && v->bf16_enabled) {
        return fail_key(config, index_of("bf16", "enabled"), CERO_ERR_INVALID,
                        "fp16 and bf16 are both enabled; keep one");
    }
    v->spec.compute_dtype = v->fp16_enabled   ? CERO_DTYPE_F16
                            : v->bf16_enabled ? CERO_DTYPE_BF16
                                              : CERO_DTYPE_F32;
    if (!param_given(config, "cero", "max_consecutive_skips")) {
        v->spec.max_consecutive_skips = v->fp16_enabled ? 0 : DEFAULT_MAX_SKIPS;
    }
    if (!param_given(config, "zero_optimization", "overlap_comm")) {
        v->spec.overlap_comm = v->spec.zero_stage == 3;
    }
    return CERO_OK;
}

static cero_status find_optimizer(cero_train_config *config)
{
    static const char *const refused[] = {"OneBitAdam", "OneBitLamb", "ZeroOneAdam",
                                          "MuAdam",     "MuAdamW",    "MuSGD"};
    const char *name = config->values.optimizer_type;
    int key = index_of("optimizer", "type");
    char message[320];

    for (size_t i = 0; i < CERO_COUNT_OF(optimizers); i++) {
        if (strcasecmp(optimizers[i].name, name) == 0) {
            cero_optim_type type = (cero_optim_type)optimizers[i].type;
            if (type == CERO_OPTIM_ADAM && config->values.adam_w_mode) {
                type = CERO_OPTIM_ADAMW;
            }
            config->values.spec.optimizer.type = type;
            return CERO_OK;
        }
    }
    for (size_t i = 0; i < CERO_COUNT_OF(refused); i++) {
        if (strcasecmp(refused[i], name) == 0) {
            (void)snprintf(message, sizeof(message),
                           "%s is refused: 1-bit and mup optimizers are not offered", refused[i]);
            return fail_key(config, key, CERO_ERR_UNSUPPORTED, message);
        }
    }
    const char *nearest = cero_train_nearest(name, next_optimizer, NULL);
    (void)snprintf(message, sizeof(message),
                   "unknown optimizer \"%s\"%s%s%s (known: AdamW, Adam, SGD, Adagrad, Lion, Lamb, "
                   "Muon)",
                   name, nearest == NULL ? "" : ", did you mean ", nearest == NULL ? "" : nearest,
                   nearest == NULL ? "" : "?");
    return fail_key(config, key, CERO_ERR_INVALID, message);
}

static cero_status find_schedule(cero_train_config *config)
{
    const char *name = config->values.scheduler_type;
    char message[320];

    for (size_t i = 0; i < CERO_COUNT_OF(schedules); i++) {
        if (strcmp(schedules[i].name, name) == 0) {
            config->values.spec.scheduler.type = (cero_lr_schedule_type)schedules[i].type;
            return CERO_OK;
        }
    }
    const char *nearest = cero_train_nearest(name, next_schedule, NULL);
    (void)snprintf(message, sizeof(message),
                   "unknown schedule \"%s\"%s%s%s (known: WarmupLR, WarmupDecayLR, WarmupCosineLR, "
                   "OneCycle, LRRangeTest, constant)",
                   name, nearest == NULL ? "" : ", did you mean ", nearest == NULL ? "" : nearest,
                   nearest == NULL ? "" : "?");
    return fail_key(config, index_of("scheduler", "type"), CERO_ERR_INVALID, message);
}

bool cero_train_key_applies(const cero_train_config *config, int i)
{
    int count;
    const cero_train_key *key = &cero_train_keys(&count)[i];
    unsigned type;

    if (strcmp(key->section, "optimizer.params") == 0) {
        type = (unsigned)config->values.spec.optimizer.type;
    } else if (strcmp(key->section, "scheduler.params") == 0) {
        type = (unsigned)config->values.spec.scheduler.type;
    } else {
        return true;
    }
    return key->types == 0 || ((key->types >> type) & 1) != 0;
}

/* A hyper-parameter that the type does not have would be ignored: refused instead. */
static cero_status check_applies(const cero_train_config *config)
{
    int count;
    const cero_train_key *keys = cero_train_keys(&count);

    for (int i = 0; i < count; i++) {
        if (config->where[i] == NULL || cero_train_key_applies(config, i)) {
            continue;
        }
        char message[512];
        bool is_optimizer = strcmp(keys[i].section, "optimizer.params") == 0;
        int used =
            snprintf(message, sizeof(message), "%s has no such parameter; it has",
                     is_optimizer ? config->values.optimizer_type : config->values.scheduler_type);
        for (int k = 0; k < count; k++) {
            if (strcmp(keys[k].section, keys[i].section) == 0 &&
                cero_train_key_applies(config, k) && used < (int)sizeof(message)) {
                used +=
                    snprintf(message + used, sizeof(message) - (size_t)used, " %s", keys[k].name);
            }
        }
        return fail_key(config, i, CERO_ERR_INVALID, message);
    }
    return CERO_OK;
}

static void set_unless_given(const cero_train_config *config, const char *name, double *out,
                             double value)
{
    if (!param_given(config, "optimizer.params", name)) {
        *out = value;
    }
}

static void derive_optimizer(cero_train_config *config)
{
    cero_optim_spec *o = &config->values.spec.optimizer;
    bool is_muon = o->type == CERO_OPTIM_MUON;
    bool is_adagrad = o->type == CERO_OPTIM_ADAGRAD;
    bool has_lr = param_given(config, "optimizer.params", "lr");

    set_unless_given(config, "lr", &o->lr, is_adagrad ? 0.01 : is_muon ? 0.02 : 0.001);
    set_unless_given(config, "eps", &o->eps, is_adagrad || is_muon ? 1e-10 : 1e-8);
    set_unless_given(config, "momentum", &o->momentum, is_muon ? 0.95 : 0);
    set_unless_given(config, "muon_lr", &o->muon_lr, o->lr);
    set_unless_given(config, "adam_lr", &o->adam_lr, has_lr ? o->lr : 3e-4);
    if (!param_given(config, "optimizer.params", "nesterov")) {
        o->nesterov = is_muon;
    }
    if (!param_given(config, "optimizer.params", "betas")) {
        config->values.betas[0] = 0.9;
        config->values.betas[1] = is_muon ? 0.95 : 0.999;
    }
    o->beta1 = config->values.betas[0];
    o->beta2 = config->values.betas[1];
}

static cero_status require(const cero_train_config *config, const char *name)
{
    int i = index_of("scheduler.params", name);
    char message[160];

    if (is_given(config, i) || config->is_auto[i]) {
        return CERO_OK;
    }
    (void)snprintf(message, sizeof(message), "missing; %s needs it", config->values.scheduler_type);
    return fail_key(config, i, CERO_ERR_INVALID, message);
}

static void set_origin_derived(cero_train_config *config, const char *section, const char *name)
{
    config->origin[index_of(section, name)] = CERO_ORIGIN_DERIVED;
}

static cero_status derive_schedule(cero_train_config *config)
{
    cero_lr_schedule_spec *s = &config->values.spec.scheduler;
    static const char params[] = "scheduler.params";

    s->base_lr = config->values.spec.optimizer.lr;
    s->warmup_is_linear = config->values.warmup_type == 1;
    if (!param_given(config, params, "warmup_max_lr")) {
        // Only "auto" and WarmupLR take the optimizer's rate; WarmupDecayLR has its own default.
        bool is_auto = config->is_auto[index_of(params, "warmup_max_lr")];
        bool is_derived = is_auto || s->type == CERO_LR_WARMUP;
        s->warmup_max_lr = is_derived ? s->base_lr : 0.001;
        if (is_derived) {
            set_origin_derived(config, params, "warmup_max_lr");
        }
    }
    if (s->type == CERO_LR_WARMUP_DECAY || s->type == CERO_LR_WARMUP_COSINE) {
        CERO_TRY(require(config, "total_num_steps"));
        if (s->total_num_steps < s->warmup_num_steps &&
            param_given(config, params, "total_num_steps")) {
            cero_log_warn_once(
                "spec",
                "total_num_steps %lld is less than warmup_num_steps %lld: the rate falls at "
                "once after the warm-up",
                (long long)s->total_num_steps, (long long)s->warmup_num_steps);
        }
    }
    if (s->type == CERO_LR_ONE_CYCLE) {
        CERO_TRY(require(config, "cycle_min_lr"));
        CERO_TRY(require(config, "cycle_max_lr"));
    }
    if (!param_given(config, params, "cycle_second_step_size")) {
        s->cycle_second_step_size = s->cycle_first_step_size;
        set_origin_derived(config, params, "cycle_second_step_size");
    }
    if (!param_given(config, params, "cycle_second_stair_count")) {
        s->cycle_second_stair_count = s->cycle_first_stair_count;
        set_origin_derived(config, params, "cycle_second_stair_count");
    }
    return CERO_OK;
}

/* DeepSpeed's rule: of the three numbers, what is missing follows by division; then they must agree. */
static cero_status derive_batch(cero_train_config *config)
{
    int64_t *train = &config->values.spec.train_batch_size;
    int64_t *micro = &config->values.spec.train_micro_batch_size_per_gpu;
    int64_t *accum = &config->values.spec.gradient_accumulation_steps;
    int keys[3] = {index_of("", "train_batch_size"), index_of("", "train_micro_batch_size_per_gpu"),
                   index_of("", "gradient_accumulation_steps")};
    bool has_train = is_given(config, keys[0]);
    bool has_micro = is_given(config, keys[1]);
    bool has_accum = is_given(config, keys[2]);
    int64_t ranks = config->dp_size;
    int64_t product;

    if (!has_train && !has_micro) {
        if (config->is_auto[keys[0]] || config->is_auto[keys[1]]) {
            return CERO_OK; // listed with the others
        }
        return CERO_FAIL(CERO_ERR_INVALID,
                         "%s: train_batch_size or train_micro_batch_size_per_gpu must be given",
                         config->source);
    }
    *accum = has_accum ? *accum : has_train && has_micro ? *train / *micro / ranks : 1;
    *micro = has_micro ? *micro : *train / ranks / *accum;
    bool fits = cero_mul_i64(*micro, *accum, &product) && cero_mul_i64(product, ranks, &product);
    if (fits) {
        *train = has_train ? *train : product;
    }
    for (int i = 0; i < 3; i++) {
        if (!is_given(config, keys[i])) {
            config->origin[keys[i]] = CERO_ORIGIN_DERIVED;
            config->is_auto[keys[i]] = false;
        }
    }
    if (fits && *train == product && *micro > 0 && *accum > 0) {
        return CERO_OK;
    }
    char message[400];
    if (has_train && has_micro && has_accum) {
        (void)snprintf(
            message, sizeof(message),
            "%lld is not train_micro_batch_size_per_gpu %lld x gradient_accumulation_steps "
            "%lld x %lld data-parallel ranks = %lld",
            (long long)*train, (long long)*micro, (long long)*accum, (long long)ranks,
            fits ? (long long)product : -1LL);
    } else {
        int64_t part = has_micro ? *micro : has_accum ? *accum : 1;
        (void)snprintf(
            message, sizeof(message),
            "%lld does not divide by %s%lld x %lld data-parallel ranks = %lld (remainder "
            "%lld)",
            (long long)*train,
            has_micro   ? "the micro batch "
            : has_accum ? "the accumulation steps "
                        : "",
            (long long)part, (long long)ranks, (long long)(part * ranks),
            (long long)(*train % (part * ranks)));
    }
    return fail_key(config, keys[0], CERO_ERR_INVALID, message);
}

/* One error with all keys that are still "auto". */
static cero_status check_auto(const cero_train_config *config)
{
    int count;
    const cero_train_key *keys = cero_train_keys(&count);
    cero_text list = {0};
    const cero_json *first = NULL;

    for (int i = 0; i < count; i++) {
        bool is_batch = keys[i].section[0] == '\0' && keys[i].def == NULL;
        if (config->is_auto[i] && (is_batch || (keys[i].flags & CERO_TRAIN_NO_AUTO) != 0)) {
            char path[CERO_TRAIN_MAX_PATH];
            cero_text_printf(&list, "%s%s", first == NULL ? "" : ", ",
                             cero_train_path(keys[i].section, keys[i].name, path, sizeof(path)));
            first = first == NULL ? config->where[i] : first;
        }
    }
    cero_status st = CERO_OK;
    if (first != NULL) {
        st = CERO_JSON_FAIL(first, "still \"auto\", and nothing determines them: %s; give values",
                            list.data == NULL ? "" : list.data);
    }
    cero_text_cleanup(&list);
    return st;
}

/* As in DeepSpeed the profiler wants the times of phases; a value that was given stays. */
static void derive_reports(cero_train_config *config)
{
    cero_train_spec *spec = &config->values.spec;

    if (!param_given(config, "", "wall_clock_breakdown")) {
        spec->wall_clock_breakdown = spec->flops_profiler_enabled;
        if (spec->flops_profiler_enabled) {
            set_origin_derived(config, "", "wall_clock_breakdown");
        }
    }
}

cero_status cero_train_derive(cero_train_config *config)
{
    CERO_TRY(derive_precision(config));
    if (!config->is_auto[index_of("optimizer", "type")]) {
        CERO_TRY(find_optimizer(config));
    }
    if (!config->is_auto[index_of("scheduler", "type")]) {
        CERO_TRY(find_schedule(config));
    }
    CERO_TRY(check_applies(config));
    derive_optimizer(config);
    CERO_TRY(derive_schedule(config));
    CERO_TRY(derive_batch(config));
    derive_reports(config);
    CERO_TRY(check_auto(config));
    return CERO_OK;
}
