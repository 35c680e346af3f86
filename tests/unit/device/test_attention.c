/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attention of a batch is attention of its heads, each with its own rows and random words: grouped
 * key/value heads sum their gradients, packed and separate rows give the same bits, and so do one, two
 * and three threads.
 */
#include "harness.h"

#include "base/rng.h"
#include "device/device.h"

#include <math.h>

typedef struct layout {
    cero_dtype dtype;
    int64_t batch;
    int64_t query_len;
    int64_t key_len;
    int64_t query_offset;
    int64_t heads;
    int64_t kv_heads;
    int64_t head_dim;
    double dropout_p;
    bool is_packed;
} layout;

/* Inputs of a layout and the results of one device. */
typedef struct result {
    cero_device *device;
    cero_device_attention_args args;
    unsigned char *inputs[3];
    unsigned char *grads[3];
} result;

static int64_t q_cols(const layout *l)
{
    return l->heads * l->head_dim;
}

static int64_t kv_cols(const layout *l)
{
    return l->kv_heads * l->head_dim;
}

/* Numbers that depend on place and name alone, whatever the row stride. */
static void fill(const cero_kernels *k, const layout *l, uint64_t name, int64_t rows, int64_t cols,
                 int64_t stride, void *x)
{
    float row[512];

    assert_true(cols <= (int64_t)CERO_COUNT_OF(row));
    for (int64_t r = 0; r < rows; r++) {
        cero_rng_fill_normal(cero_rng_make_key(11, CERO_RNG_TEST, name, 0), r * 512, cols, 0, 1,
                             row);
        k->from_f32[l->dtype](
            cols, row, (unsigned char *)x + (size_t)(r * stride) * cero_dtype_size(l->dtype));
    }
}

static unsigned char *room(const layout *l, int64_t count)
{
    unsigned char *x = calloc((size_t)count + 1, cero_dtype_size(l->dtype));
    assert_non_null(x);
    return x;
}

static void result_create(const layout *l, int threads, result *out)
{
    size_t size = cero_dtype_size(l->dtype);
    int64_t q_rows = l->batch * l->query_len;
    int64_t k_rows = l->batch * l->key_len;
    int64_t packed = q_cols(l) + 2 * kv_cols(l);

    *out = (result){0};
    assert_ok(
        cero_device_create(&(cero_device_params){.name = "cpu", .threads = threads}, &out->device));
    const cero_kernels *k = cero_device_kernels(out->device);
    cero_device_attention_args *a = &out->args;
    *a = (cero_device_attention_args){
        .dtype = l->dtype,
        .batch = l->batch,
        .query_len = l->query_len,
        .key_len = l->key_len,
        .query_offset = l->query_offset,
        .heads = l->heads,
        .kv_heads = l->kv_heads,
        .head_dim = l->head_dim,
        .scale = 1.0f / sqrtf((float)l->head_dim),
        .q_stride = l->is_packed ? packed : q_cols(l),
        .k_stride = l->is_packed ? packed : kv_cols(l),
        .v_stride = l->is_packed ? packed : kv_cols(l),
        .dropout_p = l->dropout_p,
        .key = cero_rng_make_key(2, CERO_RNG_DROPOUT, 3, 4),
        .first_sample = 10,
    };
    int64_t counts[3] = {q_rows * a->q_stride, k_rows * a->k_stride, k_rows * a->v_stride};
    unsigned char *in[3];
    unsigned char *grad[3];
    size_t offsets[3] = {0, (size_t)q_cols(l) * size, (size_t)(q_cols(l) + kv_cols(l)) * size};
    for (int i = 0; i < 3; i++) {
        if (i == 0 || !l->is_packed) {
            out->inputs[i] = room(l, counts[i]);
            out->grads[i] = room(l, counts[i]);
        }
        in[i] = l->is_packed ? out->inputs[0] + offsets[i] : out->inputs[i];
        grad[i] = l->is_packed ? out->grads[0] + offsets[i] : out->grads[i];
    }
    fill(k, l, 1, q_rows, q_cols(l), a->q_stride, in[0]);
    fill(k, l, 2, k_rows, kv_cols(l), a->k_stride, in[1]);
    fill(k, l, 3, k_rows, kv_cols(l), a->v_stride, in[2]);
    unsigned char *dout = room(l, q_rows * q_cols(l));
    fill(k, l, 4, q_rows, q_cols(l), q_cols(l), dout);
    a->q = in[0];
    a->k = in[1];
    a->v = in[2];
    a->dq = grad[0];
    a->dk = grad[1];
    a->dv = grad[2];
    a->dout = dout;
    a->out = room(l, q_rows * q_cols(l));
    a->lse = calloc((size_t)(l->batch * l->heads * l->query_len) + 1, sizeof(float));
    assert_non_null(a->lse);
}

static void result_run(result *r)
{
    for (int is_backward = 0; is_backward < 2; is_backward++) {
        size_t size = cero_device_attention_scratch(r->device, &r->args, is_backward);
        r->args.scratch = aligned_alloc(64, size + 64);
        assert_non_null(r->args.scratch);
        memset(r->args.scratch, 0xFF, size);
        if (is_backward) {
            cero_device_attention_backward(r->device, &r->args);
        } else {
            cero_device_attention_forward(r->device, &r->args);
        }
        free(r->args.scratch);
    }
}

static void result_destroy(result *r)
{
    union {
        const void *in;
        void *out;
    } dout = {r->args.dout};

    for (int i = 0; i < 3; i++) {
        free(r->inputs[i]);
        free(r->grads[i]);
    }
    free(dout.out);
    free(r->args.out);
    free(r->args.lse);
    cero_device_destroy(&r->device);
}

/* Rows of two results have the same bits. */
static void assert_rows_equal(const char *what, const layout *l, int64_t rows, int64_t cols,
                              const void *x, int64_t x_stride, const void *y, int64_t y_stride)
{
    size_t size = cero_dtype_size(l->dtype);

    for (int64_t r = 0; r < rows; r++) {
        const char *a = (const char *)x + (size_t)(r * x_stride) * size;
        const char *b = (const char *)y + (size_t)(r * y_stride) * size;
        if (memcmp(a, b, (size_t)cols * size) != 0) {
            fail_msg("%s %s: row %lld differs", cero_dtype_name(l->dtype), what, (long long)r);
        }
    }
}

static void assert_results_equal(const layout *l, const result *x, const result *y)
{
    int64_t q_rows = l->batch * l->query_len;
    int64_t k_rows = l->batch * l->key_len;
    const cero_device_attention_args *a = &x->args;
    const cero_device_attention_args *b = &y->args;

    assert_rows_equal("out", l, q_rows, q_cols(l), a->out, q_cols(l), b->out, q_cols(l));
    assert_rows_equal("dq", l, q_rows, q_cols(l), a->dq, a->q_stride, b->dq, b->q_stride);
    assert_rows_equal("dk", l, k_rows, kv_cols(l), a->dk, a->k_stride, b->dk, b->k_stride);
    assert_rows_equal("dv", l, k_rows, kv_cols(l), a->dv, a->v_stride, b->dv, b->v_stride);
    assert_memory_equal(a->lse, b->lse, (size_t)(q_rows * l->heads) * sizeof(float));
}

static void test_threads_and_packing_change_no_bit(void **state)
{
    CERO_UNUSED(state);
    static const layout layouts[] = {
        {CERO_DTYPE_F32, 2, 300, 300, 0, 4, 2, 16, 0.0, false},
        {CERO_DTYPE_BF16, 3, 257, 257, 0, 6, 6, 32, 0.1, false},
        {CERO_DTYPE_BF16, 1, 1100, 1100, 0, 2, 1, 16, 0.0, false},
        {CERO_DTYPE_F16, 2, 70, 70, 0, 6, 2, 20, 0.2, false},
        {CERO_DTYPE_F32, 1, 1, 1, 0, 3, 1, 64, 0.0, false},
    };

    for (size_t i = 0; i < CERO_COUNT_OF(layouts); i++) {
        layout l = layouts[i];
        result first;
        result_create(&l, 1, &first);
        result_run(&first);
        for (int other = 0; other < 3; other++) {
            result r;
            l.is_packed = other > 0;
            result_create(&l, other + 1, &r);
            result_run(&r);
            assert_results_equal(&l, &first, &r);
            result_destroy(&r);
        }
        result_destroy(&first);
    }
}

/* The same kernels, head by head, with dk and dv summed over the group. */
static void check_heads(const layout *l)
{
    result r;
    int64_t d = l->head_dim;
    int64_t group = l->heads / l->kv_heads;
    size_t size = cero_dtype_size(l->dtype);

    result_create(l, 2, &r);
    result_run(&r);
    const cero_kernels *k = cero_device_kernels(r.device);
    float *sums = calloc((size_t)(2 * l->key_len * d), sizeof(float));
    unsigned char *out = room(l, l->query_len * d);
    unsigned char *grad = room(l, (l->query_len + l->key_len) * l->heads * d);
    float *lse = calloc((size_t)l->query_len, sizeof(float));
    void *scratch =
        aligned_alloc(64, (k->attention_scratch(l->query_len, l->key_len, d, true) +
                           k->attention_scratch(l->query_len, l->key_len, d, false) + 63) /
                              64 * 64);
    assert_true(sums != NULL && lse != NULL && scratch != NULL);
    for (int64_t head = 0; head < l->batch * l->heads; head++) {
        int64_t sample = head / l->heads;
        int64_t h = head % l->heads;
        int64_t q_row = sample * l->query_len;
        int64_t k_row = sample * l->key_len;
        const cero_device_attention_args *a = &r.args;
        uint64_t drop_stride = (uint64_t)(l->key_len + 3) / 4 * 4;
        cero_attention_args args = {
            .query_count = l->query_len,
            .query_offset = l->query_offset,
            .key_count = l->key_len,
            .head_dim = d,
            .scale = a->scale,
            .q = (const char *)a->q + (size_t)(q_row * a->q_stride + h * d) * size,
            .k = (const char *)a->k + (size_t)(k_row * a->k_stride + h / group * d) * size,
            .v = (const char *)a->v + (size_t)(k_row * a->v_stride + h / group * d) * size,
            .out = out,
            .lse = lse,
            .q_stride = a->q_stride,
            .k_stride = a->k_stride,
            .v_stride = a->v_stride,
            .out_stride = d,
            .drop_threshold = (uint32_t)(l->dropout_p * 4294967296.0),
            .drop_scale = (float)(1.0 / (1.0 - l->dropout_p)),
            .drop_key = a->key,
            .drop_sample = a->first_sample + (uint64_t)sample,
            .drop_element = (uint64_t)(h * l->query_len) * drop_stride,
            .drop_stride = drop_stride,
            .scratch = scratch,
        };
        k->attention_forward[l->dtype](&args);
        int64_t out_at = q_row * q_cols(l) + h * d;
        assert_rows_equal("out", l, l->query_len, d, out, d,
                          (const char *)a->out + (size_t)out_at * size, q_cols(l));
        assert_memory_equal(lse, a->lse + head * l->query_len, (size_t)l->query_len * 4);
        // Backward reads out and dout with one stride: those of the batch.
        args.out = (char *)a->out + (size_t)out_at * size;
        args.dout = (const char *)a->dout + (size_t)out_at * size;
        args.out_stride = q_cols(l);
        args.dq = grad;
        args.q_stride = a->q_stride;
        unsigned char *dq = room(l, l->query_len * a->q_stride);
        args.dq = dq;
        args.dk = sums;
        args.dv = sums + l->key_len * d;
        if (h % group == 0) {
            memset(sums, 0, (size_t)(2 * l->key_len * d) * sizeof(float));
        }
        k->attention_backward[l->dtype](&args);
        assert_rows_equal("dq", l, l->query_len, d, dq, a->q_stride,
                          (const char *)a->dq + (size_t)(q_row * a->q_stride + h * d) * size,
                          a->q_stride);
        free(dq);
        if (h % group == group - 1) {
            size_t kv_at = (size_t)(h / group * d);
            k->from_f32[l->dtype](l->key_len * d, args.dk, grad);
            assert_rows_equal("dk", l, l->key_len, d, grad, d,
                              (const char *)a->dk + ((size_t)(k_row * a->k_stride) + kv_at) * size,
                              a->k_stride);
            k->from_f32[l->dtype](l->key_len * d, args.dv, grad);
            assert_rows_equal("dv", l, l->key_len, d, grad, d,
                              (const char *)a->dv + ((size_t)(k_row * a->v_stride) + kv_at) * size,
                              a->v_stride);
        }
    }
    free(sums);
    free(out);
    free(grad);
    free(lse);
    free(scratch);
    result_destroy(&r);
}

static void test_a_batch_is_its_heads(void **state)
{
    CERO_UNUSED(state);
    static const layout layouts[] = {
        {CERO_DTYPE_F32, 2, 100, 100, 0, 4, 2, 16, 0.1, true},
        {CERO_DTYPE_BF16, 2, 200, 200, 0, 6, 1, 32, 0.1, true},
        {CERO_DTYPE_BF16, 1, 130, 130, 0, 2, 2, 64, 0.1, true},
        {CERO_DTYPE_F32, 9, 257, 257, 0, 4, 2, 16, 0.0, true},
        {CERO_DTYPE_F16, 3, 40, 40, 0, 3, 3, 24, 0.0, false},
        {CERO_DTYPE_F32, 2, 90, 150, 55, 2, 2, 16, 0.0, false},
        {CERO_DTYPE_BF16, 1, 1, 333, 320, 4, 2, 64, 0.0, false},
    };

    for (size_t i = 0; i < CERO_COUNT_OF(layouts); i++) {
        check_heads(&layouts[i]);
    }
}

static void test_meta_answers_the_same_scratch(void **state)
{
    CERO_UNUSED(state);
    const layout l = {CERO_DTYPE_BF16, 2, 200, 200, 0, 6, 2, 32, 0.1, true};
    cero_device *meta = NULL;
    result r;

    result_create(&l, 3, &r);
    assert_ok(cero_device_create(&(cero_device_params){.name = "meta", .threads = 3}, &meta));
    for (int is_backward = 0; is_backward < 2; is_backward++) {
        size_t size = cero_device_attention_scratch(r.device, &r.args, is_backward);
        assert_true(size > 0);
        assert_true(cero_device_attention_scratch(meta, &r.args, is_backward) == size);
    }
    cero_device_destroy(&meta);
    result_destroy(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_threads_and_packing_change_no_bit),
        cmocka_unit_test(test_a_batch_is_its_heads),
        cmocka_unit_test(test_meta_answers_the_same_scratch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
