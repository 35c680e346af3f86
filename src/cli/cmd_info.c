/* SPDX-License-Identifier: Apache-2.0 */
/* `cero info`: what this build and this machine are, and the environment variables that matter. */
#include "base/memory.h"
#include "cli/cli.h"
#include "cli/environment.h"
#include "engine/bench.h"
#include "spec/train.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct info_values {
    bool json;
    bool config_docs;
} info_values;

static const cero_option options[] = {
    {.name = "json",
     .kind = CERO_OPTION_FLAG,
     .offset = offsetof(info_values, json),
     .help = "one JSON object"},
    {.name = "config-docs",
     .kind = CERO_OPTION_FLAG,
     .offset = offsetof(info_values, config_docs),
     .help = "every key of a config, as Markdown: docs/config.md"},
    {0},
};

/* A line of the report. */
typedef struct fact {
    const char *key;
    char value[256];
} fact;

typedef struct variable {
    const char *name;
    const char *meaning;
} variable;

#define CERO_VARIABLE_ROW(name_, meaning_) {.name = (name_), .meaning = (meaning_)},
static const variable variables[] = {CERO_ENVIRONMENT_LIST(CERO_VARIABLE_ROW)};
#undef CERO_VARIABLE_ROW

enum {
    MAX_FACTS = 16
};

static void add_fact(fact *facts, int *count, const char *key, const char *value)
{
    CERO_ASSERT(*count < MAX_FACTS);
    facts[*count].key = key;
    (void)snprintf(facts[*count].value, sizeof(facts[*count].value), "%s", value);
    (*count)++;
}

static cero_status collect(fact *facts, int *out)
{
    cero_engine_machine machine;
    char text[64];
    int count = 0;

    add_fact(facts, &count, "version", cero_version());
#if defined(__clang__)
    add_fact(facts, &count, "compiler", "clang " __clang_version__);
#else
    add_fact(facts, &count, "compiler", "gcc " __VERSION__);
#endif
    (void)snprintf(text, sizeof(text), "%ld", sysconf(_SC_NPROCESSORS_ONLN));
    add_fact(facts, &count, "cores", text);
    double memory = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGE_SIZE);
    char bytes[32];
    add_fact(facts, &count, "memory", cero_text_bytes(memory, bytes, sizeof(bytes)));
    CERO_TRY(cero_engine_machine_describe(0, &machine));
    (void)snprintf(text, sizeof(text), "%d", machine.threads);
    add_fact(facts, &count, "threads", text);
    add_fact(facts, &count, "kernels", machine.isa);
    add_fact(facts, &count, "products", machine.matmul_library);
    add_fact(facts, &count, "mpi", cero_engine_mpi_library());
    *out = count;
    return CERO_OK;
}

static void write_json(const fact *facts, int count, cero_text *out)
{
    cero_text_printf(out, "{");
    for (int i = 0; i < count; i++) {
        cero_text_printf(out, "\"%s\": ", facts[i].key);
        cero_text_append_json_string(out, facts[i].value, strlen(facts[i].value));
        cero_text_printf(out, ", ");
    }
    cero_text_printf(out, "\"environment\": {");
    for (size_t i = 0; i < CERO_COUNT_OF(variables); i++) {
        const char *value = getenv(variables[i].name);
        cero_text_printf(out, "%s\"%s\": ", i == 0 ? "" : ", ", variables[i].name);
        if (value == NULL) {
            cero_text_printf(out, "null");
        } else {
            cero_text_append_json_string(out, value, strlen(value));
        }
    }
    cero_text_printf(out, "}}\n");
}

static void write_lines(const fact *facts, int count, cero_text *out)
{
    for (int i = 0; i < count; i++) {
        cero_text_printf(out, "%-16s %s\n", facts[i].key, facts[i].value);
    }
    cero_text_printf(out, "\nenvironment variables, for debugging:\n");
    for (size_t i = 0; i < CERO_COUNT_OF(variables); i++) {
        const char *value = getenv(variables[i].name);
        cero_text_printf(out, "  %-16s %-10s %s\n", variables[i].name,
                         value != NULL ? value : "(unset)", variables[i].meaning);
    }
}

static cero_status write_report(cero_cli *cli, bool is_json, cero_text *out)
{
    fact facts[MAX_FACTS];
    int count = 0;

    // What can be wrong here is CERO_ISA.
    cero_cli_at(cli, CERO_CLI_USAGE, NULL);
    CERO_TRY(collect(facts, &count));
    cero_cli_at(cli, CERO_CLI_WORKING, NULL);
    if (is_json) {
        write_json(facts, count, out);
    } else {
        write_lines(facts, count, out);
    }
    return CERO_OK;
}

static cero_status run(cero_cli *cli, void *values)
{
    const info_values *v = values;
    cero_text text = {0};
    cero_status st =
        v->config_docs ? cero_train_config_write_docs(&text) : write_report(cli, v->json, &text);

    if (st == CERO_OK) {
        st = cero_cli_print(&text);
    }
    cero_text_cleanup(&text);
    return st;
}

const cero_command cero_command_info = {
    .name = "info",
    .summary = "Shows this build, this machine and the environment variables that matter",
    .usage = "[--json | --config-docs]",
    .options = options,
    .values_size = sizeof(info_values),
    .run = run,
};
