/* SPDX-License-Identifier: Apache-2.0 */
/* A run of a tiny model on a few hundred tokens in a scratch folder, and the log lines it leaves. */
#ifndef CERO_TESTS_UNIT_TRAIN_TINY_H
#define CERO_TESTS_UNIT_TRAIN_TINY_H

#include "harness.h"
#include "unit/ckpt/files.h"

#include "base/log.h"
#include "base/text.h"
#include "train/train.h"

enum {
    TINY_VOCAB = 61,
    TINY_TOKENS = 700,
    TINY_MAX_SETS = 16
};

typedef struct tiny_run {
    char dir[64];  /* holds data.u16, and the run directory */
    char out[128]; /* the run directory, dir/run */
    const char *set[TINY_MAX_SETS];
    int set_count;
    int64_t steps;
    int64_t eval_every; /* -1: no evaluation data */
    cero_train_visitor visitor;
    void *visitor_context;
    cero_context *context;
    cero_config *config;
    cero_model_spec model;
    cero_token_stream *data;
    cero_token_stream *eval_data;
    cero_trainer *trainer;
    cero_text log;
} tiny_run;

static inline void tiny_sink(void *context, cero_log_level level, const char *line)
{
    cero_text *log = context;

    CERO_UNUSED(level);
    // The text has room from the start: growing would count as an allocation of the step.
    cero_text_append(log, line, strlen(line));
    cero_text_append(log, "\n", 1);
}

/* The scratch folder with its tokens; the log goes into run->log from here on. */
static inline void tiny_begin(tiny_run *run)
{
    uint16_t tokens[TINY_TOKENS];

    *run = (tiny_run){.steps = 6, .eval_every = -1};
    files_make_dir(run->dir, sizeof(run->dir));
    (void)snprintf(run->out, sizeof(run->out), "%s/run", run->dir);
    for (int i = 0; i < TINY_TOKENS; i++) {
        tokens[i] = (uint16_t)((i * 7 + i / 13) % TINY_VOCAB);
    }
    files_write(files_in(run->dir, "data.u16"), tokens, sizeof(tokens));
    assert_ok(cero_model_spec_resolve("gpt-mini", &run->model));
    run->model.layers = 1;
    run->model.hidden = 16;
    run->model.heads = run->model.kv_heads = 2;
    run->model.head_dim = 8;
    run->model.inner = 32;
    run->model.vocab_size = TINY_VOCAB;
    run->model.context = 16;
    cero_text_printf(&run->log, "%*s", 1 << 16, "");
    run->log.length = 0;
    run->log.data[0] = '\0';
    cero_log_set_level(CERO_LOG_INFO);
    cero_log_set_sink(tiny_sink, &run->log);
}

static inline void tiny_set(tiny_run *run, const char *pair)
{
    assert_in_range(run->set_count, 0, TINY_MAX_SETS - 1);
    run->set[run->set_count++] = pair;
}

/* Config, context, data, trainer and its files. */
static inline cero_status tiny_create(tiny_run *run)
{
    const char *path = files_in(run->dir, "data.u16");
    cero_token_stream_params stream = {
        .path = &path, .path_count = 1, .vocab_size = TINY_VOCAB, .no_eod = true};

    tiny_set(run, "train_batch_size=4");
    tiny_set(run, "train_micro_batch_size_per_gpu=2");
    assert_ok(cero_config_create(NULL, NULL, run->set, run->set_count, &run->config));
    assert_ok(cero_context_create(&(cero_context_params){.threads = 1}, &run->context));
    assert_ok(cero_token_stream_open(&stream, &run->data));
    if (run->eval_every >= 0) {
        assert_ok(cero_token_stream_open(&stream, &run->eval_data));
    }
    CERO_TRY(cero_trainer_create(
        &(cero_trainer_params){.context = run->context,
                               .config = run->config,
                               .model = &run->model,
                               .data = run->data,
                               .eval_data = run->eval_data,
                               .out = run->out,
                               .steps = run->steps,
                               .eval_every = run->eval_every > 0 ? run->eval_every : 0,
                               .visitor = run->visitor,
                               .visitor_context = run->visitor_context},
        &run->trainer));
    return cero_trainer_open_files(run->trainer);
}

/* Everything closed; the files are still there. */
static inline void tiny_close(tiny_run *run)
{
    cero_trainer_destroy(&run->trainer);
    cero_token_stream_close(&run->eval_data);
    cero_token_stream_close(&run->data);
    cero_config_destroy(&run->config);
    cero_context_destroy(&run->context);
    cero_log_set_sink(NULL, NULL);
    cero_log_set_level(CERO_LOG_WARN);
}

static inline void tiny_end(tiny_run *run)
{
    tiny_close(run);
    cero_text_cleanup(&run->log);
    files_remove(run->dir);
}

/* How often `part` stands in `text`. */
static inline int tiny_occurrences(const char *text, const char *part)
{
    int count = 0;

    for (const char *p = strstr(text, part); p != NULL; p = strstr(p + 1, part)) {
        count++;
    }
    return count;
}

#endif
