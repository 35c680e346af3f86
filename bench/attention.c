/* SPDX-License-Identifier: Apache-2.0 */
/*
 * GFLOP/s of causal attention as GPT-2 124M uses it: 12 heads of 64, packed q|k|v rows. Counted are the
 * products below and on the diagonal: 4 * T * (T + 1) / 2 * 64 a head forward, 2.5 times that backward
 * (the scores are computed again). The last lines are decoding: one query over a long cache, in GB/s.
 */
#include "base/clock.h"
#include "device/device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    HEADS = 12,
    HEAD_DIM = 64,
    COLS = HEADS * HEAD_DIM
};

typedef struct problem {
    cero_device *device;
    cero_mem *mem;
    cero_device_attention_args args;
    void *blocks[8];
    int count;
} problem;

static void stop_on(cero_status st)
{
    if (st != CERO_OK) {
        (void)fprintf(stderr, "bench attention: %s\n", cero_error_string());
        exit(1);
    }
}

static void *block_create(problem *p, size_t size)
{
    void *block = NULL;

    stop_on(cero_mem_alloc(p->mem, size, CERO_MEM_OTHER, "bench", &block));
    p->blocks[p->count++] = block;
    memset(block, 0, size);
    return block;
}

static void *random_create(problem *p, int64_t n)
{
    const cero_kernels *k = cero_device_kernels(p->device);
    void *x = block_create(p, (size_t)n * cero_dtype_size(p->args.dtype));
    float row[COLS];

    for (int64_t i = 0; i < n; i += COLS) {
        cero_rng_fill_normal(cero_rng_make_key(1, CERO_RNG_TEST, (uint64_t)n, 0), i, COLS, 0, 1,
                             row);
        k->from_f32[p->args.dtype](COLS, row,
                                   (char *)x + (size_t)i * cero_dtype_size(p->args.dtype));
    }
    return x;
}

/* Training when query_len == key_len, else decoding at the last position of a cache. */
static problem problem_create(cero_device *device, cero_dtype dtype, int64_t batch,
                              int64_t query_len, int64_t key_len)
{
    problem p = {.device = device};
    size_t size = cero_dtype_size(dtype);

    stop_on(cero_mem_create(0, &p.mem));
    p.args = (cero_device_attention_args){
        .dtype = dtype,
        .batch = batch,
        .query_len = query_len,
        .key_len = key_len,
        .query_offset = key_len - query_len,
        .heads = HEADS,
        .kv_heads = HEADS,
        .head_dim = HEAD_DIM,
        .scale = 0.125f,
        .q_stride = 3 * COLS,
        .k_stride = query_len == key_len ? 3 * COLS : COLS,
        .v_stride = query_len == key_len ? 3 * COLS : COLS,
    };
    char *qkv = random_create(&p, batch * key_len * 3 * COLS);
    char *grad = block_create(&p, (size_t)(batch * key_len * 3 * COLS) * size);
    p.args.q = qkv;
    p.args.k = qkv + COLS * size;
    p.args.v = qkv + 2 * COLS * size;
    if (query_len != key_len) {
        p.args.k = random_create(&p, key_len * COLS);
        p.args.v = random_create(&p, key_len * COLS);
    }
    p.args.dq = grad;
    p.args.dk = grad + COLS * size;
    p.args.dv = grad + 2 * COLS * size;
    p.args.dout = random_create(&p, batch * query_len * COLS);
    p.args.out = block_create(&p, (size_t)(batch * query_len * COLS) * size);
    p.args.lse = block_create(&p, (size_t)(batch * HEADS * query_len) * sizeof(float));
    size_t forward = cero_device_attention_scratch(device, &p.args, false);
    size_t backward = cero_device_attention_scratch(device, &p.args, true);
    p.args.scratch = block_create(&p, forward > backward ? forward : backward);
    return p;
}

static void problem_destroy(problem *p)
{
    while (p->count > 0) {
        cero_mem_free(p->mem, p->blocks[--p->count]);
    }
    cero_mem_destroy(&p->mem);
}

/* Best seconds of one call, over about half a second. */
static double seconds_of(problem *p, bool is_backward)
{
    double best = 1e30;
    double start = cero_clock_now();

    for (int i = 0; i < 3 || cero_clock_now() - start < 0.5; i++) {
        double begin = cero_clock_now();
        if (is_backward) {
            cero_device_attention_backward(p->device, &p->args);
        } else {
            cero_device_attention_forward(p->device, &p->args);
        }
        double taken = cero_clock_now() - begin;
        best = taken < best ? taken : best;
    }
    return best;
}

static void report_training(cero_device *device, cero_dtype dtype)
{
    static const int64_t lengths[][2] = {{64, 4}, {256, 4}, {1024, 1}};
    static const double drops[] = {0, 0.1};

    for (size_t i = 0; i < 2 * CERO_COUNT_OF(lengths); i++) {
        int64_t T = lengths[i / 2][0];
        int64_t B = lengths[i / 2][1];
        problem p = problem_create(device, dtype, B, T, T);
        p.args.dropout_p = drops[i % 2];
        double flops = (double)(B * HEADS) * 2.0 * (double)T * (double)(T + 1) * HEAD_DIM;
        double forward = seconds_of(&p, false);
        double backward = seconds_of(&p, true);
        printf("%d threads %-4s T %4lld B %lld dropout %.1f: forward %6.1f, backward %6.1f, "
               "both %6.1f GFLOP/s\n",
               cero_device_threads(device), cero_dtype_name(dtype), (long long)T, (long long)B,
               p.args.dropout_p, flops / forward * 1e-9, 2.5 * flops / backward * 1e-9,
               3.5 * flops / (forward + backward) * 1e-9);
        problem_destroy(&p);
    }
}

static void report_decoding(cero_device *device, cero_dtype dtype)
{
    const int64_t keys = 16384;
    problem p = problem_create(device, dtype, 1, 1, keys);
    double bytes = 2.0 * (double)(keys * COLS) * (double)cero_dtype_size(dtype);

    printf("%d threads %-4s one query, %lld keys: %.1f GB/s\n", cero_device_threads(device),
           cero_dtype_name(dtype), (long long)keys, bytes / seconds_of(&p, false) * 1e-9);
    problem_destroy(&p);
}

int main(void)
{
    static const cero_dtype dtypes[] = {CERO_DTYPE_BF16, CERO_DTYPE_F32};

    for (int i = 0; i < 4; i++) {
        cero_device *device = NULL;
        stop_on(cero_device_create(&(cero_device_params){.name = "cpu", .threads = 1 + i / 2},
                                   &device));
        report_training(device, dtypes[i % 2]);
        report_decoding(device, dtypes[i % 2]);
        cero_device_destroy(&device);
    }
    return 0;
}
