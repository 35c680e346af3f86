/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Causal attention of one head in plain C, the oracle of the blocked kernels: one query at a time, with
 * the online softmax of Milakov and Gimelshein (arXiv 1805.02867) over blocks of keys, and the backward
 * of FlashAttention (arXiv 2205.14135), which rebuilds the probabilities from the log-sum-exp.
 */
#include "kernels/isa.h"
#include "kernels/ref/load_ref.h"

#include <math.h>
#include <string.h>

enum {
    KEY_BLOCK = 64
};

/* One query and what backward sums for it. */
typedef struct attention_row {
    int64_t index;
    int64_t visible; /* keys 0 .. visible-1 */
    float sum_grad;  /* D = sum of dout * out, which is also sum of P * dP over the keys */
    float *grad;     /* [head_dim] dq in f32 */
} attention_row;

static float load(cero_dtype dtype, const void *x, int64_t i)
{
    switch ((int)dtype) {
    case CERO_DTYPE_BF16:
        return load_bf16((const uint16_t *)x + i);
    case CERO_DTYPE_F16:
        return load_f16((const uint16_t *)x + i);
    default:
        return load_f32((const float *)x + i);
    }
}

static void store(cero_dtype dtype, void *x, int64_t i, float value)
{
    switch ((int)dtype) {
    case CERO_DTYPE_BF16:
        store_bf16((uint16_t *)x + i, value);
        break;
    case CERO_DTYPE_F16:
        store_f16((uint16_t *)x + i, value);
        break;
    default:
        store_f32((float *)x + i, value);
    }
}

static float dot(cero_dtype dtype, int64_t n, const void *x, int64_t x_at, const void *y,
                 int64_t y_at)
{
    float sum = 0.0f;

    for (int64_t c = 0; c < n; c++) {
        sum += load(dtype, x, x_at + c) * load(dtype, y, y_at + c);
    }
    return sum;
}

/* 0 for a dropped probability, 1 / (1 - p) for a kept one. */
static float keep_factor(const cero_attention_args *a, int64_t query, int64_t key)
{
    if (a->drop_threshold == 0) {
        return 1.0f;
    }
    uint64_t element = a->drop_element + (uint64_t)query * a->drop_stride + (uint64_t)key;
    uint32_t word = cero_rng_word(a->drop_key, a->drop_sample, element);
    return word >= a->drop_threshold ? a->drop_scale : 0.0f;
}

static size_t scratch_ref(int64_t query_count, int64_t key_count, int64_t head_dim,
                          bool is_backward)
{
    CERO_UNUSED(query_count);
    CERO_UNUSED(key_count);
    CERO_UNUSED(is_backward);
    return (size_t)head_dim * sizeof(float);
}

static void forward_row(cero_dtype dtype, const cero_attention_args *a, int64_t query)
{
    int64_t visible = a->query_offset + query + 1;
    float *acc = a->scratch;
    float max = -INFINITY;
    float sum = 0.0f;

    memset(acc, 0, (size_t)a->head_dim * sizeof(float));
    for (int64_t begin = 0; begin < visible; begin += KEY_BLOCK) {
        int64_t count = visible - begin < KEY_BLOCK ? visible - begin : KEY_BLOCK;
        float p[KEY_BLOCK];
        float next = max;
        for (int64_t j = 0; j < count; j++) {
            p[j] = a->scale * dot(dtype, a->head_dim, a->q, query * a->q_stride, a->k,
                                  (begin + j) * a->k_stride);
            next = p[j] > next ? p[j] : next;
        }
        // While all scores are -inf the maximum is no number to subtract.
        float base = next == -INFINITY ? 0.0f : next;
        float shrink = expf(max - base);
        sum *= shrink;
        for (int64_t c = 0; c < a->head_dim; c++) {
            acc[c] *= shrink;
        }
        for (int64_t j = 0; j < count; j++) {
            p[j] = expf(p[j] - base);
            sum += p[j];
            float kept = p[j] * keep_factor(a, query, begin + j);
            for (int64_t c = 0; c < a->head_dim; c++) {
                acc[c] += kept * load(dtype, a->v, (begin + j) * a->v_stride + c);
            }
        }
        max = next;
    }
    for (int64_t c = 0; c < a->head_dim; c++) {
        store(dtype, a->out, query * a->out_stride + c, acc[c] / sum);
    }
    if (a->lse != NULL) {
        a->lse[query] = max + logf(sum);
    }
}

/* Adds what key `key` gives to dq of the row, dk and dv. */
static void backward_key(cero_dtype dtype, const cero_attention_args *a, const attention_row *row,
                         int64_t key)
{
    int64_t q_at = row->index * a->q_stride;
    int64_t out_at = row->index * a->out_stride;
    int64_t k_at = key * a->k_stride;
    float score = a->scale * dot(dtype, a->head_dim, a->q, q_at, a->k, k_at);
    float p = expf(score - a->lse[row->index]);
    float keep = keep_factor(a, row->index, key);
    float dp = keep * dot(dtype, a->head_dim, a->dout, out_at, a->v, key * a->v_stride);
    float ds = p * (dp - row->sum_grad) * a->scale;

    for (int64_t c = 0; c < a->head_dim; c++) {
        a->dv[key * a->head_dim + c] += p * keep * load(dtype, a->dout, out_at + c);
        a->dk[key * a->head_dim + c] += ds * load(dtype, a->q, q_at + c);
        row->grad[c] += ds * load(dtype, a->k, k_at + c);
    }
}

static void backward_row(cero_dtype dtype, const cero_attention_args *a, int64_t query)
{
    int64_t out_at = query * a->out_stride;
    attention_row row = {
        .index = query,
        .visible = a->query_offset + query + 1,
        .sum_grad = dot(dtype, a->head_dim, a->dout, out_at, a->out, out_at),
        .grad = a->scratch,
    };

    memset(row.grad, 0, (size_t)a->head_dim * sizeof(float));
    for (int64_t key = 0; key < row.visible; key++) {
        backward_key(dtype, a, &row, key);
    }
    for (int64_t c = 0; c < a->head_dim; c++) {
        store(dtype, a->dq, query * a->q_stride + c, row.grad[c]);
    }
}

static void forward(cero_dtype dtype, const cero_attention_args *args)
{
    for (int64_t query = 0; query < args->query_count; query++) {
        forward_row(dtype, args, query);
    }
}

static void backward(cero_dtype dtype, const cero_attention_args *args)
{
    for (int64_t query = 0; query < args->query_count; query++) {
        backward_row(dtype, args, query);
    }
}

#define TEMPLATE "kernels/attention_tmpl.c"
#include "kernels/twins.h"

void cero_kernels_attention_init_ref(cero_kernels *k)
{
    k->attention_scratch = scratch_ref;
    fill_f32_ref(k);
    fill_bf16_ref(k);
    fill_f16_ref(k);
}
