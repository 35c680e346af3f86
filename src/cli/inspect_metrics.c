/* SPDX-License-Identifier: Apache-2.0 */
/* `cero inspect metrics.jsonl`: what a run's loss did, as numbers, characters and SVG. */
#include "base/file.h"
#include "cli/curve.h"
#include "cli/inspect.h"
#include "cli/progress.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const cero_chart_point *best_point(const cero_curve *curve)
{
    const cero_chart_point *best = &curve->points[0];

    for (int64_t i = 1; i < curve->count; i++) {
        best = curve->points[i].y < best->y ? &curve->points[i] : best;
    }
    return best;
}

/* True when the terminal's character set is UTF-8, by the variables that choose it. */
static bool is_utf8(void)
{
    static const char *const names[] = {"LC_ALL", "LC_CTYPE", "LANG"};

    for (size_t i = 0; i < CERO_COUNT_OF(names); i++) {
        const char *value = getenv(names[i]);
        if (value != NULL && value[0] != '\0') {
            return strstr(value, "UTF-8") != NULL || strstr(value, "utf8") != NULL ||
                   strstr(value, "utf-8") != NULL;
        }
    }
    return false;
}

static cero_status write_svg(cero_cli *cli, const char *path, const cero_chart *chart)
{
    cero_text svg = {0};
    cero_status st = CERO_OK;

    cero_cli_at(cli, CERO_CLI_CREATING, path);
    CERO_TRY_GOTO(cero_chart_write_svg(chart, &svg), out);
    CERO_TRY_GOTO(cero_file_write(path, svg.data, svg.length), out);

out:
    cero_text_cleanup(&svg);
    return st;
}

static void write_json(const cero_curve *curve, const char *key, cero_text *out)
{
    const cero_chart_point *best = best_point(curve);
    const cero_chart_point *last = &curve->points[curve->count - 1];

    cero_text_printf(out, "{\"kind\": \"metrics\", \"key\": ");
    cero_text_append_json_string(out, key, strlen(key));
    cero_text_printf(out, ", \"steps\": %lld, \"not_finite\": %lld, \"first\": ",
                     (long long)curve->count, (long long)curve->not_finite);
    cero_text_append_double(out, curve->points[0].y);
    cero_text_printf(out, ", \"last\": ");
    cero_text_append_double(out, last->y);
    cero_text_printf(out, ", \"last_step\": %.0f, \"least\": ", last->x);
    cero_text_append_double(out, best->y);
    cero_text_printf(out, ", \"least_step\": %.0f}\n", best->x);
}

static cero_status write_report(const cero_curve *curve, const cero_chart *chart, const char *path,
                                const char *key, cero_text *out)
{
    const cero_chart_point *best = best_point(curve);
    const cero_chart_point *last = &curve->points[curve->count - 1];
    int width = isatty(STDOUT_FILENO) == 1 ? cero_progress_terminal_width(STDOUT_FILENO) - 1 : 0;
    cero_chart_text_params params = {.width = width > 100 ? 100 : width, .is_unicode = is_utf8()};

    cero_text_printf(out, "%s: metrics of %lld steps\n", path, (long long)curve->count);
    cero_text_printf(out, "%s: first %.6g, last %.6g at step %.0f, least %.6g at step %.0f\n", key,
                     curve->points[0].y, last->y, last->x, best->y, best->x);
    if (curve->not_finite > 0) {
        cero_text_printf(out, "%lld steps have no finite %s\n", (long long)curve->not_finite, key);
    }
    if (curve->has_partial_line) {
        cero_text_printf(out, "the last line is cut short and was left out\n");
    }
    cero_text_printf(out, "\n");
    return cero_chart_write_text(chart, &params, out);
}

cero_status cero_inspect_metrics(cero_cli *cli, const cero_inspect_values *values, const char *path,
                                 cero_text *out)
{
    const char *key = values->key != NULL ? values->key : "loss";
    cero_curve curve = {0};
    cero_status st = CERO_OK;
    char title[160];

    CERO_TRY(cero_curve_read(path, key, &curve));
    (void)snprintf(title, sizeof(title), "%s over %lld steps: %.4g to %.4g", key,
                   (long long)curve.count, curve.points[0].y, curve.points[curve.count - 1].y);
    cero_chart chart = {.title = title,
                        .x_label = "step",
                        .y_label = key,
                        .points = curve.points,
                        .count = curve.count};
    if (values->json) {
        write_json(&curve, key, out);
    } else {
        CERO_TRY_GOTO(write_report(&curve, &chart, path, key, out), out);
    }
    if (values->svg != NULL) {
        CERO_TRY_GOTO(write_svg(cli, values->svg, &chart), out);
    }

out:
    cero_curve_cleanup(&curve);
    return st;
}
