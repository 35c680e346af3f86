/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Draws a curve, as SVG for documents and as characters for a terminal.
 *
 * The raw points are drawn lightly and a smoothed line (bias-corrected exponential mean) on top.
 */
#ifndef CERO_CLI_CHART_H
#define CERO_CLI_CHART_H

#include "base/status.h"
#include "base/text.h"

typedef struct cero_chart_point {
    double x;
    double y;
} cero_chart_point;

typedef struct cero_chart {
    const char *title;
    const char *x_label;
    const char *y_label;
    const cero_chart_point *points; /* [count], x rising, all finite; borrowed */
    int64_t count;                  /* at least 1 */
} cero_chart;

/* Characters of a chart; 0 means the default. */
typedef struct cero_chart_text_params {
    int width;       /* columns in all; 0: 72 */
    int height;      /* rows of the plot; 0: 12 */
    bool is_unicode; /* Braille dots (2 x 4 in a character) instead of '*' */
} cero_chart_text_params;

/* Both append to `out`. Errors: NOMEM. */
CERO_NODISCARD cero_status cero_chart_write_svg(const cero_chart *chart, cero_text *out);
CERO_NODISCARD cero_status cero_chart_write_text(const cero_chart *chart,
                                                 const cero_chart_text_params *params,
                                                 cero_text *out);

/*
 * Round numbers that cover lo..hi with about `wanted` steps: 1, 2 or 5 times a power of ten. Gives the
 * step; *first is the largest multiple of it that is <= lo.
 */
double cero_chart_ticks(double lo, double hi, int wanted, double *first);

#endif
