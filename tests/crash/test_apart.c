/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CK-06: ranks that write under the same name into different folders, as on disks of their own, are told by the save,
 * with the ranks whose files are not there; nothing is committed, in neither folder, and the next save into one folder
 * succeeds.
 */
// RUN: np=2,3
#include "crash/small.h"
#include "mpi/world.h"

static void share(small *s, char *home, size_t size)
{
    if (cero_context_rank(s->world.context) == 0) {
        files_make_dir(home, size);
    }
    assert_ok(cero_comm_broadcast(cero_engine_comm(s->engine), home, size, 0));
}

static void test_apart(void **state)
{
    static small s;
    char home[64];
    char dir[128];
    cero_saver_stats stats;

    CERO_UNUSED(state);
    small_open(&s);
    share(&s, home, sizeof(home));
    int rank = cero_context_rank(s.world.context);
    int last = cero_context_size(s.world.context) - 1;
    for (int k = 0; k < 2; k++) {
        (void)snprintf(dir, sizeof(dir), "%s/%s", home, rank == last ? "elsewhere" : "here");
        small_train(&s, 1 + k);
        small_saver(&s, dir, 0, k == 1);
        cero_status st = small_save(&s, NULL, &stats);
        assert_true(st != CERO_OK);
        char name[32];
        (void)snprintf(name, sizeof(name), "rank %d", last);
        if (rank == 0 && strstr(cero_error_message(), name) == NULL) {
            fail_msg("the message does not name rank %d: %s", last, cero_error_message());
        }
        cero_folder_list list = {0};
        assert_ok(cero_folder_list_read(dir, &list));
        assert_int_equal(list.count, 0);
        cero_folder_list_cleanup(&list);
    }
    (void)snprintf(dir, sizeof(dir), "%s/here", home);
    small_saver(&s, dir, 0, false);
    assert_ok(small_save(&s, NULL, &stats));
    assert_true(stats.is_committed);
    cero_saver_destroy(&s.saver);
    assert_ok(cero_comm_barrier(cero_engine_comm(s.engine)));
    small_close(&s);
    if (rank == 0) {
        files_remove(home);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_apart)};

    return run_in_world(NULL, tests, CERO_COUNT_OF(tests));
}
