/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Import: files of Hugging Face against the closed table, then data by range.
 *
 * Opening matches names both ways and compares shapes. Reading checks what only data can show: values
 * that are not finite, and a stored copy of a tied tensor that is no copy.
 */
#include "ckpt/hf.h"

#include "base/log.h"
#include "base/memory.h"
#include "ckpt/convert.h"
#include "ckpt/shards.h"

#include <stdio.h>
#include <string.h>

enum {
    PART_NUMEL = 64 * 1024, /* elements compared or counted at a time */
    LISTED = 6              /* names an error spells out */
};

struct cero_hf_import {
    cero_shards *shards;
    cero_hf_table table;
    const cero_shards_entry **found; /* [table.count], owned: where an entry is stored, or NULL */
    const cero_shards_entry **tied;  /* [table.param_count], owned: a parameter's stored copy */
    float *part;                     /* [PART_NUMEL], owned */
};

static const char *quote(const char *name, char *text)
{
    return cero_safetensors_quote(name, text, CERO_SAFETENSORS_QUOTE);
}

/* The entry of a stored name: as it is, or with the prefix that files of a bare model lack. */
static const cero_hf_entry *match(const cero_hf_table *table, const char *stored)
{
    char name[2 * CERO_HF_MAX_NAME];
    const cero_hf_entry *entry = cero_hf_table_find(table, stored);

    if (entry == NULL && strlen(stored) < CERO_HF_MAX_NAME) {
        (void)snprintf(name, sizeof(name), "%s%s", table->prefix, stored);
        entry = cero_hf_table_find(table, name);
    }
    return entry;
}

static const char *next_name(const void *context, int i)
{
    const cero_hf_table *table = context;

    return i < table->count ? table->entry[i].name : NULL;
}

static cero_status fail_unknown(const cero_hf_import *import, const char *dir, const char *stored)
{
    char name[CERO_SAFETENSORS_QUOTE];
    int64_t unknown = 0;
    const char *near = cero_text_nearest(stored, next_name, &import->table);

    for (int64_t i = 0; i < cero_shards_count(import->shards); i++) {
        unknown += match(&import->table, cero_shards_get(import->shards, i)->tensor->name) == NULL;
    }
    return CERO_FAIL(CERO_ERR_CORRUPT,
                     "importing %s: tensor %s is no part of the model that config.json describes "
                     "(%lld such tensors)%s%s",
                     dir, quote(stored, name), (long long)unknown,
                     near != NULL ? "; the nearest name is " : "", near != NULL ? near : "");
}

static cero_status match_stored(cero_hf_import *import, const char *dir)
{
    char first[CERO_SAFETENSORS_QUOTE];
    char second[CERO_SAFETENSORS_QUOTE];

    for (int64_t i = 0; i < cero_shards_count(import->shards); i++) {
        const cero_shards_entry *stored = cero_shards_get(import->shards, i);
        const cero_hf_entry *entry = match(&import->table, stored->tensor->name);
        if (entry == NULL) {
            return fail_unknown(import, dir, stored->tensor->name);
        }
        int64_t at = entry - import->table.entry;
        if (import->found[at] != NULL) {
            return CERO_FAIL(CERO_ERR_CORRUPT,
                             "importing %s: tensors %s and %s are two names of one parameter", dir,
                             quote(import->found[at]->tensor->name, first),
                             quote(stored->tensor->name, second));
        }
        import->found[at] = stored;
        if (entry->role == CERO_HF_TIED) {
            import->tied[entry->tied_to] = stored;
        }
    }
    return CERO_OK;
}

static cero_status check_missing(const cero_hf_import *import, const char *dir)
{
    cero_status st = CERO_OK;
    cero_text names = {0};
    int64_t missing = 0;

    for (int64_t i = 0; i < import->table.param_count; i++) {
        if (import->found[i] == NULL && missing++ < LISTED) {
            cero_text_printf(&names, "%s%s", missing > 1 ? ", " : "", import->table.entry[i].name);
        }
    }
    if (missing > 0) {
        st = CERO_FAIL(CERO_ERR_CORRUPT, "importing %s: %lld of %lld tensors are missing: %s%s",
                       dir, (long long)missing, (long long)import->table.param_count,
                       names.data != NULL ? names.data : "", missing > LISTED ? ", ..." : "");
    }
    cero_text_cleanup(&names);
    return st;
}

static cero_status check_stored(const cero_hf_import *import, const char *dir)
{
    char name[CERO_SAFETENSORS_QUOTE];
    char found[CERO_SAFETENSORS_QUOTE];
    char expected[CERO_SAFETENSORS_QUOTE];

    for (int64_t i = 0; i < import->table.count; i++) {
        const cero_hf_entry *entry = &import->table.entry[i];
        if (import->found[i] == NULL || entry->role == CERO_HF_IGNORED) {
            continue;
        }
        const cero_safetensors_tensor *t = import->found[i]->tensor;
        if (!cero_safetensors_shape_equal(t, &entry->shape)) {
            return CERO_FAIL(
                CERO_ERR_SHAPE, "importing %s: tensor %s has the shape %s, config.json asks for %s",
                dir, quote(t->name, name), cero_safetensors_shape_format(t, found, sizeof(found)),
                cero_shape_format(&entry->shape, expected, sizeof(expected)));
        }
        if (!cero_safetensors_dtype_is_real(t->dtype)) {
            return CERO_FAIL(CERO_ERR_UNSUPPORTED,
                             "importing %s: tensor %s is stored as %s, expected F32, BF16, F16 or "
                             "F64 (quantised models are not read)",
                             dir, quote(t->name, name), cero_safetensors_dtype_name(t->dtype));
        }
    }
    return CERO_OK;
}

/* One line for each of the two kinds of tensors that are there and not used as they are. */
static void log_unused(const cero_hf_import *import, const char *dir)
{
    char name[CERO_SAFETENSORS_QUOTE];

    for (int64_t i = import->table.param_count; i < import->table.count; i++) {
        if (import->found[i] == NULL) {
            continue;
        }
        (void)quote(import->found[i]->tensor->name, name);
        if (import->table.entry[i].role == CERO_HF_TIED) {
            cero_log(CERO_LOG_INFO, "ckpt", "importing %s: tensor %s is tied and only compared",
                     dir, name);
        } else {
            cero_log(CERO_LOG_INFO, "ckpt", "importing %s: ignored the buffer %s", dir, name);
        }
    }
}

cero_status cero_hf_import_open(const char *dir, const cero_model_spec *spec, cero_hf_import **out)
{
    cero_status st = CERO_OK;
    cero_hf_import *import = cero_new(1, sizeof(*import));

    if (import == NULL) {
        return CERO_FAIL(CERO_ERR_NOMEM, "no memory to import %s", dir);
    }
    CERO_TRY_GOTO(cero_hf_table_init(spec, &import->table), fail);
    CERO_TRY_GOTO(cero_shards_open(dir, &import->shards), fail);
    import->found = cero_new((size_t)import->table.count, sizeof(import->found[0]));
    import->tied = cero_new((size_t)import->table.param_count, sizeof(import->tied[0]));
    import->part = cero_new(PART_NUMEL, sizeof(float));
    if (import->found == NULL || import->tied == NULL || import->part == NULL) {
        CERO_FAIL_GOTO(fail, CERO_ERR_NOMEM, "no memory to import %s", dir);
    }
    CERO_TRY_GOTO(match_stored(import, dir), fail);
    CERO_TRY_GOTO(check_missing(import, dir), fail);
    CERO_TRY_GOTO(check_stored(import, dir), fail);
    log_unused(import, dir);
    *out = import;
    return CERO_OK;

fail:
    cero_hf_import_close(&import);
    return st;
}

void cero_hf_import_close(cero_hf_import **import)
{
    if (import == NULL || *import == NULL) {
        return;
    }
    cero_shards_close(&(*import)->shards);
    cero_hf_table_cleanup(&(*import)->table);
    cero_delete((void *)(*import)->found);
    cero_delete((void *)(*import)->tied);
    cero_delete((*import)->part);
    cero_delete(*import);
    *import = NULL;
}

const cero_hf_table *cero_hf_import_table(const cero_hf_import *import)
{
    return &import->table;
}

int64_t cero_hf_import_bytes_read(const cero_hf_import *import)
{
    return cero_shards_bytes_read(import->shards);
}

/* A bad value was met: counts all of the tensor, as the whole number is what helps. */
static cero_status fail_not_finite(cero_hf_import *import, const cero_shards_entry *stored)
{
    char name[CERO_SAFETENSORS_QUOTE];
    int64_t numel = stored->tensor->numel;
    int64_t total = 0;
    int64_t first = 0;

    for (int64_t done = 0; done < numel; done += PART_NUMEL) {
        int64_t n = numel - done < PART_NUMEL ? numel - done : PART_NUMEL;
        int64_t at = 0;
        CERO_TRY(cero_safetensors_read_f32(stored->file, stored->tensor, done, n, import->part));
        int64_t count = cero_convert_count_not_finite(import->part, n, &at);
        first = total == 0 ? done + at : first;
        total += count;
    }
    return CERO_FAIL(CERO_ERR_NUMERIC,
                     "%s: tensor %s has %lld values of %lld that are not finite (NaN or infinite), "
                     "the first is element %lld; a model with them cannot be trained",
                     cero_safetensors_path(stored->file), quote(stored->tensor->name, name),
                     (long long)total, (long long)numel, (long long)first);
}

/* x[0..numel) was read from `stored`; the copy over the same range must be equal. */
static cero_status check_tied(cero_hf_import *import, const cero_shards_entry *stored,
                              const cero_shards_entry *copy, int64_t begin, int64_t numel,
                              const float *x)
{
    char name[CERO_SAFETENSORS_QUOTE];
    char other[CERO_SAFETENSORS_QUOTE];

    for (int64_t done = 0; done < numel; done += PART_NUMEL) {
        int64_t n = numel - done < PART_NUMEL ? numel - done : PART_NUMEL;
        CERO_TRY(
            cero_safetensors_read_f32(copy->file, copy->tensor, begin + done, n, import->part));
        for (int64_t i = 0; i < n; i++) {
            if (!(import->part[i] == x[done + i])) {
                return CERO_FAIL(CERO_ERR_CORRUPT,
                                 "%s: config.json ties tensor %s to %s, but they differ: element "
                                 "%lld is %.9g and %.9g; set tie_word_embeddings to false or "
                                 "remove one",
                                 cero_safetensors_path(copy->file), quote(copy->tensor->name, name),
                                 quote(stored->tensor->name, other), (long long)(begin + done + i),
                                 (double)import->part[i], (double)x[done + i]);
            }
        }
    }
    return CERO_OK;
}

cero_status cero_hf_import_read(cero_hf_import *import, const char *name, int64_t begin,
                                int64_t numel, float *out)
{
    int64_t first;
    const cero_hf_entry *entry = cero_hf_table_find(&import->table, name);

    CERO_CHECK(entry != NULL && entry->role == CERO_HF_PARAM, CERO_ERR_INVALID,
               "%s is not a parameter of the model that is imported", name);
    int64_t at = entry - import->table.entry;
    const cero_shards_entry *stored = import->found[at];
    CERO_TRY(cero_safetensors_read_f32(stored->file, stored->tensor, begin, numel, out));
    if (cero_convert_count_not_finite(out, numel, &first) > 0) {
        return fail_not_finite(import, stored);
    }
    if (import->tied[at] != NULL) {
        CERO_TRY(check_tied(import, stored, import->tied[at], begin, numel, out));
    }
    return CERO_OK;
}
