/* SPDX-License-Identifier: Apache-2.0 */
/* The sink of run_log.h. A log that can no longer be written says so once and lets the run go on. */
#include "train/run_log.h"

#include "base/file.h"
#include "base/memory.h"

#include <stdio.h>
#include <string.h>

struct cero_run_log {
    cero_run_log_params params;
    cero_file_writer *writer; /* owned; NULL after a failed write */
    cero_log_level level_before;
};

static void write_line(cero_run_log *log, const char *text, size_t length)
{
    if (log->writer == NULL) {
        return;
    }
    cero_status st = cero_file_writer_write(log->writer, text, length);
    st = st != CERO_OK ? st : cero_file_writer_write(log->writer, "\n", 1);
    st = st != CERO_OK ? st : cero_file_writer_flush(log->writer);
    if (st != CERO_OK) {
        (void)fprintf(stderr, "cero: the log file ends here: %s\n", cero_error_message());
        cero_file_writer_close(&log->writer);
    }
}

static void sink(void *context, cero_log_level level, const char *line)
{
    cero_run_log *log = context;

    write_line(log, line, strlen(line));
    if (level > log->params.terminal_level) {
        return;
    }
    if (log->params.next != NULL) {
        log->params.next(log->params.next_context, level, line);
    } else {
        (void)fprintf(stderr, "%s\n", line);
    }
}

void cero_run_log_write(cero_run_log *log, const char *text)
{
    write_line(log, text, strlen(text));
}

static cero_status open_file(cero_run_log *log)
{
    char name[32];
    char *dir = cero_file_join(log->params.dir, "log");
    char *path = NULL;
    cero_status st = CERO_OK;

    (void)snprintf(name, sizeof(name), "rank-%05d.log", log->params.rank);
    path = dir != NULL ? cero_file_join(dir, name) : NULL;
    if (path == NULL) {
        CERO_FAIL_GOTO(out, CERO_ERR_NOMEM, "no memory for the log's path in %s", log->params.dir);
    }
    CERO_TRY_GOTO(cero_file_make_dir(dir), out);
    CERO_TRY_GOTO(cero_file_writer_open(path, CERO_FILE_APPEND, &log->writer), out);
out:
    cero_delete(path);
    cero_delete(dir);
    return st;
}

cero_status cero_run_log_open(const cero_run_log_params *params, cero_run_log **out)
{
    cero_status st = CERO_OK;
    cero_run_log *log = cero_new(1, sizeof(*log));

    if (log == NULL) {
        return CERO_FAIL(CERO_ERR_NOMEM, "no memory for a log");
    }
    log->params = *params;
    CERO_TRY_GOTO(open_file(log), fail);
    log->level_before = cero_log_get_level();
    if (log->level_before < CERO_LOG_INFO) {
        cero_log_set_level(CERO_LOG_INFO);
    }
    cero_log_set_sink(sink, log);
    *out = log;
    return CERO_OK;

fail:
    cero_delete(log);
    return st;
}

void cero_run_log_close(cero_run_log **log)
{
    if (log == NULL || *log == NULL) {
        return;
    }
    cero_log_set_sink((*log)->params.next, (*log)->params.next_context);
    cero_log_set_level((*log)->level_before);
    cero_file_writer_close(&(*log)->writer);
    cero_delete(*log);
    *log = NULL;
}
