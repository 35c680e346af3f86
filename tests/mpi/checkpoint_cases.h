/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the tests of saving and loading share: a folder of the start's own, small models trained in worlds of some of
 * its ranks, all that a later step depends on as one list of numbers, and digests of checkpoints.
 */
#ifndef CERO_TESTS_MPI_CHECKPOINT_CASES_H
#define CERO_TESTS_MPI_CHECKPOINT_CASES_H

#include "mpi/equivalence.h"
#include "mpi/shared_dir.h"

#include "ckpt/checkpoint/folder.h"
#include "ckpt/checkpoint/reader.h"
#include "train/checkpoint/loader.h"
#include "train/checkpoint/saver.h"

/* A world of the ranks of `comm` with a model of a config. */
typedef struct job {
    MPI_Comm comm;
    cero_context *context;
    cero_config *config;
    cero_engine *engine;
    cero_model_spec spec;
    int rank;
    int size;
} job;

enum {
    JOB_SEQ_LEN = 13
};

/* Of the jobs that are opened next; 0: as they are. */
static int ranks_per_node;

/* `sets` as case_config takes them. A micro-batch of one sample for each rank, so that any number of ranks will do. */
static inline void job_open(job *j, MPI_Comm comm, cero_model_spec spec, const char *const *sets)
{
    const char *all[EQUIV_MAX_SETS + 1] = {
        "train_micro_batch_size_per_gpu=1", "cero.gradient_order=global",
        "zero_optimization.stage3_param_persistence_threshold=0"};
    int count = 3;

    *j = (job){.comm = comm, .spec = spec};
    for (; sets != NULL && *sets != NULL; sets++) {
        assert_in_range(count, 0, EQUIV_MAX_SETS - 1);
        all[count++] = *sets;
    }
    cero_context_params params = {
        .threads = 1, .timeout = EQUIV_TIMEOUT, .ranks_per_node = ranks_per_node};
    assert_ok(cero_context_create_mpi(comm, &params, &j->context));
    assert_ok(case_config(j->context, all, &j->config));
    assert_ok(cero_engine_create(j->context, j->config,
                                 &(cero_engine_params){.build = cero_engine_build_model,
                                                       .context = &j->spec,
                                                       .seq_len = JOB_SEQ_LEN},
                                 &j->engine));
    j->rank = cero_context_rank(j->context);
    j->size = cero_context_size(j->context);
}

static inline void job_close(job *j)
{
    cero_engine_destroy(&j->engine);
    cero_config_destroy(&j->config);
    cero_context_destroy(&j->context);
}

/* Steps from `first` on. */
static inline void job_train(job *j, int64_t first, int64_t count)
{
    static case_batch batch;
    equiv_run run = {.spec = j->spec, .seq_len = JOB_SEQ_LEN};
    cero_step_stats stats;

    for (int64_t step = first; step < first + count; step++) {
        equiv_fill(j->engine, &run, step, &batch);
        assert_ok(cero_engine_train_batch(j->engine, &batch.batch, &stats));
    }
}

static inline double job_evaluate(job *j)
{
    static case_batch batch;
    equiv_run run = {.spec = j->spec, .seq_len = JOB_SEQ_LEN};
    double sum = 0;
    int64_t rows = 0;

    equiv_fill(j->engine, &run, 0, &batch);
    assert_ok(cero_engine_eval_batch(j->engine, &batch.batch, &sum, &rows));
    return sum / (double)rows;
}

enum {
    STATES_MOST = 120000 /* elements of weights and moments of the largest model here */
};

/* All that a later step depends on. */
typedef struct states {
    float values[STATES_MOST]; /* of each parameter: weights, moments */
    int64_t count;
    int64_t weights; /* how many of them are weights */
    cero_engine_counters counters;
} states;

static inline void states_get(const job *j, states *s)
{
    memset(s, 0, sizeof(*s));
    cero_engine_get_counters(j->engine, &s->counters);
    for (int64_t i = 0; i < cero_engine_param_count(j->engine); i++) {
        cero_param_info info = cero_engine_param_info(j->engine, i);
        int64_t n = cero_shape_numel(&info.shape);
        assert_true(s->count + 3 * n <= STATES_MOST);
        assert_ok(cero_engine_get_param(j->engine, i, 0, n, s->values + s->count));
        s->count += n;
        s->weights += n;
        for (int m = 0; m < cero_engine_moment_count(j->engine, i); m++) {
            assert_ok(cero_engine_get_moment(j->engine, i, m, 0, n, s->values + s->count));
            s->count += n;
        }
    }
}

static inline void states_assert_same(const states *a, const states *b)
{
    assert_int_equal(a->count, b->count);
    for (int64_t k = 0; k < a->count; k++) {
        if (memcmp(&a->values[k], &b->values[k], sizeof(float)) != 0) {
            fail_msg("value %lld of %lld is %.9g, expected %.9g", (long long)k, (long long)a->count,
                     (double)b->values[k], (double)a->values[k]);
        }
    }
    assert_memory_equal(&a->counters, &b->counters, sizeof(a->counters));
}

/* Everything becomes something else, in all copies, so that a load has to bring it back. */
static inline void job_spoil(const job *j)
{
    static float values[STATES_MOST];

    for (int64_t k = 0; k < STATES_MOST; k++) {
        values[k] = 0.5f + (float)(k % 7);
    }
    for (int64_t i = 0; i < cero_engine_param_count(j->engine); i++) {
        cero_param_info info = cero_engine_param_info(j->engine, i);
        assert_ok(cero_engine_set_param(j->engine, i, 0, cero_shape_numel(&info.shape), values));
    }
    cero_engine_clear_moments(j->engine);
    cero_engine_clear_counters(j->engine);
}

/* What DIR/TAG means; by one rank, which verifies all of it. */
static inline cero_reader_digest digest_of(const char *tag)
{
    cero_reader_digest digest = {0};
    cero_reader *reader = NULL;
    char path[512];

    (void)snprintf(path, sizeof(path), "%s/%s", dir, tag);
    assert_ok(cero_reader_open(path, &reader));
    assert_ok(cero_reader_hash(reader, &digest));
    cero_reader_close(&reader);
    return digest;
}

static inline void assert_same_digest(const char *a, const char *b)
{
    cero_reader_digest first = digest_of(a);
    cero_reader_digest second = digest_of(b);

    assert_true(first.weights == second.weights);
    assert_true(first.moments == second.moments);
    assert_true(first.state == second.state);
    assert_true(first.all == second.all);
}

/* Runs the tests on all ranks. A rank whose test fails ends them all: the others would wait for it. */
static inline int checkpoint_run(const struct CMUnitTest *tests, size_t count, int argc,
                                 char **argv)
{
    if (MPI_Init(&argc, &argv) != MPI_SUCCESS) {
        return EXIT_FAILURE;
    }
    for (size_t i = 0; i < count; i++) {
        if (_cmocka_run_group_tests(tests[i].name, &tests[i], 1, NULL, NULL) != 0) {
            (void)MPI_Abort(MPI_COMM_WORLD, EXIT_FAILURE);
        }
    }
    (void)MPI_Finalize();
    return EXIT_SUCCESS;
}

#endif
