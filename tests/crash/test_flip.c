/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every bit of every file of a checkpoint is guarded: with any one of them flipped, with any file cut at any byte or
 * with bytes behind its end, the checkpoint is refused with a message that names the file, and the older one is what
 * is found instead.
 */
#include "crash/damage.h"

static const char *name_of(const damage *d, int file)
{
    return strrchr(d->path[file], '/') + 1;
}

static void test_every_bit(void **state)
{
    damage d;
    char what[64];
    int64_t flips = 0;

    CERO_UNUSED(state);
    damage_begin(&d);
    for (int i = 0; i < DAMAGE_FILES; i++) {
        int fd = open(d.path[i], O_WRONLY | O_CLOEXEC);
        assert_true(fd >= 0);
        for (size_t bit = 0; bit < 8 * d.length[i]; bit++) {
            off_t at = (off_t)(bit / 8);
            char byte = (char)(d.bytes[i][at] ^ (1 << (bit % 8)));
            assert_int_equal(pwrite(fd, &byte, 1, at), 1);
            (void)snprintf(what, sizeof(what), "bit %zu of file %d", bit, i);
            damage_expect(&d, what, CERO_ERR_CORRUPT, name_of(&d, i));
            assert_int_equal(pwrite(fd, &d.bytes[i][at], 1, at), 1);
            flips++;
        }
        (void)close(fd);
    }
    assert_int_equal(blow_newest(d.dir), BLOW_NEW);
    print_message("%lld bits flipped, each refused\n", (long long)flips);
    damage_end(&d);
}

static void test_every_length(void **state)
{
    damage d;
    char what[64];
    int64_t lengths = 0;

    CERO_UNUSED(state);
    damage_begin(&d);
    for (int i = 0; i < DAMAGE_FILES; i++) {
        for (size_t length = 0; length <= d.length[i] + 9; length++) {
            if (length == d.length[i]) {
                continue;
            }
            damage_undo(&d, i);
            assert_int_equal(truncate(d.path[i], (off_t)length), 0);
            (void)snprintf(what, sizeof(what), "file %d of %zu bytes", i, length);
            damage_expect(&d, what, CERO_ERR_CORRUPT, name_of(&d, i));
            lengths++;
        }
        damage_undo(&d, i);
    }
    assert_int_equal(blow_newest(d.dir), BLOW_NEW);
    print_message("%lld lengths, each refused\n", (long long)lengths);
    damage_end(&d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_bit),
        cmocka_unit_test(test_every_length),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
