/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows of a table by id, and their gradients. Backward splits the columns, and each thread walks all
 * ids in order: no two threads touch one element, and each sum has one order.
 */
#include "device/device_impl.h"

#include <string.h>

enum {
    COLUMN_BLOCK = 64
};

typedef struct embedding_job {
    const cero_kernels *kernels;
    cero_dtype dtype;
    int64_t count;
    int64_t cols;
    const int32_t *ids;
    const void *x; /* the table, or dy */
    void *y;       /* y, or the table's gradient */
} embedding_job;

static void forward_task(void *context, int64_t begin, int64_t end, int thread)
{
    const embedding_job *job = context;
    size_t size = cero_dtype_size(job->dtype);

    CERO_UNUSED(thread);
    for (int64_t i = begin; i < end; i++) {
        memcpy(cero_at_mut(job->y, i * job->cols, size),
               cero_at(job->x, job->ids[i] * job->cols, size), (size_t)job->cols * size);
    }
}

void cero_device_embedding_forward(cero_device *d, cero_dtype dtype, int64_t count, int64_t cols,
                                   const int32_t *ids, const void *table, void *y)
{
    embedding_job job = {d->kernels, dtype, count, cols, ids, table, y};
    cero_device_parallel_for(d, count, forward_task, &job);
}

static void backward_task(void *context, int64_t begin, int64_t end, int thread)
{
    const embedding_job *job = context;
    int64_t first = begin * COLUMN_BLOCK;
    int64_t last = end * COLUMN_BLOCK < job->cols ? end * COLUMN_BLOCK : job->cols;
    float *grad = job->y;

    CERO_UNUSED(thread);
    for (int64_t i = 0; i < job->count; i++) {
        job->kernels->accumulate[job->dtype](
            last - first, cero_at(job->x, i * job->cols + first, cero_dtype_size(job->dtype)),
            grad + job->ids[i] * job->cols + first);
    }
}

void cero_device_embedding_backward(cero_device *d, cero_dtype dtype, int64_t count, int64_t cols,
                                    const int32_t *ids, const void *dy, float *table_grad)
{
    embedding_job job = {d->kernels, dtype, count, cols, ids, dy, table_grad};
    cero_device_parallel_for(d, (cols + COLUMN_BLOCK - 1) / COLUMN_BLOCK, backward_task, &job);
}
