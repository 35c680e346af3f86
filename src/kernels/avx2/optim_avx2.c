/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The optimizers' inner loops, 8 elements at a time.
 *
 * One pass over memory. The tail runs through the same block with a mask and all products are explicit
 * fused ones, so an element gets the same bits wherever a range is cut.
 */
#include "kernels/isa.h"

#include <immintrin.h>
#include <string.h>

#define ALWAYS_INLINE static inline __attribute__((always_inline))

enum {
    LANES = 8
};

/* All ones in the first count lanes. */
ALWAYS_INLINE __m256i tail_mask(int64_t count)
{
    __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);

    return _mm256_cmpgt_epi32(_mm256_set1_epi32((int)count), lane);
}

ALWAYS_INLINE __m256 load_f32(const float *x, int64_t count)
{
    return count == LANES ? _mm256_loadu_ps(x) : _mm256_maskload_ps(x, tail_mask(count));
}

ALWAYS_INLINE void store_f32(float *y, int64_t count, __m256 value)
{
    if (count == LANES) {
        _mm256_storeu_ps(y, value);
    } else {
        _mm256_maskstore_ps(y, tail_mask(count), value);
    }
}

/* Elements i .. i + count of an array of any type as f32; lanes beyond are zero. */
ALWAYS_INLINE __m256 load(cero_dtype dtype, const void *x, int64_t i, int64_t count)
{
    if (dtype == CERO_DTYPE_F32) {
        return load_f32((const float *)x + i, count);
    }
    const uint16_t *half = (const uint16_t *)x + i;
    __m128i words = _mm_setzero_si128();
    if (count == LANES) {
        words = _mm_loadu_si128((const __m128i *)(const void *)half);
    } else {
        // There is no masked load of 16-bit lanes.
        memcpy(&words, half, (size_t)count * sizeof(*half));
    }
    if (dtype == CERO_DTYPE_F16) {
        return _mm256_cvtph_ps(words);
    }
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(words), 16));
}

/* Round to nearest even; NaNs stay NaNs. */
ALWAYS_INLINE __m128i to_bf16(__m256 value)
{
    __m256i bits = _mm256_castps_si256(value);
    __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    __m256i rounded = _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
    __m256i quiet = _mm256_or_si256(bits, _mm256_set1_epi32(0x400000));
    __m256i is_nan = _mm256_castps_si256(_mm256_cmp_ps(value, value, _CMP_UNORD_Q));

    rounded = _mm256_srli_epi32(_mm256_blendv_epi8(rounded, quiet, is_nan), 16);
    return _mm_packus_epi32(_mm256_castsi256_si128(rounded), _mm256_extracti128_si256(rounded, 1));
}

ALWAYS_INLINE void store(cero_dtype dtype, void *y, int64_t i, int64_t count, __m256 value)
{
    if (dtype == CERO_DTYPE_F32) {
        store_f32((float *)y + i, count, value);
        return;
    }
    uint16_t *half = (uint16_t *)y + i;
    __m128i words = dtype == CERO_DTYPE_F16
                        ? _mm256_cvtps_ph(value, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)
                        : to_bf16(value);
    if (count == LANES) {
        _mm_storeu_si128((__m128i *)(void *)half, words);
    } else {
        memcpy(half, &words, (size_t)count * sizeof(*half));
    }
}

/* The scalars of AdamW, spread over the lanes. */
typedef struct adamw_lanes {
    __m256 grad_scale;
    __m256 decay; /* -lr * wd when decoupled, else wd */
    __m256 beta1;
    __m256 beta2;
    __m256 rest1; /* 1 - beta1 */
    __m256 rest2;
    __m256 inv_sqrt_bias2;
    __m256 eps;
    __m256 step_size;
    bool is_decoupled;
} adamw_lanes;

ALWAYS_INLINE adamw_lanes adamw_spread(const cero_adamw_args *args)
{
    float decay = args->is_decoupled ? -args->lr * args->weight_decay : args->weight_decay;

    return (adamw_lanes){
        .grad_scale = _mm256_set1_ps(args->grad_scale),
        .decay = _mm256_set1_ps(decay),
        .beta1 = _mm256_set1_ps(args->beta1),
        .beta2 = _mm256_set1_ps(args->beta2),
        .rest1 = _mm256_set1_ps(1.0f - args->beta1),
        .rest2 = _mm256_set1_ps(1.0f - args->beta2),
        .inv_sqrt_bias2 = _mm256_set1_ps(args->inv_sqrt_bias2),
        .eps = _mm256_set1_ps(args->eps),
        .step_size = _mm256_set1_ps(args->step_size),
        .is_decoupled = args->is_decoupled,
    };
}

/* One block of count <= 8 elements; returns the new weights. */
ALWAYS_INLINE __m256 adamw_block(const adamw_lanes *c, int64_t count, __m256 grad, float *master,
                                 float *exp_avg, float *exp_avg_sq)
{
    __m256 p = load_f32(master, count);
    __m256 m = load_f32(exp_avg, count);
    __m256 v = load_f32(exp_avg_sq, count);
    __m256 g = _mm256_mul_ps(c->grad_scale, grad);

    if (c->is_decoupled) {
        p = _mm256_fmadd_ps(c->decay, p, p);
    } else {
        g = _mm256_fmadd_ps(c->decay, p, g);
    }
    m = _mm256_fmadd_ps(c->rest1, g, _mm256_mul_ps(c->beta1, m));
    v = _mm256_fmadd_ps(_mm256_mul_ps(c->rest2, g), g, _mm256_mul_ps(c->beta2, v));
    __m256 denominator = _mm256_fmadd_ps(_mm256_sqrt_ps(v), c->inv_sqrt_bias2, c->eps);
    p = _mm256_fnmadd_ps(c->step_size, _mm256_div_ps(m, denominator), p);
    store_f32(master, count, p);
    store_f32(exp_avg, count, m);
    store_f32(exp_avg_sq, count, v);
    return p;
}

ALWAYS_INLINE void adamw_range(int64_t n, const cero_adamw_args *args, cero_dtype grad_dtype,
                               const void *grad, float *master, float *exp_avg, float *exp_avg_sq,
                               cero_dtype copy_dtype, void *copy)
{
    adamw_lanes c = adamw_spread(args);
    int64_t i = 0;

    for (; i + LANES <= n; i += LANES) {
        __m256 p = adamw_block(&c, LANES, load(grad_dtype, grad, i, LANES), master + i, exp_avg + i,
                               exp_avg_sq + i);
        if (copy != NULL) {
            store(copy_dtype, copy, i, LANES, p);
        }
    }
    if (i < n) {
        __m256 p = adamw_block(&c, n - i, load(grad_dtype, grad, i, n - i), master + i, exp_avg + i,
                               exp_avg_sq + i);
        if (copy != NULL) {
            store(copy_dtype, copy, i, n - i, p);
        }
    }
}

ALWAYS_INLINE void sgd_block(const cero_sgd_args *args, int64_t count, __m256 grad, float *master,
                             float *momentum)
{
    __m256 mu = _mm256_set1_ps(args->momentum);
    __m256 p = load_f32(master, count);
    __m256 g = _mm256_fmadd_ps(_mm256_set1_ps(args->weight_decay), p,
                               _mm256_mul_ps(_mm256_set1_ps(args->grad_scale), grad));

    if (args->momentum != 0.0f) {
        __m256 b = g;
        if (!args->is_first) {
            b = _mm256_fmadd_ps(_mm256_set1_ps(1.0f - args->dampening), g,
                                _mm256_mul_ps(mu, load_f32(momentum, count)));
        }
        store_f32(momentum, count, b);
        g = args->is_nesterov ? _mm256_fmadd_ps(mu, b, g) : b;
    }
    store_f32(master, count, _mm256_fnmadd_ps(_mm256_set1_ps(args->lr), g, p));
}

ALWAYS_INLINE void sgd_range(int64_t n, const cero_sgd_args *args, cero_dtype grad_dtype,
                             const void *grad, float *master, float *momentum)
{
    // Without momentum the buffer may be NULL and is not touched: no arithmetic on it either.
    bool has_momentum = args->momentum != 0.0f;
    int64_t i = 0;

    for (; i + LANES <= n; i += LANES) {
        sgd_block(args, LANES, load(grad_dtype, grad, i, LANES), master + i,
                  has_momentum ? momentum + i : NULL);
    }
    if (i < n) {
        sgd_block(args, n - i, load(grad_dtype, grad, i, n - i), master + i,
                  has_momentum ? momentum + i : NULL);
    }
}

ALWAYS_INLINE void adagrad_block(const cero_adagrad_args *args, int64_t count, __m256 grad,
                                 float *master, float *sum)
{
    __m256 p = load_f32(master, count);
    __m256 g = _mm256_mul_ps(_mm256_set1_ps(args->grad_scale), grad);
    __m256 decayed = _mm256_fmadd_ps(_mm256_set1_ps(args->weight_decay), p, g);
    __m256 v = _mm256_fmadd_ps(decayed, decayed, load_f32(sum, count));
    __m256 denominator = _mm256_add_ps(_mm256_sqrt_ps(v), _mm256_set1_ps(args->eps));

    p = _mm256_fnmadd_ps(_mm256_set1_ps(args->lr), _mm256_div_ps(g, denominator), p);
    store_f32(master, count, p);
    store_f32(sum, count, v);
}

ALWAYS_INLINE void adagrad_range(int64_t n, const cero_adagrad_args *args, cero_dtype grad_dtype,
                                 const void *grad, float *master, float *sum)
{
    int64_t i = 0;

    for (; i + LANES <= n; i += LANES) {
        adagrad_block(args, LANES, load(grad_dtype, grad, i, LANES), master + i, sum + i);
    }
    if (i < n) {
        adagrad_block(args, n - i, load(grad_dtype, grad, i, n - i), master + i, sum + i);
    }
}

ALWAYS_INLINE void lion_block(const cero_lion_args *args, int64_t count, __m256 grad, float *master,
                              float *exp_avg)
{
    __m256 keep = _mm256_set1_ps(1.0f - args->lr * args->weight_decay);
    __m256 p = load_f32(master, count);
    __m256 m = load_f32(exp_avg, count);
    __m256 g = _mm256_mul_ps(_mm256_set1_ps(args->grad_scale), grad);
    __m256 c = _mm256_fmadd_ps(_mm256_set1_ps(1.0f - args->beta1), g,
                               _mm256_mul_ps(_mm256_set1_ps(args->beta1), m));
    __m256 is_up = _mm256_cmp_ps(c, _mm256_setzero_ps(), _CMP_GT_OQ);
    __m256 is_nan = _mm256_cmp_ps(c, c, _CMP_UNORD_Q);
    __m256 step = _mm256_blendv_ps(_mm256_set1_ps(args->lr), _mm256_set1_ps(-args->lr), is_up);

    step = _mm256_blendv_ps(step, c, is_nan);
    m = _mm256_fmadd_ps(_mm256_set1_ps(1.0f - args->beta2), g,
                        _mm256_mul_ps(_mm256_set1_ps(args->beta2), m));
    store_f32(master, count, _mm256_fmadd_ps(keep, p, step));
    store_f32(exp_avg, count, m);
}

ALWAYS_INLINE void lion_range(int64_t n, const cero_lion_args *args, cero_dtype grad_dtype,
                              const void *grad, float *master, float *exp_avg)
{
    int64_t i = 0;

    for (; i + LANES <= n; i += LANES) {
        lion_block(args, LANES, load(grad_dtype, grad, i, LANES), master + i, exp_avg + i);
    }
    if (i < n) {
        lion_block(args, n - i, load(grad_dtype, grad, i, n - i), master + i, exp_avg + i);
    }
}

/* Moves the moments; returns the direction. */
ALWAYS_INLINE __m256 lamb_block(const cero_lamb_args *args, int64_t count, __m256 grad,
                                const float *master, float *exp_avg, float *exp_avg_sq)
{
    __m256 eps = _mm256_set1_ps(args->eps);
    __m256 m = load_f32(exp_avg, count);
    __m256 v = load_f32(exp_avg_sq, count);
    __m256 g = _mm256_mul_ps(_mm256_set1_ps(args->grad_scale), grad);

    m = _mm256_fmadd_ps(_mm256_set1_ps(1.0f - args->beta1), g,
                        _mm256_mul_ps(_mm256_set1_ps(args->beta1), m));
    v = _mm256_fmadd_ps(_mm256_mul_ps(_mm256_set1_ps(1.0f - args->beta2), g), g,
                        _mm256_mul_ps(_mm256_set1_ps(args->beta2), v));
    store_f32(exp_avg, count, m);
    store_f32(exp_avg_sq, count, v);
    __m256 denominator = args->eps_inside_sqrt ? _mm256_sqrt_ps(_mm256_add_ps(v, eps))
                                               : _mm256_add_ps(_mm256_sqrt_ps(v), eps);
    return _mm256_fmadd_ps(_mm256_set1_ps(args->weight_decay), load_f32(master, count),
                           _mm256_div_ps(m, denominator));
}

ALWAYS_INLINE void lamb_range(int64_t n, const cero_lamb_args *args, cero_dtype grad_dtype,
                              const void *grad, const float *master, float *exp_avg,
                              float *exp_avg_sq, float *update)
{
    int64_t i = 0;

    for (; i + LANES <= n; i += LANES) {
        store_f32(update + i, LANES,
                  lamb_block(args, LANES, load(grad_dtype, grad, i, LANES), master + i, exp_avg + i,
                             exp_avg_sq + i));
    }
    if (i < n) {
        store_f32(update + i, n - i,
                  lamb_block(args, n - i, load(grad_dtype, grad, i, n - i), master + i, exp_avg + i,
                             exp_avg_sq + i));
    }
}

static void axpy_range(int64_t n, float s, const float *x, float *y)
{
    __m256 factor = _mm256_set1_ps(s);
    int64_t i = 0;

    for (; i + LANES <= n; i += LANES) {
        store_f32(y + i, LANES,
                  _mm256_fmadd_ps(factor, load_f32(x + i, LANES), load_f32(y + i, LANES)));
    }
    if (i < n) {
        store_f32(y + i, n - i,
                  _mm256_fmadd_ps(factor, load_f32(x + i, n - i), load_f32(y + i, n - i)));
    }
}

#undef ALWAYS_INLINE

#include "kernels/optim_tmpl.c"

void cero_kernels_optim_init_avx2(cero_kernels *k)
{
    fill_optim_pointers(k);
}
