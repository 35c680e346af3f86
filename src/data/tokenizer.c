/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opening and saving, and what can be asked of a tokenizer. The pipeline is in tokenizer/.
 */
#include "data/tokenizer.h"

#include "base/file.h"
#include "base/memory.h"
#include "data/tokenizer/tokenizer_impl.h"

#include <stdio.h>
#include <string.h>
#include <xxhash.h>

enum {
    FILE_MAX = 1 << 30
};

void cero_token_ids_cleanup(cero_token_ids *ids)
{
    cero_delete(ids->id);
    *ids = (cero_token_ids){0};
}

cero_status cero_token_ids_reserve(cero_token_ids *ids, int64_t more)
{
    int64_t need = ids->count + more;
    if (need <= ids->capacity) {
        return CERO_OK;
    }
    int64_t wanted = 2 * ids->capacity > need ? 2 * ids->capacity : need;
    wanted = wanted < 64 ? 64 : wanted;
    int32_t *grown = cero_renew(ids->id, (size_t)wanted, sizeof(grown[0]));
    if (grown == NULL) {
        return CERO_FAIL(CERO_ERR_NOMEM, "no memory for %lld token ids", (long long)wanted);
    }
    ids->id = grown;
    ids->capacity = wanted;
    return CERO_OK;
}

void cero_tokenizer_destroy(cero_tokenizer **tokenizer)
{
    if (tokenizer == NULL || *tokenizer == NULL) {
        return;
    }
    cero_tokenizer *t = *tokenizer;
    cero_delete(t->config);
    cero_delete(t->source);
    cero_delete(t->is_special);
    cero_delete(t->token);
    cero_text_cleanup(&t->token_bytes);
    cero_token_ids_cleanup(&t->suffix);
    cero_token_ids_cleanup(&t->prefix);
    cero_added_set_cleanup(&t->normalized_set);
    cero_added_set_cleanup(&t->raw_set);
    for (int64_t i = 0; i < t->added_count; i++) {
        cero_delete(t->added[i].text);
    }
    cero_delete(t->added);
    cero_steps_cleanup(&t->decoder);
    cero_steps_cleanup(&t->splitter);
    cero_steps_cleanup(&t->normalizer);
    cero_bpe_state_destroy(&t->state);
    cero_bpe_cleanup(&t->bpe);
    cero_delete(t->name);
    cero_delete(t);
    *tokenizer = NULL;
}

int32_t cero_tokenizer_find(const cero_tokenizer *tokenizer, const char *text)
{
    size_t length = strlen(text);
    for (int64_t i = 0; i < tokenizer->added_count; i++) {
        const cero_added *a = &tokenizer->added[i];
        if (a->length == length && memcmp(a->text, text, length) == 0) {
            return a->id;
        }
    }
    return cero_vocab_find(&tokenizer->bpe.vocab, text, length);
}

/* eos_token of tokenizer_config.json: a text, or an object with the text as "content". */
static cero_status load_config_eos(cero_tokenizer *t, bool *is_set)
{
    cero_status st = CERO_OK;
    cero_json_document *document = NULL;
    CERO_TRY(
        cero_json_parse("tokenizer_config.json", t->config, strlen(t->config), NULL, &document));
    const cero_json *root = cero_json_root(document);
    const cero_json *eos =
        root->type == CERO_JSON_OBJECT ? cero_json_find(root, "eos_token") : NULL;
    if (eos != NULL && eos->type == CERO_JSON_OBJECT) {
        eos = cero_json_find(eos, "content");
    }
    if (eos != NULL && eos->type == CERO_JSON_STRING) {
        t->eos = cero_tokenizer_find(t, eos->text);
        *is_set = true;
        if (t->eos < 0) {
            st = CERO_JSON_FAIL(eos, "eos_token \"%s\" is not a token of %s", eos->text, t->name);
        }
    }
    cero_json_destroy(&document);
    return st;
}

static cero_status find_eos(cero_tokenizer *t)
{
    static const char *const usual[] = {"<|endoftext|>", "<|end_of_text|>", "</s>"};
    bool is_set = false;
    t->eos = -1;
    if (t->config != NULL) {
        CERO_TRY(load_config_eos(t, &is_set));
    }
    for (size_t i = 0; i < CERO_COUNT_OF(usual) && t->eos < 0 && !is_set; i++) {
        t->eos = cero_tokenizer_find(t, usual[i]);
    }
    return CERO_OK;
}

static cero_status check_ids(const cero_tokenizer *t, const cero_token_ids *ids)
{
    for (int64_t i = 0; i < ids->count; i++) {
        if (ids->id[i] >= t->vocab_size || t->token[ids->id[i]].offset < 0) {
            return CERO_FAIL(CERO_ERR_CORRUPT,
                             "%s: the post-processor adds id %d, which no token has", t->name,
                             ids->id[i]);
        }
    }
    return CERO_OK;
}

static cero_status check_top(const cero_json *root)
{
    static const char *const known[] = {
        "version",       "truncation",     "padding", "added_tokens", "normalizer",
        "pre_tokenizer", "post_processor", "decoder", "model",        NULL};
    static const char *const refused[] = {"truncation", "padding"};
    if (root->type != CERO_JSON_OBJECT) {
        return CERO_JSON_FAIL(root, "the tokenizer is %s, expected an object",
                              cero_json_type_name(root->type));
    }
    CERO_TRY(cero_load_fields(root, "a tokenizer", known));
    const cero_json *version = cero_json_find(root, "version");
    if (version != NULL && !cero_json_is_text(version, "1.0")) {
        return CERO_JSON_FAIL(version, "the version is not \"1.0\"");
    }
    for (size_t i = 0; i < CERO_COUNT_OF(refused); i++) {
        const cero_json *value = cero_json_find(root, refused[i]);
        if (value != NULL && value->type != CERO_JSON_NULL) {
            return CERO_JSON_FAIL(value, "\"%s\" is not offered; set it to null", refused[i]);
        }
    }
    return CERO_OK;
}

static cero_status load_root(const cero_json *root, cero_tokenizer *t)
{
    const cero_json *model = NULL;
    CERO_TRY(check_top(root));
    CERO_TRY(cero_load_need(root, "model", CERO_JSON_OBJECT, &model));
    CERO_TRY(cero_load_steps(root, t));
    CERO_TRY(cero_load_model(model, t));
    CERO_TRY(cero_load_added(cero_json_find(root, "added_tokens"), t));
    CERO_TRY(cero_load_post(cero_json_find(root, "post_processor"), t));
    CERO_TRY(cero_load_decoder(cero_json_find(root, "decoder"), t));
    CERO_TRY(cero_tokenizer_build(t));
    CERO_TRY(check_ids(t, &t->prefix));
    CERO_TRY(check_ids(t, &t->suffix));
    return find_eos(t);
}

/* Names what was being done. What the parts call invalid is, seen from here, a file that is wrong. */
static cero_status explain(cero_status st)
{
    if (st != CERO_ERR_INVALID) {
        return cero_error_prefix(st, "reading a tokenizer: ");
    }
    char message[1536];
    (void)snprintf(message, sizeof(message), "%s", cero_error_message());
    return CERO_FAIL(CERO_ERR_CORRUPT, "reading a tokenizer: %s", message);
}

cero_status cero_tokenizer_parse(const char *name, const char *json, size_t length,
                                 const char *config, cero_tokenizer **out)
{
    cero_status st = CERO_OK;
    cero_json_document *document = NULL;
    cero_tokenizer *t = cero_new(1, sizeof(*t));

    if (t == NULL) {
        return CERO_FAIL(CERO_ERR_NOMEM, "no memory for a tokenizer");
    }
    t->name = cero_strdup(name);
    t->source = cero_strndup(json, length);
    t->source_length = length;
    t->config = config == NULL ? NULL : cero_strdup(config);
    if (t->name == NULL || t->source == NULL || (config != NULL && t->config == NULL)) {
        CERO_FAIL_GOTO(fail, CERO_ERR_NOMEM, "no memory for a tokenizer of %zu bytes", length);
    }
    t->hash = XXH3_64bits(json, length);
    CERO_TRY_GOTO(cero_json_parse(name, json, length, NULL, &document), fail);
    CERO_TRY_GOTO(load_root(cero_json_root(document), t), fail);
    CERO_TRY_GOTO(cero_bpe_state_create(&t->state), fail);
    cero_json_destroy(&document);
    *out = t;
    return CERO_OK;

fail:
    st = explain(st);
    cero_json_destroy(&document);
    cero_tokenizer_destroy(&t);
    return st;
}

/* The folder of a file path, as a new string; NULL when there is no memory. */
static char *folder_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    if (slash == NULL) {
        return cero_strdup(".");
    }
    return cero_strndup(path, slash == path ? 1 : (size_t)(slash - path));
}

cero_status cero_tokenizer_open(const char *path, cero_tokenizer **out)
{
    cero_status st = CERO_OK;
    bool is_dir = cero_file_stat(path, NULL) == CERO_FILE_DIRECTORY;
    char *dir = is_dir ? cero_strdup(path) : folder_of(path);
    char *file = is_dir ? cero_file_join(path, "tokenizer.json") : cero_strdup(path);
    char *config_file = dir == NULL ? NULL : cero_file_join(dir, "tokenizer_config.json");
    char *json = NULL;
    char *config = NULL;
    size_t length;

    if (file == NULL || config_file == NULL) {
        CERO_FAIL_GOTO(out, CERO_ERR_NOMEM, "no memory for a path");
    }
    CERO_TRY_GOTO(cero_file_read(file, FILE_MAX, &json, &length), out);
    if (cero_file_stat(config_file, NULL) == CERO_FILE_REGULAR) {
        size_t config_length;
        CERO_TRY_GOTO(cero_file_read(config_file, FILE_MAX, &config, &config_length), out);
    }
    CERO_TRY_GOTO(cero_tokenizer_parse(file, json, length, config, out), out);

out:
    cero_delete(config);
    cero_delete(json);
    cero_delete(config_file);
    cero_delete(file);
    cero_delete(dir);
    return st;
}

static cero_status save_file(const char *dir, const char *name, const char *bytes, size_t length)
{
    char *path = cero_file_join(dir, name);

    if (path == NULL) {
        return CERO_FAIL(CERO_ERR_NOMEM, "no memory for a path");
    }
    cero_status st = cero_file_write(path, bytes, length);
    cero_delete(path);
    return st;
}

cero_status cero_tokenizer_save(const cero_tokenizer *tokenizer, const char *dir)
{
    const cero_tokenizer *t = tokenizer;
    CERO_TRY(cero_file_make_dir(dir));
    CERO_TRY(save_file(dir, "tokenizer.json", t->source, t->source_length));
    return t->config == NULL
               ? CERO_OK
               : save_file(dir, "tokenizer_config.json", t->config, strlen(t->config));
}

int64_t cero_tokenizer_vocab_size(const cero_tokenizer *tokenizer)
{
    return tokenizer->vocab_size;
}

int32_t cero_tokenizer_eos(const cero_tokenizer *tokenizer)
{
    return tokenizer->eos;
}

bool cero_tokenizer_is_special(const cero_tokenizer *tokenizer, int64_t id)
{
    return id >= 0 && id < tokenizer->vocab_size && tokenizer->is_special[id] != 0;
}

uint64_t cero_tokenizer_hash(const cero_tokenizer *tokenizer)
{
    return tokenizer->hash;
}
