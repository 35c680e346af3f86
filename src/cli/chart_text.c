/* SPDX-License-Identifier: Apache-2.0 */
/* A chart in characters: a grid of dots, 2 x 4 of them in a Braille character or one in a '*'. */
#include "cli/chart_impl.h"

#include "base/memory.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum {
    LABEL = 9, /* columns of the numbers left of the plot */
    DEFAULT_WIDTH = 72,
    DEFAULT_HEIGHT = 12,
    MIN_COLUMNS = 20
};

typedef struct canvas {
    int columns; /* characters */
    int rows;
    int dots_x; /* dots in a character */
    int dots_y;
    unsigned char *cell; /* [rows, columns], bit set of dots; owned */
} canvas;

/* Bits of the dots of a Braille character, by row and column. */
static const unsigned char braille[4][2] = {{1, 8}, {2, 16}, {4, 32}, {64, 128}};

static void canvas_dot(canvas *c, int x, int y)
{
    int column = x / c->dots_x;
    int row = y / c->dots_y;

    if (column >= 0 && column < c->columns && row >= 0 && row < c->rows) {
        c->cell[row * c->columns + column] |= braille[y % c->dots_y][x % c->dots_x];
    }
}

/* Draws from the last point to the next, one dot for each column of dots. */
static void canvas_segment(canvas *c, double x0, double y0, double x1, double y1)
{
    int steps = (int)ceil(fmax(fabs(x1 - x0), fabs(y1 - y0)));

    for (int i = 0; i <= steps; i++) {
        double t = steps == 0 ? 0 : (double)i / steps;
        canvas_dot(c, (int)lround(x0 + t * (x1 - x0)), (int)lround(y0 + t * (y1 - y0)));
    }
}

static void canvas_curve(canvas *c, const cero_chart_layout *l)
{
    double width = c->columns * c->dots_x - 1;
    double height = c->rows * c->dots_y - 1;
    double last_x = 0;
    double last_y = 0;

    for (int64_t i = 0; i < l->count; i++) {
        double x = cero_chart_axis_place(&l->x, l->smooth[i].x) * width;
        double y = (1 - cero_chart_axis_place(&l->y, l->smooth[i].y)) * height;
        canvas_segment(c, i == 0 ? x : last_x, i == 0 ? y : last_y, x, y);
        last_x = x;
        last_y = y;
    }
}

static void append_cell(unsigned char dots, bool is_unicode, cero_text *out)
{
    if (dots == 0) {
        cero_text_append(out, " ", 1);
    } else if (!is_unicode) {
        cero_text_append(out, "*", 1);
    } else {
        // U+2800 + dots in UTF-8
        char utf8[3] = {(char)0xE2, (char)(0xA0 | (dots >> 6)), (char)(0x80 | (dots & 0x3F))};
        cero_text_append(out, utf8, sizeof(utf8));
    }
}

/* The number of a tick if one falls into this row. */
static void append_row_label(const canvas *c, const cero_chart_axis *axis, int row, cero_text *out)
{
    for (int i = 0; i < axis->tick_count; i++) {
        double value = cero_chart_axis_tick(axis, i);
        int at = (int)lround((1 - cero_chart_axis_place(axis, value)) * (c->rows - 1));
        if (at == row) {
            cero_text_printf(out, "%*.5g ", LABEL - 1, value);
            return;
        }
    }
    cero_text_printf(out, "%*s", LABEL, "");
}

static void append_x_axis(const canvas *c, const cero_chart *chart, const cero_chart_layout *l,
                          cero_text *out)
{
    char line[512];
    int length = LABEL + 1 + c->columns;

    cero_text_printf(out, "%*s+", LABEL, "");
    for (int i = 0; i < c->columns; i++) {
        cero_text_append(out, "-", 1);
    }
    memset(line, ' ', sizeof(line));
    for (int i = 0; i < l->x.tick_count; i++) {
        char number[32];
        double value = cero_chart_axis_tick(&l->x, i);
        int n = snprintf(number, sizeof(number), "%.6g", value);
        int at =
            LABEL + 1 + (int)lround(cero_chart_axis_place(&l->x, value) * (c->columns - 1)) - n / 2;
        at = at + n > length ? length - n : at;
        // A number that would touch the one before is left out.
        if (i == 0 || line[at - 1] == ' ') {
            memcpy(line + at, number, (size_t)n);
        }
    }
    while (length > 0 && line[length - 1] == ' ') {
        length--;
    }
    cero_text_printf(out, "\n%.*s\n%*s%s\n", length, line, LABEL + 1, "", chart->x_label);
}

cero_status cero_chart_write_text(const cero_chart *chart, const cero_chart_text_params *params,
                                  cero_text *out)
{
    int width = params->width > 0 ? params->width : DEFAULT_WIDTH;
    cero_chart_layout l;
    canvas c = {
        .columns = width - LABEL - 1,
        .rows = params->height > 0 ? params->height : DEFAULT_HEIGHT,
        .dots_x = params->is_unicode ? 2 : 1,
        .dots_y = params->is_unicode ? 4 : 1,
    };

    c.columns = c.columns < MIN_COLUMNS ? MIN_COLUMNS : c.columns > 400 ? 400 : c.columns;
    c.cell = cero_new((size_t)(c.columns * c.rows), 1);
    if (c.cell == NULL) {
        return CERO_FAIL(CERO_ERR_NOMEM, "no memory for a chart of %d columns", c.columns);
    }
    cero_status st = cero_chart_layout_init(chart, 6, 4, &l);
    if (st != CERO_OK) {
        cero_delete(c.cell);
        return st;
    }
    canvas_curve(&c, &l);
    cero_text_printf(out, "%*s%s\n", LABEL + 1, "", chart->y_label);
    for (int row = 0; row < c.rows; row++) {
        append_row_label(&c, &l.y, row, out);
        cero_text_append(out, "|", 1);
        int end = c.columns;
        while (end > 0 && c.cell[row * c.columns + end - 1] == 0) {
            end--;
        }
        for (int i = 0; i < end; i++) {
            append_cell(c.cell[row * c.columns + i], params->is_unicode, out);
        }
        cero_text_append(out, "\n", 1);
    }
    append_x_axis(&c, chart, &l, out);
    cero_chart_layout_cleanup(&l);
    cero_delete(c.cell);
    return cero_text_finish(out);
}
