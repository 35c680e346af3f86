/* SPDX-License-Identifier: Apache-2.0 */
/*
 * LAMB (You et al., "Large batch optimization for deep learning", 2020) as DeepSpeed's FusedLamb has it:
 * u = m / (sqrt(v) + eps) + wd * p without bias corrections, which are in the step size; a parameter
 * moves by s * c * u with c = |p| / |u| within [min_coeff, max_coeff].
 *
 * The norms are of whole parameters, so there are two halves. Between them only the moments are kept:
 * the direction is computed again from them, and scratch is one chunk for each thread.
 */
#include "optim/optimizer_impl.h"

#include <math.h>
#include <string.h>

enum {
    CHUNK_BLOCKS = CERO_OPTIM_CHUNK / CERO_SQUARE_BLOCK
};

/* What one thread writes while it works through its chunks. */
typedef struct lane {
    float direction[CERO_OPTIM_CHUNK];
    double block_sums[CHUNK_BLOCKS];
    cero_optim_norms norms;
} lane;

/* The step's scratch: zeros stand for a gradient when the direction is computed again. */
typedef struct scratch {
    float zeros[CERO_OPTIM_CHUNK];
    lane lanes[]; /* one for each thread of the device */
} scratch;

/* Context of the loops over ranges. */
typedef struct pass {
    cero_lamb_args args;
    scratch *scratch;
    float step; /* second half: s * c */
} pass;

static int moment_count(const cero_optim_spec *spec, bool is_matrix)
{
    CERO_UNUSED(spec);
    CERO_UNUSED(is_matrix);
    return 2;
}

static cero_status plan(cero_optim *optim, const cero_optim_segment *segments, int64_t count,
                        size_t *nbytes)
{
    CERO_UNUSED(segments);
    CERO_UNUSED(count);
    *nbytes = sizeof(scratch) + (size_t)cero_device_threads(optim->device) * sizeof(lane);
    return CERO_OK;
}

/* Adds the squares of n elements that start `phase` elements after a border of blocks. */
static void add_squares(const cero_kernels *k, int64_t phase, int64_t n, const float *x,
                        double *block_sums, cero_exact *sum)
{
    int64_t head = phase > 0 ? CERO_SQUARE_BLOCK - phase : 0;
    head = head < n ? head : n;
    int64_t blocks = (n - head + CERO_SQUARE_BLOCK - 1) / CERO_SQUARE_BLOCK;

    if (head > 0) {
        k->square_sums[CERO_DTYPE_F32](head, x, block_sums);
        cero_exact_add(sum, block_sums[0]);
    }
    k->square_sums[CERO_DTYPE_F32](n - head, x + head, block_sums);
    for (int64_t b = 0; b < blocks; b++) {
        cero_exact_add(sum, block_sums[b]);
    }
}

static void measure_range(const cero_optim_range *range, void *context)
{
    const pass *p = context;
    const cero_optim_segment *s = range->segment;
    const cero_kernels *k = cero_device_kernels(range->optim->device);
    lane *mine = &p->scratch->lanes[range->thread];
    int64_t phase = (s->flat_offset + range->begin) % CERO_SQUARE_BLOCK;

    k->lamb_direction[s->grad_dtype](range->n, &p->args, cero_optim_range_grad(range),
                                     s->master + range->begin, s->exp_avg + range->begin,
                                     s->exp_avg_sq + range->begin, mine->direction);
    add_squares(k, phase, range->n, s->master + range->begin, mine->block_sums, &mine->norms.param);
    add_squares(k, phase, range->n, mine->direction, mine->block_sums, &mine->norms.update);
}

static pass make_pass(cero_optim *optim, const cero_optim_step *step,
                      const cero_optim_segment *segment)
{
    return (pass){
        .args = {.grad_scale = (float)step->grad_scale,
                 .beta1 = cero_optim_beta1(optim, step),
                 .beta2 = cero_optim_beta2(optim, step),
                 .eps = (float)optim->spec.eps,
                 .weight_decay = (float)cero_optim_decay(optim, segment),
                 .eps_inside_sqrt = optim->spec.eps_inside_sqrt},
        .scratch = step->scratch,
    };
}

static void prepare_segment(cero_optim *optim, const cero_optim_step *step,
                            const cero_optim_segment *segment)
{
    pass p = make_pass(optim, step, segment);
    int threads = cero_device_threads(optim->device);
    cero_optim_norms *norms = &step->norms[segment->param];

    for (int t = 0; t < threads; t++) {
        cero_exact_clear(&p.scratch->lanes[t].norms.param);
        cero_exact_clear(&p.scratch->lanes[t].norms.update);
    }
    cero_optim_for_ranges(optim, segment, measure_range, &p);
    for (int t = 0; t < threads; t++) {
        cero_exact_merge(&norms->param, &p.scratch->lanes[t].norms.param);
        cero_exact_merge(&norms->update, &p.scratch->lanes[t].norms.update);
    }
}

static void move_range(const cero_optim_range *range, void *context)
{
    const pass *p = context;
    const cero_optim_segment *s = range->segment;
    const cero_kernels *k = cero_device_kernels(range->optim->device);
    float *direction = p->scratch->lanes[range->thread].direction;

    k->lamb_direction[CERO_DTYPE_F32](range->n, &p->args, p->scratch->zeros,
                                      s->master + range->begin, s->exp_avg + range->begin,
                                      s->exp_avg_sq + range->begin, direction);
    k->axpy(range->n, -p->step, direction, s->master + range->begin);
    cero_optim_range_copy(range);
}

/* c = |p| / |u| within its limits; 1 when either norm is 0. */
static double trust_ratio(const cero_optim_spec *spec, const cero_optim_norms *norms)
{
    double param = sqrt(cero_exact_round(&norms->param));
    double update = sqrt(cero_exact_round(&norms->update));

    if (param == 0.0 || update == 0.0) {
        return 1.0;
    }
    double ratio = param / update;
    ratio = ratio > spec->max_coeff ? spec->max_coeff : ratio;
    return ratio < spec->min_coeff ? spec->min_coeff : ratio;
}

static void apply_segment(cero_optim *optim, const cero_optim_step *step,
                          const cero_optim_segment *segment)
{
    pass p = make_pass(optim, step, segment);
    double size = step->lr;

    if (optim->spec.bias_correction) {
        size *= sqrt(cero_optim_bias(p.args.beta2, step->number)) /
                cero_optim_bias(p.args.beta1, step->number);
    }
    p.step = (float)(size * trust_ratio(&optim->spec, &step->norms[segment->param]));
    // Betas of 1 leave the moments as the first half made them.
    p.args.beta1 = 1.0f;
    p.args.beta2 = 1.0f;
    memset(p.scratch->zeros, 0, sizeof(p.scratch->zeros));
    cero_optim_for_ranges(optim, segment, move_range, &p);
}

const cero_optim_ops cero_optim_lamb_ops = {
    .moment_name = {"exp_avg", "exp_avg_sq"},
    .moment_count = moment_count,
    .apply_segment = apply_segment,
    .prepare_segment = prepare_segment,
    .plan = plan,
};
