/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is saved on some ranks at some stage is loaded on any others at any other, bit for bit, and training goes
 * on as if it had never stopped; either front door loads what the other saved. What is no checkpoint of this
 * engine is refused and changes nothing.
 */
// RUN: np=1,2,3,4
#include "mpi/external_cases.h"
#include "mpi/shared_dir.h"

#include "ckpt/checkpoint/manifest.h"

#include <math.h>

/* Weights and moments of an engine: all that a later step depends on but for counters. */
typedef struct states {
    float weights[MOST];
    float moments[2][MOST];
    cero_engine_counters counters;
} states;

static void get_states(cero_engine *engine, states *s)
{
    int64_t at = 0;

    memset(s, 0, sizeof(*s));
    cero_engine_get_counters(engine, &s->counters);
    for (int i = 0; i < PARAMS; i++) {
        int64_t n = external_numel(i);
        assert_ok(cero_engine_get_param(engine, i, 0, n, s->weights + at));
        for (int m = 0; m < cero_engine_moment_count(engine, i); m++) {
            assert_ok(cero_engine_get_moment(engine, i, m, 0, n, s->moments[m] + at));
        }
        at += n;
    }
}

static void assert_same_states(const states *a, const states *b)
{
    assert_memory_equal(a->weights, b->weights, sizeof(a->weights));
    assert_memory_equal(a->moments, b->moments, sizeof(a->moments));
    assert_memory_equal(&a->counters, &b->counters, sizeof(a->counters));
}

/* The step's micro-batches are the same on any number of ranks. */
#define ORDER "cero.gradient_order=global", "train_batch_size=12"

static const char *const stages[] = {"zero_optimization.stage=0", "zero_optimization.stage=1",
                                     "zero_optimization.stage=2", "zero_optimization.stage=3"};

/* Loads in a world of some ranks, and takes the steps that are left. */
static void check_load(MPI_Comm comm, const char *stage, const char *dtype, const states *saved,
                       const states *last)
{
    static states now;
    external_world w;
    external_program p;
    cero_step_stats stats;

    external_open(&w, comm, (const char *const[]){ORDER, stage, dtype, "fp16.hysteresis=1", NULL});
    external_create(&p, &w, MIXED, READY_BACKWARD);
    external_step(&p, 7, 0); // what is there before is forgotten
    assert_ok(cero_engine_load(p.engine, dir, "three", &stats));
    assert_int_equal(stats.step, 3);
    assert_int_equal(stats.applied, 2);
    assert_int_equal(stats.skipped, 1);
    get_states(p.engine, &now);
    assert_same_states(&now, saved);
    external_forward(&p);
    external_step(&p, 3, 0);
    external_step(&p, 4, 0);
    assert_int_equal(p.stats.step, 5);
    get_states(p.engine, &now);
    assert_same_states(&now, last);
    cero_engine_destroy(&p.engine);
    external_close(&w);
}

static void check_stages(int save_stage, const char *dtype)
{
    static states saved;
    static states last;
    external_world w;
    external_program p;
    MPI_Comm part = MPI_COMM_NULL;

    external_open(
        &w, MPI_COMM_WORLD,
        (const char *const[]){ORDER, stages[save_stage], dtype, "fp16.hysteresis=1", NULL});
    external_create(&p, &w, OWN_F32, READY_NEVER);
    external_step(&p, 0, 0);
    external_step(&p, 1, w.rank == 0 ? (double)INFINITY : 0);
    assert_false(p.stats.is_applied);
    external_step(&p, 2, 0);
    get_states(p.engine, &saved);
    assert_ok(cero_engine_save(p.engine, dir, "three"));
    external_step(&p, 3, 0);
    external_step(&p, 4, 0);
    get_states(p.engine, &last);
    cero_engine_destroy(&p.engine);
    // All ranks, then all but the last, which loads alone.
    int color = w.rank == w.size - 1 && w.size > 1;
    assert_int_equal(MPI_Comm_split(MPI_COMM_WORLD, color, w.rank, &part), MPI_SUCCESS);
    for (int k = 0; k < 2; k++) {
        int stage = (save_stage + 1 + 2 * k) % 4;
        check_load(MPI_COMM_WORLD, stages[(stage + 1) % 4], dtype, &saved, &last);
        check_load(part, stages[stage], dtype, &saved, &last);
    }
    external_close(&w);
    assert_int_equal(MPI_Comm_free(&part), MPI_SUCCESS);
}

static void test_stages_and_ranks(void **state)
{
    CERO_UNUSED(state);
    make_dir();
    check_stages(0, "fp16.enabled=true");
    check_stages(1, "bf16.enabled=true");
    check_stages(2, "bf16.enabled=false");
    check_stages(3, "bf16.enabled=true");
    check_stages(3, "fp16.enabled=true");
    remove_dir();
}

/* A checkpoint of one door is one of the other; files have the names, and nothing of ranks or padding. */
static void test_other_door(void **state)
{
    static states saved;
    static states now;
    external_world w;
    external_program p;
    cero_engine *model = NULL;

    CERO_UNUSED(state);
    make_dir();
    external_open(&w, MPI_COMM_WORLD,
                  (const char *const[]){ORDER, "bf16.enabled=true", stages[1], NULL});
    external_create(&p, &w, OWN_F32, READY_NEVER);
    assert_ok(cero_engine_create(
        w.context, w.config,
        &(cero_engine_params){.build = toy_build, .context = &external_model, .seq_len = 1},
        &model));
    external_step(&p, 0, 0);
    get_states(p.engine, &saved);
    assert_ok(cero_engine_save(p.engine, dir, NULL));
    assert_ok(cero_engine_load(model, dir, NULL, NULL));
    get_states(model, &now);
    assert_same_states(&saved, &now);
    assert_ok(cero_engine_set_param(model, 0, 0, 1, &(float){5}));
    assert_ok(cero_engine_save(model, dir, "model"));
    assert_ok(cero_engine_load(p.engine, dir, NULL, NULL));
    float value;
    assert_ok(cero_engine_get_param(p.engine, 0, 0, 1, &value));
    assert_true(value == 5.0f && p.data[0] == 5.0f);
    if (w.rank == 0) {
        char path[256];
        cero_manifest m;
        int64_t numel = 0;
        (void)snprintf(path, sizeof(path), "%s/step-00000001", dir);
        assert_ok(cero_manifest_read(path, &m));
        assert_int_equal(m.file_count, w.size);
        assert_int_equal(m.tensor_count, PARAMS + 2 * (PARAMS - 1));
        for (int64_t i = 0; i < m.tensor_count; i++) {
            numel += m.tensors[i].numel;
        }
        assert_int_equal(numel, 3 * (323 + 19 + 1 + 512 + 509) + 1);
        assert_true(cero_manifest_find(&m, "third.0.table") >= 0);
        assert_true(cero_manifest_find(&m, "optim.exp_avg.third.0.table") >= 0);
        assert_true(cero_manifest_find(&m, "optim.exp_avg_sq.first.bias") >= 0);
        assert_int_equal(cero_manifest_find(&m, "optim.exp_avg.first.scale"), -1);
        cero_manifest_cleanup(&m);
    }
    cero_engine_destroy(&model);
    cero_engine_destroy(&p.engine);
    external_close(&w);
    remove_dir();
}

static void write_file(const char *name, const char *text, size_t length)
{
    char path[256];

    (void)snprintf(path, sizeof(path), "%s/%s", dir, name);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(text, 1, length, f), length);
    assert_int_equal(fclose(f), 0);
}

/* A program that starts again and again by the same command. */
static void test_resume(void **state)
{
    external_world w;
    external_program p;
    cero_step_stats stats = {.step = 42};

    CERO_UNUSED(state);
    make_dir();
    external_open(&w, MPI_COMM_WORLD, (const char *const[]){stages[2], NULL});
    external_create(&p, &w, ENGINES, READY_NEVER);
    assert_fails_on_all(cero_engine_load(p.engine, dir, NULL, &stats), CERO_ERR_IO,
                        "has no checkpoint to load");
    assert_ok(cero_engine_resume(p.engine, dir, &stats));
    assert_int_equal(stats.step, 42);
    // A hint to what somebody removed: that is no fresh start.
    if (w.rank == 0) {
        write_file("latest", "step-00000007\n", 14);
    }
    assert_int_equal(MPI_Barrier(MPI_COMM_WORLD), MPI_SUCCESS);
    assert_fails_on_all(cero_engine_resume(p.engine, dir, &stats), CERO_ERR_IO,
                        "`latest` names step-00000007");
    external_step(&p, 0, 0);
    assert_ok(cero_engine_save(p.engine, dir, NULL));
    external_step(&p, 1, 0);
    assert_ok(cero_engine_save(p.engine, dir, "second"));
    external_step(&p, 2, 0);
    assert_ok(cero_engine_resume(p.engine, dir, &stats));
    assert_int_equal(stats.step, 2);
    assert_ok(cero_engine_load(p.engine, dir, "step-00000001", &stats));
    assert_int_equal(stats.step, 1);
    external_step(&p, 1, 0);
    assert_int_equal(p.stats.step, 2);
    // `latest` is for people.
    if (w.rank == 0) {
        write_file("latest", "../third\n", 9);
    }
    assert_int_equal(MPI_Barrier(MPI_COMM_WORLD), MPI_SUCCESS);
    assert_ok(cero_engine_resume(p.engine, dir, &stats));
    assert_int_equal(stats.step, 2);
    external_step(&p, 2, 0);
    assert_int_equal(p.stats.step, 3);
    cero_engine_destroy(&p.engine);
    external_close(&w);
    remove_dir();
}

static void check_refused(const char *const *sets, const char *tag, cero_status status,
                          const char *text)
{
    static states before;
    static states after;
    external_world w;
    external_program p;

    external_open(&w, MPI_COMM_WORLD, sets);
    external_create(&p, &w, OWN_F32, READY_NEVER);
    get_states(p.engine, &before);
    assert_fails_on_all(cero_engine_load(p.engine, dir, tag, NULL), status, text);
    get_states(p.engine, &after);
    assert_same_states(&before, &after);
    external_step(&p, 0, 0);
    cero_engine_destroy(&p.engine);
    external_close(&w);
}

static void test_refused(void **state)
{
    external_world w;
    external_program p;
    char long_tag[200];

    CERO_UNUSED(state);
    make_dir();
    external_open(&w, MPI_COMM_WORLD, (const char *const[]){stages[1], NULL});
    external_create(&p, &w, OWN_F32, READY_NEVER);
    external_step(&p, 0, 0);
    assert_ok(cero_engine_save(p.engine, dir, "good"));
    memset(long_tag, 'x', sizeof(long_tag));
    long_tag[sizeof(long_tag) - 1] = '\0';
    const char *const tags[] = {"", "a/b", "..", ".hidden", "latest", long_tag};
    for (size_t k = 0; k < CERO_COUNT_OF(tags); k++) {
        assert_fails_on_all(cero_engine_save(p.engine, dir, tags[k]), CERO_ERR_INVALID,
                            "a checkpoint cannot be called ");
        assert_fails_on_all(cero_engine_load(p.engine, dir, tags[k], NULL), CERO_ERR_INVALID,
                            "a checkpoint cannot be called ");
    }
    assert_fails_on_all(cero_engine_save(p.engine, NULL, "x"), CERO_ERR_INVALID,
                        "cero_engine_save: no directory is given");
    if (w.size > 1) {
        assert_fails_on_all(cero_engine_save(p.engine, dir, w.rank == 1 ? "y" : "x"),
                            CERO_ERR_INVALID, "the path of a checkpoint of rank 1 differs");
    }
    // What cannot be written: a file stands where the folder should be.
    if (w.rank == 0) {
        char path[256];
        write_file("taken", "", 0);
        (void)snprintf(path, sizeof(path), "%s/empty", dir);
        assert_int_equal(mkdir(path, 0777), 0);
    }
    assert_fails_on_all(cero_engine_save(p.engine, dir, "taken"), CERO_ERR_IO, "/taken");
    external_step(&p, 1, 0);
    cero_engine_destroy(&p.engine);
    external_close(&w);

    const char *const plain[] = {stages[2], NULL};
    check_refused(plain, "absent", CERO_ERR_IO, "/absent: there is no such checkpoint");
    check_refused(plain, "empty", CERO_ERR_CORRUPT, "/empty");
    check_refused((const char *const[]){"optimizer.type=Lion", NULL}, "good", CERO_ERR_INVALID,
                  "was saved with optimizer.type AdamW, and the config has Lion");
    check_refused((const char *const[]){"cero.frozen=[\"second\"]", NULL}, "good", CERO_ERR_INVALID,
                  "is in no place of this model");
    remove_dir();
}

/* A full disk, at whatever moment: what was there stays, all ranks fail, and the engine goes on. */
static void test_full_disk(void **state)
{
    static const char *const faults[] = {"write:2:ENOSPC", "fsync:1:EIO", "rename:1:EIO"};
    external_world w;
    external_program p;
    cero_step_stats stats;

    CERO_UNUSED(state);
    make_dir();
    external_open(&w, MPI_COMM_WORLD, (const char *const[]){stages[2], NULL});
    external_create(&p, &w, OWN_F32, READY_NEVER);
    external_step(&p, 0, 0);
    assert_ok(cero_engine_save(p.engine, dir, NULL));
    for (size_t k = 0; k < CERO_COUNT_OF(faults); k++) {
        external_step(&p, 1 + (int64_t)k, 0);
        assert_int_equal(setenv("CERO_FAULT", faults[k], 1), 0);
        assert_fails_on_all(cero_engine_save(p.engine, dir, "bad"), CERO_ERR_IO, "bad");
        assert_int_equal(unsetenv("CERO_FAULT"), 0);
    }
    assert_ok(cero_engine_load(p.engine, dir, NULL, &stats));
    assert_int_equal(stats.step, 1);
    external_step(&p, 1, 0);
    assert_ok(cero_engine_save(p.engine, dir, "bad"));
    assert_ok(cero_engine_load(p.engine, dir, NULL, &stats));
    assert_int_equal(stats.step, 2);
    cero_engine_destroy(&p.engine);
    external_close(&w);
    remove_dir();
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_stages_and_ranks), cmocka_unit_test(test_other_door),
        cmocka_unit_test(test_resume),           cmocka_unit_test(test_refused),
        cmocka_unit_test(test_full_disk),
    };

    if (MPI_Init(&argc, &argv) != MPI_SUCCESS) {
        return EXIT_FAILURE;
    }
    return external_run(tests, CERO_COUNT_OF(tests));
}
