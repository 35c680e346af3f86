/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernel table: the inner loops of training as typed pointers, filled once for this CPU.
 *
 * ref/ fills every pointer with plain C (the oracle); avx2/ and avx512/ overwrite what they improve,
 * lowest first, after asking cpuid. Kernels work on ranges; threads are device/cpu's business.
 *
 * Contract of every kernel (docs/kernels.md): works for every n >= 0, any tail, any alignment, and
 * touches no byte outside; outputs do not overlap inputs unless "in place" is said; accumulates in f32
 * (f64 where said) in an order that depends on n alone; allocates, checks and returns nothing but a
 * value; NaN in, NaN out.
 *
 * Arrays of pointers are indexed by cero_dtype (f32, bf16, f16) of the activations, passed as void *.
 * Arithmetic is f32 whatever the storage; stores round to nearest even.
 */
#ifndef CERO_KERNELS_KERNELS_H
#define CERO_KERNELS_KERNELS_H

#include "base/rng.h"
#include "base/status.h"

enum {
    CERO_FLOAT_DTYPES = 3,
    CERO_SQUARE_BLOCK = 256
};

/* The activations, in the order of cero_activation in spec/model.h. */
enum {
    CERO_KERNEL_ACTIVATIONS = 5
};

/* One head of blocked causal attention. Rows are positions; strides in elements. */
typedef struct cero_attention_args {
    int64_t query_count;  /* rows of q and out */
    int64_t query_offset; /* position of query 0: query i sees keys 0 .. query_offset + i */
    int64_t key_count;    /* rows of k and v: at least query_offset + query_count */
    int64_t head_dim;
    float scale;   /* scores = scale * q . k */
    const void *q; /* [query_count, head_dim], row stride q_stride */
    const void *k; /* [key_count, head_dim] */
    const void *v; /* [key_count, head_dim] */
    void *out;     /* [query_count, head_dim]; backward: input */
    float *lse; /* [query_count] log-sum-exp of the scaled scores; backward: input; may be NULL in
                      forward */
    int64_t q_stride;
    int64_t k_stride;
    int64_t v_stride;
    int64_t out_stride;
    /* Dropout on the probabilities: element (i, j) is kept when word >= drop_threshold. */
    uint32_t drop_threshold; /* p * 2^32; 0: no dropout */
    float drop_scale;        /* 1 / (1 - p) */
    cero_rng_key drop_key;
    uint64_t drop_sample;
    uint64_t drop_element; /* of (query 0, key 0); (i, j) is drop_element + i * drop_stride + j */
    uint64_t drop_stride;  /* a multiple of 4 */
    /* Backward only. */
    const void *dout; /* [query_count, head_dim], row stride out_stride */
    void *dq;         /* [query_count, head_dim], row stride q_stride; written */
    float *dk;     /* [key_count, head_dim], contiguous; added to: query heads of one kv head sum */
    float *dv;     /* as dk */
    void *scratch; /* attention_scratch(...) bytes, 64-byte aligned */
} cero_attention_args;

/* Scalars of one optimizer update, folded so that the inner loop is short. */
typedef struct cero_adamw_args {
    float grad_scale; /* unscale, average and clip: g = grad_scale * grad */
    float lr;
    float beta1;
    float beta2;
    float eps;
    float weight_decay;
    float step_size;      /* lr / (1 - beta1^t), or lr */
    float inv_sqrt_bias2; /* 1 / sqrt(1 - beta2^t), or 1 */
    bool is_decoupled;    /* AdamW: master -= lr * wd * master first; else g += wd * master */
} cero_adamw_args;

typedef struct cero_sgd_args {
    float grad_scale;
    float lr;
    float momentum;
    float dampening;
    float weight_decay;
    bool is_nesterov;
    bool is_first; /* momentum buffer = g at the first update, as torch.optim.SGD */
} cero_sgd_args;

typedef struct cero_adagrad_args {
    float grad_scale;
    float lr;
    float eps;
    float weight_decay;
} cero_adagrad_args;

typedef struct cero_lion_args {
    float grad_scale;
    float lr;
    float beta1;
    float beta2;
    float weight_decay;
} cero_lion_args;

typedef struct cero_lamb_args {
    float grad_scale;
    float beta1;
    float beta2;
    float eps;
    float weight_decay;
    bool eps_inside_sqrt;
} cero_lamb_args;

typedef struct cero_kernels {
    /* Name of the highest instruction set in use: "ref", "avx2", "avx512", "avx512bf16". */
    const char *isa;

    /* y[i] = (float)x[i] */
    void (*to_f32[CERO_FLOAT_DTYPES])(int64_t n, const void *x, float *y);
    /* y[i] = round_to_nearest_even(x[i]); NaN stays NaN, f16 overflow gives infinity */
    void (*from_f32[CERO_FLOAT_DTYPES])(int64_t n, const float *x, void *y);
    /* acc[i] += x[i] */
    void (*accumulate[CERO_FLOAT_DTYPES])(int64_t n, const void *x, float *acc);
    /*
     * sums[b] = sum of x[i]^2 in double over block b of 256 elements, ceil(n / 256) blocks. The order
     * inside a block is fixed for all instruction sets: lane j of 16 adds elements j, j+16, …; lanes
     * are then added 0..15. Not finite if and only if an element is not.
     */
    void (*square_sums[CERO_FLOAT_DTYPES])(int64_t n, const void *x, double *sums);

    /* y = a + b, y = a * b, y = s * x (in place allowed: y may equal an input) */
    void (*add[CERO_FLOAT_DTYPES])(int64_t n, const void *a, const void *b, void *y);
    void (*mul[CERO_FLOAT_DTYPES])(int64_t n, const void *a, const void *b, void *y);
    void (*scale[CERO_FLOAT_DTYPES])(int64_t n, float s, const void *x, void *y);

    /* out[c] (+)= sum over rows of x[r, c], f32, rows in order; adds when is_adding, else writes */
    void (*column_sums[CERO_FLOAT_DTYPES])(int64_t rows, int64_t cols, int64_t ld, const void *x,
                                           bool is_adding, float *out);

    /*
     * y = gamma * (x - mean) * rstd + beta for each row of [rows, cols]; beta may be NULL.
     * mean and rstd [rows] are kept for backward. Two passes: mean, then centred variance.
     */
    void (*layernorm_forward[CERO_FLOAT_DTYPES])(int64_t rows, int64_t cols, float eps,
                                                 const void *x, const void *gamma, const void *beta,
                                                 void *y, float *mean, float *rstd);
    /* dx written; dgamma, dbeta [cols] f32: written, or added to when is_adding; dbeta may be NULL */
    void (*layernorm_backward[CERO_FLOAT_DTYPES])(int64_t rows, int64_t cols, const void *dy,
                                                  const void *x, const void *gamma,
                                                  const float *mean, const float *rstd,
                                                  bool is_adding, void *dx, float *dgamma,
                                                  float *dbeta);
    /* y = gamma * x * rstd, rstd = 1 / sqrt(mean(x^2) + eps) */
    void (*rmsnorm_forward[CERO_FLOAT_DTYPES])(int64_t rows, int64_t cols, float eps, const void *x,
                                               const void *gamma, void *y, float *rstd);
    void (*rmsnorm_backward[CERO_FLOAT_DTYPES])(int64_t rows, int64_t cols, const void *dy,
                                                const void *x, const void *gamma, const float *rstd,
                                                bool is_adding, void *dx, float *dgamma);

    /* y = f(x); dx = dy * f'(x) (in place allowed: dx may equal dy). First index: cero_activation. */
    void (*activation_forward[CERO_KERNEL_ACTIVATIONS][CERO_FLOAT_DTYPES])(int64_t n, const void *x,
                                                                           void *y);
    void (*activation_backward[CERO_KERNEL_ACTIVATIONS][CERO_FLOAT_DTYPES])(int64_t n,
                                                                            const void *x,
                                                                            const void *dy,
                                                                            void *dx);
    /* y = silu(gate) * up, and its backward */
    void (*swiglu_forward[CERO_FLOAT_DTYPES])(int64_t n, const void *gate, const void *up, void *y);
    void (*swiglu_backward[CERO_FLOAT_DTYPES])(int64_t n, const void *gate, const void *up,
                                               const void *dy, void *dgate, void *dup);

    /*
     * Rotates pairs (d, d + head_dim/2) of each head (Hugging Face's half-split layout) of one row of
     * `heads` heads: cos and sin [head_dim/2] are of the row's position. sin_sign -1 undoes (backward).
     * In place allowed.
     */
    void (*rotary[CERO_FLOAT_DTYPES])(int64_t heads, int64_t head_dim, const float *cos,
                                      const float *sin, float sin_sign, const void *x, void *y);

    /*
     * y[i] = word(element + i) >= threshold ? scale * x[i] : 0, words from cero_rng_block(key, sample).
     * In place allowed. Its own backward.
     */
    void (*dropout[CERO_FLOAT_DTYPES])(int64_t n, cero_rng_key key, uint64_t sample,
                                       uint64_t element, uint32_t threshold, float scale,
                                       const void *x, void *y);

    /* y = softmax(x) in f32; in place allowed */
    void (*softmax)(int64_t n, const float *x, float *y);

    /*
     * One row of logits: returns -log softmax(x)[target]; when dx is not NULL, also
     * dx = (softmax(x) - onehot(target)) * scale (dx may equal x). target < 0: returns 0, dx = 0.
     */
    float (*cross_entropy[CERO_FLOAT_DTYPES])(int64_t n, const void *x, int64_t target, float scale,
                                              void *dx);

    /*
     * One row times a matrix, for decoding. sums[j] = sum over k of x[k] * w[k, j] for j in 0..n, in f32 and
     * in the order of k: weights [k_count, n] stored [in, out] with row stride ld. What calls it adds parts
     * of k and the bias.
     */
    void (*gemv_n[CERO_FLOAT_DTYPES])(int64_t k_count, int64_t n, const void *x, const void *w,
                                      int64_t ld, float *sums);
    /* y[j] = bias[j] + sum over k of w[j, k] * x[k]: weights stored [out, in]; bias may be NULL */
    void (*gemv_t[CERO_FLOAT_DTYPES])(int64_t k_count, int64_t n, const void *x, const void *w,
                                      int64_t ld, const void *bias, void *y);

    /* Bytes that attention_forward / attention_backward need at args->scratch. */
    size_t (*attention_scratch)(int64_t query_count, int64_t key_count, int64_t head_dim,
                                bool is_backward);
    void (*attention_forward[CERO_FLOAT_DTYPES])(const cero_attention_args *args);
    void (*attention_backward[CERO_FLOAT_DTYPES])(const cero_attention_args *args);

    /*
     * Optimizers on a flat range. `grad` has the first index's dtype; master, exp_avg, exp_avg_sq are
     * f32 and updated in place; `copy` (dtype of the second index, NULL for none) gets the new weights.
     */
    void (*adamw[CERO_FLOAT_DTYPES][CERO_FLOAT_DTYPES])(int64_t n, const cero_adamw_args *args,
                                                        const void *grad, float *master,
                                                        float *exp_avg, float *exp_avg_sq,
                                                        void *copy);
    /* The rest take the gradient of any dtype and leave the copy to from_f32. */
    void (*sgd[CERO_FLOAT_DTYPES])(int64_t n, const cero_sgd_args *args, const void *grad,
                                   float *master, float *momentum);
    void (*adagrad[CERO_FLOAT_DTYPES])(int64_t n, const cero_adagrad_args *args, const void *grad,
                                       float *master, float *sum);
    void (*lion[CERO_FLOAT_DTYPES])(int64_t n, const cero_lion_args *args, const void *grad,
                                    float *master, float *exp_avg);
    /* Moments and direction: update = m / (sqrt(v) + eps) + wd * master */
    void (*lamb_direction[CERO_FLOAT_DTYPES])(int64_t n, const cero_lamb_args *args,
                                              const void *grad, const float *master, float *exp_avg,
                                              float *exp_avg_sq, float *update);
    /* y += s * x */
    void (*axpy)(int64_t n, float s, const float *x, float *y);

    /* Reads (returns a sum that keeps the loads alive), a = b, a = b + s * c: `cero bench memory`. */
    void (*triad)(int64_t n, float s, const float *b, const float *c, float *a);
} cero_kernels;

/*
 * The table for this CPU, lowered by CERO_ISA=ref|avx2|avx512|avx512bf16.
 * Errors: INVALID when CERO_ISA is unknown or asks for more than the CPU has.
 */
CERO_NODISCARD cero_status cero_kernels_get(const cero_kernels **out);

/*
 * A table for one instruction set, for tests and benchmarks.
 * Errors: UNSUPPORTED when the CPU lacks it, INVALID when the name is unknown.
 */
CERO_NODISCARD cero_status cero_kernels_get_isa(const char *isa, const cero_kernels **out);

/* Name of instruction set i, lowest first; NULL at the end. */
const char *cero_kernels_isa_name(int i);

#endif
