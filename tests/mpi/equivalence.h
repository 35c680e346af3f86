/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the tests of "one arithmetic, many layouts" share: worlds of any size within one start, small models
 * trained in them, and the comparison of two runs bit by bit.
 *
 * The ranks of a start form as many worlds of a size as fit, which work on different rows of a test at the same
 * time. A row that differs is told in one line, and the test fails at its end, after all rows.
 */
#ifndef CERO_TESTS_MPI_EQUIVALENCE_H
#define CERO_TESTS_MPI_EQUIVALENCE_H

#include "cases.h"
#include "mpi/world.h"

#include "cero/mpi.h"

#include <limits.h>
#include <time.h>

enum {
    EQUIV_MAX_STEPS = 20,
    EQUIV_MAX_NAME = 96,
    EQUIV_MAX_SETS = 24,
    EQUIV_TIMEOUT = 20 /* seconds: a rank that hangs ends the test with a report */
};

/* One of the worlds of `size` ranks that this start is cut into. */
typedef struct equiv_world {
    int size;
    int count;             /* worlds */
    int number;            /* of this rank's */
    MPI_Comm comm;         /* MPI_COMM_NULL: this rank is left over */
    cero_context *context; /* NULL then */
} equiv_world;

/* Rows of a test: done by this rank as the first of its world, and seen to differ. */
typedef struct equiv_tally {
    int done;
    int different;
} equiv_tally;

static inline void equiv_open(equiv_world *w, int size, const cero_context_params *params)
{
    cero_context_params p = params != NULL ? *params : (cero_context_params){0};
    int rank;
    int ranks;

    (void)MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    (void)MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    assert_in_range(size, 1, ranks);
    *w = (equiv_world){.size = size, .count = ranks / size, .number = rank / size};
    (void)MPI_Comm_split(MPI_COMM_WORLD, w->number < w->count ? w->number : MPI_UNDEFINED, rank,
                         &w->comm);
    p.threads = 1;
    p.timeout = EQUIV_TIMEOUT;
    if (w->comm != MPI_COMM_NULL) {
        assert_ok(cero_context_create_mpi(w->comm, &p, &w->context));
        assert_int_equal(cero_context_size(w->context), size);
    }
}

/* All ranks come here; waiting leaves the cores to those that work. */
static inline void equiv_meet(void)
{
    MPI_Request request;
    int is_done = 0;

    (void)MPI_Ibarrier(MPI_COMM_WORLD, &request);
    while (!is_done) {
        (void)MPI_Test(&request, &is_done, MPI_STATUS_IGNORE);
        (void)nanosleep(&(struct timespec){.tv_nsec = is_done ? 0 : 1000000}, NULL);
    }
}

static inline void equiv_close(equiv_world *w)
{
    cero_context_destroy(&w->context);
    if (w->comm != MPI_COMM_NULL) {
        (void)MPI_Comm_free(&w->comm);
    }
    equiv_meet();
}

/* True when row `row` of those that worlds of this size share is this world's. */
static inline bool equiv_is_mine(const equiv_world *w, int row)
{
    return w->context != NULL && row % w->count == w->number;
}

/* What is trained, and how. Without `build` it is the model of `spec`. */
typedef struct equiv_run {
    cero_model_spec spec;
    cero_build build;
    const void *context;
    int64_t seq_len;
    int steps;
    char set[EQUIV_MAX_SETS][EQUIV_MAX_NAME]; /* of the config; later ones win */
    int set_count;
} equiv_run;

CERO_PRINTF(2, 3)
static inline void equiv_set(equiv_run *run, const char *fmt, ...)
{
    va_list args;

    assert_in_range(run->set_count, 0, EQUIV_MAX_SETS - 1);
    va_start(args, fmt);
    (void)vsnprintf(run->set[run->set_count++], EQUIV_MAX_NAME, fmt, args);
    va_end(args);
}

/* As case_config takes them; `sets` has room for EQUIV_MAX_SETS + 1. */
static inline void equiv_list_sets(const equiv_run *run, const char **sets)
{
    for (int i = 0; i < run->set_count; i++) {
        sets[i] = run->set[i];
    }
    sets[run->set_count] = NULL;
}

/*
 * GPT-2 type, 3 layers, width 25, tied, dropout: 30,300 elements in units of 6,775, three of 7,825, and 50.
 * Neither 2 nor 3 divides what is large.
 */
static inline cero_model_spec equiv_gpt2(void)
{
    cero_model_spec spec = case_g2();

    spec.layers = 3;
    spec.vocab_size = 258;
    spec.hidden = 25;
    spec.heads = spec.kv_heads = spec.head_dim = 5;
    spec.inner = 100;
    spec.embd_dropout = spec.attn_dropout = spec.resid_dropout = 0.1;
    return spec;
}

/* Llama type, 2 layers, width 25, untied: 23,125 elements in units of 6,475, two of 5,075, and 6,500. */
static inline cero_model_spec equiv_llama(void)
{
    cero_model_spec spec = case_l1();

    spec.context = 13;
    spec.hidden = 25;
    spec.heads = 4;
    spec.kv_heads = 2;
    spec.head_dim = 6;
    spec.inner = 43;
    spec.attn_dropout = 0.1;
    return spec;
}

/*
 * A run of a model with what most tests want: samples one by one, a clip that bites, decay of some tensors,
 * every unit cut at stage 3, and the order of additions that does not depend on the ranks.
 */
static inline equiv_run equiv_run_of(cero_model_spec spec, int64_t batch, int steps)
{
    equiv_run run = {.spec = spec, .seq_len = 13, .steps = steps};

    equiv_set(&run, "train_batch_size=%lld", (long long)batch);
    equiv_set(&run, "train_micro_batch_size_per_gpu=1");
    equiv_set(&run, "gradient_clipping=0.25");
    equiv_set(&run, "cero.gradient_order=global");
    equiv_set(&run, "zero_optimization.stage3_param_persistence_threshold=0");
    equiv_set(&run, "cero.no_decay=[\"%s\"]",
              spec.arch == CERO_ARCH_GPT2 ? "*.bias" : "*norm.weight");
    return run;
}

/* Where a parameter ends in the weights. */
typedef struct equiv_param {
    char name[EQUIV_MAX_NAME];
    int64_t end;
} equiv_param;

/* What a run leaves. */
typedef struct equiv_outcome {
    int steps;
    cero_step_stats stats[EQUIV_MAX_STEPS];
    char bad_tensor[EQUIV_MAX_STEPS][EQUIV_MAX_NAME]; /* "": the step was applied */
    float *weights; /* owned: of all parameters, one after the other */
    int64_t numel;
    equiv_param *params; /* owned */
    int64_t param_count;
    cero_zero_summary zero;
    cero_comm_counter reduce; /* of all steps */
    double eval_sum;          /* evaluation of the first step's batch, halfway */
    int64_t eval_rows;
} equiv_outcome;

static inline void equiv_cleanup(equiv_outcome *o)
{
    cero_delete(o->weights);
    cero_delete(o->params);
    o->weights = NULL;
    o->params = NULL;
}

/*
 * Tokens and targets of this rank's micro-batches of a step over one fixed text. One target in eleven does not
 * count, and all of every seventeenth sample: a rank may have a micro-batch without a row.
 */
static inline void equiv_fill(const cero_engine *engine, const equiv_run *run, int64_t step,
                              case_batch *b)
{
    cero_rng_key key = cero_rng_make_key(17, CERO_RNG_TEST, 0, 0);
    int64_t micro_batch = cero_engine_micro_batch(engine);
    uint32_t vocab = (uint32_t)run->spec.vocab_size;
    int64_t count = 0;

    b->batch = (cero_batch){.input_count = 2,
                            .name = b->names,
                            .data = b->data,
                            .sample = step * cero_engine_global_batch(engine)};
    for (int64_t k = 0; k < cero_engine_micro_batch_count(engine); k++) {
        int64_t first = b->batch.sample + cero_engine_micro_batch_sample(engine, k);
        for (int64_t i = 0; i < micro_batch * run->seq_len; i++) {
            uint64_t at = (uint64_t)(first * run->seq_len + i);
            uint32_t next = cero_rng_word(key, 0, at + 1);
            bool counts = next % 11 != 0 && (first + i / run->seq_len) % 17 != 3;
            assert_true(count < CASE_MAX_TOKENS);
            b->tokens[count] = (int32_t)(cero_rng_word(key, 0, at) % vocab);
            b->targets[count++] = counts ? (int32_t)(next % vocab) : -1;
        }
    }
    b->names[0] = "tokens";
    b->names[1] = "targets";
    b->data[0] = b->tokens;
    b->data[1] = b->targets;
}

/* All weights and their names. Collective. */
static inline cero_status equiv_read_weights(cero_engine *engine, equiv_outcome *o)
{
    o->param_count = cero_engine_param_count(engine);
    o->params = cero_new((size_t)o->param_count, sizeof(*o->params));
    assert_non_null(o->params);
    for (int64_t i = 0; i < o->param_count; i++) {
        cero_param_info info = cero_engine_param_info(engine, i);
        (void)snprintf(o->params[i].name, EQUIV_MAX_NAME, "%s", info.name);
        o->numel += cero_shape_numel(&info.shape);
        o->params[i].end = o->numel;
    }
    o->weights = cero_new((size_t)o->numel, sizeof(float));
    assert_non_null(o->weights);
    for (int64_t i = 0; i < o->param_count; i++) {
        int64_t begin = i > 0 ? o->params[i - 1].end : 0;
        int64_t n = o->params[i].end - begin;
        CERO_TRY(cero_engine_get_param(engine, i, 0, n, o->weights + begin));
    }
    return CERO_OK;
}

/*
 * Evaluates the first step's batch, a micro-batch of each rank at a time. So few losses add up without rounding:
 * the sum has the same bits however they are cut.
 */
static inline cero_status equiv_evaluate(cero_engine *engine, const equiv_run *run, case_batch *b,
                                         equiv_outcome *o)
{
    equiv_fill(engine, run, 0, b);
    for (int64_t k = 0; k < cero_engine_micro_batch_count(engine); k++) {
        int64_t at = k * cero_engine_micro_batch(engine) * run->seq_len;
        double sum = 0;
        int64_t rows = 0;
        b->data[0] = b->tokens + at;
        b->data[1] = b->targets + at;
        CERO_TRY(cero_engine_eval_batch(engine, &b->batch, &sum, &rows));
        o->eval_sum += sum;
        o->eval_rows += rows;
    }
    return CERO_OK;
}

static inline cero_status equiv_steps(cero_engine *engine, const equiv_run *run, case_batch *b,
                                      equiv_outcome *o)
{
    for (o->steps = 0; o->steps < run->steps; o->steps++) {
        if (o->steps == run->steps / 2) {
            CERO_TRY(equiv_evaluate(engine, run, b, o));
        }
        equiv_fill(engine, run, o->steps, b);
        cero_step_stats *stats = &o->stats[o->steps];
        CERO_TRY(cero_engine_train_batch(engine, &b->batch, stats));
        (void)snprintf(o->bad_tensor[o->steps], EQUIV_MAX_NAME, "%s",
                       stats->bad_tensor != NULL ? stats->bad_tensor : "");
    }
    return CERO_OK;
}

/* What was counted from `counter`, which it becomes, until `now`. */
static inline void equiv_count_from(cero_comm_counter *counter, cero_comm_counter now)
{
    counter->calls = now.calls - counter->calls;
    counter->bytes = now.bytes - counter->bytes;
    counter->bytes_between_nodes = now.bytes_between_nodes - counter->bytes_between_nodes;
}

/* Trains in a context. Collective over it. The errors are those of the first call that failed. */
static inline cero_status equiv_train(cero_context *context, const equiv_run *run, equiv_outcome *o)
{
    static case_batch batch;
    cero_status st = CERO_OK;
    cero_config *config = NULL;
    cero_engine *engine = NULL;
    const char *sets[EQUIV_MAX_SETS + 1] = {0};
    cero_engine_params params = {
        .build = run->build != NULL ? run->build : cero_engine_build_model,
        .context = run->build != NULL ? run->context : &run->spec,
        .seq_len = run->seq_len,
    };

    assert_in_range(run->steps, 1, EQUIV_MAX_STEPS);
    memset(o, 0, sizeof(*o));
    equiv_list_sets(run, sets);
    CERO_TRY_GOTO(case_config(context, sets, &config), out);
    CERO_TRY_GOTO(cero_engine_create(context, config, &params, &engine), out);
    cero_engine_zero_summary(engine, &o->zero);
    o->reduce = cero_comm_get_counter(context->comm, CERO_COMM_REDUCE_UNIT);
    CERO_TRY_GOTO(equiv_steps(engine, run, &batch, o), out);
    equiv_count_from(&o->reduce, cero_comm_get_counter(context->comm, CERO_COMM_REDUCE_UNIT));
    CERO_TRY_GOTO(equiv_read_weights(engine, o), out);
out:
    cero_engine_destroy(&engine);
    cero_config_destroy(&config);
    return st;
}

/* The same in a world of this rank alone. */
static inline void equiv_train_alone(const equiv_run *run, equiv_outcome *o)
{
    cero_context *context = NULL;

    assert_ok(
        cero_context_create_mpi(MPI_COMM_SELF, &(cero_context_params){.threads = 1}, &context));
    assert_ok(equiv_train(context, run, o));
    cero_context_destroy(&context);
}

/* A double with its bits: two that print alike may differ. */
static inline bool equiv_is_same(double a, double b)
{
    return memcmp(&a, &b, sizeof(a)) == 0;
}

/* True when a step differs; `text` says in what. */
static inline bool equiv_step_differs(const cero_step_stats *a, const cero_step_stats *b,
                                      char *text, size_t size)
{
    const struct {
        const char *name;
        double a;
        double b;
    } part[] = {
        {"loss", a->loss, b->loss},
        {"grad_norm", a->grad_norm, b->grad_norm},
        {"clip_coef", a->clip_coef, b->clip_coef},
        {"loss_scale", a->loss_scale, b->loss_scale},
        {"lr", a->lr, b->lr},
        {"applied", (double)a->applied, (double)b->applied},
        {"skipped", (double)a->skipped, (double)b->skipped},
        {"rows", (double)a->rows, (double)b->rows},
    };

    for (int i = 0; i < (int)CERO_COUNT_OF(part); i++) {
        if (!equiv_is_same(part[i].a, part[i].b)) {
            (void)snprintf(text, size, "%s of step %lld is %.17g, expected %.17g", part[i].name,
                           (long long)a->step, part[i].b, part[i].a);
            return true;
        }
    }
    return false;
}

/* True when a weight differs: the first of the first tensor. */
static inline bool equiv_weights_differ(const equiv_outcome *a, const equiv_outcome *b, char *text,
                                        size_t size)
{
    int64_t count = 0;
    int64_t first = -1;
    int64_t p = 0;

    for (int64_t i = 0; i < a->numel; i++) {
        if (memcmp(&a->weights[i], &b->weights[i], sizeof(float)) != 0) {
            first = first < 0 ? i : first;
            count++;
        }
    }
    if (first < 0) {
        return false;
    }
    while (first >= a->params[p].end) {
        p++;
    }
    (void)snprintf(text, size,
                   "element %lld of %s is %.9g, expected %.9g; %lld of %lld weights differ",
                   (long long)(first - (p > 0 ? a->params[p - 1].end : 0)), a->params[p].name,
                   (double)b->weights[first], (double)a->weights[first], (long long)count,
                   (long long)a->numel);
    return true;
}

/* True when `found` is not `expected` in every bit; `text` says where first. */
static inline bool equiv_differs(const equiv_outcome *expected, const equiv_outcome *found,
                                 char *text, size_t size)
{
    if (expected->steps != found->steps || expected->numel != found->numel) {
        (void)snprintf(text, size, "%d steps and %lld weights, expected %d and %lld", found->steps,
                       (long long)found->numel, expected->steps, (long long)expected->numel);
        return true;
    }
    for (int s = 0; s < expected->steps; s++) {
        if (equiv_step_differs(&expected->stats[s], &found->stats[s], text, size)) {
            return true;
        }
        if (strcmp(expected->bad_tensor[s], found->bad_tensor[s]) != 0) {
            (void)snprintf(text, size, "step %d blames \"%s\", expected \"%s\"", s + 1,
                           found->bad_tensor[s], expected->bad_tensor[s]);
            return true;
        }
    }
    if (!equiv_is_same(expected->eval_sum, found->eval_sum) ||
        expected->eval_rows != found->eval_rows) {
        (void)snprintf(text, size,
                       "evaluation gives %.17g over %lld rows, expected %.17g over %lld",
                       found->eval_sum, (long long)found->eval_rows, expected->eval_sum,
                       (long long)expected->eval_rows);
        return true;
    }
    return equiv_weights_differ(expected, found, text, size);
}

/*
 * Counts a row of this world, and tells in a line when a rank of it found `is_different`. Collective over the
 * world.
 */
static inline void equiv_count(const equiv_world *w, equiv_tally *tally, const char *row,
                               bool is_different, const char *text)
{
    int rank = cero_context_rank(w->context);
    int first = is_different ? rank : INT_MAX;

    (void)MPI_Allreduce(MPI_IN_PLACE, &first, 1, MPI_INT, MPI_MIN, w->comm);
    if (first == rank) {
        print_error("%s: rank %d: %s\n", row, rank, text);
    }
    tally->done += rank == 0 ? 1 : 0;
    tally->different += rank == 0 && first != INT_MAX ? 1 : 0;
}

/* Trains and compares; returns the layout that was in force. Collective over the world. */
static inline cero_zero_summary equiv_row(const equiv_world *w, equiv_tally *tally, const char *row,
                                          const equiv_run *run, const equiv_outcome *expected)
{
    equiv_outcome o;
    char text[512] = "";

    if (equiv_train(w->context, run, &o) != CERO_OK) {
        fail_msg("%s: %s", row, cero_error_string());
    }
    equiv_count(w, tally, row, equiv_differs(expected, &o, text, sizeof(text)), text);
    equiv_cleanup(&o);
    return o.zero;
}

/* Over all ranks: exactly `rows` rows were done, and none differs. */
static inline void equiv_finish(const equiv_tally *tally, int rows)
{
    int sums[2] = {tally->done, tally->different};
    int rank;

    equiv_meet();
    (void)MPI_Allreduce(MPI_IN_PLACE, sums, 2, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    (void)MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 0) {
        print_message("%d runs, %d of them differ\n", sums[0], sums[1]);
    }
    assert_int_equal(sums[0], rows);
    assert_int_equal(sums[1], 0);
}

#endif
