/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whenever power is lost during a save, the older or the newer checkpoint is found whole, and the newer one once the
 * save returned: 2,000 distinct images of the disk here, 20,000 in test_power_loss_full.c. Where an fsync is left out
 * there are images that do not recover: each of those that a save makes is needed, and this test can fail.
 */
#include "crash/power_scenes.h"

static void test_images(void **state)
{
    CERO_UNUSED(state);
    lose_power(14, 2000);
}

static bool is_of_folder(const disk *d, int i, int which)
{
    CERO_UNUSED(which);
    return d->nodes[d->changes[i].node].is_folder;
}

static bool is_of_file(const disk *d, int i, int which)
{
    return !is_of_folder(d, i, which);
}

/* Of one node alone, in the save and after. */
static bool is_of_node(const disk *d, int i, int which)
{
    return d->changes[i].node == which;
}

/* Images that do not recover when fsyncs are left out of the record of a second save. */
static int64_t violations_without(scene *s, bool (*is_left_out)(const disk *d, int i, int which),
                                  int which)
{
    tally t;

    tally_begin(&t);
    disk_settle(&s->disk, is_left_out, which);
    scene_lose(s, &t, s->saves[1].begin, 40);
    tally_end(&t);
    return t.violations;
}

/* Without the fsyncs of all files, of all folders, or of a single file or folder. */
static void test_fsync_is_needed(void **state)
{
    static scene s;
    int needed = 0;

    CERO_UNUSED(state);
    scene_begin(&s);
    play_second(&s, 2);
    disk_end(&s.disk);
    scene_interleave(&s);
    assert_int_equal(violations_without(&s, NULL, 0), 0);
    assert_true(violations_without(&s, is_of_file, 0) > 0);
    assert_true(violations_without(&s, is_of_folder, 0) > 0);
    for (int node = 0; node < s.disk.node_count; node++) {
        int count = 0;
        for (int i = s.saves[1].begin; i < s.saves[1].end; i++) {
            count += s.disk.changes[i].change == CERO_IO_FSYNC && is_of_node(&s.disk, i, node);
        }
        if (count > 0) {
            int64_t violations = violations_without(&s, is_of_node, node);
            print_message("without the %d fsyncs of %s: %lld images do not recover\n", count,
                          node == 0 ? "the root" : s.disk.nodes[node].name, (long long)violations);
            needed += violations > 0 ? 1 : 0;
        }
    }
    // Two ranks' files, the manifest, the folder of the checkpoint and the one above; not the hint.
    assert_true(needed >= 5);
    scene_end(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_images),
        cmocka_unit_test(test_fsync_is_needed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
