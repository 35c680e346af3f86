/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Causal attention of a batch over the threads: forward in tasks of one head and a range of queries,
 * backward in tasks of one key/value head, which sums what its query heads give to dk and dv in their
 * order. A query's bits depend neither on who runs its task nor on the range it is in.
 */
#include "device/device_impl.h"

#include <string.h>

enum {
    RANGE_SHORT = 128, /* queries of a task, so that even few heads feed several threads */
    RANGE_LONG = 256,  /* the same where there are enough tasks: keys are packed less often */
    TASKS_ENOUGH = 32,
    ROWS_AHEAD = 16
};

typedef struct attention_job {
    const cero_kernels *kernels;
    const cero_device_attention_args *args;
    int64_t ranges;      /* forward tasks of a head */
    int64_t range;       /* queries of each; the last takes the rest too */
    size_t thread_bytes; /* scratch of each thread */
    size_t kernel_bytes; /* of which the kernel's */
} attention_job;

/* Cuts the queries; the rest is no range of its own, as few queries take another path in the kernel. */
static void choose_ranges(const cero_device_attention_args *a, attention_job *job)
{
    int64_t long_tasks = a->batch * a->heads * (a->query_len / RANGE_LONG);

    job->range = long_tasks >= TASKS_ENOUGH ? RANGE_LONG : RANGE_SHORT;
    job->ranges = a->query_len < job->range ? 1 : a->query_len / job->range;
}

/* f32 sums of dk or dv of one key/value head. */
static size_t key_grad_bytes(const cero_device_attention_args *a)
{
    return cero_round_to_line((size_t)(a->key_len * a->head_dim) * sizeof(float));
}

static attention_job make_job(const cero_device *d, const cero_device_attention_args *a,
                              bool is_backward)
{
    attention_job job = {.kernels = cero_device_kernels(d), .args = a};

    choose_ranges(a, &job);
    int64_t last = a->query_len - (job.ranges - 1) * job.range;
    int64_t queries = is_backward ? a->query_len : last;
    job.kernel_bytes = cero_round_to_line(
        job.kernels->attention_scratch(queries, a->key_len, a->head_dim, is_backward));
    job.thread_bytes = job.kernel_bytes + (is_backward ? 2 * key_grad_bytes(a) : 0);
    return job;
}

size_t cero_device_attention_scratch(const cero_device *d, const cero_device_attention_args *args,
                                     bool is_backward)
{
    return make_job(d, args, is_backward).thread_bytes * (size_t)cero_device_threads(d);
}

/* One head of one sample, queries first .. first+count-1. */
static cero_attention_args head_args(const attention_job *job, int64_t sample, int64_t head,
                                     int64_t first, int64_t count)
{
    const cero_device_attention_args *a = job->args;
    size_t size = cero_dtype_size(a->dtype);
    int64_t kv_head = head / (a->heads / a->kv_heads);
    int64_t out_stride = a->heads * a->head_dim;
    int64_t q_at = (sample * a->query_len + first) * a->q_stride + head * a->head_dim;
    int64_t out_at = (sample * a->query_len + first) * out_stride + head * a->head_dim;
    int64_t key_row = sample * a->key_len;
    uint64_t drop_stride = ((uint64_t)a->key_len + 3) / 4 * 4;
    int64_t row = head * a->query_len + first;

    return (cero_attention_args){
        .query_count = count,
        .query_offset = a->query_offset + first,
        .key_count = a->key_len,
        .head_dim = a->head_dim,
        .scale = a->scale,
        .q = cero_at(a->q, q_at, size),
        .k = cero_at(a->k, key_row * a->k_stride + kv_head * a->head_dim, size),
        .v = cero_at(a->v, key_row * a->v_stride + kv_head * a->head_dim, size),
        .out = cero_at_mut(a->out, out_at, size),
        .lse = a->lse == NULL ? NULL : a->lse + sample * a->heads * a->query_len + row,
        .q_stride = a->q_stride,
        .k_stride = a->k_stride,
        .v_stride = a->v_stride,
        .out_stride = out_stride,
        .drop_threshold = (uint32_t)(a->dropout_p * 0x1p32),
        .drop_scale = (float)(1.0 / (1.0 - a->dropout_p)),
        .drop_key = a->key,
        .drop_sample = a->first_sample + (uint64_t)sample,
        .drop_element = (uint64_t)row * drop_stride,
        .drop_stride = drop_stride,
        .dout = cero_at(a->dout, out_at, size),
        .dq = cero_at_mut(a->dq, q_at, size),
    };
}

static void forward_task(void *context, int64_t begin, int64_t end, int thread)
{
    const attention_job *job = context;
    const cero_device_attention_args *a = job->args;
    int64_t heads = a->batch * a->heads;

    for (int64_t task = begin; task < end; task++) {
        // Late queries see more keys: the heaviest ranges come first.
        int64_t range = job->ranges - 1 - task / heads;
        int64_t first = range * job->range;
        int64_t count = range == job->ranges - 1 ? a->query_len - first : job->range;
        int64_t head = task % heads;
        cero_attention_args args = head_args(job, head / a->heads, head % a->heads, first, count);
        args.scratch = (char *)a->scratch + (size_t)thread * job->thread_bytes;
        job->kernels->attention_forward[a->dtype](&args);
    }
}

void cero_device_attention_forward(cero_device *d, const cero_device_attention_args *args)
{
    attention_job job = make_job(d, args, false);

    if (args->query_len == 0) {
        return;
    }
    cero_device_parallel_dynamic(d, args->batch * args->heads * job.ranges, forward_task, &job);
}

/* Rounds the sums of one key/value head to the dtype and stores them where k or v has its rows. */
static void store_key_grad(const attention_job *job, const float *sums, int64_t at, int64_t stride,
                           void *out)
{
    const cero_device_attention_args *a = job->args;
    size_t size = cero_dtype_size(a->dtype);

    for (int64_t row = 0; row < a->key_len; row++) {
        // Heads lie side by side: the next rows of this one are far away and not foreseen.
        if (row + ROWS_AHEAD < a->key_len) {
            const char *ahead = cero_at(out, at + (row + ROWS_AHEAD) * stride, size);
            __builtin_prefetch(ahead, 1);
            __builtin_prefetch(ahead + (size_t)a->head_dim * size - 1, 1);
        }
        job->kernels->from_f32[a->dtype](a->head_dim, sums + row * a->head_dim,
                                         cero_at_mut(out, at + row * stride, size));
    }
}

static void backward_task(void *context, int64_t begin, int64_t end, int thread)
{
    const attention_job *job = context;
    const cero_device_attention_args *a = job->args;
    int64_t group = a->heads / a->kv_heads;
    char *scratch = (char *)a->scratch + (size_t)thread * job->thread_bytes;
    float *dk = (float *)(void *)(scratch + job->kernel_bytes);
    float *dv = (float *)(void *)(scratch + job->kernel_bytes + key_grad_bytes(a));

    for (int64_t task = begin; task < end; task++) {
        int64_t sample = task / a->kv_heads;
        int64_t kv_head = task % a->kv_heads;
        int64_t row = sample * a->key_len;
        memset(dk, 0, key_grad_bytes(a));
        memset(dv, 0, key_grad_bytes(a));
        for (int64_t head = kv_head * group; head < (kv_head + 1) * group; head++) {
            cero_attention_args args = head_args(job, sample, head, 0, a->query_len);
            args.dk = dk;
            args.dv = dv;
            args.scratch = scratch;
            job->kernels->attention_backward[a->dtype](&args);
        }
        store_key_grad(job, dk, row * a->k_stride + kv_head * a->head_dim, a->k_stride, a->dk);
        store_key_grad(job, dv, row * a->v_stride + kv_head * a->head_dim, a->v_stride, a->dv);
    }
}

void cero_device_attention_backward(cero_device *d, const cero_device_attention_args *args)
{
    attention_job job = make_job(d, args, true);
    cero_device_parallel_dynamic(d, args->batch * args->kv_heads, backward_task, &job);
}
