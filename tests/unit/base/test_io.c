/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Each call of the seam changes what its name says, fails when it is told to without changing anything, is repeated
 * when interrupted, and is seen by the observer exactly when it changed something.
 */
#include "harness.h"

#include "base/io.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[64];
static char path[4][128];

/* What was seen, one line for each change. */
typedef struct record {
    char text[4096];
    size_t used;
} record;

static void note(void *context, const cero_io_event *e)
{
    static const char *const names[] = {"create", "write", "truncate", "fsync", "close",
                                        "rename", "mkdir", "unlink",   "rmdir"};
    record *r = context;
    const char *from = e->path == NULL ? "" : strrchr(e->path, '/') + 1;
    const char *to = e->to == NULL ? "" : strrchr(e->to, '/') + 1;

    r->used += (size_t)snprintf(
        r->text + r->used, sizeof(r->text) - r->used, "%s %s%s %lld %.*s %s\n", names[e->change],
        from, to, (long long)e->offset, (int)e->nbytes,
        e->bytes == NULL ? "" : (const char *)e->bytes, e->fd >= 0 ? "fd" : "no fd");
}

static int setup(void **state)
{
    CERO_UNUSED(state);
    (void)strcpy(folder, "/tmp/cero-io-XXXXXX");
    if (mkdtemp(folder) == NULL) {
        return -1;
    }
    for (size_t i = 0; i < CERO_COUNT_OF(path); i++) {
        (void)snprintf(path[i], sizeof(path[i]), "%s/%c", folder, (char)('a' + (int)i));
    }
    return 0;
}

static int teardown(void **state)
{
    char command[128];

    CERO_UNUSED(state);
    cero_io_observe(NULL, NULL);
    (void)unsetenv("CERO_FAULT");
    (void)snprintf(command, sizeof(command), "rm -rf %s", folder);
    return system(command) == 0 ? 0 : -1;
}

/* Every kind of change once; true while no call has failed. */
static bool change_everything(void)
{
    int fd = cero_io_open_write(path[0], O_EXCL);
    bool is_good = fd >= 0;

    is_good = is_good && cero_io_write(fd, "hello", 5) == 5;
    is_good = is_good && cero_io_write(fd, "world", 5) == 5;
    is_good = is_good && cero_io_truncate(fd, 7) == 0;
    is_good = is_good && cero_io_fsync(fd) == 0;
    is_good = (fd < 0 || cero_io_close(fd) == 0) && is_good;
    is_good = is_good && cero_io_rename(path[0], path[1]) == 0;
    is_good = is_good && cero_io_mkdir(path[2]) == 0;
    is_good = is_good && cero_io_fsync_parent(path[1]) == 0;
    is_good = is_good && cero_io_fsync_folder(path[2]) == 0;
    is_good = is_good && cero_io_rmdir(path[2]) == 0;
    is_good = is_good && cero_io_unlink(path[1]) == 0;
    return is_good;
}

static const char *const lines[] = {
    "create a 0  fd\n",   "write  0 hello fd\n", "write  5 world fd\n",  "truncate  7  fd\n",
    "fsync  0  fd\n",     "close  0  fd\n",      "rename ab 0  no fd\n", "mkdir c 0  no fd\n",
    "fsync F 0  no fd\n", "fsync c 0  no fd\n",  "rmdir c 0  no fd\n",   "unlink b 0  no fd\n",
};

static void expect_lines(const record *seen, size_t count)
{
    char text[4096] = "";

    for (size_t i = 0; i < count; i++) {
        const char *f = strchr(lines[i], 'F');
        (void)snprintf(text + strlen(text), sizeof(text) - strlen(text), "%.*s%s%s",
                       f == NULL ? (int)strlen(lines[i]) : (int)(f - lines[i]), lines[i],
                       f == NULL ? "" : strrchr(folder, '/') + 1, f == NULL ? "" : f + 1);
    }
    assert_string_equal(seen->text, text);
}

static void test_observer(void **state)
{
    CERO_UNUSED(state);
    record seen = {.used = 0};
    struct stat info;

    cero_io_observe(note, &seen);
    assert_true(change_everything());
    cero_io_observe(NULL, NULL);
    expect_lines(&seen, CERO_COUNT_OF(lines));
    assert_int_equal(stat(path[1], &info), -1);
    // Nothing is seen of what changes nothing.
    seen = (record){.used = 0};
    int fd = open(path[0], O_RDWR | O_CREAT, 0666);
    assert_int_equal(write(fd, "abc", 3), 3);
    assert_int_equal(close(fd), 0);
    cero_io_observe(note, &seen);
    char bytes[8] = "";
    fd = cero_io_open_read(path[0]);
    assert_int_equal(cero_io_read(fd, bytes, 2), 2);
    assert_int_equal(cero_io_pread(fd, bytes + 2, 2, 2), 1);
    assert_string_equal(bytes, "abc");
    assert_int_equal(close(fd), 0);
    assert_int_equal(cero_io_mkdir(path[0]), -1);
    assert_int_equal(errno, EEXIST);
    assert_int_equal(cero_io_rename(path[3], path[2]), -1);
    assert_int_equal(cero_io_unlink(path[3]), -1);
    assert_int_equal(cero_io_rmdir(path[3]), -1);
    assert_int_equal(cero_io_fsync_folder(path[3]), -1);
    assert_int_equal(errno, ENOENT);
    // A file that was there is not created.
    fd = cero_io_open_write(path[0], 0);
    assert_string_equal(seen.text, "");
    assert_int_equal(cero_io_close(fd), 0);
}

/* The n-th change fails, and those before it alone were made; afterwards there is one call less to be seen. */
static void test_each_change_fails(void **state)
{
    CERO_UNUSED(state);
    char fault[32];
    size_t n = 1;

    for (bool is_good = false; !is_good; n++) {
        record seen = {.used = 0};
        (void)snprintf(fault, sizeof(fault), "io:%zu:ENOSPC", n);
        assert_int_equal(setenv("CERO_FAULT", fault, 1), 0);
        cero_io_observe(note, &seen);
        is_good = change_everything();
        cero_io_observe(NULL, NULL);
        if (!is_good) {
            size_t made = 0;
            for (const char *p = seen.text; *p != '\0'; p++) {
                made += *p == '\n';
            }
            // A file that was opened is closed, and a close that fails has closed.
            size_t closed = n >= 2 && n <= 6 ? 1 : 0;
            assert_int_equal(made, n - 1 + closed);
        }
        assert_int_equal(unsetenv("CERO_FAULT"), 0);
        assert_int_equal(teardown(NULL), 0);
        assert_int_equal(setup(NULL), 0);
    }
    assert_int_equal(n, CERO_COUNT_OF(lines) + 2);
}

static void test_names_of_calls(void **state)
{
    CERO_UNUSED(state);
    static const char *const faults[] = {
        "open:1:EIO",  "write:2:EIO",  "truncate:1:EIO", "fsync:1:EIO",  "fsync:3:EIO",
        "close:1:EIO", "rename:1:EIO", "mkdir:1:EIO",    "unlink:1:EIO", "rmdir:1:EIO"};
    for (size_t i = 0; i < CERO_COUNT_OF(faults); i++) {
        assert_int_equal(setenv("CERO_FAULT", faults[i], 1), 0);
        assert_false(change_everything());
        assert_int_equal(errno, EIO);
        assert_int_equal(teardown(NULL), 0);
        assert_int_equal(setup(NULL), 0);
    }
}

static void test_interrupted_and_short(void **state)
{
    CERO_UNUSED(state);
    char bytes[8] = "";

    assert_int_equal(setenv("CERO_FAULT", "write:1:EINTR", 1), 0);
    int fd = cero_io_open_write(path[0], O_EXCL);
    assert_int_equal(cero_io_write(fd, "abc", 3), 3);
    assert_int_equal(setenv("CERO_FAULT", "write:1:SHORT", 1), 0);
    assert_int_equal(cero_io_write(fd, "def", 3), 1);
    assert_int_equal(setenv("CERO_FAULT", "close:1:EIO", 1), 0);
    assert_int_equal(cero_io_close(fd), -1);
    assert_int_equal(errno, EIO);
    assert_int_equal(fcntl(fd, F_GETFD), -1);
    assert_int_equal(setenv("CERO_FAULT", "open:1:EINTR", 1), 0);
    fd = cero_io_open_read(path[0]);
    assert_true(fd >= 0);
    assert_int_equal(setenv("CERO_FAULT", "read:1:SHORT", 1), 0);
    assert_int_equal(cero_io_read(fd, bytes, 4), 1);
    assert_int_equal(cero_io_pread(fd, bytes, 8, 0), 4);
    assert_string_equal(bytes, "abcd");
    assert_int_equal(close(fd), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_observer, setup, teardown),
        cmocka_unit_test_setup_teardown(test_each_change_fails, setup, teardown),
        cmocka_unit_test_setup_teardown(test_names_of_calls, setup, teardown),
        cmocka_unit_test_setup_teardown(test_interrupted_and_short, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
