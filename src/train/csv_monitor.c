/* SPDX-License-Identifier: Apache-2.0 */
/* The files of csv_monitor.h, all opened at the start so that steps allocate nothing. */
#include "train/csv_monitor.h"

#include "base/file.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/text.h"
#include "train/cut_lines.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum {
    MAX_LINE = 64
};

typedef struct csv_file {
    const char *tag;
    cero_file_writer *writer; /* owned */
} csv_file;

typedef struct cero_csv {
    int count;
    csv_file file[CERO_MONITOR_MAX_POINTS];
    cero_text line;
} cero_csv;

/* "Train/Samples/lr" -> "Train_Samples_lr.csv" */
static void name_file(const char *tag, char *name, size_t size)
{
    (void)snprintf(name, size, "%s.csv", tag);
    for (char *c = strpbrk(name, "/ "); c != NULL; c = strpbrk(c, "/ ")) {
        *c = '_';
    }
}

static char *make_path(const char *dir, const char *tag)
{
    char name[CERO_MONITOR_MAX_TAG + 8];

    name_file(tag, name, sizeof(name));
    return cero_file_join(dir, name);
}

static void append_value(cero_text *line, double value)
{
    if (isfinite(value)) {
        cero_text_append_double(line, value);
    } else {
        cero_text_printf(line, "%s", isnan(value) ? "nan" : value > 0 ? "inf" : "-inf");
    }
}

static cero_status write_line(cero_csv *csv, const csv_file *file)
{
    cero_text_append(&csv->line, "\n", 1);
    CERO_TRY(cero_text_finish(&csv->line));
    CERO_TRY(cero_file_writer_write(file->writer, csv->line.data, csv->line.length));
    return cero_file_writer_flush(file->writer);
}

static cero_status write_points(void *monitor, int64_t samples, const cero_monitor_point *points,
                                int count)
{
    cero_csv *csv = monitor;

    for (int i = 0; i < count; i++) {
        int at = 0;
        while (at < csv->count && strcmp(csv->file[at].tag, points[i].tag) != 0) {
            at++;
        }
        CERO_CHECK(at < csv->count, CERO_ERR_INTERNAL, "the CSV monitor was not told of %s",
                   points[i].tag);
        csv->line.length = 0;
        cero_text_printf(&csv->line, "%lld,", (long long)samples);
        append_value(&csv->line, points[i].value);
        CERO_TRY(write_line(csv, &csv->file[at]));
    }
    return CERO_OK;
}

static cero_status open_file(cero_csv *csv, const char *dir, const char *tag, bool is_continued)
{
    csv_file *file = &csv->file[csv->count];
    cero_status st = CERO_OK;
    int64_t nbytes = 0;
    char *path = make_path(dir, tag);

    if (path == NULL) {
        return CERO_FAIL(CERO_ERR_NOMEM, "no memory for a path in %s", dir);
    }
    bool is_old = cero_file_stat(path, &nbytes) == CERO_FILE_REGULAR && nbytes > 0;
    CERO_TRY_GOTO(cero_file_writer_open(path, CERO_FILE_APPEND, &file->writer), out);
    file->tag = tag;
    csv->count++;
    if (is_old && !is_continued) {
        cero_log(CERO_LOG_WARN, "train",
                 "%s holds lines of an earlier run; those of this run follow them", path);
    } else if (!is_old) {
        const char *slash = strrchr(tag, '/');
        csv->line.length = 0;
        cero_text_printf(&csv->line, "step,%s", slash == NULL ? tag : slash + 1);
        CERO_TRY_GOTO(write_line(csv, file), out);
    }
out:
    cero_delete(path);
    return st;
}

static void close_files(void *monitor)
{
    cero_csv *csv = monitor;

    for (int i = 0; i < csv->count; i++) {
        cero_file_writer_close(&csv->file[i].writer);
    }
    cero_text_cleanup(&csv->line);
    cero_delete(csv);
}

static cero_status open_all(const char *dir, const cero_monitor_point *points, int count,
                            bool is_continued, void **out)
{
    cero_status st = CERO_OK;
    cero_csv *csv = cero_new(1, sizeof(*csv));

    if (csv == NULL) {
        return CERO_FAIL(CERO_ERR_NOMEM, "no memory for the CSV monitor in %s", dir);
    }
    CERO_ASSERT(count <= CERO_MONITOR_MAX_POINTS);
    cero_text_printf(&csv->line, "%*s", MAX_LINE, ""); // room for the longest line
    for (int i = 0; i < count; i++) {
        CERO_TRY_GOTO(open_file(csv, dir, points[i].tag, is_continued), fail);
    }
    *out = csv;
    return CERO_OK;

fail:
    close_files(csv);
    return st;
}

static cero_status open_files(const char *dir, const cero_monitor_point *points, int count,
                              void **out)
{
    return open_all(dir, points, count, false, out);
}

static cero_status reopen_files(const char *dir, const cero_monitor_point *points, int count,
                                int64_t samples, void **out)
{
    for (int i = 0; i < count; i++) {
        int64_t last = 0;
        char *path = make_path(dir, points[i].tag);
        CERO_CHECK(path != NULL, CERO_ERR_NOMEM, "no memory for a path in %s", dir);
        cero_cut_params params = {
            .path = path, .prefix = "", .has_heading = true, .limit = samples};
        cero_status st = cero_cut_lines(&params, &last);
        cero_delete(path);
        CERO_TRY(st);
    }
    return open_all(dir, points, count, true, out);
}

const cero_monitor_ops cero_monitor_csv = {
    .open = open_files,
    .write = write_points,
    .close = close_files,
    .reopen = reopen_files,
};
