/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The engine behind include/cero/cero.h, for train/ and plan/: what it compiled, and what it knows before it
 * runs.
 */
#ifndef CERO_ENGINE_ENGINE_H
#define CERO_ENGINE_ENGINE_H

#include "cero/cero.h"

#include "base/exact.h"
#include "base/memory.h"
#include "comm/comm.h"
#include "graph/program.h"
#include "spec/train.h"
#include "zero/schedule.h"
#include "zero/zero.h"

struct cero_context {
    cero_device *device; /* owned, like the next two */
    cero_mem *mem;
    cero_comm *comm;
};

/*
 * Tells the other ranks that this one leaves with an error, and says whether it is the one that speaks: the
 * first of those that failed of their own, and of those that failed together the lowest. A rank that failed
 * because of another does not speak; give it the time to be ended by the one that does. Not collective.
 */
bool cero_context_speaks(cero_context *context, cero_status status);

/*
 * What a rank will hold, by category, and what a step costs; known without allocating. IO has the caller's
 * batch besides the programs' inputs, and the copy for saves in the background when the config asks for them.
 */
typedef struct cero_engine_plan {
    size_t bytes[CERO_MEM_COUNT];
    size_t total;
    size_t exchange_bytes; /* of COMM: rooms of gathered parameters and staged gradients */
    int64_t param_count;   /* elements */
    int64_t trained_count;
    int64_t decay_tensors;
    int64_t decay_count; /* elements that weight decay moves */
    cero_program_stats train;
    cero_program_stats eval;
    double model_flops; /* forward and backward of one step of this rank */
} cero_engine_plan;

/* The model of a spec, for cero_engine_params.build: context is a const cero_model_spec *. */
CERO_NODISCARD cero_status cero_engine_build_model(cero_graph *graph, const cero_model_shape *shape,
                                                   const void *context);

/* Not collective. */
const cero_engine_plan *cero_engine_get_plan(const cero_engine *engine);

/* The instruction list of the training program. Not collective. */
CERO_NODISCARD cero_status cero_engine_dump(const cero_engine *engine, cero_text *out);

/* Seconds by operation of the training program from now on until end, and the table. Not collective. */
CERO_NODISCARD cero_status cero_engine_profile_begin(cero_engine *engine);
CERO_NODISCARD cero_status cero_engine_profile_write(const cero_engine *engine, cero_text *out);
void cero_engine_profile_end(cero_engine *engine);

/* Instruction i of the training program with what was measured; false at the end. Not collective. */
bool cero_engine_profile_get(const cero_engine *engine, int64_t i, cero_program_profile *out);

/* Bytes of all inputs of this rank's step: what a caller of cero_engine_train_batch holds. Not collective. */
size_t cero_engine_batch_bytes(const cero_engine *engine);

/*
 * The arena, which is free for any use between steps (weights on their way in); at least *nbytes.
 * Not collective.
 */
void *cero_engine_arena(cero_engine *engine, size_t *nbytes);

/*
 * Elements begin .. begin + n of parameter i that this rank holds something of: what it must be given when
 * weights are set, by as many calls of cero_engine_set_held as it likes. After the last of them all ranks call
 * cero_engine_weights_set. Not collective.
 */
void cero_engine_held_param(const cero_engine *engine, int64_t i, int64_t *begin, int64_t *n);
/* Errors: those of cero_engine_set_param. Not collective. */
CERO_NODISCARD cero_status cero_engine_set_held(cero_engine *engine, int64_t i, int64_t begin,
                                                int64_t n, const float *values);
/* Collective: over the world. Errors: COMM, REMOTE. */
CERO_NODISCARD cero_status cero_engine_weights_set(cero_engine *engine);

/*
 * The evaluation program on this rank's micro-batch: adds row losses and rows that count, not yet over ranks.
 *
 * Collective: over the world.
 * Errors:     those of cero_engine_eval_batch.
 */
CERO_NODISCARD cero_status cero_engine_eval_add(cero_engine *engine, const cero_batch *batch,
                                                cero_exact *loss, int64_t *rows);

/* Calls that all ranks make together. */
typedef enum cero_engine_call {
    CERO_ENGINE_STEP = 0,
    CERO_ENGINE_GATHER = 1,
    CERO_ENGINE_SAVE = 2,
    CERO_ENGINE_LOAD = 3,
    CERO_ENGINE_CALLS = 4
} cero_engine_call;

/*
 * Agrees, before a call that all ranks make together, that it is the same call with the same number (of a unit)
 * and place (in the region of gathered units), and that none failed before (`local`).
 *
 * Collective: over the world.
 * Errors:     the local status, REMOTE, COMM; INVALID naming two ranks and their calls.
 * Cost:       one all_reduce of 40 bytes.
 */
CERO_NODISCARD cero_status cero_engine_meet(cero_engine *engine, cero_engine_call call,
                                            int64_t number, int64_t place, cero_status local);

/*
 * What a checkpoint keeps besides weights: moments by parameter, as those of zero.h, and counters.
 * cero_engine_can_checkpoint tells why not, in the middle of a step or after a failure. Not collective, but for
 * cero_engine_get_moment: over the world.
 */
typedef struct cero_engine_counters {
    int64_t step; /* steps begun */
    cero_zero_counters zero;
} cero_engine_counters;
void cero_engine_get_counters(const cero_engine *engine, cero_engine_counters *out);
void cero_engine_set_counters(cero_engine *engine, const cero_engine_counters *counters);
CERO_NODISCARD cero_status cero_engine_can_checkpoint(const cero_engine *engine);
int cero_engine_moment_count(const cero_engine *engine, int64_t i);
const char *cero_engine_moment_name(const cero_engine *engine, int moment);
CERO_NODISCARD cero_status cero_engine_get_moment(cero_engine *engine, int64_t i, int moment,
                                                  int64_t begin, int64_t n, float *values);

/*
 * The part of a checkpoint that this rank writes: elements begin .. begin + n of a parameter (moment -1: its weights,
 * the master where there is one), which no other rank has. Values are a view into the engine's memory or `room`
 * ([n]) filled; they stand still between steps. Not collective; values may be asked for on any thread.
 */
void cero_engine_own_range(const cero_engine *engine, int64_t i, int moment, int64_t *begin,
                           int64_t *n);
const float *cero_engine_own_values(const cero_engine *engine, int64_t i, int moment, int64_t begin,
                                    int64_t n, float *room);

/* Bytes of all own ranges as f32: this rank's part of a checkpoint. Not collective. */
size_t cero_engine_own_bytes(const cero_engine *engine);

/*
 * Sets weights and moments from a checkpoint, as zero.h says: between begin and end each rank gives elements of what
 * load_range says, by load_values, from load_memory where they can be read into place. What nobody gives stays.
 */
/* Collective: over the world. Errors: COMM, REMOTE. */
CERO_NODISCARD cero_status cero_engine_load_begin(cero_engine *engine);
/* Not collective, like the next two. */
void cero_engine_load_range(const cero_engine *engine, int64_t i, int moment, int64_t *begin,
                            int64_t *n);
float *cero_engine_load_memory(const cero_engine *engine, int64_t i, int moment, int64_t begin);
void cero_engine_load_values(cero_engine *engine, int64_t i, int moment, int64_t begin, int64_t n,
                             const float *values);
/* `room` ([numel]) is for values on their way. Collective: over the world. Errors: COMM, REMOTE. */
CERO_NODISCARD cero_status cero_engine_load_end(cero_engine *engine, float *room, int64_t numel);

/* Moments, and counters, become those of a new run. Not collective; all ranks do the same. */
void cero_engine_clear_moments(cero_engine *engine);
void cero_engine_clear_counters(cero_engine *engine);

/*
 * The run that checkpoints of this engine belong to, 32 hexadecimal digits that are the same on all ranks; empty
 * until it is set, by the first save or by a checkpoint that was loaded. Not collective.
 */
const char *cero_engine_run(const cero_engine *engine);
void cero_engine_set_run(cero_engine *engine, const char *run);

/* After a failure that left the engine neither as it was nor as it should be. Not collective. */
void cero_engine_poison(cero_engine *engine);

/* The world, what it is made on, and the config; borrowed. Not collective. */
cero_comm *cero_engine_comm(const cero_engine *engine);
cero_context *cero_engine_context(const cero_engine *engine);
const cero_config *cero_engine_config(const cero_engine *engine);

/* Stage, order of sums, bytes per step. Not collective. */
void cero_engine_zero_summary(const cero_engine *engine, cero_zero_summary *out);

/*
 * Exchanges of a step as they are planned, on any device; without gathers where forward and backward are the
 * caller's. Not collective.
 */
void cero_engine_zero_cost(const cero_engine *engine, cero_zero_cost *out);

/* What the model opened and closed: the parts that are gathered and recomputed together. */
typedef struct cero_engine_unit {
    const char *name;
    int64_t numel; /* elements of its parameters */
    int64_t trained_numel;
    bool is_whole; /* its compute copies are whole on every rank */
} cero_engine_unit;
/* Units in model order. Not collective. */
int64_t cero_engine_unit_count(const cero_engine *engine);
cero_engine_unit cero_engine_get_unit(const cero_engine *engine, int64_t i);

/* Not collective. */
const cero_train_spec *cero_engine_spec(const cero_engine *engine);
int64_t cero_engine_seq_len(const cero_engine *engine);

/* The optimizer's update in one line, for the start of a run. Not collective. */
const char *cero_engine_formula(const cero_engine *engine);

/* Names of parameters that took no part in the loss: i-th, NULL at the end. Not collective. */
const char *cero_engine_unused_param(const cero_engine *engine, int i);

#endif
