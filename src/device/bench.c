/* SPDX-License-Identifier: Apache-2.0 */
/* The measuring loops of bench.h. */
#include "device/bench.h"

#include "base/clock.h"
#include "device/device_impl.h"

#include <string.h>

enum {
    BENCH_BUFFERS = 8
};

/* One operation and the memory it works on. */
typedef struct bench {
    cero_device *device;
    cero_mem *mem;               /* owned */
    void *buffer[BENCH_BUFFERS]; /* owned, in mem */
    int buffer_count;
    int64_t n;
    const cero_matmul *matmul;
    const cero_head_loss *head;
    cero_head_loss_args head_args;
    cero_device_attention_args attention;
    cero_dtype dtype;
} bench;

typedef cero_status (*bench_run)(bench *b);

static cero_status bench_init(bench *b, cero_device *device)
{
    *b = (bench){.device = device};
    CERO_CHECK(!cero_device_is_meta(device), CERO_ERR_INVALID,
               "a benchmark on device meta: it runs nothing; use cpu");
    CERO_TRY(cero_mem_create(0, &b->mem));
    return CERO_OK;
}

static void bench_cleanup(bench *b)
{
    for (int i = 0; i < b->buffer_count; i++) {
        cero_mem_free(b->mem, b->buffer[i]);
    }
    cero_mem_destroy(&b->mem);
}

/* Memory of small positive numbers in every type: the byte 0x3c makes 0.0115, in f16 1.06. */
static cero_status bench_buffer(bench *b, int64_t count, size_t size)
{
    void *x = NULL;

    CERO_ASSERT(b->buffer_count < BENCH_BUFFERS);
    CERO_TRY(cero_mem_alloc(b->mem, (size_t)count * size, CERO_MEM_OTHER, "benchmark", &x));
    memset(x, 0x3c, (size_t)count * size);
    b->buffer[b->buffer_count++] = x;
    return CERO_OK;
}

/* Best time of one run; the first, which meets cold code and memory, does not count. */
static cero_status bench_time(bench *b, bench_run run, double seconds, double *best)
{
    double end = 0;
    *best = 1e30;

    CERO_TRY(run(b));
    for (double begin = cero_clock_now(), stop = begin + seconds; end < stop; begin = end) {
        CERO_TRY(run(b));
        end = cero_clock_now();
        *best = end - begin < *best ? end - begin : *best;
    }
    return CERO_OK;
}

static cero_status gemm_run(bench *b)
{
    return cero_device_matmul_run(b->device, b->matmul, b->buffer[0], b->buffer[1], b->buffer[2],
                                  b->buffer[3], b->buffer[4]);
}

cero_status cero_device_bench_gemm(cero_device *device, const cero_matmul_desc *desc,
                                   double seconds, double *flops_per_second)
{
    size_t size = cero_dtype_size(desc->ab_dtype);
    int64_t lda = desc->lda != 0 ? desc->lda : desc->is_a_transposed ? desc->M : desc->K;
    int64_t ldb = desc->ldb != 0 ? desc->ldb : desc->is_b_transposed ? desc->K : desc->N;
    int64_t ldc = desc->ldc != 0 ? desc->ldc : desc->N;
    double best = 0;
    cero_status st = CERO_OK;
    bench b;

    CERO_TRY(bench_init(&b, device));
    CERO_TRY_GOTO(cero_device_matmul_plan(device, desc, &b.matmul), out);
    CERO_TRY_GOTO(bench_buffer(&b, lda * (desc->is_a_transposed ? desc->K : desc->M), size), out);
    CERO_TRY_GOTO(bench_buffer(&b, ldb * (desc->is_b_transposed ? desc->N : desc->K), size), out);
    CERO_TRY_GOTO(bench_buffer(&b, desc->N, size), out);
    CERO_TRY_GOTO(bench_buffer(&b, ldc * desc->M, cero_dtype_size(desc->c_dtype)), out);
    CERO_TRY_GOTO(bench_buffer(&b, (int64_t)cero_matmul_scratch(b.matmul), 1), out);
    CERO_TRY_GOTO(bench_time(&b, gemm_run, seconds, &best), out);
    *flops_per_second = 2.0 * (double)desc->M * (double)desc->N * (double)desc->K / best;

out:
    bench_cleanup(&b);
    return st;
}

static void triad_task(void *context, int64_t begin, int64_t end, int thread)
{
    const bench *b = context;
    const int64_t block = CERO_SQUARE_BLOCK;
    int64_t first = begin * block;
    int64_t last = end * block < b->n ? end * block : b->n;

    CERO_UNUSED(thread);
    cero_device_kernels(b->device)->triad(last - first, 0.5f, (const float *)b->buffer[0] + first,
                                          (const float *)b->buffer[1] + first,
                                          (float *)b->buffer[2] + first);
}

static cero_status triad_run(bench *b)
{
    const int64_t block = CERO_SQUARE_BLOCK;

    cero_device_parallel_for(b->device, (b->n + block - 1) / block, triad_task, b);
    return CERO_OK;
}

cero_status cero_device_bench_triad(cero_device *device, int64_t n, double seconds,
                                    double *bytes_per_second)
{
    double best = 0;
    cero_status st = CERO_OK;
    bench b;

    CERO_TRY(bench_init(&b, device));
    b.n = n;
    for (int i = 0; i < 3; i++) {
        CERO_TRY_GOTO(bench_buffer(&b, n, sizeof(float)), out);
    }
    CERO_TRY_GOTO(bench_time(&b, triad_run, seconds, &best), out);
    *bytes_per_second = 3.0 * sizeof(float) * (double)n / best;

out:
    bench_cleanup(&b);
    return st;
}

static cero_status adamw_run(bench *b)
{
    static const cero_adamw_args args = {.grad_scale = 1.0f,
                                         .lr = 1e-4f,
                                         .beta1 = 0.9f,
                                         .beta2 = 0.95f,
                                         .eps = 1e-8f,
                                         .weight_decay = 0.1f,
                                         .step_size = 1e-4f,
                                         .inv_sqrt_bias2 = 1.0f,
                                         .is_decoupled = true};

    cero_device_adamw(b->device, b->n, &args, b->dtype, b->buffer[3], b->buffer[0], b->buffer[1],
                      b->buffer[2], b->dtype, b->buffer[4]);
    return CERO_OK;
}

cero_status cero_device_bench_adamw(cero_device *device, cero_dtype dtype, int64_t n,
                                    double seconds, double *params_per_second)
{
    double best = 0;
    cero_status st = CERO_OK;
    bench b;

    CERO_TRY(bench_init(&b, device));
    b.n = n;
    b.dtype = dtype;
    for (int i = 0; i < 3; i++) { // Master and moments.
        CERO_TRY_GOTO(bench_buffer(&b, n, sizeof(float)), out);
    }
    CERO_TRY_GOTO(bench_buffer(&b, n, cero_dtype_size(dtype)), out);
    CERO_TRY_GOTO(bench_buffer(&b, n, cero_dtype_size(dtype)), out);
    CERO_TRY_GOTO(bench_time(&b, adamw_run, seconds, &best), out);
    *params_per_second = (double)n / best;

out:
    bench_cleanup(&b);
    return st;
}

static cero_status head_loss_run(bench *b)
{
    return cero_device_head_loss_run(b->device, b->head, &b->head_args);
}

cero_status cero_device_bench_head_loss(cero_device *device, cero_dtype dtype, int64_t rows,
                                        int64_t cols, int64_t vocab, double seconds,
                                        double *rows_per_second)
{
    size_t size = cero_dtype_size(dtype);
    double best = 0;
    cero_status st = CERO_OK;
    bench b;

    CERO_TRY(bench_init(&b, device));
    CERO_TRY_GOTO(cero_device_head_loss_plan(device, dtype, rows, cols, vocab, true, &b.head), out);
    CERO_TRY_GOTO(bench_buffer(&b, rows * cols, size), out);           // x
    CERO_TRY_GOTO(bench_buffer(&b, vocab * cols, size), out);          // weight
    CERO_TRY_GOTO(bench_buffer(&b, rows * cols, size), out);           // dx
    CERO_TRY_GOTO(bench_buffer(&b, vocab * cols, sizeof(float)), out); // dweight
    CERO_TRY_GOTO(bench_buffer(&b, rows, sizeof(float)), out);         // row_loss
    CERO_TRY_GOTO(bench_buffer(&b, rows, sizeof(float)), out);         // row_grad
    CERO_TRY_GOTO(bench_buffer(&b, rows, sizeof(int32_t)), out);       // targets
    CERO_TRY_GOTO(bench_buffer(&b, (int64_t)cero_head_loss_scratch(b.head), 1), out);
    memset(b.buffer[6], 0, (size_t)rows * sizeof(int32_t));
    b.head_args = (cero_head_loss_args){.dtype = dtype,
                                        .rows = rows,
                                        .cols = cols,
                                        .vocab = vocab,
                                        .x = b.buffer[0],
                                        .weight = b.buffer[1],
                                        .targets = b.buffer[6],
                                        .row_loss = b.buffer[4],
                                        .row_grad = b.buffer[5],
                                        .dx = b.buffer[2],
                                        .dweight = b.buffer[3],
                                        .scratch = b.buffer[7]};
    CERO_TRY_GOTO(bench_time(&b, head_loss_run, seconds, &best), out);
    *rows_per_second = (double)rows / best;

out:
    bench_cleanup(&b);
    return st;
}

static cero_status attention_forward_run(bench *b)
{
    cero_device_attention_forward(b->device, &b->attention);
    return CERO_OK;
}

static cero_status attention_backward_run(bench *b)
{
    cero_device_attention_backward(b->device, &b->attention);
    return CERO_OK;
}

/* q|k|v packed in rows of 3 * cols, and their gradients likewise. */
static cero_status attention_setup(bench *b, const cero_bench_attention_shape *s)
{
    int64_t rows = s->batch * s->seq_len;
    int64_t cols = s->heads * s->head_dim;
    size_t size = cero_dtype_size(b->dtype);
    cero_device_attention_args *a = &b->attention;

    *a = (cero_device_attention_args){.dtype = b->dtype,
                                      .batch = s->batch,
                                      .query_len = s->seq_len,
                                      .key_len = s->seq_len,
                                      .heads = s->heads,
                                      .kv_heads = s->heads,
                                      .head_dim = s->head_dim,
                                      .scale = 0.125f,
                                      .q_stride = 3 * cols,
                                      .k_stride = 3 * cols,
                                      .v_stride = 3 * cols};
    size_t forward = cero_device_attention_scratch(b->device, a, false);
    size_t backward = cero_device_attention_scratch(b->device, a, true);
    size_t scratch = forward > backward ? forward : backward;
    CERO_TRY(bench_buffer(b, rows * 3 * cols, size));
    CERO_TRY(bench_buffer(b, rows * 3 * cols, size));
    CERO_TRY(bench_buffer(b, rows * cols, size));
    CERO_TRY(bench_buffer(b, rows * cols, size));
    CERO_TRY(bench_buffer(b, rows * s->heads, sizeof(float)));
    CERO_TRY(bench_buffer(b, (int64_t)scratch, 1));
    a->q = b->buffer[0];
    a->k = (const char *)b->buffer[0] + (size_t)cols * size;
    a->v = (const char *)b->buffer[0] + 2 * (size_t)cols * size;
    a->dq = b->buffer[1];
    a->dk = (char *)b->buffer[1] + (size_t)cols * size;
    a->dv = (char *)b->buffer[1] + 2 * (size_t)cols * size;
    a->out = b->buffer[2];
    a->dout = b->buffer[3];
    a->lse = b->buffer[4];
    a->scratch = b->buffer[5];
    return CERO_OK;
}

cero_status cero_device_bench_attention(cero_device *device, cero_dtype dtype,
                                        const cero_bench_attention_shape *shape, double seconds,
                                        double *forward, double *backward)
{
    double pairs = (double)shape->batch * (double)shape->heads * (double)shape->seq_len *
                   (double)shape->seq_len * (double)shape->head_dim;
    double best_forward = 0;
    double best_backward = 0;
    cero_status st = CERO_OK;
    bench b;

    CERO_TRY(bench_init(&b, device));
    b.dtype = dtype;
    CERO_TRY_GOTO(attention_setup(&b, shape), out);
    CERO_TRY_GOTO(bench_time(&b, attention_forward_run, seconds, &best_forward), out);
    CERO_TRY_GOTO(bench_time(&b, attention_backward_run, seconds, &best_backward), out);
    *forward = 2 * pairs / best_forward;
    *backward = 5 * pairs / best_backward;

out:
    bench_cleanup(&b);
    return st;
}
