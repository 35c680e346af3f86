/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whole files in the wrong place are refused as well: of another rank, another step, another run; so are files that
 * are missing, that are no files, or that a manifest with a right hash should not name or describe so. Nothing
 * outside of the folder is read or removed.
 */
#include "crash/damage.h"

#include <sys/stat.h>

static void copy_file(const char *from, const char *to)
{
    char *bytes = NULL;
    size_t length = 0;

    assert_ok(cero_file_read(from, 0, &bytes, &length));
    (void)unlink(to);
    files_write(to, bytes, length);
    cero_delete(bytes);
}

static void test_swapped(void **state)
{
    damage d;

    CERO_UNUSED(state);
    damage_begin(&d);
    files_write(d.path[0], d.bytes[1], d.length[1]);
    files_write(d.path[1], d.bytes[0], d.length[0]);
    damage_expect(&d, "files of two ranks swapped", CERO_ERR_CORRUPT, "rank-0000");
    damage_undo(&d, 0);
    damage_undo(&d, 1);

    // The same layout, so the same lengths: only hashes tell steps apart.
    for (int i = 0; i < DAMAGE_RANKS; i++) {
        const char *name = strrchr(d.path[i], '/') + 1;
        copy_file(files_in(d.older, name), d.path[i]);
        damage_expect(&d, "a file of another step", CERO_ERR_CORRUPT, name);
        damage_undo(&d, i);
    }
    copy_file(files_in(d.older, CERO_MANIFEST_NAME), d.path[DAMAGE_RANKS]);
    damage_expect(&d, "the manifest of another step", CERO_ERR_CORRUPT, "rank-0000");
    damage_undo(&d, DAMAGE_RANKS);
    assert_int_equal(blow_newest(d.dir), BLOW_NEW);
    damage_end(&d);
}

static void test_missing(void **state)
{
    damage d;

    CERO_UNUSED(state);
    damage_begin(&d);
    for (int i = 0; i < DAMAGE_FILES; i++) {
        const char *name = strrchr(d.path[i], '/') + 1;
        assert_int_equal(unlink(d.path[i]), 0);
        cero_status st = damage_verify(d.newer);
        assert_true(st == CERO_ERR_IO || st == CERO_ERR_CORRUPT);
        damage_expect(&d, "a file is missing", st, name);
        // A folder or a pipe in its place: the pipe has nobody at its other end.
        assert_int_equal(mkdir(d.path[i], 0777), 0);
        st = damage_verify(d.newer);
        assert_true(st == CERO_ERR_IO || st == CERO_ERR_CORRUPT);
        damage_expect(&d, "a folder in its place", st, name);
        assert_int_equal(rmdir(d.path[i]), 0);
        assert_int_equal(mkfifo(d.path[i], 0666), 0);
        (void)alarm(20);
        st = damage_verify(d.newer);
        assert_true(st == CERO_ERR_IO || st == CERO_ERR_CORRUPT);
        damage_expect(&d, "a pipe in its place", st, name);
        (void)alarm(0);
        damage_undo(&d, i);
    }
    assert_int_equal(blow_newest(d.dir), BLOW_NEW);
    damage_end(&d);
}

/* Two runs that save into one folder at the same steps: the last of each name is there, whole, and each run removes
 * its own alone. */
static void test_two_runs(void **state)
{
    static const char other[] = "fedcba9876543210fedcba9876543210";
    damage d;
    cero_folder_list list = {0};
    int64_t removed = -1;

    CERO_UNUSED(state);
    damage_begin(&d);
    assert_ok(hand_save_run(
        &(hand_save){.dir = d.dir, .run = other, .step = BLOW_NEXT, .ranks = DAMAGE_RANKS}));
    // The file of the other run's checkpoint in ours, which has the same step and length.
    hand_save same = {
        .dir = files_in(d.home, "other"), .run = other, .step = BLOW_NEW, .ranks = DAMAGE_RANKS};
    assert_ok(hand_save_run(&same));
    copy_file(files_in(same.dir, "step-00000004/rank-00001.safetensors"), d.path[1]);
    assert_int_equal(damage_verify(d.newer), CERO_ERR_CORRUPT);
    damage_undo(&d, 1);

    assert_ok(cero_folder_retain(d.dir, other, "step-00000005", 1, &removed));
    assert_int_equal(removed, 0);
    assert_ok(cero_folder_retain(d.dir, HAND_RUN, "step-00000004", 1, &removed));
    assert_int_equal(removed, 1);
    assert_ok(cero_folder_list_read(d.dir, &list));
    assert_int_equal(list.count, 2);
    assert_string_equal(list.entries[0].run, other);
    assert_string_equal(list.entries[1].run, HAND_RUN);
    assert_int_equal(list.entries[1].step, BLOW_NEW);
    cero_folder_list_cleanup(&list);
    damage_end(&d);
}

/* Manifests that are wrong under a right hash. */
static void test_manifests(void **state)
{
    static const struct {
        const char *from;
        const char *to;
        cero_status status;
        const char *text;
    } edits[] = {
        {"\"version\":1", "\"version\":2", CERO_ERR_UNSUPPORTED, "version"},
        {"\"name\":\"rank-00001.safetensors\"", "\"name\":\"../rank-00001.safetensors\"",
         CERO_ERR_CORRUPT, "name"},
        {"\"name\":\"rank-00001.safetensors\"", "\"name\":\"/etc/passwd\"", CERO_ERR_CORRUPT,
         "name"},
        {"\"name\":\"rank-00001.safetensors\"", "\"name\":\"rank-00000.safetensors\"",
         CERO_ERR_CORRUPT, "rank-00000.safetensors"},
        {"\"name\":\"layer.bias\"", "\"name\":\"layer.weight\"", CERO_ERR_CORRUPT, "layer.weight"},
        {"\"begin\":18,", "\"begin\":17,", CERO_ERR_CORRUPT, "layer.weight"},
        {"\"begin\":18,", "\"begin\":19,", CERO_ERR_CORRUPT, "layer.weight"},
        {"\"shape\":[5,7]", "\"shape\":[5,8]", CERO_ERR_CORRUPT, "layer.weight"},
        {"\"file\":1,", "\"file\":0,", CERO_ERR_CORRUPT, "layer.weight"},
        {"\"file\":1,", "\"file\":2,", CERO_ERR_CORRUPT, "layer.weight"},
        {"\"step\":4", "\"step\":-4", CERO_ERR_CORRUPT, "step"},
    };
    damage d;

    CERO_UNUSED(state);
    damage_begin(&d);
    for (size_t i = 0; i < CERO_COUNT_OF(edits); i++) {
        damage_edit_manifest(&d, edits[i].from, edits[i].to);
        damage_expect(&d, edits[i].to, edits[i].status, edits[i].text);
    }
    damage_undo(&d, DAMAGE_RANKS);
    assert_int_equal(blow_newest(d.dir), BLOW_NEW);
    damage_end(&d);
}

/* What links lead to is not ours to remove, and may not be a checkpoint's file. */
static void test_links(void **state)
{
    damage d;
    int64_t removed = 0;

    CERO_UNUSED(state);
    damage_begin(&d);
    const char *outside = files_in(d.home, "outside");
    assert_ok(cero_file_make_dir(outside));
    files_write(files_in(outside, "precious"), "x", 1);
    assert_int_equal(symlink(outside, files_in(d.dir, "step-00000007.tmp-" HAND_RUN)), 0);
    const char *orphan = files_in(d.dir, "step-00000008.tmp-" HAND_RUN);
    assert_ok(cero_file_make_dir(orphan));
    assert_int_equal(symlink(outside, files_in(orphan, "folder")), 0);
    assert_int_equal(symlink(files_in(outside, "precious"), files_in(orphan, "file")), 0);
    assert_ok(cero_folder_sweep(d.dir, &removed));
    assert_int_equal(cero_file_stat(files_in(outside, "precious"), NULL), CERO_FILE_REGULAR);
    assert_int_equal(cero_file_stat(orphan, NULL), CERO_FILE_ABSENT);

    // Links that lead to themselves.
    for (int i = 0; i < DAMAGE_FILES; i++) {
        assert_int_equal(unlink(d.path[i]), 0);
        assert_int_equal(symlink(strrchr(d.path[i], '/') + 1, d.path[i]), 0);
        cero_status st = damage_verify(d.newer);
        assert_true(st == CERO_ERR_IO || st == CERO_ERR_CORRUPT);
        damage_expect(&d, "a link to itself", st, strrchr(d.path[i], '/') + 1);
        damage_undo(&d, i);
    }
    assert_int_equal(blow_newest(d.dir), BLOW_NEW);
    damage_end(&d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_swapped),  cmocka_unit_test(test_missing),
        cmocka_unit_test(test_two_runs), cmocka_unit_test(test_manifests),
        cmocka_unit_test(test_links),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
