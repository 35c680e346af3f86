/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Weights of a trainer in and out of Hugging Face's files. On the way in every rank reads what it holds; on the
 * way out one rank writes, and asks the others for what it has not, range by range.
 */
#include "train/train_impl.h"

#include "base/fault.h"
#include "base/log.h"
#include "train/same.h"

/* Elements of a parameter that are read or written at once: 4 MiB of f32. */
enum {
    STREAM_SPAN = 1 << 20
};

/* A rank reads what it holds. The arena is free between steps: it is the buffer of weights on their way in. */
static cero_status import_param(cero_trainer *trainer, cero_hf_import *import, int64_t i)
{
    cero_param_info info = cero_engine_param_info(trainer->engine, i);
    size_t nbytes = 0;
    float *span = cero_engine_arena(trainer->engine, &nbytes);
    int64_t most = (int64_t)(nbytes / sizeof(float));
    int64_t begin = 0;
    int64_t numel = 0;

    cero_engine_held_param(trainer->engine, i, &begin, &numel);
    for (int64_t at = begin; at < begin + numel; at += most) {
        int64_t n = begin + numel - at < most ? begin + numel - at : most;
        CERO_TRY(cero_hf_import_read(import, info.name, at, n, span));
        CERO_TRY(cero_engine_set_held(trainer->engine, i, at, n, span));
    }
    return CERO_OK;
}

static cero_status import_held(cero_trainer *trainer, const char *dir, uint64_t *hash)
{
    cero_status st = CERO_OK;
    cero_hf_import *import = NULL;

    *hash = 0;
    CERO_TRY_GOTO(cero_hf_import_open(dir, trainer->params.model, &import), out);
    if (cero_comm_size(trainer->params.context->comm) > 1) {
        CERO_TRY_GOTO(cero_same_weights_hash(import, hash), out);
    }
    for (int64_t i = 0; i < cero_engine_param_count(trainer->engine); i++) {
        CERO_TRY_GOTO(import_param(trainer, import, i), out);
    }
out:
    trainer->import_bytes = import == NULL ? 0 : cero_hf_import_bytes_read(import);
    cero_hf_import_close(&import);
    return st;
}

int64_t cero_trainer_import_bytes(const cero_trainer *trainer)
{
    return trainer->import_bytes;
}

cero_status cero_trainer_import(cero_trainer *trainer, const char *dir)
{
    cero_comm *comm = trainer->params.context->comm;
    uint64_t hash;

    cero_comm_note(comm, "import", 0);
    CERO_TRY(cero_comm_agree(comm, import_held(trainer, dir, &hash)));
    CERO_TRY(cero_comm_check_same(comm, "the set of weights", &hash, sizeof(hash)));
    return cero_engine_weights_set(trainer->engine);
}

/* Which elements the rank that writes a file wants next; param -1: no more. */
typedef struct param_request {
    int64_t param;
    int64_t begin;
    int64_t numel;
} param_request;

/* Elements that are asked for at once: what the arena of every rank has room for. */
static int64_t request_limit(const cero_trainer *trainer, float **room)
{
    size_t nbytes = 0;

    *room = cero_engine_arena(trainer->engine, &nbytes);
    int64_t most = (int64_t)(nbytes / sizeof(float));
    return most < STREAM_SPAN ? most : STREAM_SPAN;
}

/* On the rank that writes: weights are gathered from their owners, who wait in serve_params. */
static cero_status give_param(void *context, const char *name, int64_t begin, int64_t numel,
                              float *out)
{
    cero_trainer *trainer = context;
    cero_comm *comm = trainer->params.context->comm;
    float *room = NULL;
    int64_t most = request_limit(trainer, &room);
    int64_t i = cero_engine_find_param(trainer->engine, name);

    CERO_CHECK(i >= 0, CERO_ERR_INTERNAL, "the model has no parameter %s", name);
    for (int64_t at = 0; at < numel; at += most) {
        param_request request = {
            .param = i, .begin = begin + at, .numel = numel - at < most ? numel - at : most};
        CERO_TRY(cero_comm_broadcast(comm, &request, sizeof(request), 0));
        CERO_TRY(cero_engine_get_param(trainer->engine, i, request.begin, request.numel, out + at));
    }
    return CERO_OK;
}

static cero_status serve_params(cero_trainer *trainer)
{
    cero_comm *comm = trainer->params.context->comm;
    param_request request = {0};
    float *room = NULL;

    (void)request_limit(trainer, &room);
    for (;;) {
        CERO_TRY(cero_comm_broadcast(comm, &request, sizeof(request), 0));
        if (request.param < 0) {
            return CERO_OK;
        }
        CERO_TRY(cero_engine_get_param(trainer->engine, request.param, request.begin, request.numel,
                                       room));
    }
}

static cero_status write_export(cero_trainer *trainer, const char *dir, cero_dtype dtype,
                                const char *tokenizer_dir)
{
    cero_comm *comm = trainer->params.context->comm;
    param_request end = {.param = -1};
    cero_hf_export_stats stats;
    cero_hf_export_params params = {.spec = trainer->params.model,
                                    .dtype = dtype,
                                    .max_shard_bytes = trainer->params.export_shard_bytes,
                                    .tokenizer_dir = tokenizer_dir,
                                    .config_from = trainer->params.config_json,
                                    .source = give_param,
                                    .context = trainer};
    cero_status st = cero_hf_export(dir, &params, &stats);

    if (st == CERO_OK) {
        cero_log(CERO_LOG_INFO, "train", "exported %lld parameters as %s to %s",
                 (long long)stats.params, cero_dtype_name(dtype), dir);
    }
    if (st != CERO_ERR_COMM && st != CERO_ERR_REMOTE) {
        cero_status sent = cero_comm_broadcast(comm, &end, sizeof(end), 0);
        st = st != CERO_OK ? st : sent;
    }
    return st;
}

cero_status cero_trainer_export(cero_trainer *trainer, const char *dir, cero_dtype dtype,
                                const char *tokenizer_dir)
{
    cero_comm *comm = trainer->params.context->comm;
    bool is_writer = cero_comm_rank(comm) == 0;

    cero_comm_note(comm, "export after step", trainer->done);
    cero_fault_at("export");
    return cero_comm_agree(comm, is_writer ? write_export(trainer, dir, dtype, tokenizer_dir)
                                           : serve_params(trainer));
}
