/* SPDX-License-Identifier: Apache-2.0 */
/* Axes and smoothing, shared by the two drawings of a chart; see chart.h. */
#include "cli/chart_impl.h"

#include "base/memory.h"

#include <math.h>

enum {
    MAX_DRAWN = 600 /* more points than this are averaged in groups */
};

double cero_chart_ticks(double lo, double hi, int wanted, double *first)
{
    double span = hi - lo;

    if (!(span > 0)) {
        span = fabs(lo) > 0 ? fabs(lo) : 1;
    }
    double rough = span / wanted;
    double power = pow(10, floor(log10(rough)));
    double ratio = rough / power;
    double step = power * (ratio <= 1 ? 1 : ratio <= 2 ? 2 : ratio <= 5 ? 5 : 10);
    *first = floor(lo / step * (1 + 1e-12)) * step;
    if (*first > lo) {
        *first -= step;
    }
    return step;
}

static cero_chart_axis axis_over(double lo, double hi, int wanted)
{
    cero_chart_axis axis;

    axis.step = cero_chart_ticks(lo, hi, wanted, &axis.lo);
    double steps = ceil((hi - axis.lo) / axis.step - 1e-9);
    axis.tick_count = steps < 1 ? 2 : (int)steps + 1;
    axis.hi = axis.lo + axis.step * (axis.tick_count - 1);
    return axis;
}

/* Averages groups of neighbours, so that a long run is as quick to draw as a short one. */
static int64_t thin_out(const cero_chart *chart, cero_chart_point *out)
{
    int64_t group = (chart->count + MAX_DRAWN - 1) / MAX_DRAWN;
    int64_t count = 0;

    for (int64_t i = 0; i < chart->count; i += group) {
        int64_t end = i + group < chart->count ? i + group : chart->count;
        cero_chart_point mean = {0};
        for (int64_t k = i; k < end; k++) {
            mean.x += chart->points[k].x / (double)(end - i);
            mean.y += chart->points[k].y / (double)(end - i);
        }
        out[count++] = mean;
    }
    return count;
}

static void smooth(const cero_chart_point *raw, int64_t count, cero_chart_point *out)
{
    // The mean of about a fortieth of the curve.
    double keep = 1 - 40.0 / ((double)count + 40.0);
    double sum = 0;
    double weight = 0;

    for (int64_t i = 0; i < count; i++) {
        sum = keep * sum + raw[i].y;
        weight = keep * weight + 1;
        out[i] = (cero_chart_point){.x = raw[i].x, .y = sum / weight};
    }
}

cero_status cero_chart_layout_init(const cero_chart *chart, int x_ticks, int y_ticks,
                                   cero_chart_layout *out)
{
    cero_chart_layout l = {0};

    l.raw = cero_new(2 * MAX_DRAWN, sizeof(l.raw[0]));
    if (l.raw == NULL) {
        return CERO_FAIL(CERO_ERR_NOMEM, "no memory to draw %lld points", (long long)chart->count);
    }
    l.smooth = l.raw + MAX_DRAWN;
    l.count = thin_out(chart, l.raw);
    smooth(l.raw, l.count, l.smooth);
    double lo = l.raw[0].y;
    double hi = l.raw[0].y;
    for (int64_t i = 1; i < l.count; i++) {
        lo = fmin(lo, l.raw[i].y);
        hi = fmax(hi, l.raw[i].y);
    }
    l.y = axis_over(lo, hi, y_ticks);
    l.x = axis_over(l.raw[0].x, chart->points[chart->count - 1].x, x_ticks);
    *out = l;
    return CERO_OK;
}

void cero_chart_layout_cleanup(cero_chart_layout *layout)
{
    cero_delete(layout->raw);
    *layout = (cero_chart_layout){0};
}

double cero_chart_axis_place(const cero_chart_axis *axis, double value)
{
    return (value - axis->lo) / (axis->hi - axis->lo);
}

double cero_chart_axis_tick(const cero_chart_axis *axis, int i)
{
    double value = axis->lo + axis->step * i;

    // 0.1 + 0.2 must not print as 0.30000000000000004, nor a zero as 1e-17.
    return fabs(value) < axis->step * 1e-9 ? 0 : value;
}
