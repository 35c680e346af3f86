/* SPDX-License-Identifier: Apache-2.0 */
/* The files of an export that hold no weights: config.json and its like, the tokenizer's, the index of shards. */
#include "ckpt/hf_export_impl.h"

#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "base/memory.h"
#include "ckpt/shards.h"
#include "spec/model_fields.h"

#include <stdio.h>
#include <string.h>

enum {
    MAX_CONFIG = 16 * 1024 * 1024 /* bytes */
};

#define CONFIG_END        "\n}\n" /* how cero_model_spec_write_json ends */
#define GENERATION_CONFIG "generation_config.json"

/* What belongs to the text side of a model; the last is written anew where there is none. */
static const char *const tokenizer_files[] = {
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "merges.txt",
    "tokenizer.model",
    "chat_template.jinja",
    GENERATION_CONFIG,
};

cero_status cero_hf_export_measure_text(cero_hf_exporter *e)
{
    const char *dir = e->params->tokenizer_dir;
    int found = 0; // of the tokenizer itself

    for (size_t i = 0; dir != NULL && i < CERO_COUNT_OF(tokenizer_files); i++) {
        int64_t nbytes = 0;
        char *path = cero_file_join(dir, tokenizer_files[i]);
        if (path == NULL) {
            return CERO_FAIL(CERO_ERR_NOMEM, "no memory to copy the tokenizer of %s", dir);
        }
        found += cero_file_stat(path, &nbytes) == CERO_FILE_REGULAR &&
                 strcmp(tokenizer_files[i], GENERATION_CONFIG) != 0;
        e->file_bytes += nbytes;
        cero_delete(path);
    }
    if (dir != NULL && found == 0) {
        return CERO_FAIL(CERO_ERR_IO, "%s holds no file of a tokenizer (%s, %s, ...)", dir,
                         tokenizer_files[0], tokenizer_files[4]);
    }
    return CERO_OK;
}

/* A file of the staging folder that will be published. */
static cero_status stage_file(cero_hf_exporter *e, const char *name, const void *bytes,
                              size_t length)
{
    cero_status st = CERO_OK;
    char *path = cero_file_join(cero_staging_path(e->staging), name);

    if (path == NULL) {
        return CERO_FAIL(CERO_ERR_NOMEM, "no memory to write %s", name);
    }
    CERO_TRY_GOTO(cero_file_write(path, bytes, length), out);
    CERO_TRY_GOTO(cero_staging_add(e->staging, name), out);

out:
    cero_delete(path);
    return st;
}

/* Stages the text, whatever became of it, and frees it. */
static cero_status stage_text(cero_hf_exporter *e, const char *name, cero_text *text)
{
    cero_status st = cero_text_finish(text);

    if (st == CERO_OK) {
        st = stage_file(e, name, text->data, text->length);
    }
    cero_text_cleanup(text);
    return st;
}

cero_status cero_hf_export_stage_tokenizer(cero_hf_exporter *e)
{
    for (size_t i = 0; e->params->tokenizer_dir != NULL && i < CERO_COUNT_OF(tokenizer_files);
         i++) {
        cero_file_map map;
        char *path = cero_file_join(e->params->tokenizer_dir, tokenizer_files[i]);
        if (path == NULL) {
            return CERO_FAIL(CERO_ERR_NOMEM, "no memory to copy %s", tokenizer_files[i]);
        }
        cero_status st = CERO_OK;
        if (cero_file_stat(path, NULL) == CERO_FILE_REGULAR) {
            st = cero_file_map_open(path, &map);
            if (st == CERO_OK) {
                e->has_generation_config =
                    e->has_generation_config || strcmp(tokenizer_files[i], GENERATION_CONFIG) == 0;
                st = stage_file(e, tokenizer_files[i], map.data, map.length);
                cero_file_map_close(&map);
            }
        }
        cero_delete(path);
        CERO_TRY(st);
    }
    return CERO_OK;
}

cero_status cero_hf_export_stage_generation_config(cero_hf_exporter *e)
{
    const cero_model_spec *spec = e->params->spec;
    cero_text generation = {0};

    if (e->has_generation_config) {
        return CERO_OK;
    }
    cero_text_printf(&generation, "{\n  \"_from_model_config\": true");
    if (spec->bos_token_id >= 0) {
        cero_text_printf(&generation, ",\n  \"bos_token_id\": %lld", (long long)spec->bos_token_id);
    }
    for (int i = 0; i < spec->eos_count; i++) {
        cero_text_printf(&generation, "%s%lld",
                         i > 0                 ? ", "
                         : spec->eos_count > 1 ? ",\n  \"eos_token_id\": ["
                                               : ",\n  \"eos_token_id\": ",
                         (long long)spec->eos_token_id[i]);
    }
    cero_text_printf(&generation, "%s\n}\n", spec->eos_count > 1 ? "]" : "");
    return stage_text(e, GENERATION_CONFIG, &generation);
}

static bool is_ignorable(const char *key)
{
    for (size_t i = 0; cero_model_ignorable_field(i) != NULL; i++) {
        if (strcmp(cero_model_ignorable_field(i), key) == 0) {
            return true;
        }
    }
    return false;
}

/* True for a field that says something of the files it came with, or that the text has already. */
static bool stays_behind(const cero_text *config, const char *key)
{
    static const char *const others[] = {"_name_or_path", "_commit_hash", "transformers_version"};
    char written[128];

    for (size_t i = 0; i < CERO_COUNT_OF(others); i++) {
        if (strcmp(others[i], key) == 0) {
            return true;
        }
    }
    (void)snprintf(written, sizeof(written), "\n  \"%s\": ", key);
    return strstr(config->data, written) != NULL;
}

/* Appends the fields of the model that came in that change no arithmetic. A file that is gone by now is no error. */
static cero_status carry_fields(const cero_hf_exporter *e, cero_text *config)
{
    cero_json_document *document = NULL;

    if (e->params->config_from == NULL) {
        return CERO_OK;
    }
    if (cero_json_read(e->params->config_from, NULL, MAX_CONFIG, &document) != CERO_OK) {
        cero_log(CERO_LOG_WARN, "ckpt", "config.json of %s is without fields of %s: %s", e->dir,
                 e->params->config_from, cero_error_message());
        return CERO_OK;
    }
    config->length -= strlen(CONFIG_END); // written anew behind the fields
    config->data[config->length] = '\0';
    for (const cero_json *v = cero_json_root(document)->child; v != NULL; v = v->next) {
        if (v->key != NULL && is_ignorable(v->key) && !stays_behind(config, v->key)) {
            cero_text_printf(config, ",\n  \"%s\": ", v->key);
            if (cero_json_write(v, false, config) != CERO_OK) {
                break; // told by cero_text_finish
            }
        }
    }
    cero_text_printf(config, CONFIG_END);
    cero_json_destroy(&document);
    return cero_text_finish(config);
}

/* Staged last: without it the directory is no model. */
cero_status cero_hf_export_stage_config(cero_hf_exporter *e)
{
    cero_text config = {0};

    cero_status st = cero_model_spec_write_json(e->params->spec, e->params->dtype, &config);
    if (st == CERO_OK) {
        st = carry_fields(e, &config);
    }
    if (st != CERO_OK) {
        cero_text_cleanup(&config);
        return st;
    }
    return stage_text(e, "config.json", &config);
}

cero_status cero_hf_export_stage_index(cero_hf_exporter *e)
{
    cero_text text = {0};
    bool is_first = true;

    cero_text_printf(&text, "{\n  \"metadata\": {\n    \"total_size\": %lld\n  },\n",
                     (long long)e->total_data);
    cero_text_printf(&text, "  \"weight_map\": {");
    for (int64_t i = 0; i < e->table.count; i++) {
        char name[CERO_HF_EXPORT_NAME];
        int64_t at = e->table.by_name[i];
        if (e->table.entry[at].role == CERO_HF_PARAM) {
            cero_text_printf(&text, "%s\n    \"%s\": \"%s\"", is_first ? "" : ",",
                             e->table.entry[at].name,
                             cero_shards_name(e->shard_of[at], e->shard_count, name, sizeof(name)));
            is_first = false;
        }
    }
    cero_text_printf(&text, "\n  }\n}\n");
    return stage_text(e, CERO_SHARDS_INDEX, &text);
}
