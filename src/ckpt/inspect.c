/* SPDX-License-Identifier: Apache-2.0 */
/* Lists of tensors: one file in the order of its data, a directory by name. No data is read. */
#include "ckpt/inspect.h"

#include "base/file.h"
#include "base/memory.h"
#include "ckpt/safetensors.h"
#include "ckpt/shards.h"

#include <stdio.h>
#include <string.h>

typedef struct total {
    int64_t tensors;
    int64_t numel;
    int64_t nbytes;
} total;

/* A file or a directory; the other is NULL. */
typedef struct subject {
    const char *path;
    cero_safetensors *file;
    cero_shards *shards;
} subject;

static int64_t subject_count(const subject *s)
{
    return s->file != NULL ? cero_safetensors_count(s->file) : cero_shards_count(s->shards);
}

static const cero_safetensors_tensor *subject_get(const subject *s, int64_t i, const char **file)
{
    if (s->file != NULL) {
        *file = NULL;
        return cero_safetensors_get(s->file, i);
    }
    const cero_shards_entry *entry = cero_shards_get(s->shards, i);
    const char *path = cero_safetensors_path(entry->file);
    const char *slash = strrchr(path, '/');
    *file = slash == NULL ? path : slash + 1;
    return entry->tensor;
}

static void sum_up(const subject *s, total by_dtype[CERO_SAFETENSORS_COUNT], total *all)
{
    const char *file;

    memset(by_dtype, 0, CERO_SAFETENSORS_COUNT * sizeof(by_dtype[0]));
    *all = (total){0};
    for (int64_t i = 0; i < subject_count(s); i++) {
        const cero_safetensors_tensor *t = subject_get(s, i, &file);
        total *of[] = {&by_dtype[t->dtype], all};
        for (size_t k = 0; k < CERO_COUNT_OF(of); k++) {
            of[k]->tensors++;
            of[k]->numel += t->numel;
            of[k]->nbytes += t->end - t->begin;
        }
    }
}

static void put_string(cero_text *out, const char *text)
{
    cero_text_append_json_string(out, text, strlen(text));
}

static void put_total(cero_text *out, const total *t, const char *count)
{
    cero_text_printf(out, "\"%s\": %lld, \"numel\": %lld, \"bytes\": %lld", count,
                     (long long)t->tensors, (long long)t->numel, (long long)t->nbytes);
}

static void put_json_tensor(cero_text *out, const cero_safetensors_tensor *t, const char *file)
{
    cero_text_printf(out, "{\"name\": ");
    put_string(out, t->name);
    cero_text_printf(out, ", \"dtype\": \"%s\", \"shape\": [",
                     cero_safetensors_dtype_name(t->dtype));
    for (int i = 0; i < t->ndim; i++) {
        cero_text_printf(out, "%s%lld", i > 0 ? ", " : "", (long long)t->dim[i]);
    }
    cero_text_printf(out, "], \"numel\": %lld, \"bytes\": %lld", (long long)t->numel,
                     (long long)(t->end - t->begin));
    if (file != NULL) {
        cero_text_printf(out, ", \"file\": ");
        put_string(out, file);
    }
    cero_text_printf(out, "}");
}

static void put_json_metadata(cero_text *out, const cero_safetensors *file)
{
    const char *key;
    const char *value;

    cero_text_printf(out, " \"metadata\": {");
    for (int64_t i = 0; cero_safetensors_metadata(file, i, &key, &value); i++) {
        cero_text_printf(out, "%s", i > 0 ? ", " : "");
        put_string(out, key);
        cero_text_printf(out, ": ");
        put_string(out, value);
    }
    cero_text_printf(out, "},\n");
}

static void put_json(cero_text *out, const subject *s)
{
    total by_dtype[CERO_SAFETENSORS_COUNT];
    total all;
    const char *separator = "";

    sum_up(s, by_dtype, &all);
    cero_text_printf(out, "{\"path\": ");
    put_string(out, s->path);
    cero_text_printf(out, ",\n \"files\": %d,\n",
                     s->file != NULL ? 1 : cero_shards_file_count(s->shards));
    if (s->file != NULL) {
        put_json_metadata(out, s->file);
    }
    cero_text_printf(out, " \"tensors\": [");
    for (int64_t i = 0; i < subject_count(s); i++) {
        const char *file;
        const cero_safetensors_tensor *t = subject_get(s, i, &file);
        cero_text_printf(out, "%s\n  ", i > 0 ? "," : "");
        put_json_tensor(out, t, file);
    }
    cero_text_printf(out, "],\n \"totals\": {");
    for (int i = 0; i < CERO_SAFETENSORS_COUNT; i++) {
        if (by_dtype[i].tensors > 0) {
            cero_text_printf(out, "%s\"%s\": {", separator,
                             cero_safetensors_dtype_name((cero_safetensors_dtype)i));
            put_total(out, &by_dtype[i], "tensors");
            cero_text_printf(out, "}");
            separator = ", ";
        }
    }
    cero_text_printf(out, "},\n ");
    put_total(out, &all, "tensor_count");
    cero_text_printf(out, "}\n");
}

static void put_text_line(cero_text *out, const cero_safetensors_tensor *t, const char *file)
{
    char name[256];
    char shape[CERO_SAFETENSORS_QUOTE];
    char nbytes[32];

    (void)cero_safetensors_quote(t->name, name, sizeof(name));
    cero_text_printf(out, "%-50s %-8s %-20s %12s", name, cero_safetensors_dtype_name(t->dtype),
                     cero_safetensors_shape_format(t, shape, sizeof(shape)),
                     cero_text_bytes((double)(t->end - t->begin), nbytes, sizeof(nbytes)));
    cero_text_printf(out, "%s%s\n", file != NULL ? "  " : "", file != NULL ? file : "");
}

static void put_text_total(cero_text *out, const char *name, const total *t)
{
    char nbytes[32];

    cero_text_printf(out, "%-8s %lld tensors, %lld elements, %lld bytes (%s)\n", name,
                     (long long)t->tensors, (long long)t->numel, (long long)t->nbytes,
                     cero_text_bytes((double)t->nbytes, nbytes, sizeof(nbytes)));
}

static void put_text(cero_text *out, const subject *s)
{
    total by_dtype[CERO_SAFETENSORS_COUNT];
    total all;
    char quoted[2][256];
    const char *key;
    const char *value;

    sum_up(s, by_dtype, &all);
    cero_text_printf(out, "%s\n", s->path);
    for (int64_t i = 0; s->file != NULL && cero_safetensors_metadata(s->file, i, &key, &value);
         i++) {
        cero_text_printf(out, "metadata %s: %s\n",
                         cero_safetensors_quote(key, quoted[0], sizeof(quoted[0])),
                         cero_safetensors_quote(value, quoted[1], sizeof(quoted[1])));
    }
    for (int64_t i = 0; i < subject_count(s); i++) {
        const char *file;
        const cero_safetensors_tensor *t = subject_get(s, i, &file);
        put_text_line(out, t, file);
    }
    for (int i = 0; i < CERO_SAFETENSORS_COUNT; i++) {
        if (by_dtype[i].tensors > 0) {
            put_text_total(out, cero_safetensors_dtype_name((cero_safetensors_dtype)i),
                           &by_dtype[i]);
        }
    }
    put_text_total(out, "total", &all);
}

cero_status cero_ckpt_inspect_safetensors(const char *path, cero_text *out, bool as_json)
{
    subject s = {.path = path};

    if (cero_file_stat(path, NULL) == CERO_FILE_DIRECTORY) {
        CERO_TRY(cero_shards_open(path, &s.shards));
    } else {
        CERO_TRY(cero_safetensors_open(path, &s.file));
    }
    if (as_json) {
        put_json(out, &s);
    } else {
        put_text(out, &s);
    }
    cero_safetensors_close(&s.file);
    cero_shards_close(&s.shards);
    return cero_text_finish(out);
}
