/* SPDX-License-Identifier: Apache-2.0 */
/* What the two drawings of a chart share: axes with round ticks, thinned and smoothed points. */
#ifndef CERO_CLI_CHART_IMPL_H
#define CERO_CLI_CHART_IMPL_H

#include "cli/chart.h"

typedef struct cero_chart_axis {
    double lo;
    double hi;
    double step;
    int tick_count; /* lo + i * step for i in [0, tick_count) */
} cero_chart_axis;

typedef struct cero_chart_layout {
    cero_chart_axis x;
    cero_chart_axis y;
    cero_chart_point *raw;    /* [count], owned */
    cero_chart_point *smooth; /* [count], view into the same block */
    int64_t count;
} cero_chart_layout;

CERO_NODISCARD cero_status cero_chart_layout_init(const cero_chart *chart, int x_ticks, int y_ticks,
                                                  cero_chart_layout *out);
void cero_chart_layout_cleanup(cero_chart_layout *layout);

/* 0 at the axis' low end, 1 at its high end. */
double cero_chart_axis_place(const cero_chart_axis *axis, double value);

double cero_chart_axis_tick(const cero_chart_axis *axis, int i);

#endif
