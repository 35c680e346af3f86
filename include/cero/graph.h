/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Models as graphs: values with static shapes, operations from an open registry.
 *
 * A model is a function that appends operations to a graph once, before training. Differentiation,
 * activation checkpointing and partitioning are passes over that graph; what runs is the resulting list
 * of instructions, with every buffer placed beforehand.
 *
 * Functions that append an operation return the new value, or NULL when something is wrong. The first
 * error stays in the graph, later calls do nothing, and cero_graph_status() tells: a model needs to check
 * once, at its end. Values and nodes belong to their graph. Nothing here is collective.
 */
#ifndef CERO_GRAPH_H
#define CERO_GRAPH_H

#include "cero/base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct cero_device cero_device;
typedef struct cero_graph cero_graph;
typedef struct cero_value cero_value;
typedef struct cero_node cero_node;

typedef struct cero_tensor_desc {
    cero_dtype dtype;
    cero_shape shape;
} cero_tensor_desc;

/* How a parameter starts. Values are a function of (seed, name, element) alone. */
typedef enum cero_init_kind {
    CERO_INIT_ZEROS = 0,
    CERO_INIT_ONES = 1,
    CERO_INIT_NORMAL = 2 /* mean 0, standard deviation `std` */
} cero_init_kind;

typedef struct cero_param_params {
    const char *name; /* unique in the graph; copied */
    cero_shape shape;
    cero_init_kind init;
    double std;
    bool is_embedding; /* a table of rows or an output head: Muon leaves these to Adam */
    bool is_frozen;    /* no gradient, no optimizer state */
} cero_param_params;

/* What changes between two runs of the same program. */
typedef struct cero_step_env {
    uint64_t seed;
    int64_t step;     /* optimizer step, from 0 */
    int64_t sample;   /* global index of the first sample of this micro-batch */
    int64_t position; /* decoding: position of the first token of this run */
    float loss_grad;  /* what backward starts from: loss scale / rows */
} cero_step_env;

/*
 * Empty graph. `compute_dtype` (f32, bf16, f16) is the type of activations and parameter copies.
 * Ownership: the device is borrowed and outlives the graph.
 */
CERO_API CERO_NODISCARD cero_status cero_graph_create(cero_device *device, cero_dtype compute_dtype,
                                                      cero_graph **out);
CERO_API void cero_graph_destroy(cero_graph **graph);

/* OK, or the status of the first failed call; cero_error_string() has the message until the next error. */
CERO_API cero_status cero_graph_status(const cero_graph *graph);

/* Records an error of the model's own; later calls on the graph do nothing. Returns NULL. */
CERO_API cero_value *cero_graph_fail(cero_graph *graph, cero_status status, const char *fmt, ...)
    CERO_PRINTF(3, 4);

/*
 * Opens a unit: what is gathered, recomputed or cut together (a block, the embedding, the head). Nodes and
 * parameters until end_unit belong to it. `can_recompute` lets activation checkpointing drop its insides.
 */
CERO_API void cero_graph_begin_unit(cero_graph *graph, const char *name, bool can_recompute);
CERO_API void cero_graph_end_unit(cero_graph *graph);

/* A parameter, registered in the open unit; a name that exists gives that parameter again (tying). */
CERO_API cero_value *cero_graph_param(cero_graph *graph, const cero_param_params *params);

/* A tensor that the caller fills before each run, found by name: "tokens", "targets". */
CERO_API cero_value *cero_graph_input(cero_graph *graph, const char *name, cero_dtype dtype,
                                      cero_shape shape);

/* Fills `data` (of the constant's desc) once, when the program is made. */
typedef void (*cero_fill)(const void *context, void *data);

/* A tensor filled once. `context` is copied (context_size bytes). */
CERO_API cero_value *cero_graph_constant(cero_graph *graph, const char *name, cero_dtype dtype,
                                         cero_shape shape, cero_fill fill, const void *context,
                                         size_t context_size);

/* A tensor that keeps its contents between runs (a key/value cache); starts as zeros. */
CERO_API cero_value *cero_graph_state(cero_graph *graph, const char *name, cero_dtype dtype,
                                      cero_shape shape);

/*
 * Names the result of the graph. A loss is f32, one element per row (token); the loss of a batch is their
 * mean over the rows that count.
 */
CERO_API void cero_graph_set_output(cero_graph *graph, const char *name, cero_value *value);

CERO_API cero_tensor_desc cero_value_desc(const cero_value *value);
CERO_API cero_dtype cero_graph_compute_dtype(const cero_graph *graph);

/* Operations every model needs. Activations are [rows, cols] or [rows, heads * head_dim], rows = B*T. */

/* ids [rows] i32, table [count, cols] -> [rows, cols]; ids must be below count (checked by the loader) */
CERO_API cero_value *cero_graph_embedding(cero_graph *graph, cero_value *ids, cero_value *table);
/* x [rows, cols] + table[position of the row]: row r is position r % seq_len (+ the run's position) */
CERO_API cero_value *cero_graph_add_position(cero_graph *graph, cero_value *x, cero_value *table,
                                             int64_t seq_len);
/* x [rows, in] * weight (+ bias [out]): weight [in, out], or [out, in] when is_out_in */
CERO_API cero_value *cero_graph_linear(cero_graph *graph, cero_value *x, cero_value *weight,
                                       cero_value *bias, bool is_out_in);
/* Same shapes. */
CERO_API cero_value *cero_graph_add(cero_graph *graph, cero_value *a, cero_value *b);
CERO_API cero_value *cero_graph_mul(cero_graph *graph, cero_value *a, cero_value *b);
CERO_API cero_value *cero_graph_scale(cero_graph *graph, cero_value *x, double factor);

/* Elementwise functions, by the numbers of this enum. */
typedef enum cero_function {
    CERO_FUNCTION_GELU_TANH = 0,
    CERO_FUNCTION_GELU_ERF = 1,
    CERO_FUNCTION_RELU = 2,
    CERO_FUNCTION_SILU = 3,
    CERO_FUNCTION_TANH = 4
} cero_function;
CERO_API cero_value *cero_graph_apply_function(cero_graph *graph, cero_value *x,
                                               cero_function function);
/* silu(gate) * up */
CERO_API cero_value *cero_graph_swiglu(cero_graph *graph, cero_value *gate, cero_value *up);
/* gamma, beta [cols]; beta may be NULL */
CERO_API cero_value *cero_graph_layernorm(cero_graph *graph, cero_value *x, cero_value *gamma,
                                          cero_value *beta, double eps);
CERO_API cero_value *cero_graph_rmsnorm(cero_graph *graph, cero_value *x, cero_value *gamma,
                                        double eps);
/* Does nothing when p is 0 or the graph is not for training. samples = rows / seq_len. */
CERO_API cero_value *cero_graph_dropout(cero_graph *graph, cero_value *x, double p,
                                        int64_t seq_len);
/* x [rows, heads * head_dim]; cos, sin [positions, head_dim / 2] f32 constants */
CERO_API cero_value *cero_graph_rotary(cero_graph *graph, cero_value *x, cero_value *cos,
                                       cero_value *sin, int64_t seq_len, int64_t head_dim);

/* Causal attention. q [rows, heads * head_dim], k and v [rows, kv_heads * head_dim]. */
typedef struct cero_attention_params {
    int64_t seq_len;
    int64_t heads;
    int64_t kv_heads; /* 0 means heads */
    int64_t head_dim;
    double scale; /* of the scores; 0 means 1 / sqrt(head_dim) */
    double dropout;
    cero_value *k_cache; /* states [cache_len, kv_heads * head_dim]: decoding one sequence */
    cero_value *v_cache;
} cero_attention_params;
/* k and v NULL: q is packed [rows, (heads + 2 kv_heads) * head_dim] as q | k | v */
CERO_API cero_value *cero_graph_attention(cero_graph *graph, cero_value *q, cero_value *k,
                                          cero_value *v, const cero_attention_params *params);

/*
 * Loss of each row: -log softmax(x W^T)[target], over row chunks so that logits are never whole.
 * x [rows, cols], weight [vocab, cols], targets [rows] i32, negative ones do not count -> [rows] f32.
 */
CERO_API cero_value *cero_graph_head_loss(cero_graph *graph, cero_value *x, cero_value *weight,
                                          cero_value *targets);
/* Last `count` rows of x. */
CERO_API cero_value *cero_graph_last_rows(cero_graph *graph, cero_value *x, int64_t count);
/* Another floating-point type. */
CERO_API cero_value *cero_graph_cast(cero_graph *graph, cero_value *x, cero_dtype dtype);

/* Your own operation. */

enum {
    CERO_MAX_INPUTS = 8,
    CERO_MAX_OUTPUTS = 4
};

/* Filled by an op's infer. */
typedef struct cero_op_infer {
    cero_device *device;
    void *attr; /* the node's own copy: infer may complete it */
    int input_count;
    cero_tensor_desc input[CERO_MAX_INPUTS];
    int output_count;
    cero_tensor_desc output[CERO_MAX_OUTPUTS];
    size_t scratch_bytes; /* 64-byte aligned memory for the time of the run */
    int in_place
        [CERO_MAX_OUTPUTS]; /* 1 + index of the input whose memory the output may take; 0: none */
} cero_op_infer;

/* What run sees. Tensors are contiguous. */
typedef struct cero_op_run {
    cero_device *device;
    const void *attr;
    const cero_tensor_desc *input_desc;
    const cero_tensor_desc *output_desc;
    void *const *input;
    void *const *output;
    void *scratch;
    const cero_step_env *env;
} cero_op_run;

typedef struct cero_cost {
    double flops;
    double bytes; /* read and written */
} cero_cost;

/* An operation. Static storage: graphs keep the pointer. */
typedef struct cero_op {
    const char *name;
    size_t attr_size; /* bytes copied into each node; 0: no attributes */
    /* Checks inputs, gives outputs and scratch. Errors: SHAPE, UNSUPPORTED. Required. */
    cero_status (*infer)(cero_op_infer *infer);
    /* Appends the backward of `node`, using cero_graph_grad and cero_graph_add_grad. NULL: no gradient. */
    cero_status (*differentiate)(cero_graph *graph, const cero_node *node);
    /* Computes outputs from inputs; allocates nothing. Required. */
    cero_status (*run)(const cero_op_run *run);
    /* Operations and bytes of one run; NULL: no operations, bytes of inputs and outputs. */
    void (*cost)(const void *attr, const cero_tensor_desc *input, const cero_tensor_desc *output,
                 cero_cost *cost);
    bool has_effect; /* kept although no output is used (writes a state) */
} cero_op;

/*
 * Appends a node. `attr` is copied (op->attr_size bytes). Optional inputs may be NULL at the end of the
 * list only. outputs [output_count of infer]; returns the first output.
 */
CERO_API cero_value *cero_graph_append(cero_graph *graph, const cero_op *op, const void *attr,
                                       cero_value *const *inputs, int input_count,
                                       cero_value **outputs);

CERO_API cero_value *cero_node_input(const cero_node *node, int i);
CERO_API cero_value *cero_node_output(const cero_node *node, int i);
CERO_API int cero_node_input_count(const cero_node *node);
CERO_API const void *cero_node_attr(const cero_node *node);

/* In differentiate: the gradient of an output (NULL if none arrives), whether an input wants one, and
 * adding to it. A gradient has the shape of its value, and the compute dtype or f32. */
CERO_API cero_value *cero_graph_grad(cero_graph *graph, const cero_value *value);
CERO_API bool cero_graph_needs_grad(const cero_graph *graph, const cero_value *value);
CERO_API cero_status cero_graph_add_grad(cero_graph *graph, cero_value *value, cero_value *grad);

/* In run: splits tasks over the threads; a task's result must not depend on the split. */
CERO_API void cero_run_parallel_for(const cero_op_run *run, int64_t count,
                                    void (*task)(void *context, int64_t begin, int64_t end,
                                                 int thread),
                                    void *context);

#ifdef __cplusplus
}
#endif

#endif
