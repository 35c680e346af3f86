/* SPDX-License-Identifier: Apache-2.0 */
/*
 * oneDNN's matrix product behind five functions that do not change between its versions 2 and 3.
 *
 * The shim knows nothing of transposes beyond strides, of small cases or of caches: device/cpu/matmul.c
 * does. Scratch is the caller's, so that a plan can count it.
 */
#ifndef CERO_DEVICE_CPU_DNNL_SHIM_H
#define CERO_DEVICE_CPU_DNNL_SHIM_H

#include "device/device.h"

/* An engine and a stream of the library. */
typedef struct cero_dnnl cero_dnnl;
/* One product: a primitive descriptor and, once compiled, the primitive and its memory handles. */
typedef struct cero_dnnl_matmul cero_dnnl_matmul;

CERO_NODISCARD cero_status cero_dnnl_create(cero_dnnl **out);
void cero_dnnl_destroy(cero_dnnl **dnnl);

/* "oneDNN 2.6.3" */
const char *cero_dnnl_version(void);

/*
 * Describes the product of `desc`, whose leading dimensions are set; `is_compiled` also makes it ready
 * to run. All dimensions are at least 1.
 *
 * Errors: UNSUPPORTED when the library has no code for it on this CPU, NOMEM, INTERNAL.
 */
CERO_NODISCARD cero_status cero_dnnl_matmul_create(cero_dnnl *dnnl, const cero_matmul_desc *desc,
                                                   bool is_compiled, cero_dnnl_matmul **out);
void cero_dnnl_matmul_destroy(cero_dnnl_matmul **matmul);
size_t cero_dnnl_matmul_scratch(const cero_dnnl_matmul *matmul);
/* Name of the implementation that the library chose, for logs and benchmarks. */
const char *cero_dnnl_matmul_implementation(const cero_dnnl_matmul *matmul);
CERO_NODISCARD cero_status cero_dnnl_matmul_run(cero_dnnl *dnnl, cero_dnnl_matmul *matmul,
                                                const void *a, const void *b, const void *bias,
                                                void *c, void *scratch);

#endif
