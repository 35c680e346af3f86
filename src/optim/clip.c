/* SPDX-License-Identifier: Apache-2.0 */
/* Clipping by the global norm. */
#include "optim/clip.h"

cero_clip cero_clip_make(double scaled_norm, double scale, double max_norm)
{
    cero_clip clip = {.norm = scaled_norm / scale, .coefficient = 1.0};

    if (max_norm > 0.0) {
        double excess = (clip.norm + 1e-6) / max_norm;
        // Written so that NaN is kept: only an excess known to be small is no excess.
        clip.coefficient = excess <= 1.0 ? 1.0 : 1.0 / excess;
    }
    clip.grad_scale = clip.coefficient / scale;
    return clip;
}
