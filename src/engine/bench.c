/* SPDX-License-Identifier: Apache-2.0 */
/* Measurements for the command; see bench.h. Each makes a device, measures, and destroys it. */
#include "engine/bench.h"

#include "comm/comm.h"
#include "device/bench.h"

#define DEFAULT_SECONDS 1.0

static cero_status create_device(int threads, cero_device **out)
{
    return cero_device_create(&(cero_device_params){.name = "cpu", .threads = threads}, out);
}

static double seconds_of(const cero_engine_bench_params *params)
{
    return params->seconds > 0 ? params->seconds : DEFAULT_SECONDS;
}

cero_status cero_engine_machine_describe(int threads, cero_engine_machine *out)
{
    cero_device *device = NULL;

    CERO_TRY(create_device(threads, &device));
    *out = (cero_engine_machine){
        .threads = cero_device_threads(device),
        .isa = cero_device_kernels(device)->isa,
        .matmul_library = cero_device_matmul_library(),
    };
    cero_device_destroy(&device);
    return CERO_OK;
}

const char *cero_engine_mpi_library(void)
{
    return cero_comm_mpi_library();
}

cero_status cero_engine_bench_gemm(const cero_engine_bench_params *params, int64_t M, int64_t N,
                                   int64_t K, double *flops_per_second)
{
    cero_device *device = NULL;
    cero_matmul_desc desc = {.M = M,
                             .N = N,
                             .K = K,
                             .is_b_transposed = true,
                             .ab_dtype = params->dtype,
                             .c_dtype = params->dtype};

    CERO_TRY(create_device(params->threads, &device));
    cero_status st = cero_device_bench_gemm(device, &desc, seconds_of(params), flops_per_second);
    cero_device_destroy(&device);
    return st;
}

cero_status cero_engine_bench_memory(const cero_engine_bench_params *params, int64_t n,
                                     double *bytes_per_second)
{
    cero_device *device = NULL;

    CERO_TRY(create_device(params->threads, &device));
    cero_status st = cero_device_bench_triad(device, n, seconds_of(params), bytes_per_second);
    cero_device_destroy(&device);
    return st;
}

cero_status cero_engine_bench_adamw(const cero_engine_bench_params *params, int64_t n,
                                    double *params_per_second)
{
    cero_device *device = NULL;

    CERO_TRY(create_device(params->threads, &device));
    cero_status st =
        cero_device_bench_adamw(device, params->dtype, n, seconds_of(params), params_per_second);
    cero_device_destroy(&device);
    return st;
}

cero_status cero_engine_bench_head_loss(const cero_engine_bench_params *params, int64_t rows,
                                        int64_t cols, int64_t vocab, double *rows_per_second)
{
    cero_device *device = NULL;

    CERO_TRY(create_device(params->threads, &device));
    cero_status st = cero_device_bench_head_loss(device, params->dtype, rows, cols, vocab,
                                                 seconds_of(params), rows_per_second);
    cero_device_destroy(&device);
    return st;
}

cero_status cero_engine_bench_attention(const cero_engine_bench_params *params, int64_t batch,
                                        int64_t seq_len, double *forward, double *backward)
{
    cero_device *device = NULL;
    cero_bench_attention_shape shape = {
        .batch = batch, .seq_len = seq_len, .heads = 12, .head_dim = 64};

    CERO_TRY(create_device(params->threads, &device));
    cero_status st = cero_device_bench_attention(device, params->dtype, &shape, seconds_of(params),
                                                 forward, backward);
    cero_device_destroy(&device);
    return st;
}
