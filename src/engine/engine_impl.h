/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The engine, for its files: engine.c, which has a model's programs, and external*.c and meet.c, where forward and
 * backward are the caller's own.
 */
#ifndef CERO_ENGINE_ENGINE_IMPL_H
#define CERO_ENGINE_ENGINE_IMPL_H

#include "engine/engine.h"
#include "zero/external.h"
#include "zero/schedule.h"

enum {
    CERO_ENGINE_RUN = 33 /* 32 hexadecimal digits and the end */
};

/* A compiled graph; parameters come from zero. */
typedef struct cero_engine_compiled {
    cero_graph *graph; /* owned, like the next two */
    cero_zero_schedule *schedule;
    cero_program *program;
    int64_t rows; /* elements of the loss */
} cero_engine_compiled;

/* A parameter of the caller's. */
typedef struct cero_engine_outside {
    cero_dtype dtype; /* of data and grad */
    void *data;       /* borrowed; NULL: the engine's memory is used */
    void *grad;       /* as data */
    bool is_ready;    /* its gradient of this micro-batch */
} cero_engine_outside;

/* What an engine has instead of programs when forward and backward are the caller's. */
typedef struct cero_engine_external {
    cero_engine_outside *params; /* owned, [param_count] */
    int64_t *waiting;          /* owned, [unit_count]: trained parameters that are not ready yet */
    bool *was_gathered;        /* owned, [unit_count]: since the last update */
    cero_zero_external *rooms; /* owned */
    int64_t backwards;         /* micro-batches complete since the last update */
    bool has_begun;            /* a gradient of the next micro-batch was ready */
    bool has_backward;         /* since the last call of step */
    bool knows_scale;          /* the caller asked for the loss scale since it changed */
    cero_exact loss;           /* sum over these micro-batches */
    double exchanged;          /* seconds of exchanges before the step at hand */
    cero_context *own_context; /* owned, like own_config; NULL: the caller's */
    cero_config *own_config;
} cero_engine_external;

struct cero_engine {
    cero_context *context;       /* borrowed, outlives this */
    const cero_config *config;   /* borrowed */
    const cero_train_spec *spec; /* view into it */
    cero_engine_params params;
    int64_t micro_batch_count; /* of this rank in a step */
    cero_engine_compiled train;
    cero_engine_compiled eval;
    cero_engine_external *external; /* owned; NULL: there is a model */
    cero_zero *zero;                /* owned */
    void *arena;                    /* owned, shared by the programs */
    cero_engine_plan plan;
    int64_t step;              /* steps begun */
    char run[CERO_ENGINE_RUN]; /* empty: not set */
    bool is_poisoned;
};

/*
 * Ranks that were started with different programs, models or configs would train nonsense, or hang.
 * Collective. Errors: INVALID naming what differs.
 */
CERO_NODISCARD cero_status cero_engine_check_ranks(cero_engine *engine);

/* An engine with its config and what follows from it. Errors: NOMEM. */
CERO_NODISCARD cero_status cero_engine_new(cero_context *context, const cero_config *config,
                                           cero_engine **out);

/*
 * Refuses what cannot be registered, and ranks that register something else than rank 0.
 * Collective. Errors: INVALID naming the parameter; NOMEM, COMM, REMOTE.
 */
CERO_NODISCARD cero_status cero_engine_check_table(const cero_engine *engine,
                                                   const cero_external_param *params,
                                                   int64_t count);

/* Errors: INVALID when the engine is not there, has a model, runs nothing, or failed before. */
CERO_NODISCARD cero_status cero_engine_check_external(const cero_engine *engine, const char *call);

/*
 * Returns OK as it is. A failure in the midst of a step poisons the engine; the other ranks, which may be
 * anywhere in the step, are told, and end their waits.
 */
cero_status cero_engine_external_fail(cero_engine *engine, cero_status status, const char *call);

/* The name of a parameter's unit, of *length characters; whether two have the same. */
const char *cero_engine_unit_of(const cero_external_param *p, size_t *length);
bool cero_engine_is_same_unit(const cero_external_param *a, const cero_external_param *b);

/* A cero_zero_fill: rounds the gradients in the caller's memory into the room. context is the engine. */
void cero_engine_external_fill(void *context, int64_t unit, void *room);

/* Frees what external.c made; NULL is fine. */
void cero_engine_external_destroy(cero_engine_external **external);

/* Sets the engine's own copies and the caller's memory. Errors: INVALID. */
CERO_NODISCARD cero_status cero_engine_external_set(cero_engine *engine, int64_t i, int64_t begin,
                                                    int64_t n, const float *values);

/*
 * Gives the caller's memory the values of compute copies that are here: of all parameters, or of trained ones.
 */
void cero_engine_external_give(cero_engine *engine, bool is_trained_only);

#endif
