/* SPDX-License-Identifier: Apache-2.0 */
/* Dropout by counters: a mask is a function of sample and element, never of threads or of time. */
#include "device/device_impl.h"

enum {
    BLOCK = 64 /* elements in one task */
};

typedef struct dropout_job {
    const cero_kernels *kernels;
    const cero_dropout_args *args;
    int64_t blocks; /* in one sample */
    uint32_t threshold;
    float scale;
} dropout_job;

/* Blocks first..last of one sample. */
static void dropout_span(const dropout_job *job, int64_t sample, int64_t first, int64_t last)
{
    const cero_dropout_args *a = job->args;
    size_t size = cero_dtype_size(a->dtype);
    int64_t begin = first * BLOCK;
    int64_t end = last * BLOCK < a->per_sample ? last * BLOCK : a->per_sample;
    int64_t at = sample * a->per_sample + begin;

    job->kernels->dropout[a->dtype](end - begin, a->key, a->first_sample + (uint64_t)sample,
                                    (uint64_t)begin, job->threshold, job->scale,
                                    cero_at(a->x, at, size), cero_at_mut(a->y, at, size));
}

static void dropout_task(void *context, int64_t begin, int64_t end, int thread)
{
    const dropout_job *job = context;

    CERO_UNUSED(thread);
    for (int64_t t = begin; t < end;) {
        int64_t sample = t / job->blocks;
        int64_t stop = (sample + 1) * job->blocks < end ? (sample + 1) * job->blocks : end;
        dropout_span(job, sample, t - sample * job->blocks, stop - sample * job->blocks);
        t = stop;
    }
}

void cero_device_dropout(cero_device *d, const cero_dropout_args *args)
{
    dropout_job job = {
        .kernels = d->kernels,
        .args = args,
        .blocks = (args->per_sample + BLOCK - 1) / BLOCK,
        .threshold = (uint32_t)(args->p * 0x1p32),
        .scale = (float)(1.0 / (1.0 - args->p)),
    };

    CERO_ASSERT(args->p >= 0.0 && args->p < 1.0);
    cero_device_parallel_for(d, args->samples * job.blocks, dropout_task, &job);
}
