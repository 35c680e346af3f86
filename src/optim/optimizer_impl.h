/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside optim/: the table an optimizer family fills, and the loops over segments that families share.
 */
#ifndef CERO_OPTIM_OPTIMIZER_IMPL_H
#define CERO_OPTIM_OPTIMIZER_IMPL_H

#include "optim/optimizer.h"

enum {
    /* Elements a thread takes at once: states of 12 bytes stay in its cache. A multiple of 256. */
    CERO_OPTIM_CHUNK = 8192
};

typedef struct cero_optim_ops {
    /* required */
    const char *moment_name[CERO_OPTIM_MOMENTS];
    int (*moment_count)(const cero_optim_spec *spec, bool is_matrix);
    /* One segment of an update, all of it when the family works element by element. */
    void (*apply_segment)(cero_optim *optim, const cero_optim_step *step,
                          const cero_optim_segment *segment);

    /* optional, apply_segment for each segment when NULL */
    cero_status (*apply)(cero_optim *optim, const cero_optim_step *step);

    /* optional, nothing to do when NULL */
    void (*prepare_segment)(cero_optim *optim, const cero_optim_step *step,
                            const cero_optim_segment *segment);
    cero_status (*plan)(cero_optim *optim, const cero_optim_segment *segments, int64_t count,
                        size_t *scratch);
    void (*cleanup)(cero_optim *optim);
} cero_optim_ops;

extern const cero_optim_ops cero_optim_adam_ops;
extern const cero_optim_ops cero_optim_sgd_ops;
extern const cero_optim_ops cero_optim_adagrad_ops;
extern const cero_optim_ops cero_optim_lion_ops;
extern const cero_optim_ops cero_optim_lamb_ops;
extern const cero_optim_ops cero_optim_muon_ops;

struct cero_optim {
    const cero_optim_ops *ops;
    cero_device *device; /* borrowed, outlives this */
    cero_optim_spec spec;
    void *state; /* the family's, owned through ops->cleanup; NULL for most */
};

/* Part of a segment: elements begin .. begin + n. `thread` numbers the caller's scratch. */
typedef struct cero_optim_range {
    cero_optim *optim;
    const cero_optim_segment *segment;
    int64_t begin;
    int64_t n;
    int thread;
} cero_optim_range;

typedef void (*cero_optim_range_task)(const cero_optim_range *range, void *context);

/* Runs the task over a segment in ranges cut at multiples of CERO_OPTIM_CHUNK of the flat range. */
void cero_optim_for_ranges(cero_optim *optim, const cero_optim_segment *segment,
                           cero_optim_range_task task, void *context);

/* The gradient of a range's first element. */
const void *cero_optim_range_grad(const cero_optim_range *range);

/* Writes the range's new weights to the compute copy, if there is one. */
void cero_optim_range_copy(const cero_optim_range *range);

/* The betas in force, rounded to f32 as the kernels use them. */
float cero_optim_beta1(const cero_optim *optim, const cero_optim_step *step);
float cero_optim_beta2(const cero_optim *optim, const cero_optim_step *step);

/* The decay of a segment: the spec's, or 0. */
double cero_optim_decay(const cero_optim *optim, const cero_optim_segment *segment);

/* 1 - beta^number, in double: what a moment of constant gradients has reached after `number` updates. */
double cero_optim_bias(float beta, int64_t number);

/* AdamW (decoupled) or Adam (L2) with this rate; shared with Muon's other parameters. */
void cero_optim_adam_segment(cero_optim *optim, const cero_optim_step *step,
                             const cero_optim_segment *segment, double lr, bool is_decoupled);

#endif
