/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process that is killed at any change it makes to files while it saves (every create, write, fsync, close, rename,
 * mkdir, unlink and rmdir, one after the other) leaves the older or the newer checkpoint whole; the next save
 * succeeds, and only expected files are there after it. For the files of 1, 2 and 4 ranks, a first save, one beside
 * an older one, one that takes an older one's place or name, and one that first removes what a killed save left.
 */
#include "crash/blow.h"

static void strike_everywhere(const blow *b, int ranks)
{
    char home[64];
    int n = 1;

    files_make_dir(home, sizeof(home));
    for (;; n++) {
        const char *dir = blow_prepare(b, home, ranks);
        bool is_killed = blow_kill(b, dir, n, ranks);
        blow_expect_whole(b, dir, !is_killed, ranks);
        if (!is_killed) {
            break;
        }
    }
    print_message("%s, %d ranks: killed %d times\n", b->name, ranks, n - 1);
    assert_true(n > 10 + 4 * ranks);
    files_remove(home);
}

static void test_every_change(void **state)
{
    CERO_UNUSED(state);
    for (size_t i = 0; i < CERO_COUNT_OF(blows); i++) {
        strike_everywhere(&blows[i], 1);
        strike_everywhere(&blows[i], 2);
        strike_everywhere(&blows[i], 4);
    }
}

/* Killed again and again, each time one change later or earlier, on what the kills before left. */
static void test_again_and_again(void **state)
{
    const blow *b = &blows[1];
    char home[64];
    int64_t removed = 0;

    CERO_UNUSED(state);
    files_make_dir(home, sizeof(home));
    const char *dir = blow_prepare(b, home, 2);
    for (int i = 0; i < 40; i++) {
        bool is_killed = blow_kill(b, dir, 1 + i * 7 % 40, 2);
        int64_t newest = blow_newest(dir);
        assert_true(newest == BLOW_NEW || (is_killed && newest == BLOW_OLD));
        if (newest == BLOW_NEW) {
            dir = blow_prepare(b, home, 2);
        }
    }
    assert_ok(cero_folder_sweep(dir, &removed));
    assert_ok(blow_save(b, dir, BLOW_NEXT, 2));
    assert_int_equal(blow_newest(dir), BLOW_NEXT);
    files_remove(home);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_change),
        cmocka_unit_test(test_again_and_again),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
