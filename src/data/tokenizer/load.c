/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading tokenizer.json: top level, added tokens, model, post-processor. Normalizer, pre-tokenizer
 * and decoder are in load_steps.c. Every field is known or an error.
 */
#include "data/tokenizer/tokenizer_impl.h"

#include "base/memory.h"

#include <stdio.h>
#include <string.h>

enum {
    MAX_AROUND = 4096 /* tokens that a post-processor puts before or after a text */
};

bool cero_json_is_text(const cero_json *value, const char *text)
{
    return value != NULL && value->type == CERO_JSON_STRING && value->text_length == strlen(text) &&
           memcmp(value->text, text, value->text_length) == 0;
}

typedef struct name_list {
    const char *const *name;
    int count;
} name_list;

static const char *next_name(const void *context, int i)
{
    const name_list *list = context;
    return i < list->count ? list->name[i] : NULL;
}

cero_status cero_load_fields(const cero_json *object, const char *what, const char *const *known)
{
    for (const cero_json *child = object->child; child != NULL; child = child->next) {
        name_list list = {.name = known};
        bool is_known = false;
        for (; known[list.count] != NULL; list.count++) {
            is_known = is_known || strcmp(known[list.count], child->key) == 0;
        }
        if (is_known) {
            continue;
        }
        const char *near = cero_text_nearest(child->key, next_name, &list);
        return CERO_JSON_FAIL(child, "unknown field \"%s\" of %s%s%s%s", child->key, what,
                              near != NULL ? "; did you mean \"" : "", near != NULL ? near : "",
                              near != NULL ? "\"?" : "");
    }
    return CERO_OK;
}

cero_status cero_load_bool(const cero_json *object, const char *key, bool *out)
{
    const cero_json *value = cero_json_find(object, key);
    if (value == NULL) {
        return CERO_OK;
    }
    if (value->type != CERO_JSON_BOOL) {
        return CERO_JSON_FAIL(value, "\"%s\" is %s, expected true or false", key,
                              cero_json_type_name(value->type));
    }
    *out = value->boolean;
    return CERO_OK;
}

cero_status cero_load_need(const cero_json *object, const char *key, cero_json_type type,
                           const cero_json **out)
{
    const cero_json *value = cero_json_find(object, key);
    *out = object; // never NULL, whatever the compiler thinks of the status
    if (value == NULL) {
        return CERO_JSON_FAIL(object, "field \"%s\" is missing", key);
    }
    if (value->type != type) {
        return CERO_JSON_FAIL(value, "\"%s\" is %s, expected %s", key,
                              cero_json_type_name(value->type), cero_json_type_name(type));
    }
    *out = value;
    return CERO_OK;
}

cero_status cero_load_type(const cero_json *value, const char *what, const char **out)
{
    const cero_json *type = NULL;
    if (value->type != CERO_JSON_OBJECT) {
        return CERO_JSON_FAIL(value, "%s is %s, expected an object", what,
                              cero_json_type_name(value->type));
    }
    CERO_TRY(cero_load_need(value, "type", CERO_JSON_STRING, &type));
    *out = type->text;
    return CERO_OK;
}

/* A field that must be absent, null, or an empty string or zero. */
static cero_status refuse_unless_empty(const cero_json *object, const char *key)
{
    const cero_json *value = cero_json_find(object, key);
    bool is_empty = value == NULL || value->type == CERO_JSON_NULL ||
                    (value->type == CERO_JSON_STRING && value->text_length == 0) ||
                    (value->type == CERO_JSON_NUMBER && value->number == 0.0);
    return is_empty ? CERO_OK : CERO_JSON_FAIL(value, "\"%s\" is not offered; expected null", key);
}

cero_status cero_load_check_id(const cero_json *place, int64_t id, int64_t count)
{
    int64_t limit = cero_vocab_id_limit(count);
    if (id < 0 || id >= limit) {
        return CERO_JSON_FAIL(place, "token id %lld of %lld tokens is outside 0..%lld",
                              (long long)id, (long long)count, (long long)limit - 1);
    }
    return CERO_OK;
}

static cero_status load_vocab(const cero_json *vocab, cero_bpe *bpe)
{
    for (const cero_json *entry = vocab->child; entry != NULL; entry = entry->next) {
        int64_t id;
        CERO_TRY(cero_json_int(entry, &id));
        CERO_TRY(cero_load_check_id(entry, id, vocab->count));
        cero_status st = cero_vocab_add(&bpe->vocab, id, entry->key, strlen(entry->key));
        if (st != CERO_OK) {
            return cero_error_prefix(st, "%s:%d:%d: ", entry->file, entry->line, entry->column);
        }
    }
    return CERO_OK;
}

typedef struct text_view {
    const char *text;
    size_t length;
} text_view;

/* The two halves of a merge, from "a b" or ["a", "b"]. */
static cero_status read_merge(const cero_json *merge, int64_t index, text_view part[2])
{
    if (merge->type == CERO_JSON_STRING) {
        const char *space = memchr(merge->text, ' ', merge->text_length);
        size_t head = space == NULL ? 0 : (size_t)(space - merge->text);
        size_t tail = space == NULL ? 0 : merge->text_length - head - 1;
        if (head == 0 || tail == 0 || memchr(space + 1, ' ', tail) != NULL) {
            return CERO_JSON_FAIL(merge, "merge %lld is \"%s\", expected two parts with a space",
                                  (long long)index, merge->text);
        }
        part[0] = (text_view){merge->text, head};
        part[1] = (text_view){space + 1, tail};
        return CERO_OK;
    }
    const cero_json *left = merge->type == CERO_JSON_ARRAY ? merge->child : NULL;
    const cero_json *right = left != NULL ? left->next : NULL;
    if (right == NULL || merge->count != 2 || left->type != CERO_JSON_STRING ||
        right->type != CERO_JSON_STRING) {
        return CERO_JSON_FAIL(merge, "merge %lld is %s, expected \"a b\" or [\"a\", \"b\"]",
                              (long long)index, cero_json_type_name(merge->type));
    }
    part[0] = (text_view){left->text, left->text_length};
    part[1] = (text_view){right->text, right->text_length};
    return CERO_OK;
}

static cero_status find_part(const cero_bpe *bpe, const cero_json *merge, int64_t index,
                             text_view part, int32_t *id)
{
    *id = cero_vocab_find(&bpe->vocab, part.text, part.length);
    if (*id < 0) {
        return CERO_JSON_FAIL(merge, "merge %lld needs the token \"%.*s\", which is not in vocab",
                              (long long)index, (int)part.length, part.text);
    }
    return CERO_OK;
}

static cero_status load_merges(const cero_json *merges, cero_bpe *bpe)
{
    cero_status st = CERO_OK;
    cero_text joined = {0};
    int64_t rank = 0;
    CERO_TRY(cero_bpe_init(bpe, merges->count));
    for (const cero_json *merge = merges->child; merge != NULL; merge = merge->next, rank++) {
        text_view part[2] = {{"", 0}, {"", 0}};
        int32_t left = -1;
        int32_t right = -1;
        int32_t id = -1;
        CERO_TRY_GOTO(read_merge(merge, rank, part), out);
        CERO_TRY_GOTO(find_part(bpe, merge, rank, part[0], &left), out);
        CERO_TRY_GOTO(find_part(bpe, merge, rank, part[1], &right), out);
        joined.length = 0;
        cero_text_append(&joined, part[0].text, part[0].length);
        cero_text_append(&joined, part[1].text, part[1].length);
        CERO_TRY_GOTO(cero_text_finish(&joined), out);
        text_view whole = {joined.data, joined.length};
        CERO_TRY_GOTO(find_part(bpe, merge, rank, whole, &id), out);
        cero_bpe_add_merge(bpe, left, right, rank, id);
    }

out:
    cero_text_cleanup(&joined);
    return st;
}

static cero_status load_unk(const cero_json *model, cero_bpe *bpe)
{
    const cero_json *unk = cero_json_find(model, "unk_token");
    bpe->unk_id = -1;
    if (unk == NULL || unk->type == CERO_JSON_NULL) {
        return CERO_OK;
    }
    if (unk->type == CERO_JSON_STRING) {
        bpe->unk_id = cero_vocab_find(&bpe->vocab, unk->text, unk->text_length);
    }
    return bpe->unk_id >= 0 ? CERO_OK
                            : CERO_JSON_FAIL(unk, "\"unk_token\" is not a token of \"vocab\"");
}

cero_status cero_load_model(const cero_json *value, cero_tokenizer *tokenizer)
{
    static const char *const known[] = {"type",
                                        "dropout",
                                        "unk_token",
                                        "continuing_subword_prefix",
                                        "end_of_word_suffix",
                                        "fuse_unk",
                                        "byte_fallback",
                                        "ignore_merges",
                                        "vocab",
                                        "merges",
                                        NULL};
    cero_bpe *bpe = &tokenizer->bpe;
    const cero_json *vocab = NULL;
    const cero_json *merges = NULL;
    const char *type = "BPE"; // old files have no type
    if (cero_json_find(value, "type") != NULL) {
        CERO_TRY(cero_load_type(value, "the model", &type));
    }
    if (strcmp(type, "BPE") != 0) {
        return CERO_JSON_FAIL(value, "the model is of type \"%s\"; only \"BPE\" is offered", type);
    }
    CERO_TRY(cero_load_fields(value, "the BPE model", known));
    CERO_TRY(refuse_unless_empty(value, "dropout"));
    CERO_TRY(refuse_unless_empty(value, "continuing_subword_prefix"));
    CERO_TRY(refuse_unless_empty(value, "end_of_word_suffix"));
    CERO_TRY(cero_load_bool(value, "fuse_unk", &bpe->fuse_unk));
    CERO_TRY(cero_load_bool(value, "byte_fallback", &bpe->byte_fallback));
    CERO_TRY(cero_load_bool(value, "ignore_merges", &bpe->ignore_merges));
    CERO_TRY(cero_load_need(value, "vocab", CERO_JSON_OBJECT, &vocab));
    CERO_TRY(cero_load_need(value, "merges", CERO_JSON_ARRAY, &merges));
    CERO_TRY(load_vocab(vocab, bpe));
    CERO_TRY(load_merges(merges, bpe));
    CERO_TRY(load_unk(value, bpe));
    cero_bpe_set_bytes(bpe);
    return CERO_OK;
}

static cero_status prepend_ids(cero_token_ids *list, const int32_t *id, int64_t count)
{
    if (count == 0) {
        return CERO_OK;
    }
    CERO_TRY(cero_token_ids_reserve(list, count));
    memmove(list->id + count, list->id, (size_t)list->count * sizeof(id[0]));
    memcpy(list->id, id, (size_t)count * sizeof(id[0]));
    list->count += count;
    return CERO_OK;
}

static cero_status append_id(cero_token_ids *list, int64_t id, const cero_json *place)
{
    if (id < 0 || id >= CERO_VOCAB_MAX) {
        return CERO_JSON_FAIL(place, "token id %lld is out of range", (long long)id);
    }
    if (list->count >= MAX_AROUND) {
        return CERO_JSON_FAIL(place, "the template adds more than %d tokens to a text", MAX_AROUND);
    }
    CERO_TRY(cero_token_ids_reserve(list, 1));
    list->id[list->count++] = (int32_t)id;
    return CERO_OK;
}

/* The ids of special token `name` of a template. */
static cero_status append_special(const cero_json *specials, const cero_json *item,
                                  cero_token_ids *list)
{
    static const char *const known[] = {"id", "type_id", NULL};
    const cero_json *name = NULL;
    const cero_json *ids = NULL;
    CERO_TRY(cero_load_fields(item, "a special token of a template", known));
    CERO_TRY(cero_load_need(item, "id", CERO_JSON_STRING, &name));
    const cero_json *special = cero_json_find(specials, name->text);
    if (special == NULL || special->type != CERO_JSON_OBJECT) {
        return CERO_JSON_FAIL(name, "\"%s\" is not in \"special_tokens\"", name->text);
    }
    CERO_TRY(cero_load_need(special, "ids", CERO_JSON_ARRAY, &ids));
    for (const cero_json *entry = ids->child; entry != NULL; entry = entry->next) {
        int64_t id;
        CERO_TRY(cero_json_int(entry, &id));
        CERO_TRY(append_id(list, id, entry));
    }
    return CERO_OK;
}

/* "single": special tokens around the sequence A. */
static cero_status load_template_items(const cero_json *single, const cero_json *specials,
                                       cero_token_ids *before, cero_token_ids *after)
{
    int sequences = 0;
    for (const cero_json *item = single->child; item != NULL; item = item->next) {
        const cero_json *inner = item->type == CERO_JSON_OBJECT ? item->child : NULL;
        if (inner == NULL || item->count != 1 || inner->type != CERO_JSON_OBJECT) {
            return CERO_JSON_FAIL(item, "expected one of SpecialToken and Sequence");
        }
        if (strcmp(inner->key, "SpecialToken") == 0) {
            CERO_TRY(append_special(specials, inner, sequences == 0 ? before : after));
        } else if (strcmp(inner->key, "Sequence") == 0 &&
                   cero_json_is_text(cero_json_find(inner, "id"), "A")) {
            sequences++;
        } else {
            return CERO_JSON_FAIL(inner, "\"%s\" is not known in a single template", inner->key);
        }
    }
    if (sequences != 1) {
        return CERO_JSON_FAIL(single, "the single template has %d sequences A, expected 1",
                              sequences);
    }
    return CERO_OK;
}

static cero_status wrap(cero_tokenizer *tokenizer, const cero_token_ids *before,
                        const cero_token_ids *after)
{
    CERO_TRY(prepend_ids(&tokenizer->prefix, before->id, before->count));
    CERO_TRY(cero_token_ids_reserve(&tokenizer->suffix, after->count));
    for (int64_t i = 0; i < after->count; i++) {
        tokenizer->suffix.id[tokenizer->suffix.count++] = after->id[i];
    }
    return CERO_OK;
}

static cero_status load_template(const cero_json *value, cero_tokenizer *tokenizer)
{
    static const char *const known[] = {"type", "single", "pair", "special_tokens", NULL};
    cero_status st = CERO_OK;
    const cero_json *single = NULL;
    const cero_json *specials = NULL;
    cero_token_ids before = {0};
    cero_token_ids after = {0};
    CERO_TRY(cero_load_fields(value, "TemplateProcessing", known));
    CERO_TRY(cero_load_need(value, "single", CERO_JSON_ARRAY, &single));
    CERO_TRY(cero_load_need(value, "special_tokens", CERO_JSON_OBJECT, &specials));
    CERO_TRY_GOTO(load_template_items(single, specials, &before, &after), out);
    CERO_TRY_GOTO(wrap(tokenizer, &before, &after), out);

out:
    cero_token_ids_cleanup(&before);
    cero_token_ids_cleanup(&after);
    return st;
}

/* RobertaProcessing and BertProcessing: cls before, sep after, each as ["text", id]. */
static cero_status load_cls_sep(const cero_json *value, cero_tokenizer *tokenizer)
{
    static const char *const known[] = {"type", "sep", "cls", "trim_offsets", "add_prefix_space",
                                        NULL};
    int32_t id[2];
    static const char *const names[2] = {"cls", "sep"};
    CERO_TRY(cero_load_fields(value, "the post-processor", known));
    for (int i = 0; i < 2; i++) {
        const cero_json *pair = NULL;
        int64_t number;
        CERO_TRY(cero_load_need(value, names[i], CERO_JSON_ARRAY, &pair));
        if (pair->count != 2) {
            return CERO_JSON_FAIL(pair, "\"%s\" has %lld entries, expected text and id", names[i],
                                  (long long)pair->count);
        }
        CERO_TRY(cero_json_int(pair->child->next, &number));
        if (number < 0 || number >= CERO_VOCAB_MAX) {
            return CERO_JSON_FAIL(pair, "token id %lld is out of range", (long long)number);
        }
        id[i] = (int32_t)number;
    }
    cero_token_ids before = {.id = &id[0], .count = 1};
    cero_token_ids after = {.id = &id[1], .count = 1};
    return wrap(tokenizer, &before, &after);
}

cero_status cero_load_post(const cero_json *value, cero_tokenizer *tokenizer)
{
    static const char *const byte_level[] = {"type", "add_prefix_space", "trim_offsets",
                                             "use_regex", NULL};
    static const char *const sequence[] = {"type", "processors", NULL};
    const char *type = NULL;
    if (value == NULL || value->type == CERO_JSON_NULL) {
        return CERO_OK;
    }
    CERO_TRY(cero_load_type(value, "the post-processor", &type));
    if (strcmp(type, "ByteLevel") == 0) { // only moves offsets
        return cero_load_fields(value, "ByteLevel", byte_level);
    }
    if (strcmp(type, "TemplateProcessing") == 0) {
        return load_template(value, tokenizer);
    }
    if (strcmp(type, "RobertaProcessing") == 0 || strcmp(type, "BertProcessing") == 0) {
        return load_cls_sep(value, tokenizer);
    }
    if (strcmp(type, "Sequence") != 0) {
        return CERO_JSON_FAIL(value, "unknown post-processor \"%s\"", type);
    }
    const cero_json *list = NULL;
    CERO_TRY(cero_load_fields(value, "Sequence", sequence));
    CERO_TRY(cero_load_need(value, "processors", CERO_JSON_ARRAY, &list));
    for (const cero_json *item = list->child; item != NULL; item = item->next) {
        CERO_TRY(cero_load_post(item, tokenizer));
    }
    return CERO_OK;
}
