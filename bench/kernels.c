/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Speed of the main kernels on one core: `bench_kernels [f32|bf16|f16]` (default bf16).
 *
 * A line for each kernel and instruction set: bytes that must move per second, the ratio to ref in the
 * same run, and the share of what triad reaches in memory on arrays of 64 MiB. Kernels whose data are
 * large (gemv, square_sums, from_f32) run from memory, the others on rows that are fresh each time too.
 */
#include "kernels/kernels.h"
#include "base/clock.h"
#include "base/memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    COUNT = 1 << 24, /* elements of the largest array */
    HIDDEN = 768,
    VOCABULARY = 50257
};

typedef struct bench {
    const cero_kernels *k;
    cero_dtype dtype;
    void *a;    /* [COUNT] of dtype, random */
    void *b;    /* [COUNT] of dtype, random */
    void *c;    /* [COUNT] of dtype, written */
    float *f32; /* [COUNT], written */
    double *sums;
} bench;

/* Runs the kernel once over its data; returns the bytes that it must read and write. */
typedef double (*bench_run)(const bench *b);

static double run_triad(const bench *b)
{
    int64_t n = COUNT / 4;
    b->k->triad(n, 0.5f, b->f32, b->f32 + n, b->f32 + 2 * n);
    return 12.0 * (double)n;
}

static double run_square_sums(const bench *b)
{
    b->k->square_sums[b->dtype](COUNT, b->a, b->sums);
    return (double)COUNT * (double)cero_dtype_size(b->dtype);
}

static double run_from_f32(const bench *b)
{
    b->k->from_f32[b->dtype](COUNT, b->f32, b->c);
    return (double)COUNT * (4.0 + (double)cero_dtype_size(b->dtype));
}

static double run_accumulate(const bench *b)
{
    b->k->accumulate[b->dtype](COUNT, b->a, b->f32);
    return (double)COUNT * (8.0 + (double)cero_dtype_size(b->dtype));
}

static double run_gelu(const bench *b)
{
    b->k->activation_forward[0][b->dtype](COUNT, b->a, b->c);
    return 2.0 * (double)COUNT * (double)cero_dtype_size(b->dtype);
}

static double run_gelu_backward(const bench *b)
{
    b->k->activation_backward[0][b->dtype](COUNT, b->a, b->b, b->c);
    return 3.0 * (double)COUNT * (double)cero_dtype_size(b->dtype);
}

static double run_layernorm(const bench *b)
{
    int64_t rows = COUNT / HIDDEN;
    b->k->layernorm_forward[b->dtype](rows, HIDDEN, 1e-5f, b->a, b->b, b->b, b->c, b->f32,
                                      b->f32 + rows);
    return 2.0 * (double)(rows * HIDDEN) * (double)cero_dtype_size(b->dtype);
}

static double run_layernorm_backward(const bench *b)
{
    int64_t rows = COUNT / HIDDEN;
    float *sums = b->f32 + 2 * rows;

    b->k->layernorm_backward[b->dtype](rows, HIDDEN, b->b, b->a, b->b, b->f32, b->f32 + rows, false,
                                       b->c, sums, sums + HIDDEN);
    return 3.0 * (double)(rows * HIDDEN) * (double)cero_dtype_size(b->dtype);
}

static double run_cross_entropy(const bench *b)
{
    int64_t rows = COUNT / VOCABULARY;
    size_t row_bytes = VOCABULARY * cero_dtype_size(b->dtype);

    // Logits are made by a matrix product just before: half of them are still in the cache.
    memcpy(b->c, b->a, (size_t)rows * row_bytes);
    double begin = cero_clock_now();
    for (int64_t r = 0; r < rows; r++) {
        char *row = (char *)b->c + (size_t)r * row_bytes;
        b->sums[r] = (double)b->k->cross_entropy[b->dtype](VOCABULARY, row, r, 1.0f, row);
    }
    b->sums[rows] = cero_clock_now() - begin;
    return 2.0 * (double)rows * (double)row_bytes;
}

static double run_dropout(const bench *b)
{
    cero_rng_key key = {{1, 2}};
    b->k->dropout[b->dtype](COUNT, key, 3, 0, 429496730u, 1.1f, b->a, b->c);
    return 2.0 * (double)COUNT * (double)cero_dtype_size(b->dtype);
}

static double run_gemv_n(const bench *b)
{
    int64_t k_count = COUNT / (4 * HIDDEN);
    b->k->gemv_n[b->dtype](k_count, 4 * HIDDEN, b->b, b->a, 4 * HIDDEN, b->c);
    return (double)(k_count * 4 * HIDDEN) * (double)cero_dtype_size(b->dtype);
}

static double run_gemv_t(const bench *b)
{
    int64_t n = COUNT / (4 * HIDDEN);
    b->k->gemv_t[b->dtype](4 * HIDDEN, n, b->b, b->a, 4 * HIDDEN, NULL, b->c);
    return (double)(n * 4 * HIDDEN) * (double)cero_dtype_size(b->dtype);
}

static const struct {
    const char *name;
    bench_run run;
} benches[] = {
    {"triad", run_triad},
    {"square_sums", run_square_sums},
    {"from_f32", run_from_f32},
    {"accumulate", run_accumulate},
    {"gelu_tanh", run_gelu},
    {"gelu_tanh backward", run_gelu_backward},
    {"layernorm", run_layernorm},
    {"layernorm backward", run_layernorm_backward},
    {"cross_entropy", run_cross_entropy},
    {"dropout", run_dropout},
    {"gemv_n", run_gemv_n},
    {"gemv_t", run_gemv_t},
};

/* Bytes per second of the best of a few runs. */
static double measure(const bench *b, bench_run run)
{
    double best = 0;
    double until = cero_clock_now() + 0.3;

    for (int i = 0; i < 2 || (i < 20 && cero_clock_now() < until); i++) {
        double begin = cero_clock_now();
        double nbytes = run(b);
        double seconds = cero_clock_now() - begin;

        if (run == run_cross_entropy) { // Without the copy that makes the logits.
            seconds = b->sums[COUNT / VOCABULARY];
        }
        best = nbytes / seconds > best ? nbytes / seconds : best;
    }
    return best;
}

static void fill(bench *b)
{
    for (int64_t i = 0; i < COUNT; i++) {
        uint32_t word = (uint32_t)i * 2654435761u;
        b->f32[i] = 4.0f * cero_rng_uniform_f32(word) - 2.0f;
    }
    b->k->from_f32[b->dtype](COUNT, b->f32, b->a);
    b->k->from_f32[b->dtype](COUNT, b->f32, b->b);
    memset(b->c, 0, COUNT * cero_dtype_size(b->dtype));
    memset(b->sums, 0, COUNT / CERO_SQUARE_BLOCK * sizeof(double));
}

static cero_status open_bench(cero_mem *mem, bench *b)
{
    size_t nbytes = COUNT * cero_dtype_size(b->dtype);
    void *sums = NULL;
    void *f32 = NULL;

    CERO_TRY(cero_mem_alloc(mem, nbytes, CERO_MEM_OTHER, "bench", &b->a));
    CERO_TRY(cero_mem_alloc(mem, nbytes, CERO_MEM_OTHER, "bench", &b->b));
    CERO_TRY(cero_mem_alloc(mem, nbytes, CERO_MEM_OTHER, "bench", &b->c));
    CERO_TRY(cero_mem_alloc(mem, COUNT * sizeof(float), CERO_MEM_OTHER, "bench", &f32));
    CERO_TRY(cero_mem_alloc(mem, COUNT / CERO_SQUARE_BLOCK * sizeof(double), CERO_MEM_OTHER,
                            "bench", &sums));
    b->f32 = f32;
    b->sums = sums;
    return CERO_OK;
}

static void report(bench *b)
{
    double triad = 0;

    for (size_t i = 0; i < CERO_COUNT_OF(benches); i++) {
        double ref = 0;
        for (int isa = 0; cero_kernels_isa_name(isa) != NULL; isa++) {
            if (cero_kernels_get_isa(cero_kernels_isa_name(isa), &b->k) != CERO_OK) {
                continue;
            }
            double rate = measure(b, benches[i].run);
            ref = isa == 0 ? rate : ref;
            triad = i == 0 ? rate : triad;
            printf("%-20s %-5s %-11s %7.2f GB/s  %6.1f x ref  %5.2f x triad\n", benches[i].name,
                   cero_dtype_name(b->dtype), b->k->isa, rate * 1e-9, rate / ref, rate / triad);
        }
    }
}

int main(int argc, char **argv)
{
    bench b = {.dtype = CERO_DTYPE_BF16};
    cero_mem *mem = NULL;

    for (int dtype = 0; dtype < CERO_FLOAT_DTYPES && argc > 1; dtype++) {
        b.dtype =
            strcmp(argv[1], cero_dtype_name((cero_dtype)dtype)) == 0 ? (cero_dtype)dtype : b.dtype;
    }
    if (cero_mem_create(0, &mem) != CERO_OK || open_bench(mem, &b) != CERO_OK ||
        cero_kernels_get(&b.k) != CERO_OK) {
        (void)fprintf(stderr, "bench_kernels: %s\n", cero_error_string());
        return 1;
    }
    fill(&b);
    report(&b);
    void *all[] = {b.a, b.b, b.c, b.f32, b.sums};
    for (size_t i = 0; i < CERO_COUNT_OF(all); i++) {
        cero_mem_free(mem, all[i]);
    }
    cero_mem_destroy(&mem);
    return 0;
}
