/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Elementwise operations over the threads. Work is split on multiples of 64 elements, so that each
 * element falls on the same place of a vector, and gets the same bits, whatever the number of threads.
 */
#include "device/device_impl.h"

#include <string.h>

enum {
    BLOCK = 64,  /* elements in one task */
    SMALL = 8192 /* elements below which starting the threads costs more than they save */
};

/* One operation on arrays of n elements; what is not used stays zero. */
typedef struct elementwise {
    const cero_kernels *kernels;
    cero_dtype dtype;
    cero_dtype out_dtype; /* convert */
    int activation;
    int64_t n;
    float s;
    const void *a;
    const void *b;
    const void *c;
    void *y;
    void *z;
} elementwise;

/* The elements of tasks begin..end: how many, and their addresses in arrays of the job's dtype. */
typedef struct span {
    int64_t first;
    int64_t n;
    const void *a;
    const void *b;
    const void *c;
    void *y;
    void *z;
} span;

static span span_of(const elementwise *e, int64_t begin, int64_t end)
{
    size_t size = cero_dtype_size(e->dtype);
    int64_t first = begin * BLOCK;
    int64_t last = end * BLOCK < e->n ? end * BLOCK : e->n;

    return (span){.first = first,
                  .n = last - first,
                  .a = cero_at(e->a, first, size),
                  .b = cero_at(e->b, first, size),
                  .c = cero_at(e->c, first, size),
                  .y = cero_at_mut(e->y, first, size),
                  .z = cero_at_mut(e->z, first, size)};
}

static void run(cero_device *d, elementwise *e, cero_task task)
{
    int64_t tasks = (e->n + BLOCK - 1) / BLOCK;

    CERO_ASSERT(!d->backend->is_meta);
    e->kernels = d->kernels;
    if (e->n <= SMALL) {
        if (tasks > 0) {
            task(e, 0, tasks, 0);
        }
        return;
    }
    cero_device_parallel_for(d, tasks, task, e);
}

static void to_f32_task(void *context, int64_t begin, int64_t end, int thread)
{
    const elementwise *e = context;
    span s = span_of(e, begin, end);

    CERO_UNUSED(thread);
    e->kernels->to_f32[e->dtype](s.n, s.a, (float *)e->y + s.first);
}

void cero_device_to_f32(cero_device *d, cero_dtype dtype, int64_t n, const void *x, float *y)
{
    elementwise e = {.dtype = dtype, .n = n, .a = x, .y = y};
    run(d, &e, to_f32_task);
}

static void from_f32_task(void *context, int64_t begin, int64_t end, int thread)
{
    const elementwise *e = context;
    span s = span_of(e, begin, end);

    CERO_UNUSED(thread);
    e->kernels->from_f32[e->dtype](s.n, (const float *)e->a + s.first, s.y);
}

void cero_device_from_f32(cero_device *d, cero_dtype dtype, int64_t n, const float *x, void *y)
{
    elementwise e = {.dtype = dtype, .n = n, .a = x, .y = y};
    run(d, &e, from_f32_task);
}

static void copy_task(void *context, int64_t begin, int64_t end, int thread)
{
    const elementwise *e = context;
    span s = span_of(e, begin, end);

    CERO_UNUSED(thread);
    memcpy(s.y, s.a, (size_t)s.n * cero_dtype_size(e->dtype));
}

/* Between two types of 16 bits: through f32, a few lines of cache at a time. */
static void through_f32_task(void *context, int64_t begin, int64_t end, int thread)
{
    const elementwise *e = context;
    span s = span_of(e, begin, end);
    float part[4 * BLOCK];

    CERO_UNUSED(thread);
    for (int64_t i = 0; i < s.n; i += 4 * BLOCK) {
        int64_t n = s.n - i < 4 * BLOCK ? s.n - i : 4 * BLOCK;
        e->kernels->to_f32[e->dtype](n, cero_at(s.a, i, cero_dtype_size(e->dtype)), part);
        e->kernels->from_f32[e->out_dtype](
            n, part, cero_at_mut(e->y, s.first + i, cero_dtype_size(e->out_dtype)));
    }
}

void cero_device_convert(cero_device *d, cero_dtype from, cero_dtype to, int64_t n, const void *x,
                         void *y)
{
    elementwise e = {.dtype = from, .out_dtype = to, .n = n, .a = x, .y = y};

    if (from == to) {
        run(d, &e, copy_task);
    } else if (to == CERO_DTYPE_F32) {
        run(d, &e, to_f32_task);
    } else if (from == CERO_DTYPE_F32) {
        e.dtype = to;
        run(d, &e, from_f32_task);
    } else {
        run(d, &e, through_f32_task);
    }
}

static void accumulate_task(void *context, int64_t begin, int64_t end, int thread)
{
    const elementwise *e = context;
    span s = span_of(e, begin, end);

    CERO_UNUSED(thread);
    e->kernels->accumulate[e->dtype](s.n, s.a, (float *)e->y + s.first);
}

void cero_device_accumulate(cero_device *d, cero_dtype dtype, int64_t n, const void *x, float *acc)
{
    elementwise e = {.dtype = dtype, .n = n, .a = x, .y = acc};
    run(d, &e, accumulate_task);
}

static void fill_task(void *context, int64_t begin, int64_t end, int thread)
{
    const elementwise *e = context;
    span s = span_of(e, begin, end);

    CERO_UNUSED(thread);
    if (e->dtype == CERO_DTYPE_F32) {
        float *y = s.y;
        for (int64_t i = 0; i < s.n; i++) {
            y[i] = e->s;
        }
        return;
    }
    uint16_t *y = s.y;
    uint16_t bits = 0;
    e->kernels->from_f32[e->dtype](1, &e->s, &bits);
    for (int64_t i = 0; i < s.n; i++) {
        y[i] = bits;
    }
}

void cero_device_fill(cero_device *d, cero_dtype dtype, int64_t n, float value, void *y)
{
    elementwise e = {.dtype = dtype, .n = n, .s = value, .y = y};
    run(d, &e, fill_task);
}

static void add_task(void *context, int64_t begin, int64_t end, int thread)
{
    const elementwise *e = context;
    span s = span_of(e, begin, end);

    CERO_UNUSED(thread);
    e->kernels->add[e->dtype](s.n, s.a, s.b, s.y);
}

void cero_device_add(cero_device *d, cero_dtype dtype, int64_t n, const void *a, const void *b,
                     void *y)
{
    elementwise e = {.dtype = dtype, .n = n, .a = a, .b = b, .y = y};
    run(d, &e, add_task);
}

static void mul_task(void *context, int64_t begin, int64_t end, int thread)
{
    const elementwise *e = context;
    span s = span_of(e, begin, end);

    CERO_UNUSED(thread);
    e->kernels->mul[e->dtype](s.n, s.a, s.b, s.y);
}

void cero_device_mul(cero_device *d, cero_dtype dtype, int64_t n, const void *a, const void *b,
                     void *y)
{
    elementwise e = {.dtype = dtype, .n = n, .a = a, .b = b, .y = y};
    run(d, &e, mul_task);
}

static void scale_task(void *context, int64_t begin, int64_t end, int thread)
{
    const elementwise *e = context;
    span s = span_of(e, begin, end);

    CERO_UNUSED(thread);
    e->kernels->scale[e->dtype](s.n, e->s, s.a, s.y);
}

void cero_device_scale(cero_device *d, cero_dtype dtype, int64_t n, float s, const void *x, void *y)
{
    elementwise e = {.dtype = dtype, .n = n, .s = s, .a = x, .y = y};
    run(d, &e, scale_task);
}

static void activation_forward_task(void *context, int64_t begin, int64_t end, int thread)
{
    const elementwise *e = context;
    span s = span_of(e, begin, end);

    CERO_UNUSED(thread);
    e->kernels->activation_forward[e->activation][e->dtype](s.n, s.a, s.y);
}

void cero_device_activation_forward(cero_device *d, cero_dtype dtype, int activation, int64_t n,
                                    const void *x, void *y)
{
    elementwise e = {.dtype = dtype, .activation = activation, .n = n, .a = x, .y = y};
    run(d, &e, activation_forward_task);
}

static void activation_backward_task(void *context, int64_t begin, int64_t end, int thread)
{
    const elementwise *e = context;
    span s = span_of(e, begin, end);

    CERO_UNUSED(thread);
    e->kernels->activation_backward[e->activation][e->dtype](s.n, s.a, s.b, s.y);
}

void cero_device_activation_backward(cero_device *d, cero_dtype dtype, int activation, int64_t n,
                                     const void *x, const void *dy, void *dx)
{
    elementwise e = {.dtype = dtype, .activation = activation, .n = n, .a = x, .b = dy, .y = dx};
    run(d, &e, activation_backward_task);
}

static void swiglu_forward_task(void *context, int64_t begin, int64_t end, int thread)
{
    const elementwise *e = context;
    span s = span_of(e, begin, end);

    CERO_UNUSED(thread);
    e->kernels->swiglu_forward[e->dtype](s.n, s.a, s.b, s.y);
}

void cero_device_swiglu_forward(cero_device *d, cero_dtype dtype, int64_t n, const void *gate,
                                const void *up, void *y)
{
    elementwise e = {.dtype = dtype, .n = n, .a = gate, .b = up, .y = y};
    run(d, &e, swiglu_forward_task);
}

static void swiglu_backward_task(void *context, int64_t begin, int64_t end, int thread)
{
    const elementwise *e = context;
    span s = span_of(e, begin, end);

    CERO_UNUSED(thread);
    e->kernels->swiglu_backward[e->dtype](s.n, s.a, s.b, s.c, s.y, s.z);
}

void cero_device_swiglu_backward(cero_device *d, cero_dtype dtype, int64_t n, const void *gate,
                                 const void *up, const void *dy, void *dgate, void *dup)
{
    elementwise e = {.dtype = dtype, .n = n, .a = gate, .b = up, .c = dy, .y = dgate, .z = dup};
    run(d, &e, swiglu_backward_task);
}
