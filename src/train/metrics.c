/* SPDX-License-Identifier: Apache-2.0 */
/* Formats and appends the lines of metrics.jsonl. */
#include "train/metrics.h"

#include "base/file.h"
#include "base/io.h"
#include "base/memory.h"
#include "train/cut_lines.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <string.h>

enum {
    LINE_ROOM = 2048 /* more than the longest line */
};

struct cero_metrics {
    cero_file_writer *writer; /* owned */
    char *path;               /* owned */
    cero_text line;           /* kept, so that steps allocate nothing */
};

cero_status cero_metrics_open(const char *dir, cero_metrics **out)
{
    cero_status st = CERO_OK;
    cero_metrics *metrics = cero_new(1, sizeof(*metrics));

    if (metrics != NULL) {
        metrics->path = cero_file_join(dir, "metrics.jsonl");
    }
    if (metrics == NULL || metrics->path == NULL) {
        CERO_FAIL_GOTO(fail, CERO_ERR_NOMEM, "no memory to write metrics into %s", dir);
    }
    CERO_TRY_GOTO(cero_file_writer_open(metrics->path, CERO_FILE_APPEND, &metrics->writer), fail);
    cero_text_printf(&metrics->line, "%*s", LINE_ROOM, "");
    *out = metrics;
    return CERO_OK;

fail:
    cero_metrics_close(&metrics);
    return st;
}

void cero_metrics_close(cero_metrics **metrics)
{
    if (metrics == NULL || *metrics == NULL) {
        return;
    }
    cero_file_writer_close(&(*metrics)->writer);
    cero_text_cleanup(&(*metrics)->line);
    cero_delete((*metrics)->path);
    cero_delete(*metrics);
    *metrics = NULL;
}

static void add_real(cero_text *line, const char *key, double value)
{
    cero_text_printf(line, ",\"%s\":", key);
    cero_text_append_double(line, value);
}

static void add_int(cero_text *line, const char *key, int64_t value)
{
    cero_text_printf(line, ",\"%s\":%lld", key, (long long)value);
}

static void add_seconds(cero_text *line, const cero_metrics_step *s)
{
    cero_text_printf(line, ",\"seconds\":{\"forward\":");
    cero_text_append_double(line, s->stats.seconds_forward);
    add_real(line, "backward", s->stats.seconds_backward);
    add_real(line, "exchange", s->stats.seconds_exchange);
    add_real(line, "update", s->stats.seconds_update);
    add_real(line, "data", s->seconds_data);
    add_real(line, "save", s->seconds_save);
    add_real(line, "other", s->seconds_other);
    cero_text_printf(line, "}");
}

static void add_memory(cero_text *line, const cero_metrics_step *s)
{
    cero_text_printf(line, ",\"memory\":{");
    for (int c = 0; c < CERO_MEM_COUNT; c++) {
        cero_text_printf(line, "%s\"%s\":%zu", c == 0 ? "" : ",",
                         cero_mem_category_name((cero_mem_category)c), s->memory[c]);
    }
    cero_text_printf(line, "}");
}

cero_status cero_metrics_format(const cero_metrics_step *s, cero_text *line)
{
    const cero_step_stats *t = &s->stats;

    cero_text_printf(line, "{\"step\":%lld", (long long)t->step);
    add_real(line, "loss", t->loss);
    add_real(line, "lr", t->lr);
    add_real(line, "grad_norm", t->grad_norm);
    add_real(line, "clip_coef", t->clip_coef);
    add_real(line, "loss_scale", t->loss_scale);
    add_int(line, "applied", t->applied);
    add_int(line, "skipped", t->skipped);
    add_int(line, "tokens", s->tokens);
    add_int(line, "samples", s->samples);
    add_real(line, "step_seconds", s->step_seconds);
    add_real(line, "tokens_per_second",
             s->step_seconds > 0 ? (double)s->step_tokens / s->step_seconds : 0);
    add_real(line, "model_flops_per_second",
             s->step_seconds > 0 ? t->model_flops / s->step_seconds : 0);
    add_int(line, "bytes_sent", s->bytes_sent);
    add_int(line, "messages_sent", s->messages_sent);
    add_int(line, "bytes_between_nodes", s->bytes_between_nodes);
    if (s->has_eval) {
        add_real(line, "eval_loss", s->eval_loss);
        add_real(line, "eval_perplexity", exp(s->eval_loss));
    }
    add_seconds(line, s);
    add_memory(line, s);
    if (s->saved_step > 0) {
        add_int(line, "saved_step", s->saved_step);
    }
    cero_text_append(line, "}", 1);
    return cero_text_finish(line);
}

cero_status cero_metrics_append(cero_metrics *metrics, const char *line, size_t length)
{
    CERO_TRY(cero_file_writer_write(metrics->writer, line, length));
    CERO_TRY(cero_file_writer_write(metrics->writer, "\n", 1));
    return cero_file_writer_flush(metrics->writer);
}

cero_status cero_metrics_write(cero_metrics *metrics, const cero_metrics_step *step)
{
    metrics->line.length = 0;
    CERO_TRY(cero_metrics_format(step, &metrics->line));
    return cero_metrics_append(metrics, metrics->line.data, metrics->line.length);
}

cero_status cero_metrics_sync(const cero_metrics *metrics)
{
    int error = 0;
    int fd = cero_io_open_write(metrics->path, O_APPEND);

    if (fd < 0 || cero_io_fsync(fd) != 0) {
        error = errno;
    }
    if (fd >= 0) {
        (void)cero_io_close(fd);
    }
    CERO_CHECK(error == 0, CERO_ERR_IO, "cannot bring %s to the disk: %s", metrics->path,
               strerror(error));
    return CERO_OK;
}

cero_status cero_metrics_cut(const char *dir, int64_t step, int64_t *last)
{
    char *path = cero_file_join(dir, "metrics.jsonl");

    CERO_CHECK(path != NULL, CERO_ERR_NOMEM, "no memory for a path in %s", dir);
    cero_cut_params params = {.path = path, .prefix = "{\"step\":", .last = '}', .limit = step};
    cero_status st = cero_cut_lines(&params, last);
    cero_delete(path);
    return st;
}
