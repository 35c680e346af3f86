/* SPDX-License-Identifier: Apache-2.0 */
/* Squares of gradients and AdamW on flat ranges, over the threads in blocks of 256 elements. */
#include "device/device_impl.h"

enum {
    BLOCK = CERO_SQUARE_BLOCK
};

typedef struct update_job {
    const cero_kernels *kernels;
    int64_t n;
    cero_dtype grad_dtype;
    cero_dtype copy_dtype;
    const cero_adamw_args *adamw;
    const void *grad;
    double *block_sums;
    float *master;
    float *exp_avg;
    float *exp_avg_sq;
    void *copy;
} update_job;

static int64_t block_count(int64_t n)
{
    return (n + BLOCK - 1) / BLOCK;
}

static void square_sums_task(void *context, int64_t begin, int64_t end, int thread)
{
    const update_job *job = context;
    int64_t first = begin * BLOCK;
    int64_t last = end * BLOCK < job->n ? end * BLOCK : job->n;

    CERO_UNUSED(thread);
    job->kernels->square_sums[job->grad_dtype](
        last - first, cero_at(job->grad, first, cero_dtype_size(job->grad_dtype)),
        job->block_sums + begin);
}

void cero_device_square_sums(cero_device *d, cero_dtype dtype, int64_t n, const void *x,
                             double *block_sums)
{
    update_job job = {
        .kernels = d->kernels, .n = n, .grad_dtype = dtype, .grad = x, .block_sums = block_sums};
    cero_device_parallel_for(d, block_count(n), square_sums_task, &job);
}

static void adamw_task(void *context, int64_t begin, int64_t end, int thread)
{
    const update_job *job = context;
    int64_t first = begin * BLOCK;
    int64_t last = end * BLOCK < job->n ? end * BLOCK : job->n;

    CERO_UNUSED(thread);
    job->kernels->adamw[job->grad_dtype][job->copy_dtype](
        last - first, job->adamw, cero_at(job->grad, first, cero_dtype_size(job->grad_dtype)),
        job->master + first, job->exp_avg + first, job->exp_avg_sq + first,
        cero_at_mut(job->copy, first, cero_dtype_size(job->copy_dtype)));
}

void cero_device_adamw(cero_device *d, int64_t n, const cero_adamw_args *args,
                       cero_dtype grad_dtype, const void *grad, float *master, float *exp_avg,
                       float *exp_avg_sq, cero_dtype copy_dtype, void *copy)
{
    update_job job = {.kernels = d->kernels,
                      .n = n,
                      .grad_dtype = grad_dtype,
                      .copy_dtype = copy_dtype,
                      .adamw = args,
                      .grad = grad,
                      .master = master,
                      .exp_avg = exp_avg,
                      .exp_avg_sq = exp_avg_sq,
                      .copy = copy};
    cero_device_parallel_for(d, block_count(n), adamw_task, &job);
}
