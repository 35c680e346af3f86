/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Layernorm and rmsnorm over the threads. Rows are independent but for the gradients of gamma and beta,
 * which are summed in parts as all sums over rows.
 */
#include "device/device_impl.h"

typedef struct norm_job {
    const cero_kernels *kernels;
    const cero_norm_args *args;
    int64_t parts;
    float *dgamma; /* [parts, cols], in scratch, as dbeta */
    float *dbeta;
} norm_job;

static void forward_task(void *context, int64_t begin, int64_t end, int thread)
{
    const norm_job *job = context;
    const cero_norm_args *a = job->args;
    size_t size = cero_dtype_size(a->dtype);
    const void *x = cero_at(a->x, begin * a->cols, size);
    void *y = cero_at_mut(a->y, begin * a->cols, size);

    CERO_UNUSED(thread);
    if (a->is_rms) {
        job->kernels->rmsnorm_forward[a->dtype](end - begin, a->cols, a->eps, x, a->gamma, y,
                                                a->rstd + begin);
    } else {
        job->kernels->layernorm_forward[a->dtype](end - begin, a->cols, a->eps, x, a->gamma,
                                                  a->beta, y, a->mean + begin, a->rstd + begin);
    }
}

void cero_device_norm_forward(cero_device *d, const cero_norm_args *args)
{
    norm_job job = {.kernels = d->kernels, .args = args};
    cero_device_parallel_for(d, args->rows, forward_task, &job);
}

static size_t partials_size(int64_t rows, int64_t cols)
{
    return cero_round_to_line((size_t)(cero_device_row_parts(rows) * cols) * sizeof(float));
}

size_t cero_device_norm_scratch(int64_t rows, int64_t cols)
{
    return 2 * partials_size(rows, cols);
}

static void backward_task(void *context, int64_t begin, int64_t end, int thread)
{
    const norm_job *job = context;
    const cero_norm_args *a = job->args;
    size_t size = cero_dtype_size(a->dtype);

    CERO_UNUSED(thread);
    for (int64_t p = begin; p < end; p++) {
        int64_t row = cero_part_begin(a->rows, job->parts, p);
        int64_t rows = cero_part_begin(a->rows, job->parts, p + 1) - row;
        const void *dy = cero_at(a->dy, row * a->cols, size);
        const void *x = cero_at(a->x, row * a->cols, size);
        void *dx = cero_at_mut(a->dx, row * a->cols, size);
        float *dgamma = job->dgamma + p * a->cols;
        float *dbeta = a->dbeta != NULL ? job->dbeta + p * a->cols : NULL;

        if (a->is_rms) {
            job->kernels->rmsnorm_backward[a->dtype](rows, a->cols, dy, x, a->gamma, a->rstd + row,
                                                     false, dx, dgamma);
        } else {
            job->kernels->layernorm_backward[a->dtype](rows, a->cols, dy, x, a->gamma,
                                                       a->mean + row, a->rstd + row, false, dx,
                                                       dgamma, dbeta);
        }
    }
}

void cero_device_norm_backward(cero_device *d, const cero_norm_args *args)
{
    unsigned char *scratch = args->scratch;
    norm_job job = {
        .kernels = d->kernels,
        .args = args,
        .parts = cero_device_row_parts(args->rows),
        .dgamma = args->scratch,
        .dbeta = (float *)(void *)(scratch + partials_size(args->rows, args->cols)),
    };

    cero_device_parallel_for(d, job.parts, backward_task, &job);
    if (args->dgamma != NULL) {
        cero_device_reduce_parts(d, job.parts, args->cols, job.dgamma, args->dtype, args->dgamma);
    }
    if (args->dbeta != NULL) {
        cero_device_reduce_parts(d, job.parts, args->cols, job.dbeta, args->dtype, args->dbeta);
    }
}
