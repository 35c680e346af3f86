/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of checkpoints and layouts: what any stage on any number of ranks saved, any other loads, for a model
 * whose sizes nothing divides. The quick test takes two numbers of ranks, the long one all up to five.
 */
#ifndef CERO_TESTS_MPI_CHECKPOINT_LAYOUTS_H
#define CERO_TESTS_MPI_CHECKPOINT_LAYOUTS_H

#include "mpi/checkpoint_cases.h"

enum {
    LAYOUT_STAGES = 4,
    LAYOUT_MAX_SIZES = 5
};

static const char *const layout_stages[LAYOUT_STAGES] = {
    "zero_optimization.stage=0", "zero_optimization.stage=1", "zero_optimization.stage=2",
    "zero_optimization.stage=3"};

/* Which rows of the table: sizes of worlds, and the compute dtype. */
typedef struct layouts {
    int sizes[LAYOUT_MAX_SIZES];
    int count;
    const char *dtype;
    states expected; /* what all checkpoints hold */
} layouts;

static inline void layout_tag(int stage, int size, char tag[32])
{
    (void)snprintf(tag, 32, "stage%d-size%d", stage, size);
}

/* A world of one trains, and what it has is what all others get. */
static inline void layouts_begin(layouts *l)
{
    job j;

    job_open(&j, MPI_COMM_SELF, case_g2(), (const char *const[]){l->dtype, NULL});
    job_train(&j, 0, 3);
    states_get(&j, &l->expected);
    equiv_meet();
    int rank = -1;
    (void)MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 0) {
        assert_ok(cero_engine_save(j.engine, dir, "first"));
    }
    job_close(&j);
    equiv_meet();
}

/* Loads a checkpoint and compares; the bytes that all ranks read are counted. */
static inline void layout_load(const layouts *l, const job *j, const char *tag, int saved_size)
{
    static states now;
    cero_loader_result result = {0};

    job_spoil(j);
    assert_ok(cero_loader_load(j->engine, &(cero_loader_params){.dir = dir, .tag = tag}, &result));
    assert_true(result.is_loaded);
    assert_string_equal(result.tag, tag);
    assert_int_equal(result.step, 3);
    assert_int_equal(result.stats.applied, l->expected.counters.zero.applied);
    states_get(j, &now);
    states_assert_same(&l->expected, &now);
    int64_t sums[1] = {result.bytes_read};
    (void)MPI_Allreduce(MPI_IN_PLACE, sums, 1, MPI_INT64_T, MPI_SUM, j->comm);
    cero_zero_summary zero;
    cero_engine_zero_summary(j->engine, &zero);
    if (zero.stage > 0 && saved_size == j->size) {
        // Cut alike: each byte is read by the rank that wrote it, and by no other.
        assert_int_equal(sums[0], result.bytes_all);
    }
    assert_true(sums[0] >= result.bytes_all);
}

/* One layout: loads what the world of one saved, and saves it as its own; or loads what all others saved. */
static inline void layout_row(const layouts *l, const equiv_world *w, int stage, bool is_saving)
{
    char tag[32];
    job j;

    job_open(&j, w->comm, case_g2(), (const char *const[]){l->dtype, layout_stages[stage], NULL});
    if (is_saving) {
        layout_tag(stage, w->size, tag);
        layout_load(l, &j, "first", 1);
        assert_ok(cero_engine_save(j.engine, dir, tag));
        if (j.rank == 0) {
            assert_same_digest("first", tag);
        }
    }
    for (int s = 0; s < LAYOUT_STAGES && !is_saving; s++) {
        for (int k = 0; k < l->count; k++) {
            layout_tag(s, l->sizes[k], tag);
            // At stage 0 the parts are those of the other stages.
            layout_load(l, &j, tag, l->sizes[k]);
        }
    }
    job_close(&j);
}

static inline void layouts_check(layouts *l)
{
    make_dir();
    layouts_begin(l);
    for (int turn = 0; turn < 2; turn++) {
        for (int k = 0; k < l->count; k++) {
            equiv_world w;
            equiv_open(&w, l->sizes[k], NULL);
            if (w.context != NULL && w.number == 0) {
                for (int stage = 0; stage < LAYOUT_STAGES; stage++) {
                    layout_row(l, &w, stage, turn == 0);
                }
            }
            equiv_close(&w);
        }
    }
    remove_dir();
}

#endif
