/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The graph behind include/cero/graph.h: what passes and the engine may look into.
 *
 * Values and nodes are numbered in order of creation; the program is the order of `nodes`. Passes append
 * nodes, move them, and mark values; nothing here runs.
 */
#ifndef CERO_GRAPH_GRAPH_H
#define CERO_GRAPH_GRAPH_H

#include "cero/graph.h"

#include "base/memory.h"
#include "base/status.h"
#include "device/device.h"

typedef enum cero_value_kind {
    CERO_VALUE_ACTIVATION = 0, /* lives in the program's arena */
    CERO_VALUE_INPUT = 1,      /* filled by the caller */
    CERO_VALUE_PARAM = 2,      /* the compute copy of a parameter */
    CERO_VALUE_GRAD = 3,       /* the staged gradient of a parameter */
    CERO_VALUE_STATE = 4,      /* kept between runs */
    CERO_VALUE_CONSTANT = 5,   /* filled once */
    CERO_VALUE_ROOM = 6 /* memory of the exchange arena in which parameters or gradients lie */
} cero_value_kind;

typedef enum cero_phase {
    CERO_PHASE_FORWARD = 0,
    CERO_PHASE_BACKWARD = 1,
    CERO_PHASE_RECOMPUTE = 2 /* forward nodes repeated during backward */
} cero_phase;

struct cero_value {
    int64_t id;
    const char *name; /* owned by the graph; NULL for activations */
    cero_tensor_desc desc;
    cero_value_kind kind;
    int param;          /* PARAM, GRAD: index of the parameter; else -1 */
    cero_value *home;   /* PARAM, GRAD: the room this lies in; NULL: where the bindings say */
    size_t home_offset; /* bytes from the room's begin */
    cero_node *producer;
    cero_value *grad; /* during autodiff: gradient so far */
    bool requires_grad;
    cero_fill fill; /* CONSTANT */
    void *fill_context;
};

struct cero_node {
    const cero_op *op;
    void *attr; /* owned */
    int unit;   /* index of the unit, -1 outside */
    cero_phase phase;
    int input_count;
    int output_count;
    cero_value *input[CERO_MAX_INPUTS];
    cero_value *output[CERO_MAX_OUTPUTS];
    size_t scratch_bytes;
    int in_place[CERO_MAX_OUTPUTS];
};

typedef struct cero_unit {
    const char *name; /* owned */
    bool can_recompute;
    int first_param; /* parameters are registered unit by unit: first_param .. first_param + param_count */
    int param_count;
} cero_unit;

typedef struct cero_param {
    const char *name; /* owned */
    cero_shape shape;
    int64_t numel;
    cero_init_kind init;
    double std;
    bool is_embedding;
    bool is_frozen;
    int unit;
    cero_value *value;
    cero_value *grad_value; /* after autodiff; NULL when frozen */
    bool is_unused;         /* after autodiff: takes no part in the loss */
} cero_param;

typedef struct cero_named_value {
    const char *name; /* owned */
    cero_value *value;
} cero_named_value;

/* Asked for each parameter as it is registered: true freezes it. */
typedef bool (*cero_is_frozen)(const void *context, const char *name);

struct cero_graph {
    cero_device *device; /* borrowed */
    cero_dtype compute_dtype;
    cero_status status;
    bool is_training;
    int open_unit;       /* -1: none */
    cero_phase phase;    /* of nodes appended now */
    int random_count;    /* operations that draw random numbers so far */
    cero_value **values; /* owned */
    int64_t value_count;
    int64_t value_capacity;
    cero_node **nodes; /* owned, in program order */
    int64_t node_count;
    int64_t node_capacity;
    cero_unit *units;
    int64_t unit_count;
    int64_t unit_capacity;
    cero_param *params;
    int64_t param_count;
    int64_t param_capacity;
    cero_named_value *outputs;
    int64_t output_count;
    int64_t output_capacity;
    cero_is_frozen is_frozen; /* NULL: what the model says */
    const void *is_frozen_context;
};

/* True for graphs whose backward will be made: dropout is active. */
void cero_graph_set_training(cero_graph *graph, bool is_training);

/* Parameters for which is_frozen(context, name) is true get no gradient; call before building. */
void cero_graph_set_frozen(cero_graph *graph, cero_is_frozen is_frozen, const void *context);

/* Named output, NULL if absent. */
cero_value *cero_graph_find_output(const cero_graph *graph, const char *name);

/* Input, state or constant by name, NULL if absent. */
cero_value *cero_graph_find_value(const cero_graph *graph, const char *name);

/* Number of the next random operation: its place in the dropout stream. */
int cero_graph_next_random(cero_graph *graph);

/* Shape [a], [a, b]. */
cero_shape cero_shape_1d(int64_t a);
cero_shape cero_shape_2d(int64_t a, int64_t b);

/* A copy of `node` with fresh outputs, not yet in the program. */
CERO_NODISCARD cero_status cero_graph_clone_node(cero_graph *graph, const cero_node *node,
                                                 cero_phase phase, cero_node **out);

/* In differentiate: replaces the gradient gathered so far (an op that accumulates in place). */
void cero_graph_set_grad(cero_graph *graph, cero_value *value, cero_value *grad);

/* All uses of `from` after this call read `to`. */
void cero_graph_replace_value(cero_graph *graph, cero_value *from, cero_value *to);

/*
 * Appends the backward of `loss` (f32, one element per row): afterwards every trainable parameter has a
 * grad_value of the compute dtype. A parameter that takes no part in the loss gets zeros and is_unused.
 */
CERO_NODISCARD cero_status cero_graph_autodiff(cero_graph *graph, cero_value *loss);

/*
 * Activation checkpointing: the insides of every `group` units in a row that allow it are computed again
 * in backward, from the values that enter them. Bits do not change. 0 does nothing.
 */
CERO_NODISCARD cero_status cero_graph_recompute(cero_graph *graph, int64_t group);

/* Drops nodes whose outputs nobody reads. */
void cero_graph_prune(cero_graph *graph);

/*
 * Room for numel elements in the exchange arena: alive from the first node to the last that takes it, or
 * takes a value that lies in it. NULL when the graph has an error.
 */
cero_value *cero_graph_room(cero_graph *graph, cero_dtype dtype, int64_t numel);

/* Another value of parameter `param`: its copy in `room`, `offset` bytes from the begin. NULL on error. */
cero_value *cero_graph_param_copy(cero_graph *graph, int64_t param, cero_value *room,
                                  size_t offset);

#endif
