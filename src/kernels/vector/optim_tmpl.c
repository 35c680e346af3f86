/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The optimizers' inner loops, for one dtype of the gradient: formulas as in ref/optim_tmpl.c.
 *
 * One pass over memory: every stream is read once and written once, the divide and the square root
 * hide behind the loads of later vectors. The tail runs through the same step with m < VEC_WIDTH and all
 * products are explicit fused ones, so an element gets the same bits wherever a range is cut.
 * Ordinary stores: the states were just read, so their lines are in the cache. No software prefetch
 * and no further unrolling: both measured slower or equal on Zen 4 (bench/adamw.c).
 */

/* beta * moment + (1 - beta) * x */
KERNEL_INLINE vec FN(blend)(float beta, vec moment, vec x)
{
    return vec_fma(vec_set(1.0f - beta), x, vec_set(beta) * moment);
}

/* beta * moment + (1 - beta) * g^2 */
KERNEL_INLINE vec FN(blend_square)(float beta, vec moment, vec g)
{
    return vec_fma(vec_set(1.0f - beta) * g, g, vec_set(beta) * moment);
}

KERNEL_INLINE vec FN(gradient)(const void *grad, int64_t i, int64_t m, float scale)
{
    return vec_set(scale) * LOAD_PART((const ELEMENT *)grad + i, m);
}

/* Moves m <= VEC_WIDTH elements from the i-th on, with the decay of FN(adamw); returns the new weights. */
KERNEL_INLINE vec FN(adamw_step)(const cero_adamw_args *args, int64_t i, int64_t m,
                                 const void *grad, float *master, float *exp_avg, float *exp_avg_sq)
{
    vec p = load_part_f32(master + i, m);
    vec g = FN(gradient)(grad, i, m, args->grad_scale);

    if (args->is_decoupled) {
        p = vec_fma(vec_set(args->weight_decay), p, p);
    } else {
        g = vec_fma(vec_set(args->weight_decay), p, g);
    }
    vec avg = FN(blend)(args->beta1, load_part_f32(exp_avg + i, m), g);
    vec square = FN(blend_square)(args->beta2, load_part_f32(exp_avg_sq + i, m), g);
    vec root = vec_sqrt(square);
    vec denominator = vec_fma(root, vec_set(args->inv_sqrt_bias2), vec_set(args->eps));
    p = vec_fnma(vec_set(args->step_size), avg / denominator, p);
    store_part_f32(master + i, m, p);
    store_part_f32(exp_avg + i, m, avg);
    store_part_f32(exp_avg_sq + i, m, square);
    return p;
}

/* Inlined with a constant copy_dtype. */
KERNEL_INLINE void FN(adamw)(int64_t n, const cero_adamw_args *args, const void *grad,
                             float *master, float *exp_avg, float *exp_avg_sq,
                             cero_dtype copy_dtype, void *copy)
{
    // A copy of its own: what the stores below may change would be read again for each vector.
    cero_adamw_args a = *args;
    int64_t i = 0;

    if (a.is_decoupled) {
        a.weight_decay *= -a.lr; // p += -lr * wd * p
    }
    for (; i + VEC_WIDTH <= n; i += VEC_WIDTH) {
        vec p = FN(adamw_step)(&a, i, VEC_WIDTH, grad, master, exp_avg, exp_avg_sq);
        if (copy != NULL) {
            store_any(copy_dtype, copy, i, VEC_WIDTH, p);
        }
    }
    if (i < n) {
        vec p = FN(adamw_step)(&a, i, n - i, grad, master, exp_avg, exp_avg_sq);
        if (copy != NULL) {
            store_any(copy_dtype, copy, i, n - i, p);
        }
    }
}

KERNEL_INLINE void FN(sgd_step)(const cero_sgd_args *args, int64_t i, int64_t m, const void *grad,
                                float *master, float *momentum)
{
    vec mu = vec_set(args->momentum);
    vec p = load_part_f32(master + i, m);
    vec g = FN(gradient)(grad, i, m, args->grad_scale);

    g = vec_fma(vec_set(args->weight_decay), p, g);
    // Without momentum the buffer may be NULL and is not touched: no arithmetic on it either.
    if (args->momentum != 0.0f) {
        vec b = g;
        if (!args->is_first) {
            b = vec_fma(vec_set(1.0f - args->dampening), g, mu * load_part_f32(momentum + i, m));
        }
        store_part_f32(momentum + i, m, b);
        g = args->is_nesterov ? vec_fma(mu, b, g) : b;
    }
    store_part_f32(master + i, m, vec_fnma(vec_set(args->lr), g, p));
}

static void FN(sgd)(int64_t n, const cero_sgd_args *args, const void *grad, float *master,
                    float *momentum)
{
    const cero_sgd_args a = *args;
    int64_t i = 0;

    for (; i + VEC_WIDTH <= n; i += VEC_WIDTH) {
        FN(sgd_step)(&a, i, VEC_WIDTH, grad, master, momentum);
    }
    if (i < n) {
        FN(sgd_step)(&a, i, n - i, grad, master, momentum);
    }
}

KERNEL_INLINE void FN(adagrad_step)(const cero_adagrad_args *args, int64_t i, int64_t m,
                                    const void *grad, float *master, float *sum)
{
    vec p = load_part_f32(master + i, m);
    vec g = FN(gradient)(grad, i, m, args->grad_scale);
    vec decayed = vec_fma(vec_set(args->weight_decay), p, g);
    vec v = vec_fma(decayed, decayed, load_part_f32(sum + i, m));
    vec denominator = vec_sqrt(v) + vec_set(args->eps);

    store_part_f32(master + i, m, vec_fnma(vec_set(args->lr), g / denominator, p));
    store_part_f32(sum + i, m, v);
}

static void FN(adagrad)(int64_t n, const cero_adagrad_args *args, const void *grad, float *master,
                        float *sum)
{
    const cero_adagrad_args a = *args;
    int64_t i = 0;

    for (; i + VEC_WIDTH <= n; i += VEC_WIDTH) {
        FN(adagrad_step)(&a, i, VEC_WIDTH, grad, master, sum);
    }
    if (i < n) {
        FN(adagrad_step)(&a, i, n - i, grad, master, sum);
    }
}

KERNEL_INLINE void FN(lion_step)(const cero_lion_args *args, int64_t i, int64_t m, const void *grad,
                                 float *master, float *exp_avg)
{
    vec zero = vec_set(0.0f);
    vec p = load_part_f32(master + i, m);
    vec avg = load_part_f32(exp_avg + i, m);
    vec g = FN(gradient)(grad, i, m, args->grad_scale);
    vec c = FN(blend)(args->beta1, avg, g);
    // NaN is neither above 0 nor below, and stays.
    vec step = vec_select(vec_less(zero, c), vec_set(-args->lr), c);

    step = vec_select(vec_less_equal(c, zero), vec_set(args->lr), step);
    p = vec_fma(vec_set(1.0f - args->lr * args->weight_decay), p, step);
    store_part_f32(master + i, m, p);
    store_part_f32(exp_avg + i, m, FN(blend)(args->beta2, avg, g));
}

static void FN(lion)(int64_t n, const cero_lion_args *args, const void *grad, float *master,
                     float *exp_avg)
{
    const cero_lion_args a = *args;
    int64_t i = 0;

    for (; i + VEC_WIDTH <= n; i += VEC_WIDTH) {
        FN(lion_step)(&a, i, VEC_WIDTH, grad, master, exp_avg);
    }
    if (i < n) {
        FN(lion_step)(&a, i, n - i, grad, master, exp_avg);
    }
}

KERNEL_INLINE void FN(lamb_step)(const cero_lamb_args *args, int64_t i, int64_t m, const void *grad,
                                 const float *master, float *exp_avg, float *exp_avg_sq,
                                 float *update)
{
    vec eps = vec_set(args->eps);
    vec p = load_part_f32(master + i, m);
    vec g = FN(gradient)(grad, i, m, args->grad_scale);
    vec avg = FN(blend)(args->beta1, load_part_f32(exp_avg + i, m), g);
    vec square = FN(blend_square)(args->beta2, load_part_f32(exp_avg_sq + i, m), g);
    vec denominator =
        args->eps_inside_sqrt ? vec_sqrt(vec_add(square, eps)) : vec_add(vec_sqrt(square), eps);

    store_part_f32(exp_avg + i, m, avg);
    store_part_f32(exp_avg_sq + i, m, square);
    store_part_f32(update + i, m, vec_fma(vec_set(args->weight_decay), p, avg / denominator));
}

static void FN(lamb_direction)(int64_t n, const cero_lamb_args *args, const void *grad,
                               const float *master, float *exp_avg, float *exp_avg_sq,
                               float *update)
{
    const cero_lamb_args a = *args;
    int64_t i = 0;

    for (; i + VEC_WIDTH <= n; i += VEC_WIDTH) {
        FN(lamb_step)(&a, i, VEC_WIDTH, grad, master, exp_avg, exp_avg_sq, update);
    }
    if (i < n) {
        FN(lamb_step)(&a, i, n - i, grad, master, exp_avg, exp_avg_sq, update);
    }
}

#include "kernels/optim_tmpl.c"
