/* SPDX-License-Identifier: Apache-2.0 */
/* The log lines of step_report.h. Times are means over the steps of an interval. */
#include "train/step_report.h"

#include "base/log.h"

#include <string.h>

enum {
    DEFAULT_INTERVAL = 10,
    MAX_LOG_BYTES = 900 /* of one line; the log's own limit is a little above */
};

/* Reading may take this part of a step before it is spoken of. */
#define DATA_SHARE 0.1

void cero_step_report_begin(cero_step_report *report, const cero_train_spec *spec)
{
    *report = (cero_step_report){
        .every = spec->steps_per_print > 0 ? spec->steps_per_print : DEFAULT_INTERVAL,
        .has_times = spec->wall_clock_breakdown && spec->steps_per_print > 0,
        .is_scale_moved =
            spec->compute_dtype == CERO_DTYPE_F16 && !(spec->loss_scale.loss_scale > 0),
    };
}

static void explain_skip(const cero_step_report *report, const cero_step_stats *stats)
{
    if (report->is_scale_moved && !stats->is_applied && stats->skipped == 1) {
        cero_log(
            CERO_LOG_INFO, "train",
            "a few skipped steps at the start of an fp16 run are normal: the loss scale begins "
            "high and is lowered until gradients fit; weights stay as they are in a skipped "
            "step");
    }
}

static void log_times(const cero_step_report *r)
{
    double to_ms = 1e3 / (double)r->steps;

    cero_log(CERO_LOG_INFO, "train",
             "time (ms) | forward: %.2f | backward: %.2f | exchange: %.2f | update: %.2f | "
             "data: %.2f",
             r->forward * to_ms, r->backward * to_ms, r->exchange * to_ms, r->update * to_ms,
             r->data * to_ms);
}

static void warn_of_slow_data(cero_step_report *r)
{
    if (r->has_warned || r->data <= DATA_SHARE * r->total) {
        return;
    }
    double to_ms = 1e3 / (double)r->steps;
    r->has_warned = true;
    cero_log_warn_once(
        "train",
        "reading data takes %.2f ms of the %.2f ms of a step (%.0f %%, mean of %lld steps): "
        "training waits for it; put the data on a faster disk or leave the reader more cores",
        r->data * to_ms, r->total * to_ms, 100 * r->data / r->total, (long long)r->steps);
}

void cero_step_report_add(cero_step_report *report, const cero_metrics_step *step)
{
    const cero_step_stats *t = &step->stats;

    explain_skip(report, t);
    report->steps++;
    report->forward += t->seconds_forward;
    report->backward += t->seconds_backward;
    report->exchange += t->seconds_exchange;
    report->update += t->seconds_update;
    report->data += step->seconds_data;
    report->total += step->step_seconds;
    if (t->step % report->every != 0) {
        return;
    }
    if (report->has_times) {
        log_times(report);
    }
    warn_of_slow_data(report);
    report->steps = 0;
    report->forward = report->backward = report->exchange = report->update = 0;
    report->data = report->total = 0;
}

/* Bytes of the next log line: to the end of the line, or to a comma when it is too long for the log. */
static size_t next_line(const char *text)
{
    size_t length = strcspn(text, "\n");

    if (length <= MAX_LOG_BYTES) {
        return length;
    }
    size_t at = MAX_LOG_BYTES;
    while (at > 1 && text[at - 1] != ',') {
        at--;
    }
    return at > 1 ? at : MAX_LOG_BYTES;
}

cero_status cero_step_report_config(const cero_train_config *config)
{
    cero_text text = {0};
    cero_status st = cero_train_config_write_json(config, &text);

    for (const char *p = text.data; st == CERO_OK && *p != '\0';) {
        size_t length = next_line(p);
        cero_log(CERO_LOG_INFO, "train", "%.*s", (int)length, p);
        p += length;
        p += *p == '\n' ? 1 : 0;
    }
    cero_text_cleanup(&text);
    return st;
}
