/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sums over rows with the same bits for any number of threads: rows are cut in a number of parts that
 * depends on the shape alone, each part is summed by one thread, and the parts are added in order.
 */
#include "device/device_impl.h"

enum {
    COLUMN_BLOCK = 64
};

typedef struct reduce_job {
    const cero_kernels *kernels;
    int64_t parts;
    int64_t cols;
    float *partials;
    cero_dtype out_dtype;
    void *out;
} reduce_job;

static void reduce_task(void *context, int64_t begin, int64_t end, int thread)
{
    const reduce_job *job = context;
    int64_t first = begin * COLUMN_BLOCK;
    int64_t last = end * COLUMN_BLOCK < job->cols ? end * COLUMN_BLOCK : job->cols;
    float *sum = job->partials + first;

    CERO_UNUSED(thread);
    for (int64_t p = 1; p < job->parts; p++) {
        job->kernels->accumulate[CERO_DTYPE_F32](last - first, sum + p * job->cols, sum);
    }
    job->kernels->from_f32[job->out_dtype](
        last - first, sum, cero_at_mut(job->out, first, cero_dtype_size(job->out_dtype)));
}

void cero_device_reduce_parts(cero_device *d, int64_t parts, int64_t cols, float *partials,
                              cero_dtype out_dtype, void *out)
{
    reduce_job job = {d->kernels, parts, cols, partials, out_dtype, out};

    if (parts == 0) {
        cero_device_fill(d, out_dtype, cols, 0.0f, out);
        return;
    }
    cero_device_parallel_for(d, (cols + COLUMN_BLOCK - 1) / COLUMN_BLOCK, reduce_task, &job);
}

size_t cero_device_column_sums_scratch(int64_t rows, int64_t cols)
{
    return cero_round_to_line((size_t)(cero_device_row_parts(rows) * cols) * sizeof(float));
}

typedef struct sums_job {
    const cero_kernels *kernels;
    cero_dtype dtype;
    int64_t rows;
    int64_t cols;
    int64_t parts;
    const void *x;
    float *partials; /* [parts, cols] */
} sums_job;

static void sums_task(void *context, int64_t begin, int64_t end, int thread)
{
    const sums_job *job = context;
    size_t size = cero_dtype_size(job->dtype);

    CERO_UNUSED(thread);
    for (int64_t p = begin; p < end; p++) {
        int64_t row = cero_part_begin(job->rows, job->parts, p);
        int64_t rows = cero_part_begin(job->rows, job->parts, p + 1) - row;
        job->kernels->column_sums[job->dtype](rows, job->cols, job->cols,
                                              cero_at(job->x, row * job->cols, size), false,
                                              job->partials + p * job->cols);
    }
}

void cero_device_column_sums(cero_device *d, cero_dtype dtype, int64_t rows, int64_t cols,
                             const void *x, cero_dtype out_dtype, void *out, void *scratch)
{
    sums_job job = {d->kernels, dtype, rows, cols, cero_device_row_parts(rows), x, scratch};

    cero_device_parallel_for(d, job.parts, sums_task, &job);
    cero_device_reduce_parts(d, job.parts, cols, scratch, out_dtype, out);
}
