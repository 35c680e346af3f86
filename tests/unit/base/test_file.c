/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files are read whole or refused by name; a written file appears complete or not at all, whichever
 * system call fails; appended lines are never left half written.
 */
#include "harness.h"

#include "base/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[64];

static char *in_folder(const char *name)
{
    static char path[4][256];
    static int turn;
    char *p = path[turn++ % 4];
    (void)snprintf(p, 256, "%s/%s", folder, name);
    return p;
}

static int make_folder(void **state)
{
    CERO_UNUSED(state);
    (void)strcpy(folder, "/tmp/cero-file-XXXXXX");
    return mkdtemp(folder) == NULL;
}

static int remove_folder(void **state)
{
    char command[256];
    CERO_UNUSED(state);
    (void)unsetenv("CERO_FAULT");
    (void)snprintf(command, sizeof(command), "chmod -R u+w %s; rm -rf %s", folder, folder);
    return system(command) == 0 ? 0 : -1;
}

static cero_status put(const char *path, cero_file_mode mode, const char *text, size_t length)
{
    cero_file_writer *w = NULL;
    cero_status st = cero_file_writer_open(path, mode, &w);
    if (st == CERO_OK) {
        st = cero_file_writer_write(w, text, length);
    }
    if (st == CERO_OK) {
        st = cero_file_writer_commit(w);
    }
    cero_file_writer_close(&w);
    assert_null(w);
    return st;
}

static void expect(const char *path, const char *text)
{
    char *bytes = NULL;
    size_t length = 0;
    assert_ok(cero_file_read(path, 0, &bytes, &length));
    assert_int_equal(length, strlen(text));
    assert_string_equal(bytes, text);
    cero_delete(bytes);
}

static int64_t file_count(void)
{
    cero_file_list list;
    assert_ok(cero_file_list_dir(folder, true, &list));
    int64_t count = list.count;
    cero_file_list_cleanup(&list);
    return count;
}

static void set_fault(const char *value)
{
    assert_int_equal(setenv("CERO_FAULT", value, 1), 0);
}

static void test_read(void **state)
{
    CERO_UNUSED(state);
    char *bytes = NULL;
    size_t length = 0;
    assert_ok(put(in_folder("a"), CERO_FILE_REPLACE, "a\0b", 3));
    assert_ok(cero_file_read(in_folder("a"), 3, &bytes, &length));
    assert_int_equal(length, 3);
    assert_memory_equal(bytes, "a\0b", 4);
    cero_delete(bytes);
    bytes = NULL;
    assert_fails(cero_file_read(in_folder("a"), 2, &bytes, &length), CERO_ERR_IO,
                 "has 3 bytes, more than the 2");
    assert_fails(cero_file_read(in_folder("none"), 0, &bytes, &length), CERO_ERR_IO,
                 "No such file or directory");
    assert_fails(cero_file_read(folder, 0, &bytes, &length), CERO_ERR_IO, "is a directory");
    assert_fails(cero_file_read("/dev/zero", 100000, &bytes, &length), CERO_ERR_IO,
                 "/dev/zero has more than the 100000 bytes");
    assert_ok(put(in_folder("empty"), CERO_FILE_REPLACE, "", 0));
    expect(in_folder("empty"), "");
    assert_ok(cero_file_read("/proc/self/status", 0, &bytes, &length));
    assert_int_equal(length, strlen(bytes));
    assert_true(length > 100);
    cero_delete(bytes);
    assert_null(strstr(cero_error_message(), "status"));
}

static void test_read_faults(void **state)
{
    CERO_UNUSED(state);
    char *bytes = NULL;
    size_t length = 0;
    assert_ok(put(in_folder("f"), CERO_FILE_REPLACE, "hello", 5));
    set_fault("read:1:SHORT");
    expect(in_folder("f"), "hello");
    set_fault("read:1:EINTR");
    expect(in_folder("f"), "hello");
    set_fault("read:1:EIO");
    assert_fails(cero_file_read(in_folder("f"), 0, &bytes, &length), CERO_ERR_IO,
                 "at byte 0: Input/output error");
    assert_null(bytes);
    set_fault("read:2:EIO");
    assert_fails(cero_file_read(in_folder("f"), 0, &bytes, &length), CERO_ERR_IO, "at byte 5");
    set_fault("open:2:EACCES");
    expect(in_folder("f"), "hello");
    assert_fails(cero_file_read(in_folder("f"), 0, &bytes, &length), CERO_ERR_IO,
                 "Permission denied");
    expect(in_folder("f"), "hello");
    (void)unsetenv("CERO_FAULT");
}

static void test_map(void **state)
{
    CERO_UNUSED(state);
    cero_file_map map;
    assert_ok(put(in_folder("m"), CERO_FILE_REPLACE, "mapped", 6));
    assert_ok(cero_file_map_open(in_folder("m"), &map));
    assert_int_equal(map.length, 6);
    assert_memory_equal(map.data, "mapped", 6);
    cero_file_map_close(&map);
    assert_null(map.data);
    cero_file_map_close(&map);
    assert_ok(put(in_folder("e"), CERO_FILE_REPLACE, "", 0));
    assert_ok(cero_file_map_open(in_folder("e"), &map));
    assert_null(map.data);
    cero_file_map_close(&map);
    assert_fails(cero_file_map_open(folder, &map), CERO_ERR_IO, "is a directory");
    assert_fails(cero_file_map_open("/dev/null", &map), CERO_ERR_IO, "not a regular file");
    assert_fails(cero_file_map_open(in_folder("x"), &map), CERO_ERR_IO, "No such file");
}

static void test_replace_appears_whole(void **state)
{
    CERO_UNUSED(state);
    cero_file_writer *w = NULL;
    assert_ok(put(in_folder("r"), CERO_FILE_REPLACE, "old", 3));
    assert_int_equal(chmod(in_folder("r"), 0640), 0);
    assert_ok(cero_file_writer_open(in_folder("r"), CERO_FILE_REPLACE, &w));
    assert_ok(cero_file_writer_write(w, "new", 3));
    assert_ok(cero_file_writer_flush(w));
    expect(in_folder("r"), "old");
    assert_ok(cero_file_writer_commit(w));
    expect(in_folder("r"), "new");
    cero_file_writer_close(&w);
    struct stat info;
    assert_int_equal(stat(in_folder("r"), &info), 0);
    assert_int_equal(info.st_mode & 0777, 0640);
    assert_ok(cero_file_writer_open(in_folder("r"), CERO_FILE_REPLACE, &w));
    assert_ok(cero_file_writer_write(w, "never", 5));
    cero_file_writer_close(&w);
    expect(in_folder("r"), "new");
    assert_int_equal(file_count(), 1);
    assert_fails(cero_file_writer_open(folder, CERO_FILE_REPLACE, &w), CERO_ERR_IO, "directory");
    assert_fails(cero_file_writer_open(in_folder("no/such"), CERO_FILE_REPLACE, &w), CERO_ERR_IO,
                 "no/such: No such file");
}

static void test_big_writes(void **state)
{
    CERO_UNUSED(state);
    cero_file_writer *w = NULL;
    assert_ok(cero_file_writer_open(in_folder("big"), CERO_FILE_REPLACE, &w));
    char *block = cero_new(200001, 1);
    for (size_t i = 0; i < 200001; i++) {
        block[i] = (char)('a' + i % 26);
    }
    size_t sizes[] = {1, 65535, 65536, 65537, 7, 200000, 0, 3};
    size_t total = 0;
    for (size_t i = 0; i < CERO_COUNT_OF(sizes); i++) {
        assert_ok(cero_file_writer_write(w, block, sizes[i]));
        total += sizes[i];
    }
    assert_ok(cero_file_writer_commit(w));
    cero_file_writer_close(&w);
    char *bytes = NULL;
    size_t length = 0;
    assert_ok(cero_file_read(in_folder("big"), 0, &bytes, &length));
    assert_int_equal(length, total);
    size_t at = 0;
    for (size_t i = 0; i < CERO_COUNT_OF(sizes); i++) {
        assert_memory_equal(bytes + at, block, sizes[i]);
        at += sizes[i];
    }
    cero_delete(bytes);
    cero_delete(block);
}

/* Whichever call fails, the old file stands, nothing else is left, and the message names the file. */
static void test_replace_faults(void **state)
{
    CERO_UNUSED(state);
    static const char *const faults[] = {"open:1:ENOSPC", "write:1:ENOSPC", "write:2:EDQUOT",
                                         "fsync:1:EIO",   "close:1:EDQUOT", "rename:1:EACCES"};
    char *text = cero_new(150000, 1);
    memset(text, 'x', 150000);
    assert_ok(put(in_folder("target"), CERO_FILE_REPLACE, "old", 3));
    for (size_t i = 0; i < CERO_COUNT_OF(faults); i++) {
        set_fault(faults[i]);
        cero_file_writer *w = NULL;
        cero_status st = cero_file_writer_open(in_folder("target"), CERO_FILE_REPLACE, &w);
        for (int k = 0; k < 3 && st == CERO_OK; k++) {
            st = cero_file_writer_write(w, text, 50000);
        }
        if (st == CERO_OK) {
            st = cero_file_writer_commit(w);
        }
        assert_int_equal(st, CERO_ERR_IO);
        assert_non_null(strstr(cero_error_message(), "/target"));
        if (w != NULL) {
            assert_fails(cero_file_writer_write(w, "a", 1), CERO_ERR_IO, "earlier write failed");
            assert_fails(cero_file_writer_commit(w), CERO_ERR_IO, "earlier write failed");
        }
        cero_file_writer_close(&w);
        expect(in_folder("target"), "old");
        assert_int_equal(file_count(), 1);
    }
    set_fault("fsync:2:EIO");
    assert_fails(put(in_folder("target"), CERO_FILE_REPLACE, "new", 3), CERO_ERR_IO,
                 "the folder of");
    expect(in_folder("target"), "new");
    set_fault("write:1:SHORT");
    assert_ok(put(in_folder("target"), CERO_FILE_REPLACE, "short counts", 12));
    expect(in_folder("target"), "short counts");
    set_fault("write:1:EINTR");
    assert_ok(put(in_folder("target"), CERO_FILE_REPLACE, "interrupted", 11));
    expect(in_folder("target"), "interrupted");
    (void)unsetenv("CERO_FAULT");
    cero_delete(text);
}

static void test_append(void **state)
{
    CERO_UNUSED(state);
    cero_file_writer *w = NULL;
    assert_ok(put(in_folder("log"), CERO_FILE_APPEND, "one\n", 4));
    assert_ok(put(in_folder("log"), CERO_FILE_APPEND, "two\n", 4));
    expect(in_folder("log"), "one\ntwo\n");
    assert_ok(cero_file_writer_open(in_folder("log"), CERO_FILE_APPEND, &w));
    assert_ok(cero_file_writer_write(w, "three\n", 6));
    assert_ok(cero_file_writer_flush(w));
    expect(in_folder("log"), "one\ntwo\nthree\n");
    // One byte of the next line gets out before the disk is full: it is cut off again.
    assert_ok(cero_file_writer_write(w, "four\n", 5));
    int fd = open(in_folder("log"), O_WRONLY | O_APPEND);
    assert_int_equal(write(fd, "f", 1), 1);
    assert_int_equal(close(fd), 0);
    set_fault("write:1:ENOSPC");
    assert_fails(cero_file_writer_flush(w), CERO_ERR_IO, "No space left on device");
    cero_file_writer_close(&w);
    (void)unsetenv("CERO_FAULT");
    expect(in_folder("log"), "one\ntwo\nthree\n");
    assert_ok(cero_file_writer_open(in_folder("log"), CERO_FILE_APPEND, &w));
    assert_ok(cero_file_writer_write(w, "closed\n", 7));
    cero_file_writer_close(&w);
    expect(in_folder("log"), "one\ntwo\nthree\nclosed\n");
}

static void test_devices_are_not_replaced(void **state)
{
    CERO_UNUSED(state);
    assert_ok(put("/dev/null", CERO_FILE_REPLACE, "x", 1));
    assert_int_equal(cero_file_stat("/dev/null", NULL), CERO_FILE_OTHER);
    assert_fails(put("/dev/full", CERO_FILE_REPLACE, "x", 1), CERO_ERR_IO,
                 "/dev/full: No space left on device");
}

static void test_make_dir(void **state)
{
    CERO_UNUSED(state);
    assert_ok(cero_file_make_dir(in_folder("p/q//r/")));
    assert_int_equal(cero_file_stat(in_folder("p/q/r"), NULL), CERO_FILE_DIRECTORY);
    assert_ok(cero_file_make_dir(in_folder("p/q/r")));
    assert_ok(cero_file_make_dir("/"));
    assert_ok(put(in_folder("p/file"), CERO_FILE_REPLACE, "", 0));
    assert_fails(cero_file_make_dir(in_folder("p/file")), CERO_ERR_IO, "a file stands there");
    assert_fails(cero_file_make_dir(in_folder("p/file/x")), CERO_ERR_IO, "p/file");
    set_fault("mkdir:1:ENOSPC");
    assert_fails(cero_file_make_dir(in_folder("n")), CERO_ERR_IO, "No space left");
    // One that could not be brought to disk is not left to be taken for one that was.
    set_fault("fsync:1:EIO");
    assert_fails(cero_file_make_dir(in_folder("n")), CERO_ERR_IO, "to disk: Input/output error");
    assert_int_equal(cero_file_stat(in_folder("n"), NULL), CERO_FILE_ABSENT);
    (void)unsetenv("CERO_FAULT");
}

static void test_list(void **state)
{
    CERO_UNUSED(state);
    static const char *const names[] = {"b.txt", "a/z", "a/y", ".hidden", "c", "a/.git"};
    assert_ok(cero_file_make_dir(in_folder("t/a")));
    for (size_t i = 0; i < CERO_COUNT_OF(names); i++) {
        char path[256];
        (void)snprintf(path, sizeof(path), "%s/t/%s", folder, names[i]);
        assert_ok(put(path, CERO_FILE_REPLACE, "1", 1));
    }
    assert_int_equal(symlink("../b.txt", in_folder("t/a/link")), 0);
    assert_int_equal(symlink("..", in_folder("t/a/circle")), 0);
    assert_int_equal(symlink("nowhere", in_folder("t/a/broken")), 0);
    cero_file_list list;
    assert_ok(cero_file_list_dir(in_folder("t"), true, &list));
    static const char *const expected[] = {"a/link", "a/y", "a/z", "b.txt", "c"};
    assert_int_equal(list.count, CERO_COUNT_OF(expected));
    for (size_t i = 0; i < CERO_COUNT_OF(expected); i++) {
        char path[256];
        (void)snprintf(path, sizeof(path), "%s/t/%s", folder, expected[i]);
        assert_string_equal(list.path[i], path);
    }
    cero_file_list_cleanup(&list);
    assert_ok(cero_file_list_dir(in_folder("t"), false, &list));
    assert_int_equal(list.count, 2);
    cero_file_list_cleanup(&list);
    assert_fails(cero_file_list_dir(in_folder("none"), true, &list), CERO_ERR_IO, "none");
    for (uint64_t n = 1;; n++) {
        cero_mem_fail_at(n);
        cero_status st = cero_file_list_dir(in_folder("t"), true, &list);
        cero_mem_fail_at(0);
        if (st == CERO_OK) {
            break;
        }
        assert_int_equal(st, CERO_ERR_NOMEM);
    }
    cero_file_list_cleanup(&list);
}

static void test_stat_and_join(void **state)
{
    CERO_UNUSED(state);
    int64_t nbytes = 0;
    assert_ok(put(in_folder("s"), CERO_FILE_REPLACE, "12345", 5));
    assert_int_equal(cero_file_stat(in_folder("s"), &nbytes), CERO_FILE_REGULAR);
    assert_int_equal(nbytes, 5);
    assert_int_equal(cero_file_stat(in_folder("none"), &nbytes), CERO_FILE_ABSENT);
    static const char *const joins[][3] = {
        {"a", "b", "a/b"}, {"a/", "b", "a/b"}, {"", "b", "b"}, {"/", "b", "/b"}};
    for (size_t i = 0; i < CERO_COUNT_OF(joins); i++) {
        char *path = cero_file_join(joins[i][0], joins[i][1]);
        assert_string_equal(path, joins[i][2]);
        cero_delete(path);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_read, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_read_faults, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_map, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_replace_appears_whole, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_big_writes, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_replace_faults, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_append, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_devices_are_not_replaced, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_make_dir, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_list, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_stat_and_join, make_folder, remove_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
