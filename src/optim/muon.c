/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Muon (Jordan et al., "Muon: an optimizer for hidden layers in neural networks", 2024) with AdamW for
 * what is no matrix, as DeepSpeed has it.
 *
 * m = mu * m + (1 - mu) * g, u = (1 - mu) * g + mu * m (Nesterov); u is replaced by the nearest
 * orthogonal matrix O, found with five Newton-Schulz steps; then p = p * (1 - lr * wd) and
 * p -= lr * sqrt(max(1, rows / cols)) * O. All of it in f32.
 *
 * A matrix that lies in several segments is put together in scratch; elements of other ranks come
 * through step->gather, and every rank then computes the same O and applies its own part.
 */
#include "base/memory.h"
#include "optim/optimizer_impl.h"

#include <inttypes.h>
#include <math.h>

/* The quintic's coefficients: X = a X + (b A + c A^2) X with A = X X^T. */
static const float quintic_a = 3.4445f;
static const float quintic_b = -4.7750f;
static const float quintic_c = 2.0315f;

enum {
    DEFAULT_STEPS = 5
};

/* A matrix shape and its planned products. The small side is `inner`. */
typedef struct shape_plan {
    int64_t rows;
    int64_t cols;
    int64_t inner;
    const cero_matmul *gram;    /* A = X X^T, or X^T X when there are more rows than columns */
    const cero_matmul *square;  /* A2 = A A */
    const cero_matmul *product; /* Y += B X, or Y += X B */
} shape_plan;

/* The family's state: shapes met by plan. */
typedef struct muon_state {
    shape_plan *shapes; /* [shape_count], owned */
    int64_t shape_count;
    int64_t shape_capacity;
} muon_state;

/* Where a matrix's work lies in scratch; all views. */
typedef struct workspace {
    float *x;           /* [rows, cols] */
    float *y;           /* [rows, cols] */
    float *gram;        /* [inner, inner] */
    float *square;      /* [inner, inner] */
    double *block_sums; /* [ceil(rows * cols / 256)] */
    void *products;
} workspace;

static int moment_count(const cero_optim_spec *spec, bool is_matrix)
{
    CERO_UNUSED(spec);
    return is_matrix ? 1 : 2;
}

static int64_t rows_of(const cero_optim_segment *s)
{
    return s->shape.ndim > 0 ? s->shape.dim[0] : 1;
}

static int64_t cols_of(const cero_optim_segment *s)
{
    int64_t cols = 1;

    for (int i = 1; i < s->shape.ndim; i++) {
        cols *= s->shape.dim[i];
    }
    return cols;
}

static const shape_plan *find_shape(const muon_state *state, int64_t rows, int64_t cols)
{
    for (int64_t i = 0; state != NULL && i < state->shape_count; i++) {
        if (state->shapes[i].rows == rows && state->shapes[i].cols == cols) {
            return &state->shapes[i];
        }
    }
    return NULL;
}

static size_t padded(size_t nbytes)
{
    return (nbytes + CERO_MEM_ALIGNMENT - 1) / CERO_MEM_ALIGNMENT * CERO_MEM_ALIGNMENT;
}

static int64_t block_count(const shape_plan *shape)
{
    return (shape->rows * shape->cols + CERO_SQUARE_BLOCK - 1) / CERO_SQUARE_BLOCK;
}

static size_t largest(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* Lays the workspace out from `base` (NULL: only counts); returns its bytes. */
static size_t lay_out(const shape_plan *shape, char *base, workspace *w)
{
    size_t matrix = padded((size_t)(shape->rows * shape->cols) * sizeof(float));
    size_t inner = padded((size_t)(shape->inner * shape->inner) * sizeof(float));
    size_t sums = padded((size_t)block_count(shape) * sizeof(double));
    size_t products =
        largest(cero_matmul_scratch(shape->gram),
                largest(cero_matmul_scratch(shape->square), cero_matmul_scratch(shape->product)));

    if (base != NULL) {
        *w = (workspace){
            .x = (float *)(void *)base,
            .y = (float *)(void *)(base + matrix),
            .gram = (float *)(void *)(base + 2 * matrix),
            .square = (float *)(void *)(base + 2 * matrix + inner),
            .block_sums = (double *)(void *)(base + 2 * matrix + 2 * inner),
            .products = base + 2 * matrix + 2 * inner + sums,
        };
    }
    return 2 * matrix + 2 * inner + sums + padded(products);
}

static cero_status plan_shape(cero_device *device, shape_plan *shape)
{
    bool is_tall = shape->rows > shape->cols;
    int64_t outer = is_tall ? shape->rows : shape->cols;
    int64_t inner = is_tall ? shape->cols : shape->rows;

    shape->inner = inner;
    CERO_TRY(cero_device_matmul_plan(device,
                                     &(cero_matmul_desc){.M = inner,
                                                         .N = inner,
                                                         .K = outer,
                                                         .is_a_transposed = is_tall,
                                                         .is_b_transposed = !is_tall},
                                     &shape->gram));
    CERO_TRY(cero_device_matmul_plan(
        device, &(cero_matmul_desc){.M = inner, .N = inner, .K = inner}, &shape->square));
    CERO_TRY(cero_device_matmul_plan(
        device,
        &(cero_matmul_desc){.M = shape->rows, .N = shape->cols, .K = inner, .is_adding = true},
        &shape->product));
    return CERO_OK;
}

/* Plans a matrix's shape when it is met for the first time; says what its workspace needs. */
static cero_status add_shape(cero_optim *optim, int64_t rows, int64_t cols, size_t *nbytes)
{
    if (optim->state == NULL) {
        optim->state = cero_new(1, sizeof(muon_state));
        CERO_CHECK(optim->state != NULL, CERO_ERR_NOMEM, "no room for Muon's plans");
    }
    muon_state *state = optim->state;
    const shape_plan *known = find_shape(state, rows, cols);
    if (known != NULL) {
        *nbytes = lay_out(known, NULL, NULL);
        return CERO_OK;
    }
    shape_plan shape = {.rows = rows, .cols = cols};
    CERO_TRY(plan_shape(optim->device, &shape));
    void *shapes = state->shapes;
    CERO_TRY(cero_grow(&shapes, state->shape_count, &state->shape_capacity, sizeof(shape)));
    state->shapes = shapes;
    state->shapes[state->shape_count] = shape;
    state->shape_count += 1;
    *nbytes = lay_out(&shape, NULL, NULL);
    return CERO_OK;
}

static cero_status plan(cero_optim *optim, const cero_optim_segment *segments, int64_t count,
                        size_t *nbytes)
{
    for (int64_t i = 0; i < count; i++) {
        const cero_optim_segment *s = &segments[i];
        if (!s->is_matrix) {
            continue;
        }
        CERO_CHECK(s->shape.ndim >= 2 && cero_shape_numel(&s->shape) > 0, CERO_ERR_INVALID,
                   "Muon: parameter %" PRId64
                   " is marked as a matrix and has %d dimensions; it needs 2 or more, none empty",
                   s->param, s->shape.ndim);
        size_t workspace_bytes = 0;
        CERO_TRY(add_shape(optim, rows_of(s), cols_of(s), &workspace_bytes));
        *nbytes = largest(*nbytes, workspace_bytes);
    }
    return CERO_OK;
}

static void cleanup(cero_optim *optim)
{
    muon_state *state = optim->state;

    // The products belong to the device.
    if (state != NULL) {
        cero_delete(state->shapes);
        cero_delete(state);
        optim->state = NULL;
    }
}

/* Context of the loops over ranges of a matrix's segments. */
typedef struct pass {
    float *matrix; /* [rows, cols], whole */
    float grad_scale;
    float mu;
    float keep; /* 1 - lr * wd */
    float step; /* lr * sqrt(max(1, rows / cols)) */
} pass;

static void momentum_range(const cero_optim_range *range, void *context)
{
    const pass *p = context;
    const cero_optim_segment *s = range->segment;
    float *u = p->matrix + s->offset + range->begin;
    // SGD's kernel on u = 0 with lr = -1 and (1 - mu) in the gradient: u = (1 - mu) g + mu m.
    cero_sgd_args args = {
        .grad_scale = p->grad_scale * (1.0f - p->mu),
        .lr = -1.0f,
        .momentum = p->mu,
        .is_nesterov = true,
    };

    for (int64_t i = 0; i < range->n; i++) {
        u[i] = 0.0f;
    }
    cero_device_kernels(range->optim->device)
        ->sgd[s->grad_dtype](range->n, &args, cero_optim_range_grad(range), u,
                             s->exp_avg + range->begin);
}

static void move_range(const cero_optim_range *range, void *context)
{
    const pass *p = context;
    const cero_optim_segment *s = range->segment;
    const cero_kernels *k = cero_device_kernels(range->optim->device);
    float *master = s->master + range->begin;

    k->scale[CERO_DTYPE_F32](range->n, p->keep, master, master);
    k->axpy(range->n, -p->step, p->matrix + s->offset + range->begin, master);
    cero_optim_range_copy(range);
}

/* X = X / (|X| + 1e-7), the norm summed in double in the order of the blocks. */
static void normalise(cero_device *device, const shape_plan *shape, const workspace *w)
{
    int64_t numel = shape->rows * shape->cols;
    double sum = 0.0;

    cero_device_square_sums(device, CERO_DTYPE_F32, numel, w->x, w->block_sums);
    for (int64_t b = 0; b < block_count(shape); b++) {
        sum += w->block_sums[b];
    }
    cero_device_scale(device, CERO_DTYPE_F32, numel, (float)(1.0 / (sqrt(sum) + 1e-7)), w->x, w->x);
}

/* One Newton-Schulz step from w->x into w->y. */
static cero_status newton_schulz(cero_device *device, const shape_plan *shape, const workspace *w)
{
    int64_t inner2 = shape->inner * shape->inner;
    bool is_tall = shape->rows > shape->cols;

    CERO_TRY(cero_device_matmul_run(device, shape->gram, w->x, w->x, NULL, w->gram, w->products));
    CERO_TRY(cero_device_matmul_run(device, shape->square, w->gram, w->gram, NULL, w->square,
                                    w->products));
    // B = b A + c A^2 stays in `square`.
    cero_device_scale(device, CERO_DTYPE_F32, inner2, quintic_c, w->square, w->square);
    cero_device_kernels(device)->axpy(inner2, quintic_b, w->gram, w->square);
    cero_device_scale(device, CERO_DTYPE_F32, shape->rows * shape->cols, quintic_a, w->x, w->y);
    return cero_device_matmul_run(device, shape->product, is_tall ? w->x : w->square,
                                  is_tall ? w->square : w->x, NULL, w->y, w->products);
}

/* Replaces w->x by the orthogonal matrix near it. */
static cero_status orthogonalise(cero_optim *optim, const shape_plan *shape, workspace *w)
{
    int steps = optim->spec.ns_steps > 0 ? optim->spec.ns_steps : DEFAULT_STEPS;

    normalise(optim->device, shape, w);
    for (int i = 0; i < steps; i++) {
        CERO_TRY(newton_schulz(optim->device, shape, w));
        float *next = w->y;
        w->y = w->x;
        w->x = next;
    }
    return CERO_OK;
}

/* The rate of a group whose own rate is `own`, moved by the schedule as the base rate is. */
static double group_lr(const cero_optim *optim, const cero_optim_step *step, double own)
{
    return optim->spec.lr > 0.0 ? own * (step->lr / optim->spec.lr) : 0.0;
}

/* One matrix, `count` segments of it. */
static cero_status apply_matrix(cero_optim *optim, const cero_optim_step *step,
                                const cero_optim_segment *segments, int64_t count)
{
    const shape_plan *shape = find_shape(optim->state, rows_of(segments), cols_of(segments));
    workspace w = {0};

    CERO_CHECK(shape != NULL, CERO_ERR_INVALID,
               "Muon: parameter %" PRId64 " [%" PRId64 ", %" PRId64
               "] was not among the planned segments",
               segments->param, rows_of(segments), cols_of(segments));
    (void)lay_out(shape, step->scratch, &w);
    double lr = group_lr(optim, step, optim->spec.muon_lr);
    double aspect = sqrt(fmax(1.0, (double)shape->rows / (double)shape->cols));
    pass p = {.matrix = w.x,
              .grad_scale = (float)step->grad_scale,
              .mu = (float)optim->spec.momentum,
              .keep = (float)(1.0 - lr * cero_optim_decay(optim, segments)),
              .step = (float)(lr * aspect)};

    for (int64_t i = 0; i < count; i++) {
        cero_optim_for_ranges(optim, &segments[i], momentum_range, &p);
    }
    if (step->gather != NULL) {
        CERO_TRY(step->gather(step->gather_context, segments->param, w.x));
    }
    CERO_TRY(orthogonalise(optim, shape, &w));
    p.matrix = w.x;
    for (int64_t i = 0; i < count; i++) {
        cero_optim_for_ranges(optim, &segments[i], move_range, &p);
    }
    return CERO_OK;
}

/* How many segments from `first` on belong to its parameter. */
static int64_t group_size(const cero_optim_step *step, int64_t first)
{
    int64_t end = first + 1;

    while (end < step->segment_count && step->segments[end].param == step->segments[first].param) {
        end++;
    }
    return end - first;
}

/* Without gather every matrix must be whole; looked at before anything is changed. */
static cero_status check_whole(const cero_optim_step *step)
{
    for (int64_t i = 0; step->gather == NULL && i < step->segment_count;) {
        const cero_optim_segment *s = &step->segments[i];
        int64_t count = group_size(step, i);
        int64_t found = 0;

        for (int64_t j = 0; j < count; j++) {
            found += s[j].numel;
        }
        CERO_CHECK(!s->is_matrix || found == cero_shape_numel(&s->shape), CERO_ERR_INVALID,
                   "Muon: %" PRId64 " of the %" PRId64 " elements of parameter %" PRId64
                   " are here; whole matrices or a gather are needed",
                   found, cero_shape_numel(&s->shape), s->param);
        i += count;
    }
    return CERO_OK;
}

static void apply_segment(cero_optim *optim, const cero_optim_step *step,
                          const cero_optim_segment *segment)
{
    cero_optim_adam_segment(optim, step, segment, group_lr(optim, step, optim->spec.adam_lr), true);
}

static cero_status apply(cero_optim *optim, const cero_optim_step *step)
{
    CERO_TRY(check_whole(step));
    for (int64_t i = 0; i < step->segment_count;) {
        const cero_optim_segment *s = &step->segments[i];
        int64_t count = group_size(step, i);

        if (s->is_matrix) {
            CERO_TRY(apply_matrix(optim, step, s, count));
        } else {
            for (int64_t j = 0; j < count; j++) {
                apply_segment(optim, step, &s[j]);
            }
        }
        i += count;
    }
    return CERO_OK;
}

const cero_optim_ops cero_optim_muon_ops = {
    .moment_name = {"exp_avg", "exp_avg_sq"},
    .moment_count = moment_count,
    .apply_segment = apply_segment,
    .apply = apply,
    .plan = plan,
    .cleanup = cleanup,
};
