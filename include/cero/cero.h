/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Training with cero from C: a context, a config, an engine.
 *
 *     cero_context_create(&(cero_context_params){0}, &context);
 *     cero_config_create(context, "ds_config.json", NULL, 0, &config);
 *     cero_engine_create(context, config, &(cero_engine_params){.build = my_model, ...}, &engine);
 *     for (...) cero_engine_train_batch(engine, &batch, &stats);
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

/* What a step did. Reals are those that were used. */
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

#ifdef __cplusplus
}
#endif

#endif
