/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any one call on the system that fails on any one rank while an engine is saved, in the step or beside the next one,
 * is told on all ranks with the path and the reason; the older checkpoint is whole, training goes on with the same
 * bits, the next save succeeds and leaves nothing over. The same while a checkpoint is loaded: all ranks load the same
 * one, whole, or none.
 */
// RUN: np=1,2,3
#include "crash/small.h"
#include "mpi/world.h"

#include <errno.h>

enum {
    OLD = 2,
    NEW = 3,
    LAST = 5
};

/* The run, a folder that all ranks know, and what a run that nothing strikes ends with. */
typedef struct stage {
    small s;
    char home[64];
    char dir[80];
    char base[80];
    int rank;
    int size;
    float *straight; /* owned */
    int64_t count;
} stage;

static cero_comm *comm_of(stage *t)
{
    return cero_engine_comm(t->s.engine);
}

static void meet(stage *t)
{
    assert_ok(cero_comm_barrier(comm_of(t)));
}

/* Rank 0's answer on all ranks. */
static int64_t say(stage *t, int64_t value)
{
    assert_ok(cero_comm_broadcast(comm_of(t), &value, sizeof(value), 0));
    return value;
}

static void stage_begin(stage *t)
{
    cero_saver_stats stats;

    memset(t, 0, sizeof(*t));
    small_open(&t->s);
    t->rank = cero_context_rank(t->s.world.context);
    t->size = cero_context_size(t->s.world.context);
    if (t->rank == 0) {
        files_make_dir(t->home, sizeof(t->home));
    }
    assert_ok(cero_comm_broadcast(comm_of(t), t->home, sizeof(t->home), 0));
    (void)snprintf(t->dir, sizeof(t->dir), "%s/run", t->home);
    (void)snprintf(t->base, sizeof(t->base), "%s/base", t->home);
    small_train(&t->s, OLD);
    small_saver(&t->s, t->base, 0, false);
    assert_ok(small_save(&t->s, NULL, &stats));
    small_train(&t->s, LAST);
    t->straight = case_weights(t->s.engine, &t->count);
}

static void stage_end(stage *t)
{
    meet(t);
    cero_delete(t->straight);
    if (t->rank == 0) {
        files_remove(t->home);
    }
    small_close(&t->s);
}

static void expect_straight(stage *t)
{
    int64_t count = 0;
    float *weights = case_weights(t->s.engine, &count);

    assert_int_equal(count, t->count);
    assert_memory_equal(weights, t->straight, (size_t)count * sizeof(float));
    cero_delete(weights);
}

/* What a fault is: `call`:n:`name` on one rank. */
typedef struct fault {
    const char *call;
    const char *name;
    int error;
    int rank;
} fault;

static void arm(const stage *t, const fault *f, int n)
{
    char text[64];

    (void)snprintf(text, sizeof(text), "%s:%d:%s", f->call, n, f->name);
    if (t->rank == f->rank) {
        (void)setenv("CERO_FAULT", text, 1);
    }
}

static void disarm(void)
{
    (void)unsetenv("CERO_FAULT");
}

/* The rank that was struck says what and why; the others say that it was that rank. */
static void expect_told(const stage *t, const fault *f, int n, cero_status st)
{
    const char *message = cero_error_message();
    bool is_own = t->rank == f->rank;

    if (st != (is_own ? CERO_ERR_IO : CERO_ERR_REMOTE)) {
        fail_msg("%s:%d:%s on rank %d: rank %d got %s: %s", f->call, n, f->name, f->rank, t->rank,
                 cero_status_name(st), message);
    }
    if (strstr(message, t->home) == NULL || strstr(message, strerror(f->error)) == NULL) {
        fail_msg("%s:%d:%s on rank %d: rank %d's message lacks path or reason: %s", f->call, n,
                 f->name, f->rank, t->rank, message);
    }
}

/* One save that meets the fault; true when the fault struck (all ranks agree). */
static bool save_struck(stage *t, const fault *f, bool is_background, int n)
{
    cero_saver_stats stats = {0};
    cero_loader_result result;
    int64_t newest = 0;

    assert_ok(small_load(&t->s, t->base, NULL, &result));
    small_saver(&t->s, t->dir, 1, is_background);
    assert_ok(small_save(&t->s, NULL, &stats));
    small_train(&t->s, NEW);
    arm(t, f, n);
    cero_status st = small_save(&t->s, NULL, &stats);
    disarm();
    if (st != CERO_OK) {
        expect_told(t, f, n, st);
    }
    if (t->rank == 0) {
        (void)small_newest(t->dir, &newest);
    }
    newest = say(t, newest);
    assert_true(newest == NEW || (st != CERO_OK && newest == OLD));
    assert_int_equal(stats.is_committed && st == CERO_OK, st == CERO_OK);
    small_train(&t->s, LAST);
    expect_straight(t);
    assert_ok(small_save(&t->s, NULL, &stats));
    cero_saver_destroy(&t->s.saver);
    if (t->rank == 0) {
        small_expect_clean(t->dir, 1);
        (void)small_newest(t->dir, &newest);
        assert_int_equal(newest, LAST);
        files_remove(t->dir);
    }
    meet(t);
    return st != CERO_OK;
}

static void test_save(void **state)
{
    static const fault faults[] = {{"io", "ENOSPC", ENOSPC, 0},
                                   {"io", "EIO", EIO, 0},
                                   {"io", "EDQUOT", EDQUOT, 0},
                                   {"io", "EROFS", EROFS, 0}};
    static stage t;

    CERO_UNUSED(state);
    stage_begin(&t);
    for (size_t i = 0; i < CERO_COUNT_OF(faults); i++) {
        for (int k = 0; k < 4; k++) {
            fault f = faults[i];
            f.rank = k % 2 == 0 ? 0 : t.size - 1;
            // Each reason once in the step or beside it, and the disk that is full in all ways.
            if ((k % 2 == 1 && t.size == 1) || (i > 1 && k / 2 != (int)i % 2)) {
                continue;
            }
            int struck = 0;
            int missed = 0;
            // What fails in the removal of the older one is told in the log alone: look a while further.
            for (int n = 1; missed < (f.rank == 0 ? 12 : 3); n++) {
                bool is_struck = save_struck(&t, &f, k / 2 == 1, n);
                struck += is_struck ? 1 : 0;
                missed = is_struck ? 0 : missed + 1;
            }
            if (t.rank == 0) {
                print_message("%s on rank %d, %s: told %d times\n", f.name, f.rank,
                              k / 2 == 1 ? "beside the run" : "in the step", struck);
            }
            assert_true(struck >= (f.rank == 0 ? 10 : 3));
        }
    }
    stage_end(&t);
}

/* Interrupted and short calls on every rank: the save does not notice. */
static void test_interrupted(void **state)
{
    static const fault faults[] = {{"io", "EINTR", EINTR, 0}, {"write", "SHORT", 0, 0}};
    static stage t;

    CERO_UNUSED(state);
    stage_begin(&t);
    for (int n = 1; n <= 24; n++) {
        for (size_t i = 0; i < CERO_COUNT_OF(faults); i++) {
            fault f = faults[i];
            f.rank = n % t.size;
            assert_false(save_struck(&t, &f, n % 2 == 0, n));
        }
    }
    stage_end(&t);
}

/* A load that meets the fault: nothing changes, or a whole checkpoint was loaded. True when it noticed. */
static bool load_struck(stage *t, const fault *f, int n)
{
    cero_loader_result result = {0};

    arm(t, f, n);
    cero_status st = small_load(&t->s, t->dir, NULL, &result);
    disarm();
    if (st != CERO_OK) {
        assert_true(strstr(cero_error_message(), strerror(f->error)) != NULL);
    }
    int64_t step = say(t, st == CERO_OK ? result.step : -1);
    assert_int_equal(st == CERO_OK ? result.step : -1, step);
    bool has_noticed = st != CERO_OK || step != NEW;
    if (st != CERO_OK) {
        // A failure in the middle poisons the engine: a new one loads.
        small_close(&t->s);
        small_open(&t->s);
        assert_ok(small_load(&t->s, t->dir, NULL, &result));
    }
    small_train(&t->s, LAST);
    expect_straight(t);
    return has_noticed;
}

static void test_load(void **state)
{
    static const fault faults[] = {{"read", "EIO", EIO, 0}, {"open", "EIO", EIO, 0}};
    static stage t;
    cero_saver_stats stats;
    cero_loader_result result;

    CERO_UNUSED(state);
    stage_begin(&t);
    assert_ok(small_load(&t.s, t.base, NULL, &result));
    small_saver(&t.s, t.dir, 0, false);
    assert_ok(small_save(&t.s, NULL, &stats));
    small_train(&t.s, NEW);
    assert_ok(small_save(&t.s, NULL, &stats));
    cero_saver_destroy(&t.s.saver);
    for (size_t i = 0; i < CERO_COUNT_OF(faults); i++) {
        for (int rank = 0; rank<t.size; rank += t.size> 1 ? t.size - 1 : 1) {
            fault f = faults[i];
            int noticed = 0;
            int missed = 0;
            f.rank = rank;
            for (int n = 1; missed < 6; n++) {
                bool has_noticed = load_struck(&t, &f, n);
                noticed += has_noticed ? 1 : 0;
                missed = has_noticed ? 0 : missed + 1;
            }
            if (t.rank == 0) {
                print_message("%s of %s on rank %d: noticed %d times\n", f.name, f.call, rank,
                              noticed);
            }
            assert_true(noticed > 0);
        }
    }
    stage_end(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_save),
        cmocka_unit_test(test_interrupted),
        cmocka_unit_test(test_load),
    };

    return run_in_world(NULL, tests, CERO_COUNT_OF(tests)); // MPI stays while engines come and go
}
