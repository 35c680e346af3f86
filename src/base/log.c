/* SPDX-License-Identifier: Apache-2.0 */
/* The log sink: level, parts, rank prefix. The only global state besides errors and kernels. */
#include "base/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const level_names[CERO_LOG_COUNT] = {"error", "warn", "info", "debug", "trace"};

static struct {
    bool is_ready;
    cero_log_level level;
    char parts[256]; /* ",zero,comm," or empty for all */
    cero_log_sink sink;
    void *context;
    int rank;
    int size;
} state = {.level = CERO_LOG_WARN, .size = 1};

void cero_log_init(void)
{
    const char *level = getenv("CERO_LOG");
    const char *parts = getenv("CERO_LOG_PARTS");

    if (state.is_ready) {
        return;
    }
    state.is_ready = true;
    for (int i = 0; level != NULL && i < CERO_LOG_COUNT; i++) {
        if (strcmp(level, level_names[i]) == 0) {
            state.level = (cero_log_level)i;
        }
    }
    if (parts != NULL && parts[0] != '\0') {
        (void)snprintf(state.parts, sizeof(state.parts), ",%s,", parts);
    }
}

void cero_log_set_level(cero_log_level level)
{
    cero_log_init();
    state.level = level;
}

cero_log_level cero_log_get_level(void)
{
    cero_log_init();
    return state.level;
}

void cero_log_set_sink(cero_log_sink sink, void *context)
{
    state.sink = sink;
    state.context = context;
}

void cero_log_set_rank(int rank, int size)
{
    state.rank = rank;
    state.size = size;
}

bool cero_log_enabled(cero_log_level level, const char *part)
{
    char wanted[64];

    cero_log_init();
    if (level > state.level || (level == CERO_LOG_INFO && state.rank != 0)) {
        return false;
    }
    if (state.parts[0] == '\0' || level <= CERO_LOG_WARN) {
        return true;
    }
    (void)snprintf(wanted, sizeof(wanted), ",%s,", part);
    return strstr(state.parts, wanted) != NULL;
}

/* `level` is what the line says of itself, `given` what the sink is told. */
static void write_line(cero_log_level level, cero_log_level given, const char *part,
                       const char *fmt, va_list args) CERO_PRINTF(4, 0);

static void write_line(cero_log_level level, cero_log_level given, const char *part,
                       const char *fmt, va_list args)
{
    char line[1024];
    size_t used = 0;

    if (state.size > 1) {
        used += (size_t)snprintf(line, sizeof(line), "[rank %d/%d] ", state.rank, state.size);
    }
    used += (size_t)snprintf(line + used, sizeof(line) - used, "%s %s: ", part, level_names[level]);
    (void)vsnprintf(line + used, sizeof(line) - used, fmt, args);
    if (state.sink != NULL) {
        state.sink(state.context, given, line);
    } else {
        (void)fprintf(stderr, "%s\n", line);
    }
}

void cero_log(cero_log_level level, const char *part, const char *fmt, ...)
{
    va_list args;

    if (cero_log_enabled(level, part)) {
        va_start(args, fmt);
        write_line(level, level, part, fmt, args);
        va_end(args);
    }
}

void cero_log_warn_once(const char *part, const char *fmt, ...)
{
    va_list args;

    if (cero_log_enabled(CERO_LOG_WARN, part) && (state.rank == 0 || state.sink != NULL)) {
        va_start(args, fmt);
        write_line(CERO_LOG_WARN, state.rank == 0 ? CERO_LOG_WARN : CERO_LOG_INFO, part, fmt, args);
        va_end(args);
    }
}
