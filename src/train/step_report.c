/* SPDX-License-Identifier: Apache-2.0 */
/* The log lines of step_report.h. Times are means over the steps of an interval. */
#include "train/step_report.h"

#include "base/log.h"
#include "base/memory.h"

#include <stdio.h>
#include <string.h>

enum {
    DEFAULT_INTERVAL = 10,
    MAX_LOG_BYTES = 900, /* of one line; the log's own limit is a little above */
    LINE_BYTES = 512
};

/* Reading may take this part of a step before it is spoken of. */
#define DATA_SHARE 0.1

cero_status cero_step_report_begin(cero_step_report *report, const cero_step_report_params *params)
{
    const cero_train_spec *spec = params->spec;
    int size = params->comm != NULL ? cero_comm_size(params->comm) : 1;

    *report = (cero_step_report){
        .comm = size > 1 ? params->comm : NULL,
        .every = spec->steps_per_print > 0 ? spec->steps_per_print : DEFAULT_INTERVAL,
        .has_times = spec->wall_clock_breakdown && spec->steps_per_print > 0,
        .is_scale_moved =
            spec->compute_dtype == CERO_DTYPE_F16 && !(spec->loss_scale.loss_scale > 0),
        .clipping = spec->gradient_clipping,
        .uses = params->cost.uses,
        .uses_ahead = params->cost.uses_ahead,
    };
    if (report->comm != NULL && report->has_times) {
        report->ranks = cero_new((size_t)size, sizeof(cero_step_times));
        CERO_CHECK(report->ranks != NULL, CERO_ERR_NOMEM, "no memory for the times of %d ranks",
                   size);
    }
    return CERO_OK;
}

void cero_step_report_end(cero_step_report *report)
{
    cero_delete(report->ranks);
    report->ranks = NULL;
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

static void explain_clipping(cero_step_report *report, const cero_step_stats *stats)
{
    if (report->has_clipped || !(stats->clip_coef > 0 && stats->clip_coef < 1)) {
        return;
    }
    report->has_clipped = true;
    cero_log(CERO_LOG_INFO, "train",
             "step %lld is clipped, as many are early in a run: grad_norm %.4g is the norm before "
             "clipping, gradient_clipping limits it to %g (clip_coef %.4g)",
             (long long)stats->step, stats->grad_norm, report->clipping, stats->clip_coef);
}

/* One phase over the ranks, in milliseconds. */
typedef struct spread {
    double mean;
    double least;
    double most;
    int slowest;
} spread;

static double own_work(const cero_step_times *t)
{
    return t->total - t->exchange;
}

static double phase_of(const cero_step_times *t, size_t offset)
{
    double seconds;

    memcpy(&seconds, (const char *)t + offset, sizeof(seconds));
    return seconds;
}

static spread spread_of(const cero_step_times *ranks, int size, size_t offset)
{
    spread s = {.least = phase_of(&ranks[0], offset) * 1e3};

    for (int r = 0; r < size; r++) {
        double ms = phase_of(&ranks[r], offset) * 1e3;
        s.mean += ms / size;
        s.least = ms < s.least ? ms : s.least;
        s.most = ms > s.most ? ms : s.most;
    }
    return s;
}

/* "time (ms) | forward: 20.00 (19.50 to 20.50) | …": DeepSpeed's form; over ranks with least and most. */
static void log_phases(const cero_step_times *ranks, int size)
{
    static const struct {
        const char *name;
        size_t offset;
    } phases[] = {
        {"forward", offsetof(cero_step_times, forward)},
        {"backward", offsetof(cero_step_times, backward)},
        {"exchange", offsetof(cero_step_times, exchange)},
        {"step", offsetof(cero_step_times, update)},
        {"data", offsetof(cero_step_times, data)},
    };
    char line[LINE_BYTES];
    int used = snprintf(line, sizeof(line), "time (ms)");

    for (size_t i = 0; i < CERO_COUNT_OF(phases); i++) {
        spread s = spread_of(ranks, size, phases[i].offset);
        used += snprintf(line + used, sizeof(line) - (size_t)used, " | %s: %.2f", phases[i].name,
                         s.mean);
        if (size > 1) {
            used += snprintf(line + used, sizeof(line) - (size_t)used, " (%.2f to %.2f)", s.least,
                             s.most);
        }
    }
    cero_log(CERO_LOG_INFO, "train", "%s", line);
}

/* What ranks do to each other: how long they wait, for whom, and what they send. */
static void log_ranks(const cero_step_report *r, const cero_step_times *ranks, int size)
{
    spread total = spread_of(ranks, size, offsetof(cero_step_times, total));
    spread exchange = spread_of(ranks, size, offsetof(cero_step_times, exchange));
    double steps = (double)r->steps;
    double mean = (total.mean - exchange.mean) / 1e3;
    int slowest = 0;
    char bytes[32];
    char gathers[80] = "";

    for (int k = 1; k < size; k++) {
        slowest = own_work(&ranks[k]) > own_work(&ranks[slowest]) ? k : slowest;
    }
    if (r->uses > 0) {
        (void)snprintf(gathers, sizeof(gathers), " | gathers: %lld, %lld started ahead",
                       (long long)r->uses, (long long)r->uses_ahead);
    }
    double most = own_work(&ranks[slowest]);
    cero_log(
        CERO_LOG_INFO, "train",
        "step of %.2f ms | exposed exchange: %.1f %%%s | sent by rank 0: %s in %.0f messages | "
        "slowest: rank %d, %.2f ms of its own work, %.1f %% above the mean",
        total.mean, total.mean > 0 ? 100 * exchange.mean / total.mean : 0.0, gathers,
        cero_text_bytes(r->bytes / steps, bytes, sizeof(bytes)), r->messages / steps, slowest,
        most * 1e3, mean > 0 ? 100 * (most / mean - 1) : 0.0);
}

static cero_status log_times(cero_step_report *r)
{
    double to_mean = 1 / (double)r->steps;
    cero_step_times own = {.forward = r->sum.forward * to_mean,
                           .backward = r->sum.backward * to_mean,
                           .exchange = r->sum.exchange * to_mean,
                           .update = r->sum.update * to_mean,
                           .data = r->sum.data * to_mean,
                           .total = r->sum.total * to_mean};

    if (r->comm == NULL) {
        log_phases(&own, 1);
        return CERO_OK;
    }
    CERO_TRY(cero_comm_all_gather(r->comm, &own, sizeof(own), r->ranks));
    log_phases(r->ranks, cero_comm_size(r->comm));
    log_ranks(r, r->ranks, cero_comm_size(r->comm));
    return CERO_OK;
}

static void warn_of_slow_data(cero_step_report *r)
{
    if (r->has_warned || r->sum.data <= DATA_SHARE * r->sum.total) {
        return;
    }
    double to_ms = 1e3 / (double)r->steps;
    r->has_warned = true;
    cero_log_warn_once(
        "train",
        "reading data takes %.2f ms of the %.2f ms of a step (%.0f %%, mean of %lld steps): "
        "training waits for it; put the data on a faster disk or leave the reader more cores",
        r->sum.data * to_ms, r->sum.total * to_ms, 100 * r->sum.data / r->sum.total,
        (long long)r->steps);
}

cero_status cero_step_report_add(cero_step_report *report, const cero_metrics_step *step)
{
    const cero_step_stats *t = &step->stats;

    explain_skip(report, t);
    explain_clipping(report, t);
    report->steps++;
    report->sum.forward += t->seconds_forward;
    report->sum.backward += t->seconds_backward;
    report->sum.exchange += t->seconds_exchange;
    report->sum.update += t->seconds_update;
    report->sum.data += step->seconds_data;
    report->sum.total += step->step_seconds;
    report->bytes += (double)step->bytes_sent;
    report->messages += (double)step->messages_sent;
    if (t->step % report->every != 0) {
        return CERO_OK;
    }
    cero_status st = report->has_times ? log_times(report) : CERO_OK;
    warn_of_slow_data(report);
    report->steps = 0;
    report->sum = (cero_step_times){0};
    report->bytes = report->messages = 0;
    return st;
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

void cero_step_report_lines(const char *text)
{
    for (const char *p = text; *p != '\0';) {
        size_t length = next_line(p);
        cero_log(CERO_LOG_INFO, "train", "%.*s", (int)length, p);
        p += length;
        p += *p == '\n' ? 1 : 0;
    }
}

cero_status cero_step_report_config(const cero_train_config *config)
{
    cero_text text = {0};
    cero_status st = cero_train_config_write_json(config, &text);

    if (st == CERO_OK) {
        cero_step_report_lines(text.data);
    }
    cero_text_cleanup(&text);
    return st;
}
