/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a run leaves does not tell its layout: losses, the evaluation and the bytes of the exported model are those
 * of one rank at every stage, and so they are when training goes on from an exported model.
 */
// RUN: np=4
#include "mpi/equivalence.h"

#include "unit/ckpt/files.h"

#include "train/train.h"

enum {
    VOCAB = 258,
    TRAIN_TOKENS = 13 * 60 + 5,
    EVAL_TOKENS = 13 * 10 + 1, /* windows that no number of ranks but 1 and 2 divides */
    STEPS = 4
};

/* What a trainer says of itself. */
typedef struct report {
    double loss[STEPS];
    double norm[STEPS];
    double eval_loss[2]; /* halfway, and at the end */
    int64_t steps;
    int64_t evals;
} report;

static char scratch[64]; /* the same on all ranks */

static void visit(void *context, const cero_metrics_step *step)
{
    report *r = context;

    assert_in_range(r->steps, 0, STEPS - 1);
    r->loss[r->steps] = step->stats.loss;
    r->norm[r->steps++] = step->stats.grad_norm;
    if (step->has_eval) {
        assert_in_range(r->evals, 0, 1);
        r->eval_loss[r->evals++] = step->eval_loss;
    }
}

static void write_tokens(const char *name, uint64_t stream, int64_t count)
{
    static uint16_t tokens[TRAIN_TOKENS];
    cero_rng_key key = cero_rng_make_key(23, CERO_RNG_TEST, stream, 0);

    for (int64_t i = 0; i < count; i++) {
        tokens[i] = (uint16_t)(cero_rng_word(key, 0, (uint64_t)i) % VOCAB);
    }
    files_write(files_in(scratch, name), tokens, (size_t)count * sizeof(tokens[0]));
}

static void make_scratch(void)
{
    if (cero_comm_rank(world) == 0) {
        files_make_dir(scratch, sizeof(scratch));
        write_tokens("train.u16", 0, TRAIN_TOKENS);
        write_tokens("eval.u16", 1, EVAL_TOKENS);
    }
    (void)MPI_Bcast(scratch, sizeof(scratch), MPI_BYTE, 0, MPI_COMM_WORLD);
}

static void open_tokens(const char *name, cero_token_stream **out)
{
    const char *path = files_in(scratch, name);
    cero_token_stream_params params = {.path = &path, .path_count = 1, .vocab_size = VOCAB};

    assert_ok(cero_token_stream_open(&params, out));
}

/* Trains from the weights of the folder `from` (NULL: initial ones) and exports to `to`. Collective. */
static void train(cero_context *context, const equiv_run *run, const char *from, const char *to,
                  report *r)
{
    cero_config *config = NULL;
    cero_trainer *trainer = NULL;
    const char *sets[EQUIV_MAX_SETS + 1] = {0};
    cero_trainer_params params = {.context = context,
                                  .model = &run->spec,
                                  .steps = STEPS,
                                  .eval_every = STEPS / 2,
                                  .visitor = visit,
                                  .visitor_context = r};

    *r = (report){0};
    equiv_list_sets(run, sets);
    assert_ok(case_config(context, sets, &config));
    params.config = config;
    open_tokens("train.u16", &params.data);
    open_tokens("eval.u16", &params.eval_data);
    assert_ok(cero_trainer_create(&params, &trainer));
    if (from != NULL) {
        assert_ok(cero_trainer_import(trainer, from));
    }
    assert_ok(cero_trainer_run(trainer, NULL));
    assert_ok(cero_trainer_export(trainer, to, CERO_DTYPE_F32, NULL));
    assert_int_equal(r->steps, STEPS);
    assert_int_equal(r->evals, 2);
    cero_trainer_destroy(&trainer);
    cero_token_stream_close(&params.data);
    cero_token_stream_close(&params.eval_data);
    cero_config_destroy(&config);
}

static bool is_same_file(const char *dir, const char *other, const char *name)
{
    char *bytes[2];
    size_t length[2];

    assert_ok(cero_file_read(files_in(dir, name), 0, &bytes[0], &length[0]));
    assert_ok(cero_file_read(files_in(other, name), 0, &bytes[1], &length[1]));
    bool is_same = length[0] == length[1] && memcmp(bytes[0], bytes[1], length[0]) == 0;
    cero_delete(bytes[0]);
    cero_delete(bytes[1]);
    return is_same;
}

/* The first thing in which a run differs from that of one rank; NULL: nothing. */
static const char *difference(const report *a, const report *b, const char *dir, const char *other)
{
    if (memcmp(a->loss, b->loss, sizeof(a->loss)) != 0) {
        return "the losses differ";
    }
    if (memcmp(a->norm, b->norm, sizeof(a->norm)) != 0) {
        return "the gradient norms differ";
    }
    if (memcmp(a->eval_loss, b->eval_loss, sizeof(a->eval_loss)) != 0) {
        return "the evaluations differ";
    }
    if (!is_same_file(dir, other, "model.safetensors")) {
        return "the exported weights differ";
    }
    return is_same_file(dir, other, "config.json") ? NULL : "the exported configs differ";
}

/* What one rank leaves: a run, and one that goes on from its model. */
typedef struct reference {
    char dir[2][96];
    report report[2];
} reference;

static void make_reference(const equiv_run *run, reference *ref)
{
    cero_context *context = NULL;

    assert_ok(
        cero_context_create_mpi(MPI_COMM_SELF, &(cero_context_params){.threads = 1}, &context));
    for (int i = 0; i < 2; i++) {
        (void)snprintf(ref->dir[i], sizeof(ref->dir[i]), "%s/alone-%d-%d", scratch,
                       cero_comm_rank(world), i);
        train(context, run, i == 0 ? NULL : ref->dir[0], ref->dir[i], &ref->report[i]);
    }
    cero_context_destroy(&context);
}

static void check_row(const equiv_world *w, equiv_tally *tally, const char *name,
                      const equiv_run *run, const reference *ref)
{
    // All ranks of the world name the same folders; its first rank writes.
    char from[96];
    int first = cero_comm_rank(world) - cero_context_rank(w->context);

    (void)snprintf(from, sizeof(from), "%s/alone-%d-0", scratch, first);
    for (int i = 0; i < 2; i++) {
        report r;
        char to[96];
        (void)snprintf(to, sizeof(to), "%s/cut-%d-%d", scratch, first, i);
        train(w->context, run, i == 0 ? NULL : from, to, &r);
        const char *text = difference(&ref->report[i], &r, ref->dir[i], to);
        (void)MPI_Barrier(w->comm); // before the next row writes over what is compared
        equiv_count(w, tally, name, text != NULL, text != NULL ? text : "");
    }
}

static void check(const equiv_run *run, const char *what)
{
    equiv_tally tally = {0};
    reference ref;
    int rows = 0;

    make_reference(run, &ref);
    equiv_meet();
    for (int size = 2; size <= 4; size++) {
        equiv_world w;
        equiv_open(&w, size, size == 4 ? &(cero_context_params){.ranks_per_node = 2} : NULL);
        for (int i = 0; i < 5; i++) { // stages, and one copy per node at stage 1
            char name[96];
            equiv_run cut = *run;
            int stage = i < 4 ? i : 1;
            if (!equiv_is_mine(&w, rows++)) {
                continue;
            }
            equiv_set(&cut, "zero_optimization.stage=%d", stage);
            equiv_set(&cut, "cero.share_within_node=%s", i < 4 ? "false" : "true");
            (void)snprintf(name, sizeof(name), "%s, %d ranks, stage %d%s", what, size, stage,
                           i < 4 ? "" : ", shared");
            check_row(&w, &tally, name, &cut, &ref);
        }
        equiv_close(&w);
    }
    equiv_finish(&tally, 2 * rows);
    assert_int_equal(rows, 3 * 5);
}

static void test_export(void **state)
{
    equiv_run runs[] = {equiv_run_of(equiv_gpt2(), 12, STEPS),
                        equiv_run_of(equiv_gpt2(), 12, STEPS),
                        equiv_run_of(equiv_llama(), 12, STEPS)};

    CERO_UNUSED(state);
    make_scratch();
    check(&runs[0], "GPT-2 fp32");
    equiv_set(&runs[1], "bf16.enabled=true");
    equiv_set(&runs[1], "cero.frozen=[\"transformer.h.1.*\"]");
    check(&runs[1], "GPT-2 bf16, a block frozen");
    runs[2].spec.vocab_size = VOCAB;
    equiv_set(&runs[2], "bf16.enabled=true");
    check(&runs[2], "Llama bf16");
    equiv_meet();
    if (cero_comm_rank(world) == 0) {
        files_remove(scratch);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_export),
    };
    return run_in_world(NULL, tests, CERO_COUNT_OF(tests));
}
