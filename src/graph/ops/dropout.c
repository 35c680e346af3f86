/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Dropout whose mask is a function of (seed, step, global sample, operation, element): the same in
 * recomputation, on any rank and for any partition. Backward is the same operation on the gradient.
 */
#include "graph/ops/ops.h"

typedef struct dropout_attr {
    double p;
    int64_t seq_len;
    int random; /* which random operation of the program this is */
} dropout_attr;

static cero_status dropout_infer(cero_op_infer *infer)
{
    const dropout_attr *attr = infer->attr;

    CERO_TRY(cero_op_check_float(infer, 0, 2));
    const cero_shape *shape = &infer->input[0].shape;
    if (!(attr->p >= 0 && attr->p < 1)) {
        return CERO_FAIL(CERO_ERR_INVALID, "dropout probability %g: expected 0 <= p < 1", attr->p);
    }
    if (attr->seq_len <= 0 || shape->dim[0] % attr->seq_len != 0) {
        return CERO_FAIL(CERO_ERR_SHAPE, "%lld rows are no multiple of the sequence length %lld",
                         (long long)shape->dim[0], (long long)attr->seq_len);
    }
    cero_op_set_output(infer, 0, infer->input[0].dtype, *shape);
    infer->in_place[0] = 1;
    return CERO_OK;
}

static cero_status dropout_run(const cero_op_run *run)
{
    const dropout_attr *attr = run->attr;
    const cero_shape *shape = &run->input_desc[0].shape;
    const cero_step_env *env = run->env;
    cero_dropout_args args = {
        .dtype = run->input_desc[0].dtype,
        .samples = shape->dim[0] / attr->seq_len,
        .per_sample = attr->seq_len * shape->dim[1],
        .p = attr->p,
        .key = cero_rng_make_key(env->seed, CERO_RNG_DROPOUT, (uint64_t)env->step,
                                 (uint64_t)attr->random),
        .first_sample = (uint64_t)env->sample,
        .x = run->input[0],
        .y = run->output[0],
    };

    cero_device_dropout(run->device, &args);
    return CERO_OK;
}

static const cero_op dropout_grad_op = {.name = "dropout_grad",
                                        .attr_size = sizeof(dropout_attr),
                                        .infer = dropout_infer,
                                        .run = dropout_run};

static cero_status dropout_differentiate(cero_graph *graph, const cero_node *node)
{
    cero_value *dy = cero_graph_grad(graph, cero_node_output(node, 0));

    return cero_graph_add_grad(
        graph, cero_node_input(node, 0),
        cero_graph_append(graph, &dropout_grad_op, cero_node_attr(node), &dy, 1, NULL));
}

static const cero_op dropout_op = {.name = "dropout",
                                   .attr_size = sizeof(dropout_attr),
                                   .infer = dropout_infer,
                                   .differentiate = dropout_differentiate,
                                   .run = dropout_run};

cero_value *cero_graph_dropout(cero_graph *graph, cero_value *x, double p, int64_t seq_len)
{
    if (p == 0 || !graph->is_training) {
        return x;
    }
    dropout_attr attr = {.p = p, .seq_len = seq_len, .random = cero_graph_next_random(graph)};
    return cero_graph_append(graph, &dropout_op, &attr, &x, 1, NULL);
}
