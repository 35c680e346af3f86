/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A device: where memory lives and where operations run.
 *
 * `cpu` runs them with oneDNN and our kernels on OpenMP threads; `meta` answers every question about
 * sizes and runs nothing. Both answer from the same code, so a plan made on meta is the plan of cpu.
 * Operations take plain structs; tensors are contiguous, outermost dimension first. A device is used by
 * one orchestrating thread at a time.
 */
#ifndef CERO_DEVICE_DEVICE_H
#define CERO_DEVICE_DEVICE_H

#include "base/memory.h"
#include "base/rng.h"
#include "base/status.h"
#include "kernels/kernels.h"

typedef struct cero_device cero_device;

typedef struct cero_device_params {
    const char *name; /* "cpu" or "meta"; NULL means "cpu" */
    int threads;      /* 0: the cores this process may use (OMP_NUM_THREADS respected) */
    bool is_quiet;    /* more threads than cores are another process's to warn of */
} cero_device_params;

CERO_NODISCARD cero_status cero_device_create(const cero_device_params *params, cero_device **out);
void cero_device_destroy(cero_device **device);

/*
 * Cores this process may use, and a number that is equal for processes that may use the same (NULL: not
 * wanted).
 */
int cero_device_cores(uint64_t *set);

/* True when OMP_NUM_THREADS says how many threads there shall be. */
bool cero_device_has_thread_setting(void);

const char *cero_device_name(const cero_device *device);
bool cero_device_is_meta(const cero_device *device);
int cero_device_threads(const cero_device *device);
const cero_kernels *cero_device_kernels(const cero_device *device);

/* Name and version of the matrix-product library, for `cero info`. */
const char *cero_device_matmul_library(void);

/* Called for tasks begin..end by thread `thread` (0 .. threads-1). */
typedef void (*cero_task)(void *context, int64_t begin, int64_t end, int thread);

/*
 * Splits `count` tasks into contiguous ranges over the threads; returns when all are done. The split may
 * change with the number of threads, so a task's result must not depend on the range it came in.
 * Allocates nothing.
 */
void cero_device_parallel_for(const cero_device *device, int64_t count, cero_task task,
                              void *context);
/* As above, but threads take tasks one by one in order: for tasks of unequal cost. */
void cero_device_parallel_dynamic(const cero_device *device, int64_t count, cero_task task,
                                  void *context);

/*
 * C[M, N] = A[M, K] * B[K, N] (+ bias[N]) (+ C). `is_a_transposed` means that A is stored [K, M], and
 * likewise B stored [N, K]. Leading dimensions are in elements; 0 means contiguous.
 */
typedef struct cero_matmul_desc {
    int64_t M;
    int64_t N;
    int64_t K;
    int64_t lda;
    int64_t ldb;
    int64_t ldc;
    bool is_a_transposed;
    bool is_b_transposed;
    bool has_bias;
    bool is_adding;      /* C += instead of C =; C must be f32 */
    cero_dtype ab_dtype; /* of A, B and bias: f32, bf16, f16 */
    cero_dtype c_dtype;  /* ab_dtype or f32 */
} cero_matmul_desc;

/* A planned product: owned by the device, shared by all with the same descriptor. */
typedef struct cero_matmul cero_matmul;

/* Errors: UNSUPPORTED, NOMEM. On meta nothing is compiled. */
CERO_NODISCARD cero_status cero_device_matmul_plan(cero_device *device,
                                                   const cero_matmul_desc *desc,
                                                   const cero_matmul **out);

/* Bytes of scratch (64-byte aligned) that a run needs. */
size_t cero_matmul_scratch(const cero_matmul *matmul);

/* Errors: INTERNAL when the library reports one. Allocates nothing. */
CERO_NODISCARD cero_status cero_device_matmul_run(cero_device *device, const cero_matmul *matmul,
                                                  const void *a, const void *b, const void *bias,
                                                  void *c, void *scratch);

/* ceil(rows / 64) … at most 64 parts: reductions over rows use this many partial sums, whatever the
 * number of threads. */
int64_t cero_device_row_parts(int64_t rows);

/* Elementwise and row-wise operations over the threads. dtype: f32, bf16 or f16. */
void cero_device_to_f32(cero_device *d, cero_dtype dtype, int64_t n, const void *x, float *y);
void cero_device_from_f32(cero_device *d, cero_dtype dtype, int64_t n, const float *x, void *y);
void cero_device_convert(cero_device *d, cero_dtype from, cero_dtype to, int64_t n, const void *x,
                         void *y);
void cero_device_accumulate(cero_device *d, cero_dtype dtype, int64_t n, const void *x, float *acc);
void cero_device_fill(cero_device *d, cero_dtype dtype, int64_t n, float value, void *y);
void cero_device_add(cero_device *d, cero_dtype dtype, int64_t n, const void *a, const void *b,
                     void *y);
void cero_device_mul(cero_device *d, cero_dtype dtype, int64_t n, const void *a, const void *b,
                     void *y);
void cero_device_scale(cero_device *d, cero_dtype dtype, int64_t n, float s, const void *x,
                       void *y);
void cero_device_activation_forward(cero_device *d, cero_dtype dtype, int activation, int64_t n,
                                    const void *x, void *y);
void cero_device_activation_backward(cero_device *d, cero_dtype dtype, int activation, int64_t n,
                                     const void *x, const void *dy, void *dx);
void cero_device_swiglu_forward(cero_device *d, cero_dtype dtype, int64_t n, const void *gate,
                                const void *up, void *y);
void cero_device_swiglu_backward(cero_device *d, cero_dtype dtype, int64_t n, const void *gate,
                                 const void *up, const void *dy, void *dgate, void *dup);

/* Column sums of x[rows, cols] into out[cols] of out_dtype; scratch of cero_device_column_sums_scratch. */
size_t cero_device_column_sums_scratch(int64_t rows, int64_t cols);
void cero_device_column_sums(cero_device *d, cero_dtype dtype, int64_t rows, int64_t cols,
                             const void *x, cero_dtype out_dtype, void *out, void *scratch);

/* Norms over rows of [rows, cols]; gradients of gamma and beta in the dtype of the activations. */
typedef struct cero_norm_args {
    cero_dtype dtype;
    bool is_rms;
    int64_t rows;
    int64_t cols;
    float eps;
    const void *x;
    const void *gamma;
    const void *beta; /* NULL for none */
    void *y;
    float *mean; /* [rows]; layernorm only */
    float *rstd; /* [rows] */
    /* backward */
    const void *dy;
    void *dx;
    void *dgamma;  /* [cols]; NULL when frozen */
    void *dbeta;   /* [cols]; NULL when absent or frozen */
    void *scratch; /* cero_device_norm_scratch(rows, cols) bytes */
} cero_norm_args;
size_t cero_device_norm_scratch(int64_t rows, int64_t cols);
void cero_device_norm_forward(cero_device *d, const cero_norm_args *args);
void cero_device_norm_backward(cero_device *d, const cero_norm_args *args);

/*
 * Rotary positions on x [batch, seq_len, heads, head_dim] with row stride `ld` elements between
 * positions (0: heads * head_dim). cos, sin [positions, head_dim/2] f32; row t uses position + t.
 */
typedef struct cero_rotary_args {
    cero_dtype dtype;
    int64_t batch;
    int64_t seq_len;
    int64_t heads;
    int64_t head_dim;
    int64_t ld;
    int64_t position;
    bool is_backward;
    const float *cos;
    const float *sin;
    const void *x;
    void *y; /* may equal x; same row stride */
} cero_rotary_args;
void cero_device_rotary(cero_device *d, const cero_rotary_args *args);

/* Dropout over x[samples, per_sample]: sample s uses words of sample first_sample + s. */
typedef struct cero_dropout_args {
    cero_dtype dtype;
    int64_t samples;
    int64_t per_sample;
    double p;
    cero_rng_key key;
    uint64_t first_sample;
    const void *x;
    void *y; /* may equal x */
} cero_dropout_args;
void cero_device_dropout(cero_device *d, const cero_dropout_args *args);

/* y[i] = table[ids[i]] for count rows of cols; ids were checked. */
void cero_device_embedding_forward(cero_device *d, cero_dtype dtype, int64_t count, int64_t cols,
                                   const int32_t *ids, const void *table, void *y);
/* table_grad[ids[i]] += dy[i] in the order of i, f32; same bits for any number of threads. */
void cero_device_embedding_backward(cero_device *d, cero_dtype dtype, int64_t count, int64_t cols,
                                    const int32_t *ids, const void *dy, float *table_grad);

/*
 * Causal attention over [batch, seq_len] rows, heads side by side in a row; k and v have kv_heads heads,
 * each shared by heads / kv_heads query heads. Strides between positions in elements, so that packed
 * q|k|v rows need no copy; stride between batches is seq_len * stride (key side: key_len * stride).
 */
typedef struct cero_device_attention_args {
    cero_dtype dtype;
    int64_t batch;
    int64_t query_len;
    int64_t key_len;      /* rows of k and v (a cache may be longer than what is used) */
    int64_t query_offset; /* position of query 0 */
    int64_t heads;
    int64_t kv_heads;
    int64_t head_dim;
    float scale;
    const void *q;
    const void *k;
    const void *v;
    int64_t q_stride;
    int64_t k_stride;
    int64_t v_stride;
    void *out;  /* [batch, query_len, heads * head_dim] contiguous */
    float *lse; /* [batch, heads, query_len]; NULL when no backward follows */
    double dropout_p;
    cero_rng_key key;
    uint64_t first_sample;
    /* backward */
    const void *dout;
    void *dq; /* strides as q, k, v */
    void *dk;
    void *dv;
    void *scratch; /* cero_device_attention_scratch bytes */
} cero_device_attention_args;
size_t cero_device_attention_scratch(const cero_device *d, const cero_device_attention_args *args,
                                     bool is_backward);
void cero_device_attention_forward(cero_device *d, const cero_device_attention_args *args);
void cero_device_attention_backward(cero_device *d, const cero_device_attention_args *args);

/*
 * Language-model head and loss over row chunks: logits = x * W^T (W [vocab, cols]), never more than
 * `chunk` rows of logits at once. Backward happens in the same pass, while the logits are at hand.
 */
typedef struct cero_head_loss_args {
    cero_dtype dtype;
    int64_t rows;
    int64_t cols;
    int64_t vocab;
    const void *x;          /* [rows, cols] */
    const void *weight;     /* [vocab, cols] */
    const int32_t *targets; /* [rows]; < 0: no loss for this row */
    float *row_loss;        /* [rows] */
    /* backward; all NULL for loss alone */
    const float *row_grad; /* [rows]: d(total) / d(row_loss) */
    void *dx;              /* [rows, cols] */
    float *dweight;        /* [vocab, cols] f32, written; NULL when frozen */
    void *scratch;         /* cero_head_loss_scratch bytes */
} cero_head_loss_args;
/* A planned head: the chunk of rows it takes at once, its products and its scratch. */
typedef struct cero_head_loss cero_head_loss;
CERO_NODISCARD cero_status cero_device_head_loss_plan(cero_device *d, cero_dtype dtype,
                                                      int64_t rows, int64_t cols, int64_t vocab,
                                                      bool is_backward, const cero_head_loss **out);
size_t cero_head_loss_scratch(const cero_head_loss *plan);
CERO_NODISCARD cero_status cero_device_head_loss_run(cero_device *d, const cero_head_loss *plan,
                                                     const cero_head_loss_args *args);

/* Sum of squares of each block of 256 elements, in double: block_sums [ceil(n / 256)]. */
void cero_device_square_sums(cero_device *d, cero_dtype dtype, int64_t n, const void *x,
                             double *block_sums);

/* AdamW over n elements; see kernels.h. copy may be NULL. */
void cero_device_adamw(cero_device *d, int64_t n, const cero_adamw_args *args,
                       cero_dtype grad_dtype, const void *grad, float *master, float *exp_avg,
                       float *exp_avg_sq, cero_dtype copy_dtype, void *copy);

#endif
