/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a device reaches: rates of products, memory and the update, for `cero bench`, `cero plan` and the
 * programs in bench/. Each call repeats its operation for about `seconds` and reports the best time of
 * one run, so that other load on the machine disturbs little.
 *
 * Errors of all: NOMEM, and INVALID on a meta device.
 */
#ifndef CERO_DEVICE_BENCH_H
#define CERO_DEVICE_BENCH_H

#include "device/device.h"

/* Floating-point operations a second of one product, 2 * M * N * K each. */
CERO_NODISCARD cero_status cero_device_bench_gemm(cero_device *device, const cero_matmul_desc *desc,
                                                  double seconds, double *flops_per_second);

/* Bytes a second of a = b + s * c over n floats each: 12 bytes an element. */
CERO_NODISCARD cero_status cero_device_bench_triad(cero_device *device, int64_t n, double seconds,
                                                   double *bytes_per_second);

/* Parameters a second of AdamW with gradients and compute copies of `dtype`. */
CERO_NODISCARD cero_status cero_device_bench_adamw(cero_device *device, cero_dtype dtype, int64_t n,
                                                   double seconds, double *params_per_second);

/* Positions a second of head and loss with its backward, for rows of cols and this vocabulary. */
CERO_NODISCARD cero_status cero_device_bench_head_loss(cero_device *device, cero_dtype dtype,
                                                       int64_t rows, int64_t cols, int64_t vocab,
                                                       double seconds, double *rows_per_second);

/* A batch of causal attention over packed q|k|v rows. */
typedef struct cero_bench_attention_shape {
    int64_t batch;
    int64_t seq_len;
    int64_t heads;
    int64_t head_dim;
} cero_bench_attention_shape;

/*
 * Floating-point operations a second of attention's forward, and of its backward: 2 and 5 times
 * batch * heads * seq_len^2 * head_dim each, the half beyond the diagonal not counted.
 */
CERO_NODISCARD cero_status cero_device_bench_attention(cero_device *device, cero_dtype dtype,
                                                       const cero_bench_attention_shape *shape,
                                                       double seconds, double *forward,
                                                       double *backward);

#endif
