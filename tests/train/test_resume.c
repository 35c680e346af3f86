/* SPDX-License-Identifier: Apache-2.0 */
/*
 * RS-03: a run that goes on takes the samples that come next: none again, none left out, also when the batch is
 * another one; and each step's position is that of the straight run.
 */
// RUN: np=1,2
#include "cases.h"
#include "unit/ckpt/files.h"

#include "train/train.h"

enum {
    WINDOWS = 100,
    SEQ = 16
};

/* Ids of the samples of one epoch, as the steps took them. */
typedef struct ids {
    cero_trainer **trainer;
    cero_sampler *sampler;
    int64_t count;
    int64_t id[WINDOWS];
    int64_t before; /* position at the end of the step before */
} ids;

typedef struct place {
    char dir[64];
    cero_model_spec model;
    case_world world;
    cero_token_stream *data;
    cero_sampler *sampler; /* the trainer's order */
    cero_trainer *trainer;
} place;

static void write_ids(void *context, const cero_metrics_step *step)
{
    ids *found = context;
    int64_t end = cero_trainer_position(*found->trainer);
    int64_t epoch = 0;

    assert_int_equal(end, step->samples);
    for (int64_t at = found->before; at < end; at++) {
        assert_in_range(found->count, 0, WINDOWS - 1);
        cero_sampler_locate(found->sampler, at, &epoch, &found->id[found->count++]);
        assert_int_equal(epoch, 0);
    }
    found->before = end;
}

/* One rank makes the folder and the data of all: WINDOWS samples. */
static void make_place(place *p, const char *const *sets)
{
    unsigned char tokens[2 * (WINDOWS * SEQ + 1)] = {0};

    memset(p, 0, sizeof(*p));
    p->model = case_g1();
    case_open(&p->world, 1, sets);
    cero_comm *comm = p->world.context->comm;
    if (cero_comm_rank(comm) == 0) {
        files_make_dir(p->dir, sizeof(p->dir));
        for (int i = 0; i <= WINDOWS * SEQ; i++) {
            tokens[2 * i] = (unsigned char)(i * 7 + i / 13);
        }
        files_write(files_in(p->dir, "train.u16"), tokens, sizeof(tokens));
    }
    assert_ok(cero_comm_broadcast(comm, p->dir, sizeof(p->dir), 0));
    cero_config_destroy(&p->world.config);
}

/* One process of the run, up to a step; several ranks live in one world only. */
static void run_leg(place *p, ids *found, const char *const *sets, int64_t steps)
{
    const char *path = files_in(p->dir, "train.u16");

    assert_ok(case_config(p->world.context, sets, &p->world.config));
    assert_ok(cero_token_stream_open(&(cero_token_stream_params){.path = &path,
                                                                 .path_count = 1,
                                                                 .vocab_size = p->model.vocab_size},
                                     &p->data));
    assert_ok(cero_sampler_create(
        p->data,
        &(cero_sampler_params){.seq_len = SEQ,
                               .seed = cero_train_config_spec(p->world.config)->seed},
        &p->sampler));
    assert_int_equal(cero_sampler_count(p->sampler), WINDOWS);
    assert_ok(cero_trainer_create(&(cero_trainer_params){.context = p->world.context,
                                                         .config = p->world.config,
                                                         .model = &p->model,
                                                         .data = p->data,
                                                         .out = files_in(p->dir, "run"),
                                                         .steps = steps,
                                                         .seq_len = SEQ,
                                                         .save_every = 1000,
                                                         .resume = CERO_RESUME_IF_PRESENT,
                                                         .visitor = write_ids,
                                                         .visitor_context = found},
                                  &p->trainer));
    found->trainer = &p->trainer;
    found->sampler = p->sampler;
    assert_ok(cero_trainer_run(p->trainer, NULL));
    assert_int_equal(cero_trainer_steps_done(p->trainer), steps);
    assert_null(cero_trainer_save_error(p->trainer));
    cero_trainer_destroy(&p->trainer);
    cero_sampler_destroy(&p->sampler);
    cero_token_stream_close(&p->data);
    cero_config_destroy(&p->world.config);
}

static int compare_ids(const void *a, const void *b)
{
    const int64_t *x = a;
    const int64_t *y = b;
    return *x < *y ? -1 : *x > *y;
}

static void test_samples(void **state)
{
    static const char *const four[] = {"train_batch_size=4", "train_micro_batch_size_per_gpu=1",
                                       NULL};
    static const char *const six[] = {"train_batch_size=6", "train_micro_batch_size_per_gpu=1",
                                      NULL};
    place p;
    ids found = {0};
    (void)state;

    make_place(&p, four);
    run_leg(&p, &found, four, 7);
    assert_int_equal(found.count, 28);
    run_leg(&p, &found, four, 13);
    assert_int_equal(found.count, 52);
    run_leg(&p, &found, six, 21);
    assert_int_equal(found.count, WINDOWS);
    bool is_shuffled = false;
    for (int64_t i = 0; i < WINDOWS; i++) {
        is_shuffled = is_shuffled || found.id[i] != i;
    }
    assert_true(is_shuffled);
    qsort(found.id, WINDOWS, sizeof(found.id[0]), compare_ids);
    for (int64_t i = 0; i < WINDOWS; i++) {
        assert_int_equal(found.id[i], i);
    }
    assert_ok(cero_comm_barrier(p.world.context->comm));
    if (cero_comm_rank(p.world.context->comm) == 0) {
        files_remove(p.dir);
    }
    case_close(&p.world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_samples),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
