/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The header of a safetensors file: its dtypes, and the checks every file has to pass.
 *
 * Rules of the reference (safetensors 0.8, tensor.rs): a JSON object without duplicate keys; offsets,
 * once sorted, contiguous from 0; each range exactly as long as shape times dtype says, computed without
 * overflow. Members of an entry that the format does not define are refused here.
 */
#include "ckpt/safetensors_impl.h"

#include "base/memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name;
    int bits;
} dtypes[] = {
    [CERO_SAFETENSORS_BOOL] = {"BOOL", 8},
    [CERO_SAFETENSORS_F4] = {"F4", 4},
    [CERO_SAFETENSORS_F6_E2M3] = {"F6_E2M3", 6},
    [CERO_SAFETENSORS_F6_E3M2] = {"F6_E3M2", 6},
    [CERO_SAFETENSORS_U8] = {"U8", 8},
    [CERO_SAFETENSORS_I8] = {"I8", 8},
    [CERO_SAFETENSORS_F8_E5M2] = {"F8_E5M2", 8},
    [CERO_SAFETENSORS_F8_E4M3] = {"F8_E4M3", 8},
    [CERO_SAFETENSORS_F8_E8M0] = {"F8_E8M0", 8},
    [CERO_SAFETENSORS_F8_E4M3FNUZ] = {"F8_E4M3FNUZ", 8},
    [CERO_SAFETENSORS_F8_E5M2FNUZ] = {"F8_E5M2FNUZ", 8},
    [CERO_SAFETENSORS_I16] = {"I16", 16},
    [CERO_SAFETENSORS_U16] = {"U16", 16},
    [CERO_SAFETENSORS_F16] = {"F16", 16},
    [CERO_SAFETENSORS_BF16] = {"BF16", 16},
    [CERO_SAFETENSORS_I32] = {"I32", 32},
    [CERO_SAFETENSORS_U32] = {"U32", 32},
    [CERO_SAFETENSORS_F32] = {"F32", 32},
    [CERO_SAFETENSORS_C64] = {"C64", 64},
    [CERO_SAFETENSORS_F64] = {"F64", 64},
    [CERO_SAFETENSORS_I64] = {"I64", 64},
    [CERO_SAFETENSORS_U64] = {"U64", 64},
};

_Static_assert(CERO_COUNT_OF(dtypes) == CERO_SAFETENSORS_COUNT, "every dtype has its line");

const char *cero_safetensors_dtype_name(cero_safetensors_dtype dtype)
{
    return dtypes[dtype].name;
}

int cero_safetensors_dtype_bits(cero_safetensors_dtype dtype)
{
    return dtypes[dtype].bits;
}

bool cero_safetensors_dtype_find(const char *name, cero_safetensors_dtype *out)
{
    for (int i = 0; i < CERO_SAFETENSORS_COUNT; i++) {
        if (strcmp(dtypes[i].name, name) == 0) {
            *out = (cero_safetensors_dtype)i;
            return true;
        }
    }
    return false;
}

bool cero_safetensors_dtype_bytes(cero_safetensors_dtype dtype, int64_t numel, int64_t *nbytes)
{
    int64_t bits;

    if (!cero_mul_i64(numel, dtypes[dtype].bits, &bits) || bits % 8 != 0) {
        return false;
    }
    *nbytes = bits / 8;
    return true;
}

cero_safetensors_dtype cero_safetensors_dtype_of(cero_dtype dtype)
{
    static const cero_safetensors_dtype of[] = {
        [CERO_DTYPE_F32] = CERO_SAFETENSORS_F32, [CERO_DTYPE_BF16] = CERO_SAFETENSORS_BF16,
        [CERO_DTYPE_F16] = CERO_SAFETENSORS_F16, [CERO_DTYPE_F64] = CERO_SAFETENSORS_F64,
        [CERO_DTYPE_I32] = CERO_SAFETENSORS_I32, [CERO_DTYPE_I64] = CERO_SAFETENSORS_I64,
        [CERO_DTYPE_U8] = CERO_SAFETENSORS_U8,
    };
    _Static_assert(CERO_COUNT_OF(of) == CERO_DTYPE_COUNT, "every dtype of ours has one in files");

    return of[dtype];
}

bool cero_safetensors_dtype_is_real(cero_safetensors_dtype dtype)
{
    return dtype == CERO_SAFETENSORS_F32 || dtype == CERO_SAFETENSORS_BF16 ||
           dtype == CERO_SAFETENSORS_F16 || dtype == CERO_SAFETENSORS_F64;
}

const char *cero_safetensors_quote(const char *name, char *text, size_t size)
{
    size_t n = 0;

    text[n++] = '"';
    for (; *name != '\0' && n + 6 < size; name++) {
        unsigned char c = (unsigned char)*name;
        text[n++] = c < 0x20 || c == 0x7F ? '?' : (char)c;
    }
    (void)snprintf(text + n, size - n, "%s", *name != '\0' ? "...\"" : "\"");
    return text;
}

bool cero_safetensors_shape_equal(const cero_safetensors_tensor *tensor, const cero_shape *shape)
{
    if (tensor->ndim != shape->ndim) {
        return false;
    }
    for (int i = 0; i < shape->ndim; i++) {
        if (tensor->dim[i] != shape->dim[i]) {
            return false;
        }
    }
    return true;
}

const char *cero_safetensors_shape_format(const cero_safetensors_tensor *tensor, char *text,
                                          size_t size)
{
    size_t n = (size_t)snprintf(text, size, "[");

    for (int i = 0; i < tensor->ndim && n + 28 < size; i++) {
        n += (size_t)snprintf(text + n, size - n, "%s%lld", i > 0 ? ", " : "",
                              (long long)tensor->dim[i]);
    }
    (void)snprintf(text + n, size - n, n + 28 < size ? "]" : ", ...]");
    return text;
}

/* A size or an offset: digits only, as the reference takes no sign, point or exponent. */
static cero_status parse_size(const cero_json *value, const char *what, int64_t *out)
{
    uint64_t x = 0;
    bool is_good = value->type == CERO_JSON_NUMBER;

    for (size_t i = 0; is_good && i < value->text_length; i++) {
        uint64_t digit = (uint64_t)(unsigned char)value->text[i] - '0';
        is_good = digit <= 9 && x <= ((uint64_t)INT64_MAX - digit) / 10;
        x = x * 10 + digit;
    }
    if (!is_good) {
        return CERO_FAIL(
            CERO_ERR_CORRUPT, "%s:%d:%d: %s must be a whole number from 0 to 2^63 - 1, found %.40s",
            value->file, value->line, value->column, what,
            value->type == CERO_JSON_NUMBER ? value->text : cero_json_type_name(value->type));
    }
    *out = (int64_t)x;
    return CERO_OK;
}

static cero_status fail_entry(const cero_json *entry, const char *problem)
{
    char name[CERO_SAFETENSORS_QUOTE];

    return CERO_FAIL(CERO_ERR_CORRUPT, "%s:%d:%d: tensor %s %s", entry->file, entry->line,
                     entry->column, cero_safetensors_quote(entry->key, name, sizeof(name)),
                     problem);
}

static cero_status parse_dtype(const cero_json *entry, const cero_json *value,
                               cero_safetensors_tensor *t)
{
    char name[CERO_SAFETENSORS_QUOTE];
    char problem[CERO_SAFETENSORS_QUOTE + 64];

    if (value->type != CERO_JSON_STRING) {
        return fail_entry(entry, "has a dtype that is no string");
    }
    if (strlen(value->text) != value->text_length ||
        !cero_safetensors_dtype_find(value->text, &t->dtype)) {
        (void)snprintf(problem, sizeof(problem), "has the dtype %s, which the format does not know",
                       cero_safetensors_quote(value->text, name, sizeof(name)));
        return fail_entry(entry, problem);
    }
    return CERO_OK;
}

static cero_status parse_shape(const cero_json *entry, const cero_json *value, int64_t *dim,
                               cero_safetensors_tensor *t)
{
    bool fits = true;

    if (value->type != CERO_JSON_ARRAY) {
        return fail_entry(entry, "has a shape that is no list");
    }
    t->dim = dim;
    t->ndim = cero_to_int(value->count);
    t->numel = 1;
    for (const cero_json *d = value->child; d != NULL; d = d->next) {
        CERO_TRY(parse_size(d, "a dimension", dim));
        fits = fits && cero_mul_i64(t->numel, *dim, &t->numel);
        dim++;
    }
    return fits ? CERO_OK : fail_entry(entry, "has a shape whose product is beyond 2^63 - 1");
}

/* One member of the header; `dim` has room for its shape. */
static cero_status parse_entry(const cero_json *entry, int64_t *dim, cero_safetensors_tensor *t)
{
    if (entry->type != CERO_JSON_OBJECT) {
        return fail_entry(entry, "is not described by an object");
    }
    const cero_json *dtype = cero_json_find(entry, "dtype");
    const cero_json *shape = cero_json_find(entry, "shape");
    const cero_json *offsets = cero_json_find(entry, "data_offsets");
    if (dtype == NULL || shape == NULL || offsets == NULL || entry->count != 3) {
        return fail_entry(entry, "must have dtype, shape and data_offsets, and nothing else");
    }
    t->name = entry->key;
    CERO_TRY(parse_dtype(entry, dtype, t));
    CERO_TRY(parse_shape(entry, shape, dim, t));
    if (offsets->type != CERO_JSON_ARRAY || offsets->count != 2) {
        return fail_entry(entry, "has data_offsets that are no list of two");
    }
    CERO_TRY(parse_size(offsets->child, "an offset", &t->begin));
    CERO_TRY(parse_size(offsets->child->next, "an offset", &t->end));
    return CERO_OK;
}

static cero_status check_metadata(const cero_json *metadata)
{
    if (metadata->type != CERO_JSON_OBJECT) {
        return CERO_FAIL(CERO_ERR_CORRUPT, "%s:%d:%d: __metadata__ must be an object, found %s",
                         metadata->file, metadata->line, metadata->column,
                         cero_json_type_name(metadata->type));
    }
    for (const cero_json *m = metadata->child; m != NULL; m = m->next) {
        if (m->type != CERO_JSON_STRING) {
            return CERO_FAIL(CERO_ERR_CORRUPT,
                             "%s:%d:%d: __metadata__ holds only strings, found %s", m->file,
                             m->line, m->column, cero_json_type_name(m->type));
        }
    }
    return CERO_OK;
}

static int compare_place(const void *left, const void *right)
{
    const cero_safetensors_tensor *a = left;
    const cero_safetensors_tensor *b = right;

    if (a->begin != b->begin) {
        return a->begin < b->begin ? -1 : 1;
    }
    if (a->end != b->end) {
        return a->end < b->end ? -1 : 1;
    }
    return strcmp(a->name, b->name);
}

static int compare_name(const void *left, const void *right)
{
    const cero_safetensors_tensor *const *a = left;
    const cero_safetensors_tensor *const *b = right;

    return strcmp((*a)->name, (*b)->name);
}

/* Tensors sorted by place: no hole, no overlap, each as long as its shape and dtype say. */
static cero_status check_places(const char *path, cero_safetensors_header *header)
{
    char name[CERO_SAFETENSORS_QUOTE];
    int64_t at = 0;

    for (int64_t i = 0; i < header->count; i++) {
        const cero_safetensors_tensor *t = &header->tensor[i];
        int64_t nbytes;
        (void)cero_safetensors_quote(t->name, name, sizeof(name));
        if (t->begin != at || t->end < t->begin) {
            return CERO_FAIL(CERO_ERR_CORRUPT,
                             "%s: tensor %s takes bytes %lld to %lld of the data, expected it to "
                             "start at %lld (%s)",
                             path, name, (long long)t->begin, (long long)t->end, (long long)at,
                             t->begin < at   ? "it overlaps the one before"
                             : t->begin > at ? "there is a hole before it"
                                             : "it ends before it starts");
        }
        if (!cero_safetensors_dtype_bytes(t->dtype, t->numel, &nbytes)) {
            return CERO_FAIL(CERO_ERR_CORRUPT,
                             "%s: tensor %s has %lld elements of %d bits, which is no number of "
                             "bytes a file can have",
                             path, name, (long long)t->numel, dtypes[t->dtype].bits);
        }
        if (nbytes != t->end - t->begin) {
            char shape[CERO_SAFETENSORS_QUOTE];
            return CERO_FAIL(CERO_ERR_CORRUPT,
                             "%s: tensor %s of shape %s and dtype %s needs %lld bytes, its offsets "
                             "%lld to %lld give it %lld",
                             path, name, cero_safetensors_shape_format(t, shape, sizeof(shape)),
                             dtypes[t->dtype].name, (long long)nbytes, (long long)t->begin,
                             (long long)t->end, (long long)(t->end - t->begin));
        }
        at = t->end;
    }
    header->data_bytes = at;
    return CERO_OK;
}

/* Room for tensors, their index and all their dimensions. */
static cero_status allocate_tables(const char *path, const cero_json *root,
                                   cero_safetensors_header *header)
{
    int64_t dims = 0;

    header->count = root->count - (cero_json_find(root, "__metadata__") != NULL);
    for (const cero_json *entry = root->child; entry != NULL; entry = entry->next) {
        const cero_json *shape =
            entry->type == CERO_JSON_OBJECT ? cero_json_find(entry, "shape") : NULL;
        dims += shape != NULL ? shape->count : 0;
    }
    size_t n = (size_t)header->count + 1;
    header->tensor = cero_new(n, sizeof(header->tensor[0]));
    header->by_name = cero_new(n, sizeof(header->by_name[0]));
    header->dim = cero_new((size_t)dims + 1, sizeof(header->dim[0]));
    if (header->tensor == NULL || header->by_name == NULL || header->dim == NULL) {
        return CERO_FAIL(CERO_ERR_NOMEM, "no memory for the %lld tensors of %s",
                         (long long)header->count, path);
    }
    return CERO_OK;
}

static cero_status read_entries(const char *path, const cero_json *root,
                                cero_safetensors_header *header)
{
    int64_t n = 0;
    int64_t dims = 0;

    if (root->type != CERO_JSON_OBJECT) {
        return CERO_FAIL(CERO_ERR_CORRUPT, "%s: the header must be a JSON object", path);
    }
    CERO_TRY(allocate_tables(path, root, header));
    for (const cero_json *entry = root->child; entry != NULL; entry = entry->next) {
        if (strcmp(entry->key, "__metadata__") != 0) {
            CERO_TRY(parse_entry(entry, header->dim + dims, &header->tensor[n]));
            dims += header->tensor[n++].ndim;
        } else if (entry->type != CERO_JSON_NULL) {
            CERO_TRY(check_metadata(entry));
            header->metadata = entry;
        }
    }
    qsort(header->tensor, (size_t)n, sizeof(header->tensor[0]), compare_place);
    for (int64_t i = 0; i < n; i++) {
        header->by_name[i] = &header->tensor[i];
    }
    qsort(header->by_name, (size_t)n, sizeof(header->by_name[0]), compare_name);
    return check_places(path, header);
}

cero_status cero_safetensors_header_parse(const char *path, const char *json, size_t length,
                                          cero_safetensors_header *out)
{
    cero_status st = CERO_OK;
    cero_safetensors_header header = {0};
    cero_text name = {0};

    if (length == 0 || json[0] != '{') {
        return CERO_FAIL(CERO_ERR_CORRUPT, "%s: the header of %zu bytes does not start with '{'",
                         path, length);
    }
    cero_text_printf(&name, "%s (header)", path);
    CERO_TRY_GOTO(cero_text_finish(&name), out);
    CERO_TRY_GOTO(cero_json_parse(name.data, json, length, NULL, &header.document), out);
    CERO_TRY_GOTO(read_entries(path, cero_json_root(header.document), &header), out);
    *out = header;

out:
    if (st != CERO_OK) {
        cero_safetensors_header_cleanup(&header);
    }
    cero_text_cleanup(&name);
    return st;
}

static int compare_key(const void *key, const void *element)
{
    const cero_safetensors_tensor *const *tensor = element;

    return strcmp(key, (*tensor)->name);
}

const cero_safetensors_tensor *cero_safetensors_header_find(const cero_safetensors_header *header,
                                                            const char *name)
{
    const cero_safetensors_tensor *const *found =
        bsearch(name, (const void *)header->by_name, (size_t)header->count,
                sizeof(header->by_name[0]), compare_key);

    return found == NULL ? NULL : *found;
}

void cero_safetensors_header_cleanup(cero_safetensors_header *header)
{
    cero_json_destroy(&header->document);
    cero_delete(header->tensor);
    cero_delete((void *)header->by_name);
    cero_delete(header->dim);
    *header = (cero_safetensors_header){0};
}
