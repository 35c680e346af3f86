/* SPDX-License-Identifier: Apache-2.0 */
/* The state behind zero.h, shared by its files. */
#ifndef CERO_ZERO_ZERO_IMPL_H
#define CERO_ZERO_ZERO_IMPL_H

#include "optim/optimizer.h"
#include "zero/zero.h"

/* Elements whose block sums are held at once while taking the norm. */
enum {
    CERO_ZERO_NORM_SPAN = 1 << 20
};

struct cero_zero {
    cero_device *device; /* borrowed, like the next three */
    cero_mem *mem;
    cero_comm *comm;
    const cero_train_spec *spec; /* NULL: parameters only */
    cero_zero_layout layout;
    cero_dtype dtype;      /* of compute copies and staged gradients */
    int64_t contributions; /* micro-batches of a step */
    bool has_master;       /* compute dtype is not f32 */
    bool has_sums;         /* more than one contribution */
    int moment_count;      /* most moments any parameter has */

    void *param;       /* [layout.padded], category PARAM */
    void *staging;     /* [layout.trained_padded], category GRAD */
    float *sum;        /* [layout.trained_padded], category GRAD; NULL unless has_sums */
    float *master;     /* [layout.trained_padded], category MASTER; NULL unless has_master */
    float *exp_avg;    /* [layout.trained_padded], category OPTIM; NULL when unused */
    float *exp_avg_sq; /* as exp_avg */
    double *block_sums;
    void *scratch; /* the optimizer's */
    size_t scratch_bytes;

    void **param_address; /* owned, [param_count] */
    void **grad_address;  /* owned, [param_count]; NULL for frozen */
    cero_optim *optim;
    cero_optim_segment *segments; /* owned, in canonical order */
    int64_t segment_count;
    cero_optim_norms *norms; /* owned; NULL unless the optimizer needs them */
    cero_loss_scaler scaler;
    int64_t applied;
    int64_t skipped;
    int64_t skipped_in_a_row;
};

/* fp32 weights of a trainable parameter: its master, or the compute copy itself. */
float *cero_zero_master(const cero_zero *zero, const cero_zero_param *param);

#endif
