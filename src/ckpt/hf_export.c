/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Export: config, weights and tokenizer as save_pretrained lays them out. Files that are no weights are made in
 * hf_export_text.c.
 *
 * Order of work: measure and compare with the free space, write into the staging folder, open what was
 * written with the importer's own checks and compare hashes, then move all files to their place.
 */
#include "ckpt/hf_export_impl.h"

#include "base/file.h"
#include "base/memory.h"
#include "ckpt/convert.h"
#include "ckpt/shards.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/statvfs.h>

enum {
    SMALL_FILES = 64 * 1024 /* bytes set aside for config.json and its like, and for the folder */
};

#define DEFAULT_SHARD_BYTES 5000000000

static void export_cleanup(cero_hf_exporter *e)
{
    cero_staging_end(&e->staging);
    cero_hf_table_cleanup(&e->table);
    cero_delete(e->decl);
    cero_delete(e->hashes);
    cero_delete(e->nbytes);
    cero_delete(e->shard_of);
}

static cero_status check_params(const cero_hf_export_params *p)
{
    CERO_CHECK(p->dtype == CERO_DTYPE_F32 || p->dtype == CERO_DTYPE_BF16 ||
                   p->dtype == CERO_DTYPE_F16,
               CERO_ERR_INVALID, "models are exported as f32, bf16 or f16, not as %s",
               cero_dtype_name(p->dtype));
    CERO_CHECK(p->max_shard_bytes >= 0, CERO_ERR_INVALID,
               "the largest shard cannot have %lld bytes", (long long)p->max_shard_bytes);
    return CERO_OK;
}

/* Declarations and shards, from the table alone. */
static cero_status plan_weights(cero_hf_exporter *e)
{
    const cero_hf_export_params *p = e->params;

    CERO_TRY(cero_hf_table_init(p->spec, &e->table));
    size_t n = (size_t)e->table.param_count;
    e->decl = cero_new(n, sizeof(e->decl[0]));
    e->hashes = cero_new(n, sizeof(e->hashes[0]));
    e->nbytes = cero_new(n, sizeof(e->nbytes[0]));
    e->shard_of = cero_new(n, sizeof(e->shard_of[0]));
    if (e->decl == NULL || e->hashes == NULL || e->nbytes == NULL || e->shard_of == NULL) {
        return CERO_FAIL(CERO_ERR_NOMEM, "no memory to export %zu tensors", n);
    }
    for (size_t i = 0; i < n; i++) {
        const cero_hf_entry *entry = &e->table.entry[i];
        int64_t numel = cero_shape_numel(&entry->shape);
        e->decl[i] = (cero_safetensors_decl){.name = entry->name,
                                             .dtype = cero_safetensors_dtype_of(p->dtype),
                                             .shape = entry->shape};
        e->nbytes[i] = numel * (int64_t)cero_dtype_size(p->dtype);
        e->total_numel += numel;
        e->total_data += e->nbytes[i];
    }
    cero_shards_split(e->nbytes, (int64_t)n,
                      p->max_shard_bytes == 0 ? DEFAULT_SHARD_BYTES : p->max_shard_bytes,
                      e->shard_of, &e->shard_count);
    return CERO_OK;
}

/* Counts what cannot be read back as a number; says so when the tensor is through. */
static cero_status note_values(cero_hf_exporter *e, const cero_hf_entry *entry, int64_t begin,
                               int64_t numel, const float *x)
{
    // The smallest magnitudes that round to infinity; for F32 infinity itself.
    float limit = e->params->dtype == CERO_DTYPE_F16    ? 65520.0F
                  : e->params->dtype == CERO_DTYPE_BF16 ? 0x1.FFp127F
                                                        : INFINITY;

    if (begin == 0) {
        e->bad = 0;
    }
    for (int64_t i = 0; i < numel; i++) {
        if (!(fabsf(x[i]) < limit)) {
            e->first_bad = e->bad++ == 0 ? begin + i : e->first_bad;
        }
    }
    int64_t total = cero_shape_numel(&entry->shape);
    if (begin + numel == total && e->bad > 0) {
        return CERO_FAIL(CERO_ERR_NUMERIC,
                         "exporting %s: tensor %s has %lld values of %lld that are not finite as "
                         "%s, the first is element %lld; no model is written%s",
                         e->dir, entry->name, (long long)e->bad, (long long)total,
                         cero_dtype_name(e->params->dtype), (long long)e->first_bad,
                         e->params->dtype == CERO_DTYPE_F16 ? " (bf16 and f32 reach further)" : "");
    }
    return CERO_OK;
}

static cero_status give_values(void *context, int64_t index, int64_t begin, int64_t numel,
                               void *out)
{
    cero_hf_exporter *e = context;
    const cero_hf_entry *entry = &e->table.entry[e->first + index];

    CERO_TRY(e->params->source(e->params->context, entry->name, begin, numel, out));
    return note_values(e, entry, begin, numel, out);
}

/* What the writer needs for shard s, whose tensors are contiguous in the table. */
static cero_safetensors_write_params shard_params(cero_hf_exporter *e, int64_t s)
{
    static const char *const metadata[] = {"format", "pt"};
    int64_t first = 0;
    int64_t count = 0;

    while (e->shard_of[first] < s) {
        first++;
    }
    while (first + count < e->table.param_count && e->shard_of[first + count] == s) {
        count++;
    }
    e->first = first;
    return (cero_safetensors_write_params){
        .tensors = e->decl + first,
        .count = count,
        .metadata = metadata,
        .metadata_count = 1,
        .source = give_values,
        .context = e,
        .hashes = e->hashes + first,
    };
}

static cero_status check_space(cero_hf_exporter *e)
{
    struct statvfs info;
    char needed[32];
    char available[32];

    e->file_bytes = SMALL_FILES;
    for (int64_t s = 0; s < e->shard_count; s++) {
        int64_t nbytes;
        cero_safetensors_write_params params = shard_params(e, s);
        CERO_TRY(cero_safetensors_file_bytes(&params, &nbytes));
        e->file_bytes += nbytes;
    }
    CERO_TRY(cero_hf_export_measure_text(e));
    if (statvfs(cero_staging_path(e->staging), &info) != 0) {
        return CERO_FAIL(CERO_ERR_IO, "cannot ask for the free space of %s: %s", e->dir,
                         strerror(errno));
    }
    double free_bytes = (double)info.f_bavail * (double)info.f_frsize;
    if (free_bytes < (double)e->file_bytes) {
        return CERO_FAIL(
            CERO_ERR_IO, "exporting to %s needs %lld bytes (%s), %.0f (%s) are free there: %s",
            e->dir, (long long)e->file_bytes,
            cero_text_bytes((double)e->file_bytes, needed, sizeof(needed)), free_bytes,
            cero_text_bytes(free_bytes, available, sizeof(available)), strerror(ENOSPC));
    }
    return CERO_OK;
}

static cero_status stage_weights(cero_hf_exporter *e)
{
    for (int64_t s = 0; s < e->shard_count; s++) {
        char name[CERO_HF_EXPORT_NAME];
        cero_safetensors_write_params params = shard_params(e, s);
        char *path = cero_file_join(cero_staging_path(e->staging),
                                    cero_shards_name(s, e->shard_count, name, sizeof(name)));
        if (path == NULL) {
            return CERO_FAIL(CERO_ERR_NOMEM, "no memory to write %s", name);
        }
        cero_status st = cero_safetensors_write(path, &params);
        cero_delete(path);
        CERO_TRY(st);
        CERO_TRY(cero_staging_add(e->staging, name));
    }
    return e->shard_count > 1 ? cero_hf_export_stage_index(e) : CERO_OK;
}

static cero_status compare_weights(const cero_hf_exporter *e, const cero_shards *shards)
{
    for (int64_t i = 0; i < e->table.param_count; i++) {
        uint64_t hash = 0;
        const cero_shards_entry *stored = cero_shards_find(shards, e->decl[i].name);
        if (stored != NULL) {
            CERO_TRY(cero_safetensors_hash(stored->file, stored->tensor, &hash));
        }
        if (stored == NULL || stored->tensor->dtype != e->decl[i].dtype ||
            !cero_safetensors_shape_equal(stored->tensor, &e->decl[i].shape) ||
            hash != e->hashes[i]) {
            return CERO_FAIL(CERO_ERR_CORRUPT,
                             "exporting %s: tensor %s reads back other than it was written; the "
                             "disk or its file system is at fault",
                             e->dir, e->decl[i].name);
        }
    }
    return CERO_OK;
}

/* The importer's checks on the staged files, and every tensor's hash. */
static cero_status verify(cero_hf_exporter *e)
{
    cero_status st = CERO_OK;
    cero_hf_import *import = NULL;
    cero_shards *shards = NULL;
    cero_model_spec spec;
    char *config = cero_file_join(cero_staging_path(e->staging), "config.json");

    if (config == NULL) {
        return CERO_FAIL(CERO_ERR_NOMEM, "no memory to read %s back", e->dir);
    }
    CERO_TRY_GOTO(cero_model_spec_read(config, &spec), out);
    CERO_TRY_GOTO(cero_hf_import_open(cero_staging_path(e->staging), &spec, &import), out);
    CERO_TRY_GOTO(cero_shards_open(cero_staging_path(e->staging), &shards), out);
    CERO_TRY_GOTO(compare_weights(e, shards), out);

out:
    cero_shards_close(&shards);
    cero_hf_import_close(&import);
    cero_delete(config);
    return st;
}

/* "model-00001-of-00003.safetensors": a shard of save_pretrained or of an export. */
static bool is_shard_name(const char *name)
{
    size_t i = 6;

    if (strncmp(name, "model-", 6) != 0) {
        return false;
    }
    i += strspn(name + i, "0123456789");
    if (i == 6 || strncmp(name + i, "-of-", 4) != 0) {
        return false;
    }
    size_t digits = strspn(name + i + 4, "0123456789");
    return digits > 0 && strcmp(name + i + 4 + digits, ".safetensors") == 0;
}

static bool is_written(const cero_hf_exporter *e, const char *name)
{
    char mine[CERO_HF_EXPORT_NAME];

    for (int64_t s = 0; s < e->shard_count; s++) {
        if (strcmp(cero_shards_name(s, e->shard_count, mine, sizeof(mine)), name) == 0) {
            return true;
        }
    }
    return e->shard_count > 1 && strcmp(name, CERO_SHARDS_INDEX) == 0;
}

/* Weights of an earlier export under other names would be read instead of these, or beside them. */
static cero_status retire_old_weights(cero_hf_exporter *e)
{
    cero_status st = CERO_OK;
    cero_file_list list = {0};

    CERO_TRY(cero_file_list_dir(e->dir, false, &list));
    for (int64_t i = 0; i < list.count && st == CERO_OK; i++) {
        const char *slash = strrchr(list.path[i], '/');
        const char *name = slash == NULL ? list.path[i] : slash + 1;
        bool is_weights = strcmp(name, CERO_SHARDS_SINGLE) == 0 ||
                          strcmp(name, CERO_SHARDS_INDEX) == 0 || is_shard_name(name);
        if (is_weights && !is_written(e, name)) {
            st = cero_staging_retire(e->staging, name);
        }
    }
    cero_file_list_cleanup(&list);
    return st;
}

static int64_t count_bytes(const cero_hf_exporter *e)
{
    cero_file_list list = {0};
    int64_t total = 0;

    if (cero_file_list_dir(cero_staging_path(e->staging), false, &list) == CERO_OK) {
        for (int64_t i = 0; i < list.count; i++) {
            int64_t nbytes = 0;
            (void)cero_file_stat(list.path[i], &nbytes);
            total += nbytes;
        }
        cero_file_list_cleanup(&list);
    }
    return total;
}

static cero_status export_run(cero_hf_exporter *e)
{
    CERO_TRY(check_params(e->params));
    CERO_TRY(plan_weights(e));
    CERO_TRY(cero_staging_begin(e->dir, &e->staging));
    CERO_TRY(check_space(e));
    CERO_TRY(cero_hf_export_stage_tokenizer(e));
    CERO_TRY(stage_weights(e));
    CERO_TRY(retire_old_weights(e));
    CERO_TRY(cero_hf_export_stage_generation_config(e));
    CERO_TRY(cero_hf_export_stage_config(e));
    CERO_TRY(verify(e));
    int64_t nbytes = count_bytes(e);
    CERO_TRY(cero_staging_commit(e->staging));
    e->file_bytes = nbytes;
    return CERO_OK;
}

cero_status cero_hf_export(const char *dir, const cero_hf_export_params *params,
                           cero_hf_export_stats *stats)
{
    cero_hf_exporter e = {.params = params, .dir = dir};
    cero_status st = export_run(&e);

    if (st == CERO_OK && stats != NULL) {
        *stats = (cero_hf_export_stats){
            .params = e.total_numel, .nbytes = e.file_bytes, .shards = e.shard_count};
    }
    export_cleanup(&e);
    return st;
}
