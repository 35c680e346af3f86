/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Clipping by the global norm, with DeepSpeed's numbers.
 */
#ifndef CERO_OPTIM_CLIP_H
#define CERO_OPTIM_CLIP_H

#include "base/status.h"

typedef struct cero_clip {
    double norm;        /* of the true gradient, before clipping: scaled_norm / scale */
    double coefficient; /* what clipping multiplies gradients by: 1 or less */
    double grad_scale;  /* coefficient / scale: undoes the scale and clips in one product */
} cero_clip;

/*
 * The factors for gradients that carry the factor `scale` (loss scale, number of micro-batches, …) and
 * whose norm, with that factor, is `scaled_norm`. max_norm 0 or less: no clipping.
 *
 * coefficient = 1 / max(1, (norm + 1e-6) / max_norm): exactly 1 when the norm is small enough, so that
 * the bits of the gradients do not change. A norm that is not finite gives factors that are not.
 */
cero_clip cero_clip_make(double scaled_norm, double scale, double max_norm);

#endif
