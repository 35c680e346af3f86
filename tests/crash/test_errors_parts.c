/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A save in which any one call on the system fails (full disk, quota, I/O error, read-only file system) says so with
 * the path and the reason and loses nothing: the older checkpoint is whole, or the newer one when it was already in
 * place; the next save succeeds and leaves nothing over. An interrupted call, or one that writes one byte only, is
 * repeated. A read that fails while a checkpoint is verified is an error and no verdict on the checkpoint.
 */
#include "crash/blow.h"

#include <errno.h>

/* Changes of a save, counted by killing it. */
static int count_changes(const blow *b, const char *home, int ranks)
{
    int n = 1;

    while (blow_kill(b, blow_prepare(b, home, ranks), n, ranks)) {
        n++;
    }
    return n - 1;
}

/* The save's status with a fault at its n-th call. */
static cero_status save_with(const blow *b, const char *dir, const char *call, int n,
                             const char *name)
{
    char fault[64];

    (void)snprintf(fault, sizeof(fault), "%s:%d:%s", call, n, name);
    (void)setenv("CERO_FAULT", fault, 1);
    cero_status st = blow_save(b, dir, BLOW_NEW, 2);
    (void)unsetenv("CERO_FAULT");
    return st;
}

static void expect_message(const blow *b, const char *home, const char *reason, int n)
{
    const char *message = cero_error_message();

    if (strstr(message, home) == NULL || strstr(message, reason) == NULL) {
        fail_msg("%s, call %d: the message lacks %s or \"%s\": %s", b->name, n, home, reason,
                 message);
    }
}

static void test_every_error(void **state)
{
    static const struct {
        const char *name;
        int error;
    } errors[] = {{"ENOSPC", ENOSPC}, {"EIO", EIO}, {"EDQUOT", EDQUOT}, {"EROFS", EROFS}};
    char home[64];

    CERO_UNUSED(state);
    files_make_dir(home, sizeof(home));
    for (size_t i = 0; i < CERO_COUNT_OF(blows); i++) {
        int64_t failed = 0;
        int64_t survived = 0;
        int changes = count_changes(&blows[i], home, 2);
        for (size_t e = 0; e < CERO_COUNT_OF(errors); e++) {
            for (int n = 1; n <= changes; n++) {
                const char *dir = blow_prepare(&blows[i], home, 2);
                cero_status st = save_with(&blows[i], dir, "io", n, errors[e].name);
                assert_true(st == CERO_OK || st == CERO_ERR_IO);
                if (st != CERO_OK) {
                    expect_message(&blows[i], home, strerror(errors[e].error), n);
                }
                failed += st != CERO_OK ? 1 : 0;
                survived += st == CERO_OK ? 1 : 0;
                blow_expect_whole(&blows[i], dir, st == CERO_OK, 2);
            }
        }
        print_message("%s: %lld errors told, %lld of no consequence\n", blows[i].name,
                      (long long)failed, (long long)survived);
        assert_true(failed > 4 * 10);
    }
    files_remove(home);
}

/* Calls that are repeated. */
static void test_interrupted(void **state)
{
    char home[64];

    CERO_UNUSED(state);
    files_make_dir(home, sizeof(home));
    for (size_t i = 0; i < CERO_COUNT_OF(blows); i++) {
        int changes = count_changes(&blows[i], home, 2);
        for (int n = 1; n <= changes; n++) {
            const char *dir = blow_prepare(&blows[i], home, 2);
            assert_ok(save_with(&blows[i], dir, "write", n, "SHORT"));
            assert_int_equal(blow_newest(dir), BLOW_NEW);
            dir = blow_prepare(&blows[i], home, 2);
            assert_ok(save_with(&blows[i], dir, "io", n, "EINTR"));
            assert_int_equal(blow_newest(dir), BLOW_NEW);
        }
    }
    files_remove(home);
}

static cero_status verify_with(const char *path, const char *call, int n, const char *name)
{
    char fault[64];
    cero_reader *reader = NULL;

    (void)snprintf(fault, sizeof(fault), "%s:%d:%s", call, n, name);
    (void)setenv("CERO_FAULT", fault, 1);
    cero_status st = cero_reader_open(path, &reader);
    if (st == CERO_OK) {
        st = cero_reader_verify(reader, NULL, NULL);
    }
    (void)unsetenv("CERO_FAULT");
    cero_reader_close(&reader);
    return st;
}

static void test_reads(void **state)
{
    static const char *const calls[] = {"read", "open"};
    char home[64];

    CERO_UNUSED(state);
    files_make_dir(home, sizeof(home));
    const char *dir = blow_prepare(&blows[1], home, 2);
    const char *path = files_in(dir, "step-00000003");
    for (size_t c = 0; c < CERO_COUNT_OF(calls); c++) {
        int n = 1;
        for (;; n++) {
            cero_status st = verify_with(path, calls[c], n, "EIO");
            if (st == CERO_OK) {
                break;
            }
            assert_int_equal(st, CERO_ERR_IO);
            expect_message(&blows[1], path, strerror(EIO), n);
            assert_ok(verify_with(path, calls[c], n, "EINTR"));
            assert_ok(verify_with(path, calls[c], n, "SHORT"));
        }
        print_message("%s: %d errors told\n", calls[c], n - 1);
        assert_true(n > 3); // the manifest and two files at least
    }
    files_remove(home);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_error),
        cmocka_unit_test(test_interrupted),
        cmocka_unit_test(test_reads),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
