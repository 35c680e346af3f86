/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What this machine reaches and what it is, for the command: the measurements of device/bench.h on a cpu
 * device made for one call, with the shapes of training.
 */
#ifndef CERO_ENGINE_BENCH_H
#define CERO_ENGINE_BENCH_H

#include "base/status.h"
#include "spec/model.h"

/* What runs: the device, its threads, the instruction set in use and the library of products. */
typedef struct cero_engine_machine {
    int threads;
    const char *isa;            /* the kernels in use */
    const char *matmul_library; /* name and version */
} cero_engine_machine;

/* Errors: INVALID for a CERO_ISA that is unknown or more than the CPU has; NOMEM. */
CERO_NODISCARD cero_status cero_engine_machine_describe(int threads, cero_engine_machine *out);

/* Name and version of the MPI this was built with, or "none". */
const char *cero_engine_mpi_library(void);

typedef struct cero_engine_bench_params {
    int threads;      /* 0: the cores this process may use */
    cero_dtype dtype; /* f32, bf16 or f16 */
    double seconds;   /* about how long one measurement takes; 0 means 1 */
} cero_engine_bench_params;

/* Floating-point operations a second of C[M, N] = A[M, K] * B[N, K]^T: a linear layer's forward. */
CERO_NODISCARD cero_status cero_engine_bench_gemm(const cero_engine_bench_params *params, int64_t M,
                                                  int64_t N, int64_t K, double *flops_per_second);

/* Bytes a second of the triad a = b + s * c over arrays of n floats. */
CERO_NODISCARD cero_status cero_engine_bench_memory(const cero_engine_bench_params *params,
                                                    int64_t n, double *bytes_per_second);

/* Parameters a second of AdamW, with gradients and compute copies in the dtype. */
CERO_NODISCARD cero_status cero_engine_bench_adamw(const cero_engine_bench_params *params,
                                                   int64_t n, double *params_per_second);

/* Positions a second of head and cross-entropy, forward and backward. */
CERO_NODISCARD cero_status cero_engine_bench_head_loss(const cero_engine_bench_params *params,
                                                       int64_t rows, int64_t cols, int64_t vocab,
                                                       double *rows_per_second);

/* Floating-point operations a second of causal attention with GPT-2's 12 heads of 64, forward and backward. */
CERO_NODISCARD cero_status cero_engine_bench_attention(const cero_engine_bench_params *params,
                                                       int64_t batch, int64_t seq_len,
                                                       double *forward, double *backward);

typedef struct cero_engine_bench_step_params {
    const cero_model_spec *model;
    int64_t micro_batch;
    int64_t seq_len;
    int64_t steps; /* measured ones, after two that warm up; 0 means 5 */
} cero_engine_bench_step_params;

/* Medians over the steps; each step is followed by a matrix product, so that both meet the same machine. */
typedef struct cero_engine_bench_step_result {
    double step_seconds;
    double update_seconds;
    double tokens_per_second;
    double model_flops_per_second; /* recomputation not counted */
    double gemm_flops_per_second;  /* of [1024, 768] x [768, 3072] */
    double ratio;                  /* median of each step's own ratio */
    double ratio_min;
    double ratio_max;
} cero_engine_bench_step_result;

/*
 * A whole training step of a model with AdamW on random tokens: forward, backward, clip, update.
 * Errors: those of the engine.
 */
CERO_NODISCARD cero_status cero_engine_bench_step(const cero_engine_bench_params *params,
                                                  const cero_engine_bench_step_params *step,
                                                  cero_engine_bench_step_result *out);

#endif
