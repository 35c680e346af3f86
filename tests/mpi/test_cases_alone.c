/* SPDX-License-Identifier: Apache-2.0 */
/*
 * HA-01: a rank that enters a collective call of a run alone does not hang: when the others are nowhere, the timeout
 * names the rank that did not come and what it did last; when they are in another call, both calls are named.
 */
// RUN: np=2 args=nowhere
// RUN: np=2 args=nowhere messages
// RUN: np=2 args=elsewhere
#include "train/run_fixture.h"

#include <mpi.h>
#include <time.h>

static const char *chosen;
static bool no_shared_memory;

typedef struct place {
    cero_context *context;
    cero_config *config;
    cero_model_spec model;
    cero_token_stream *data;
    cero_trainer *trainer;
    char dir[64];
} place;

static void open_place(place *p)
{
    static const char *const sets[] = {"zero_optimization.stage=3",
                                       "zero_optimization.stage3_param_persistence_threshold=0",
                                       "cero.timeout_seconds=1", NULL};

    *p = (place){.model = case_g2()};
    assert_ok(cero_context_create(
        &(cero_context_params){.threads = 1, .no_shared_memory = no_shared_memory}, &p->context));
    files_make_dir(p->dir, sizeof(p->dir));
    const char *path = files_in(p->dir, "train.u16");
    write_counting(path, 300);
    assert_ok(case_config(p->context, sets, &p->config));
    assert_ok(cero_token_stream_open(&(cero_token_stream_params){.path = &path,
                                                                 .path_count = 1,
                                                                 .vocab_size = p->model.vocab_size},
                                     &p->data));
    assert_ok(cero_trainer_create(&(cero_trainer_params){.context = p->context,
                                                         .config = p->config,
                                                         .model = &p->model,
                                                         .data = p->data,
                                                         .eval_data = p->data,
                                                         .seq_len = 8},
                                  &p->trainer));
}

static void close_place(place *p)
{
    cero_trainer_destroy(&p->trainer);
    cero_token_stream_close(&p->data);
    cero_config_destroy(&p->config);
    cero_context_destroy(&p->context);
    files_remove(p->dir);
}

/* Keeps away from cero until rank 0 is through. */
static void stay_away(void)
{
    int is_there = 0;

    while (!is_there) {
        assert_int_equal(MPI_Iprobe(0, 77, MPI_COMM_WORLD, &is_there, MPI_STATUS_IGNORE),
                         MPI_SUCCESS);
        (void)nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    assert_int_equal(MPI_Recv(NULL, 0, MPI_BYTE, 0, 77, MPI_COMM_WORLD, MPI_STATUS_IGNORE),
                     MPI_SUCCESS);
}

static void expect_text(const char *text)
{
    if (strstr(cero_error_message(), text) == NULL) {
        fail_msg("the message lacks \"%s\": %s", text, cero_error_message());
    }
}

static void test_alone(void **state)
{
    double loss;
    place p;

    CERO_UNUSED(state);
    open_place(&p);
    bool is_first = cero_context_rank(p.context) == 0;
    if (strcmp(chosen, "nowhere") == 0 && is_first) {
        cero_status st = cero_trainer_evaluate(p.trainer, &loss);
        assert_int_equal(st, CERO_ERR_COMM);
        expect_text("no sign of life from rank 1 for 1 s");
        expect_text(" (operation ");
        expect_text("rank 0 (this one), recent operations:");
        expect_text("evaluation after step 0");
        expect_text(no_shared_memory ? "rank 1: no answer" : "rank 1, recent operations:");
        assert_int_equal(MPI_Send(NULL, 0, MPI_BYTE, 1, 77, MPI_COMM_WORLD), MPI_SUCCESS);
    } else if (strcmp(chosen, "nowhere") == 0) {
        stay_away();
    } else {
        cero_status st =
            is_first ? cero_trainer_evaluate(p.trainer, &loss) : cero_trainer_run(p.trainer, NULL);
        assert_true(st == CERO_ERR_COMM || st == CERO_ERR_REMOTE);
        expect_text("no sign of life from rank");
        expect_text("in gather transformer.embedding (operation ");
        expect_text("it was seen waiting in");
        expect_text("in all_reduce (operation ");
    }
    close_place(&p);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_alone)};

    chosen = argc > 1 ? argv[1] : "";
    no_shared_memory = argc > 2;
    if (MPI_Init(&argc, &argv) != MPI_SUCCESS) {
        return EXIT_FAILURE;
    }
    if (cmocka_run_group_tests(tests, NULL, NULL) != 0) {
        (void)MPI_Abort(MPI_COMM_WORLD, EXIT_FAILURE);
    }
    (void)MPI_Finalize();
    return EXIT_SUCCESS;
}
