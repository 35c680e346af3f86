/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the tests of memory and of bytes share: a run in one layout (model, precision, stage, order, nodes),
 * worlds of every size cut out of the one that was started, and an engine in them that trains.
 */
#ifndef CERO_TESTS_MPI_LAYOUTS_H
#define CERO_TESTS_MPI_LAYOUTS_H

#include "cases.h"
#include "mpi/world.h"

#include "cero/mpi.h"

enum {
    LAYOUT_SEQ = 8,
    LAYOUT_MAX_RANKS = 8
};

/* Zero is: fp32, stage 0, one micro-batch, order auto, no overlap, units cut, one node with shared memory. */
typedef struct layout {
    cero_model_spec spec;
    bool is_bf16;
    int stage;
    int accumulation;
    const char *order;
    bool overlaps;
    bool keeps_small; /* the threshold below which units stay whole is its default; else 0 */
    bool shares;      /* share_within_node */
    int ranks_per_node;
    bool no_shared_memory;
} layout;

static inline const char *layout_describe(const layout *l, char *text, size_t size)
{
    (void)snprintf(text, size,
                   "%s %s stage %d, accumulation %d, order %s, overlap %d, small whole %d, share "
                   "%d, nodes of %d, messages %d",
                   l->spec.name, l->is_bf16 ? "bf16" : "fp32", l->stage, l->accumulation, l->order,
                   l->overlaps, l->keeps_small, l->shares, l->ranks_per_node, l->no_shared_memory);
    return text;
}

/* The config of a layout, for the ranks of a context; NULL: a world of one. */
static inline void layout_config(const layout *l, const cero_context *context, cero_config **out)
{
    char text[8][96];
    const char *all[] = {"train_micro_batch_size_per_gpu=2",
                         "optimizer.type=AdamW",
                         "optimizer.params.lr=0.001",
                         text[0],
                         text[1],
                         text[2],
                         text[3],
                         text[4],
                         text[5],
                         text[6]};

    (void)snprintf(text[0], sizeof(text[0]), "zero_optimization.stage=%d", l->stage);
    (void)snprintf(text[1], sizeof(text[1]), "bf16.enabled=%s", l->is_bf16 ? "true" : "false");
    (void)snprintf(text[2], sizeof(text[2]), "gradient_accumulation_steps=%d", l->accumulation);
    (void)snprintf(text[3], sizeof(text[3]), "cero.gradient_order=%s", l->order);
    (void)snprintf(text[4], sizeof(text[4]), "zero_optimization.overlap_comm=%s",
                   l->overlaps ? "true" : "false");
    (void)snprintf(text[5], sizeof(text[5]), "cero.share_within_node=%s",
                   l->shares ? "true" : "false");
    (void)snprintf(text[6], sizeof(text[6]),
                   "zero_optimization.stage3_param_persistence_threshold=%d",
                   l->keeps_small ? 100000 : 0);
    assert_ok(cero_config_create(context, NULL, all, CERO_COUNT_OF(all), out));
}

/* A world of this rank and others, its config and its engine. */
typedef struct layout_run {
    cero_context *context;
    cero_config *config;
    cero_engine *engine;
    void *held; /* the batch, on the account as a trainer has it */
    case_batch batch;
} layout_run;

static inline void layout_open(layout_run *r, const layout *l, MPI_Comm comm)
{
    cero_context_params params = {
        .threads = 1, .ranks_per_node = l->ranks_per_node, .no_shared_memory = l->no_shared_memory};

    assert_ok(cero_context_create_mpi(comm, &params, &r->context));
    layout_config(l, r->context, &r->config);
    assert_ok(cero_engine_create(r->context, r->config,
                                 &(cero_engine_params){.build = cero_engine_build_model,
                                                       .context = &l->spec,
                                                       .seq_len = LAYOUT_SEQ},
                                 &r->engine));
    assert_ok(cero_mem_alloc(r->context->mem, cero_engine_batch_bytes(r->engine), CERO_MEM_IO,
                             "batch", &r->held));
    (void)case_batch_fill(&r->batch, cero_context_rank(r->context),
                          cero_engine_micro_batch(r->engine) *
                              cero_engine_micro_batch_count(r->engine),
                          LAYOUT_SEQ, l->spec.vocab_size);
}

static inline void layout_close(layout_run *r)
{
    cero_mem_free(r->context->mem, r->held);
    cero_engine_destroy(&r->engine);
    cero_config_destroy(&r->config);
    cero_context_destroy(&r->context);
}

static inline void layout_train(layout_run *r, int steps)
{
    for (int i = 0; i < steps; i++) {
        cero_step_stats stats;
        assert_ok(cero_engine_train_batch(r->engine, &r->batch.batch, &stats));
        assert_true(stats.is_applied);
    }
}

static inline void layout_evaluate(layout_run *r)
{
    double loss;
    int64_t rows;

    assert_ok(cero_engine_eval_batch(r->engine, &r->batch.batch, &loss, &rows));
}

/*
 * Cuts the world in two: `first` ranks, and the rest (may be none). Every rank gets the communicator of its
 * part, in which all ranks run the same; the caller frees it.
 */
static inline MPI_Comm layout_split(int first)
{
    MPI_Comm part;

    assert_int_equal(MPI_Comm_split(MPI_COMM_WORLD, cero_comm_rank(world) < first ? 0 : 1,
                                    cero_comm_rank(world), &part),
                     MPI_SUCCESS);
    return part;
}

/* Elements of the units of G1, G2 and L1, by what their parameters are called; the number of units. */
static inline int layout_units(const cero_engine *engine, int64_t *numel)
{
    int count = 0;
    char last[64] = "";

    for (int64_t i = 0; i < cero_engine_param_count(engine); i++) {
        cero_param_info info = cero_engine_param_info(engine, i);
        const char *layer = strstr(info.name, "h.");
        char unit[64];
        layer = layer != NULL ? layer : strstr(info.name, "layers.");
        if (layer != NULL) {
            (void)snprintf(unit, sizeof(unit), "%.*s",
                           (int)(strcspn(strchr(layer, '.') + 1, ".") + 1), strchr(layer, '.'));
        } else {
            bool is_embedding = strstr(info.name, "wte") != NULL ||
                                strstr(info.name, "wpe") != NULL ||
                                strstr(info.name, "embed_tokens") != NULL;
            (void)snprintf(unit, sizeof(unit), "%s", is_embedding ? "embedding" : "head");
        }
        if (strcmp(unit, last) != 0) {
            numel[count++] = 0;
            (void)snprintf(last, sizeof(last), "%s", unit);
        }
        numel[count - 1] += cero_shape_numel(&info.shape);
    }
    return count;
}

#endif
