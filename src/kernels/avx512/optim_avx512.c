/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The optimizers' inner loops, 16 elements at a time.
 *
 * One pass over memory: every stream is read once and written once, the divide and the square root
 * hide behind the loads of later blocks. The tail runs through the same block with a mask and all
 * products are explicit fused ones, so an element gets the same bits wherever a range is cut.
 * Ordinary stores: the states were just read, so their lines are in the cache. No software prefetch
 * and no further unrolling: both measured slower or equal on Zen 4 (bench/adamw.c).
 */
#include "kernels/isa.h"

#include <immintrin.h>

#define ALWAYS_INLINE static inline __attribute__((always_inline))

enum {
    LANES = 16
};

ALWAYS_INLINE __mmask16 tail_mask(int64_t count)
{
    return (__mmask16)((1u << count) - 1u);
}

ALWAYS_INLINE __m512 load_f32(const float *x, int64_t count)
{
    return count == LANES ? _mm512_loadu_ps(x) : _mm512_maskz_loadu_ps(tail_mask(count), x);
}

ALWAYS_INLINE void store_f32(float *y, int64_t count, __m512 value)
{
    if (count == LANES) {
        _mm512_storeu_ps(y, value);
    } else {
        _mm512_mask_storeu_ps(y, tail_mask(count), value);
    }
}

/* Elements i .. i + count of an array of any type as f32; lanes beyond are zero. */
ALWAYS_INLINE __m512 load(cero_dtype dtype, const void *x, int64_t i, int64_t count)
{
    if (dtype == CERO_DTYPE_F32) {
        return load_f32((const float *)x + i, count);
    }
    const uint16_t *half = (const uint16_t *)x + i;
    __m256i words = count == LANES ? _mm256_loadu_si256((const __m256i *)(const void *)half)
                                   : _mm256_maskz_loadu_epi16(tail_mask(count), half);
    if (dtype == CERO_DTYPE_F16) {
        return _mm512_cvtph_ps(words);
    }
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(words), 16));
}

/* Round to nearest even by integers: the bf16 instruction would flush denormals. */
ALWAYS_INLINE __m256i to_bf16(__m512 value)
{
    __m512i bits = _mm512_castps_si512(value);
    __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    __m512i rounded = _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff)));
    __m512i quiet = _mm512_or_si512(bits, _mm512_set1_epi32(0x400000));
    __mmask16 is_nan = _mm512_cmp_ps_mask(value, value, _CMP_UNORD_Q);

    rounded = _mm512_mask_mov_epi32(rounded, is_nan, quiet);
    return _mm512_cvtepi32_epi16(_mm512_srli_epi32(rounded, 16));
}

ALWAYS_INLINE void store(cero_dtype dtype, void *y, int64_t i, int64_t count, __m512 value)
{
    if (dtype == CERO_DTYPE_F32) {
        store_f32((float *)y + i, count, value);
        return;
    }
    uint16_t *half = (uint16_t *)y + i;
    __m256i words = dtype == CERO_DTYPE_F16
                        ? _mm512_cvtps_ph(value, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)
                        : to_bf16(value);
    if (count == LANES) {
        _mm256_storeu_si256((__m256i *)(void *)half, words);
    } else {
        _mm256_mask_storeu_epi16(half, tail_mask(count), words);
    }
}

/* The scalars of AdamW, spread over the lanes. */
typedef struct adamw_lanes {
    __m512 grad_scale;
    __m512 decay; /* -lr * wd when decoupled, else wd */
    __m512 beta1;
    __m512 beta2;
    __m512 rest1; /* 1 - beta1 */
    __m512 rest2;
    __m512 inv_sqrt_bias2;
    __m512 eps;
    __m512 step_size;
    bool is_decoupled;
} adamw_lanes;

ALWAYS_INLINE adamw_lanes adamw_spread(const cero_adamw_args *args)
{
    float decay = args->is_decoupled ? -args->lr * args->weight_decay : args->weight_decay;

    return (adamw_lanes){
        .grad_scale = _mm512_set1_ps(args->grad_scale),
        .decay = _mm512_set1_ps(decay),
        .beta1 = _mm512_set1_ps(args->beta1),
        .beta2 = _mm512_set1_ps(args->beta2),
        .rest1 = _mm512_set1_ps(1.0f - args->beta1),
        .rest2 = _mm512_set1_ps(1.0f - args->beta2),
        .inv_sqrt_bias2 = _mm512_set1_ps(args->inv_sqrt_bias2),
        .eps = _mm512_set1_ps(args->eps),
        .step_size = _mm512_set1_ps(args->step_size),
        .is_decoupled = args->is_decoupled,
    };
}

/* One block of count <= 16 elements; returns the new weights. */
ALWAYS_INLINE __m512 adamw_block(const adamw_lanes *c, int64_t count, __m512 grad, float *master,
                                 float *exp_avg, float *exp_avg_sq)
{
    __m512 p = load_f32(master, count);
    __m512 m = load_f32(exp_avg, count);
    __m512 v = load_f32(exp_avg_sq, count);
    __m512 g = _mm512_mul_ps(c->grad_scale, grad);

    if (c->is_decoupled) {
        p = _mm512_fmadd_ps(c->decay, p, p);
    } else {
        g = _mm512_fmadd_ps(c->decay, p, g);
    }
    m = _mm512_fmadd_ps(c->rest1, g, _mm512_mul_ps(c->beta1, m));
    v = _mm512_fmadd_ps(_mm512_mul_ps(c->rest2, g), g, _mm512_mul_ps(c->beta2, v));
    __m512 denominator = _mm512_fmadd_ps(_mm512_sqrt_ps(v), c->inv_sqrt_bias2, c->eps);
    p = _mm512_fnmadd_ps(c->step_size, _mm512_div_ps(m, denominator), p);
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
        __m512 p = adamw_block(&c, LANES, load(grad_dtype, grad, i, LANES), master + i, exp_avg + i,
                               exp_avg_sq + i);
        if (copy != NULL) {
            store(copy_dtype, copy, i, LANES, p);
        }
    }
    if (i < n) {
        __m512 p = adamw_block(&c, n - i, load(grad_dtype, grad, i, n - i), master + i, exp_avg + i,
                               exp_avg_sq + i);
        if (copy != NULL) {
            store(copy_dtype, copy, i, n - i, p);
        }
    }
}

ALWAYS_INLINE void sgd_block(const cero_sgd_args *args, int64_t count, __m512 grad, float *master,
                             float *momentum)
{
    __m512 mu = _mm512_set1_ps(args->momentum);
    __m512 p = load_f32(master, count);
    __m512 g = _mm512_fmadd_ps(_mm512_set1_ps(args->weight_decay), p,
                               _mm512_mul_ps(_mm512_set1_ps(args->grad_scale), grad));

    if (args->momentum != 0.0f) {
        __m512 b = g;
        if (!args->is_first) {
            b = _mm512_fmadd_ps(_mm512_set1_ps(1.0f - args->dampening), g,
                                _mm512_mul_ps(mu, load_f32(momentum, count)));
        }
        store_f32(momentum, count, b);
        g = args->is_nesterov ? _mm512_fmadd_ps(mu, b, g) : b;
    }
    store_f32(master, count, _mm512_fnmadd_ps(_mm512_set1_ps(args->lr), g, p));
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

ALWAYS_INLINE void adagrad_block(const cero_adagrad_args *args, int64_t count, __m512 grad,
                                 float *master, float *sum)
{
    __m512 p = load_f32(master, count);
    __m512 g = _mm512_mul_ps(_mm512_set1_ps(args->grad_scale), grad);
    __m512 decayed = _mm512_fmadd_ps(_mm512_set1_ps(args->weight_decay), p, g);
    __m512 v = _mm512_fmadd_ps(decayed, decayed, load_f32(sum, count));
    __m512 denominator = _mm512_add_ps(_mm512_sqrt_ps(v), _mm512_set1_ps(args->eps));

    p = _mm512_fnmadd_ps(_mm512_set1_ps(args->lr), _mm512_div_ps(g, denominator), p);
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

ALWAYS_INLINE void lion_block(const cero_lion_args *args, int64_t count, __m512 grad, float *master,
                              float *exp_avg)
{
    __m512 keep = _mm512_set1_ps(1.0f - args->lr * args->weight_decay);
    __m512 p = load_f32(master, count);
    __m512 m = load_f32(exp_avg, count);
    __m512 g = _mm512_mul_ps(_mm512_set1_ps(args->grad_scale), grad);
    __m512 c = _mm512_fmadd_ps(_mm512_set1_ps(1.0f - args->beta1), g,
                               _mm512_mul_ps(_mm512_set1_ps(args->beta1), m));
    __mmask16 is_up = _mm512_cmp_ps_mask(c, _mm512_setzero_ps(), _CMP_GT_OQ);
    __mmask16 is_nan = _mm512_cmp_ps_mask(c, c, _CMP_UNORD_Q);
    __m512 step = _mm512_mask_blend_ps(is_up, _mm512_set1_ps(args->lr), _mm512_set1_ps(-args->lr));

    step = _mm512_mask_blend_ps(is_nan, step, c);
    m = _mm512_fmadd_ps(_mm512_set1_ps(1.0f - args->beta2), g,
                        _mm512_mul_ps(_mm512_set1_ps(args->beta2), m));
    store_f32(master, count, _mm512_fmadd_ps(keep, p, step));
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
ALWAYS_INLINE __m512 lamb_block(const cero_lamb_args *args, int64_t count, __m512 grad,
                                const float *master, float *exp_avg, float *exp_avg_sq)
{
    __m512 eps = _mm512_set1_ps(args->eps);
    __m512 m = load_f32(exp_avg, count);
    __m512 v = load_f32(exp_avg_sq, count);
    __m512 g = _mm512_mul_ps(_mm512_set1_ps(args->grad_scale), grad);

    m = _mm512_fmadd_ps(_mm512_set1_ps(1.0f - args->beta1), g,
                        _mm512_mul_ps(_mm512_set1_ps(args->beta1), m));
    v = _mm512_fmadd_ps(_mm512_mul_ps(_mm512_set1_ps(1.0f - args->beta2), g), g,
                        _mm512_mul_ps(_mm512_set1_ps(args->beta2), v));
    store_f32(exp_avg, count, m);
    store_f32(exp_avg_sq, count, v);
    __m512 denominator = args->eps_inside_sqrt ? _mm512_sqrt_ps(_mm512_add_ps(v, eps))
                                               : _mm512_add_ps(_mm512_sqrt_ps(v), eps);
    return _mm512_fmadd_ps(_mm512_set1_ps(args->weight_decay), load_f32(master, count),
                           _mm512_div_ps(m, denominator));
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
    __m512 factor = _mm512_set1_ps(s);
    int64_t i = 0;

    for (; i + LANES <= n; i += LANES) {
        store_f32(y + i, LANES,
                  _mm512_fmadd_ps(factor, load_f32(x + i, LANES), load_f32(y + i, LANES)));
    }
    if (i < n) {
        store_f32(y + i, n - i,
                  _mm512_fmadd_ps(factor, load_f32(x + i, n - i), load_f32(y + i, n - i)));
    }
}

#undef ALWAYS_INLINE

#include "kernels/optim_tmpl.c"

void cero_kernels_optim_init_avx512(cero_kernels *k)
{
    fill_optim_pointers(k);
}
