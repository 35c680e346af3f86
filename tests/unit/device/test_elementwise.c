/* SPDX-License-Identifier: Apache-2.0 */
/* An elementwise operation over 1, 2 or 3 threads gives the bits of one kernel call on the whole. */
#include "numbers.h"

enum {
    ACTIVATION = 1,
    LONGEST = 20011
};

static const int64_t lengths[] = {0, 1, 63, 64, 65, 8192, 8193, LONGEST};

/* Operands of one operation: three inputs, two outputs of the device and two of the kernel. */
typedef struct operands {
    cero_dtype dtype;
    int64_t n;
    void *x[3];
    void *y[2];
    void *want[2];
} operands;

typedef void (*device_call)(cero_device *d, const operands *o);
typedef void (*kernel_call)(const cero_kernels *k, const operands *o);

static void device_to_f32(cero_device *d, const operands *o)
{
    cero_device_to_f32(d, o->dtype, o->n, o->x[0], o->y[0]);
}

static void kernel_to_f32(const cero_kernels *k, const operands *o)
{
    k->to_f32[o->dtype](o->n, o->x[0], o->want[0]);
}

static void device_from_f32(cero_device *d, const operands *o)
{
    // The bytes of a sum of squares are any floats: use exact ones.
    cero_device_to_f32(d, o->dtype, o->n, o->x[0], o->y[1]);
    cero_device_from_f32(d, o->dtype, o->n, o->y[1], o->y[0]);
}

static void kernel_from_f32(const cero_kernels *k, const operands *o)
{
    k->to_f32[o->dtype](o->n, o->x[0], o->want[1]);
    k->from_f32[o->dtype](o->n, o->want[1], o->want[0]);
}

static void device_convert(cero_device *d, const operands *o)
{
    cero_device_convert(d, o->dtype, CERO_DTYPE_BF16, o->n, o->x[0], o->y[0]);
    cero_device_convert(d, CERO_DTYPE_BF16, CERO_DTYPE_F16, o->n, o->y[0], o->y[1]);
}

static void kernel_convert(const cero_kernels *k, const operands *o)
{
    k->to_f32[o->dtype](o->n, o->x[0], o->want[1]);
    k->from_f32[CERO_DTYPE_BF16](o->n, o->want[1], o->want[0]);
    k->to_f32[CERO_DTYPE_BF16](o->n, o->want[0], o->want[1]);
    float *wide = o->want[1];
    uint16_t *narrow = o->want[1];
    for (int64_t i = 0; i < o->n; i++) { // In place: 2 bytes trail 4.
        float one = wide[i];
        k->from_f32[CERO_DTYPE_F16](1, &one, &narrow[i]);
    }
    // The tail beyond the 16-bit results still holds floats.
    memset(narrow + o->n, 0xFF, (size_t)o->n * sizeof(uint16_t));
}

static void device_accumulate(cero_device *d, const operands *o)
{
    cero_device_fill(d, CERO_DTYPE_F32, o->n, 0.1f, o->y[0]);
    cero_device_accumulate(d, o->dtype, o->n, o->x[0], o->y[0]);
}

static void kernel_accumulate(const cero_kernels *k, const operands *o)
{
    float *want = o->want[0];
    for (int64_t i = 0; i < o->n; i++) {
        want[i] = 0.1f;
    }
    k->accumulate[o->dtype](o->n, o->x[0], want);
}

static void device_fill(cero_device *d, const operands *o)
{
    cero_device_fill(d, o->dtype, o->n, 1.5f, o->y[0]);
}

static void kernel_fill(const cero_kernels *k, const operands *o)
{
    (void)k;
    for (int64_t i = 0; i < o->n; i++) {
        number_set(o->dtype, o->want[0], i, 1.5f);
    }
}

static void device_add(cero_device *d, const operands *o)
{
    cero_device_add(d, o->dtype, o->n, o->x[0], o->x[1], o->y[0]);
}

static void kernel_add(const cero_kernels *k, const operands *o)
{
    k->add[o->dtype](o->n, o->x[0], o->x[1], o->want[0]);
}

static void device_mul(cero_device *d, const operands *o)
{
    cero_device_mul(d, o->dtype, o->n, o->x[0], o->x[1], o->y[0]);
}

static void kernel_mul(const cero_kernels *k, const operands *o)
{
    k->mul[o->dtype](o->n, o->x[0], o->x[1], o->want[0]);
}

static void device_scale(cero_device *d, const operands *o)
{
    cero_device_scale(d, o->dtype, o->n, 0.3f, o->x[0], o->y[0]);
}

static void kernel_scale(const cero_kernels *k, const operands *o)
{
    k->scale[o->dtype](o->n, 0.3f, o->x[0], o->want[0]);
}

static void device_activation(cero_device *d, const operands *o)
{
    cero_device_activation_forward(d, o->dtype, ACTIVATION, o->n, o->x[0], o->y[0]);
    cero_device_activation_backward(d, o->dtype, ACTIVATION, o->n, o->x[0], o->x[1], o->y[1]);
}

static void kernel_activation(const cero_kernels *k, const operands *o)
{
    k->activation_forward[ACTIVATION][o->dtype](o->n, o->x[0], o->want[0]);
    k->activation_backward[ACTIVATION][o->dtype](o->n, o->x[0], o->x[1], o->want[1]);
}

static void device_swiglu(cero_device *d, const operands *o)
{
    cero_device_swiglu_forward(d, o->dtype, o->n, o->x[0], o->x[1], o->y[0]);
}

static void kernel_swiglu(const cero_kernels *k, const operands *o)
{
    k->swiglu_forward[o->dtype](o->n, o->x[0], o->x[1], o->want[0]);
}

static void device_swiglu_backward(cero_device *d, const operands *o)
{
    cero_device_swiglu_backward(d, o->dtype, o->n, o->x[0], o->x[1], o->x[2], o->y[0], o->y[1]);
}

static void kernel_swiglu_backward(const cero_kernels *k, const operands *o)
{
    k->swiglu_backward[o->dtype](o->n, o->x[0], o->x[1], o->x[2], o->want[0], o->want[1]);
}

static const struct {
    const char *name;
    device_call device;
    kernel_call kernel;
} operations[] = {
    {"to_f32", device_to_f32, kernel_to_f32},
    {"from_f32", device_from_f32, kernel_from_f32},
    {"convert", device_convert, kernel_convert},
    {"accumulate", device_accumulate, kernel_accumulate},
    {"fill", device_fill, kernel_fill},
    {"add", device_add, kernel_add},
    {"mul", device_mul, kernel_mul},
    {"scale", device_scale, kernel_scale},
    {"activation", device_activation, kernel_activation},
    {"swiglu", device_swiglu, kernel_swiglu},
    {"swiglu_backward", device_swiglu_backward, kernel_swiglu_backward},
};

/* All outputs have room for n floats and are compared whole: what must not be written stays 0xFF. */
static void check_operation(size_t which, cero_device *d, operands *o)
{
    size_t nbytes = (size_t)o->n * sizeof(float);

    for (int i = 0; i < 2; i++) {
        memset(o->y[i], 0xFF, nbytes + 64);
        memset(o->want[i], 0xFF, nbytes + 64);
    }
    operations[which].device(d, o);
    operations[which].kernel(cero_device_kernels(d), o);
    for (int i = 0; i < 2; i++) {
        if (memcmp(o->y[i], o->want[i], nbytes + 64) != 0) {
            fail_msg("%s of %d elements in %s on %d threads: output %d differs",
                     operations[which].name, (int)o->n, cero_dtype_name(o->dtype),
                     cero_device_threads(d), i);
        }
    }
}

static void test_operations(void **state)
{
    operands o = {0};

    (void)state;
    for (int i = 0; i < 2; i++) {
        o.y[i] = number_scratch(LONGEST * sizeof(float));
        o.want[i] = number_scratch(LONGEST * sizeof(float));
    }
    for (int t = 0; t < CERO_FLOAT_DTYPES; t++) {
        o.dtype = number_dtypes[t];
        for (int i = 0; i < 3; i++) {
            o.x[i] = number_random(o.dtype, LONGEST, (uint64_t)i);
        }
        for (int threads = 1; threads <= 3; threads++) {
            cero_device *d = device_with("cpu", threads);
            for (size_t l = 0; l < CERO_COUNT_OF(lengths); l++) {
                o.n = lengths[l];
                for (size_t which = 0; which < CERO_COUNT_OF(operations); which++) {
                    check_operation(which, d, &o);
                }
            }
            cero_device_destroy(&d);
        }
        for (int i = 0; i < 3; i++) {
            free(o.x[i]);
        }
    }
    for (int i = 0; i < 2; i++) {
        free(o.y[i]);
        free(o.want[i]);
    }
}

static void test_convert_to_itself_copies(void **state)
{
    cero_device *d = device_with("cpu", 2);
    uint16_t x[5] = {1, 2, 0x7FC0, 4, 5};
    uint16_t y[5] = {0};

    (void)state;
    cero_device_convert(d, CERO_DTYPE_BF16, CERO_DTYPE_BF16, 5, x, y);
    assert_memory_equal(x, y, sizeof(x));
    cero_device_destroy(&d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_operations),
        cmocka_unit_test(test_convert_to_itself_copies),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
