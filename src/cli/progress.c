/* SPDX-License-Identifier: Apache-2.0 */
/* The progress line of a training run; see progress.h. */
#include "cli/progress.h"

#include "base/clock.h"

#include <math.h>
#include <sys/ioctl.h>

enum {
    DEFAULT_WIDTH = 80,
    DEFAULT_STEPS_PER_PRINT = 10,
    MIN_BAR = 8,
    MAX_BAR = 40
};

#define REDRAW_SECONDS 0.1
#define CLEAR_LINE     "\r\033[K"

int cero_progress_terminal_width(int fd)
{
    struct winsize size = {0};

    return ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : DEFAULT_WIDTH;
}

const char *cero_progress_duration(double seconds, char *text, size_t size)
{
    int64_t s = !(seconds > 0) ? 0 : seconds > 1e15 ? (int64_t)1e15 : (int64_t)llround(seconds);

    if (s < 60) {
        (void)snprintf(text, size, "%d s", (int)s);
    } else if (s < 3600) {
        (void)snprintf(text, size, "%d min %02d s", (int)(s / 60), (int)(s % 60));
    } else if (s < 86400) {
        (void)snprintf(text, size, "%d h %02d min", (int)(s / 3600), (int)(s / 60 % 60));
    } else {
        (void)snprintf(text, size, "%lld d %02d h", (long long)(s / 86400), (int)(s / 3600 % 24));
    }
    return text;
}

/* "[=====>    ] " filling `width` columns. */
static void append_bar(double done, int width, cero_text *out)
{
    int inside = width - 3;
    int filled = (int)(done * inside);

    cero_text_append(out, "[", 1);
    for (int i = 0; i < inside; i++) {
        char c = i < filled ? '=' : i == filled ? '>' : ' ';
        cero_text_append(out, &c, 1);
    }
    cero_text_append(out, "] ", 2);
}

static void append_rate(double tokens_per_second, cero_text *out)
{
    if (tokens_per_second >= 1e6) {
        cero_text_printf(out, "%.2fM tokens/s", tokens_per_second / 1e6);
    } else if (tokens_per_second >= 1e4) {
        cero_text_printf(out, "%.1fk tokens/s", tokens_per_second / 1e3);
    } else {
        cero_text_printf(out, "%.0f tokens/s", tokens_per_second);
    }
}

void cero_progress_format(const cero_progress_params *params, const cero_progress_step *step,
                          double left, cero_text *out)
{
    cero_text facts = {0};
    char duration[32];

    cero_text_printf(&facts, "step %lld/%lld  ", (long long)step->step,
                     (long long)params->total_steps);
    if (step->skipped > 0) {
        cero_text_printf(&facts, "%lld skipped  ", (long long)step->skipped);
    }
    cero_text_printf(&facts, "loss %.4f  lr %.3g  ", step->loss, step->lr);
    append_rate(step->tokens_per_second, &facts);
    cero_text_printf(&facts, "  %s left", cero_progress_duration(left, duration, sizeof(duration)));
    // One column stays free: a full line would wrap.
    int width = params->width > 0 ? params->width : DEFAULT_WIDTH;
    int room = width - 1 - (int)facts.length;
    if (params->is_terminal && room >= MIN_BAR && params->total_steps > 0) {
        double done = (double)step->step / (double)params->total_steps;
        append_bar(done > 1 ? 1 : done, room > MAX_BAR ? MAX_BAR : room, out);
    }
    size_t shown = facts.length;
    if (params->is_terminal && shown > (size_t)(width > 1 ? width - 1 : 1)) {
        shown = (size_t)(width > 1 ? width - 1 : 1);
    }
    cero_text_append(out, facts.data, shown);
    cero_text_cleanup(&facts);
}

void cero_progress_begin(cero_progress *progress, const cero_progress_params *params)
{
    *progress = (cero_progress){.params = *params};
    if (progress->params.steps_per_print <= 0) {
        progress->params.steps_per_print = DEFAULT_STEPS_PER_PRINT;
    }
}

static bool is_due(const cero_progress *p, const cero_progress_step *step, double now)
{
    if (step->step >= p->params.total_steps || p->drawn_at == 0) {
        return true;
    }
    if (p->params.is_terminal) {
        return now - p->drawn_at >= REDRAW_SECONDS;
    }
    return step->step % p->params.steps_per_print == 0;
}

void cero_progress_update(cero_progress *p, const cero_progress_step *step)
{
    double now = cero_clock_now();

    // The mean of about the last twenty steps.
    p->mean_seconds = 0.95 * p->mean_seconds + step->step_seconds;
    p->weight = 0.95 * p->weight + 1;
    if (!is_due(p, step, now)) {
        return;
    }
    double left = (double)(p->params.total_steps - step->step) * p->mean_seconds / p->weight;
    cero_text line = {0};
    cero_progress_format(&p->params, step, left, &line);
    if (!line.has_failed && p->params.is_terminal) {
        (void)fprintf(p->params.stream, CLEAR_LINE "%s%s%s", p->params.has_color ? "\033[36m" : "",
                      line.data, p->params.has_color ? "\033[0m" : "");
        p->is_line_open = true;
    } else if (!line.has_failed) {
        (void)fprintf(p->params.stream, "%s\n", line.data);
    }
    (void)fflush(p->params.stream);
    p->drawn_at = now;
    cero_text_cleanup(&line);
}

void cero_progress_end(cero_progress *p)
{
    if (p->is_line_open) {
        (void)fputc('\n', p->params.stream);
        (void)fflush(p->params.stream);
        p->is_line_open = false;
    }
}

void cero_progress_log_sink(void *context, cero_log_level level, const char *line)
{
    cero_progress *p = context;

    CERO_UNUSED(level);
    (void)fprintf(p->params.stream, "%s%s\n", p->is_line_open ? CLEAR_LINE : "", line);
    (void)fflush(p->params.stream);
    p->is_line_open = false;
}
