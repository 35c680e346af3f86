/* SPDX-License-Identifier: Apache-2.0 */
/* Bits of a small engine's checkpoint, flipped one at a time, and what a load makes of it. */
#ifndef CERO_TESTS_CRASH_FLIP_LOAD_H
#define CERO_TESTS_CRASH_FLIP_LOAD_H

#include "crash/small.h"

#include "base/log.h"

#include <fcntl.h>

enum {
    FLIP_OLD = 1,
    FLIP_NEW = 2
};

/* The last message of the log that names a file. */
typedef struct flip_log {
    const char *file;
    int64_t named;
} flip_log;

static inline void flip_hear(void *context, cero_log_level level, const char *line)
{
    flip_log *log = context;

    log->named += level <= CERO_LOG_WARN && strstr(line, log->file) != NULL ? 1 : 0;
}

static inline void flip_bit(const char *path, int64_t bit)
{
    unsigned char byte = 0;
    int fd = open(path, O_RDWR | O_CLOEXEC);

    assert_true(fd >= 0);
    assert_int_equal(pread(fd, &byte, 1, (off_t)(bit / 8)), 1);
    byte ^= (unsigned char)(1u << (bit % 8));
    assert_int_equal(pwrite(fd, &byte, 1, (off_t)(bit / 8)), 1);
    (void)close(fd);
}

/* With the bit flipped: the older one is loaded, with a line that names the file. */
static inline void flip_expect(small *s, const char *dir, flip_log *log)
{
    cero_loader_result result = {0};
    int64_t named = log->named;

    assert_ok(small_load(s, dir, NULL, &result));
    assert_int_equal(result.step, FLIP_OLD);
    assert_int_equal(result.skipped, 1);
    assert_true(log->named > named);
}

/* The newer one alone is refused: the engine does not train with what it holds then, or holds what it held before. */
static inline void flip_expect_refused(const char *dir, const char *tag, const flip_log *log)
{
    cero_loader_result result = {0};
    small s;

    small_open(&s);
    int64_t count = 0;
    float *before = case_weights(s.engine, &count);
    assert_fails(small_load(&s, dir, tag, &result), CERO_ERR_CORRUPT, log->file);
    if (cero_engine_can_checkpoint(s.engine) == CERO_OK) {
        float *after = case_weights(s.engine, &count);
        assert_memory_equal(after, before, (size_t)count * sizeof(float));
        cero_delete(after);
    }
    cero_delete(before);
    small_close(&s);
}

/* Every `stride`-th bit of each file; the newer one alone at every 16th of them. */
static inline void flip_and_load(int64_t stride)
{
    static const char *const names[] = {"rank-00000.safetensors", CERO_MANIFEST_NAME};
    char home[64];
    char tag[CERO_FOLDER_MAX_TAG];
    small s;
    flip_log log = {0};
    cero_saver_stats stats;
    int64_t flips = 0;

    files_make_dir(home, sizeof(home));
    small_open(&s);
    small_saver(&s, home, 0, false);
    for (int64_t step = FLIP_OLD; step <= FLIP_NEW; step++) {
        small_train(&s, step);
        assert_ok(small_save(&s, NULL, &stats));
    }
    cero_saver_destroy(&s.saver);
    (void)cero_folder_step_tag(FLIP_NEW, tag);
    cero_log_set_sink(flip_hear, &log);
    for (size_t i = 0; i < CERO_COUNT_OF(names); i++) {
        char path[256];
        int64_t nbytes = 0;
        log.file = names[i];
        (void)snprintf(path, sizeof(path), "%s/%s/%s", home, tag, names[i]);
        assert_int_equal(cero_file_stat(path, &nbytes), CERO_FILE_REGULAR);
        for (int64_t bit = 0; bit < 8 * nbytes; bit += stride) {
            flip_bit(path, bit);
            flip_expect(&s, home, &log);
            if (flips++ % 16 == 0) {
                flip_expect_refused(home, tag, &log);
            }
            flip_bit(path, bit);
        }
    }
    cero_log_set_sink(NULL, NULL);
    print_message("%lld bits flipped, each refused before anything changed\n", (long long)flips);
    small_close(&s);
    files_remove(home);
}

#endif
