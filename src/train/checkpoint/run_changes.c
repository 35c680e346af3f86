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

/* A value as it was written, numbers digit by digit. */
static void append_value(const cero_json *value, cero_text *out)
{
    bool is_object = value->type == CERO_JSON_OBJECT;

    switch (value->type) {
    case CERO_JSON_BOOL:
        cero_text_printf(out, "%s", value->boolean ? "true" : "false");
        break;
    case CERO_JSON_NUMBER:
        cero_text_append(out, value->text, value->text_length);
        break;
    case CERO_JSON_STRING:
        cero_text_append_json_string(out, value->text, value->text_length);
        break;
    case CERO_JSON_ARRAY:
    case CERO_JSON_OBJECT:
        cero_text_append(out, is_object ? "{" : "[", 1);
        for (const cero_json *v = value->child; v != NULL; v = v->next) {
            if (is_object) {
                cero_text_append_json_string(out, v->key, strlen(v->key));
                cero_text_append(out, ":", 1);
            }
            append_value(v, out);
            cero_text_append(out, ",", v->next != NULL ? 1 : 0);
        }
        cero_text_append(out, is_object ? "}" : "]", 1);
        break;
    case CERO_JSON_NULL:
    case CERO_JSON_COUNT:
        cero_text_append(out, "null", 4);
        break;
    }
}

/* The value of a key of an effective config, as text; "unset" when it has none. */
static void append_setting(const cero_json *config, const char *key, cero_text *out)
{
    const cero_json *entry = config != NULL ? cero_json_find(config, key) : NULL;
    const cero_json *value = entry != NULL ? cero_json_find(entry, "value") : NULL;

    if (value != NULL) {
        append_value(value, out);
    } else {
        cero_text_append(out, "unset", 5);
    }
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

/* Both values of a key; true when they differ. */
static bool differs(const cero_json *before, const cero_json *now, const char *key,
                    cero_text texts[2])
{
    texts[0].length = 0;
    texts[1].length = 0;
    append_setting(before, key, &texts[0]);
    append_setting(now, key, &texts[1]);
    if (texts[0].has_failed || texts[1].has_failed) {
        return false; // the caller sees that memory ran out
    }
    return texts[0].length != texts[1].length ||
           memcmp(texts[0].data, texts[1].data, texts[0].length) != 0;
}

cero_status cero_run_state_check_optimizer(const cero_manifest *manifest,
                                           const cero_train_config *config)
{
    const cero_json *before = cero_manifest_section_find(manifest, "config");
    cero_json_document *now = NULL;
    cero_text texts[2] = {{0}, {0}};

    CERO_TRY(parse_config(config, &now));
    bool is_other =
        before != NULL && differs(before, cero_json_root(now), "optimizer.type", texts);
    cero_status st = cero_text_finish(&texts[0]);
    st = st == CERO_OK ? cero_text_finish(&texts[1]) : st;
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

/* Lines for keys of `keys`; with `is_rest` for those alone that `before` has not. */
static void append_changes(const cero_json *keys, const cero_json *before, const cero_json *now,
                           bool is_rest, cero_text *out)
{
    cero_text texts[2] = {{0}, {0}};

    for (const cero_json *k = keys->child; k != NULL; k = k->next) {
        bool is_wanted = !is_harmless(k->key) && !(is_rest && cero_json_find(before, k->key));
        if (is_wanted && differs(before, now, k->key, texts)) {
            cero_text_printf(out, "resume: %s was %s, now %s\n", k->key, texts[0].data,
                             texts[1].data);
        }
    }
    out->has_failed = out->has_failed || texts[0].has_failed || texts[1].has_failed;
    cero_text_cleanup(&texts[0]);
    cero_text_cleanup(&texts[1]);
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
    append_changes(before, before, cero_json_root(now), false, out);
    append_changes(cero_json_root(now), before, cero_json_root(now), true, out);
    cero_json_destroy(&now);
    return cero_text_finish(out);
}

cero_status cero_run_state_write_line(const cero_manifest *manifest, cero_text *out)
{
    const cero_json *line = cero_manifest_section_find(manifest, "metrics");

    if (line == NULL || line->type != CERO_JSON_OBJECT || line->child == NULL) {
        return CERO_OK;
    }
    append_value(line, out);
    CERO_TRY(cero_text_finish(out));
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
