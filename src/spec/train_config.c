/* SPDX-License-Identifier: Apache-2.0 */
/* The config as its users see it: created from file and overrides, printed with the origins of values. */
#include "spec/train_impl.h"

#include "base/memory.h"

#include <stdio.h>
#include <string.h>

enum {
    MAX_CONFIG_BYTES = 16 << 20
};

static void destroy_documents(cero_train_config *config)
{
    for (int64_t i = 0; i < config->document_count; i++) {
        cero_json_destroy(&config->documents[i]);
    }
    cero_delete(config->documents);
    config->documents = NULL;
    config->document_count = 0;
    memset(config->where, 0, sizeof(config->where));
    config->source = NULL;
}

void cero_train_config_destroy(cero_train_config **config)
{
    if (config == NULL || *config == NULL) {
        return;
    }
    destroy_documents(*config);
    for (int64_t i = 0; i < (*config)->note_count; i++) {
        cero_delete((*config)->notes[i]);
    }
    cero_delete((*config)->notes);
    cero_delete(*config);
    *config = NULL;
}

/* Keeps a document until the config is complete: messages point into it. Takes it, also on error. */
static cero_status keep_document(cero_train_config *config, cero_json_document *document)
{
    void *array = config->documents;
    cero_status st = cero_grow(&array, config->document_count, &config->document_capacity,
                               sizeof(config->documents[0]));

    config->documents = array;
    if (st != CERO_OK) {
        cero_json_destroy(&document);
        return st;
    }
    config->documents[config->document_count++] = document;
    return CERO_OK;
}

static cero_status read_file(cero_train_config *config, const cero_train_config_params *params)
{
    cero_json_document *document = NULL;
    cero_json_options options = {.allow_comments = true};

    if (params->text != NULL) {
        CERO_TRY(cero_json_parse(config->source, params->text, params->text_length, &options,
                                 &document));
    } else {
        CERO_TRY(cero_json_read(params->path, &options, MAX_CONFIG_BYTES, &document));
    }
    CERO_TRY(keep_document(config, document));
    CERO_TRY(cero_train_parse_root(config, cero_json_root(document)));
    return CERO_OK;
}

/* The value as JSON, or as a string when it is none. */
static cero_status parse_override_value(const char *source, const char *text,
                                        cero_json_document **out)
{
    cero_status st = cero_json_parse(source, text, strlen(text), NULL, out);

    if (st != CERO_ERR_CORRUPT) {
        return st;
    }
    cero_text quoted = {0};
    cero_text_append_json_string(&quoted, text, strlen(text));
    st = cero_text_finish(&quoted);
    if (st == CERO_OK) {
        st = cero_json_parse(source, quoted.data, quoted.length, NULL, out);
    }
    cero_text_cleanup(&quoted);
    return st;
}

static cero_status apply_override(cero_train_config *config, const char *override)
{
    char source[CERO_TRAIN_MAX_PATH + 16];
    const char *equals = strchr(override, '=');
    cero_json_document *document = NULL;

    if (equals == NULL || equals == override || equals - override >= CERO_TRAIN_MAX_PATH) {
        return CERO_FAIL(CERO_ERR_INVALID, "--set %.80s: expected key.path=value", override);
    }
    (void)snprintf(source, sizeof(source), "--set %.*s", (int)(equals - override), override);
    CERO_TRY(parse_override_value(source, equals + 1, &document));
    CERO_TRY(keep_document(config, document));
    CERO_TRY(cero_train_parse_override(config, source + 6, cero_json_root(document)));
    return CERO_OK;
}

static cero_status create(const cero_train_config_params *params, cero_train_config *config)
{
    config->dp_size = params->dp_size == 0 ? 1 : params->dp_size;
    config->source = params->path == NULL ? "config" : params->path;
    if (config->dp_size < 1) {
        return CERO_FAIL(CERO_ERR_INVALID, "a config for %d data-parallel ranks", config->dp_size);
    }
    CERO_TRY(cero_train_set_defaults(config));
    if (params->path != NULL || params->text != NULL) {
        CERO_TRY(read_file(config, params));
    }
    for (int i = 0; i < params->override_count; i++) {
        CERO_TRY(apply_override(config, params->overrides[i]));
    }
    CERO_TRY(cero_train_derive(config));
    return CERO_OK;
}

cero_status cero_train_config_create(const cero_train_config_params *params,
                                     cero_train_config **out)
{
    static const cero_train_config_params defaults = {0};
    cero_status st = CERO_OK;
    cero_train_config *config = cero_new(1, sizeof(*config));

    if (config == NULL) {
        return CERO_FAIL(CERO_ERR_NOMEM, "no memory for a config");
    }
    CERO_TRY_GOTO(create(params == NULL ? &defaults : params, config), fail);
    destroy_documents(config);
    *out = config;
    return CERO_OK;

fail:
    cero_train_config_destroy(&config);
    return st;
}

const cero_train_spec *cero_train_config_spec(const cero_train_config *config)
{
    return &config->values.spec;
}

int cero_train_config_note_count(const cero_train_config *config)
{
    return cero_to_int(config->note_count);
}

const char *cero_train_config_note(const cero_train_config *config, int i)
{
    return i >= 0 && i < config->note_count ? config->notes[i] : NULL;
}

cero_origin cero_train_config_origin(const cero_train_config *config, const char *path)
{
    int count;
    const cero_train_key *keys = cero_train_keys(&count);

    for (int i = 0; i < count; i++) {
        char name[CERO_TRAIN_MAX_PATH];
        if (strcmp(cero_train_path(keys[i].section, keys[i].name, name, sizeof(name)), path) == 0) {
            return (cero_origin)config->origin[i];
        }
    }
    return CERO_ORIGIN_DEFAULT;
}

static void append_patterns(const cero_patterns *patterns, cero_text *out)
{
    cero_text_append(out, "[", 1);
    for (int i = 0; i < patterns->count; i++) {
        cero_text_printf(out, "%s", i == 0 ? "" : ", ");
        cero_text_append_json_string(out, patterns->pattern[i], strlen(patterns->pattern[i]));
    }
    cero_text_append(out, "]", 1);
}

void cero_train_append_value(const cero_train_values *values, int i, cero_text *out)
{
    int count;
    const cero_train_key *key = &cero_train_keys(&count)[i];
    const void *at = (const char *)values + key->offset;

    switch (key->type) {
    case CERO_TRAIN_INT:
        cero_text_printf(out, "%lld", (long long)*(const int64_t *)at);
        break;
    case CERO_TRAIN_SMALL:
        cero_text_printf(out, "%d", *(const int *)at);
        break;
    case CERO_TRAIN_SEED:
        cero_text_printf(out, "%llu", (unsigned long long)*(const uint64_t *)at);
        break;
    case CERO_TRAIN_REAL:
        cero_text_append_double(out, *(const double *)at);
        break;
    case CERO_TRAIN_BOOL:
        cero_text_printf(out, "%s", *(const bool *)at ? "true" : "false");
        break;
    case CERO_TRAIN_TEXT:
        cero_text_append_json_string(out, at, strlen(at));
        break;
    case CERO_TRAIN_WORD:
        cero_text_printf(out, "\"%s\"", key->words[*(const int *)at]);
        break;
    case CERO_TRAIN_BETAS:
        cero_text_append(out, "[", 1);
        cero_text_append_double(out, ((const double *)at)[0]);
        cero_text_append(out, ", ", 2);
        cero_text_append_double(out, ((const double *)at)[1]);
        cero_text_append(out, "]", 1);
        break;
    case CERO_TRAIN_PATTERNS:
        append_patterns(at, out);
        break;
    case CERO_TRAIN_TYPE_COUNT:
    default:
        cero_text_append(out, "null", 4);
        break;
    }
}

cero_status cero_train_config_write_json(const cero_train_config *config, cero_text *out)
{
    static const char *const origins[] = {"default", "file", "derived", "command"};
    int count;
    const cero_train_key *keys = cero_train_keys(&count);
    bool is_first = true;

    cero_text_append(out, "{", 1);
    for (int i = 0; i < count; i++) {
        char path[CERO_TRAIN_MAX_PATH];
        if (!cero_train_key_applies(config, i)) {
            continue;
        }
        cero_text_printf(out, "%s\n  \"%s\": {\"value\": ", is_first ? "" : ",",
                         cero_train_path(keys[i].section, keys[i].name, path, sizeof(path)));
        cero_train_append_value(&config->values, i, out);
        cero_text_printf(out, ", \"origin\": \"%s\"}", origins[config->origin[i]]);
        is_first = false;
    }
    cero_text_printf(out, "\n}\n");
    CERO_TRY(cero_text_finish(out));
    return CERO_OK;
}

bool cero_patterns_match(const cero_patterns *patterns, const char *name)
{
    for (int i = 0; patterns != NULL && i < patterns->count; i++) {
        if (cero_text_match(patterns->pattern[i], name)) {
            return true;
        }
    }
    return false;
}
