/* SPDX-License-Identifier: Apache-2.0 */
/* Formats and appends the lines of metrics.jsonl. */
#include "train/metrics.h"

#include "base/file.h"
#include "base/memory.h"
#include "base/text.h"

#include <math.h>

enum {
    LINE_ROOM = 2048 /* more than the longest line */
};

struct cero_metrics {
    cero_file_writer *writer; /* owned */
    cero_text line;           /* kept, so that steps allocate nothing */
};

cero_status cero_metrics_open(const char *dir, cero_metrics **out)
{
    cero_status st = CERO_OK;
    cero_metrics *metrics = cero_new(1, sizeof(*metrics));
    char *path = cero_file_join(dir, "metrics.jsonl");

    if (metrics == NULL || path == NULL) {
        CERO_FAIL_GOTO(fail, CERO_ERR_NOMEM, "no memory to write metrics into %s", dir);
    }
    CERO_TRY_GOTO(cero_file_writer_open(path, CERO_FILE_APPEND, &metrics->writer), fail);
    cero_text_printf(&metrics->line, "%*s", LINE_ROOM, "");
    cero_delete(path);
    *out = metrics;
    return CERO_OK;

fail:
    cero_delete(path);
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

cero_status cero_metrics_write(cero_metrics *metrics, const cero_metrics_step *s)
{
    cero_text *line = &metrics->line;
    const cero_step_stats *t = &s->stats;

    line->length = 0;
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
    cero_text_append(line, "}\n", 2);
    CERO_TRY(cero_text_finish(line));
    CERO_TRY(cero_file_writer_write(metrics->writer, line->data, line->length));
    return cero_file_writer_flush(metrics->writer);
}
