/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every instruction set's optimizer loops follow the formulas, computed here in double, for all
 * storage types, sizes and alignments; they touch no byte outside, and an element's bits do not
 * depend on where the range is cut.
 */
#include "harness.h"

#include "base/rng.h"
#include "kernels/kernels.h"

#include <inttypes.h>
#include <math.h>

enum {
    MAX_N = 1027,
    STEPS = 4,
    GUARD = 64 /* bytes before and after each array */
};

static const int64_t sizes[] = {0, 1, 2, 7, 8, 9, 15, 16, 17, 31, 33, 64, 100, 1027};

typedef enum op_kind {
    OP_ADAMW,
    OP_ADAM,
    OP_SGD,
    OP_SGD_PLAIN,
    OP_ADAGRAD,
    OP_LION,
    OP_LAMB,
    OP_LAMB_INSIDE,
    OP_COUNT
} op_kind;

/* One array inside guard bytes. */
typedef struct guarded {
    unsigned char bytes[GUARD + sizeof(float) * (MAX_N + 1) + GUARD];
    size_t begin;
    size_t nbytes;
} guarded;

/* What an update reads and writes; copy has no meaning but for AdamW, update but for LAMB. */
typedef struct state {
    guarded grad;
    guarded master;
    guarded exp_avg;
    guarded exp_avg_sq;
    guarded out; /* copy or update */
    cero_dtype grad_dtype;
    cero_dtype copy_dtype;
    int64_t n;
} state;

/* Storage formats, told by their numbers: an oracle that shares nothing with the kernels. */
typedef struct format {
    int exponent_bits;
    int fraction_bits;
} format;

static const format formats[CERO_FLOAT_DTYPES] = {{8, 23}, {8, 7}, {5, 10}};

static double decode(cero_dtype dtype, const void *x, int64_t i)
{
    if (dtype == CERO_DTYPE_F32) {
        float value;
        memcpy(&value, (const char *)x + i * 4, sizeof(value));
        return (double)value;
    }
    uint16_t bits;
    memcpy(&bits, (const char *)x + i * 2, sizeof(bits));
    format f = formats[dtype];
    int bias = (1 << (f.exponent_bits - 1)) - 1;
    int exponent = (bits >> f.fraction_bits) & ((1 << f.exponent_bits) - 1);
    int fraction = bits & ((1 << f.fraction_bits) - 1);
    double sign = (bits & 0x8000) != 0 ? -1.0 : 1.0;

    if (exponent == (1 << f.exponent_bits) - 1) {
        return fraction != 0 ? (double)NAN : sign * (double)INFINITY;
    }
    if (exponent == 0) {
        return sign * ldexp(fraction, 1 - bias - f.fraction_bits);
    }
    return sign * ldexp(fraction + (1 << f.fraction_bits), exponent - bias - f.fraction_bits);
}

/* The nearest value of the format, ties to even. */
static double round_to(cero_dtype dtype, double x)
{
    format f = formats[dtype];
    int bias = (1 << (f.exponent_bits - 1)) - 1;
    int exponent;

    if (!isfinite(x) || x == 0.0) {
        return x;
    }
    (void)frexp(x, &exponent); // |x| in [2^(exponent-1), 2^exponent)
    exponent = exponent - 1 < 1 - bias ? 1 - bias : exponent - 1;
    double quantum = ldexp(1.0, exponent - f.fraction_bits);
    double rounded = nearbyint(x / quantum) * quantum;
    double limit = ldexp(2.0 - ldexp(1.0, -f.fraction_bits), bias);
    return fabs(rounded) > limit ? copysign((double)INFINITY, x) : rounded;
}

/* Stores a value that the format holds exactly. */
static void encode(cero_dtype dtype, void *x, int64_t i, double value)
{
    if (dtype == CERO_DTYPE_F32) {
        float f = (float)value;
        memcpy((char *)x + i * 4, &f, sizeof(f));
        return;
    }
    for (uint32_t bits = 0; bits < 0x10000; bits++) {
        uint16_t word = (uint16_t)bits;
        double candidate = decode(dtype, &word, 0);
        if (candidate == value || (isnan(candidate) && isnan(value))) {
            memcpy((char *)x + i * 2, &word, sizeof(word));
            return;
        }
    }
    fail_msg("%g is no value of %s", value, cero_dtype_name(dtype));
}

static void *data(guarded *g)
{
    return g->bytes + g->begin;
}

static const float *floats(guarded *g)
{
    return (const float *)(const void *)(g->bytes + g->begin);
}

static void guard_init(guarded *g, size_t nbytes, size_t shift)
{
    memset(g->bytes, 0xA5, sizeof(g->bytes));
    g->begin = GUARD + shift;
    g->nbytes = nbytes;
}

static void guard_check(const guarded *g, const char *what)
{
    for (size_t i = 0; i < sizeof(g->bytes); i++) {
        bool is_inside = i >= g->begin && i < g->begin + g->nbytes;
        if (!is_inside && g->bytes[i] != 0xA5) {
            fail_msg("%s: byte %td beside the array was written", what,
                     (ptrdiff_t)i - (ptrdiff_t)g->begin);
        }
    }
}

/* Gradients repeat a short list, so that 16-bit ones are encoded quickly. */
static double grad_value(int64_t i, int step)
{
    static const double values[] = {0.5, -1.25, 0.0, 3.0, -0.015625, 0.375, -2.0, 1.0};
    return values[(i * 3 + step) % 8] * (step % 2 == 0 ? 1.0 : -1.0);
}

static double uniform(int stream, int64_t i)
{
    cero_rng_key key = cero_rng_make_key(7, CERO_RNG_TEST, (uint64_t)stream, 0);
    return (double)cero_rng_uniform_f32(cero_rng_word(key, 0, (uint64_t)i));
}

static void fill_grad(state *s, int step)
{
    // Period 8 in i: encoded once for each type and step, then repeated.
    static unsigned char patterns[CERO_FLOAT_DTYPES][STEPS][8 * sizeof(float)];
    static bool is_encoded[CERO_FLOAT_DTYPES][STEPS];
    unsigned char *pattern = patterns[s->grad_dtype][step];
    size_t size = cero_dtype_size(s->grad_dtype);

    for (int64_t i = 0; i < 8 && !is_encoded[s->grad_dtype][step]; i++) {
        encode(s->grad_dtype, pattern, i, grad_value(i, step));
    }
    is_encoded[s->grad_dtype][step] = true;
    for (int64_t i = 0; i < s->n; i++) {
        memcpy((char *)data(&s->grad) + (size_t)i * size, pattern + (size_t)(i % 8) * size, size);
    }
}

static void state_init(state *s, int64_t n, cero_dtype grad_dtype, cero_dtype copy_dtype,
                       int64_t shift)
{
    s->n = n;
    s->grad_dtype = grad_dtype;
    s->copy_dtype = copy_dtype;
    guard_init(&s->grad, (size_t)n * cero_dtype_size(grad_dtype),
               (size_t)shift * cero_dtype_size(grad_dtype));
    guard_init(&s->master, (size_t)n * sizeof(float), (size_t)shift * sizeof(float));
    guard_init(&s->exp_avg, (size_t)n * sizeof(float), (size_t)shift * sizeof(float));
    guard_init(&s->exp_avg_sq, (size_t)n * sizeof(float), (size_t)shift * sizeof(float));
    guard_init(&s->out, (size_t)n * cero_dtype_size(copy_dtype),
               (size_t)shift * cero_dtype_size(copy_dtype));
    fill_grad(s, 0);
    for (int64_t i = 0; i < n; i++) {
        encode(CERO_DTYPE_F32, data(&s->master), i, 2.0 * uniform(1, i) - 1.0);
        encode(CERO_DTYPE_F32, data(&s->exp_avg), i, uniform(2, i) - 0.5);
        encode(CERO_DTYPE_F32, data(&s->exp_avg_sq), i, uniform(3, i) + 0.01);
    }
}

/* The hyper-parameters of all cases, as floats: what the kernels see. */
static const float grad_scale = 0.25f;
static const float lr = 0.01f;
static const float beta1 = 0.9f;
static const float beta2 = 0.95f;
static const float eps = 1e-6f;
static const float decay = 0.1f;
static const float step_size = 0.013f;
static const float inv_sqrt_bias2 = 1.75f;

/* One element in double, from the formulas of DeepSpeed's optimizers. */
typedef struct element {
    double p;
    double m;
    double v;
    double out;
} element;

static void moments(element *e, double g)
{
    e->m = (double)beta1 * e->m + (1.0 - (double)beta1) * g;
    e->v = (double)beta2 * e->v + (1.0 - (double)beta2) * g * g;
}

static void sgd_oracle(element *e, double g, bool has_momentum, bool is_first)
{
    g += (double)decay * e->p;
    if (has_momentum) {
        e->m = is_first ? g : (double)beta1 * e->m + 0.75 * g;
        g = is_first ? e->m : g + (double)beta1 * e->m;
    }
    e->p -= (double)lr * g;
}

static void lion_oracle(element *e, double g)
{
    double c = (double)beta1 * e->m + (1.0 - (double)beta1) * g;

    e->p *= 1.0 - (double)lr * (double)decay;
    e->p += c > 0.0 ? -(double)lr : (double)lr;
    e->m = (double)beta2 * e->m + (1.0 - (double)beta2) * g;
}

static void oracle(op_kind op, element *e, double raw, bool is_first)
{
    double g = (double)grad_scale * raw;

    switch (op) {
    case OP_ADAMW:
    case OP_ADAM:
        if (op == OP_ADAMW) {
            e->p -= (double)lr * (double)decay * e->p;
        } else {
            g += (double)decay * e->p;
        }
        moments(e, g);
        e->p -= (double)step_size * e->m / (sqrt(e->v) * (double)inv_sqrt_bias2 + (double)eps);
        e->out = e->p;
        return;
    case OP_SGD:
    case OP_SGD_PLAIN:
        sgd_oracle(e, g, op == OP_SGD, is_first);
        return;
    case OP_ADAGRAD:
        e->v += (g + (double)decay * e->p) * (g + (double)decay * e->p);
        e->p -= (double)lr * g / (sqrt(e->v) + (double)eps);
        return;
    case OP_LION:
        lion_oracle(e, g);
        return;
    case OP_LAMB:
    case OP_LAMB_INSIDE:
    case OP_COUNT:
        break;
    }
    moments(e, g);
    e->out = e->m / (op == OP_LAMB ? sqrt(e->v) + (double)eps : sqrt(e->v + (double)eps));
    e->out += (double)decay * e->p;
}

/* Elements begin .. begin + n of the state through the kernel. */
static void run_range(const cero_kernels *k, op_kind op, state *s, int64_t begin, int64_t n,
                      bool is_first)
{
    const void *grad =
        (const char *)data(&s->grad) + (size_t)begin * cero_dtype_size(s->grad_dtype);
    float *p = (float *)data(&s->master) + begin;
    float *m = (float *)data(&s->exp_avg) + begin;
    float *v = (float *)data(&s->exp_avg_sq) + begin;
    void *out = (char *)data(&s->out) + (size_t)begin * cero_dtype_size(s->copy_dtype);
    bool is_nesterov = !is_first;

    switch (op) {
    case OP_ADAMW:
    case OP_ADAM:
        k->adamw[s->grad_dtype][s->copy_dtype](n,
                                               &(cero_adamw_args){grad_scale, lr, beta1, beta2, eps,
                                                                  decay, step_size, inv_sqrt_bias2,
                                                                  op == OP_ADAMW},
                                               grad, p, m, v, out);
        return;
    case OP_SGD:
        k->sgd[s->grad_dtype](
            n, &(cero_sgd_args){grad_scale, lr, beta1, 0.25f, decay, is_nesterov, is_first}, grad,
            p, m);
        return;
    case OP_SGD_PLAIN:
        k->sgd[s->grad_dtype](n, &(cero_sgd_args){grad_scale, lr, 0.0f, 0.0f, decay, false, false},
                              grad, p, NULL);
        return;
    case OP_ADAGRAD:
        k->adagrad[s->grad_dtype](n, &(cero_adagrad_args){grad_scale, lr, eps, decay}, grad, p, v);
        return;
    case OP_LION:
        k->lion[s->grad_dtype](n, &(cero_lion_args){grad_scale, lr, beta1, beta2, decay}, grad, p,
                               m);
        return;
    case OP_LAMB:
    case OP_LAMB_INSIDE:
    case OP_COUNT:
        break;
    }
    k->lamb_direction[s->grad_dtype](
        n, &(cero_lamb_args){grad_scale, beta1, beta2, eps, decay, op == OP_LAMB_INSIDE}, grad, p,
        m, v, (float *)out);
}

static void assert_near(const char *isa, op_kind op, const char *what, int64_t i, double found,
                        double expected)
{
    if (!(fabs(found - expected) <= 4e-6 * (1.0 + fabs(expected)))) {
        fail_msg("%s op %d %s[%" PRId64 "]: %.9g, expected %.9g", isa, (int)op, what, i, found,
                 expected);
    }
}

/* Four steps of one case against the oracle. */
static void check_case(const cero_kernels *k, op_kind op, state *s, element *expected)
{
    for (int64_t i = 0; i < s->n; i++) {
        expected[i] = (element){decode(CERO_DTYPE_F32, data(&s->master), i),
                                decode(CERO_DTYPE_F32, data(&s->exp_avg), i),
                                decode(CERO_DTYPE_F32, data(&s->exp_avg_sq), i), 0.0};
    }
    for (int step = 0; step < STEPS; step++) {
        fill_grad(s, step);
        run_range(k, op, s, 0, s->n, step == 0);
        for (int64_t i = 0; i < s->n; i++) {
            oracle(op, &expected[i], grad_value(i % 8, step), step == 0);
            assert_near(k->isa, op, "master", i, (double)floats(&s->master)[i], expected[i].p);
            assert_near(k->isa, op, "exp_avg", i, (double)floats(&s->exp_avg)[i], expected[i].m);
            assert_near(k->isa, op, "exp_avg_sq", i, (double)floats(&s->exp_avg_sq)[i],
                        expected[i].v);
            double out = decode(s->copy_dtype, data(&s->out), i);
            if (op == OP_ADAMW || op == OP_ADAM) {
                assert_true(out == round_to(s->copy_dtype, (double)floats(&s->master)[i]));
            } else if (op == OP_LAMB || op == OP_LAMB_INSIDE) {
                assert_near(k->isa, op, "update", i, out, expected[i].out);
            }
        }
    }
    guard_check(&s->grad, "grad");
    guard_check(&s->master, "master");
    guard_check(&s->exp_avg, "exp_avg");
    guard_check(&s->exp_avg_sq, "exp_avg_sq");
    guard_check(&s->out, "out");
}

/* Runs the check for every instruction set of this CPU. */
static void each_isa(void (*check)(const cero_kernels *k))
{
    const char *isa;

    for (int i = 0; (isa = cero_kernels_isa_name(i)) != NULL; i++) {
        const cero_kernels *k;
        if (cero_kernels_get_isa(isa, &k) == CERO_OK) {
            check(k);
        }
    }
}

static state s1;
static state s2;
static element expected_elements[MAX_N];

static void check_formulas(const cero_kernels *k)
{
    for (int op = 0; op < OP_COUNT; op++) {
        for (int pair = 0; pair < CERO_FLOAT_DTYPES * CERO_FLOAT_DTYPES; pair++) {
            cero_dtype copy_dtype = (cero_dtype)(pair / CERO_FLOAT_DTYPES);
            if (op > OP_ADAM && copy_dtype != CERO_DTYPE_F32) {
                continue;
            }
            for (size_t size = 0; size < CERO_COUNT_OF(sizes); size++) {
                state_init(&s1, sizes[size], (cero_dtype)(pair % CERO_FLOAT_DTYPES), copy_dtype,
                           (int64_t)size % 2);
                check_case(k, (op_kind)op, &s1, expected_elements);
            }
        }
    }
}

static void test_formulas(void **unused)
{
    (void)unused;
    each_isa(check_formulas);
}

static void check_cuts(const cero_kernels *k)
{
    static const int64_t cuts[] = {0, 1, 5, 37, 38, 300, 511, MAX_N};

    for (int op = 0; op < OP_COUNT; op++) {
        for (int dtype = 0; dtype < CERO_FLOAT_DTYPES; dtype++) {
            cero_dtype copy_dtype = op <= OP_ADAM ? (cero_dtype)dtype : CERO_DTYPE_F32;
            state_init(&s1, MAX_N, (cero_dtype)dtype, copy_dtype, 1);
            state_init(&s2, MAX_N, (cero_dtype)dtype, copy_dtype, 1);
            run_range(k, (op_kind)op, &s1, 0, MAX_N, true);
            for (size_t i = 1; i < CERO_COUNT_OF(cuts); i++) {
                run_range(k, (op_kind)op, &s2, cuts[i - 1], cuts[i] - cuts[i - 1], true);
            }
            assert_memory_equal(&s1, &s2, sizeof(s1));
        }
    }
}

static void test_cuts(void **unused)
{
    (void)unused;
    each_isa(check_cuts);
}

static void check_no_copy(const cero_kernels *k)
{
    cero_adamw_args args = {grad_scale, lr,        beta1,          beta2, eps,
                            decay,      step_size, inv_sqrt_bias2, true};

    state_init(&s1, 100, CERO_DTYPE_F32, CERO_DTYPE_BF16, 0);
    state_init(&s2, 100, CERO_DTYPE_F32, CERO_DTYPE_BF16, 0);
    run_range(k, OP_ADAMW, &s1, 0, 100, true);
    k->adamw[0][1](100, &args, data(&s2.grad), data(&s2.master), data(&s2.exp_avg),
                   data(&s2.exp_avg_sq), NULL);
    assert_memory_equal(&s1.master, &s2.master, sizeof(s1.master));
    assert_memory_equal(&s1.exp_avg_sq, &s2.exp_avg_sq, sizeof(s1.exp_avg_sq));
}

static void test_no_copy(void **unused)
{
    (void)unused;
    each_isa(check_no_copy);
}

/* Weights whose copies are halfway, subnormal, too large, infinite or no number. */
static void check_copies(const cero_kernels *k)
{
    static const float weights[] = {
        1.00390625f, 1.01171875f, 65519.0f,         65520.0f,  -7e4f,  3e-8f,       0x1p-25f,
        6.1e-5f,     3.4e38f,     INFINITY,         -INFINITY, NAN,    -0.0f,       1e-39f,
        0x1.8p-24f,  2049.0f,     0x1.fffffep+127f, 0x1p-126f, 5e-41f, 0x1.ffep-15f};
    cero_adamw_args still = {.grad_scale = 1.0f, .eps = 1.0f, .is_decoupled = true};
    int64_t n = (int64_t)CERO_COUNT_OF(weights);

    for (int dtype = 0; dtype < CERO_FLOAT_DTYPES; dtype++) {
        state_init(&s1, n, CERO_DTYPE_F32, (cero_dtype)dtype, 0);
        memset(data(&s1.exp_avg), 0, s1.exp_avg.nbytes);
        memcpy(data(&s1.master), weights, sizeof(weights));
        k->adamw[0][dtype](n, &still, data(&s1.grad), data(&s1.master), data(&s1.exp_avg),
                           data(&s1.exp_avg_sq), data(&s1.out));
        for (int64_t i = 0; i < n; i++) {
            double weight = (double)floats(&s1.master)[i];
            double copy = decode((cero_dtype)dtype, data(&s1.out), i);
            double rounded = round_to((cero_dtype)dtype, weight);
            if (!(copy == rounded || (isnan(copy) && isnan(rounded)))) {
                fail_msg("%s %s: %.9g became %.9g, expected %.9g", k->isa,
                         cero_dtype_name((cero_dtype)dtype), weight, copy, rounded);
            }
        }
    }
}

static void test_copies(void **unused)
{
    (void)unused;
    each_isa(check_copies);
}

/* A gradient that is not finite shows in its own element and in no other. */
static void check_not_finite(const cero_kernels *k)
{
    for (int op = 0; op < OP_COUNT; op++) {
        state_init(&s1, 40, CERO_DTYPE_F32, CERO_DTYPE_F32, 0);
        encode(CERO_DTYPE_F32, data(&s1.grad), 5, (double)NAN);
        encode(CERO_DTYPE_F32, data(&s1.grad), 37, (double)NAN);
        run_range(k, (op_kind)op, &s1, 0, 40, true);
        for (int64_t i = 0; i < 40; i++) {
            bool is_lamb = op == OP_LAMB || op == OP_LAMB_INSIDE;
            float value = floats(is_lamb ? &s1.out : &s1.master)[i];
            assert_int_equal(isnan(value) != 0, i == 5 || i == 37);
        }
    }
}

static void test_not_finite(void **unused)
{
    (void)unused;
    each_isa(check_not_finite);
}

/* Lion's c = 0 moves the weight up by lr, as DeepSpeed's kernels do. */
static void check_lion_zero(const cero_kernels *k)
{
    float p[9] = {0};
    float m[9] = {0};
    const float g[9] = {0};

    k->lion[0](9, &(cero_lion_args){1.0f, 0.5f, 0.9f, 0.99f, 0.0f}, g, p, m);
    for (int i = 0; i < 9; i++) {
        assert_true(p[i] == 0.5f);
    }
}

static void test_lion_zero(void **unused)
{
    (void)unused;
    each_isa(check_lion_zero);
}

static void check_axpy(const cero_kernels *k)
{
    for (size_t size = 0; size < CERO_COUNT_OF(sizes); size++) {
        int64_t n = sizes[size];
        state_init(&s1, n, CERO_DTYPE_F32, CERO_DTYPE_F32, 1);
        state_init(&s2, n, CERO_DTYPE_F32, CERO_DTYPE_F32, 1);
        k->axpy(n, -1.75f, floats(&s1.exp_avg), data(&s1.master));
        for (int64_t i = 0; i < n; i++) {
            double expected = (double)floats(&s2.master)[i] - 1.75 * (double)floats(&s2.exp_avg)[i];
            assert_near(k->isa, OP_COUNT, "axpy", i, (double)floats(&s1.master)[i], expected);
        }
        guard_check(&s1.master, "y");
        assert_memory_equal(&s1.exp_avg, &s2.exp_avg, sizeof(s1.exp_avg));
    }
}

static void test_axpy(void **unused)
{
    (void)unused;
    each_isa(check_axpy);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_formulas),   cmocka_unit_test(test_cuts),
        cmocka_unit_test(test_no_copy),    cmocka_unit_test(test_copies),
        cmocka_unit_test(test_not_finite), cmocka_unit_test(test_lion_zero),
        cmocka_unit_test(test_axpy),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
