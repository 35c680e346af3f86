/* SPDX-License-Identifier: Apache-2.0 */
/* Writing a checkpoint: rank 0 streams the file and asks the owners for what comes next; `latest` follows it. */
#include "train/checkpoint_impl.h"

#include "base/file.h"
#include "base/log.h"
#include "base/memory.h"

#include <stdio.h>
#include <string.h>

enum {
    FIXED = 3, /* format, optimizer, scale */
    METADATA = FIXED + CERO_CHECKPOINT_COUNTERS
};

/* Keys and values, which are views into `text` or static. */
typedef struct metadata {
    const char *pairs[2 * METADATA];
    char numbers[METADATA][64];
} metadata;

static void make_metadata(const cero_engine *engine, metadata *m)
{
    cero_engine_counters values;
    cero_optim_type optimizer = cero_engine_spec(engine)->optimizer.type;

    cero_engine_get_counters(engine, &values);
    (void)snprintf(m->numbers[0], sizeof(m->numbers[0]), "%.17g", values.zero.loss_scale);
    const char *fixed[] = {"format",
                           CERO_CHECKPOINT_FORMAT,
                           "optimizer",
                           cero_optim_type_name(optimizer),
                           CERO_CHECKPOINT_SCALE,
                           m->numbers[0]};
    memcpy((void *)m->pairs, (const void *)fixed, sizeof(fixed));
    for (int k = 0; k < CERO_CHECKPOINT_COUNTERS; k++) {
        int64_t value;
        memcpy(&value, (const char *)&values + cero_checkpoint_counters[k].offset, sizeof(value));
        (void)snprintf(m->numbers[FIXED + k], sizeof(m->numbers[0]), "%lld", (long long)value);
        m->pairs[2 * (FIXED + k)] = cero_checkpoint_counters[k].key;
        m->pairs[2 * (FIXED + k) + 1] = m->numbers[FIXED + k];
    }
}

/* Weights or a moment on all ranks. Collective. */
static cero_status get_values(cero_engine *engine, const cero_checkpoint_tensor *t, int64_t begin,
                              int64_t n, float *out)
{
    return t->moment < 0 ? cero_engine_get_param(engine, t->param, begin, n, out)
                         : cero_engine_get_moment(engine, t->param, t->moment, begin, n, out);
}

/* What rank 0 wants next of a tensor; index -1: no more. */
typedef struct request {
    int64_t index;
    int64_t begin;
    int64_t n;
} request;

typedef struct writing {
    cero_engine *engine;
    const cero_checkpoint_list *list;
} writing;

/* On rank 0: the others wait in serve. */
static cero_status give(void *context, int64_t index, int64_t begin, int64_t numel, void *out)
{
    const writing *w = context;
    float *values = out;

    for (int64_t at = 0; at < numel; at += CERO_CHECKPOINT_SPAN) {
        request r = {.index = index,
                     .begin = begin + at,
                     .n = numel - at < CERO_CHECKPOINT_SPAN ? numel - at : CERO_CHECKPOINT_SPAN};
        CERO_TRY(cero_comm_broadcast(cero_engine_comm(w->engine), &r, sizeof(r), 0));
        CERO_TRY(get_values(w->engine, &w->list->tensors[index], r.begin, r.n, values + at));
    }
    return CERO_OK;
}

static cero_status serve(cero_engine *engine, const cero_checkpoint_list *list, float *span)
{
    request r = {0};

    for (;;) {
        CERO_TRY(cero_comm_broadcast(cero_engine_comm(engine), &r, sizeof(r), 0));
        if (r.index < 0) {
            return CERO_OK;
        }
        CERO_TRY(get_values(engine, &list->tensors[r.index], r.begin, r.n, span));
    }
}

static cero_status write_file(cero_engine *engine, const cero_checkpoint_list *list,
                              const char *dir, const char *tag)
{
    cero_status st = CERO_OK;
    cero_text folder = {0};
    cero_text path = {0};
    metadata m;
    writing w = {.engine = engine, .list = list};

    make_metadata(engine, &m);
    cero_safetensors_write_params params = {.tensors = list->decls,
                                            .count = list->count,
                                            .metadata = m.pairs,
                                            .metadata_count = METADATA,
                                            .source = give,
                                            .context = &w};
    CERO_TRY_GOTO(cero_checkpoint_path(dir, tag, true, &folder), out);
    CERO_TRY_GOTO(cero_checkpoint_path(dir, tag, false, &path), out);
    CERO_TRY_GOTO(cero_file_make_dir(folder.data), out);
    CERO_TRY_GOTO(cero_safetensors_write(path.data, &params), out);
out:
    cero_text_cleanup(&folder);
    cero_text_cleanup(&path);
    return st;
}

static cero_status write_latest(const char *dir, const char *tag)
{
    cero_status st = CERO_OK;
    cero_file_writer *writer = NULL;
    char *path = cero_file_join(dir, "latest");

    CERO_CHECK(path != NULL, CERO_ERR_NOMEM, "no memory for a path in %s", dir);
    CERO_TRY_GOTO(cero_file_writer_open(path, CERO_FILE_REPLACE, &writer), out);
    CERO_TRY_GOTO(cero_file_writer_write(writer, tag, strlen(tag)), out);
    CERO_TRY_GOTO(cero_file_writer_write(writer, "\n", 1), out);
    CERO_TRY_GOTO(cero_file_writer_commit(writer), out);
out:
    cero_file_writer_close(&writer);
    cero_delete(path);
    return st;
}

/* On rank 0. Whatever fails, the others learn that nothing more is asked of them. */
static cero_status write_all(cero_engine *engine, const cero_checkpoint_list *list, const char *dir,
                             const char *tag)
{
    request end = {.index = -1};
    cero_status st = write_file(engine, list, dir, tag);

    if (st == CERO_ERR_COMM || st == CERO_ERR_REMOTE) {
        return st;
    }
    cero_status sent = cero_comm_broadcast(cero_engine_comm(engine), &end, sizeof(end), 0);
    if (st == CERO_OK && sent == CERO_OK) {
        st = write_latest(dir, tag);
    }
    return st != CERO_OK ? st : sent;
}

cero_status cero_checkpoint_write(cero_engine *engine, const char *dir, const char *tag)
{
    cero_status st = CERO_OK;
    cero_comm *comm = cero_engine_comm(engine);
    cero_checkpoint_list list = {0};
    float *span = cero_new(CERO_CHECKPOINT_SPAN, sizeof(float));

    st = span != NULL ? cero_checkpoint_list_create(engine, &list)
                      : CERO_FAIL(CERO_ERR_NOMEM, "no memory to write a checkpoint");
    CERO_TRY_GOTO(cero_comm_agree(comm, st), out);
    st =
        cero_comm_rank(comm) == 0 ? write_all(engine, &list, dir, tag) : serve(engine, &list, span);
    CERO_TRY_GOTO(cero_comm_agree(comm, st), out);
    cero_log(CERO_LOG_INFO, "train", "saved %s/%s", dir, tag);
out:
    cero_checkpoint_list_cleanup(&list);
    cero_delete(span);
    return st;
}
