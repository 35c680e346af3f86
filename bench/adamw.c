/* SPDX-License-Identifier: Apache-2.0 */
/*
 * AdamW over the parameters of GPT-2 124M with a bf16 copy and a clip factor, against the memory
 * bandwidth of a triad in the same run: `bench_adamw [threads]`.
 *
 * The two alternate five times; medians count. AdamW moves 30 bytes a parameter (gradient 4, master and
 * two moments 8 each, copy 2), the triad 12 an element; lines read only to be written are not counted
 * in either. The ratio is the figure to quote: the machine's bandwidth changes with its neighbours.
 */
#include "base/clock.h"
#include "device/device.h"

#include <stdio.h>
#include <stdlib.h>

enum {
    ROUNDS = 5,
    BLOCK = 4096
};

static const int64_t numel = 124439808;

typedef struct buffers {
    const cero_kernels *kernels;
    float *grad;
    float *master;
    float *exp_avg;
    float *exp_avg_sq;
    void *copy;
} buffers;

static void triad_task(void *context, int64_t begin, int64_t end, int thread)
{
    const buffers *b = context;
    int64_t first = begin * BLOCK;
    int64_t last = end * BLOCK < numel ? end * BLOCK : numel;

    CERO_UNUSED(thread);
    b->kernels->triad(last - first, 0.5f, b->exp_avg + first, b->exp_avg_sq + first,
                      b->grad + first);
}

static double triad_seconds(cero_device *device, buffers *b)
{
    double begin = cero_clock_now();

    cero_device_parallel_for(device, (numel + BLOCK - 1) / BLOCK, triad_task, b);
    return cero_clock_now() - begin;
}

static double adamw_seconds(cero_device *device, buffers *b)
{
    static const cero_adamw_args args = {.grad_scale = 0.37f,
                                         .lr = 1e-4f,
                                         .beta1 = 0.9f,
                                         .beta2 = 0.95f,
                                         .eps = 1e-8f,
                                         .weight_decay = 0.1f,
                                         .step_size = 1e-4f,
                                         .inv_sqrt_bias2 = 1.0f,
                                         .is_decoupled = true};
    double begin = cero_clock_now();

    cero_device_adamw(device, numel, &args, CERO_DTYPE_F32, b->grad, b->master, b->exp_avg,
                      b->exp_avg_sq, CERO_DTYPE_BF16, b->copy);
    return cero_clock_now() - begin;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *seconds)
{
    qsort(seconds, ROUNDS, sizeof(*seconds), by_value);
    return seconds[ROUNDS / 2];
}

static cero_status get(cero_device *device, cero_mem *mem, float value, float **out)
{
    void *p = NULL;

    CERO_TRY(cero_mem_alloc(mem, (size_t)numel * sizeof(float), CERO_MEM_OPTIM, "states", &p));
    cero_device_fill(device, CERO_DTYPE_F32, numel, value, p);
    *out = p;
    return CERO_OK;
}

static cero_status run(cero_device *device, cero_mem *mem)
{
    buffers b = {.kernels = cero_device_kernels(device)};
    float *copy = NULL;
    double triad[ROUNDS];
    double adamw[ROUNDS];

    CERO_TRY(get(device, mem, 0.01f, &b.grad));
    CERO_TRY(get(device, mem, 0.5f, &b.master));
    CERO_TRY(get(device, mem, 0.01f, &b.exp_avg));
    CERO_TRY(get(device, mem, 1e-4f, &b.exp_avg_sq));
    CERO_TRY(get(device, mem, 0.0f, &copy));
    b.copy = copy;
    (void)triad_seconds(device, &b);
    (void)adamw_seconds(device, &b);
    for (int i = 0; i < ROUNDS; i++) {
        triad[i] = triad_seconds(device, &b);
        adamw[i] = adamw_seconds(device, &b);
    }
    double triad_rate = 12.0 * (double)numel / median(triad);
    double adamw_rate = 30.0 * (double)numel / median(adamw);
    printf("isa %s, threads %d, parameters %lld\n", b.kernels->isa, cero_device_threads(device),
           (long long)numel);
    printf("triad %.1f GB/s, adamw %.1f GB/s (%.1f ms), ratio %.2f\n", triad_rate * 1e-9,
           adamw_rate * 1e-9, median(adamw) * 1e3, adamw_rate / triad_rate);
    cero_mem_free(mem, b.grad);
    cero_mem_free(mem, b.master);
    cero_mem_free(mem, b.exp_avg);
    cero_mem_free(mem, b.exp_avg_sq);
    cero_mem_free(mem, copy);
    return CERO_OK;
}

int main(int argc, char **argv)
{
    cero_device *device = NULL;
    cero_mem *mem = NULL;
    int threads = argc > 1 ? (int)strtol(argv[1], NULL, 10) : 0;
    cero_status st = cero_device_create(&(cero_device_params){.threads = threads}, &device);

    if (st == CERO_OK) {
        st = cero_mem_create(0, &mem);
    }
    if (st == CERO_OK) {
        st = run(device, mem);
    }
    if (st != CERO_OK) {
        (void)fprintf(stderr, "adamw: %s\n", cero_error_string());
        return 1;
    }
    cero_mem_destroy(&mem);
    cero_device_destroy(&device);
    return 0;
}
