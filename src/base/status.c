/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The thread-local error record, and the names and sizes of the types in cero/base.h.
 */
#include "base/status.h"

#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    MAX_FRAMES = 16,
    MESSAGE_SIZE = 8192, /* a rank that was waited for in vain comes with what ranks did last */
    STRING_SIZE = 12288
};

typedef struct frame {
    const char *file;
    const char *func;
    int line;
} frame;

typedef struct record {
    cero_status status;
    int frame_count;
    frame frames[MAX_FRAMES];
    char message[MESSAGE_SIZE];
    char string[STRING_SIZE];
} record;

static _Thread_local record last;

static void record_push(const char *file, int line, const char *func)
{
    if (last.frame_count < MAX_FRAMES) {
        last.frames[last.frame_count++] = (frame){.file = file, .func = func, .line = line};
    }
}

/*
 * Texts of files end up in messages: what would drive a terminal or break the line becomes '?', the C1 controls in
 * UTF-8 (C2 80 .. C2 9F) too. Only reports about other ranks have several lines.
 */
static void make_plain(char *message, size_t length, cero_status status)
{
    bool has_lines = status == CERO_ERR_COMM || status == CERO_ERR_REMOTE;

    for (size_t i = 0; i < length; i++) {
        unsigned char c = (unsigned char)message[i];
        if (c == 0xC2 && ((unsigned char)message[i + 1] & 0xE0) == 0x80) {
            message[i] = message[i + 1] = '?';
        } else if ((c < 0x20 && !(has_lines && c == '\n')) || c == 0x7F) {
            message[i] = '?';
        }
    }
}

cero_status cero_error_set(const char *file, int line, const char *func, cero_status status,
                           const char *fmt, ...)
{
    va_list args;
    char message[MESSAGE_SIZE]; // arguments may point into the old message

    va_start(args, fmt);
    int n = vsnprintf(message, sizeof(message), fmt, args);
    va_end(args);
    make_plain(message, n < MESSAGE_SIZE ? (size_t)n : sizeof(message) - 1, status);
    memcpy(last.message, message, sizeof(message));
    last.status = status;
    last.frame_count = 0;
    record_push(file, line, func);
    return status;
}

cero_status cero_error_push(const char *file, int line, const char *func, cero_status status)
{
    record_push(file, line, func);
    return status;
}

cero_status cero_error_prefix(cero_status status, const char *fmt, ...)
{
    va_list args;
    char message[MESSAGE_SIZE];
    int used;

    va_start(args, fmt);
    used = vsnprintf(message, sizeof(message), fmt, args);
    va_end(args);
    if (used >= 0 && used < MESSAGE_SIZE) {
        size_t room = sizeof(message) - (size_t)used;
        (void)snprintf(message + used, room, "%s", last.message);
    }
    make_plain(message, strlen(message), status);
    memcpy(last.message, message, sizeof(message));
    return status;
}

const char *cero_error_message(void)
{
    return last.message;
}

const char *cero_error_string(void)
{
    size_t used = (size_t)snprintf(last.string, sizeof(last.string), "%s", last.message);

    for (int i = 0; i < last.frame_count && used < sizeof(last.string); i++) {
        const frame *f = &last.frames[i];
        int n = snprintf(last.string + used, sizeof(last.string) - used, "\n    %s %s (%s:%d)",
                         i == 0 ? "in" : "from", f->func, f->file, f->line);
        used += n > 0 ? (size_t)n : 0;
    }
    return last.string;
}

void cero_assert_failed(const char *file, int line, const char *func, const char *cond)
{
    (void)fprintf(stderr, "cero: internal error: %s is false, in %s (%s:%d)\n", cond, func, file,
                  line);
    abort();
}

const char *cero_version(void)
{
    return CERO_VERSION_STRING;
}

const char *cero_status_name(cero_status status)
{
    static const char *const names[CERO_STATUS_COUNT] = {
        "OK",   "INVALID", "SHAPE",   "NOMEM",       "IO",       "CORRUPT",
        "COMM", "REMOTE",  "NUMERIC", "UNSUPPORTED", "INTERNAL",
    };
    return (unsigned)status < CERO_STATUS_COUNT ? names[status] : "unknown";
}

size_t cero_dtype_size(cero_dtype dtype)
{
    static const size_t sizes[CERO_DTYPE_COUNT] = {4, 2, 2, 8, 4, 8, 1};
    CERO_ASSERT((unsigned)dtype < CERO_DTYPE_COUNT);
    return sizes[dtype];
}

const char *cero_dtype_name(cero_dtype dtype)
{
    static const char *const names[CERO_DTYPE_COUNT] = {"f32", "bf16", "f16", "f64",
                                                        "i32", "i64",  "u8"};
    return (unsigned)dtype < CERO_DTYPE_COUNT ? names[dtype] : "unknown";
}

const char *cero_mem_category_name(cero_mem_category category)
{
    static const char *const names[CERO_MEM_COUNT] = {"param",      "grad", "master", "optim",
                                                      "activation", "comm", "io",     "other"};
    return (unsigned)category < CERO_MEM_COUNT ? names[category] : "unknown";
}

int cero_to_int(int64_t value)
{
    CERO_ASSERT(value >= INT_MIN && value <= INT_MAX);
    return (int)value;
}

bool cero_mul_i64(int64_t a, int64_t b, int64_t *out)
{
    return a >= 0 && b >= 0 && !__builtin_mul_overflow(a, b, out);
}

int64_t cero_shape_numel(const cero_shape *shape)
{
    int64_t numel = 1;

    for (int i = 0; i < shape->ndim; i++) {
        numel *= shape->dim[i];
    }
    return numel;
}

bool cero_shape_equal(const cero_shape *a, const cero_shape *b)
{
    if (a->ndim != b->ndim) {
        return false;
    }
    for (int i = 0; i < a->ndim; i++) {
        if (a->dim[i] != b->dim[i]) {
            return false;
        }
    }
    return true;
}

const char *cero_shape_format(const cero_shape *shape, char *text, size_t size)
{
    size_t used = 0;

    CERO_ASSERT(size >= 3);
    text[used++] = '[';
    for (int i = 0; i < shape->ndim && used < size; i++) {
        int n = snprintf(text + used, size - used, "%s%lld", i == 0 ? "" : ", ",
                         (long long)shape->dim[i]);
        used += n > 0 ? (size_t)n : 0;
    }
    if (used > size - 2) {
        used = size - 2;
    }
    text[used] = ']';
    text[used + 1] = '\0';
    return text;
}
