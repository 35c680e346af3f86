/* SPDX-License-Identifier: Apache-2.0 */
/* Rotary positions (Su et al., "RoFormer", 2021) row by row over the threads. */
#include "device/device_impl.h"

typedef struct rotary_job {
    const cero_kernels *kernels;
    const cero_rotary_args *args;
    int64_t ld;
} rotary_job;

static void rotary_task(void *context, int64_t begin, int64_t end, int thread)
{
    const rotary_job *job = context;
    const cero_rotary_args *a = job->args;
    size_t size = cero_dtype_size(a->dtype);
    int64_t half = a->head_dim / 2;

    CERO_UNUSED(thread);
    for (int64_t r = begin; r < end; r++) {
        int64_t position = a->position + r % a->seq_len;
        job->kernels->rotary[a->dtype](a->heads, a->head_dim, a->cos + position * half,
                                       a->sin + position * half, a->is_backward ? -1.0f : 1.0f,
                                       cero_at(a->x, r * job->ld, size),
                                       cero_at_mut(a->y, r * job->ld, size));
    }
}

void cero_device_rotary(cero_device *d, const cero_rotary_args *args)
{
    rotary_job job = {d->kernels, args, args->ld != 0 ? args->ld : args->heads * args->head_dim};
    cero_device_parallel_for(d, args->batch * args->seq_len, rotary_task, &job);
}
