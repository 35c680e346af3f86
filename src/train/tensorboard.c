/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The records of tensorboard.h. Messages and field numbers are those of TensorFlow's event.proto and
 * summary.proto: Event {1 wall_time, 2 step, 3 file_version, 5 summary}, Summary {1 value}, Value {1 tag,
 * 2 simple_value}. All are built in place in buffers of fixed size.
 */
#include "train/tensorboard.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/memory.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum {
    MAX_VARINT = 10,
    MAX_VALUE = 2 * (1 + MAX_VARINT) + CERO_MONITOR_MAX_TAG + 5,
    MAX_SUMMARY = CERO_MONITOR_MAX_POINTS * MAX_VALUE,
    MAX_EVENT = 9 + 1 + MAX_VARINT + 1 + MAX_VARINT + MAX_SUMMARY,
    FRAME_BEFORE = 12, /* length and its check sum */
    FRAME_AFTER = 4,
    MAX_HOST = 256
};

/* The low three bits of a field's tag. */
typedef enum wire_type {
    WIRE_VARINT = 0,
    WIRE_8_BYTES = 1,
    WIRE_BYTES = 2,
    WIRE_4_BYTES = 5
} wire_type;

typedef struct cero_tensorboard {
    cero_file_writer *writer; /* owned */
    unsigned char summary[MAX_SUMMARY];
    unsigned char record[FRAME_BEFORE + MAX_EVENT + FRAME_AFTER];
} cero_tensorboard;

uint32_t cero_crc32c(const void *bytes, size_t length)
{
    const unsigned char *p = bytes;
    uint32_t crc = 0xFFFFFFFFu;

    // Bit by bit: a step has a few hundred bytes.
    for (size_t i = 0; i < length; i++) {
        crc ^= p[i];
        for (int bit = 0; bit < 8; bit++) {
            crc = (crc >> 1) ^ ((crc & 1u) != 0 ? 0x82F63B78u : 0u);
        }
    }
    return ~crc;
}

/* Check sums of data that hold check sums are stored rotated and shifted. */
static uint32_t masked_crc(const void *bytes, size_t length)
{
    uint32_t crc = cero_crc32c(bytes, length);

    return ((crc >> 15) | (crc << 17)) + 0xA282EAD8u;
}

/* The put functions write at `p` and return what follows. */
static unsigned char *put_fixed(unsigned char *p, uint64_t value, int nbytes)
{
    for (int i = 0; i < nbytes; i++) {
        *p++ = (unsigned char)(value >> (8 * i));
    }
    return p;
}

static unsigned char *put_varint(unsigned char *p, uint64_t value)
{
    for (; value >= 0x80; value >>= 7) {
        *p++ = (unsigned char)(value | 0x80);
    }
    *p++ = (unsigned char)value;
    return p;
}

static unsigned char *put_tag(unsigned char *p, int field, wire_type type)
{
    *p = (unsigned char)((field << 3) | (int)type);
    return p + 1;
}

static unsigned char *put_bytes(unsigned char *p, int field, const void *bytes, size_t length)
{
    p = put_varint(put_tag(p, field, WIRE_BYTES), length);
    memcpy(p, bytes, length);
    return p + length;
}

static unsigned char *put_wall_time(unsigned char *p)
{
    double now = cero_clock_wall();
    uint64_t bits;

    memcpy(&bits, &now, sizeof(bits));
    return put_fixed(put_tag(p, 1, WIRE_8_BYTES), bits, 8);
}

static unsigned char *put_point(unsigned char *p, const cero_monitor_point *point)
{
    unsigned char value[MAX_VALUE];
    float number = (float)point->value;
    uint32_t bits;

    CERO_ASSERT(strlen(point->tag) < CERO_MONITOR_MAX_TAG);
    memcpy(&bits, &number, sizeof(bits));
    unsigned char *end = put_bytes(value, 1, point->tag, strlen(point->tag));
    end = put_fixed(put_tag(end, 2, WIRE_4_BYTES), bits, 4);
    return put_bytes(p, 1, value, (size_t)(end - value));
}

/* Frames the event that stands in the record up to `end`, and writes it. */
static cero_status write_record(cero_tensorboard *tb, unsigned char *end)
{
    unsigned char *event = tb->record + FRAME_BEFORE;
    size_t length = (size_t)(end - event);

    (void)put_fixed(tb->record, length, 8);
    (void)put_fixed(tb->record + 8, masked_crc(tb->record, 8), 4);
    end = put_fixed(end, masked_crc(event, length), 4);
    CERO_TRY(cero_file_writer_write(tb->writer, tb->record, (size_t)(end - tb->record)));
    return cero_file_writer_flush(tb->writer);
}

static cero_status write_points(void *monitor, int64_t samples, const cero_monitor_point *points,
                                int count)
{
    cero_tensorboard *tb = monitor;
    unsigned char *p = tb->summary;

    CERO_ASSERT(count <= CERO_MONITOR_MAX_POINTS);
    for (int i = 0; i < count; i++) {
        p = put_point(p, &points[i]);
    }
    size_t length = (size_t)(p - tb->summary);
    p = put_wall_time(tb->record + FRAME_BEFORE);
    p = put_varint(put_tag(p, 2, WIRE_VARINT), (uint64_t)samples);
    p = put_bytes(p, 5, tb->summary, length);
    return write_record(tb, p);
}

static cero_status write_version(cero_tensorboard *tb)
{
    static const char version[] = "brain.Event:2";
    unsigned char *p = put_wall_time(tb->record + FRAME_BEFORE);

    return write_record(tb, put_bytes(p, 3, version, sizeof(version) - 1));
}

/* A path at which nothing stands, so that no run writes into another's file. */
static cero_status name_file(const char *dir, char **path)
{
    char host[MAX_HOST] = "";
    char name[MAX_HOST + 96];

    if (gethostname(host, sizeof(host) - 1) != 0 || host[0] == '\0') {
        (void)snprintf(host, sizeof(host), "localhost");
    }
    for (int n = 0;; n++) {
        (void)snprintf(name, sizeof(name), "events.out.tfevents.%010lld.%s.%ld.%d",
                       (long long)cero_clock_wall(), host, (long)getpid(), n);
        *path = cero_file_join(dir, name);
        CERO_CHECK(*path != NULL, CERO_ERR_NOMEM, "no memory for an event file's path in %s", dir);
        if (cero_file_stat(*path, NULL) == CERO_FILE_ABSENT) {
            return CERO_OK;
        }
        cero_delete(*path);
    }
}

static void close_file(void *monitor)
{
    cero_tensorboard *tb = monitor;

    cero_file_writer_close(&tb->writer);
    cero_delete(tb);
}

static cero_status open_file(const char *dir, const cero_monitor_point *points, int count,
                             void **out)
{
    cero_status st = CERO_OK;
    char *path = NULL;
    cero_tensorboard *tb = cero_new(1, sizeof(*tb));

    CERO_UNUSED(points);
    CERO_UNUSED(count);
    if (tb == NULL) {
        return CERO_FAIL(CERO_ERR_NOMEM, "no memory for an event file in %s", dir);
    }
    CERO_TRY_GOTO(name_file(dir, &path), fail);
    CERO_TRY_GOTO(cero_file_writer_open(path, CERO_FILE_APPEND, &tb->writer), fail);
    CERO_TRY_GOTO(write_version(tb), fail);
    cero_delete(path);
    *out = tb;
    return CERO_OK;

fail:
    cero_delete(path);
    close_file(tb);
    return st;
}

const cero_monitor_ops cero_monitor_tensorboard = {
    .open = open_file,
    .write = write_points,
    .close = close_file,
};
