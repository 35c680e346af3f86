/* SPDX-License-Identifier: Apache-2.0 */
/* A save beside the steps is the save of its step; one that fails leaves nothing behind and harms nothing. */
// RUN: np=1,2,3,4
#include "mpi/checkpoint_cases.h"

#include "base/io.h"

#include <pthread.h>

static const char run_id[] = "0123456789abcdef0123456789abcdef";

static cero_saver *new_saver(const job *j, bool is_background, int64_t keep)
{
    cero_saver *saver = NULL;

    assert_ok(cero_saver_create(
        j->engine,
        &(cero_saver_params){
            .dir = dir, .run = run_id, .keep = keep, .is_background = is_background},
        &saver));
    assert_false(cero_saver_is_busy(saver));
    return saver;
}

static void open_stage(job *j, int stage, const char *more)
{
    char text[64];

    (void)snprintf(text, sizeof(text), "zero_optimization.stage=%d", stage);
    job_open(j, MPI_COMM_WORLD, case_g2(), (const char *const[]){text, more, NULL});
}

/* Holds writers of files back until they are let go: steps go on in the meantime whatever the disk does. */
static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;

static void wait_at_gate(void *context, const cero_io_event *event)
{
    CERO_UNUSED(context);
    if (event->change == CERO_IO_WRITE) {
        (void)pthread_mutex_lock(&gate);
        (void)pthread_mutex_unlock(&gate);
    }
}

static void close_gate(void)
{
    (void)pthread_mutex_lock(&gate);
    cero_io_observe(wait_at_gate, NULL);
}

static void open_gate(void)
{
    (void)pthread_mutex_unlock(&gate);
    cero_io_observe(NULL, NULL);
}

/* Steps until the save in the background has ended. */
static cero_status poll_steps(job *j, cero_saver *saver, int64_t *step, cero_saver_stats *stats)
{
    cero_status st = CERO_OK;
    bool has_ended = false;

    while (!has_ended) {
        assert_true(cero_saver_is_busy(saver));
        job_train(j, (*step)++, 1);
        st = cero_saver_poll(saver, &has_ended, stats);
    }
    assert_false(cero_saver_is_busy(saver));
    return st;
}

static void check_background(int stage, const char *dtype)
{
    static states saved;
    static states now;
    job j;
    cero_saver_stats stats = {0};
    cero_saver_stats ended = {0};
    bool has_ended = false;
    int64_t step = 2;

    open_stage(&j, stage, dtype);
    cero_saver *direct = new_saver(&j, false, 0);
    cero_saver *beside = new_saver(&j, true, 0);
    job_train(&j, 0, 2);
    assert_ok(cero_saver_begin(direct, "direct", NULL, 0, &ended));
    assert_true(ended.is_committed);
    close_gate();
    assert_ok(cero_saver_begin(beside, "beside", NULL, 0, &stats));
    assert_false(stats.is_committed);
    assert_int_equal(stats.nbytes, ended.nbytes);
    job_train(&j, step++, 1);
    assert_ok(cero_saver_poll(beside, &has_ended, &ended));
    assert_false(has_ended);
    assert_false(has_entry("beside"));
    open_gate();
    assert_ok(poll_steps(&j, beside, &step, &ended));
    assert_true(ended.is_committed);
    assert_string_equal(ended.tag, "beside");
    assert_int_equal(ended.step, 2);
    equiv_meet();
    if (j.rank == 0) {
        assert_same_digest("direct", "beside");
    }
    // Two in a row: the second waits for the first, and each is of its own step.
    assert_ok(cero_saver_begin(direct, "second", NULL, 0, NULL));
    assert_ok(cero_saver_begin(beside, NULL, NULL, 0, &stats));
    job_train(&j, step++, 1);
    states_get(&j, &saved);
    assert_ok(cero_saver_begin(beside, NULL, NULL, 0, &ended));
    assert_int_equal(ended.step, stats.step + 1);
    assert_true(has_entry(stats.tag));
    job_train(&j, step++, 1);
    assert_ok(cero_saver_wait(beside, &has_ended, &ended));
    assert_true(has_ended && ended.is_committed);
    assert_ok(cero_saver_wait(beside, &has_ended, NULL));
    assert_false(has_ended);
    if (j.rank == 0) {
        assert_same_digest("second", stats.tag);
        assert_int_equal(count_entries(), 5);
    }
    assert_ok(cero_engine_load(j.engine, dir, NULL, NULL));
    states_get(&j, &now);
    states_assert_same(&saved, &now);
    cero_saver_destroy(&beside);
    cero_saver_destroy(&direct);
    job_close(&j);
}

static void test_background(void **state)
{
    CERO_UNUSED(state);
    for (int stage = 0; stage < 4; stage++) {
        make_dir();
        check_background(stage, stage % 2 == 0 ? "bf16.enabled=true" : "bf16.enabled=false");
        remove_dir();
    }
}

static void test_destroy_while_busy(void **state)
{
    job j;
    cero_saver_stats stats;

    CERO_UNUSED(state);
    make_dir();
    open_stage(&j, 2, NULL);
    size_t before = cero_mem_get(j.context->mem, CERO_MEM_IO).current;
    cero_saver *saver = new_saver(&j, true, 0);
    assert_int_equal(cero_mem_get(j.context->mem, CERO_MEM_IO).current - before,
                     cero_engine_own_bytes(j.engine));
    job_train(&j, 0, 1);
    assert_ok(cero_saver_begin(saver, "left", NULL, 0, &stats));
    cero_saver_destroy(&saver);
    assert_null(saver);
    assert_int_equal(cero_mem_get(j.context->mem, CERO_MEM_IO).current, before);
    assert_false(has_entry("left"));
    equiv_meet();
    // Whatever is left of it goes with the next save.
    assert_ok(cero_engine_save(j.engine, dir, "next"));
    assert_int_equal(count_entries(), 1);
    equiv_meet();
    job_close(&j);
    remove_dir();
}

/* What fails, on which rank, for a save in the background or not. */
static void check_fault(job *j, const char *fault, int rank, bool is_background)
{
    static states before;
    static states after;
    bool has_ended = false;
    cero_saver *saver = new_saver(j, is_background, 0);

    states_get(j, &before);
    equiv_meet();
    if (j->rank == rank) {
        assert_int_equal(setenv("CERO_FAULT", fault, 1), 0);
    }
    cero_status st = cero_saver_begin(saver, "bad", NULL, 0, NULL);
    if (is_background && st == CERO_OK) {
        st = cero_saver_wait(saver, &has_ended, NULL);
        assert_true(has_ended);
    }
    assert_int_equal(unsetenv("CERO_FAULT"), 0);
    if (st == CERO_OK) {
        fail_msg("%s did no harm", fault);
    }
    assert_int_equal(st, j->rank == rank ? CERO_ERR_IO : CERO_ERR_REMOTE);
    assert_fails_on_all(st, CERO_ERR_IO, "saving ");
    assert_fails_on_all(st, CERO_ERR_IO, strstr(fault, "ENOSPC") != NULL ? "No space" : "error");
    assert_false(cero_saver_is_busy(saver));
    equiv_meet();
    assert_int_equal(count_entries(), 1);
    states_get(j, &after);
    states_assert_same(&before, &after);
    cero_saver_destroy(&saver);
}

static void test_faults(void **state)
{
    static const char *const of_rank[] = {"write:1:ENOSPC", "fsync:1:EIO", "open:1:EIO"};
    static const char *const of_first[] = {"rename:1:EIO", "mkdir:1:ENOSPC", "write:2:ENOSPC",
                                           "fsync:2:EIO", "fsync:3:EIO"};
    job j;

    CERO_UNUSED(state);
    make_dir();
    open_stage(&j, 2, NULL);
    job_train(&j, 0, 1);
    assert_ok(cero_engine_save(j.engine, dir, "good"));
    job_train(&j, 1, 1);
    for (int is_background = 0; is_background < 2; is_background++) {
        for (size_t k = 0; k < CERO_COUNT_OF(of_rank); k++) {
            // Rank 0 opens files before its own.
            if (j.size > 1 || strncmp(of_rank[k], "open", 4) != 0) {
                check_fault(&j, of_rank[k], j.size - 1, is_background);
            }
        }
        for (size_t k = 0; k < CERO_COUNT_OF(of_first); k++) {
            check_fault(&j, of_first[k], 0, is_background);
        }
    }
    // The engine goes on, and the next save is whole.
    job_train(&j, 2, 1);
    assert_ok(cero_engine_save(j.engine, dir, "bad"));
    assert_int_equal(count_entries(), 2);
    if (j.rank == 0) {
        (void)digest_of("good");
        (void)digest_of("bad");
    }
    equiv_meet();
    job_close(&j);
    remove_dir();
}

/* Checkpoints of steps 9, 10 and 100, of which two stay: those of the greatest steps. */
static void test_keep(void **state)
{
    static const int64_t steps[] = {9, 10, 100};
    job j;
    cero_saver_stats stats = {0};
    bool has_ended = false;

    CERO_UNUSED(state);
    make_dir();
    open_stage(&j, 1, NULL);
    cero_saver *saver = new_saver(&j, true, 2);
    for (size_t k = 0; k < CERO_COUNT_OF(steps); k++) {
        cero_engine_counters counters;
        cero_engine_get_counters(j.engine, &counters);
        counters.step = steps[k];
        cero_engine_set_counters(j.engine, &counters);
        assert_ok(cero_saver_begin(saver, NULL, NULL, 0, NULL));
        assert_ok(cero_saver_wait(saver, &has_ended, &stats));
        assert_int_equal(stats.removed, k == 2 ? 1 : 0);
        assert_true(k < 2 || stats.seconds_verify > 0);
    }
    assert_false(has_entry("step-00000009"));
    assert_true(has_entry("step-00000010") && has_entry("step-00000100"));
    // A save that fails costs no older one.
    if (j.rank == 0) {
        assert_int_equal(setenv("CERO_FAULT", "write:1:ENOSPC", 1), 0);
    }
    cero_saver_destroy(&saver);
    saver = new_saver(&j, true, 1);
    assert_ok(cero_saver_begin(saver, "more", NULL, 0, NULL));
    assert_fails_on_all(cero_saver_wait(saver, &has_ended, &stats), CERO_ERR_IO, "No space");
    assert_int_equal(unsetenv("CERO_FAULT"), 0);
    assert_true(has_entry("step-00000010") && has_entry("step-00000100"));
    equiv_meet();
    cero_saver_destroy(&saver);
    job_close(&j);
    remove_dir();
}

/* What was written is read back before an older checkpoint goes: here it is spoiled on its way to the disk. */
static void spoil_file(void *context, const cero_io_event *event)
{
    CERO_UNUSED(context);
    if (event->change == CERO_IO_RENAME && strstr(event->to, "/second") != NULL) {
        char path[512];
        (void)snprintf(path, sizeof(path), "%s/rank-00000.safetensors", event->to);
        FILE *f = fopen(path, "r+b");
        if (f != NULL) {
            (void)fseek(f, -1, SEEK_END);
            int last = fgetc(f);
            (void)fseek(f, -1, SEEK_END);
            (void)fputc(last ^ 1, f);
            (void)fclose(f);
        }
    }
}

static void test_verify_before_removing(void **state)
{
    job j;

    CERO_UNUSED(state);
    make_dir();
    open_stage(&j, 1, NULL);
    cero_saver *saver = new_saver(&j, false, 1);
    assert_ok(cero_saver_begin(saver, "first", NULL, 0, NULL));
    cero_io_observe(spoil_file, NULL);
    assert_fails_on_all(cero_saver_begin(saver, "second", NULL, 0, NULL), CERO_ERR_CORRUPT,
                        "older checkpoints stay");
    cero_io_observe(NULL, NULL);
    assert_true(has_entry("first"));
    equiv_meet();
    cero_saver_destroy(&saver);
    job_close(&j);
    remove_dir();
}

/* Every rank has a folder of its own under the same name. */
static void test_folder_of_each_rank(void **state)
{
    char own[256];
    char before[512];
    job j;

    CERO_UNUSED(state);
    make_dir();
    open_stage(&j, 1, NULL);
    (void)snprintf(own, sizeof(own), "%s/rank%d", dir, j.rank);
    assert_int_equal(mkdir(own, 0777), 0);
    assert_non_null(getcwd(before, sizeof(before)));
    assert_int_equal(chdir(own), 0);
    cero_status st = cero_engine_save(j.engine, "here", "x");
    if (j.size == 1) {
        assert_ok(st);
    } else {
        char text[64];
        (void)snprintf(text, sizeof(text), "rank %d does not see here/x.tmp-",
                       j.rank > 0 ? j.rank : 1);
        assert_fails_on_all(st, CERO_ERR_IO, text);
        assert_fails_on_all(st, CERO_ERR_IO, "a file system that all ranks share");
        assert_int_not_equal(access("here/x", F_OK), 0);
    }
    assert_int_equal(chdir(before), 0);
    job_train(&j, 0, 1);
    equiv_meet();
    job_close(&j);
    remove_dir();
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_background),
        cmocka_unit_test(test_destroy_while_busy),
        cmocka_unit_test(test_faults),
        cmocka_unit_test(test_keep),
        cmocka_unit_test(test_verify_before_removing),
        cmocka_unit_test(test_folder_of_each_rank),
    };

    return checkpoint_run(tests, CERO_COUNT_OF(tests), argc, argv);
}
