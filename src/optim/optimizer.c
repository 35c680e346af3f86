/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The optimizers' common part: the table of families, checks at the entry points, and the loops that
 * spread a segment over the threads.
 */
#include "optim/optimizer.h"

#include "base/memory.h"
#include "optim/optimizer_impl.h"

#include <inttypes.h>
#include <math.h>

static const cero_optim_ops *const families[CERO_OPTIM_COUNT] = {
    [CERO_OPTIM_ADAMW] = &cero_optim_adam_ops, [CERO_OPTIM_ADAM] = &cero_optim_adam_ops,
    [CERO_OPTIM_SGD] = &cero_optim_sgd_ops,    [CERO_OPTIM_ADAGRAD] = &cero_optim_adagrad_ops,
    [CERO_OPTIM_LION] = &cero_optim_lion_ops,  [CERO_OPTIM_LAMB] = &cero_optim_lamb_ops,
    [CERO_OPTIM_MUON] = &cero_optim_muon_ops,
};

static const char *const formulas[CERO_OPTIM_COUNT] = {
    [CERO_OPTIM_ADAMW] = "AdamW, decoupled decay: p -= lr*wd*p; p -= lr*m^/(sqrt(v^) + eps)",
    [CERO_OPTIM_ADAM] = "Adam, L2 decay: g += wd*p; p -= lr*m^/(sqrt(v^) + eps)",
    [CERO_OPTIM_SGD] = "SGD, L2 decay: g += wd*p; b = momentum*b + (1 - dampening)*g; p -= lr*b",
    [CERO_OPTIM_ADAGRAD] = "Adagrad: s += (g + wd*p)^2; p -= lr*g/(sqrt(s) + eps)",
    [CERO_OPTIM_LION] =
        "Lion, decoupled decay: p -= lr*wd*p; p -= lr*sign(beta1*m + (1 - beta1)*g)",
    [CERO_OPTIM_LAMB] =
        "LAMB: u = m/(sqrt(v) + eps) + wd*p; p -= lr*|p|/|u|*u, ratio per parameter",
    [CERO_OPTIM_MUON] = "Muon, decoupled decay: p -= lr*sqrt(max(1, m/n))*ortho(u); others AdamW",
};

static cero_status check_spec(const cero_optim_spec *spec)
{
    CERO_CHECK((int)spec->type >= 0 && spec->type < CERO_OPTIM_COUNT, CERO_ERR_INVALID,
               "optimizer type %d is none of 0 .. %d", (int)spec->type, CERO_OPTIM_COUNT - 1);
    CERO_CHECK(spec->lr >= 0.0 && isfinite(spec->lr), CERO_ERR_INVALID,
               "optimizer lr is %g; it must be 0 or more", spec->lr);
    CERO_CHECK(spec->eps >= 0.0, CERO_ERR_INVALID, "optimizer eps is %g; it must be 0 or more",
               spec->eps);
    CERO_CHECK(spec->beta1 >= 0.0 && spec->beta1 < 1.0 && spec->beta2 >= 0.0 && spec->beta2 < 1.0,
               CERO_ERR_INVALID, "optimizer betas are [%g, %g]; both must be in [0, 1)",
               spec->beta1, spec->beta2);
    CERO_CHECK(spec->weight_decay >= 0.0, CERO_ERR_INVALID,
               "optimizer weight_decay is %g; it must be 0 or more", spec->weight_decay);
    CERO_CHECK(spec->momentum >= 0.0, CERO_ERR_INVALID,
               "optimizer momentum is %g; it must be 0 or more", spec->momentum);
    CERO_CHECK(!spec->nesterov || spec->type != CERO_OPTIM_SGD ||
                   (spec->momentum > 0.0 && spec->dampening == 0.0),
               CERO_ERR_INVALID,
               "optimizer nesterov is set with momentum %g and dampening %g; it needs a momentum "
               "above 0 and dampening 0",
               spec->momentum, spec->dampening);
    return CERO_OK;
}

cero_status cero_optim_create(cero_device *device, const cero_optim_spec *spec, cero_optim **out)
{
    CERO_TRY(check_spec(spec));
    cero_optim *optim = cero_new(1, sizeof(*optim));

    CERO_CHECK(optim != NULL, CERO_ERR_NOMEM, "no room for an optimizer");
    optim->ops = families[spec->type];
    optim->device = device;
    optim->spec = *spec;
    *out = optim;
    return CERO_OK;
}

void cero_optim_destroy(cero_optim **optim)
{
    if (*optim == NULL) {
        return;
    }
    if ((*optim)->ops->cleanup != NULL) {
        (*optim)->ops->cleanup(*optim);
    }
    cero_delete(*optim);
    *optim = NULL;
}

int cero_optim_moment_count(const cero_optim_spec *spec, bool is_matrix)
{
    return families[spec->type]->moment_count(spec, is_matrix);
}

const char *cero_optim_moment_name(const cero_optim_spec *spec, int i)
{
    return i >= 0 && i < CERO_OPTIM_MOMENTS ? families[spec->type]->moment_name[i] : NULL;
}

const char *cero_optim_formula(const cero_optim_spec *spec)
{
    return formulas[spec->type];
}

bool cero_optim_needs_norms(const cero_optim_spec *spec)
{
    return spec->type == CERO_OPTIM_LAMB;
}

bool cero_optim_needs_matrices(const cero_optim_spec *spec)
{
    return spec->type == CERO_OPTIM_MUON;
}

static cero_status check_segment(const cero_optim_segment *s)
{
    int64_t numel = cero_shape_numel(&s->shape);

    CERO_CHECK(s->numel >= 0 && s->offset >= 0 && s->flat_offset >= 0 && s->numel <= numel &&
                   s->offset <= numel - s->numel,
               CERO_ERR_INVALID,
               "optimizer segment of parameter %" PRId64 ": elements %" PRId64 " .. %" PRId64
               " of %" PRId64,
               s->param, s->offset, s->offset + s->numel, numel);
    CERO_CHECK((int)s->grad_dtype < CERO_FLOAT_DTYPES && (int)s->copy_dtype < CERO_FLOAT_DTYPES,
               CERO_ERR_INVALID,
               "optimizer segment of parameter %" PRId64
               ": gradient %s, copy %s; both must be f32, bf16 or f16",
               s->param, cero_dtype_name(s->grad_dtype), cero_dtype_name(s->copy_dtype));
    return CERO_OK;
}

cero_status cero_optim_plan(cero_optim *optim, const cero_optim_segment *segments, int64_t count,
                            size_t *scratch)
{
    size_t nbytes = 0;

    for (int64_t i = 0; i < count; i++) {
        CERO_TRY(check_segment(&segments[i]));
    }
    if (optim->ops->plan != NULL) {
        CERO_TRY(optim->ops->plan(optim, segments, count, &nbytes));
    }
    *scratch = nbytes;
    return CERO_OK;
}

static cero_status check_step(const cero_optim *optim, const cero_optim_step *step)
{
    CERO_CHECK(step->number >= 1, CERO_ERR_INVALID,
               "optimizer update number %" PRId64 "; updates are counted from 1", step->number);
    CERO_CHECK(!cero_optim_needs_norms(&optim->spec) || step->norms != NULL, CERO_ERR_INVALID,
               "a LAMB update without norms; they are needed for each parameter");
    return CERO_OK;
}

cero_status cero_optim_prepare(cero_optim *optim, const cero_optim_step *step)
{
    CERO_TRY(check_step(optim, step));
    if (optim->ops->prepare_segment == NULL) {
        return CERO_OK;
    }
    for (int64_t i = 0; i < step->segment_count; i++) {
        optim->ops->prepare_segment(optim, step, &step->segments[i]);
    }
    return CERO_OK;
}

cero_status cero_optim_apply(cero_optim *optim, const cero_optim_step *step)
{
    CERO_TRY(check_step(optim, step));
    if (optim->ops->apply != NULL) {
        return optim->ops->apply(optim, step);
    }
    for (int64_t i = 0; i < step->segment_count; i++) {
        optim->ops->apply_segment(optim, step, &step->segments[i]);
    }
    return CERO_OK;
}

/* A loop over chunks, on its way through the device's threads. */
typedef struct chunk_loop {
    cero_optim *optim;
    const cero_optim_segment *segment;
    int64_t phase; /* elements of the first chunk that lie before the segment */
    cero_optim_range_task task;
    void *context;
} chunk_loop;

static void run_chunks(void *context, int64_t begin, int64_t end, int thread)
{
    const chunk_loop *loop = context;

    for (int64_t chunk = begin; chunk < end; chunk++) {
        int64_t first = chunk * CERO_OPTIM_CHUNK - loop->phase;
        int64_t last = first + CERO_OPTIM_CHUNK;
        first = first > 0 ? first : 0;
        last = last < loop->segment->numel ? last : loop->segment->numel;
        cero_optim_range range = {loop->optim, loop->segment, first, last - first, thread};
        loop->task(&range, loop->context);
    }
}

void cero_optim_for_ranges(cero_optim *optim, const cero_optim_segment *segment,
                           cero_optim_range_task task, void *context)
{
    if (segment->numel == 0) {
        return;
    }
    chunk_loop loop = {optim, segment, segment->flat_offset % CERO_OPTIM_CHUNK, task, context};
    int64_t chunks = (loop.phase + segment->numel + CERO_OPTIM_CHUNK - 1) / CERO_OPTIM_CHUNK;
    cero_device_parallel_for(optim->device, chunks, run_chunks, &loop);
}

const void *cero_optim_range_grad(const cero_optim_range *range)
{
    const cero_optim_segment *s = range->segment;

    return (const char *)s->grad + (size_t)range->begin * cero_dtype_size(s->grad_dtype);
}

void cero_optim_range_copy(const cero_optim_range *range)
{
    const cero_optim_segment *s = range->segment;

    if (s->copy == NULL) {
        return;
    }
    void *copy = (char *)s->copy + (size_t)range->begin * cero_dtype_size(s->copy_dtype);
    cero_device_kernels(range->optim->device)
        ->from_f32[s->copy_dtype](range->n, s->master + range->begin, copy);
}

float cero_optim_beta1(const cero_optim *optim, const cero_optim_step *step)
{
    return (float)(step->has_betas ? step->beta1 : optim->spec.beta1);
}

float cero_optim_beta2(const cero_optim *optim, const cero_optim_step *step)
{
    return (float)(step->has_betas ? step->beta2 : optim->spec.beta2);
}

double cero_optim_decay(const cero_optim *optim, const cero_optim_segment *segment)
{
    return segment->has_decay ? optim->spec.weight_decay : 0.0;
}

double cero_optim_bias(float beta, int64_t number)
{
    return 1.0 - pow((double)beta, (double)number);
}
