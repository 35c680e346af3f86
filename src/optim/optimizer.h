/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Optimizers on flat memory: AdamW, Adam, SGD, Adagrad, Lion, LAMB and Muon with DeepSpeed's formulas
 * (docs/optimizers.md).
 *
 * An optimizer sees *segments*: contiguous parts of parameters that this rank owns. It knows no graph,
 * no ranks and no files. What must cross ranks (LAMB's norms, Muon's whole matrices) leaves through the
 * step's struct. AdamW, Adam, SGD, Adagrad and Lion treat each element alone, so an element gets the
 * same bits however parameters are cut, and neighbours with equal decay may be one segment.
 */
#ifndef CERO_OPTIM_OPTIMIZER_H
#define CERO_OPTIM_OPTIMIZER_H

#include "base/exact.h"
#include "device/device.h"
#include "spec/train.h"

enum {
    CERO_OPTIM_MOMENTS = 2
};

typedef struct cero_optim cero_optim;

/* A contiguous part of one parameter. The pointers are to its first element. */
typedef struct cero_optim_segment {
    int64_t numel;
    int64_t offset;      /* of the first element within the parameter */
    int64_t flat_offset; /* of the first element within its unit's flat range: LAMB sums squares by
                            blocks of 256 of this range, so cuts at its multiples of 256 (all shards)
                            do not change a bit. Others ignore it */
    int64_t param;       /* number of the parameter: index of its norms (LAMB) */
    cero_shape shape;    /* of the whole parameter */
    bool has_decay;
    bool is_matrix; /* Muon: orthogonalised as [dim 0, product of the others]; else Adam */
    cero_dtype grad_dtype;
    cero_dtype copy_dtype;
    const void *grad;  /* borrowed */
    float *master;     /* borrowed; in fp32 training this is the parameter itself */
    float *exp_avg;    /* moment 0, zero at first; NULL when there is none */
    float *exp_avg_sq; /* moment 1, zero at first; NULL when there is none */
    void *copy;        /* compute copy, written; NULL for none */
} cero_optim_segment;

/* What LAMB needs of a whole parameter: sums of squares, to be added over ranks before apply. */
typedef struct cero_optim_norms {
    cero_exact param;
    cero_exact update;
} cero_optim_norms;

/*
 * Completes a matrix of which this rank wrote its own elements at their offsets: other ranks' elements
 * are to be filled in. Called once for each matrix, in the order of the segments.
 */
typedef cero_status (*cero_optim_gather)(void *context, int64_t param, float *matrix);

/* One update. Scalars come from the schedule, the scaler and clipping. */
typedef struct cero_optim_step {
    int64_t number;    /* of this applied update: 1, 2, … */
    double lr;         /* of this update */
    double grad_scale; /* g = grad_scale * grad: unscale, average and clip in one */
    bool has_betas;    /* beta1 and beta2 replace the spec's (OneCycle) */
    double beta1;
    double beta2;
    const cero_optim_segment
        *segments; /* [segment_count], borrowed; the segments of a parameter are
                                           neighbours */
    int64_t segment_count;
    cero_optim_norms *norms;  /* by parameter number; only when cero_optim_needs_norms */
    cero_optim_gather gather; /* Muon when matrices are cut over ranks; NULL: they are whole here. A
                                 rank without elements of a matrix then passes an empty segment */
    void *gather_context;
    void *scratch; /* cero_optim_plan's bytes, 64-byte aligned */
} cero_optim_step;

/* Errors: INVALID when a hyper-parameter is out of its range, NOMEM. */
CERO_NODISCARD cero_status cero_optim_create(cero_device *device, const cero_optim_spec *spec,
                                             cero_optim **out);
void cero_optim_destroy(cero_optim **optim);

/*
 * How many moments elements have, 0 .. 2: 0 none, 1 exp_avg alone, 2 both. `is_matrix` matters to Muon.
 */
int cero_optim_moment_count(const cero_optim_spec *spec, bool is_matrix);

/* What checkpoints call moment i: "exp_avg", "exp_avg_sq", "momentum_buffer", "sum". */
const char *cero_optim_moment_name(const cero_optim_spec *spec, int i);

/* The update as a line for the start of a run, "AdamW: … p -= lr*wd*p …": what users did not expect. */
const char *cero_optim_formula(const cero_optim_spec *spec);

/* True when apply reads norms that prepare added to (LAMB). */
bool cero_optim_needs_norms(const cero_optim_spec *spec);

/* True when whole matrices are needed: cut ones come through gather (Muon). */
bool cero_optim_needs_matrices(const cero_optim_spec *spec);

/*
 * Checks the segments' shapes, plans the products over them and says how much scratch their steps need.
 *
 * Pointers are not looked at, so a plan can be made before memory exists.
 * Errors: INVALID, UNSUPPORTED, NOMEM.
 */
CERO_NODISCARD cero_status cero_optim_plan(cero_optim *optim, const cero_optim_segment *segments,
                                           int64_t count, size_t *scratch);

/*
 * The first half of an update: with LAMB moves the moments and *adds* squares to step->norms (the
 * caller clears them before and adds them over ranks after); with the others does nothing.
 * Errors: INVALID. Allocates nothing.
 */
CERO_NODISCARD cero_status cero_optim_prepare(cero_optim *optim, const cero_optim_step *step);

/*
 * The second half: moves masters and the moments that prepare did not, writes the copies.
 * Errors: INVALID; those of gather and of products, after which the states are undefined.
 * Allocates nothing.
 */
CERO_NODISCARD cero_status cero_optim_apply(cero_optim *optim, const cero_optim_step *step);

#endif
