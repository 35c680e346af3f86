/* SPDX-License-Identifier: Apache-2.0 */
/*
 * On a real file system of a few megabytes: a save that does not fit is refused before anything is written, with the
 * bytes needed and free (CK-03); the older checkpoint stays, also where one alone is kept and the third save fails
 * (CK-12); a file system that is mounted read-only can be loaded from and refuses to be saved to. Mounting needs
 * root: without, this is skipped with a line.
 */
#include "cases.h"
#include "unit/ckpt/files.h"

#include "base/io.h"
#include "ckpt/checkpoint/folder.h"
#include "ckpt/checkpoint/reader.h"
#include "train/checkpoint/loader.h"
#include "train/checkpoint/saver.h"

#include <errno.h>
#include <sys/mount.h>

#define RUN_ID "00112233445566778899aabbccddeeff"

enum {
    SEQ = 8,
    CHECKPOINT = 118528 * 4 * 3 /* bytes of G1 with its moments, headers not counted */
};

/* A small file system, and an engine of G1. */
typedef struct stage {
    char home[64];
    char dir[96];
    case_world world;
    cero_model_spec spec;
    cero_engine *engine;
    cero_saver *saver;
    int64_t changes; /* made since the watch began */
} stage;

static void count_change(void *context, const cero_io_event *event)
{
    CERO_UNUSED(event);
    ++*(int64_t *)context;
}

static void stage_begin(stage *t, const char *options, int64_t keep)
{
    memset(t, 0, sizeof(*t));
    files_make_dir(t->home, sizeof(t->home));
    if (mount("tmpfs", t->home, "tmpfs", 0, options) != 0) {
        print_message("skipped: a file system cannot be mounted: %s\n", strerror(errno));
        files_remove(t->home);
        skip();
    }
    (void)snprintf(t->dir, sizeof(t->dir), "%s/checkpoints", t->home);
    t->spec = case_g1();
    case_open(&t->world, 1, NULL);
    assert_ok(case_engine(&t->world, &t->spec, SEQ, &t->engine));
    assert_ok(cero_saver_create(
        t->engine, &(cero_saver_params){.dir = t->dir, .run = RUN_ID, .keep = keep}, &t->saver));
}

static void stage_end(stage *t)
{
    cero_io_observe(NULL, NULL);
    cero_saver_destroy(&t->saver);
    cero_engine_destroy(&t->engine);
    case_close(&t->world);
    assert_int_equal(umount(t->home), 0);
    files_remove(t->home);
}

static void train(stage *t, int64_t step)
{
    static case_batch batch;
    cero_step_stats stats;

    assert_ok(cero_engine_train_batch(
        t->engine, case_batch_fill(&batch, 2 * step, 2, SEQ, t->spec.vocab_size), &stats));
}

static cero_status save(stage *t)
{
    cero_saver_stats stats;
    bool has_ended = false;

    CERO_TRY(cero_saver_begin(t->saver, NULL, NULL, 0, &stats));
    return cero_saver_wait(t->saver, &has_ended, &stats);
}

/* The folder holds this checkpoint, whole, and nothing else. */
static void expect_only(stage *t, int64_t step)
{
    cero_folder_list list = {0};
    cero_reader *reader = NULL;

    assert_ok(cero_folder_list_read(t->dir, &list));
    assert_int_equal(list.count, step < 0 ? 0 : 1);
    if (step >= 0) {
        assert_int_equal(list.entries[0].kind, CERO_FOLDER_COMPLETE);
        assert_int_equal(list.entries[0].step, step);
        assert_ok(cero_reader_open(files_in(t->dir, list.entries[0].name), &reader));
        assert_ok(cero_reader_verify(reader, NULL, NULL));
        cero_reader_close(&reader);
    }
    cero_folder_list_cleanup(&list);
}

/* What is needed, the data and something for headers and the manifest, and what is free, which is less. */
static void expect_bytes(void)
{
    const char *message = cero_error_message();
    const char *needs = strstr(message, " needs ");
    const char *has = strstr(message, " has ");
    int64_t needed = needs == NULL ? 0 : strtoll(needs + 7, NULL, 10);
    int64_t free_bytes = has == NULL ? -1 : strtoll(has + 5, NULL, 10);

    if (needed < CHECKPOINT || needed > CHECKPOINT + 200000 || free_bytes < 0 ||
        free_bytes >= needed) {
        fail_msg("the message lacks the bytes needed, about %d, or free: %s", CHECKPOINT, message);
    }
}

/* CK-03 */
static void test_refused_before_writing(void **state)
{
    stage t;

    CERO_UNUSED(state);
    stage_begin(&t, "size=1m", 0);
    cero_io_observe(count_change, &t.changes);
    assert_fails(save(&t), CERO_ERR_IO, t.dir);
    expect_bytes();
    assert_int_equal(t.changes, 0);
    assert_int_equal(cero_file_stat(t.dir, NULL), CERO_FILE_ABSENT);
    stage_end(&t);

    stage_begin(&t, "size=2m", 0);
    train(&t, 0);
    assert_ok(save(&t));
    train(&t, 1);
    cero_io_observe(count_change, &t.changes);
    assert_fails(save(&t), CERO_ERR_IO, t.dir);
    expect_bytes();
    assert_int_equal(t.changes, 0);
    expect_only(&t, 1);
    train(&t, 2); // the engine is as before
    stage_end(&t);
}

/* CK-12 */
static void test_third_of_three(void **state)
{
    static char filler[1 << 20];
    stage t;
    cero_loader_result result = {0};

    CERO_UNUSED(state);
    stage_begin(&t, "size=4m", 1);
    for (int64_t step = 1; step <= 2; step++) {
        train(&t, step - 1);
        assert_ok(save(&t));
        expect_only(&t, step);
    }
    train(&t, 2);
    files_write(files_in(t.home, "filler"), filler, sizeof(filler));
    files_write(files_in(t.home, "filler-2"), filler, sizeof(filler) / 2);
    assert_fails(save(&t), CERO_ERR_IO, t.dir);
    expect_bytes();
    expect_only(&t, 2);
    assert_ok(cero_loader_load(t.engine, &(cero_loader_params){.dir = t.dir}, &result));
    assert_int_equal(result.step, 2);
    stage_end(&t);
}

static void test_read_only(void **state)
{
    stage t;
    cero_loader_result result = {0};

    CERO_UNUSED(state);
    stage_begin(&t, "size=8m", 1);
    train(&t, 0);
    assert_ok(save(&t));
    train(&t, 1);
    assert_int_equal(mount(NULL, t.home, NULL, MS_REMOUNT | MS_RDONLY, NULL), 0);
    assert_fails(save(&t), CERO_ERR_IO, strerror(EROFS));
    expect_only(&t, 1);
    assert_ok(cero_loader_load(t.engine, &(cero_loader_params){.dir = t.dir}, &result));
    assert_int_equal(result.step, 1);
    stage_end(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_refused_before_writing),
        cmocka_unit_test(test_third_of_three),
        cmocka_unit_test(test_read_only),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
