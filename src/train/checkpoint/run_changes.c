/* SPDX-License-Identifier: Apache-2.0 */
/* What run_state.h compares and hands on as JSON: the effective config of two runs, and a line of metrics. */
#include "train/checkpoint/run_state.h"

#include <string.h>

/* Keys, by how they begin, that no later step depends on. */
static const char *const harmless[] = {
    "checkpoint.",     "comms_logger.",        "csv_monitor.",         "flops_profiler.",
    "tensorboard.",    "cero.memory_budget",   "cero.timeout_seconds", "dump_state",
    "steps_per_print", "wall_clock_breakdown",
};

/* The value of a key of an effective config, as text; "unset" when it has none. */
static cero_status append_setting(const cero_json *config, const char *key, cero_text *out)
{
    const cero_json *entry = config != NULL ? cero_json_find(config, key) : NULL;
    const cero_json *value = entry != NULL ? cero_json_find(entry, "value") : NULL;

    if (value != NULL) {
        return cero_json_write(value, false, out);
    }
    cero_text_append(out, "unset", 5);
    return cero_text_finish(out);
}

static cero_status parse_config(const cero_train_config *config, cero_json_document **out)
{
    cero_text text = {0};
    cero_status st = cero_train_config_write_json(config, &text);

    if (st == CERO_OK) {
        st = cero_json_parse("the config", text.data, text.length, NULL, out);
    }
    cero_text_cleanup(&text);
    return st;
}

static bool is_harmless(const char *key)
{
    for (size_t i = 0; i < CERO_COUNT_OF(harmless); i++) {
        if (strncmp(key, harmless[i], strlen(harmless[i])) == 0) {
            return true;
        }
    }
    return false;
}

/* Both values of a key, and whether they differ. */
static cero_status compare(const cero_json *before, const cero_json *now, const char *key,
                           cero_text texts[2], bool *differs)
{
    texts[0].length = 0;
    texts[1].length = 0;
    CERO_TRY(append_setting(before, key, &texts[0]));
    CERO_TRY(append_setting(now, key, &texts[1]));
    *differs = texts[0].length != texts[1].length ||
               memcmp(texts[0].data, texts[1].data, texts[0].length) != 0;
    return CERO_OK;
}

cero_status cero_run_state_check_optimizer(const cero_manifest *manifest,
                                           const cero_train_config *config)
{
    const cero_json *before = cero_manifest_section_find(manifest, "config");
    cero_json_document *now = NULL;
    cero_text texts[2] = {{0}, {0}};
    bool is_other = false;

    CERO_TRY(parse_config(config, &now));
    cero_status st = before != NULL
                         ? compare(before, cero_json_root(now), "optimizer.type", texts, &is_other)
                         : CERO_OK;
    if (st == CERO_OK && is_other) {
        st = CERO_FAIL(CERO_ERR_INVALID,
                       "the optimizer was %s, now %s, whose moments the checkpoint does not have; "
                       "--resume-without optimizer keeps weights, step and position in the data, "
                       "and begins with moments of zero",
                       texts[0].data, texts[1].data);
    }
    cero_text_cleanup(&texts[0]);
    cero_text_cleanup(&texts[1]);
    cero_json_destroy(&now);
    return st;
}

/* A line for a key whose value is another one. */
static cero_status append_change(const cero_json *before, const cero_json *now, const char *key,
                                 cero_text *out)
{
    cero_text texts[2] = {{0}, {0}};
    bool differs = false;
    cero_status st = compare(before, now, key, texts, &differs);

    if (st == CERO_OK && differs) {
        cero_text_printf(out, "resume: %s was %s, now %s\n", key, texts[0].data, texts[1].data);
    }
    cero_text_cleanup(&texts[0]);
    cero_text_cleanup(&texts[1]);
    return st;
}

static cero_status append_changes(const cero_json *before, const cero_json *now, cero_text *out)
{
    for (const cero_json *k = before->child; k != NULL; k = k->next) {
        CERO_TRY(is_harmless(k->key) ? CERO_OK : append_change(before, now, k->key, out));
    }
    for (const cero_json *k = now->child; k != NULL; k = k->next) {
        bool is_new = cero_json_find(before, k->key) == NULL && !is_harmless(k->key);
        CERO_TRY(is_new ? append_change(before, now, k->key, out) : CERO_OK);
    }
    return cero_text_finish(out);
}

cero_status cero_run_state_write_changes(const cero_manifest *manifest,
                                         const cero_train_config *config, cero_text *out)
{
    const cero_json *before = cero_manifest_section_find(manifest, "config");
    cero_json_document *now = NULL;

    if (before == NULL || before->type != CERO_JSON_OBJECT) {
        return CERO_OK;
    }
    CERO_TRY(parse_config(config, &now));
    cero_status st = append_changes(before, cero_json_root(now), out);
    cero_json_destroy(&now);
    return st;
}

cero_status cero_run_state_write_line(const cero_manifest *manifest, cero_text *out)
{
    const cero_json *line = cero_manifest_section_find(manifest, "metrics");

    if (line == NULL || line->type != CERO_JSON_OBJECT || line->child == NULL) {
        return CERO_OK;
    }
    CERO_TRY(cero_json_write(line, false, out));
    // What could not be known before the checkpoint was there.
    out->length--;
    cero_text_printf(out, ",\"saved_step\":%lld}", (long long)manifest->step);
    return cero_text_finish(out);
}

static int64_t find_count(const cero_json *line, const char *key)
{
    const cero_json *value = line != NULL ? cero_json_find(line, key) : NULL;
    int64_t count = 0;
    bool is_good = value != NULL && value->type == CERO_JSON_NUMBER &&
                   cero_json_int(value, &count) == CERO_OK && count >= 0;

    return is_good ? count : 0;
}

void cero_run_state_find_counts(const cero_manifest *manifest, int64_t *applied, int64_t *skipped)
{
    const cero_json *line = cero_manifest_section_find(manifest, "metrics");

    *applied = find_count(line, "applied");
    *skipped = find_count(line, "skipped");
}
