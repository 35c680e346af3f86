/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads a Hugging Face config.json through closed tables: a field is taken, known to change no
 * arithmetic, accepted at one value only, or refused by name with its place.
 */
#include "base/json.h"
#include "spec/model.h"
#include "spec/model_fields.h"
#include "spec/model_impl.h"

#include <stdio.h>
#include <string.h>

typedef struct reader {
    const cero_model_field *fields;
    size_t count;
    const cero_json *seen[CERO_MODEL_MAX_FIELDS]; /* where each field stood */
    cero_model_spec *spec;
} reader;

static const char *next_key(const void *context, int i)
{
    const reader *r = context;
    size_t at = (size_t)i;

    if (at < r->count) {
        return r->fields[at].key;
    }
    return cero_model_ignorable_field(at - r->count);
}

static bool is_neutral(const cero_json *v)
{
    return v->type == CERO_JSON_NULL || (v->type == CERO_JSON_BOOL && !v->boolean) ||
           ((v->type == CERO_JSON_ARRAY || v->type == CERO_JSON_OBJECT) && v->count == 0);
}

/* An integer under two names must be the same number. */
static cero_status read_int_field(const reader *r, const cero_model_field *f,
                                  const cero_json *value)
{
    int64_t *at = (int64_t *)(void *)((char *)r->spec + f->offset);
    int64_t number;

    CERO_TRY(cero_model_read_int(value, 1, &number));
    for (size_t i = 0; i < r->count; i++) {
        if (r->seen[i] != NULL && r->fields[i].kind == CERO_MODEL_FIELD_INT &&
            r->fields[i].offset == f->offset && number != *at) {
            return CERO_JSON_FAIL(value, "%s is %lld, but %s is %lld", f->key, (long long)number,
                                  r->fields[i].key, (long long)*at);
        }
    }
    *at = number;
    return CERO_OK;
}

static cero_status read_field(reader *r, const cero_model_field *f, const cero_json *value)
{
    char *at = (char *)r->spec + f->offset;

    if (value->type == CERO_JSON_NULL && f->may_be_null) {
        return CERO_OK;
    }
    switch (f->kind) {
    case CERO_MODEL_FIELD_INT:
        return read_int_field(r, f, value);
    case CERO_MODEL_FIELD_REAL:
        return cero_model_read_real(value, (double *)(void *)at);
    case CERO_MODEL_FIELD_BOOL:
        CERO_TRY(cero_model_expect(value, CERO_JSON_BOOL));
        *(bool *)(void *)at = value->boolean;
        return CERO_OK;
    case CERO_MODEL_FIELD_FIXED:
        return is_neutral(value)
                   ? CERO_OK
                   : CERO_MODEL_REFUSE(value, "%s: only null or false is offered, found %s", f->key,
                                       value->text != NULL ? value->text
                                                           : cero_json_type_name(value->type));
    case CERO_MODEL_FIELD_READ:
    default:
        return f->read(value, r->spec);
    }
}

static cero_status read_member(reader *r, const cero_json *value)
{
    for (size_t i = 0; i < r->count; i++) {
        if (strcmp(r->fields[i].key, value->key) == 0) {
            CERO_TRY(read_field(r, &r->fields[i], value));
            r->seen[i] = value->type == CERO_JSON_NULL ? NULL : value;
            return CERO_OK;
        }
    }
    for (size_t i = 0; cero_model_ignorable_field(i) != NULL; i++) {
        if (strcmp(cero_model_ignorable_field(i), value->key) == 0) {
            return CERO_OK;
        }
    }
    const char *nearest = cero_text_nearest(value->key, next_key, r);
    return CERO_MODEL_REFUSE(value, "unknown field \"%.80s\" for model_type %s%s%s%s", value->key,
                             r->spec->arch == CERO_ARCH_GPT2 ? "gpt2" : "llama",
                             nearest == NULL ? "" : ", did you mean \"",
                             nearest == NULL ? "" : nearest, nearest == NULL ? "" : "\"?");
}

/* model_type decides; older files have only the class name. */
static cero_status read_arch(const cero_json *root, cero_arch *out)
{
    const cero_json *type = cero_json_find(root, "model_type");
    const cero_json *names = cero_json_find(root, "architectures");

    if (type == NULL && names != NULL && names->child != NULL &&
        names->child->type == CERO_JSON_STRING) {
        *out = strncmp(names->child->text, "Llama", 5) == 0 ? CERO_ARCH_LLAMA : CERO_ARCH_GPT2;
        return CERO_OK;
    }
    if (type == NULL) {
        return CERO_JSON_FAIL(root, "\"model_type\" is missing, expected \"gpt2\" or \"llama\"");
    }
    CERO_TRY(cero_model_expect(type, CERO_JSON_STRING));
    if (strcmp(type->text, "gpt2") == 0) {
        *out = CERO_ARCH_GPT2;
    } else if (strcmp(type->text, "llama") == 0) {
        *out = CERO_ARCH_LLAMA;
    } else {
        return CERO_MODEL_REFUSE(type, "model_type: \"%.60s\" is not offered (gpt2 and llama are)",
                                 type->text);
    }
    return CERO_OK;
}

/* Both spellings of the rotary positions in one file must say the same. */
static cero_status check_rope_spellings(const cero_json *root, const cero_model_spec *defaults)
{
    const cero_json *older = cero_json_find(root, "rope_scaling");
    const cero_json *newer = cero_json_find(root, "rope_parameters");
    const cero_json *theta = cero_json_find(root, "rope_theta");
    cero_model_spec a = *defaults;
    cero_model_spec b = *defaults;

    if (newer == NULL || newer->type == CERO_JSON_NULL) {
        return CERO_OK;
    }
    CERO_TRY(cero_model_read_rope(newer, &a));
    if (theta != NULL && cero_json_find(newer, "rope_theta") != NULL &&
        theta->number != a.rope_theta) {
        return CERO_JSON_FAIL(theta, "rope_theta is %s, but rope_parameters has %g", theta->text,
                              a.rope_theta);
    }
    if (older == NULL || older->type == CERO_JSON_NULL) {
        return CERO_OK;
    }
    CERO_TRY(cero_model_read_rope(older, &b));
    if (a.rope_type != b.rope_type || a.rope_factor != b.rope_factor ||
        a.rope_low_freq_factor != b.rope_low_freq_factor ||
        a.rope_high_freq_factor != b.rope_high_freq_factor ||
        a.rope_original_context != b.rope_original_context) {
        return CERO_JSON_FAIL(older, "rope_scaling and rope_parameters differ; remove one");
    }
    return CERO_OK;
}

static void fill_derived(cero_model_spec *s)
{
    s->kv_heads = s->kv_heads == 0 ? s->heads : s->kv_heads;
    s->head_dim = s->head_dim == 0 ? s->hidden / s->heads : s->head_dim;
    if (s->inner == 0 && !cero_mul_i64(4, s->hidden, &s->inner)) {
        s->inner = INT64_MAX; // the check refuses the hidden size first
    }
    // transformers writes its default 50256 also for small vocabularies, where it never occurs.
    if (s->arch == CERO_ARCH_GPT2 && s->vocab_size <= 50256) {
        s->bos_token_id = s->bos_token_id == 50256 ? -1 : s->bos_token_id;
        if (s->eos_count == 1 && s->eos_token_id[0] == 50256) {
            s->eos_count = 0;
        }
    }
    for (int i = s->eos_count; i < CERO_MAX_EOS; i++) {
        s->eos_token_id[i] = 0;
    }
}

/* Name: the folder the file stands in, or the file's own name. */
static void set_name(const char *path, cero_model_spec *spec)
{
    const char *end = strrchr(path, '/');
    const char *start = end;

    if (end == NULL) {
        (void)snprintf(spec->name, sizeof(spec->name), "%s", path);
        return;
    }
    while (start > path && start[-1] != '/') {
        start--;
    }
    (void)snprintf(spec->name, sizeof(spec->name), "%.*s", (int)(end - start), start);
}

cero_status cero_model_spec_read_json(const char *path, const cero_json *root, cero_model_spec *out)
{
    cero_arch arch = CERO_ARCH_GPT2;

    CERO_TRY(root->type == CERO_JSON_OBJECT ? CERO_OK
                                            : CERO_JSON_FAIL(root, "expected an object, found %s",
                                                             cero_json_type_name(root->type)));
    CERO_TRY(read_arch(root, &arch));
    bool is_gpt2 = arch == CERO_ARCH_GPT2;
    cero_model_spec spec = is_gpt2 ? cero_model_gpt2_defaults() : cero_model_llama_defaults();
    cero_model_spec defaults = spec;
    reader r = {.spec = &spec};
    r.fields = cero_model_fields(arch, &r.count);
    for (const cero_json *v = root->child; v != NULL; v = v->next) {
        CERO_TRY(read_member(&r, v));
    }
    if (!is_gpt2) {
        CERO_TRY(check_rope_spellings(root, &defaults));
    }
    fill_derived(&spec);
    set_name(path, &spec);
    cero_status st = cero_model_spec_check(&spec);
    if (st != CERO_OK) {
        return cero_error_prefix(st, "%s: ", path);
    }
    *out = spec;
    return CERO_OK;
}

cero_status cero_model_spec_read(const char *path, cero_model_spec *out)
{
    cero_json_document *document = NULL;

    CERO_TRY(cero_json_read(path, NULL, 16 << 20, &document));
    cero_status st = cero_model_spec_read_json(path, cero_json_root(document), out);
    cero_json_destroy(&document);
    return st;
}

cero_status cero_model_spec_parse(const char *path, const char *bytes, size_t length,
                                  cero_model_spec *out)
{
    cero_json_document *document = NULL;

    CERO_TRY(cero_json_parse(path, bytes, length, NULL, &document));
    cero_status st = cero_model_spec_read_json(path, cero_json_root(document), out);
    cero_json_destroy(&document);
    return st;
}
