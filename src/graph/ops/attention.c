/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Causal attention over rows that hold their heads side by side; grouped key/value heads; q, k, v apart or
 * packed in one row. Scores are never whole: the device works in blocks and keeps one log-sum-exp per row
 * (Dao et al., "FlashAttention", 2022). With caches, new keys and values are stored first and every earlier
 * position is attended to: decoding.
 */
#include "graph/ops/ops.h"

#include <math.h>
#include <string.h>

typedef struct attention_attr {
    int64_t seq_len;
    int64_t heads;
    int64_t kv_heads;
    int64_t head_dim;
    double scale;
    double dropout;
    int random;
    bool is_packed;
    bool has_cache;
} attention_attr;

static int64_t q_cols(const attention_attr *a)
{
    return a->heads * a->head_dim;
}

static int64_t kv_cols(const attention_attr *a)
{
    return a->kv_heads * a->head_dim;
}

static cero_status check_attr(const attention_attr *a, int64_t rows)
{
    if (a->heads <= 0 || a->kv_heads <= 0 || a->head_dim <= 0 || a->heads % a->kv_heads != 0) {
        return CERO_FAIL(CERO_ERR_SHAPE,
                         "%lld heads, %lld key/value heads of %lld: expected positive numbers, the "
                         "second dividing the first",
                         (long long)a->heads, (long long)a->kv_heads, (long long)a->head_dim);
    }
    if (a->seq_len <= 0 || rows % a->seq_len != 0) {
        return CERO_FAIL(CERO_ERR_SHAPE, "%lld rows are no multiple of the sequence length %lld",
                         (long long)rows, (long long)a->seq_len);
    }
    if (!(a->dropout >= 0 && a->dropout < 1)) {
        return CERO_FAIL(CERO_ERR_INVALID, "dropout probability %g: expected 0 <= p < 1",
                         a->dropout);
    }
    return CERO_OK;
}

/* Where q, k and v are among the inputs from `first` on. */
static void set_qkv(const attention_attr *a, const cero_tensor_desc *desc, void *const *input,
                    int first, cero_device_attention_args *args)
{
    size_t size = cero_dtype_size(desc[first].dtype);

    args->q = input[first];
    if (a->is_packed) {
        const char *row = input[first];
        args->k = row + (size_t)q_cols(a) * size;
        args->v = row + (size_t)(q_cols(a) + kv_cols(a)) * size;
        args->q_stride = q_cols(a) + 2 * kv_cols(a);
        args->k_stride = args->q_stride;
        args->v_stride = args->q_stride;
    } else {
        args->k = input[first + 1];
        args->v = input[first + 2];
        args->q_stride = q_cols(a);
        args->k_stride = kv_cols(a);
        args->v_stride = kv_cols(a);
    }
}

static cero_device_attention_args make_args(const attention_attr *a, const cero_tensor_desc *q,
                                            const cero_step_env *env)
{
    cero_device_attention_args args = {
        .dtype = q->dtype,
        .batch = q->shape.dim[0] / a->seq_len,
        .query_len = a->seq_len,
        .key_len = a->seq_len,
        .heads = a->heads,
        .kv_heads = a->kv_heads,
        .head_dim = a->head_dim,
        .scale = (float)a->scale,
        .dropout_p = a->dropout,
    };

    if (env != NULL && a->dropout > 0) {
        args.key = cero_rng_make_key(env->seed, CERO_RNG_DROPOUT, (uint64_t)env->step,
                                     (uint64_t)a->random);
        args.first_sample = (uint64_t)env->sample;
    }
    return args;
}

/* inputs: packed | q, k, v; then optional k_cache, v_cache. outputs: out, lse [batch * heads, seq_len] */
static cero_status attention_infer(cero_op_infer *infer)
{
    attention_attr *a = infer->attr;

    CERO_TRY(cero_op_check_float(infer, 0, 2));
    const cero_tensor_desc *q = &infer->input[0];
    int64_t rows = q->shape.dim[0];
    CERO_TRY(check_attr(a, rows));
    if (a->is_packed) {
        CERO_TRY(cero_op_check_desc(infer, 0, q->dtype,
                                    cero_shape_2d(rows, q_cols(a) + 2 * kv_cols(a))));
    } else {
        CERO_TRY(cero_op_check_desc(infer, 0, q->dtype, cero_shape_2d(rows, q_cols(a))));
        CERO_TRY(cero_op_check_desc(infer, 1, q->dtype, cero_shape_2d(rows, kv_cols(a))));
        CERO_TRY(cero_op_check_desc(infer, 2, q->dtype, cero_shape_2d(rows, kv_cols(a))));
    }
    cero_device_attention_args args = make_args(a, q, NULL);
    if (a->has_cache) {
        int at = a->is_packed ? 1 : 3;
        int64_t cache_len = infer->input[at].shape.dim[0];
        cero_shape shape = cero_shape_2d(cache_len, kv_cols(a));
        CERO_TRY(cero_op_check_desc(infer, at, q->dtype, shape));
        CERO_TRY(cero_op_check_desc(infer, at + 1, q->dtype, shape));
        if (rows != a->seq_len) {
            return CERO_FAIL(CERO_ERR_SHAPE, "a cache holds one sequence, %lld are given",
                             (long long)(rows / a->seq_len));
        }
        args.key_len = cache_len;
    }
    cero_op_set_output(infer, 0, q->dtype, cero_shape_2d(rows, q_cols(a)));
    cero_op_set_output(infer, 1, CERO_DTYPE_F32, cero_shape_2d(args.batch * a->heads, a->seq_len));
    infer->scratch_bytes = cero_device_attention_scratch(infer->device, &args, false);
    return CERO_OK;
}

/* Copies the new rows of k or v to the cache, at the run's position. */
static void store_rows(const attention_attr *a, const void *rows, int64_t stride, size_t size,
                       int64_t position, void *cache)
{
    size_t row_bytes = (size_t)kv_cols(a) * size;

    for (int64_t t = 0; t < a->seq_len; t++) {
        memcpy((char *)cache + (size_t)(position + t) * row_bytes,
               (const char *)rows + (size_t)(t * stride) * size, row_bytes);
    }
}

static cero_status attention_run(const cero_op_run *run)
{
    const attention_attr *a = run->attr;
    const cero_tensor_desc *q = &run->input_desc[0];
    cero_device_attention_args args = make_args(a, q, run->env);

    set_qkv(a, run->input_desc, run->input, 0, &args);
    args.out = run->output[0];
    args.lse = run->output[1];
    args.scratch = run->scratch;
    if (a->has_cache) {
        int at = a->is_packed ? 1 : 3;
        size_t size = cero_dtype_size(q->dtype);
        store_rows(a, args.k, args.k_stride, size, run->env->position, run->input[at]);
        store_rows(a, args.v, args.v_stride, size, run->env->position, run->input[at + 1]);
        args.k = run->input[at];
        args.v = run->input[at + 1];
        args.k_stride = kv_cols(a);
        args.v_stride = kv_cols(a);
        args.query_offset = run->env->position;
        args.key_len = run->env->position + a->seq_len;
    }
    cero_device_attention_forward(run->device, &args);
    return CERO_OK;
}

/* Products of q with k and of probabilities with v, causal: half of T x T and the diagonal. */
static void attention_cost(const void *attr, const cero_tensor_desc *input,
                           const cero_tensor_desc *output, cero_cost *cost)
{
    const attention_attr *a = attr;
    double pairs = 0.5 * (double)a->seq_len * (double)(a->seq_len + 1);

    CERO_UNUSED(input);
    cost->flops = 4.0 * (double)(output[0].shape.dim[0] / a->seq_len) * pairs * (double)q_cols(a);
}

/* inputs: out, lse, dout, then packed | q, k, v; outputs as q, k, v */
static cero_status attention_grad_infer(cero_op_infer *infer)
{
    const attention_attr *a = infer->attr;
    int count = a->is_packed ? 1 : 3;
    cero_device_attention_args args = make_args(a, &infer->input[3], NULL);

    for (int k = 0; k < count; k++) {
        cero_op_set_output(infer, k, infer->input[3 + k].dtype, infer->input[3 + k].shape);
    }
    infer->scratch_bytes = cero_device_attention_scratch(infer->device, &args, true);
    return CERO_OK;
}

static cero_status attention_grad_run(const cero_op_run *run)
{
    const attention_attr *a = run->attr;
    cero_device_attention_args args = make_args(a, &run->input_desc[3], run->env);
    size_t size = cero_dtype_size(args.dtype);

    set_qkv(a, run->input_desc, run->input, 3, &args);
    args.out = run->input[0];
    args.lse = run->input[1];
    args.dout = run->input[2];
    args.dq = run->output[0];
    if (a->is_packed) {
        args.dk = (char *)run->output[0] + (size_t)q_cols(a) * size;
        args.dv = (char *)run->output[0] + (size_t)(q_cols(a) + kv_cols(a)) * size;
    } else {
        args.dk = run->output[1];
        args.dv = run->output[2];
    }
    args.scratch = run->scratch;
    cero_device_attention_backward(run->device, &args);
    return CERO_OK;
}

/* Five products against the forward's two: scores again, dv, dp, dq, dk. */
static void attention_grad_cost(const void *attr, const cero_tensor_desc *input,
                                const cero_tensor_desc *output, cero_cost *cost)
{
    CERO_UNUSED(output);
    attention_cost(attr, input, input, cost);
    cost->flops *= 2; // model operations: the repeated scores do not count
}

static const cero_op attention_grad_op = {.name = "attention_grad",
                                          .attr_size = sizeof(attention_attr),
                                          .infer = attention_grad_infer,
                                          .run = attention_grad_run,
                                          .cost = attention_grad_cost};

static cero_status attention_differentiate(cero_graph *graph, const cero_node *node)
{
    const attention_attr *a = cero_node_attr(node);
    int count = a->is_packed ? 1 : 3;
    cero_value *out = cero_node_output(node, 0);
    cero_value *inputs[6] = {out, cero_node_output(node, 1), cero_graph_grad(graph, out)};
    cero_value *grads[CERO_MAX_OUTPUTS] = {0};

    if (a->has_cache) {
        return CERO_FAIL(CERO_ERR_UNSUPPORTED, "attention with a cache has no gradient");
    }
    for (int k = 0; k < count; k++) {
        inputs[3 + k] = cero_node_input(node, k);
    }
    (void)cero_graph_append(graph, &attention_grad_op, a, inputs, 3 + count, grads);
    for (int k = 0; k < count; k++) {
        CERO_TRY(cero_graph_add_grad(graph, cero_node_input(node, k), grads[k]));
    }
    return cero_graph_status(graph);
}

static const cero_op attention_op = {.name = "attention",
                                     .attr_size = sizeof(attention_attr),
                                     .infer = attention_infer,
                                     .differentiate = attention_differentiate,
                                     .run = attention_run,
                                     .cost = attention_cost};

cero_value *cero_graph_attention(cero_graph *graph, cero_value *q, cero_value *k, cero_value *v,
                                 const cero_attention_params *params)
{
    attention_attr attr = {
        .seq_len = params->seq_len,
        .heads = params->heads,
        .kv_heads = params->kv_heads == 0 ? params->heads : params->kv_heads,
        .head_dim = params->head_dim,
        .scale = params->scale != 0 ? params->scale : 1 / sqrt((double)params->head_dim),
        .dropout = graph->is_training ? params->dropout : 0,
        .is_packed = k == NULL,
        .has_cache = params->k_cache != NULL,
    };
    cero_value *inputs[5] = {q, k, v, params->k_cache, params->v_cache};
    int count = 5;

    if (attr.is_packed) {
        inputs[1] = params->k_cache;
        inputs[2] = params->v_cache;
        count = 3;
    }
    if (attr.dropout > 0) {
        attr.random = cero_graph_next_random(graph);
    }
    return cero_graph_append(graph, &attention_op, &attr, inputs, count, NULL);
}
