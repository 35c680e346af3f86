/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Faults of other trainers in whole runs over ranks: each window is seen exactly once in an epoch, samples or
 * evaluation windows that do not divide by the ranks hang nobody, the export at stage 3 is the whole model, and
 * text that all ranks tokenize at once comes out right.
 */
// RUN: np=4
#include "mpi/equivalence.h"
#include "train/run_fixture.h"
#include "unit/data/small_tokenizer.h"

#include <math.h>

/* A trainer in one of the worlds, over "train.u16" and perhaps "eval.u16" of a folder that its ranks share. */
typedef struct world_run {
    equiv_world world;
    run run;
    cero_sampler_order order;
    int64_t seq_len;
    cero_train_visitor visitor;
    void *visitor_context;
} world_run;

/* False on a rank that is left over. */
static bool open_run(world_run *r, int size, cero_model_spec model)
{
    memset(r, 0, sizeof(*r));
    equiv_open(&r->world, size, NULL);
    if (r->world.context == NULL) {
        return false;
    }
    r->run.model = model;
    r->run.world.context = r->world.context;
    if (cero_context_rank(r->world.context) == 0) {
        files_make_dir(r->run.dir, sizeof(r->run.dir));
    }
    assert_int_equal(MPI_Bcast(r->run.dir, sizeof(r->run.dir), MPI_BYTE, 0, r->world.comm),
                     MPI_SUCCESS);
    return true;
}

static bool is_first(const world_run *r)
{
    return cero_context_rank(r->world.context) == 0;
}

/* The files are those of rank 0. */
static void make_file(const world_run *r, const char *name, int64_t count)
{
    cero_rng_key key = cero_rng_make_key(5, CERO_RNG_TEST, 0, 0);

    if (is_first(r)) {
        int32_t *ids = cero_new((size_t)count, sizeof(int32_t));
        assert_non_null(ids);
        for (int64_t i = 0; i < count; i++) {
            ids[i] =
                (int32_t)(cero_rng_word(key, 0, (uint64_t)i) % (uint32_t)r->run.model.vocab_size);
        }
        write_tokens(files_in(r->run.dir, name), ids, count);
        cero_delete(ids);
    }
    assert_int_equal(MPI_Barrier(r->world.comm), MPI_SUCCESS);
}

static void start(world_run *r, const char *const *sets)
{
    assert_ok(case_config(r->world.context, sets, &r->run.world.config));
    r->run.data = open_tokens(&r->run, "train.u16");
    r->run.eval_data = open_tokens(&r->run, "eval.u16");
    assert_ok(cero_trainer_create(&(cero_trainer_params){.context = r->world.context,
                                                         .config = r->run.world.config,
                                                         .model = &r->run.model,
                                                         .data = r->run.data,
                                                         .eval_data = r->run.eval_data,
                                                         .seq_len = r->seq_len,
                                                         .order = r->order,
                                                         .visitor = r->visitor,
                                                         .visitor_context = r->visitor_context},
                                  &r->run.trainer));
}

static void close_run(world_run *r)
{
    bool is_remover = r->world.context != NULL && is_first(r);

    cero_trainer_destroy(&r->run.trainer);
    cero_token_stream_close(&r->run.data);
    cero_token_stream_close(&r->run.eval_data);
    cero_config_destroy(&r->run.world.config);
    equiv_close(&r->world);
    if (is_remover) {
        files_remove(r->run.dir);
    }
}

static void add_loss(void *context, const cero_metrics_step *step)
{
    *(double *)context += step->stats.loss * (double)step->stats.rows;
}

#define STAGE_3                                                                            \
    "zero_optimization.stage=3", "zero_optimization.stage3_param_persistence_threshold=0", \
        "train_micro_batch_size_per_gpu=1"

/*
 * DA-09: 1,000 windows, shuffled. With rate 0 the losses of an epoch add up to those of an evaluation of the same
 * windows in order, unless one is missed or seen twice.
 */
static void test_epoch(void **state)
{
    enum {
        WINDOWS = 1000,
        SEQ = 4
    };
    double sum = 0;
    double mean;
    world_run r;

    CERO_UNUSED(state);
    if (open_run(&r, 4, case_g2())) {
        make_file(&r, "train.u16", WINDOWS * SEQ + 1);
        make_file(&r, "eval.u16", WINDOWS * SEQ + 1);
        r.order = CERO_SAMPLER_SHUFFLED;
        r.seq_len = SEQ;
        r.visitor = add_loss;
        r.visitor_context = &sum;
        start(&r, (const char *const[]){"train_micro_batch_size_per_gpu=1", "optimizer.params.lr=0",
                                        "zero_optimization.stage=1", NULL});
        assert_int_equal(cero_trainer_steps(r.run.trainer), WINDOWS / 4);
        assert_ok(cero_trainer_run(r.run.trainer, NULL));
        assert_ok(cero_trainer_evaluate(r.run.trainer, &mean));
        double expected = mean * WINDOWS * SEQ;
        // A window has a loss of about 22: one too many or too few is a part in a thousand.
        if (!(fabs(sum - expected) < 1e-9 * expected)) {
            fail_msg("the losses of an epoch add up to %.17g, those of its windows to %.17g", sum,
                     expected);
        }
    }
    close_run(&r);
}

/* HA-03: 11 samples over two ranks are five rounds, and one sample of the epoch is in none. */
static void test_odd_samples(void **state)
{
    world_run r;

    CERO_UNUSED(state);
    if (open_run(&r, 2, case_g2())) {
        make_file(&r, "train.u16", 11 * 8 + 1);
        r.seq_len = 8;
        start(&r, (const char *const[]){STAGE_3, NULL});
        assert_int_equal(cero_trainer_steps(r.run.trainer), 5);
        assert_int_equal(cero_trainer_epoch_samples(r.run.trainer), 11);
        assert_ok(cero_trainer_run(r.run.trainer, NULL));
        assert_int_equal(cero_trainer_steps_done(r.run.trainer), 5);
    }
    close_run(&r);
}

/* HA-06: fewer evaluation windows than ranks. */
static void test_one_window(void **state)
{
    double alone = 0;

    CERO_UNUSED(state);
    for (int size = 1; size <= 4; size += 3) {
        world_run r;
        if (open_run(&r, size, case_g2())) {
            double loss;
            make_file(&r, "train.u16", 200);
            make_file(&r, "eval.u16", 9);
            r.seq_len = 8;
            start(&r, (const char *const[]){STAGE_3, NULL});
            assert_ok(cero_trainer_evaluate(r.run.trainer, &loss));
            assert_true(size == 1 || loss == alone);
            alone = loss;
        }
        close_run(&r);
    }
}

/* The file's tensors, name by name, are the weights of the engine. */
static void check_archive(world_run *r, const archive *a)
{
    static float values[65536];
    cero_engine *engine = cero_trainer_engine(r->run.trainer);

    for (int64_t i = 0; i < cero_engine_param_count(engine); i++) {
        char shape[64];
        size_t nbytes;
        cero_param_info info = cero_engine_param_info(engine, i);
        int64_t n = cero_shape_numel(&info.shape);
        assert_ok(cero_engine_get_param(engine, i, 0, n, values));
        if (is_first(r)) {
            const char *data = archive_tensor(
                a, info.name, "F32", cero_shape_format(&info.shape, shape, sizeof(shape)), &nbytes);
            assert_int_equal(nbytes, (size_t)n * sizeof(float));
            assert_memory_equal(data, values, nbytes);
        }
    }
}

/* PM-06, CK-08: G1, tied, at stage 3: 118,528 elements, the table once. */
static void test_export(void **state)
{
    CERO_UNUSED(state);
    for (int size = 2; size <= 4; size += 2) {
        archive a = {0};
        world_run r;
        if (open_run(&r, size, case_g1())) {
            make_file(&r, "train.u16", 500);
            r.seq_len = 16;
            start(&r, (const char *const[]){STAGE_3, NULL});
            assert_ok(cero_trainer_run(r.run.trainer, NULL));
            assert_ok(cero_trainer_export(r.run.trainer, files_in(r.run.dir, "model"),
                                          CERO_DTYPE_F32, NULL));
            if (is_first(&r)) {
                archive_open(files_in(r.run.dir, "model/model.safetensors"), &a);
                assert_int_equal(archive_data_bytes(&a), 118528 * 4);
                assert_int_equal(archive_count(&a), 28);
                assert_null(cero_json_find(cero_json_root(a.header), "lm_head.weight"));
            }
            check_archive(&r, &a);
            archive_close(&a);
        }
        close_run(&r);
    }
}

/* Ranks begin at the same moment on a folder that has no cache yet. */
static void check_text(const world_run *r, const char *path, const char *cache,
                       cero_tokenizer *tokenizer)
{
    int32_t ids[64];
    int32_t first[64];
    cero_file_list list = {0};
    cero_token_stream *stream = NULL;
    cero_comm *comm = r->world.context->comm;

    assert_ok(cero_comm_barrier(comm));
    assert_ok(cero_token_stream_open(&(cero_token_stream_params){.path = &path,
                                                                 .path_count = 1,
                                                                 .tokenizer = tokenizer,
                                                                 .cache_dir = cache,
                                                                 .no_eod = true},
                                     &stream));
    int64_t count = cero_token_stream_count(stream);
    assert_int_equal(count, 3000 * 3);
    for (int64_t at = 0; at + 64 <= count; at += 64) {
        assert_ok(cero_token_stream_read(stream, at, 64, ids));
        for (int i = 0; i < 64; i++) {
            first[i] = (at + i) % 3 == 0 ? 257 : (at + i) % 3 == 1 ? 'x' : 256; // abc, x, ab
        }
        assert_memory_equal(ids, first, sizeof(ids));
    }
    cero_token_stream_close(&stream);
    assert_ok(cero_comm_barrier(comm));
    // One file: what others wrote beside it has its place or is gone.
    assert_ok(cero_file_list_dir(cache, true, &list));
    assert_int_equal(list.count, 1);
    cero_file_list_cleanup(&list);
}

static void test_text(void **state)
{
    world_run r;

    CERO_UNUSED(state);
    if (open_run(&r, 4, case_g2())) {
        cero_text json = {0};
        cero_tokenizer *tokenizer = NULL;
        const char *path = files_in(r.run.dir, "text.txt");
        small_byte_level_json(&(small_params){0}, &json);
        if (is_first(&r)) {
            cero_text text = {0};
            for (int i = 0; i < 3000; i++) {
                cero_text_printf(&text, "abcxab");
            }
            files_write(path, text.data, text.length);
            files_write(files_in(r.run.dir, "tokenizer.json"), json.data, json.length);
            cero_text_cleanup(&text);
        }
        assert_ok(cero_comm_barrier(r.world.context->comm));
        assert_ok(cero_tokenizer_open(files_in(r.run.dir, "tokenizer.json"), &tokenizer));
        for (int k = 0; k < 20; k++) {
            char cache[32];
            (void)snprintf(cache, sizeof(cache), "cache%d", k);
            check_text(&r, path, files_in(r.run.dir, cache), tokenizer);
        }
        cero_tokenizer_destroy(&tokenizer);
        cero_text_cleanup(&json);
    }
    close_run(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_epoch),      cmocka_unit_test(test_odd_samples),
        cmocka_unit_test(test_one_window), cmocka_unit_test(test_export),
        cmocka_unit_test(test_text),
    };
    return run_in_world(NULL, tests, CERO_COUNT_OF(tests));
}
