/* SPDX-License-Identifier: Apache-2.0 */
/* Whether a checkpoint is of this model and optimizer, by its manifest alone; every difference is named. */
#include "train/checkpoint/loader_impl.h"

#include "base/log.h"
#include "ckpt/safetensors.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum {
    MAX_NAMED = 16 /* differences that a message names */
};

/* What differs: for a message, or for the log. */
typedef struct differences {
    cero_text text;
    int64_t count;
} differences;

CERO_PRINTF(2, 3)
static void add(differences *d, const char *fmt, ...)
{
    char line[512];
    va_list args;

    va_start(args, fmt);
    (void)vsnprintf(line, sizeof(line), fmt, args);
    va_end(args);
    if (d->count++ < MAX_NAMED) {
        cero_text_printf(&d->text, "%s%s", d->text.length > 0 ? "; " : "", line);
    }
}

static bool is_wanted(const cero_loader *loader, int64_t k)
{
    return loader->params->content == CERO_LOADER_ALL || loader->list.sources[k].moment < 0;
}

/* Finds tensor k of the engine; notes when it is not there, or has another shape. */
static void find_tensor(cero_loader *loader, const cero_manifest *manifest, int64_t k,
                        differences *d)
{
    const cero_rank_file_tensor *t = &loader->list.tensors[k];
    int64_t i = cero_manifest_find(manifest, t->name);
    char expected[128];
    char found[128];

    loader->stored[k] = -1;
    if (i < 0) {
        add(d, "tensor %s is not there", t->name);
    } else if (!cero_shape_equal(&manifest->tensors[i].shape, &t->shape)) {
        add(d, "tensor %s is %s; expected %s", t->name,
            cero_shape_format(&manifest->tensors[i].shape, found, sizeof(found)),
            cero_shape_format(&t->shape, expected, sizeof(expected)));
    } else {
        loader->stored[k] = i;
    }
}

/* Notes tensors of the checkpoint that no tensor of the engine has the name of. */
static cero_status find_extra(const cero_loader *loader, const cero_manifest *manifest,
                              differences *d)
{
    bool *is_known = cero_new((size_t)manifest->tensor_count, sizeof(bool));
    char name[CERO_SAFETENSORS_QUOTE];

    CERO_CHECK(is_known != NULL, CERO_ERR_NOMEM, "no memory for the names of %lld tensors",
               (long long)manifest->tensor_count);
    for (int64_t k = 0; k < loader->list.count; k++) {
        int64_t i = cero_manifest_find(manifest, loader->list.tensors[k].name);
        if (i >= 0) {
            is_known[i] = true;
        }
    }
    for (int64_t i = 0; i < manifest->tensor_count; i++) {
        bool is_moment = strncmp(manifest->tensors[i].name, "optim.", 6) == 0;
        if (!is_known[i] && (loader->params->content == CERO_LOADER_ALL || !is_moment)) {
            add(d, "tensor %s is in no place of this model",
                cero_safetensors_quote(manifest->tensors[i].name, name, sizeof(name)));
        }
    }
    cero_delete(is_known);
    return CERO_OK;
}

static cero_status find_tensors(cero_loader *loader, const cero_manifest *manifest, differences *d)
{
    int64_t before = 0;

    loader->kept = 0;
    for (int64_t k = 0; k < loader->list.count; k++) {
        loader->stored[k] = -1;
        if (is_wanted(loader, k)) {
            before = d->count;
            find_tensor(loader, manifest, k, d);
            loader->kept += d->count - before;
        }
    }
    return find_extra(loader, manifest, d);
}

static cero_status check_differences(cero_loader *loader, const char *path, differences *d)
{
    CERO_TRY(cero_text_finish(&d->text));
    if (d->count > MAX_NAMED) {
        cero_text_printf(&d->text, "; and %lld more", (long long)(d->count - MAX_NAMED));
    }
    if (d->count == 0) {
        return CERO_OK;
    }
    CERO_CHECK(loader->params->is_partial, CERO_ERR_INVALID,
               "%s is of another model, or was saved with other parameters frozen; %lld tensors "
               "differ: %s",
               path, (long long)d->count, d->text.data);
    // A candidate that was given up has left values in tensors that this one may lack.
    CERO_CHECK(
        !loader->is_changed || loader->kept == 0, CERO_ERR_CORRUPT,
        "%s lacks tensors, of which a newer checkpoint that does not verify was read before: %s",
        path, d->text.data);
    cero_log(CERO_LOG_INFO, "train", "%s is loaded in part; what is not there keeps its values: %s",
             path, d->text.data);
    return CERO_OK;
}

/* Moments of another optimizer mean something else. */
static cero_status check_optimizer(const cero_loader *loader, const char *path,
                                   const char *optimizer)
{
    const char *own = cero_optim_type_name(cero_engine_spec(loader->engine)->optimizer.type);

    CERO_CHECK(
        loader->params->content == CERO_LOADER_WEIGHTS || strcmp(optimizer, own) == 0,
        CERO_ERR_INVALID,
        "%s was saved with optimizer.type %.40s, and the config has %s: their states differ; "
        "load the weights alone, or use the same optimizer",
        path, optimizer, own);
    return CERO_OK;
}

cero_status cero_loader_match(cero_loader *loader, const cero_manifest *manifest,
                              cero_engine_counters *counters)
{
    const char *path = manifest->root->file;
    const char *optimizer = NULL;
    differences d = {0};

    CERO_TRY(cero_engine_section_read(manifest, counters, &optimizer));
    CERO_TRY(check_optimizer(loader, path, optimizer));
    cero_status st = find_tensors(loader, manifest, &d);
    st = st == CERO_OK ? check_differences(loader, path, &d) : st;
    cero_text_cleanup(&d.text);
    return st;
}
