/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A unit's gradients reduced and its parameters gathered by cero's exchanges, against MPI_Reduce_scatter_block and
 * MPI_Allgather of the same range in the same run: `mpirun -n 2 bench_exchange [MiB of fp32]`.
 *
 * The two alternate five times; medians of the slowest rank's seconds count, and their ratio is the figure to
 * quote. MPI knows no bf16: what stands against the bf16 exchange is what a program on plain MPI does, an fp32
 * reduction, and a gather of the same 2 bytes an element.
 */
#include "comm/exchange.h"
#include "base/clock.h"
#include "comm/comm.h"
#include "device/device.h"

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    ROUNDS = 5,
    MAX_RANKS = 64,
    DEFAULT_MIB = 256
};

typedef struct bench {
    cero_comm *comm;
    cero_device *device;
    cero_mem *mem;
    int rank;
    int size;
    int64_t numel; /* of the range, a multiple of 256 * size */
    int64_t border[MAX_RANKS + 1];
    float *sum; /* [numel / size] */
} bench;

/* One dtype: contributions and parameters as exchanges see them, and fp32 contributions for MPI. */
typedef struct unit {
    cero_dtype dtype;
    size_t size; /* bytes of an element */
    cero_comm_buffer *grads;
    cero_comm_buffer *params;
    float *mpi_grads;
    void *landing;
    cero_exchange *reduce;
    cero_exchange *gather;
} unit;

static void check(cero_status st)
{
    if (st != CERO_OK) {
        (void)fprintf(stderr, "%s\n", cero_error_string());
        (void)MPI_Abort(MPI_COMM_WORLD, EXIT_FAILURE);
    }
}

static cero_comm_buffer *make_buffer(bench *b, size_t nbytes, const char *what)
{
    cero_comm_buffer *buffer = NULL;

    check(cero_comm_buffer_create(
        b->comm, &(cero_comm_buffer_params){.mem = b->mem, .nbytes = nbytes, .what = what},
        &buffer));
    return buffer;
}

static void open_unit(bench *b, unit *u, cero_dtype dtype)
{
    size_t source_at[MAX_RANKS];

    u->dtype = dtype;
    u->size = cero_dtype_size(dtype);
    u->grads = make_buffer(b, (size_t)b->numel * u->size, "gradients");
    u->params = make_buffer(b, (size_t)b->numel * u->size, "parameters");
    u->mpi_grads = cero_new((size_t)b->numel, sizeof(float));
    for (int64_t i = 0; i < b->numel; i++) {
        u->mpi_grads[i] = (float)((i * 7 + b->rank) % 1001 - 500) * 0x1p-7f;
    }
    cero_device_from_f32(b->device, dtype, b->numel, u->mpi_grads, cero_comm_buffer_data(u->grads));
    for (int r = 0; r < b->size; r++) {
        source_at[r] = (size_t)b->border[r] * u->size;
    }
    cero_reduce_params reduce = {.name = "bench",
                                 .device = b->device,
                                 .dtype = dtype,
                                 .border = b->border,
                                 .source = u->grads,
                                 .sum = b->sum};
    u->landing = cero_new(1, cero_reduce_landing_bytes(b->comm, &reduce) + 1);
    reduce.landing = u->landing;
    check(cero_reduce_create(b->comm, &reduce, &u->reduce));
    check(cero_gather_create(b->comm,
                             &(cero_gather_params){.name = "bench",
                                                   .device = b->device,
                                                   .element_size = u->size,
                                                   .border = b->border,
                                                   .source = u->params,
                                                   .source_at = source_at,
                                                   .dest = u->params},
                             &u->gather));
}

static void close_unit(unit *u)
{
    cero_exchange_destroy(&u->reduce);
    cero_exchange_destroy(&u->gather);
    cero_comm_buffer_destroy(&u->grads);
    cero_comm_buffer_destroy(&u->params);
    cero_delete(u->mpi_grads);
    cero_delete(u->landing);
}

static void run_exchange(cero_exchange *x)
{
    check(cero_exchange_start(x, true));
    check(cero_exchange_finish(x));
    check(cero_exchange_release(x));
}

static void run_cero(const bench *b, const unit *u)
{
    (void)b;
    run_exchange(u->reduce);
    run_exchange(u->gather);
}

static void run_mpi(const bench *b, const unit *u)
{
    int part = (int)(b->numel / b->size);
    MPI_Datatype type = u->size == sizeof(float) ? MPI_FLOAT : MPI_UINT16_T;

    (void)MPI_Reduce_scatter_block(u->mpi_grads, b->sum, part, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    (void)MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, cero_comm_buffer_data(u->params), part,
                        type, MPI_COMM_WORLD);
}

/* Of the slowest rank. */
static double seconds_of(void (*run)(const bench *, const unit *), const bench *b, const unit *u)
{
    (void)MPI_Barrier(MPI_COMM_WORLD);
    double begin = cero_clock_now();
    run(b, u);
    double seconds = cero_clock_now() - begin;
    (void)MPI_Allreduce(MPI_IN_PLACE, &seconds, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return seconds;
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

static void measure(bench *b, cero_dtype dtype)
{
    double cero[ROUNDS];
    double mpi[ROUNDS];
    unit u;

    open_unit(b, &u, dtype);
    run_cero(b, &u);
    run_mpi(b, &u);
    for (int k = 0; k < ROUNDS; k++) {
        cero[k] = seconds_of(run_cero, b, &u);
        mpi[k] = seconds_of(run_mpi, b, &u);
    }
    if (b->rank == 0) {
        double ours = median(cero);
        double theirs = median(mpi);
        (void)printf("%s, %lld elements: exchanges %.1f ms, MPI %.1f ms, ratio %.2f\n",
                     dtype == CERO_DTYPE_F32 ? "fp32" : "bf16", (long long)b->numel, ours * 1e3,
                     theirs * 1e3, theirs / ours);
    }
    close_unit(&u);
}

static void open_bench(bench *b, int64_t mib)
{
    check(cero_comm_create_world(NULL, &b->comm));
    check(cero_device_create(NULL, &b->device));
    check(cero_mem_create(0, &b->mem));
    b->rank = cero_comm_rank(b->comm);
    b->size = cero_comm_size(b->comm);
    if (b->size > MAX_RANKS) {
        check(CERO_FAIL(CERO_ERR_INVALID, "%d ranks; expected at most %d", b->size, MAX_RANKS));
    }
    int64_t block = (int64_t)256 * b->size;
    b->numel = (mib * 1024 * 1024 / 4 + block - 1) / block * block;
    for (int r = 0; r <= b->size; r++) {
        b->border[r] = b->numel / b->size * r;
    }
    b->sum = cero_new((size_t)(b->numel / b->size), sizeof(float));
}

int main(int argc, char **argv)
{
    bench b = {0};
    int64_t mib = argc > 1 ? strtol(argv[1], NULL, 10) : DEFAULT_MIB;

    if (MPI_Init(&argc, &argv) != MPI_SUCCESS || mib < 1) {
        return EXIT_FAILURE;
    }
    open_bench(&b, mib);
    if (b.rank == 0) {
        (void)printf("%d ranks, %d threads each, %s\n", b.size, cero_device_threads(b.device),
                     cero_comm_mpi_library());
    }
    measure(&b, CERO_DTYPE_F32);
    measure(&b, CERO_DTYPE_BF16);
    cero_delete(b.sum);
    cero_comm_destroy(&b.comm);
    cero_device_destroy(&b.device);
    cero_mem_destroy(&b.mem);
    (void)MPI_Finalize();
    return EXIT_SUCCESS;
}
