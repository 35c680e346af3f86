/* SPDX-License-Identifier: Apache-2.0 */
/* Adds the instructions of a profiled program up to rows, and prints them. */
#include "train/flops_report.h"

#include "base/file.h"
#include "base/log.h"
#include "base/memory.h"
#include "train/step_report.h"

#include <stdio.h>
#include <string.h>

/* A step's work on this rank: forward, and backward with what is recomputed. */
typedef struct row {
    const char *name;
    int unit;       /* -1: outside of units */
    const char *op; /* NULL: the whole unit */
    double params;
    double forward_flops;
    double forward_seconds;
    double backward_flops;
    double backward_seconds;
} row;

typedef struct report {
    const cero_flops_report_params *params;
    row total;
    double recomputed; /* part of total.backward_flops */
    row *units;        /* owned, [unit_count] */
    int unit_count;
    row *parts; /* owned, [part_count]: operations in units, in program order */
    int part_count;
    row *ops; /* owned, [op_count]: operations over all units */
    int op_count;
} report;

static void report_cleanup(report *r)
{
    cero_delete(r->units);
    cero_delete(r->parts);
    cero_delete(r->ops);
}

const char *cero_flops_report_number(double value, const char *unit, char *text, size_t size)
{
    static const char *const prefixes[] = {"", "k", "M", "G", "T", "P"};
    size_t i = 0;

    while (value >= 1000 && i + 1 < CERO_COUNT_OF(prefixes)) {
        value /= 1000;
        i++;
    }
    if (!(value > 0)) {
        (void)snprintf(text, size, "-");
    } else {
        (void)snprintf(text, size, i == 0 ? "%.0f%s%s%s" : "%.3f%s%s%s", value,
                       i > 0 || unit[0] != '\0' ? " " : "", prefixes[i], unit);
    }
    return text;
}

static void add_instruction(row *to, const cero_program_profile *p, int64_t micro_batches)
{
    double flops = p->flops * (double)micro_batches;
    double seconds = p->runs > 0 ? p->seconds / (double)p->runs * (double)micro_batches : 0;

    if (p->phase == CERO_PHASE_FORWARD) {
        to->forward_flops += flops;
        to->forward_seconds += seconds;
    } else {
        to->backward_flops += flops;
        to->backward_seconds += seconds;
    }
}

/* The row of (unit, op) in a list, appended when there is none; the list has room. */
static row *find_row(row *list, int *count, int unit, const char *op)
{
    for (int i = *count - 1; i >= 0; i--) {
        if (list[i].unit == unit && list[i].op == op) {
            return &list[i];
        }
    }
    list[*count] = (row){.name = op, .unit = unit, .op = op};
    return &list[(*count)++];
}

static cero_status collect(const cero_flops_report_params *params, report *r)
{
    const cero_engine *engine = params->engine;
    int64_t micro_batches = cero_engine_micro_batch_count(engine);
    size_t instructions = (size_t)cero_engine_get_plan(engine)->train.instruction_count;
    cero_program_profile p;

    *r = (report){.params = params, .unit_count = cero_to_int(cero_engine_unit_count(engine))};
    r->total.name = params->model;
    r->units = cero_new((size_t)r->unit_count, sizeof(row));
    r->parts = cero_new(instructions, sizeof(row));
    r->ops = cero_new(instructions, sizeof(row));
    CERO_CHECK(r->units != NULL && r->parts != NULL && r->ops != NULL, CERO_ERR_NOMEM,
               "no memory for a profile of %zu instructions", instructions);
    for (int u = 0; u < r->unit_count; u++) {
        cero_engine_unit unit = cero_engine_get_unit(engine, u);
        r->units[u] = (row){.name = unit.name, .unit = u, .params = (double)unit.numel};
        r->total.params += (double)unit.numel;
    }
    for (int64_t i = 0; cero_engine_profile_get(engine, i, &p); i++) {
        add_instruction(&r->total, &p, micro_batches);
        add_instruction(find_row(r->ops, &r->op_count, -1, p.op), &p, micro_batches);
        add_instruction(find_row(r->parts, &r->part_count, p.unit, p.op), &p, micro_batches);
        if (p.unit >= 0) {
            add_instruction(&r->units[p.unit], &p, micro_batches);
        }
        r->recomputed += p.phase == CERO_PHASE_RECOMPUTE ? p.flops * (double)micro_batches : 0;
    }
    return CERO_OK;
}

static double rate(double flops, double seconds)
{
    return seconds > 0 ? flops / seconds : 0;
}

static void write_work(cero_text *out, const char *what, double flops, double seconds)
{
    char text[2][32];

    cero_text_printf(
        out, "  %-22s %s in %.3f ms, %s\n", what,
        cero_flops_report_number(flops, "FLOP", text[0], sizeof(text[0])), seconds * 1e3,
        cero_flops_report_number(rate(flops, seconds), "FLOP/s", text[1], sizeof(text[1])));
}

static void write_totals(const report *r, cero_text *out)
{
    const cero_flops_report_params *p = r->params;
    const row *t = &r->total;
    double step = p->step->step_seconds;
    double batch = (double)cero_engine_global_batch(p->engine);
    char text[32];

    cero_text_printf(out, "flops profiler: step %lld on rank %d of %d, model %s\n",
                     (long long)p->step->stats.step, p->rank, p->size, p->model);
    cero_text_printf(out, "  %-22s %s\n", "parameters",
                     cero_flops_report_number(t->params, "", text, sizeof(text)));
    cero_text_printf(out, "  %-22s %lld of %lld samples on this rank\n", "micro-batches",
                     (long long)cero_engine_micro_batch_count(p->engine),
                     (long long)cero_engine_micro_batch(p->engine));
    write_work(out, "forward", t->forward_flops, t->forward_seconds);
    write_work(out, "backward", t->backward_flops, t->backward_seconds);
    write_work(out, "forward and backward", t->forward_flops + t->backward_flops,
               t->forward_seconds + t->backward_seconds);
    cero_text_printf(out, "  %-22s %s, in backward\n", "recomputed",
                     cero_flops_report_number(r->recomputed, "FLOP", text, sizeof(text)));
    cero_text_printf(out, "  %-22s %.3f ms\n", "update", p->step->stats.seconds_update * 1e3);
    cero_text_printf(out, "  %-22s %.3f ms, %.1f samples/s over all ranks\n", "step", step * 1e3,
                     step > 0 ? batch / step : 0);
}

typedef enum measure {
    BY_PARAMETERS = 0,
    BY_OPERATIONS = 1,
    BY_FORWARD_TIME = 2,
    MEASURE_COUNT
} measure;

static double measured(const row *r, measure by)
{
    return by == BY_PARAMETERS   ? r->params
           : by == BY_OPERATIONS ? r->forward_flops + r->backward_flops
                                 : r->forward_seconds;
}

/* True when a comes before b: greater, or of equal ones earlier in the list. */
static bool is_before(const row *a, const row *b, measure by)
{
    return measured(a, by) > measured(b, by) || (measured(a, by) >= measured(b, by) && a < b);
}

/* The first `top` rows of a list by a measure, greatest first. */
static void write_top(const row *list, int count, int64_t top, measure by, cero_text *out)
{
    const row *before = NULL;
    char text[32];

    for (int64_t k = 0; k < top && k < count; k++) {
        const row *best = NULL;
        for (int i = 0; i < count; i++) {
            bool is_open = before == NULL || is_before(before, &list[i], by);
            if (is_open && (best == NULL || is_before(&list[i], best, by))) {
                best = &list[i];
            }
        }
        if (best == NULL) {
            break;
        }
        if (by == BY_FORWARD_TIME) {
            (void)snprintf(text, sizeof(text), "%.3f ms", best->forward_seconds * 1e3);
        } else {
            (void)cero_flops_report_number(measured(best, by), by == BY_OPERATIONS ? "FLOP" : "",
                                           text, sizeof(text));
        }
        cero_text_printf(out, "%s%s %s", k == 0 ? " " : ", ", best->name, text);
        before = best;
    }
    cero_text_printf(out, "\n");
}

static void write_tops(const report *r, int64_t depth, cero_text *out)
{
    static const char *const names[MEASURE_COUNT] = {"parameters", "operations", "forward time"};
    int64_t top = r->params->spec->flops_profiler_top_modules;

    for (int by = 0; by < MEASURE_COUNT && depth >= 1; by++) {
        cero_text_printf(out, "top %lld units by %s:", (long long)top, names[by]);
        write_top(r->units, r->unit_count, top, (measure)by, out);
    }
    for (int by = BY_OPERATIONS; by < MEASURE_COUNT && depth >= 2; by++) {
        cero_text_printf(out, "top %lld operations by %s:", (long long)top, names[by]);
        write_top(r->ops, r->op_count, top, (measure)by, out);
    }
}

static const char *time_of(double seconds, char *text, size_t size)
{
    (void)snprintf(text, size, seconds > 0 ? "%.3f ms" : "-", seconds * 1e3);
    return text;
}

static const char *percent_of(double part, double whole, char *text, size_t size)
{
    (void)snprintf(text, size, part > 0 && whole > 0 ? "%.2f %%" : "-", 100 * part / whole);
    return text;
}

/* Operations, time and rate of one direction. */
static void write_direction(double flops, double seconds, cero_text *out)
{
    char text[3][32];

    cero_text_printf(
        out, " %13s %12s %15s", cero_flops_report_number(flops, "FLOP", text[0], sizeof(text[0])),
        time_of(seconds, text[1], sizeof(text[1])),
        cero_flops_report_number(rate(flops, seconds), "FLOP/s", text[2], sizeof(text[2])));
}

static void write_row(const report *r, const row *x, const char *indent, cero_text *out)
{
    const row *t = &r->total;
    char text[4][32];

    cero_text_printf(out, "%s%-*s %10s %9s", indent, 30 - (int)strlen(indent), x->name,
                     cero_flops_report_number(x->params, "", text[0], sizeof(text[0])),
                     percent_of(x->params, t->params, text[1], sizeof(text[1])));
    write_direction(x->forward_flops, x->forward_seconds, out);
    cero_text_printf(out, " %9s %9s",
                     percent_of(x->forward_flops, t->forward_flops, text[2], sizeof(text[2])),
                     percent_of(x->forward_seconds, t->forward_seconds, text[3], sizeof(text[3])));
    write_direction(x->backward_flops, x->backward_seconds, out);
    cero_text_printf(out, "\n");
}

static void write_parts(const report *r, int unit, cero_text *out)
{
    for (int i = 0; i < r->part_count; i++) {
        if (r->parts[i].unit == unit) {
            write_row(r, &r->parts[i], "    ", out);
        }
    }
}

static void write_details(const report *r, int64_t depth, cero_text *out)
{
    cero_text_printf(out, "%-30s %10s %9s %13s %12s %15s %9s %9s %13s %12s %15s\n",
                     "unit and operation", "parameters", "of all", "forward", "time", "rate",
                     "of all", "of time", "backward", "time", "rate");
    write_row(r, &r->total, "", out);
    for (int u = 0; u < r->unit_count && depth >= 1; u++) {
        write_row(r, &r->units[u], "  ", out);
        if (depth >= 2) {
            write_parts(r, u, out);
        }
    }
    if (depth >= 2) {
        write_parts(r, -1, out);
    }
}

cero_status cero_flops_report_write(const cero_flops_report_params *params, cero_text *out)
{
    int64_t depth = params->spec->flops_profiler_module_depth;
    report r;
    cero_status st = collect(params, &r);

    depth = depth < 0 ? 2 : depth;
    if (st == CERO_OK) {
        write_totals(&r, out);
        write_tops(&r, depth, out);
        if (params->spec->flops_profiler_detailed) {
            write_details(&r, depth, out);
        }
        st = cero_text_finish(out);
    }
    report_cleanup(&r);
    return st;
}

/* The folder of a path is made when it is not there. */
static cero_status make_folder_of(const char *path)
{
    const char *slash = strrchr(path, '/');

    if (slash == NULL || slash == path) {
        return CERO_OK;
    }
    char *dir = cero_strndup(path, (size_t)(slash - path));
    CERO_CHECK(dir != NULL, CERO_ERR_NOMEM, "no memory for a path");
    cero_status st = cero_file_make_dir(dir);
    cero_delete(dir);
    return st;
}

static cero_status write_file(const char *path, const cero_text *text)
{
    cero_status st = CERO_OK;

    CERO_TRY_GOTO(make_folder_of(path), out);
    CERO_TRY_GOTO(cero_file_write(path, text->data, text->length), out);
    cero_log(CERO_LOG_INFO, "train", "wrote the profile of flops_profiler to %s", path);
out:
    return st == CERO_OK ? st : cero_error_prefix(st, "flops_profiler.output_file: ");
}

cero_status cero_flops_report_deliver(const cero_flops_report_params *params)
{
    const char *path = params->spec->flops_profiler_output_file;
    cero_text text = {0};
    cero_status st = cero_flops_report_write(params, &text);

    if (st == CERO_OK && path[0] != '\0') {
        st = write_file(path, &text);
    } else if (st == CERO_OK) {
        cero_step_report_lines(text.data);
    }
    cero_text_cleanup(&text);
    return st;
}
