/* SPDX-License-Identifier: Apache-2.0 */
/* A chart as SVG that stands alone: no style sheet, no script, readable on light and dark pages. */
#include "cli/chart_impl.h"

enum {
    WIDTH = 720,
    HEIGHT = 400,
    LEFT = 64,
    RIGHT = 20,
    TOP = 44,
    BOTTOM = 52
};

static double x_at(const cero_chart_layout *l, double x)
{
    return LEFT + cero_chart_axis_place(&l->x, x) * (WIDTH - LEFT - RIGHT);
}

static double y_at(const cero_chart_layout *l, double y)
{
    return TOP + (1 - cero_chart_axis_place(&l->y, y)) * (HEIGHT - TOP - BOTTOM);
}

static void append_escaped(cero_text *out, const char *text)
{
    for (const char *p = text; *p != '\0'; p++) {
        switch (*p) {
        case '&':
            cero_text_printf(out, "&amp;");
            break;
        case '<':
            cero_text_printf(out, "&lt;");
            break;
        case '>':
            cero_text_printf(out, "&gt;");
            break;
        default:
            cero_text_append(out, p, 1);
        }
    }
}

static void append_label(cero_text *out, double x, double y, const char *attributes,
                         const char *text)
{
    cero_text_printf(out, "<text x=\"%.1f\" y=\"%.1f\" %s>", x, y, attributes);
    append_escaped(out, text);
    cero_text_printf(out, "</text>\n");
}

static void append_grid(const cero_chart_layout *l, cero_text *out)
{
    for (int i = 0; i < l->y.tick_count; i++) {
        double value = cero_chart_axis_tick(&l->y, i);
        double y = y_at(l, value);
        cero_text_printf(out,
                         "<path d=\"M%d %.1fH%d\" stroke=\"#e3e6ea\"/>"
                         "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%.6g</text>\n",
                         LEFT, y, WIDTH - RIGHT, LEFT - 8, y + 4, value);
    }
    for (int i = 0; i < l->x.tick_count; i++) {
        double value = cero_chart_axis_tick(&l->x, i);
        double x = x_at(l, value);
        cero_text_printf(out,
                         "<path d=\"M%.1f %dv5\" stroke=\"#9aa3ad\"/>"
                         "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%.6g</text>\n",
                         x, HEIGHT - BOTTOM, x, HEIGHT - BOTTOM + 19, value);
    }
    cero_text_printf(out, "<path d=\"M%d %dH%d\" stroke=\"#9aa3ad\"/>\n", LEFT, HEIGHT - BOTTOM,
                     WIDTH - RIGHT);
}

static void append_line(const cero_chart_layout *l, const cero_chart_point *points,
                        const char *attributes, cero_text *out)
{
    cero_text_printf(out, "<polyline fill=\"none\" stroke-linejoin=\"round\" %s points=\"",
                     attributes);
    for (int64_t i = 0; i < l->count; i++) {
        cero_text_printf(out, "%s%.1f,%.1f", i == 0 ? "" : " ", x_at(l, points[i].x),
                         y_at(l, points[i].y));
    }
    cero_text_printf(out, "\"/>\n");
}

cero_status cero_chart_write_svg(const cero_chart *chart, cero_text *out)
{
    cero_chart_layout l;

    CERO_TRY(cero_chart_layout_init(chart, 8, 6, &l));
    cero_text_printf(out,
                     "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\" "
                     "height=\"%d\" font-family=\"sans-serif\" font-size=\"12\" fill=\"#4a5159\">\n"
                     "<rect width=\"%d\" height=\"%d\" rx=\"6\" fill=\"#ffffff\"/>\n",
                     WIDTH, HEIGHT, WIDTH, HEIGHT, WIDTH, HEIGHT);
    append_label(out, LEFT, 26, "font-size=\"15\" font-weight=\"bold\" fill=\"#20252b\"",
                 chart->title);
    append_grid(&l, out);
    append_label(out, (LEFT + WIDTH - RIGHT) / 2.0, HEIGHT - 12, "text-anchor=\"middle\"",
                 chart->x_label);
    append_label(out, 18, (TOP + HEIGHT - BOTTOM) / 2.0,
                 "text-anchor=\"middle\" transform=\"rotate(-90 18 196)\"", chart->y_label);
    append_line(&l, l.raw, "stroke=\"#9ec3ea\" stroke-width=\"1\"", out);
    append_line(&l, l.smooth, "stroke=\"#1f6fc4\" stroke-width=\"2\"", out);
    cero_text_printf(out, "</svg>\n");
    cero_chart_layout_cleanup(&l);
    return cero_text_finish(out);
}
