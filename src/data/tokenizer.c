/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opening, saving, encoding and decoding: the order of the pipeline. Its parts are in tokenizer/.
 */
#include "data/tokenizer.h"

#include "base/file.h"
#include "base/memory.h"
#include "data/tokenizer/tokenizer_impl.h"
#include "data/unicode/unicode.h"

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

static cero_status load_added_one(const cero_json *value, cero_tokenizer *t)
{
    static const char *const known[] = {"id",     "content",    "single_word", "lstrip",
                                        "rstrip", "normalized", "special",     NULL};
    const cero_json *id_value = NULL;
    const cero_json *content = NULL;
    int64_t id;
    if (value->type != CERO_JSON_OBJECT) {
        return CERO_JSON_FAIL(value, "an added token is %s, expected an object",
                              cero_json_type_name(value->type));
    }
    CERO_TRY(cero_load_fields(value, "an added token", known));
    CERO_TRY(cero_load_need(value, "id", CERO_JSON_NUMBER, &id_value));
    CERO_TRY(cero_load_need(value, "content", CERO_JSON_STRING, &content));
    CERO_TRY(cero_json_int(id_value, &id));
    int32_t old = cero_vocab_find(&t->bpe.vocab, content->text, content->text_length);
    if (content->text_length == 0 || id < 0 || id >= CERO_VOCAB_MAX || (old >= 0 && old != id)) {
        return CERO_JSON_FAIL(value,
                              "added token \"%s\" has id %lld, expected a text, an id in "
                              "0..%d, and the id of \"vocab\" if it is there (%d)",
                              content->text, (long long)id, CERO_VOCAB_MAX - 1, old);
    }
    CERO_TRY(
        cero_grow((void **)&t->added, t->added_count, &t->added_capacity, sizeof(t->added[0])));
    cero_added *a = &t->added[t->added_count];
    *a = (cero_added){.id = (int32_t)id, .length = content->text_length};
    a->text = cero_strndup(content->text, content->text_length);
    if (a->text == NULL) {
        return CERO_FAIL(CERO_ERR_NOMEM, "no memory for an added token");
    }
    t->added_count++;
    CERO_TRY(cero_load_bool(value, "special", &a->is_special));
    a->is_normalized = !a->is_special;
    CERO_TRY(cero_load_bool(value, "normalized", &a->is_normalized));
    CERO_TRY(cero_load_bool(value, "single_word", &a->is_single_word));
    CERO_TRY(cero_load_bool(value, "lstrip", &a->strips_left));
    return cero_load_bool(value, "rstrip", &a->strips_right);
}

static cero_status load_added(const cero_json *list, cero_tokenizer *t)
{
    cero_status st = CERO_OK;
    cero_text text = {0};
    if (list == NULL || list->type == CERO_JSON_NULL) {
        return CERO_OK;
    }
    if (list->type != CERO_JSON_ARRAY) {
        return CERO_JSON_FAIL(list, "\"added_tokens\" is %s, expected a list",
                              cero_json_type_name(list->type));
    }
    for (const cero_json *value = list->child; value != NULL; value = value->next) {
        CERO_TRY(load_added_one(value, t));
    }
    t->raw_set.added = t->added;
    t->normalized_set.added = t->added;
    for (int64_t i = 0; i < t->added_count; i++) {
        const cero_added *a = &t->added[i];
        if (!a->is_normalized) {
            CERO_TRY_GOTO(cero_added_set_add(&t->raw_set, a->text, a->length, (int32_t)i), out);
            continue;
        }
        text.length = 0;
        CERO_TRY_GOTO(cero_tokenizer_normalize(t, (const uint8_t *)a->text, a->length, &text), out);
        if (text.length > 0) {
            CERO_TRY_GOTO(
                cero_added_set_add(&t->normalized_set, text.data, text.length, (int32_t)i), out);
        }
    }

out:
    cero_text_cleanup(&text);
    return st;
}

/* Replaces every occurrence of the step's pattern in `in`. */
static cero_status decode_replace(const cero_step *step, const cero_text *in, cero_text *out)
{
    const char *with = step->kind == CERO_STEP_METASPACE ? " " : step->text;
    size_t with_length = step->kind == CERO_STEP_METASPACE ? 1 : step->text_length;
    size_t valid = cero_utf8_valid_prefix((const uint8_t *)in->data, in->length);
    for (size_t i = 0; i < valid;) {
        size_t begin;
        size_t stop;
        CERO_TRY(
            cero_pattern_find(step->pattern, (const uint8_t *)in->data, valid, i, &begin, &stop));
        cero_text_append(out, in->data + i, begin - i);
        if (stop > begin) {
            cero_text_append(out, with, with_length);
        }
        i = stop;
    }
    cero_text_append(out, in->data + valid, in->length - valid);
    return CERO_OK;
}

static int hex_digit(char c)
{
    const char *digits = "0123456789ABCDEF";
    const char *hit = c == '\0' ? NULL : strchr(digits, c);
    return hit == NULL ? -1 : (int)(hit - digits);
}

/* "<0xNN>" gives the byte; any other text itself. */
static void decode_fallback(const cero_text *in, cero_text *out)
{
    if (in->length == 6 && memcmp(in->data, "<0x", 3) == 0 && in->data[5] == '>') {
        int high = hex_digit(in->data[3]);
        int low = hex_digit(in->data[4]);
        if (high >= 0 && low >= 0) {
            char byte = (char)(high * 16 + low);
            cero_text_append(out, &byte, 1);
            return;
        }
    }
    cero_text_append(out, in->data, in->length);
}

/* Runs the decoder's steps over the text of one token; the result is in work[0]. */
static cero_status decode_token(const cero_tokenizer *t, const char *text, size_t length,
                                cero_text work[2])
{
    work[0].length = 0;
    cero_text_append(&work[0], text, length);
    for (int64_t i = 0; i < t->decoder.count; i++) {
        const cero_step *step = &t->decoder.step[i];
        work[1].length = 0;
        if (step->kind == CERO_STEP_BYTE_LEVEL) {
            if (!cero_byte_level_decode(work[0].data, work[0].length, &work[1])) {
                cero_text_append(&work[1], work[0].data, work[0].length);
            }
        } else if (step->kind == CERO_STEP_BYTE_FALLBACK) {
            decode_fallback(&work[0], &work[1]);
        } else {
            CERO_TRY(decode_replace(step, &work[0], &work[1]));
        }
        cero_text swap = work[0];
        work[0] = work[1];
        work[1] = swap;
    }
    CERO_TRY(cero_text_finish(&work[0]));
    return cero_text_finish(&work[1]);
}

static cero_status set_token(cero_tokenizer *t, int64_t id, const char *bytes, size_t length)
{
    t->token[id].offset = (int64_t)t->token_bytes.length;
    t->token[id].length = (int64_t)length;
    cero_text_append(&t->token_bytes, bytes, length);
    return cero_text_finish(&t->token_bytes);
}

/* The bytes of every token: of the vocabulary through the decoder, of added ones as written. */
static cero_status build_tokens(cero_tokenizer *t)
{
    cero_status st = CERO_OK;
    cero_text work[2] = {{0}, {0}};
    t->vocab_size = t->bpe.vocab.size;
    for (int64_t i = 0; i < t->added_count; i++) {
        t->vocab_size = t->added[i].id >= t->vocab_size ? t->added[i].id + 1 : t->vocab_size;
    }
    t->token = cero_new((size_t)t->vocab_size + 1, sizeof(t->token[0]));
    t->is_special = cero_new((size_t)t->vocab_size + 1, 1);
    if (t->token == NULL || t->is_special == NULL) {
        return CERO_FAIL(CERO_ERR_NOMEM, "no memory for %lld tokens", (long long)t->vocab_size);
    }
    for (int64_t id = 0; id < t->vocab_size; id++) {
        size_t length;
        const char *text = cero_vocab_text(&t->bpe.vocab, id, &length);
        t->token[id].offset = -1;
        if (text != NULL) {
            CERO_TRY_GOTO(decode_token(t, text, length, work), out);
            CERO_TRY_GOTO(set_token(t, id, work[0].data, work[0].length), out);
        }
    }
    for (int64_t i = 0; i < t->added_count; i++) {
        const cero_added *a = &t->added[i];
        CERO_TRY_GOTO(set_token(t, a->id, a->text, a->length), out);
        t->is_special[a->id] = a->is_special;
    }

out:
    cero_text_cleanup(&work[0]);
    cero_text_cleanup(&work[1]);
    return st;
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
    CERO_TRY(load_added(cero_json_find(root, "added_tokens"), t));
    CERO_TRY(cero_load_post(cero_json_find(root, "post_processor"), t));
    CERO_TRY(cero_load_decoder(cero_json_find(root, "decoder"), t));
    CERO_TRY(build_tokens(t));
    CERO_TRY(check_ids(t, &t->prefix));
    CERO_TRY(check_ids(t, &t->suffix));
    return find_eos(t);
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
    CERO_TRY_GOTO(cero_bpe_state_create(&t->state), fail);
    CERO_TRY_GOTO(cero_json_parse(name, json, length, NULL, &document), fail);
    CERO_TRY_GOTO(load_root(cero_json_root(document), t), fail);
    cero_json_destroy(&document);
    *out = t;
    return CERO_OK;

fail:
    (void)cero_error_prefix(st, "reading a tokenizer: ");
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
    cero_status st = CERO_OK;
    cero_file_writer *writer = NULL;
    char *path = cero_file_join(dir, name);
    if (path == NULL) {
        return CERO_FAIL(CERO_ERR_NOMEM, "no memory for a path");
    }
    CERO_TRY_GOTO(cero_file_writer_open(path, CERO_FILE_REPLACE, &writer), out);
    CERO_TRY_GOTO(cero_file_writer_write(writer, bytes, length), out);
    CERO_TRY_GOTO(cero_file_writer_commit(writer), out);

out:
    cero_file_writer_close(&writer);
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

/* Text between added tokens that are found before normalizing. */
static cero_status encode_segment(const cero_encoding *e, const uint8_t *bytes, size_t length,
                                  bool is_start)
{
    cero_status st = CERO_OK;
    cero_tokenizer *t = e->tokenizer;
    cero_text normal = {0};
    bool is_plain = (e->flags & CERO_ENCODE_PLAIN_SPECIAL) != 0;
    size_t i = 0;
    cero_added_match match;
    if (length == 0) {
        return CERO_OK;
    }
    if (!cero_tokenizer_is_normal(t, bytes, length)) {
        CERO_TRY_GOTO(cero_tokenizer_normalize(t, bytes, length, &normal), out);
        bytes = (const uint8_t *)normal.data;
        length = normal.length;
    }
    while (cero_added_set_find(&t->normalized_set, bytes, length, i, is_plain, &match)) {
        CERO_TRY_GOTO(cero_encoding_split(e, bytes + i, match.begin - i, is_start && i == 0), out);
        CERO_TRY_GOTO(cero_token_ids_reserve(e->ids, 1), out);
        e->ids->id[e->ids->count++] = match.id;
        i = match.stop;
    }
    CERO_TRY_GOTO(cero_encoding_split(e, bytes + i, length - i, is_start && i == 0), out);

out:
    cero_text_cleanup(&normal);
    return st;
}

static cero_status append_ids(cero_token_ids *ids, const cero_token_ids *more)
{
    if (more->count > 0) {
        CERO_TRY(cero_token_ids_reserve(ids, more->count));
        memcpy(ids->id + ids->count, more->id, (size_t)more->count * sizeof(ids->id[0]));
        ids->count += more->count;
    }
    return CERO_OK;
}

static cero_status encode_all(const cero_encoding *e, const uint8_t *bytes, size_t length)
{
    const cero_tokenizer *t = e->tokenizer;
    bool is_plain = (e->flags & CERO_ENCODE_PLAIN_SPECIAL) != 0;
    bool adds = (e->flags & CERO_ENCODE_ADD_SPECIAL) != 0;
    size_t i = 0;
    cero_added_match match;
    if (adds) {
        CERO_TRY(append_ids(e->ids, &t->prefix));
    }
    while (cero_added_set_find(&t->raw_set, bytes, length, i, is_plain, &match)) {
        CERO_TRY(encode_segment(e, bytes + i, match.begin - i, i == 0));
        CERO_TRY(cero_token_ids_reserve(e->ids, 1));
        e->ids->id[e->ids->count++] = match.id;
        i = match.stop;
    }
    CERO_TRY(encode_segment(e, bytes + i, length - i, i == 0));
    return adds ? append_ids(e->ids, &t->suffix) : CERO_OK;
}

cero_status cero_tokenizer_encode(cero_tokenizer *tokenizer, const void *bytes, size_t length,
                                  unsigned flags, cero_token_ids *out)
{
    cero_encoding e = {.tokenizer = tokenizer, .ids = out, .flags = flags};
    if (length == 0) {
        bytes = "";
    }
    CERO_TRY(encode_all(&e, bytes, length));
    return CERO_OK;
}

cero_status cero_tokenizer_encode_to(cero_tokenizer *tokenizer, const void *bytes, size_t length,
                                     unsigned flags, cero_token_sink sink, void *context)
{
    cero_status st = CERO_OK;
    cero_token_ids ids = {0};
    cero_encoding e = {
        .tokenizer = tokenizer, .ids = &ids, .sink = sink, .context = context, .flags = flags};
    CERO_TRY_GOTO(encode_all(&e, length == 0 ? "" : bytes, length), out);
    if (ids.count > 0) {
        CERO_TRY_GOTO(sink(context, ids.id, ids.count), out);
    }

out:
    cero_token_ids_cleanup(&ids);
    return st;
}

/* Takes the leading characters off out[begin..) that Strip names. */
static void strip_start(const cero_tokenizer *t, cero_text *out, size_t begin)
{
    size_t width = strlen(t->strip_char);
    size_t i = begin;
    for (int64_t n = 0; n < t->strip_start && i + width <= out->length; n++) {
        if (memcmp(out->data + i, t->strip_char, width) != 0) {
            break;
        }
        i += width;
    }
    if (i > begin) {
        memmove(out->data + begin, out->data + i, out->length - i + 1);
        out->length -= i - begin;
    }
}

/* Metaspace: the first token of a text loses its spaces. */
static void append_first(cero_text *out, const char *bytes, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        if (bytes[i] != ' ') {
            cero_text_append(out, bytes + i, 1);
        }
    }
}

cero_status cero_tokenizer_decode(const cero_tokenizer *tokenizer, const int32_t *ids,
                                  int64_t count, unsigned flags, cero_text *out)
{
    const cero_tokenizer *t = tokenizer;
    size_t begin = out->length;
    bool is_first = (flags & CERO_DECODE_CONTINUE) == 0;
    bool strips = is_first && t->strip_start > 0;
    for (int64_t i = 0; i < count; i++) {
        size_t length;
        const char *bytes = cero_tokenizer_token(t, ids[i], &length);
        if (bytes == NULL) {
            return CERO_FAIL(CERO_ERR_INVALID,
                             "id %d at position %lld is not a token of %s (vocabulary %lld)",
                             ids[i], (long long)i, t->name, (long long)t->vocab_size);
        }
        if ((flags & CERO_DECODE_SKIP_SPECIAL) != 0 && t->is_special[ids[i]]) {
            continue;
        }
        if (is_first && t->strips_first_token) {
            append_first(out, bytes, length);
        } else {
            cero_text_append(out, bytes, length);
        }
        is_first = false;
    }
    CERO_TRY(cero_text_finish(out));
    if (strips) {
        strip_start(t, out, begin);
    }
    return CERO_OK;
}

size_t cero_tokenizer_printable(const void *bytes, size_t length)
{
    const uint8_t *p = bytes;
    for (size_t back = 1; back <= 3 && back <= length; back++) {
        uint8_t byte = p[length - back];
        if (byte >= 0xC0) {
            size_t need = byte >= 0xF0 ? 4 : byte >= 0xE0 ? 3 : 2;
            return back < need ? length - back : length;
        }
        if (byte < 0x80) {
            break;
        }
    }
    return length;
}

const char *cero_tokenizer_token(const cero_tokenizer *tokenizer, int64_t id, size_t *length)
{
    const cero_tokenizer *t = tokenizer;
    if (id < 0 || id >= t->vocab_size || t->token[id].offset < 0) {
        return NULL;
    }
    *length = (size_t)t->token[id].length;
    return t->token_bytes.data + t->token[id].offset;
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
