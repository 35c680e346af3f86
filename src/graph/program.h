/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What runs: the list of instructions of a finished graph, with every buffer placed in one arena.
 *
 * The memory plan and the run use the same numbers: cero_program_create computes offsets (on a meta device
 * that is all), cero_program_bind allocates the arena and resolves pointers, cero_program_run executes and
 * allocates nothing.
 */
#ifndef CERO_GRAPH_PROGRAM_H
#define CERO_GRAPH_PROGRAM_H

#include "base/text.h"
#include "graph/graph.h"

typedef struct cero_program cero_program;

/* Bytes and work of a program, known before anything is allocated. */
typedef struct cero_program_stats {
    size_t arena_bytes;    /* category ACTIVATION */
    size_t exchange_bytes; /* category COMM: rooms of gathered parameters and staged gradients */
    size_t input_bytes;    /* category IO */
    size_t constant_bytes; /* category OTHER */
    size_t state_bytes;    /* category OTHER */
    size_t lower_bound;    /* most bytes alive at one instruction: no placement can be smaller */
    int64_t instruction_count;
    double flops[3]; /* by phase: forward, backward, recompute */
    double bytes[3]; /* read and written */
} cero_program_stats;

/* Compiles: prunes and places. The graph stays owned by the caller and must outlive the program. */
CERO_NODISCARD cero_status cero_program_create(cero_graph *graph, cero_program **out);
void cero_program_destroy(cero_program **program);

const cero_program_stats *cero_program_get_stats(const cero_program *program);

/* Addresses of what lives outside the program. */
typedef struct cero_program_bindings {
    cero_mem *mem;      /* borrowed: where arena, inputs, constants and states are allocated */
    void *const *param; /* [param_count] compute copies */
    void *const *grad;  /* [param_count] staged gradients; NULL for programs without backward */
    void
        *shared_arena; /* memory of another program's arena to use instead of an own one, or NULL */
    size_t shared_arena_bytes;
    void *exchange; /* exchange_bytes for the rooms; NULL when there are none */
    const cero_program
        *state_owner; /* a bound program whose states of the same names are used; or NULL */
} cero_program_bindings;

/* Allocates, fills constants, clears states, resolves every pointer. Errors: NOMEM, INVALID. */
CERO_NODISCARD cero_status cero_program_bind(cero_program *program,
                                             const cero_program_bindings *bindings);

/* Memory of an input, state or output by name; NULL if absent. Outputs are valid until the next run. */
void *cero_program_data(const cero_program *program, const char *name);

void *cero_program_arena(const cero_program *program);

/* Where a room lies in the exchange arena. */
size_t cero_program_room_offset(const cero_program *program, const cero_value *room);

/* Called after each instruction from now on (messages advance while the program computes); NULL: nothing. */
void cero_program_set_idle(cero_program *program, void (*idle)(void *context), void *context);

typedef enum cero_program_part {
    CERO_PROGRAM_FORWARD = 1,
    CERO_PROGRAM_BACKWARD = 2, /* with what is recomputed */
    CERO_PROGRAM_ALL = 3
} cero_program_part;

/* Runs the instructions of the given part in order. Errors: what an op reports, with its place. */
CERO_NODISCARD cero_status cero_program_run(cero_program *program, const cero_step_env *env,
                                            cero_program_part part);

/* Switches timing of each instruction on; then seconds by op name can be printed. */
CERO_NODISCARD cero_status cero_program_profile_begin(cero_program *program);
CERO_NODISCARD cero_status cero_program_profile_write(const cero_program *program, cero_text *out);
void cero_program_profile_end(cero_program *program);

/* What profiling knows of one instruction. */
typedef struct cero_program_profile {
    int unit; /* index of the unit in the graph, -1: outside */
    const char *op;
    cero_phase phase;
    int64_t runs; /* since profiling began, like seconds */
    double seconds;
    double flops; /* of one run */
} cero_program_profile;

/* Instruction i; false at the end. */
bool cero_program_profile_get(const cero_program *program, int64_t i, cero_program_profile *out);

/* One line per instruction: number, phase, unit, op, shapes, offsets, bytes, operations. */
CERO_NODISCARD cero_status cero_program_dump(const cero_program *program, cero_text *out);

#endif
