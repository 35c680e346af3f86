/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rotary tables. Angles are computed in double and stored as f32, so that high positions keep their
 * precision whatever the compute dtype. Frequencies: theta^(-2d/head_dim) (Su et al. 2021); Llama 3's
 * smoothing between two wavelengths as in Hugging Face's rope_type "llama3".
 */
#include "nn/nn.h"

#include <math.h>

typedef struct fill_context {
    cero_nn_rope_params params;
    bool is_sin;
} fill_context;

static double llama3_smooth(const cero_nn_rope_params *p, double frequency)
{
    double wavelength = 2 * 3.14159265358979323846 / frequency;
    double original = (double)p->original_context;

    if (wavelength < original / p->high_freq_factor) {
        return frequency;
    }
    if (wavelength > original / p->low_freq_factor) {
        return frequency / p->factor;
    }
    double smooth =
        (original / wavelength - p->low_freq_factor) / (p->high_freq_factor - p->low_freq_factor);
    return (1 - smooth) * frequency / p->factor + smooth * frequency;
}

static void fill_table(const void *context, void *data)
{
    const fill_context *c = context;
    const cero_nn_rope_params *p = &c->params;
    int64_t half = p->head_dim / 2;
    float *table = data; /* [positions, half] */

    for (int64_t d = 0; d < half; d++) {
        double frequency = pow(p->theta, -2.0 * (double)d / (double)p->head_dim);
        if (p->is_llama3) {
            frequency = llama3_smooth(p, frequency);
        }
        if (p->linear_factor > 0) {
            frequency /= p->linear_factor;
        }
        for (int64_t t = 0; t < p->positions; t++) {
            double angle = (double)t * frequency;
            table[t * half + d] = (float)(c->is_sin ? sin(angle) : cos(angle));
        }
    }
}

cero_nn_rope cero_nn_rope_tables(cero_graph *graph, const cero_nn_rope_params *params)
{
    cero_shape shape = {.ndim = 2, .dim = {params->positions, params->head_dim / 2}};
    fill_context c = {.params = *params, .is_sin = false};
    fill_context s = {.params = *params, .is_sin = true};

    return (cero_nn_rope){
        .cos = cero_graph_constant(graph, "rope.cos", CERO_DTYPE_F32, shape, fill_table, &c,
                                   sizeof(c)),
        .sin = cero_graph_constant(graph, "rope.sin", CERO_DTYPE_F32, shape, fill_table, &s,
                                   sizeof(s)),
    };
}
