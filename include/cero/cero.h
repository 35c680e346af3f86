/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Training with cero from C: a context, a config, an engine. There are two front doors.
 *
 * A model of operations (cero/graph.h), which the engine differentiates, partitions and runs:
 *
 *     cero_context_create(&(cero_context_params){0}, &context);
 *     cero_config_create(context, "ds_config.json", NULL, 0, &config);
 *     cero_engine_create(context, config, &(cero_engine_params){.build = my_model, ...}, &engine);
 *     for (...) cero_engine_train_batch(engine, &batch, &stats);
 *
 * A program with its own forward and backward, in any language that can call C: it registers its parameters, and
 * the engine does all that comes after the gradients (docs/external.md, examples/plain_trainer_cero.c):
 *
 *     cero_engine_open_external("ds_config.json", params, count, &engine);
 *     for (...) { cero_engine_backward(engine, loss); cero_engine_step(engine, &stats); }
 *
 * Every params struct may be all zeros: zero means the default. The engine is the same for our models and for
 * yours; see cero/model.h and examples/own_model.c.
 */
#ifndef CERO_CERO_H
#define CERO_CERO_H

#include "cero/base.h"
#include "cero/graph.h"
#include "cero/model.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct cero_context cero_context;
typedef struct cero_train_config cero_config;
typedef struct cero_engine cero_engine;

typedef struct cero_context_params {
    const char *device;    /* "cpu" (default), or "meta": sizes only, nothing runs */
    int threads;           /* 0: the cores this process may use */
    int64_t memory_budget; /* bytes; 0: none. Going beyond is an error that names the buffer */
    double timeout;        /* seconds without a sign of life of a rank that is waited for; 0: 60; */
                           /* negative: for ever */
    int ranks_per_node; /* 0: ranks that share memory are a node; else consecutive ranks, by count */
    bool no_shared_memory; /* ranks of a node exchange by messages too */
    int world_size; /* "meta" only: rank world_rank of a world of this size that does not exist; */
    int world_rank; /* 0: a world of one */
} cero_context_params;

/*
 * The world this process is part of (started by mpirun, mpiexec, srun or cero launch; else a world of one), its
 * device and its memory account. params may be NULL. cero/mpi.h takes a communicator instead.
 *
 * Collective: over the world.
 * Errors:     INVALID, NOMEM, COMM, REMOTE.
 */
CERO_API CERO_NODISCARD cero_status cero_context_create(const cero_context_params *params,
                                                        cero_context **out);
/*
 * A context over the ranks of a caller's MPI communicator: mpi_comm points to an MPI_Comm of `nbytes` bytes. For
 * languages that have no mpi.h; C and C++ have cero_context_create_mpi in cero/mpi.h.
 *
 * Collective: over the communicator.
 * Errors:     INVALID, NOMEM, COMM, REMOTE; UNSUPPORTED by a library built without MPI.
 */
CERO_API CERO_NODISCARD cero_status cero_context_create_from(const void *mpi_comm, size_t nbytes,
                                                             const cero_context_params *params,
                                                             cero_context **out);
/* Engines of the context must be destroyed first. Collective: over the world. */
CERO_API void cero_context_destroy(cero_context **context);

/* This process's number in the world, and how many there are. Not collective. */
CERO_API int cero_context_rank(const cero_context *context);
CERO_API int cero_context_size(const cero_context *context);

/*
 * Agrees on failure before a collective call that a rank's own failure would leave hanging: all ranks get OK, or
 * the failing ranks their own status and the others REMOTE, with the first one's message.
 *
 * Collective: over the world.
 * Errors:     the local status, REMOTE, COMM.
 */
CERO_API CERO_NODISCARD cero_status cero_context_agree(cero_context *context, cero_status local);

/*
 * Ends all processes of the job with an exit code, after an error: a rank that left would leave the others
 * waiting. Returns in a world of one. Not collective.
 */
CERO_API void cero_context_abort(cero_context *context, int code);

/* The context's device, for graphs built by hand. Borrowed. Not collective. */
CERO_API cero_device *cero_context_device(cero_context *context);

/* Bytes of a category held now and at most. Not collective. */
CERO_API void cero_context_memory(const cero_context *context, cero_mem_category category,
                                  size_t *current, size_t *peak);

/*
 * Reads a ds_config.json (NULL: defaults) and applies "key.path=value" overrides. Batch sizes follow DeepSpeed's
 * rule for the context's world; without a context (NULL) for a world of one.
 *
 * Errors: IO, CORRUPT, INVALID, UNSUPPORTED with file:line:column. Not collective.
 */
CERO_API CERO_NODISCARD cero_status cero_config_create(const cero_context *context,
                                                       const char *path,
                                                       const char *const *overrides,
                                                       int override_count, cero_config **out);
CERO_API void cero_config_destroy(cero_config **config);

typedef struct cero_engine_params {
    cero_build build;    /* the model; required */
    const void *context; /* given to build; borrowed, outlives the engine */
    int64_t seq_len;     /* positions per sample; required */
    bool no_eval;        /* no evaluation program */
} cero_engine_params;

/*
 * Compiles the model for training, allocates everything a step needs, and sets the initial weights.
 *
 * Collective: over the world.
 * Ownership:  context and config are borrowed and outlive the engine.
 * Errors:     what the model reports, INVALID, NOMEM, UNSUPPORTED.
 */
CERO_API CERO_NODISCARD cero_status cero_engine_create(cero_context *context,
                                                       const cero_config *config,
                                                       const cero_engine_params *params,
                                                       cero_engine **out);
CERO_API void cero_engine_destroy(cero_engine **engine);

/* Named inputs of a step: `data[i]` holds this rank's micro-batches one after the other, in order. */
typedef struct cero_batch {
    int input_count;
    const char *const *name;
    const void *const *data;
    int64_t sample; /* global index of the first sample of the step; dropout depends on it */
} cero_batch;

/* What a step did. Reals are those that were used; what an engine without a model cannot know is 0. */
typedef struct cero_step_stats {
    int64_t step; /* this step's number, from 1 */
    double loss;  /* mean over the rows that count */
    double lr;
    double grad_norm;   /* before clipping, of the averaged gradient */
    double clip_coef;   /* 1 when not clipped */
    double loss_scale;  /* 1 in fp32 and bf16 */
    bool is_applied;    /* false: skipped, the gradient was not finite */
    int64_t applied;    /* steps applied so far */
    int64_t skipped;    /* steps skipped so far */
    int64_t rows;       /* rows that counted */
    double model_flops; /* operations of forward and backward, recomputation not counted */
    double seconds_forward;
    double seconds_backward;
    double seconds_exchange;
    double seconds_update;
    const char *bad_tensor; /* skipped: first parameter whose gradient is not finite; else NULL */
} cero_step_stats;

/*
 * One optimizer step: every micro-batch forward and backward, exchange, clip, update.
 *
 * Collective: over the world.
 * Errors:     INVALID (an input is missing), NUMERIC (too many steps skipped in a row; the loss scale is at
 *             its minimum), COMM, REMOTE. Poisons the engine.
 */
CERO_API CERO_NODISCARD cero_status cero_engine_train_batch(cero_engine *engine,
                                                            const cero_batch *batch,
                                                            cero_step_stats *stats);

/*
 * Loss of one micro-batch without training: sum over rows and how many counted.
 *
 * Collective: over the world.
 * Errors:     INVALID, COMM.
 */
CERO_API CERO_NODISCARD cero_status cero_engine_eval_batch(cero_engine *engine,
                                                           const cero_batch *batch,
                                                           double *loss_sum, int64_t *rows);

/* Parameters in canonical order. Not collective. */
typedef struct cero_param_info {
    const char *name; /* the engine's */
    cero_shape shape;
    bool is_frozen;
    const char *unit; /* the engine's */
} cero_param_info;
CERO_API int64_t cero_engine_param_count(const cero_engine *engine);
CERO_API cero_param_info cero_engine_param_info(const cero_engine *engine, int64_t i);
/* Index of a parameter by name, -1 if there is none. Not collective. */
CERO_API int64_t cero_engine_find_param(const cero_engine *engine, const char *name);

/*
 * Elements begin..begin+n of parameter i as f32: the master weights where they exist. Setting writes the
 * master and every copy; moments are kept.
 *
 * Collective: over the world.
 * Errors:     INVALID when the range is outside the parameter.
 */
CERO_API CERO_NODISCARD cero_status cero_engine_get_param(cero_engine *engine, int64_t i,
                                                          int64_t begin, int64_t n, float *out);
CERO_API CERO_NODISCARD cero_status cero_engine_set_param(cero_engine *engine, int64_t i,
                                                          int64_t begin, int64_t n,
                                                          const float *values);

/* Samples of one step over all ranks, of one micro-batch, and micro-batches of this rank. Not collective. */
CERO_API int64_t cero_engine_global_batch(const cero_engine *engine);
CERO_API int64_t cero_engine_micro_batch(const cero_engine *engine);
CERO_API int64_t cero_engine_micro_batch_count(const cero_engine *engine);

/*
 * First sample, within the step, of this rank's micro-batch `index`: micro-batch k of a step holds samples
 * k * micro_batch and on, and rank r of N takes k = r, r + N, r + 2 N … Not collective.
 */
CERO_API int64_t cero_engine_micro_batch_sample(const cero_engine *engine, int64_t index);

/*
 * The second front door: forward and backward are the program's own.
 *
 * A micro-batch's gradients are those of the mean loss over its samples, times cero_engine_loss_scale. A step has
 * cero_engine_micro_batch_count of them on every rank, and uses the mean over all of them (a mean of means: every
 * micro-batch counts the same). The program gives different samples to different ranks; rank r of N takes
 * micro-batches r, r + N, … of the step for the same bits on any number of ranks.
 */

/* A parameter of the program. What is left zero is a parameter of f32 in memory of the engine's. */
typedef struct cero_external_param {
    const char *name; /* unique; copied */
    cero_shape shape;
    /* Of data and grad: f32, or the dtype in which the config computes; the engine's own memory is of the latter. */
    cero_dtype dtype;
    /* Weights, borrowed: read when the engine is made, written by it; the program only reads them. NULL: memory of
     * the engine's, zeros at first (cero_engine_param_data). */
    void *data;
    /* Gradient of one micro-batch, borrowed: only read. NULL: memory of the engine's (cero_engine_param_grad). */
    void *grad;
    /* Neighbours of the same unit are exchanged, and at stage 3 gathered, together; copied. NULL: the name up to its
     * first number ("model.layers.3" of "model.layers.3.mlp.up"), else up to its last dot, else the name. */
    const char *unit;
    bool is_frozen;    /* no gradient, no optimizer state */
    bool is_embedding; /* a table of rows or an output head: Muon leaves these to Adam */
} cero_external_param;

/*
 * A parameter of two dimensions of f32 in the program's memory, everything else left zero; of one dimension for
 * rows 0. For languages without designated initializers. Not collective.
 */
CERO_API cero_external_param cero_external_matrix(const char *name, int64_t rows, int64_t cols,
                                                  float *data, float *grad);

/*
 * An engine for `count` parameters of the program, the same on all ranks, in an order in which a unit's
 * parameters are neighbours.
 *
 * Initial weights are those in rank 0's memory, which all ranks get; where data is NULL they are zeros until
 * cero_engine_set_param. When the config computes in bf16 or fp16, weights in f32 memory are rounded values of
 * the engine's f32 masters, and gradients in f32 memory are rounded on their way: mixed precision as far as
 * communication and weights go, without a change to the program.
 *
 * Collective: over the world.
 * Ownership:  context and config are borrowed and outlive the engine, like the memory of data and grad; params
 *             is copied.
 * Errors:     INVALID naming the parameter (a name or memory that is registered twice, a wrong dtype, a unit
 *             that is interrupted) or the first difference between ranks; NOMEM, UNSUPPORTED.
 */
CERO_API CERO_NODISCARD cero_status cero_engine_create_external(cero_context *context,
                                                                const cero_config *config,
                                                                const cero_external_param *params,
                                                                int64_t count, cero_engine **out);

/*
 * The same in one call: a context of its defaults and a config read from a file belong to the engine and are
 * destroyed with it.
 *
 * Collective: over the world that the process was started in.
 * Errors:     those of cero_context_create, cero_config_create and cero_engine_create_external.
 */
CERO_API CERO_NODISCARD cero_status cero_engine_open_external(const char *config_path,
                                                              const cero_external_param *params,
                                                              int64_t count, cero_engine **out);

/* This process's number in the engine's world, and how many there are. Not collective. */
CERO_API int cero_engine_rank(const cero_engine *engine);
CERO_API int cero_engine_size(const cero_engine *engine);

/*
 * Scale that the next micro-batch's loss, or its gradients, must be multiplied by: 1 but in fp16. In fp16 it is
 * to be asked for after every step; an engine whose program does not ask refuses its gradients.
 * Not collective.
 */
CERO_API double cero_engine_loss_scale(cero_engine *engine);

/*
 * Optional, during backward: the gradient of parameter i is complete, and stays as it is until
 * cero_engine_backward returns. With overlap_comm in the config, its unit is exchanged while the program computes
 * the others; may wait for ranks that are far behind. Of frozen parameters it is ignored.
 *
 * Collective: over the world, in any order of parameters; at stage 3 all ranks alike between two gathers.
 * Errors:     INVALID (no such parameter; told twice; those of cero_engine_backward), COMM, REMOTE. Poisons the
 *             engine.
 */
CERO_API CERO_NODISCARD cero_status cero_engine_grad_ready(cero_engine *engine, int64_t i);

/*
 * This micro-batch's gradients are complete, of all trained parameters: they are added to the step's sums. After
 * the return their memory is free for the next micro-batch; the engine does not clear it.
 *
 * `loss` is the mean over the micro-batch's samples, not scaled; for cero_step_stats alone.
 *
 * Collective: over the world.
 * Errors:     INVALID (the step's micro-batches are complete; in fp16, the program never asked for the loss
 *             scale; at stage 3, a unit was never gathered), COMM, REMOTE. Poisons the engine.
 */
CERO_API CERO_NODISCARD cero_status cero_engine_backward(cero_engine *engine, double loss);

/*
 * True when the next cero_engine_step updates, if each micro-batch is followed by one: from the call of step
 * before the last micro-batch on, as in DeepSpeed. Not collective.
 */
CERO_API bool cero_engine_is_boundary(const cero_engine *engine);

/*
 * When the step's micro-batches are complete: exchange, clip, update, new weights in the program's memory. Else it
 * does nothing, and leaves *stats alone: it may be called after every micro-batch, as in DeepSpeed, or once for a
 * step. Micro-batches are counted by cero_engine_backward, not by this call. stats may be NULL.
 *
 * Collective: over the world.
 * Errors:     INVALID when a unit is still gathered at stage 3, or ranks make different calls: then the engine is
 *             as before. INVALID (no micro-batch since the last call), NUMERIC as cero_engine_train_batch, COMM,
 *             REMOTE: poison the engine.
 */
CERO_API CERO_NODISCARD cero_status cero_engine_step(cero_engine *engine, cero_step_stats *stats);

/*
 * Stage 3: between gather and release a unit's parameters are whole, in the memory that was registered or at
 * cero_engine_param_data. Units that are gathered at the same time share room for stage3_max_live_parameters
 * elements. At stages 0 to 2, in a world of one, and for units small enough to stay whole
 * (stage3_param_persistence_threshold), both do nothing.
 *
 * Collective: gather over the world, same units in the same order; release is not.
 * Errors:     INVALID (no such unit; it is gathered, or not; ranks differ), NOMEM (no room beside what is
 *             gathered); COMM, REMOTE, which poison the engine, as does an error of release.
 */
CERO_API CERO_NODISCARD cero_status cero_engine_gather_unit(cero_engine *engine, const char *unit);
CERO_API CERO_NODISCARD cero_status cero_engine_release_unit(cero_engine *engine, const char *unit);

/*
 * Memory of parameter i: the program's, where it was registered, else the engine's, of the dtype in which the
 * config computes. Data is NULL while a cut unit is not gathered, and only to be read; grad is NULL for frozen
 * parameters, and the same for the life of the engine. NULL for an index out of range. Not collective.
 */
CERO_API const void *cero_engine_param_data(const cero_engine *engine, int64_t i);
CERO_API void *cero_engine_param_grad(const cero_engine *engine, int64_t i);

/*
 * Writes weights, moments and counters to the folder `dir`/`tag`; tag NULL: "step-00000012" by the steps done. Every
 * rank writes its part, into a folder that all ranks see; the checkpoint appears as a whole when all of it is on the
 * disk, in place of one of the same tag, and `dir`/latest then names it for people. All engines can save and load;
 * what is saved at one stage on one number of ranks can be loaded at any other.
 *
 * What fails leaves the engine and the checkpoints in `dir` as they were. One job at a time saves to a `dir`.
 *
 * Collective: over the world.
 * Errors:     INVALID (in the middle of a step; ranks give different names; another process saves to `dir`), IO
 *             (with the bytes needed and free, when they do not fit), NOMEM, COMM, REMOTE.
 */
CERO_API CERO_NODISCARD cero_status cero_engine_save(cero_engine *engine, const char *dir,
                                                     const char *tag);

/*
 * Sets weights, moments and counters to those of `dir`/`tag`; tag NULL: of the newest checkpoint in `dir`, by its
 * step, that verifies: each newer one that does not is named in the log with the reason. Every byte that is read is
 * verified. stats gets step, applied, skipped and loss_scale; may be NULL.
 *
 * Collective: over the world.
 * Errors:     INVALID (another model or optimizer, with all tensors that differ; in the middle of a step), CORRUPT
 *             (nothing verifies), IO (nothing is there). The engine is as before, unless contents turned out wrong
 *             and there was no older checkpoint to take: then it is poisoned. COMM, REMOTE.
 */
CERO_API CERO_NODISCARD cero_status cero_engine_load(cero_engine *engine, const char *dir,
                                                     const char *tag, cero_step_stats *stats);

/*
 * Sets the weights to those of `dir`/`tag` (NULL as above), for a new run: moments become zero, and counters those of
 * an engine that took no step. The optimizer may be another one. With is_partial, parameters that the checkpoint
 * has not, or in another shape, keep their values, and what it has besides is left; the log names both.
 *
 * Collective: over the world.
 * Errors:     those of cero_engine_load.
 */
CERO_API CERO_NODISCARD cero_status cero_engine_load_weights(cero_engine *engine, const char *dir,
                                                             const char *tag, bool is_partial);

/*
 * Loads the newest checkpoint in `dir` that verifies, or leaves the engine and *stats alone, with a line in the log,
 * when there is none: for a program that is started again and again by the same command. Checkpoints of which none
 * verifies are an error.
 *
 * Collective: over the world.
 * Errors:     those of cero_engine_load.
 */
CERO_API CERO_NODISCARD cero_status cero_engine_resume(cero_engine *engine, const char *dir,
                                                       cero_step_stats *stats);

#ifdef __cplusplus
}
#endif

#endif
