/* SPDX-License-Identifier: Apache-2.0 */
/* A trainer over a token file in a scratch directory, and what an exported file says by itself. */
#ifndef CERO_TESTS_TRAIN_RUN_FIXTURE_H
#define CERO_TESTS_TRAIN_RUN_FIXTURE_H

#include "cases.h"
#include "unit/ckpt/files.h"

#include "base/json.h"
#include "train/train.h"

typedef struct run_params {
    const char *const *sets;
    const char *out; /* run directory below the scratch directory; NULL: none */
    int64_t seq_len;
    int64_t steps;
    int64_t eval_every;
    cero_train_visitor visitor;
    void *visitor_context;
} run_params;

/* "train.u16" and, if it is there, "eval.u16" of the scratch directory. */
typedef struct run {
    char dir[64];
    cero_model_spec model;
    case_world world;
    cero_token_stream *data;
    cero_token_stream *eval_data;
    cero_trainer *trainer;
} run;

static inline void write_tokens(const char *path, const int32_t *ids, int64_t count)
{
    unsigned char *bytes = cero_new((size_t)count, 2);

    assert_non_null(bytes);
    for (int64_t i = 0; i < count; i++) {
        bytes[2 * i] = (unsigned char)(ids[i] & 255);
        bytes[2 * i + 1] = (unsigned char)(ids[i] >> 8);
    }
    files_write(path, bytes, (size_t)count * 2);
    cero_delete(bytes);
}

/* 0, 1, …, 255, 0, 1, … */
static inline void write_counting(const char *path, int64_t count)
{
    int32_t *ids = cero_new((size_t)count, sizeof(int32_t));

    assert_non_null(ids);
    for (int64_t i = 0; i < count; i++) {
        ids[i] = (int32_t)(i % 256);
    }
    write_tokens(path, ids, count);
    cero_delete(ids);
}

static inline cero_token_stream *open_tokens(const run *r, const char *name)
{
    cero_token_stream *stream = NULL;
    const char *path = files_in(r->dir, name);

    if (cero_file_stat(path, NULL) == CERO_FILE_ABSENT) {
        return NULL;
    }
    assert_ok(cero_token_stream_open(&(cero_token_stream_params){.path = &path,
                                                                 .path_count = 1,
                                                                 .vocab_size = r->model.vocab_size},
                                     &stream));
    return stream;
}

static inline void run_prepare(run *r, cero_model_spec model)
{
    memset(r, 0, sizeof(*r));
    r->model = model;
    files_make_dir(r->dir, sizeof(r->dir));
}

static inline cero_status run_create(run *r, const run_params *p)
{
    case_open(&r->world, 2, p->sets);
    r->data = open_tokens(r, "train.u16");
    r->eval_data = open_tokens(r, "eval.u16");
    return cero_trainer_create(
        &(cero_trainer_params){.context = r->world.context,
                               .config = r->world.config,
                               .model = &r->model,
                               .data = r->data,
                               .eval_data = r->eval_data,
                               .out = p->out == NULL ? NULL : files_in(r->dir, p->out),
                               .steps = p->steps,
                               .seq_len = p->seq_len,
                               .order = CERO_SAMPLER_SEQUENTIAL,
                               .eval_every = p->eval_every,
                               .visitor = p->visitor,
                               .visitor_context = p->visitor_context},
        &r->trainer);
}

/* Lets go of all but the scratch directory. */
static inline void run_close(run *r)
{
    cero_trainer_destroy(&r->trainer);
    cero_token_stream_close(&r->data);
    cero_token_stream_close(&r->eval_data);
    case_close(&r->world);
}

static inline void run_remove(run *r)
{
    files_remove(r->dir);
}

/* A safetensors file, read with nothing but its definition. */
typedef struct archive {
    char *bytes; /* owned */
    size_t length;
    const char *data;
    cero_json_document *header; /* owned */
} archive;

static inline void archive_open(const char *path, archive *a)
{
    uint64_t header = 0;

    assert_ok(cero_file_read(path, 0, &a->bytes, &a->length));
    assert_true(a->length > 8);
    memcpy(&header, a->bytes, 8);
    assert_true(header < a->length);
    a->data = a->bytes + 8 + header;
    assert_ok(cero_json_parse(path, a->bytes + 8, (size_t)header, NULL, &a->header));
}

static inline void archive_close(archive *a)
{
    cero_json_destroy(&a->header);
    cero_delete(a->bytes);
}

static inline size_t archive_data_bytes(const archive *a)
{
    return a->length - (size_t)(a->data - a->bytes);
}

/* Tensor entries, "__metadata__" left out. */
static inline int64_t archive_count(const archive *a)
{
    return cero_json_root(a->header)->count -
           (cero_json_find(cero_json_root(a->header), "__metadata__") != NULL);
}

/* Data of a tensor that has this dtype and shape ("[64, 192]"), and its bytes. */
static inline const char *archive_tensor(const archive *a, const char *name, const char *dtype,
                                         const char *shape, size_t *nbytes)
{
    char found[128] = "[";
    const cero_json *tensor = cero_json_find(cero_json_root(a->header), name);

    if (tensor == NULL) {
        fail_msg("there is no tensor %s", name);
        return a->data;
    }
    assert_string_equal(cero_json_find(tensor, "dtype")->text, dtype);
    const cero_json *dims = cero_json_find(tensor, "shape");
    for (const cero_json *d = dims->child; d != NULL; d = d->next) {
        size_t used = strlen(found);
        (void)snprintf(found + used, sizeof(found) - used, "%s%s", used > 1 ? ", " : "", d->text);
    }
    (void)snprintf(found + strlen(found), 2, "]");
    assert_string_equal(found, shape);
    const cero_json *begin = cero_json_find(tensor, "data_offsets")->child;
    *nbytes = (size_t)(begin->next->number - begin->number);
    return a->data + (size_t)begin->number;
}

#endif
