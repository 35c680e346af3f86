/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attention of every instruction set gives what softmax(scale * Q K^T) V gives, forward and backward,
 * at any size, stride and alignment, with dropout, and touches no byte outside its outputs. ref is held
 * against a plain double implementation and central differences, the others against ref.
 */
#include "harness.h"

#include "base/rng.h"
#include "kernels/kernels.h"

#include <math.h>

enum {
    GUARD = 128,
    PATTERN = 0xA5,
    OUTPUTS = 5
};

typedef struct shape_case {
    int64_t query_count;
    int64_t query_offset;
    int64_t spare_keys; /* rows of k and v that no query sees */
    int64_t head_dim;
    int64_t gap; /* elements between the rows of a head */
    double drop;
} shape_case;

/* One head: inputs as doubles and as stored, outputs between guard bytes. */
typedef struct head {
    shape_case shape;
    cero_dtype dtype;
    int64_t key_count;
    cero_attention_args args;
    double *q;
    double *k;
    double *v;
    double *dout;
    void *blocks[16];
    size_t sizes[16];
    int block_count;
} head;

static const char *const output_names[OUTPUTS] = {"out", "lse", "dq", "dk", "dv"};

static uint16_t f16_bits(double x)
{
    int exponent = 0;
    double m = frexp(fabs(x), &exponent);
    uint16_t sign = signbit(x) ? 0x8000u : 0u;

    if (x == 0.0 || !isfinite(x)) {
        return (uint16_t)(sign | (x == 0.0 ? 0u : isnan(x) ? 0x7E00u : 0x7C00u));
    }
    return (uint16_t)(sign | (uint32_t)(exponent + 14) << 10 | ((uint32_t)(m * 2048.0) & 0x3FFu));
}

static double f16_value(uint16_t h)
{
    int exponent = h >> 10 & 31;
    double m = (double)(h & 0x3FFu) / 1024.0;
    double x = exponent == 31
                   ? (h & 0x3FFu ? (double)NAN : (double)INFINITY)
                   : ldexp(exponent == 0 ? m : 1.0 + m, exponent == 0 ? -14 : exponent - 15);
    return h & 0x8000u ? -x : x;
}

/* The test's numbers are multiples of 1/64 below 2, which every dtype holds exactly. */
static void put(cero_dtype dtype, void *x, int64_t i, double value)
{
    float f = (float)value;
    uint32_t bits;

    memcpy(&bits, &f, sizeof(bits));
    uint16_t half = dtype == CERO_DTYPE_F16 ? f16_bits(value) : (uint16_t)(bits >> 16);
    if (dtype == CERO_DTYPE_F32) {
        memcpy((char *)x + 4 * i, &f, sizeof(f));
    } else {
        memcpy((char *)x + 2 * i, &half, sizeof(half));
    }
}

static double get(cero_dtype dtype, const void *x, int64_t i)
{
    float f;
    uint16_t half;

    if (dtype == CERO_DTYPE_F32) {
        memcpy(&f, (const char *)x + 4 * i, sizeof(f));
        return (double)f;
    }
    memcpy(&half, (const char *)x + 2 * i, sizeof(half));
    if (dtype == CERO_DTYPE_F16) {
        return f16_value(half);
    }
    uint32_t bits = (uint32_t)half << 16;
    memcpy(&f, &bits, sizeof(f));
    return (double)f;
}

/* A block of count elements, one element off alignment, full of PATTERN, guards on both sides. */
static void *block_create(head *h, cero_dtype dtype, int64_t count)
{
    size_t size = (size_t)count * cero_dtype_size(dtype);
    unsigned char *raw = malloc(size + 2 * GUARD + 8);

    assert_non_null(raw);
    memset(raw, PATTERN, size + 2 * GUARD + 8);
    h->blocks[h->block_count] = raw;
    h->sizes[h->block_count++] = size;
    return raw + GUARD + cero_dtype_size(dtype);
}

static double *doubles_create(int64_t count, uint64_t sample)
{
    double *x = malloc((size_t)(count + 1) * sizeof(*x));
    cero_rng_key key = cero_rng_make_key(7, CERO_RNG_TEST, sample, 0);

    assert_non_null(x);
    for (int64_t i = 0; i < count; i++) {
        x[i] = (double)((int)(cero_rng_word(key, 0, (uint64_t)i) % 255u) - 127) / 64.0;
    }
    return x;
}

/* A strided copy of [rows, head_dim] doubles; the gaps keep the pattern, which is a number. */
static void *stored(head *h, int64_t rows, const double *x)
{
    int64_t stride = h->shape.head_dim + h->shape.gap;
    void *block = block_create(h, h->dtype, rows * stride);

    for (int64_t i = 0; i < rows * h->shape.head_dim; i++) {
        put(h->dtype, block, i / h->shape.head_dim * stride + i % h->shape.head_dim, x[i]);
    }
    return block;
}

static void head_create(head *h, const shape_case *shape, cero_dtype dtype)
{
    int64_t d = shape->head_dim;

    *h = (head){.shape = *shape, .dtype = dtype};
    h->key_count = shape->query_offset + shape->query_count + shape->spare_keys;
    h->q = doubles_create(shape->query_count * d, 1);
    h->k = doubles_create(h->key_count * d, 2);
    h->v = doubles_create(h->key_count * d, 3);
    h->dout = doubles_create(shape->query_count * d, 4);
    h->args = (cero_attention_args){
        .query_count = shape->query_count,
        .query_offset = shape->query_offset,
        .key_count = h->key_count,
        .head_dim = d,
        .scale = 1.0f / sqrtf((float)d),
        .q_stride = d + shape->gap,
        .k_stride = d + shape->gap,
        .v_stride = d + shape->gap,
        .out_stride = d + shape->gap,
        .drop_threshold = (uint32_t)(shape->drop * 4294967296.0),
        .drop_scale = (float)(1.0 / (1.0 - shape->drop)),
        .drop_key = cero_rng_make_key(3, CERO_RNG_DROPOUT, 5, 6),
        .drop_sample = 0x100000002u,
        .drop_element = 0x3FFFFFFFEu,
        .drop_stride = (uint64_t)(h->key_count + 3) / 4 * 4,
    };
    h->args.q = stored(h, shape->query_count, h->q);
    h->args.k = stored(h, h->key_count, h->k);
    h->args.v = stored(h, h->key_count, h->v);
    h->args.dout = stored(h, shape->query_count, h->dout);
}

static void head_destroy(head *h)
{
    for (int i = 0; i < h->block_count; i++) {
        free(h->blocks[i]);
    }
    free(h->q);
    free(h->k);
    free(h->v);
    free(h->dout);
}

/* Fresh outputs in `args`; dk and dv start at 1, since they are added to. */
static void outputs_create(head *h, cero_attention_args *args)
{
    int64_t rows = h->shape.query_count * (h->shape.head_dim + h->shape.gap);

    *args = h->args;
    args->out = block_create(h, h->dtype, rows);
    args->lse = block_create(h, CERO_DTYPE_F32, h->shape.query_count);
    args->dq = block_create(h, h->dtype, rows);
    args->dk = block_create(h, CERO_DTYPE_F32, h->key_count * h->shape.head_dim);
    args->dv = block_create(h, CERO_DTYPE_F32, h->key_count * h->shape.head_dim);
    for (int64_t i = 0; i < h->key_count * h->shape.head_dim; i++) {
        put(CERO_DTYPE_F32, args->dk, i, 1.0);
        put(CERO_DTYPE_F32, args->dv, i, 1.0);
    }
}

/* Guards of all blocks and the gaps between rows of out and dq are as they were. */
static void assert_untouched(const head *h, const cero_attention_args *args)
{
    for (int i = 0; i < h->block_count; i++) {
        const unsigned char *raw = h->blocks[i];
        size_t element =
            i >= 4 && (i - 4) % 5 != 0 && (i - 4) % 5 != 2 ? 4 : cero_dtype_size(h->dtype);
        for (size_t at = 0; at < GUARD + element; at++) {
            assert_int_equal(raw[at], PATTERN);
        }
        for (size_t at = GUARD + element + h->sizes[i]; at < h->sizes[i] + 2 * GUARD; at++) {
            assert_int_equal(raw[at], PATTERN);
        }
    }
    size_t element = cero_dtype_size(h->dtype);
    for (int64_t row = 0; row < h->shape.query_count; row++) {
        int64_t gap_at = row * args->out_stride + h->shape.head_dim;
        for (size_t b = 0; b < (size_t)h->shape.gap * element; b++) {
            size_t at = (size_t)gap_at * element + b;
            assert_int_equal(((const unsigned char *)args->out)[at], PATTERN);
            assert_int_equal(((const unsigned char *)args->dq)[at], PATTERN);
        }
    }
}

/* Forward or backward with exactly the scratch that was asked for, guarded. */
static void run(const cero_kernels *k, const head *h, cero_attention_args *args, bool is_backward)
{
    size_t size =
        k->attention_scratch(args->query_count, args->key_count, args->head_dim, is_backward);
    unsigned char *raw = aligned_alloc(64, (size + GUARD + 63) / 64 * 64);

    assert_non_null(raw);
    memset(raw, 0xFF, size + GUARD); // NaNs: what is not written must not be read
    args->scratch = raw;
    if (is_backward) {
        k->attention_backward[h->dtype](args);
    } else {
        k->attention_forward[h->dtype](args);
    }
    for (size_t at = size; at < size + GUARD; at++) {
        assert_int_equal(raw[at], 0xFF);
    }
    free(raw);
}

static double output_at(const head *h, const cero_attention_args *args, int output, int64_t row,
                        int64_t c)
{
    switch (output) {
    case 0:
        return get(h->dtype, args->out, row * args->out_stride + c);
    case 1:
        return get(CERO_DTYPE_F32, args->lse, row);
    case 2:
        return get(h->dtype, args->dq, row * args->q_stride + c);
    case 3:
        return get(CERO_DTYPE_F32, args->dk, row * h->shape.head_dim + c);
    default:
        return get(CERO_DTYPE_F32, args->dv, row * h->shape.head_dim + c);
    }
}

/* Every element within tolerance of its size plus the root mean square of the tensor. */
static void assert_near(const char *isa, const head *h, const cero_attention_args *found,
                        const cero_attention_args *expected, double tolerance)
{
    for (int output = 0; output < OUTPUTS; output++) {
        int64_t rows = output < 3 ? h->shape.query_count : h->key_count;
        int64_t cols = output == 1 ? 1 : h->shape.head_dim;
        double squares = 0.0;
        for (int64_t i = 0; i < rows * cols; i++) {
            double y = output_at(h, expected, output, i / cols, i % cols);
            squares += y * y;
        }
        double rms = sqrt(squares / (double)(rows * cols));
        for (int64_t i = 0; i < rows * cols; i++) {
            double x = output_at(h, found, output, i / cols, i % cols);
            double y = output_at(h, expected, output, i / cols, i % cols);
            if (!(fabs(x - y) <= tolerance * (fabs(y) + rms))) {
                fail_msg(
                    "%s %s, %lld queries at %lld, head_dim %lld, dropout %g: %s[%lld, %lld] is "
                    "%.9g, expected %.9g",
                    isa, cero_dtype_name(h->dtype), (long long)h->shape.query_count,
                    (long long)h->shape.query_offset, (long long)h->shape.head_dim, h->shape.drop,
                    output_names[output], (long long)(i / cols), (long long)(i % cols), x, y);
            }
        }
    }
}

/* Plain attention in double: out, lse (either may be NULL); returns sum(dout * out). */
static double naive(const head *h, double *out, double *lse)
{
    const cero_attention_args *a = &h->args;
    int64_t d = h->shape.head_dim;
    double loss = 0.0;
    double *p = malloc((size_t)h->key_count * sizeof(*p));

    assert_non_null(p);
    for (int64_t i = 0; i < h->shape.query_count; i++) {
        int64_t visible = h->shape.query_offset + i + 1;
        double sum = 0.0;
        for (int64_t j = 0; j < visible; j++) {
            double s = 0.0;
            for (int64_t c = 0; c < d; c++) {
                s += h->q[i * d + c] * h->k[j * d + c];
            }
            p[j] = exp((double)a->scale * s);
            sum += p[j];
        }
        for (int64_t j = 0; j < visible; j++) {
            uint64_t element = a->drop_element + (uint64_t)i * a->drop_stride + (uint64_t)j;
            uint32_t word = cero_rng_word(a->drop_key, a->drop_sample, element);
            p[j] *= word >= a->drop_threshold ? (double)a->drop_scale / sum : 0.0;
        }
        for (int64_t c = 0; c < d; c++) {
            double o = 0.0;
            for (int64_t j = 0; j < visible; j++) {
                o += p[j] * h->v[j * d + c];
            }
            loss += o * h->dout[i * d + c];
            if (out != NULL) {
                out[i * d + c] = o;
            }
        }
        if (lse != NULL) {
            lse[i] = log(sum);
        }
    }
    free(p);
    return loss;
}

static void assert_close(const char *what, int64_t i, double found, double expected,
                         double tolerance)
{
    if (!(fabs(found - expected) <= tolerance * (1.0 + fabs(expected)))) {
        fail_msg("%s[%lld] is %.9g, expected %.9g", what, (long long)i, found, expected);
    }
}

static void check_differences(const head *h, const cero_attention_args *args, double *x, int output,
                              int64_t rows, double start)
{
    const double step = 1e-4;

    for (int64_t i = 0; i < rows * h->shape.head_dim; i++) {
        double kept = x[i];
        x[i] = kept + step;
        double up = naive(h, NULL, NULL);
        x[i] = kept - step;
        double down = naive(h, NULL, NULL);
        x[i] = kept;
        double found = output_at(h, args, output, i / h->shape.head_dim, i % h->shape.head_dim);
        assert_close(output_names[output], i, found, start + (up - down) / (2.0 * step), 2e-5);
    }
}

static void test_ref_equals_plain_double_and_central_differences(void **state)
{
    CERO_UNUSED(state);
    static const shape_case shapes[] = {
        {1, 0, 0, 8, 0, 0.0},  {2, 0, 0, 3, 2, 0.0}, {9, 0, 0, 5, 1, 0.0},  {7, 4, 2, 6, 0, 0.0},
        {9, 0, 0, 4, 3, 0.25}, {5, 3, 1, 5, 1, 0.5}, {67, 0, 0, 2, 0, 0.1},
    };
    const cero_kernels *k = NULL;

    assert_ok(cero_kernels_get_isa("ref", &k));
    for (size_t s = 0; s < CERO_COUNT_OF(shapes); s++) {
        head h;
        cero_attention_args args;
        head_create(&h, &shapes[s], CERO_DTYPE_F32);
        outputs_create(&h, &args);
        run(k, &h, &args, false);
        run(k, &h, &args, true);
        assert_untouched(&h, &args);
        double *out = doubles_create(h.shape.query_count * h.shape.head_dim, 9);
        double *lse = doubles_create(h.shape.query_count, 9);
        (void)naive(&h, out, lse);
        for (int64_t i = 0; i < h.shape.query_count * h.shape.head_dim; i++) {
            int64_t row = i / h.shape.head_dim;
            assert_close("out", i, output_at(&h, &args, 0, row, i % h.shape.head_dim), out[i],
                         1e-5);
            assert_close("lse", row, (double)get(CERO_DTYPE_F32, args.lse, row), lse[row], 1e-5);
        }
        check_differences(&h, &args, h.q, 2, h.shape.query_count, 0.0);
        check_differences(&h, &args, h.k, 3, h.key_count, 1.0);
        check_differences(&h, &args, h.v, 4, h.key_count, 1.0);
        free(out);
        free(lse);
        head_destroy(&h);
    }
}

/* Runs ref and `k` on the same inputs; backward of both starts from ref's out and lse. */
static void check_shape(const cero_kernels *ref, const cero_kernels *k, const shape_case *shape)
{
    // bf16 also rounds the probabilities and their gradients before the products.
    static const double tolerances[CERO_FLOAT_DTYPES] = {2e-5, 3e-2, 4e-3};

    for (int dtype = 0; dtype < CERO_FLOAT_DTYPES; dtype++) {
        head h;
        cero_attention_args expected;
        cero_attention_args found;
        head_create(&h, shape, (cero_dtype)dtype);
        outputs_create(&h, &expected);
        outputs_create(&h, &found);
        run(ref, &h, &expected, false);
        run(ref, &h, &expected, true);
        run(k, &h, &found, false);
        cero_attention_args backward = found;
        backward.out = expected.out;
        backward.lse = expected.lse;
        run(k, &h, &backward, true);
        assert_near(k->isa, &h, &found, &expected, tolerances[dtype]);
        assert_untouched(&h, &found);
        head_destroy(&h);
    }
}

static void test_every_isa_equals_ref(void **state)
{
    CERO_UNUSED(state);
    static const int64_t counts[] = {1, 2, 3, 5, 31, 32, 64, 65, 200, 300};
    static const int64_t dims[] = {8, 21, 64, 100, 128};
    const cero_kernels *ref = NULL;

    assert_ok(cero_kernels_get_isa("ref", &ref));
    for (int isa = 1; cero_kernels_isa_name(isa) != NULL; isa++) {
        const cero_kernels *k = NULL;
        if (cero_kernels_get_isa(cero_kernels_isa_name(isa), &k) != CERO_OK) {
            print_message("skipped: %s\n", cero_error_message());
            continue;
        }
        for (size_t t = 0; t < CERO_COUNT_OF(counts); t++) {
            for (size_t d = 0; d < CERO_COUNT_OF(dims); d++) {
                shape_case shape = {counts[t], 0, 0, dims[d], (int64_t)(t + d) % 3 * dims[d], 0.0};
                if (counts[t] == 300 && dims[d] != 64) {
                    continue;
                }
                check_shape(ref, k, &shape);
            }
        }
        static const shape_case more[] = {
            {1, 99, 0, 64, 0, 0.0},    {1, 700, 5, 64, 64, 0.0}, {3, 130, 1, 33, 0, 0.0},
            {40, 25, 0, 48, 0, 0.0},   {65, 64, 3, 64, 7, 0.0},  {70, 201, 60, 16, 0, 0.0},
            {64, 0, 0, 64, 0, 0.1},    {1, 130, 0, 64, 0, 0.3},  {31, 0, 0, 21, 0, 0.5},
            {200, 0, 0, 64, 128, 0.1}, {77, 55, 9, 64, 0, 0.2},  {130, 3, 0, 1, 0, 0.9},
            {0, 5, 0, 64, 0, 0.0},     {2, 0, 0, 300, 0, 0.0},   {270, 10, 0, 40, 0, 0.1},
        };
        for (size_t s = 0; s < CERO_COUNT_OF(more); s++) {
            check_shape(ref, k, &more[s]);
        }
    }
}

/* A number that is not finite reaches what depends on it, and no query before its block of 64. */
static void test_not_finite_in_not_finite_out(void **state)
{
    CERO_UNUSED(state);
    const shape_case shape = {130, 0, 0, 64, 0, 0.0};

    for (int isa = 0; cero_kernels_isa_name(isa) != NULL; isa++) {
        const cero_kernels *k = NULL;
        if (cero_kernels_get_isa(cero_kernels_isa_name(isa), &k) != CERO_OK) {
            continue;
        }
        for (int at = 0; at < 2 * 3 * CERO_FLOAT_DTYPES; at++) {
            head h;
            cero_attention_args args;
            double bad = at % 2 == 0 ? (double)NAN : (double)INFINITY;
            int which = at / 2 % 3;
            head_create(&h, &shape, (cero_dtype)(at / 6));
            outputs_create(&h, &args);
            union {
                const void *in;
                void *out;
            } input = {which == 0 ? args.q : which == 1 ? args.k : args.v};
            put(h.dtype, input.out, 70 * args.q_stride + 3, bad);
            run(k, &h, &args, false);
            // An infinite q or k gives scores of +inf or -inf: NaN where one is +inf.
            bool is_sure = which == 2 || at % 2 == 0;
            int64_t bad_rows = 0;
            for (int64_t row = 0; row < 130; row++) {
                double x = output_at(&h, &args, 0, row, 3);
                bad_rows += !isfinite(x);
                if (row < 64) {
                    assert_true(isfinite(x));
                } else if (is_sure && (row == 70 || (row > 70 && which != 0))) {
                    assert_false(isfinite(x));
                }
            }
            assert_true(bad_rows > 0);
            run(k, &h, &args, true);
            if (at % 2 == 0) {
                assert_true(isnan(output_at(&h, &args, 2, 70, 3)));
            }
            assert_untouched(&h, &args);
            head_destroy(&h);
        }
    }
}

/* Scores of -inf for some keys are probabilities of 0, not NaN, also when a first block has no others. */
static void test_minus_infinity_scores(void **state)
{
    CERO_UNUSED(state);
    const shape_case shape = {100, 0, 0, 16, 0, 0.0};

    for (int isa = 0; cero_kernels_isa_name(isa) != NULL; isa++) {
        const cero_kernels *k = NULL;
        if (cero_kernels_get_isa(cero_kernels_isa_name(isa), &k) != CERO_OK) {
            continue;
        }
        head h;
        cero_attention_args args;
        head_create(&h, &shape, CERO_DTYPE_F32);
        outputs_create(&h, &args);
        union {
            const void *in;
            void *out;
        } q = {args.q};
        union {
            const void *in;
            void *out;
        } keys = {args.k};
        for (int64_t row = 0; row < 100; row++) {
            put(h.dtype, q.out, row * args.q_stride, 1.0);
            put(h.dtype, keys.out, row * args.k_stride, row < 64 ? -(double)INFINITY : 0.0);
        }
        run(k, &h, &args, false);
        assert_true(isnan(output_at(&h, &args, 0, 10, 0)));
        for (int64_t row = 64; row < 100; row++) {
            assert_true(isfinite(output_at(&h, &args, 0, row, 0)));
            assert_true(isfinite(output_at(&h, &args, 1, row, 0)));
        }
        head_destroy(&h);
    }
}

/* Rows are independent: a range of queries gives the bits of the whole. */
static void test_a_range_of_queries_has_the_bits_of_the_whole(void **state)
{
    CERO_UNUSED(state);
    const shape_case shape = {300, 0, 0, 64, 0, 0.1};

    for (int isa = 0; cero_kernels_isa_name(isa) != NULL; isa++) {
        const cero_kernels *k = NULL;
        if (cero_kernels_get_isa(cero_kernels_isa_name(isa), &k) != CERO_OK) {
            continue;
        }
        for (int dtype = 0; dtype < CERO_FLOAT_DTYPES; dtype++) {
            head h;
            cero_attention_args whole;
            cero_attention_args part;
            head_create(&h, &shape, (cero_dtype)dtype);
            outputs_create(&h, &whole);
            run(k, &h, &whole, false);
            outputs_create(&h, &part);
            size_t row_size = 64 * cero_dtype_size(h.dtype);
            part.q = (const char *)part.q + 41 * row_size;
            part.out = (char *)part.out + 41 * row_size;
            part.lse += 41;
            part.query_offset = 41;
            part.query_count = 137;
            part.drop_element += 41 * part.drop_stride;
            run(k, &h, &part, false);
            assert_memory_equal(part.out, (char *)whole.out + 41 * row_size, 137 * row_size);
            assert_memory_equal(part.lse, whole.lse + 41, 137 * sizeof(float));
            head_destroy(&h);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ref_equals_plain_double_and_central_differences),
        cmocka_unit_test(test_every_isa_equals_ref),
        cmocka_unit_test(test_not_finite_in_not_finite_out),
        cmocka_unit_test(test_minus_infinity_scores),
        cmocka_unit_test(test_a_range_of_queries_has_the_bits_of_the_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
