/* SPDX-License-Identifier: Apache-2.0 */
/* Reading a checkpoint: its whole header is compared with the engine before anything changes. */
#include "train/checkpoint_impl.h"

#include "base/log.h"
#include "base/memory.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const char *find_metadata(const cero_safetensors *file, const char *key)
{
    const char *name;
    const char *value;

    for (int64_t i = 0; cero_safetensors_metadata(file, i, &name, &value); i++) {
        if (strcmp(name, key) == 0) {
            return value;
        }
    }
    return NULL;
}

static cero_status read_counters(const cero_safetensors *file, cero_engine_counters *out)
{
    const char *text = find_metadata(file, CERO_CHECKPOINT_SCALE);
    char *end = NULL;

    *out = (cero_engine_counters){0};
    out->zero.loss_scale = text != NULL ? strtod(text, &end) : 0.0;
    CERO_CHECK(text != NULL && end != text && *end == '\0' && out->zero.loss_scale > 0.0,
               CERO_ERR_CORRUPT, "%s: its %s is \"%.40s\"; expected a number above 0",
               cero_safetensors_path(file), CERO_CHECKPOINT_SCALE, text != NULL ? text : "");
    for (int k = 0; k < CERO_CHECKPOINT_COUNTERS; k++) {
        text = find_metadata(file, cero_checkpoint_counters[k].key);
        errno = 0;
        long long number = text != NULL ? strtoll(text, &end, 10) : 0;
        int64_t value = (int64_t)number;
        CERO_CHECK(text != NULL && end != text && *end == '\0' && errno == 0 && value >= -1,
                   CERO_ERR_CORRUPT, "%s: its %s is \"%.40s\"; expected a whole number",
                   cero_safetensors_path(file), cero_checkpoint_counters[k].key,
                   text != NULL ? text : "");
        memcpy((char *)out + cero_checkpoint_counters[k].offset, &value, sizeof(value));
    }
    return CERO_OK;
}

/* The file is a checkpoint, and of the same optimizer. */
static cero_status check_kind(const cero_engine *engine, const cero_safetensors *file)
{
    const char *format = find_metadata(file, "format");
    const char *optimizer = find_metadata(file, "optimizer");
    const char *own = cero_optim_type_name(cero_engine_spec(engine)->optimizer.type);

    CERO_CHECK(format != NULL && strcmp(format, CERO_CHECKPOINT_FORMAT) == 0, CERO_ERR_CORRUPT,
               "%s: its format is \"%.40s\"; expected \"%s\"", cero_safetensors_path(file),
               format != NULL ? format : "", CERO_CHECKPOINT_FORMAT);
    CERO_CHECK(optimizer != NULL && strcmp(optimizer, own) == 0, CERO_ERR_INVALID,
               "%s was saved with optimizer.type %.40s, and the config has %s: their states differ",
               cero_safetensors_path(file), optimizer != NULL ? optimizer : "(none)", own);
    return CERO_OK;
}

/* Every tensor of the engine is there, with its shape, and no other. */
static cero_status check_tensors(const cero_checkpoint_list *list, const cero_safetensors *file)
{
    char expected[128];
    char found[128];
    char name[CERO_SAFETENSORS_QUOTE];

    for (int64_t k = 0; k < list->count; k++) {
        const cero_safetensors_decl *decl = &list->decls[k];
        const cero_safetensors_tensor *t = cero_safetensors_find(file, decl->name);
        CERO_CHECK(
            t != NULL, CERO_ERR_INVALID,
            "%s has no tensor %s: it is of another model, or was saved with other parameters "
            "frozen",
            cero_safetensors_path(file), decl->name);
        CERO_CHECK(cero_safetensors_shape_equal(t, &decl->shape) &&
                       t->dtype == CERO_SAFETENSORS_F32,
                   CERO_ERR_INVALID, "%s: tensor %s is %s %s; expected F32 %s",
                   cero_safetensors_path(file), decl->name, cero_safetensors_dtype_name(t->dtype),
                   cero_safetensors_shape_format(t, found, sizeof(found)),
                   cero_shape_format(&decl->shape, expected, sizeof(expected)));
    }
    for (int64_t i = 0; cero_safetensors_count(file) > list->count; i++) {
        const char *extra = cero_safetensors_get(file, i)->name;
        int64_t k = 0;
        while (k < list->count && strcmp(list->decls[k].name, extra) != 0) {
            k++;
        }
        CERO_CHECK(
            k < list->count, CERO_ERR_INVALID,
            "%s has a tensor %s, and this model has not: it is of another model, or was saved "
            "with other parameters frozen",
            cero_safetensors_path(file), cero_safetensors_quote(extra, name, sizeof(name)));
    }
    return CERO_OK;
}

/* This rank's part of one tensor. */
static cero_status read_tensor(cero_engine *engine, const cero_checkpoint_tensor *t,
                               cero_safetensors *file, const char *name, float *span)
{
    const cero_safetensors_tensor *stored = cero_safetensors_find(file, name);
    int64_t begin = 0;
    int64_t numel = 0;

    if (t->moment < 0) {
        cero_engine_held_param(engine, t->param, &begin, &numel);
    } else {
        cero_engine_held_moment(engine, t->param, &begin, &numel);
    }
    for (int64_t at = begin; at < begin + numel; at += CERO_CHECKPOINT_SPAN) {
        int64_t n =
            begin + numel - at < CERO_CHECKPOINT_SPAN ? begin + numel - at : CERO_CHECKPOINT_SPAN;
        CERO_TRY(cero_safetensors_read_f32(file, stored, at, n, span));
        CERO_TRY(t->moment < 0 ? cero_engine_set_held(engine, t->param, at, n, span)
                               : cero_engine_set_moment(engine, t->param, t->moment, at, n, span));
    }
    return CERO_OK;
}

static cero_status read_all(cero_engine *engine, const cero_checkpoint_list *list,
                            cero_safetensors *file, float *span)
{
    for (int64_t k = 0; k < list->count; k++) {
        CERO_TRY(read_tensor(engine, &list->tensors[k], file, list->decls[k].name, span));
    }
    return CERO_OK;
}

static cero_status open_file(const cero_engine *engine, const cero_checkpoint_list *list,
                             const char *dir, const char *tag, cero_safetensors **file,
                             cero_engine_counters *values)
{
    cero_text path = {0};
    cero_status st = cero_checkpoint_path(dir, tag, false, &path);

    st = st == CERO_OK ? cero_safetensors_open(path.data, file) : st;
    cero_text_cleanup(&path);
    CERO_TRY(st);
    CERO_TRY(check_kind(engine, *file));
    CERO_TRY(check_tensors(list, *file));
    return read_counters(*file, values);
}

/* Nothing of the engine changes before every rank has found its file good. */
cero_status cero_checkpoint_read(cero_engine *engine, const char *dir, const char *tag,
                                 cero_step_stats *stats)
{
    cero_status st = CERO_OK;
    cero_comm *comm = cero_engine_comm(engine);
    cero_checkpoint_list list = {0};
    cero_safetensors *file = NULL;
    cero_engine_counters values;
    float *span = cero_new(CERO_CHECKPOINT_SPAN, sizeof(float));

    st = span != NULL ? cero_checkpoint_list_create(engine, &list)
                      : CERO_FAIL(CERO_ERR_NOMEM, "no memory to read a checkpoint");
    st = st == CERO_OK ? open_file(engine, &list, dir, tag, &file, &values) : st;
    CERO_TRY_GOTO(cero_comm_agree(comm, st), out);
    st = cero_comm_agree(comm, read_all(engine, &list, file, span));
    st = st == CERO_OK ? cero_engine_weights_set(engine) : st;
    if (st != CERO_OK) {
        cero_engine_poison(engine);
        goto out;
    }
    cero_engine_set_counters(engine, &values);
    if (stats != NULL) {
        *stats = (cero_step_stats){.step = values.step,
                                   .applied = values.zero.applied,
                                   .skipped = values.zero.skipped,
                                   .loss_scale = values.zero.loss_scale};
    }
    cero_log(CERO_LOG_INFO, "train", "loaded %s/%s, step %lld", dir, tag, (long long)values.step);
out:
    cero_safetensors_close(&file);
    cero_checkpoint_list_cleanup(&list);
    cero_delete(span);
    return st;
}
