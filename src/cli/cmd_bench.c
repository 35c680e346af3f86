/* SPDX-License-Identifier: Apache-2.0 */
/* `cero bench`: what this machine reaches, in the units that a training step is measured against. */
#include "cli/cli.h"
#include "engine/bench.h"

#include <stdio.h>
#include <string.h>

typedef struct bench_values {
    bool json;
    int dtype; /* index into dtypes */
    int64_t threads;
    double seconds;
    int64_t m;
    int64_t n;
    int64_t k;
    const char *model;
    int64_t micro_batch;
    int64_t seq_len;
    int64_t steps;
    cero_words what;
} bench_values;

static const cero_dtype dtypes[] = {CERO_DTYPE_F32, CERO_DTYPE_BF16, CERO_DTYPE_F16};

static const cero_option options[] = {
    {.name = "json",
     .kind = CERO_OPTION_FLAG,
     .offset = offsetof(bench_values, json),
     .help = "one JSON object a line"},
    {.name = "dtype",
     .kind = CERO_OPTION_CHOICE,
     .offset = offsetof(bench_values, dtype),
     .value = "TYPE",
     .choices = "f32|bf16|f16",
     .help = "f32, bf16 (default) or f16"},
    {.name = "threads",
     .kind = CERO_OPTION_INT,
     .offset = offsetof(bench_values, threads),
     .value = "N",
     .min = 1,
     .max = 4096,
     .help = "default: the cores this process may use"},
    {.name = "seconds",
     .kind = CERO_OPTION_REAL,
     .offset = offsetof(bench_values, seconds),
     .value = "S",
     .min = 0.001,
     .max = 3600,
     .help = "about how long one measurement takes (default: 1)"},
    {.name = "m",
     .kind = CERO_OPTION_INT,
     .offset = offsetof(bench_values, m),
     .value = "M",
     .min = 1,
     .max = 1 << 30,
     .help = "gemm: rows of this one product instead of GPT-2's"},
    {.name = "n",
     .kind = CERO_OPTION_INT,
     .offset = offsetof(bench_values, n),
     .value = "N",
     .min = 1,
     .max = 1 << 30,
     .help = "gemm: columns; memory and adamw: elements"},
    {.name = "k",
     .kind = CERO_OPTION_INT,
     .offset = offsetof(bench_values, k),
     .value = "K",
     .min = 1,
     .max = 1 << 30,
     .help = "gemm: length of the sums"},
    {.name = "model",
     .kind = CERO_OPTION_TEXT,
     .offset = offsetof(bench_values, model),
     .value = "DIR|NAME",
     .help = "step: the model (default: gpt2)"},
    {.name = "micro-batch",
     .kind = CERO_OPTION_INT,
     .offset = offsetof(bench_values, micro_batch),
     .value = "B",
     .min = 1,
     .max = 1 << 20,
     .help = "step: sequences (default: 4)"},
    {.name = "seq-len",
     .kind = CERO_OPTION_INT,
     .offset = offsetof(bench_values, seq_len),
     .value = "T",
     .min = 1,
     .max = 1 << 20,
     .help = "step: positions (default: 256)"},
    {.name = "steps",
     .kind = CERO_OPTION_INT,
     .offset = offsetof(bench_values, steps),
     .value = "N",
     .min = 1,
     .max = 101,
     .help = "step: how many are measured (default: 5)"},
    {0},
};

/* One line of the result. */
typedef struct result {
    const char *bench;
    const char *detail;
    const char *key; /* of the rate in JSON */
    double rate;
    double scale; /* shown = rate / scale */
    const char *unit;
} result;

static cero_status print_result(const bench_values *v, const result *r)
{
    cero_text text = {0};

    if (v->json) {
        cero_text_printf(&text, "{\"bench\": \"%s\", \"detail\": ", r->bench);
        cero_text_append_json_string(&text, r->detail, strlen(r->detail));
        cero_text_printf(&text, ", \"%s\": ", r->key);
        cero_text_append_double(&text, r->rate);
        cero_text_printf(&text, "}\n");
    } else {
        cero_text_printf(&text, "%-10s %-36s %10.2f %s\n", r->bench, r->detail, r->rate / r->scale,
                         r->unit);
    }
    cero_status st = cero_cli_print(&text);
    cero_text_cleanup(&text);
    return st;
}

typedef struct product {
    int64_t m;
    int64_t n;
    int64_t k;
} product;

static cero_status bench_gemm(const bench_values *v, const cero_engine_bench_params *params)
{
    // The layers of GPT-2 124M at 1024 positions: q|k|v, projection, feed-forward up and down.
    static const product gpt2[] = {
        {1024, 2304, 768}, {1024, 768, 768}, {1024, 3072, 768}, {1024, 768, 3072}};
    product own = {.m = v->m, .n = v->n, .k = v->k};
    bool is_own = v->m > 0 || v->n > 0 || v->k > 0;
    const product *list = is_own ? &own : gpt2;
    size_t count = is_own ? 1 : CERO_COUNT_OF(gpt2);

    CERO_CHECK(!is_own || (v->m > 0 && v->n > 0 && v->k > 0), CERO_ERR_INVALID,
               "--m, --n and --k go together");
    for (size_t i = 0; i < count; i++) {
        char detail[64];
        double rate = 0;
        CERO_TRY(cero_engine_bench_gemm(params, list[i].m, list[i].n, list[i].k, &rate));
        (void)snprintf(detail, sizeof(detail), "%s %lld x %lld x %lld",
                       cero_dtype_name(params->dtype), (long long)list[i].m, (long long)list[i].n,
                       (long long)list[i].k);
        CERO_TRY(print_result(v, &(result){.bench = "gemm",
                                           .detail = detail,
                                           .key = "flops_per_second",
                                           .rate = rate,
                                           .scale = 1e9,
                                           .unit = "GFLOP/s"}));
    }
    return CERO_OK;
}

static cero_status bench_memory(const bench_values *v, const cero_engine_bench_params *params)
{
    int64_t n = v->n > 0 ? v->n : (int64_t)32 << 20;
    char detail[64];
    double rate = 0;

    CERO_TRY(cero_engine_bench_memory(params, n, &rate));
    (void)snprintf(detail, sizeof(detail), "triad of %lld floats", (long long)n);
    return print_result(v, &(result){.bench = "memory",
                                     .detail = detail,
                                     .key = "bytes_per_second",
                                     .rate = rate,
                                     .scale = 1e9,
                                     .unit = "GB/s"});
}

static cero_status bench_adamw(const bench_values *v, const cero_engine_bench_params *params)
{
    int64_t n = v->n > 0 ? v->n : (int64_t)16 << 20;
    char detail[64];
    double rate = 0;

    CERO_TRY(cero_engine_bench_adamw(params, n, &rate));
    (void)snprintf(detail, sizeof(detail), "%s, %lld parameters", cero_dtype_name(params->dtype),
                   (long long)n);
    return print_result(v, &(result){.bench = "adamw",
                                     .detail = detail,
                                     .key = "params_per_second",
                                     .rate = rate,
                                     .scale = 1e6,
                                     .unit = "M params/s"});
}

static cero_status bench_head(const bench_values *v, const cero_engine_bench_params *params)
{
    double rate = 0;

    CERO_TRY(cero_engine_bench_head_loss(params, 1024, 768, 50257, &rate));
    return print_result(v, &(result){.bench = "head",
                                     .detail = "loss and gradients, 768 to 50257",
                                     .key = "rows_per_second",
                                     .rate = rate,
                                     .scale = 1e3,
                                     .unit = "k rows/s"});
}

static cero_status print_attention(const bench_values *v, const cero_engine_bench_params *params,
                                   const product *shape, const char *way, double rate)
{
    char detail[64];

    (void)snprintf(detail, sizeof(detail), "%s %s, %lld x %lld", cero_dtype_name(params->dtype),
                   way, (long long)shape->m, (long long)shape->n);
    return print_result(v, &(result){.bench = "attention",
                                     .detail = detail,
                                     .key = "flops_per_second",
                                     .rate = rate,
                                     .scale = 1e9,
                                     .unit = "GFLOP/s"});
}

static cero_status bench_attention(const bench_values *v, const cero_engine_bench_params *params)
{
    // batch x positions
    static const product shapes[] = {{.m = 4, .n = 256}, {.m = 1, .n = 1024}};

    for (size_t i = 0; i < CERO_COUNT_OF(shapes); i++) {
        double forward = 0;
        double backward = 0;
        CERO_TRY(
            cero_engine_bench_attention(params, shapes[i].m, shapes[i].n, &forward, &backward));
        CERO_TRY(print_attention(v, params, &shapes[i], "forward", forward));
        CERO_TRY(print_attention(v, params, &shapes[i], "backward", backward));
    }
    return CERO_OK;
}

/* A line of numbers that are no rates of one operation. */
static cero_status print_step(const bench_values *v, const char *detail,
                              const cero_engine_bench_step_result *r)
{
    cero_text text = {0};

    if (v->json) {
        const struct {
            const char *key;
            double value;
        } numbers[] = {
            {"step_seconds", r->step_seconds},
            {"update_seconds", r->update_seconds},
            {"tokens_per_second", r->tokens_per_second},
            {"model_flops_per_second", r->model_flops_per_second},
            {"gemm_flops_per_second", r->gemm_flops_per_second},
            {"ratio", r->ratio},
            {"ratio_min", r->ratio_min},
            {"ratio_max", r->ratio_max},
        };
        cero_text_printf(&text, "{\"bench\": \"step\", \"detail\": ");
        cero_text_append_json_string(&text, detail, strlen(detail));
        for (size_t i = 0; i < CERO_COUNT_OF(numbers); i++) {
            cero_text_printf(&text, ", \"%s\": ", numbers[i].key);
            cero_text_append_double(&text, numbers[i].value);
        }
        cero_text_printf(&text, "}\n");
    } else {
        cero_text_printf(&text,
                         "%-10s %-36s %10.2f GFLOP/s, %.1f tokens/s, %.3f s (update %.3f s), "
                         "%.1f%% of gemm's %.2f GFLOP/s (%.1f .. %.1f%%)\n",
                         "step", detail, r->model_flops_per_second * 1e-9, r->tokens_per_second,
                         r->step_seconds, r->update_seconds, 100 * r->ratio,
                         r->gemm_flops_per_second * 1e-9, 100 * r->ratio_min, 100 * r->ratio_max);
    }
    cero_status st = cero_cli_print(&text);
    cero_text_cleanup(&text);
    return st;
}

static cero_status bench_step(const bench_values *v, const cero_engine_bench_params *params)
{
    cero_model_spec model;
    char detail[160];
    cero_engine_bench_step_result measured;
    cero_engine_bench_step_params step = {
        .model = &model,
        .micro_batch = v->micro_batch > 0 ? v->micro_batch : 4,
        .seq_len = v->seq_len > 0 ? v->seq_len : 256,
        .steps = v->steps,
    };

    CERO_TRY(cero_model_spec_resolve(v->model != NULL ? v->model : "gpt2", &model));
    CERO_TRY(cero_engine_bench_step(params, &step, &measured));
    (void)snprintf(detail, sizeof(detail), "%s %s, %lld x %lld tokens", model.name,
                   cero_dtype_name(params->dtype), (long long)step.micro_batch,
                   (long long)step.seq_len);
    return print_step(v, detail, &measured);
}

static const struct {
    const char *name;
    cero_status (*run)(const bench_values *v, const cero_engine_bench_params *params);
} benches[] = {
    {"gemm", bench_gemm},           {"memory", bench_memory}, {"adamw", bench_adamw},
    {"attention", bench_attention}, {"head", bench_head},     {"step", bench_step},
};

static const char *bench_name_at(const void *context, int i)
{
    CERO_UNUSED(context);
    return i < (int)CERO_COUNT_OF(benches) ? benches[i].name : NULL;
}

static cero_status find_bench(const char *name, size_t *index)
{
    for (size_t i = 0; i < CERO_COUNT_OF(benches); i++) {
        if (strcmp(benches[i].name, name) == 0) {
            *index = i;
            return CERO_OK;
        }
    }
    const char *nearest = cero_text_nearest(name, bench_name_at, NULL);
    return CERO_FAIL(CERO_ERR_INVALID,
                     "there is no bench '%s'%s%s; there are gemm, memory, adamw, "
                     "attention, head, step",
                     name, nearest != NULL ? "; did you mean " : "",
                     nearest != NULL ? nearest : "");
}

static void set_defaults(void *values)
{
    bench_values *v = values;

    v->dtype = 1;
}

static cero_status run(cero_cli *cli, void *values)
{
    const bench_values *v = values;
    cero_engine_bench_params params = {
        .threads = cero_to_int(v->threads), .dtype = dtypes[v->dtype], .seconds = v->seconds};

    for (int i = 0; i < v->what.count; i++) {
        size_t index = 0;
        cero_cli_at(cli, CERO_CLI_USAGE, NULL);
        CERO_TRY(find_bench(v->what.word[i], &index));
    }
    for (int i = 0; i < v->what.count; i++) {
        size_t index = 0;
        CERO_TRY(find_bench(v->what.word[i], &index));
        CERO_TRY(benches[index].run(v, &params));
    }
    return CERO_OK;
}

const cero_command cero_command_bench = {
    .name = "bench",
    .summary = "Measures what this machine reaches",
    .usage = "[--dtype TYPE] [--threads N] [--seconds S] gemm|memory|adamw|attention|head|step…",
    .details = "gemm       products of GPT-2's layers, or of --m, --n, --k\n"
               "memory     the triad a = b + s * c: what the memory gives\n"
               "adamw      the update, with gradients and compute copies in --dtype\n"
               "attention  causal attention of GPT-2's heads, forward and backward\n"
               "head       the language-model head with loss and gradients\n"
               "step       a whole training step, and its share of the product rate",
    .options = options,
    .operands = {.name = "BENCH…", .min = 1, .offset = offsetof(bench_values, what)},
    .values_size = sizeof(bench_values),
    .set_defaults = set_defaults,
    .run = run,
};
