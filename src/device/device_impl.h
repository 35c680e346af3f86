/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of device/ share: the device itself, its backends and its plans. Nothing above device/
 * includes this.
 */
#ifndef CERO_DEVICE_DEVICE_IMPL_H
#define CERO_DEVICE_DEVICE_IMPL_H

#include "device/device.h"

typedef struct cero_dnnl cero_dnnl;

/* A kind of device. Sizes come from the same code for all; only some can run. */
typedef struct cero_device_backend {
    const char *name;
    bool is_meta; /* plans and runs nothing */
} cero_device_backend;

extern const cero_device_backend cero_device_cpu;
extern const cero_device_backend cero_device_meta;

enum {
    CERO_MATMUL_BUCKETS = 128
};

struct cero_device {
    const cero_device_backend *backend;
    int threads;
    const cero_kernels *kernels;               /* borrowed: the process's table */
    cero_dnnl *dnnl;                           /* owned */
    cero_matmul *matmuls[CERO_MATMUL_BUCKETS]; /* owned chains of plans, by hash of descriptor */
    cero_head_loss *head_losses;               /* owned list of plans */
};

void cero_matmul_destroy(cero_matmul *matmul);     /* the whole chain */
void cero_head_loss_destroy(cero_head_loss *plan); /* the whole list */

/*
 * The matrix library and OpenMP take the number of threads from the calling thread's setting. Sets it to
 * the device's and returns what it was; the host program's setting is put back after each use.
 */
int cero_device_threads_begin(const cero_device *device);
void cero_device_threads_end(int saved);

/* Sizes of scratch are sums of parts rounded up to whole cache lines. */
static inline size_t cero_round_to_line(size_t nbytes)
{
    return (nbytes + (CERO_MEM_ALIGNMENT - 1)) / CERO_MEM_ALIGNMENT * CERO_MEM_ALIGNMENT;
}

/* Address of element i of an array whose elements have `size` bytes. */
static inline const void *cero_at(const void *x, int64_t i, size_t size)
{
    return x == NULL ? NULL : (const unsigned char *)x + (size_t)i * size;
}

static inline void *cero_at_mut(void *x, int64_t i, size_t size)
{
    return x == NULL ? NULL : (unsigned char *)x + (size_t)i * size;
}

/* First row of part p when rows are cut in parts as evenly as they go. */
static inline int64_t cero_part_begin(int64_t rows, int64_t parts, int64_t p)
{
    return rows / parts * p + (rows % parts < p ? rows % parts : p);
}

/*
 * out[c] = partials[0][c] + partials[1][c] + … for partials [parts, cols]; the sum is left in
 * partials[0]. No parts give zeros.
 */
void cero_device_reduce_parts(cero_device *d, int64_t parts, int64_t cols, float *partials,
                              cero_dtype out_dtype, void *out);

#endif
