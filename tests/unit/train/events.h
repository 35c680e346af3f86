/* SPDX-License-Identifier: Apache-2.0 */
/* A reader of TensorBoard event files that shares nothing with the writer but the CRC. */
#ifndef CERO_TESTS_UNIT_TRAIN_EVENTS_H
#define CERO_TESTS_UNIT_TRAIN_EVENTS_H

#include "harness.h"

#include "base/file.h"
#include "train/tensorboard.h"

typedef struct event_value {
    char tag[CERO_MONITOR_MAX_TAG];
    float number;
} event_value;

typedef struct event {
    double wall_time;
    int64_t step;
    char version[32];
    int value_count;
    event_value value[CERO_MONITOR_MAX_POINTS];
} event;

/* Bytes still to be read. */
typedef struct event_bytes {
    const unsigned char *p;
    size_t left;
} event_bytes;

static inline uint64_t events_fixed(event_bytes *b, size_t nbytes)
{
    uint64_t value = 0;

    assert_true(b->left >= nbytes);
    for (size_t i = nbytes; i > 0; i--) {
        value = value << 8 | b->p[i - 1];
    }
    b->p += nbytes;
    b->left -= nbytes;
    return value;
}

static inline uint64_t events_varint(event_bytes *b)
{
    uint64_t value = 0;
    uint64_t byte = 0x80;

    for (int shift = 0; (byte & 0x80) != 0; shift += 7) {
        assert_true(shift < 64);
        byte = events_fixed(b, 1);
        value |= (byte & 0x7F) << shift;
    }
    return value;
}

static inline event_bytes events_slice(event_bytes *b, uint64_t length)
{
    event_bytes part = {b->p, (size_t)length};

    assert_true(b->left >= length);
    b->p += length;
    b->left -= (size_t)length;
    return part;
}

static inline void events_text(event_bytes bytes, char *text, size_t size)
{
    assert_true(bytes.left < size);
    memcpy(text, bytes.p, bytes.left);
    text[bytes.left] = '\0';
}

static inline void events_value(event_bytes b, event_value *out)
{
    while (b.left > 0) {
        uint64_t key = events_varint(&b);
        if (key == (1 << 3 | 2)) {
            events_text(events_slice(&b, events_varint(&b)), out->tag, sizeof(out->tag));
        } else {
            assert_int_equal(key, 2 << 3 | 5);
            uint32_t bits = (uint32_t)events_fixed(&b, 4);
            memcpy(&out->number, &bits, sizeof(bits));
        }
    }
}

static inline void events_event(event_bytes b, event *out)
{
    *out = (event){0};
    while (b.left > 0) {
        uint64_t key = events_varint(&b);
        if (key == (1 << 3 | 1)) {
            uint64_t bits = events_fixed(&b, 8);
            memcpy(&out->wall_time, &bits, sizeof(bits));
        } else if (key == (2 << 3 | 0)) {
            out->step = (int64_t)events_varint(&b);
        } else if (key == (3 << 3 | 2)) {
            events_text(events_slice(&b, events_varint(&b)), out->version, sizeof(out->version));
        } else {
            assert_int_equal(key, 5 << 3 | 2);
            event_bytes summary = events_slice(&b, events_varint(&b));
            while (summary.left > 0) {
                assert_int_equal(events_varint(&summary), 1 << 3 | 2);
                assert_in_range(out->value_count, 0, CERO_MONITOR_MAX_POINTS - 1);
                events_value(events_slice(&summary, events_varint(&summary)),
                             &out->value[out->value_count++]);
            }
        }
    }
}

/* The check sum as it was before it was masked. */
static inline uint32_t events_unmask(uint32_t masked)
{
    uint32_t rotated = masked - 0xA282EAD8u;

    return rotated >> 17 | rotated << 15;
}

/* Reads a whole file of events, checking every frame; returns how many there are. */
static inline int events_parse(const unsigned char *bytes, size_t length, event *out, int most)
{
    event_bytes b = {bytes, length};
    int count = 0;

    while (b.left > 0) {
        const unsigned char *start = b.p;
        uint64_t n = events_fixed(&b, 8);
        assert_int_equal(events_unmask((uint32_t)events_fixed(&b, 4)), cero_crc32c(start, 8));
        event_bytes payload = events_slice(&b, n);
        assert_int_equal(events_unmask((uint32_t)events_fixed(&b, 4)),
                         cero_crc32c(payload.p, payload.left));
        assert_in_range(count, 0, most - 1);
        events_event(payload, &out[count++]);
    }
    return count;
}

/* Reads the n-th file of the folder (n = 0: the first by name) whose name starts as event files do. */
static inline int events_read(const char *dir, int n, event *out, int most)
{
    cero_file_list list = {0};
    int count = -1;

    assert_ok(cero_file_list_dir(dir, false, &list));
    for (int64_t i = 0; i < list.count; i++) {
        if (strstr(list.path[i], "/events.out.tfevents.") != NULL && n-- == 0) {
            char *bytes = NULL;
            size_t length = 0;
            assert_ok(cero_file_read(list.path[i], 0, &bytes, &length));
            count = events_parse((const unsigned char *)bytes, length, out, most);
            cero_delete(bytes);
        }
    }
    cero_file_list_cleanup(&list);
    return count;
}

/* The value of a tag, NaN-safe: fails when the tag is not in the event. */
static inline float events_find(const event *e, const char *tag)
{
    for (int i = 0; i < e->value_count; i++) {
        if (strcmp(e->value[i].tag, tag) == 0) {
            return e->value[i].number;
        }
    }
    fail_msg("the event has no %s", tag);
    return 0;
}

#endif
