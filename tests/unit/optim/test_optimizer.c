/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Each optimizer follows its formula, computed here in double, over several updates; the bits do not
 * depend on cuts or threads; an update allocates nothing; bad requests are refused by name.
 */
#include "optim_fixture.h"

#include "optim/clip.h"
#include "optim/lr_schedule.h"

#include <math.h>

enum {
    UPDATES = 5
};

static const cero_optim_spec specs[] = {
    {.type = CERO_OPTIM_ADAMW,
     .lr = 0.01,
     .beta1 = 0.9,
     .beta2 = 0.95,
     .eps = 1e-8,
     .weight_decay = 0.1,
     .bias_correction = true},
    {.type = CERO_OPTIM_ADAMW,
     .lr = 0.01,
     .beta1 = 0.9,
     .beta2 = 0.95,
     .eps = 1e-3,
     .weight_decay = 0.1},
    {.type = CERO_OPTIM_ADAM,
     .lr = 0.01,
     .beta1 = 0.9,
     .beta2 = 0.999,
     .eps = 1e-8,
     .weight_decay = 0.1,
     .bias_correction = true},
    {.type = CERO_OPTIM_SGD, .lr = 0.1, .weight_decay = 0.1},
    {.type = CERO_OPTIM_SGD, .lr = 0.1, .momentum = 0.9, .dampening = 0.25},
    {.type = CERO_OPTIM_SGD, .lr = 0.1, .momentum = 0.9, .nesterov = true, .weight_decay = 0.1},
    {.type = CERO_OPTIM_ADAGRAD, .lr = 0.01, .eps = 1e-3, .weight_decay = 0.1},
    // Betas that f32 holds: the sign of a c near 0 is then the same in f32 and in double.
    {.type = CERO_OPTIM_LION, .lr = 0.01, .beta1 = 0.875, .beta2 = 0.9375, .weight_decay = 0.1},
    {.type = CERO_OPTIM_LAMB,
     .lr = 0.01,
     .beta1 = 0.9,
     .beta2 = 0.999,
     .eps = 1e-8,
     .weight_decay = 0.1,
     .bias_correction = true,
     .max_coeff = 10.0,
     .min_coeff = 0.01},
    {.type = CERO_OPTIM_LAMB,
     .lr = 0.01,
     .beta1 = 0.9,
     .beta2 = 0.999,
     .eps = 1e-6,
     .eps_inside_sqrt = true,
     .max_coeff = 0.3,
     .min_coeff = 0.29},
    {.type = CERO_OPTIM_MUON,
     .lr = 0.02,
     .beta1 = 0.9,
     .beta2 = 0.95,
     .eps = 1e-10,
     .weight_decay = 0.1,
     .momentum = 0.95,
     .bias_correction = true,
     .muon_lr = 0.02,
     .adam_lr = 3e-4,
     .ns_steps = 5},
};

/* The states of the oracle. */
typedef struct oracle {
    double p[MAX_NUMEL];
    double m[MAX_NUMEL];
    double v[MAX_NUMEL];
    double u[MAX_NUMEL];
} oracle;

/* The hyper-parameters as they are written in the formulas. */
typedef struct scalars {
    const cero_optim_spec *spec;
    double lr;
    double wd;
    int64_t t;
} scalars;

static void adam_oracle(const scalars *s, bool is_decoupled, double g, double *p, double *m,
                        double *v)
{
    const cero_optim_spec *spec = s->spec;
    double bias1 = spec->bias_correction ? 1.0 - pow(spec->beta1, (double)s->t) : 1.0;
    double bias2 = spec->bias_correction ? 1.0 - pow(spec->beta2, (double)s->t) : 1.0;

    g += is_decoupled ? 0.0 : s->wd * *p;
    *m = spec->beta1 * *m + (1.0 - spec->beta1) * g;
    *v = spec->beta2 * *v + (1.0 - spec->beta2) * g * g;
    double decay = is_decoupled ? s->wd * *p : 0.0;
    *p -= s->lr * (*m / bias1 / (sqrt(*v / bias2) + spec->eps) + decay);
}

static void sgd_oracle(const scalars *s, double g, double *p, double *m)
{
    g += s->wd * *p;
    if (s->spec->momentum != 0.0) {
        *m = s->t == 1 ? g : s->spec->momentum * *m + (1.0 - s->spec->dampening) * g;
        g = s->spec->nesterov ? g + s->spec->momentum * *m : *m;
    }
    *p -= s->lr * g;
}

static void adagrad_oracle(const scalars *s, double g, double *p, double *sum)
{
    *sum += (g + s->wd * *p) * (g + s->wd * *p);
    *p -= s->lr * g / (sqrt(*sum) + s->spec->eps);
}

static void lion_oracle(const scalars *s, double g, double *p, double *m)
{
    double c = s->spec->beta1 * *m + (1.0 - s->spec->beta1) * g;

    *p *= 1.0 - s->lr * s->wd;
    *p += c > 0.0 ? -s->lr : s->lr;
    *m = s->spec->beta2 * *m + (1.0 - s->spec->beta2) * g;
}

static void lamb_oracle(const scalars *s, const float *grad, int64_t n, double *p, double *m,
                        double *v, double *u)
{
    const cero_optim_spec *spec = s->spec;
    double p2 = 0.0;
    double u2 = 0.0;

    for (int64_t i = 0; i < n; i++) {
        double g = 0.5 * (double)grad[i];
        m[i] = spec->beta1 * m[i] + (1.0 - spec->beta1) * g;
        v[i] = spec->beta2 * v[i] + (1.0 - spec->beta2) * g * g;
        u[i] = m[i] / (spec->eps_inside_sqrt ? sqrt(v[i] + spec->eps) : sqrt(v[i]) + spec->eps);
        u[i] += s->wd * p[i];
        p2 += p[i] * p[i];
        u2 += u[i] * u[i];
    }
    double ratio = fmin(fmax(sqrt(p2 / u2), spec->min_coeff), spec->max_coeff);
    double size = s->lr;
    if (spec->bias_correction) {
        size *= sqrt(1.0 - pow(spec->beta2, (double)s->t)) / (1.0 - pow(spec->beta1, (double)s->t));
    }
    for (int64_t i = 0; i < n; i++) {
        p[i] -= size * ratio * u[i];
    }
}

/* x = a x + (b A + c A A) x with A = x x^T, in double and with plain loops. */
static void newton_schulz_oracle(int64_t rows, int64_t cols, double *x)
{
    static double gram[MAX_NUMEL];
    static double poly[MAX_NUMEL];
    static double next[MAX_NUMEL];

    for (int64_t i = 0; i < rows; i++) {
        for (int64_t j = 0; j < rows; j++) {
            gram[i * rows + j] = 0.0;
            for (int64_t k = 0; k < cols; k++) {
                gram[i * rows + j] += x[i * cols + k] * x[j * cols + k];
            }
        }
    }
    for (int64_t i = 0; i < rows; i++) {
        for (int64_t j = 0; j < rows; j++) {
            double square = 0.0;
            for (int64_t k = 0; k < rows; k++) {
                square += gram[i * rows + k] * gram[k * rows + j];
            }
            poly[i * rows + j] = -4.7750 * gram[i * rows + j] + 2.0315 * square;
        }
    }
    for (int64_t i = 0; i < rows; i++) {
        for (int64_t j = 0; j < cols; j++) {
            next[i * cols + j] = 3.4445 * x[i * cols + j];
            for (int64_t k = 0; k < rows; k++) {
                next[i * cols + j] += poly[i * rows + k] * x[k * cols + j];
            }
        }
    }
    memcpy(x, next, (size_t)(rows * cols) * sizeof(*x));
}

static void muon_oracle(const scalars *s, const float *grad, const cero_shape *shape, double *p,
                        double *m, double *u)
{
    int64_t rows = shape->dim[0];
    int64_t cols = shape->dim[1];
    double mu = s->spec->momentum;
    double lr = s->spec->muon_lr;
    double norm = 0.0;

    for (int64_t i = 0; i < rows * cols; i++) {
        double g = 0.5 * (double)grad[i];
        m[i] = mu * m[i] + (1.0 - mu) * g;
        u[i] = (1.0 - mu) * g + mu * m[i];
        norm += u[i] * u[i];
    }
    for (int64_t i = 0; i < rows * cols; i++) {
        u[i] /= sqrt(norm) + 1e-7;
    }
    for (int i = 0; i < 5; i++) {
        newton_schulz_oracle(rows, cols, u);
    }
    for (int64_t i = 0; i < rows * cols; i++) {
        p[i] *= 1.0 - lr * s->wd;
        p[i] -= lr * sqrt(fmax(1.0, (double)rows / (double)cols)) * u[i];
    }
}

static void element_oracle(const scalars *s, double g, double *p, double *m, double *v)
{
    scalars rest = *s;

    switch (s->spec->type) {
    case CERO_OPTIM_ADAMW:
    case CERO_OPTIM_ADAM:
        adam_oracle(s, s->spec->type == CERO_OPTIM_ADAMW, g, p, m, v);
        return;
    case CERO_OPTIM_SGD:
        sgd_oracle(s, g, p, m);
        return;
    case CERO_OPTIM_ADAGRAD:
        adagrad_oracle(s, g, p, m);
        return;
    case CERO_OPTIM_LION:
        lion_oracle(s, g, p, m);
        return;
    case CERO_OPTIM_MUON:
        rest.lr = s->spec->adam_lr;
        adam_oracle(&rest, true, g, p, m, v);
        return;
    case CERO_OPTIM_LAMB:
    case CERO_OPTIM_COUNT:
        break;
    }
    fail_msg("no oracle for type %d", (int)s->spec->type);
}

static void oracle_update(oracle *o, const fixture *f, int64_t number)
{
    for (int param = 0; param < PARAMS; param++) {
        int64_t b = fixture_begin[param];
        int64_t n = fixture_begin[param + 1] - b;
        scalars s = {&f->spec, f->spec.lr, fixture_decays[param] ? f->spec.weight_decay : 0.0,
                     number};
        if (f->spec.type == CERO_OPTIM_LAMB) {
            lamb_oracle(&s, f->grad + b, n, o->p + b, o->m + b, o->v + b, o->u + b);
        } else if (f->spec.type == CERO_OPTIM_MUON && fixture_shapes[param].ndim == 2) {
            muon_oracle(&s, f->grad + b, &fixture_shapes[param], o->p + b, o->m + b, o->u + b);
        } else {
            for (int64_t i = b; i < b + n; i++) {
                element_oracle(&s, 0.5 * (double)f->grad[i], &o->p[i], &o->m[i], &o->v[i]);
            }
        }
    }
}

static uint16_t bf16_of(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof(bits));
    return (uint16_t)((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

static fixture fa;
static fixture fb;
static oracle expected;

static void test_formulas(void **unused)
{
    (void)unused;
    for (size_t i = 0; i < CERO_COUNT_OF(specs); i++) {
        fixture_init(&fa, 2, &specs[i]);
        fixture_cut(&fa, NULL, 0);
        memset(&expected, 0, sizeof(expected));
        for (int64_t e = 0; e < fixture_begin[PARAMS]; e++) {
            expected.p[e] = (double)fa.master[e];
        }
        // Adagrad with decay divides by |g + wd*p|, which may be all rounding: its eps is large here.
        // Newton-Schulz multiplies small singular values, and their rounding, by up to 500.
        double tolerance = specs[i].type == CERO_OPTIM_MUON ? 2e-5 : 4e-6;
        for (int64_t number = 1; number <= UPDATES; number++) {
            fixture_update(&fa, number);
            oracle_update(&expected, &fa, number);
            for (int64_t e = 0; e < fixture_begin[PARAMS]; e++) {
                if (!(fabs((double)fa.master[e] - expected.p[e]) <= tolerance)) {
                    fail_msg("spec %zu update %d element %d: %.9g, expected %.9g", i, (int)number,
                             (int)e, (double)fa.master[e], expected.p[e]);
                }
                assert_int_equal(fa.copy[e], bf16_of(fa.master[e]));
            }
        }
        fixture_cleanup(&fa);
    }
}

/* Cuts anywhere give the same bits; LAMB's lie at multiples of 256 of the flat range, as shards do. */
static void test_cuts(void **unused)
{
    static const int64_t anywhere[] = {1,    2,     37,    500,   1960,  1962,  8191,
                                       8193, 10000, 22219, 22221, 23000, 26362, 26367};
    static const int64_t shards[] = {256, 512, 1792, 2048, 8192, 8448, 16384, 22272, 24064, 26112};

    (void)unused;
    for (size_t i = 0; i < CERO_COUNT_OF(specs); i++) {
        bool is_lamb = specs[i].type == CERO_OPTIM_LAMB;
        fixture_init(&fa, 2, &specs[i]);
        fixture_init(&fb, 2, &specs[i]);
        fixture_cut(&fa, NULL, 0);
        fixture_cut(&fb, is_lamb ? shards : anywhere,
                    (int)(is_lamb ? CERO_COUNT_OF(shards) : CERO_COUNT_OF(anywhere)));
        assert_true(fb.segment_count > 2 * fa.segment_count);
        for (int64_t number = 1; number <= UPDATES; number++) {
            fixture_update(&fa, number);
            fixture_update(&fb, number);
            assert_same_states(&fa, &fb);
            assert_same_norms(&fa, &fb);
        }
        fixture_cleanup(&fa);
        fixture_cleanup(&fb);
    }
}

static void test_threads(void **unused)
{
    (void)unused;
    for (size_t i = 0; i < CERO_COUNT_OF(specs); i++) {
        if (specs[i].type == CERO_OPTIM_MUON) {
            continue; // Its products promise bits for equal numbers of threads only.
        }
        fixture_init(&fa, 1, &specs[i]);
        fixture_init(&fb, 2, &specs[i]);
        fixture_cut(&fa, NULL, 0);
        fixture_cut(&fb, NULL, 0);
        for (int64_t number = 1; number <= UPDATES; number++) {
            fixture_update(&fa, number);
            fixture_update(&fb, number);
        }
        assert_same_states(&fa, &fb);
        fixture_cleanup(&fa);
        fixture_cleanup(&fb);
    }
}

/* A gradient of bf16 gives the bits of the same values in f32. */
static void test_bf16_gradients(void **unused)
{
    (void)unused;
    for (size_t i = 0; i < CERO_COUNT_OF(specs); i++) {
        fixture_init(&fa, 2, &specs[i]);
        fixture_init(&fb, 2, &specs[i]);
        fixture_cut(&fa, NULL, 0);
        fixture_cut(&fb, NULL, 0);
        for (int64_t s = 0; s < fb.segment_count; s++) {
            fb.segments[s].grad_dtype = CERO_DTYPE_BF16;
            fb.segments[s].grad = fb.grad16 + fb.segments[s].flat_offset;
        }
        for (int64_t number = 1; number <= 2; number++) {
            fixture_update(&fa, number);
            fixture_update(&fb, number);
        }
        assert_same_states(&fa, &fb);
        fixture_cleanup(&fa);
        fixture_cleanup(&fb);
    }
}

/* The other half's norms, or its part of a matrix, while two halves of the range play two ranks. */
static float whole_u[PARAMS][MAX_NUMEL];

static cero_status record_matrix(void *context, int64_t param, float *matrix)
{
    (void)context;
    memcpy(whole_u[param], matrix,
           (size_t)cero_shape_numel(&fixture_shapes[param]) * sizeof(*matrix));
    return CERO_OK;
}

/* Fills what this rank did not write, after looking that what it wrote is right. */
static cero_status complete_matrix(void *context, int64_t param, float *matrix)
{
    const fixture *f = context;

    for (int64_t s = 0; s < f->segment_count; s++) {
        const cero_optim_segment *segment = &f->segments[s];
        if (segment->param == param && segment->numel > 0) {
            assert_memory_equal(matrix + segment->offset, whole_u[param] + segment->offset,
                                (size_t)segment->numel * sizeof(*matrix));
        }
    }
    memcpy(matrix, whole_u[param],
           (size_t)cero_shape_numel(&fixture_shapes[param]) * sizeof(*matrix));
    return CERO_OK;
}

/* Two ranks with half of the range each, exchanging norms and matrices, give the bits of one. */
static void test_two_ranks(void **unused)
{
    static fixture rank[2];
    static const int64_t border[3] = {0, 23040, 26368};

    (void)unused;
    for (size_t i = 0; i < CERO_COUNT_OF(specs); i++) {
        fixture_init(&fa, 2, &specs[i]);
        fixture_cut(&fa, NULL, 0);
        for (int r = 0; r < 2; r++) {
            fixture_init(&rank[r], 2, &specs[i]);
            fixture_cut_part(&rank[r], border[r], border[r + 1], NULL, 0);
        }
        for (int64_t number = 1; number <= 3; number++) {
            cero_optim_step steps[2];
            fixture_set_grads(&fa, number);
            cero_optim_step step = fixture_step(&fa, number);
            step.gather = record_matrix;
            assert_ok(cero_optim_prepare(fa.optim, &step));
            assert_ok(cero_optim_apply(fa.optim, &step));
            for (int r = 0; r < 2; r++) {
                fixture_set_grads(&rank[r], number);
                steps[r] = fixture_step(&rank[r], number);
                steps[r].gather = complete_matrix;
                steps[r].gather_context = &rank[r];
                assert_ok(cero_optim_prepare(rank[r].optim, &steps[r]));
            }
            for (int p = 0; p < PARAMS; p++) {
                cero_exact_merge(&rank[0].norms[p].param, &rank[1].norms[p].param);
                cero_exact_merge(&rank[0].norms[p].update, &rank[1].norms[p].update);
            }
            memcpy(rank[1].norms, rank[0].norms, sizeof(rank[0].norms));
            for (int r = 0; r < 2; r++) {
                assert_ok(cero_optim_apply(rank[r].optim, &steps[r]));
                assert_memory_equal(rank[r].master + border[r], fa.master + border[r],
                                    (size_t)(border[r + 1] - border[r]) * sizeof(float));
            }
        }
        fixture_cleanup(&fa);
        fixture_cleanup(&rank[0]);
        fixture_cleanup(&rank[1]);
    }
}

static void test_allocates_nothing(void **unused)
{
    (void)unused;
    for (size_t i = 0; i < CERO_COUNT_OF(specs); i++) {
        fixture_init(&fa, 2, &specs[i]);
        fixture_cut(&fa, NULL, 0);
        fixture_set_grads(&fa, 1);
        cero_optim_step step = fixture_step(&fa, 1);
        uint64_t calls = cero_mem_calls();
        for (step.number = 1; step.number <= 3; step.number++) {
            assert_ok(cero_optim_prepare(fa.optim, &step));
            assert_ok(cero_optim_apply(fa.optim, &step));
        }
        assert_int_equal(cero_mem_calls(), calls);
        fixture_cleanup(&fa);
    }
}

/* What an update does not need may be absent: no copy, no moments, an empty segment. */
static void test_absent(void **unused)
{
    (void)unused;
    for (size_t i = 0; i < CERO_COUNT_OF(specs); i++) {
        fixture_init(&fa, 2, &specs[i]);
        fixture_init(&fb, 2, &specs[i]);
        fixture_cut(&fa, NULL, 0);
        fixture_cut(&fb, NULL, 0);
        for (int64_t s = 0; s < fb.segment_count; s++) {
            cero_optim_segment *segment = &fb.segments[s];
            int moments = cero_optim_moment_count(&specs[i], segment->is_matrix);
            segment->copy = NULL;
            segment->exp_avg = moments >= 1 ? segment->exp_avg : NULL;
            segment->exp_avg_sq = moments >= 2 ? segment->exp_avg_sq : NULL;
        }
        fb.segments[fb.segment_count++] = (cero_optim_segment){.param = PARAMS - 1};
        fixture_update(&fa, 1);
        fixture_update(&fb, 1);
        assert_memory_equal(fa.master, fb.master, sizeof(fa.master));
        assert_true(fb.copy[0] == 0);
        fixture_cleanup(&fa);
        fixture_cleanup(&fb);
    }
}

/* One element, one segment. */
typedef struct single {
    float grad;
    float master;
    float exp_avg;
    float exp_avg_sq;
    uint16_t copy;
} single;

static void single_update(cero_optim *optim, single *x, cero_optim_step step)
{
    cero_optim_segment segment = {.numel = 1,
                                  .shape = {1, {1}},
                                  .has_decay = true,
                                  .copy_dtype = CERO_DTYPE_BF16,
                                  .grad = &x->grad,
                                  .master = &x->master,
                                  .exp_avg = &x->exp_avg,
                                  .exp_avg_sq = &x->exp_avg_sq,
                                  .copy = &x->copy};
    size_t scratch = 1;

    step.segments = &segment;
    step.segment_count = 1;
    assert_ok(cero_optim_plan(optim, &segment, 1, &scratch));
    assert_int_equal(scratch, 0);
    assert_ok(cero_optim_prepare(optim, &step));
    assert_ok(cero_optim_apply(optim, &step));
}

/* PR-01: a step of less than half a spacing of bf16 still moves the master. */
static void test_master_moves(void **unused)
{
    cero_optim_spec spec = {.type = CERO_OPTIM_ADAMW,
                            .lr = 1e-4,
                            .beta1 = 0.9,
                            .beta2 = 0.999,
                            .eps = 1e-8,
                            .bias_correction = true};
    cero_device *device = NULL;
    cero_optim *optim = NULL;
    single x = {.grad = 1.0f, .master = 1.0f};

    (void)unused;
    assert_ok(cero_device_create(NULL, &device));
    assert_ok(cero_optim_create(device, &spec, &optim));
    for (int64_t number = 1; number <= 40; number++) {
        single_update(optim, &x,
                      (cero_optim_step){.number = number, .lr = spec.lr, .grad_scale = 1.0});
    }
    assert_true(fabs((double)x.master - 0.9960) < 1e-6);
    assert_int_equal(x.copy, bf16_of(0.99609375f));
    cero_optim_destroy(&optim);
    cero_device_destroy(&device);
}

/* CF-09: Adam is AdamW unless adam_w_mode is false; both name their formula. */
static void test_decay_modes(void **unused)
{
    static const double weights[] = {0.99, 0.9};
    static const cero_optim_type types[] = {CERO_OPTIM_ADAMW, CERO_OPTIM_ADAM};
    static const char *const names[] = {"AdamW, decoupled decay", "Adam, L2 decay"};
    cero_device *device = NULL;

    (void)unused;
    assert_ok(cero_device_create(NULL, &device));
    for (int i = 0; i < 2; i++) {
        cero_optim_spec spec = {.type = types[i],
                                .lr = 0.1,
                                .beta1 = 0.9,
                                .beta2 = 0.999,
                                .eps = 1e-8,
                                .weight_decay = 0.1,
                                .bias_correction = true};
        cero_optim *optim = NULL;
        single x = {.grad = 0.0f, .master = 1.0f};
        assert_ok(cero_optim_create(device, &spec, &optim));
        single_update(optim, &x, (cero_optim_step){.number = 1, .lr = 0.1, .grad_scale = 1.0});
        assert_true(fabs((double)x.master - weights[i]) < 1e-6);
        assert_true(strncmp(cero_optim_formula(&spec), names[i], strlen(names[i])) == 0);
        cero_optim_destroy(&optim);
    }
    cero_device_destroy(&device);
}

/* NO-04 end to end: the clip coefficient reaches the update, and a large limit changes no bit. */
static void test_clip_reaches_update(void **unused)
{
    cero_optim_spec spec = {.type = CERO_OPTIM_SGD, .lr = 1.0};
    cero_device *device = NULL;
    cero_optim *optim = NULL;

    (void)unused;
    assert_ok(cero_device_create(NULL, &device));
    assert_ok(cero_optim_create(device, &spec, &optim));
    for (int i = 0; i < 2; i++) {
        single x = {.grad = i == 0 ? 3.0f : 4.0f};
        single y = x;
        single z = x;
        cero_optim_step step = {.number = 1, .lr = 1.0};
        step.grad_scale = cero_clip_make(5.0, 1.0, 1.0).grad_scale;
        single_update(optim, &x, step);
        assert_true(fabs((double)x.master + (i == 0 ? 0.6 : 0.8)) < 1e-6);
        step.grad_scale = cero_clip_make(5.0, 1.0, 10.0).grad_scale;
        single_update(optim, &y, step);
        step.grad_scale = 1.0;
        single_update(optim, &z, step);
        assert_memory_equal(&y.master, &z.master, sizeof(y.master));
    }
    cero_optim_destroy(&optim);
    cero_device_destroy(&device);
}

/* The betas of OneCycle replace the spec's in moments and corrections. */
static void test_betas(void **unused)
{
    cero_optim_spec spec = specs[0];
    cero_optim_spec other = spec;
    cero_lr_schedule_spec schedule = {.type = CERO_LR_ONE_CYCLE,
                                      .cycle_first_step_size = 2,
                                      .cycle_momentum = true,
                                      .cycle_min_mom = 0.8,
                                      .cycle_max_mom = 0.9};

    (void)unused;
    fixture_init(&fa, 1, &spec);
    fixture_cut(&fa, NULL, 0);
    fixture_set_grads(&fa, 1);
    cero_optim_step step = fixture_step(&fa, 1);
    step.has_betas = cero_lr_schedule_momentum_at(&schedule, 1, &step.beta1, &step.beta2);
    assert_ok(cero_optim_apply(fa.optim, &step));

    other.beta1 = 0.8;
    other.beta2 = 0.99;
    fixture_init(&fb, 1, &other);
    fixture_cut(&fb, NULL, 0);
    fixture_update(&fb, 1);
    assert_same_states(&fa, &fb);
    fixture_cleanup(&fa);
    fixture_cleanup(&fb);
}

/* With Muon the schedule moves both groups in proportion. */
static void test_muon_rates(void **unused)
{
    cero_optim_spec spec = specs[CERO_COUNT_OF(specs) - 1];
    cero_optim_spec half = spec;

    (void)unused;
    fixture_init(&fa, 2, &spec);
    fixture_cut(&fa, NULL, 0);
    fixture_set_grads(&fa, 1);
    cero_optim_step step = fixture_step(&fa, 1);
    step.lr = spec.lr / 2;
    assert_ok(cero_optim_apply(fa.optim, &step));
    half.muon_lr /= 2;
    half.adam_lr /= 2;
    fixture_init(&fb, 2, &half);
    fixture_cut(&fb, NULL, 0);
    fixture_update(&fb, 1);
    assert_same_states(&fa, &fb);
    fixture_cleanup(&fa);
    fixture_cleanup(&fb);
}

static void test_refusals(void **unused)
{
    cero_optim_spec bad = specs[0];
    size_t scratch = 0;

    (void)unused;
    fixture_init(&fa, 1, &specs[CERO_COUNT_OF(specs) - 1]);
    bad.beta2 = 1.0;
    assert_fails(cero_optim_create(fa.device, &bad, &fb.optim), CERO_ERR_INVALID,
                 "betas are [0.9, 1]");
    bad = specs[3];
    bad.nesterov = true;
    assert_fails(cero_optim_create(fa.device, &bad, &fb.optim), CERO_ERR_INVALID, "nesterov");

    fixture_cut(&fa, NULL, 0);
    cero_optim_step step = fixture_step(&fa, 0);
    assert_fails(cero_optim_apply(fa.optim, &step), CERO_ERR_INVALID, "update number 0");

    // Half of a matrix without a gather: nothing is changed.
    fixture_cut_part(&fa, 0, 23000, NULL, 0);
    fixture_set_grads(&fa, 1);
    memcpy(&fb, &fa, sizeof(fa));
    step = fixture_step(&fa, 1);
    assert_fails(cero_optim_apply(fa.optim, &step), CERO_ERR_INVALID,
                 "780 of the 4141 elements of parameter 2");
    assert_same_states(&fa, &fb);

    fa.segments[0].offset = 1;
    assert_fails(cero_optim_plan(fa.optim, fa.segments, 1, &scratch), CERO_ERR_INVALID,
                 "elements 1 .. 1962 of 1961");
    fa.segments[0] = fixture_segment(&fa, 1, fixture_begin[1], fixture_begin[2]);
    fa.segments[0].is_matrix = true;
    assert_fails(cero_optim_plan(fa.optim, fa.segments, 1, &scratch), CERO_ERR_INVALID,
                 "1 dimensions");
    fixture_cleanup(&fa);
}

/* Every allocation of a Muon set-up may fail: one error, nothing leaked, and a later try succeeds. */
static void test_no_memory(void **unused)
{
    static const cero_shape shape = {2, {19, 23}};
    cero_optim_segment segment = {.numel = 437, .shape = shape, .is_matrix = true};
    cero_device *device = NULL;
    bool is_done = false;

    (void)unused;
    assert_ok(cero_device_create(&(cero_device_params){.threads = 1}, &device));
    for (uint64_t n = 1; !is_done; n++) {
        cero_optim *optim = NULL;
        size_t scratch = 0;
        assert_true(n < 100);
        cero_mem_fail_at(n);
        cero_status st = cero_optim_create(device, &specs[CERO_COUNT_OF(specs) - 1], &optim);
        if (st == CERO_OK) {
            st = cero_optim_plan(optim, &segment, 1, &scratch);
        }
        cero_mem_fail_at(0);
        is_done = st == CERO_OK;
        assert_true(is_done || st == CERO_ERR_NOMEM);
        assert_true(is_done == (scratch > 0));
        if (optim != NULL) {
            assert_ok(cero_optim_plan(optim, &segment, 1, &scratch));
        }
        cero_optim_destroy(&optim);
    }
    cero_device_destroy(&device);
}

static void test_moments(void **unused)
{
    static const int matrix[] = {2, 2, 2, 0, 1, 1, 1, 1, 2, 2, 1};
    static const int rest[] = {2, 2, 2, 0, 1, 1, 1, 1, 2, 2, 2};

    (void)unused;
    for (size_t i = 0; i < CERO_COUNT_OF(specs); i++) {
        assert_int_equal(cero_optim_moment_count(&specs[i], true), matrix[i]);
        assert_int_equal(cero_optim_moment_count(&specs[i], false), rest[i]);
        for (int m = 0; m < rest[i]; m++) {
            assert_non_null(cero_optim_moment_name(&specs[i], m));
        }
        assert_int_equal(cero_optim_needs_norms(&specs[i]), specs[i].type == CERO_OPTIM_LAMB);
        assert_int_equal(cero_optim_needs_matrices(&specs[i]), specs[i].type == CERO_OPTIM_MUON);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_formulas),    cmocka_unit_test(test_cuts),
        cmocka_unit_test(test_threads),     cmocka_unit_test(test_bf16_gradients),
        cmocka_unit_test(test_two_ranks),   cmocka_unit_test(test_allocates_nothing),
        cmocka_unit_test(test_absent),      cmocka_unit_test(test_master_moves),
        cmocka_unit_test(test_decay_modes), cmocka_unit_test(test_clip_reaches_update),
        cmocka_unit_test(test_betas),       cmocka_unit_test(test_muon_rates),
        cmocka_unit_test(test_refusals),    cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_moments),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
