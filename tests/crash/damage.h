/* SPDX-License-Identifier: Apache-2.0 */
/* Two checkpoints saved by hand (blow.h), and ways to spoil the newer one and to put it right again. */
#ifndef CERO_TESTS_CRASH_DAMAGE_H
#define CERO_TESTS_CRASH_DAMAGE_H

#include "crash/blow.h"

#include "ckpt/checkpoint/manifest_impl.h"

#include <fcntl.h>

enum {
    DAMAGE_RANKS = 2,
    DAMAGE_FILES = DAMAGE_RANKS + 1
};

/* The folder, and the newer checkpoint's files with what they hold. */
typedef struct damage {
    char home[64];
    char dir[128];
    char older[160];
    char newer[160];
    char path[DAMAGE_FILES][256];
    char *bytes[DAMAGE_FILES]; /* owned */
    size_t length[DAMAGE_FILES];
} damage;

static inline void damage_begin(damage *d)
{
    static const char *const names[DAMAGE_FILES] = {"rank-00000.safetensors",
                                                    "rank-00001.safetensors", CERO_MANIFEST_NAME};

    files_make_dir(d->home, sizeof(d->home));
    (void)snprintf(d->dir, sizeof(d->dir), "%s/run", d->home);
    (void)snprintf(d->older, sizeof(d->older), "%s/step-00000003", d->dir);
    (void)snprintf(d->newer, sizeof(d->newer), "%s/step-00000004", d->dir);
    assert_ok(hand_save_run(&(hand_save){.dir = d->dir, .step = BLOW_OLD, .ranks = DAMAGE_RANKS}));
    assert_ok(hand_save_run(&(hand_save){.dir = d->dir, .step = BLOW_NEW, .ranks = DAMAGE_RANKS}));
    for (int i = 0; i < DAMAGE_FILES; i++) {
        (void)snprintf(d->path[i], sizeof(d->path[i]), "%s/%s", d->newer, names[i]);
        assert_ok(cero_file_read(d->path[i], 0, &d->bytes[i], &d->length[i]));
    }
}

static inline void damage_end(damage *d)
{
    for (int i = 0; i < DAMAGE_FILES; i++) {
        cero_delete(d->bytes[i]);
    }
    files_remove(d->home);
}

/* File i as it was. */
static inline void damage_undo(const damage *d, int i)
{
    (void)unlink(d->path[i]);
    files_write(d->path[i], d->bytes[i], d->length[i]);
}

static inline cero_status damage_verify(const char *path)
{
    cero_reader *reader = NULL;
    cero_status st = cero_reader_open(path, &reader);

    if (st == CERO_OK) {
        st = cero_reader_verify(reader, NULL, NULL);
    }
    cero_reader_close(&reader);
    return st;
}

/* The newer one is refused, with a message that names a file, and the older one is what a run resumes from. */
static inline void damage_expect(const damage *d, const char *what, cero_status status,
                                 const char *file)
{
    cero_status st = damage_verify(d->newer);

    if (st != status || strstr(cero_error_message(), file) == NULL) {
        fail_msg("%s: %s, expected %s with \"%s\": %s", what, cero_status_name(st),
                 cero_status_name(status), file, cero_error_message());
    }
    int64_t newest = blow_newest(d->dir);
    if (newest != BLOW_OLD) {
        fail_msg("%s: the newest that verifies is of step %lld", what, (long long)newest);
    }
}

/* The manifest with `from` replaced by `to` where it stands first, and the hash that such a manifest has. */
static inline void damage_edit_manifest(const damage *d, const char *from, const char *to)
{
    const char *bytes = d->bytes[DAMAGE_RANKS];
    size_t body = d->length[DAMAGE_RANKS] - CERO_MANIFEST_TAIL;
    const char *at = strstr(bytes, from);
    char tail[CERO_MANIFEST_TAIL + 1];
    cero_text text = {0};

    if (at == NULL) {
        fail_msg("the manifest has no %s: %s", from, bytes);
        return;
    }
    cero_text_append(&text, bytes, (size_t)(at - bytes));
    cero_text_append(&text, to, strlen(to));
    cero_text_append(&text, at + strlen(from), body - (size_t)(at - bytes) - strlen(from));
    cero_text_append(&text, cero_manifest_tail(text.data, text.length, tail), CERO_MANIFEST_TAIL);
    assert_ok(cero_text_finish(&text));
    files_write(d->path[DAMAGE_RANKS], text.data, text.length);
    cero_text_cleanup(&text);
}

#endif
