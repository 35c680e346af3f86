/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rates of the products of GPT-2 124M's training, beside square ones: bench_gemm [bf16|f32|f16 [rounds]].
 *
 * Shapes take turns and the best run of each counts, so that other load on the machine falls on all.
 */
#include "device/bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct product {
    const char *name;
    cero_matmul_desc desc;
    bool is_sum; /* C in f32 whatever the type */
    double best;
} product;

enum {
    VOCAB = 50257,
    VOCAB_LD = 50272, /* as device/cpu/head_loss.c pads it in bf16 */
    PANEL = 4096
};

static product products[] = {
    {"square 1024", {.M = 1024, .N = 1024, .K = 1024}, false, 0},
    {"square 2048", {.M = 2048, .N = 2048, .K = 2048}, false, 0},
    {"256 X W 768>3072", {.M = 256, .N = 3072, .K = 768, .has_bias = true}, false, 0},
    {"256 X W 3072>768", {.M = 256, .N = 768, .K = 3072, .has_bias = true}, false, 0},
    {"256 X W 768>2304", {.M = 256, .N = 2304, .K = 768, .has_bias = true}, false, 0},
    {"256 dY W^T 3072>768", {.M = 256, .N = 768, .K = 3072, .is_b_transposed = true}, false, 0},
    {"256 dY W^T 768>3072", {.M = 256, .N = 3072, .K = 768, .is_b_transposed = true}, false, 0},
    {"256 X^T dY 768x3072", {.M = 768, .N = 3072, .K = 256, .is_a_transposed = true}, false, 0},
    {"256 X^T dY 3072x768", {.M = 3072, .N = 768, .K = 256, .is_a_transposed = true}, false, 0},
    {"256 X^T dY 768x3072 f32", {.M = 768, .N = 3072, .K = 256, .is_a_transposed = true}, true, 0},
    {"1024 X W 768>3072", {.M = 1024, .N = 3072, .K = 768, .has_bias = true}, false, 0},
    {"1024 X W 3072>768", {.M = 1024, .N = 768, .K = 3072, .has_bias = true}, false, 0},
    {"1024 dY W^T 3072>768", {.M = 1024, .N = 768, .K = 3072, .is_b_transposed = true}, false, 0},
    {"1024 dY W^T 768>3072", {.M = 1024, .N = 3072, .K = 768, .is_b_transposed = true}, false, 0},
    {"1024 X^T dY 768x3072", {.M = 768, .N = 3072, .K = 1024, .is_a_transposed = true}, false, 0},
    {"1024 X^T dY 3072x768", {.M = 3072, .N = 768, .K = 1024, .is_a_transposed = true}, false, 0},
    {"1024 X^T dY 768x3072 f32",
     {.M = 768, .N = 3072, .K = 1024, .is_a_transposed = true},
     true,
     0},
    {"512 logits, whole", {.M = 512, .N = VOCAB, .K = 768, .is_b_transposed = true}, false, 0},
    {"512 logits, panel",
     {.M = 512, .N = PANEL, .K = 768, .ldc = VOCAB_LD, .is_b_transposed = true},
     false,
     0},
    {"256 logits, panel",
     {.M = 256, .N = PANEL, .K = 768, .ldc = VOCAB_LD, .is_b_transposed = true},
     false,
     0},
    {"512 head dX, whole", {.M = 512, .N = 768, .K = VOCAB}, false, 0},
    {"512 head dX, panel",
     {.M = 512, .N = 768, .K = PANEL, .lda = VOCAB_LD, .is_adding = true},
     true,
     0},
    {"256 head dX, panel",
     {.M = 256, .N = 768, .K = PANEL, .lda = VOCAB_LD, .is_adding = true},
     true,
     0},
    {"512 head dW, whole", {.M = VOCAB, .N = 768, .K = 512, .is_a_transposed = true}, true, 0},
    {"512 head dW, panel",
     {.M = PANEL, .N = 768, .K = 512, .lda = VOCAB_LD, .is_a_transposed = true, .is_adding = true},
     true,
     0},
    {"256 head dW, panel",
     {.M = PANEL, .N = 768, .K = 256, .lda = VOCAB_LD, .is_a_transposed = true},
     true,
     0},
};

static cero_dtype dtype_of(const char *name)
{
    return strcmp(name, "f32") == 0   ? CERO_DTYPE_F32
           : strcmp(name, "f16") == 0 ? CERO_DTYPE_F16
                                      : CERO_DTYPE_BF16;
}

static cero_status measure(cero_device *device, cero_dtype dtype, int rounds)
{
    for (int round = 0; round < rounds; round++) {
        for (size_t i = 0; i < CERO_COUNT_OF(products); i++) {
            product *p = &products[i];
            double rate = 0;
            p->desc.ab_dtype = dtype;
            p->desc.c_dtype = p->is_sum ? CERO_DTYPE_F32 : dtype;
            CERO_TRY(cero_device_bench_gemm(device, &p->desc, 0.02, &rate));
            p->best = rate > p->best ? rate : p->best;
        }
    }
    return CERO_OK;
}

static void print_table(cero_device *device, cero_dtype dtype)
{
    double peak = products[0].best > products[1].best ? products[0].best : products[1].best;

    printf("%s, %d threads, %s\n", cero_device_matmul_library(), cero_device_threads(device),
           cero_dtype_name(dtype));
    for (size_t i = 0; i < CERO_COUNT_OF(products); i++) {
        printf("%-26s %7.1f GFLOP/s %4.0f %%\n", products[i].name, products[i].best * 1e-9,
               100.0 * products[i].best / peak);
    }
}

int main(int argc, char **argv)
{
    cero_dtype dtype = dtype_of(argc > 1 ? argv[1] : "bf16");
    int rounds = argc > 2 ? atoi(argv[2]) : 5;
    cero_device *device = NULL;

    if (cero_device_create(NULL, &device) != CERO_OK || measure(device, dtype, rounds) != CERO_OK) {
        fprintf(stderr, "%s\n", cero_error_string());
        cero_device_destroy(&device);
        return 1;
    }
    print_table(device, dtype);
    cero_device_destroy(&device);
    return 0;
}
