/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the optimizer tests share: a small model of four parameters in one flat range, its states in f32
 * and in double, and cuts of it into segments.
 */
#ifndef CERO_TESTS_OPTIM_FIXTURE_H
#define CERO_TESTS_OPTIM_FIXTURE_H

#include "harness.h"

#include "base/rng.h"
#include "optim/optimizer.h"

enum {
    PARAMS = 4,
    MAX_NUMEL = 32768,
    MAX_SEGMENTS = 64,
    MAX_CUTS = 16,
    SCRATCH_BYTES = 1 << 20
};

/* The vector spans several of the chunks that threads take. Parameter p has elements begin[p] .. begin[p + 1] of the flat range. */
static const cero_shape fixture_shapes[PARAMS] = {{2, {37, 53}},
                                                  {1, {20259}},
                                                  {2, {101, 41}},
                                                  {1, {7}}};
static const int64_t fixture_begin[PARAMS + 1] = {0, 1961, 22220, 26361, 26368};
static const bool fixture_decays[PARAMS] = {true, false, true, false};

/* Everything an update touches. */
typedef struct fixture {
    cero_device *device;
    cero_optim *optim;
    cero_optim_spec spec;
    uint16_t grad16[MAX_NUMEL];
    float grad[MAX_NUMEL];
    float master[MAX_NUMEL];
    float exp_avg[MAX_NUMEL];
    float exp_avg_sq[MAX_NUMEL];
    uint16_t copy[MAX_NUMEL];
    cero_optim_norms norms[PARAMS];
    cero_optim_segment segments[MAX_SEGMENTS];
    int64_t segment_count;
    _Alignas(64) unsigned char scratch[SCRATCH_BYTES];
} fixture;

/* A float in [-1, 1) for element i of one use. */
static inline float fixture_random(uint64_t use, int64_t i)
{
    cero_rng_key key = cero_rng_make_key(11, CERO_RNG_TEST, use, 0);
    return 2.0f * cero_rng_uniform_f32(cero_rng_word(key, 0, (uint64_t)i)) - 1.0f;
}

/* Random masters, moments of zero. */
static inline void fixture_init(fixture *f, int threads, const cero_optim_spec *spec)
{
    memset(f, 0, sizeof(*f));
    f->spec = *spec;
    assert_ok(cero_device_create(&(cero_device_params){.threads = threads}, &f->device));
    assert_ok(cero_optim_create(f->device, spec, &f->optim));
    for (int64_t i = 0; i < fixture_begin[PARAMS]; i++) {
        f->master[i] = fixture_random(1, i);
    }
}

static inline void fixture_cleanup(fixture *f)
{
    cero_optim_destroy(&f->optim);
    cero_device_destroy(&f->device);
}

/* Gradients of update `number`, bf16 values so that both types hold the same ones. */
static inline void fixture_set_grads(fixture *f, int64_t number)
{
    for (int64_t i = 0; i < fixture_begin[PARAMS]; i++) {
        float g = fixture_random(100 + (uint64_t)number, i);
        uint32_t bits;
        memcpy(&bits, &g, sizeof(bits));
        bits &= 0xffff0000u;
        f->grad16[i] = (uint16_t)(bits >> 16);
        memcpy(&f->grad[i], &bits, sizeof(bits));
    }
}

/* The segment of elements begin .. end of the flat range, which lie in one parameter. */
static inline cero_optim_segment fixture_segment(fixture *f, int param, int64_t begin, int64_t end)
{
    return (cero_optim_segment){
        .numel = end - begin,
        .offset = begin - fixture_begin[param],
        .flat_offset = begin,
        .param = param,
        .shape = fixture_shapes[param],
        .has_decay = fixture_decays[param],
        .is_matrix = fixture_shapes[param].ndim == 2,
        .grad_dtype = CERO_DTYPE_F32,
        .copy_dtype = CERO_DTYPE_BF16,
        .grad = f->grad + begin,
        .master = f->master + begin,
        .exp_avg = f->exp_avg + begin,
        .exp_avg_sq = f->exp_avg_sq + begin,
        .copy = f->copy + begin,
    };
}

/* Segments of flat elements first .. last, cut at the borders of parameters and at these cuts. */
static inline void fixture_cut_part(fixture *f, int64_t first, int64_t last, const int64_t *cuts,
                                    int cut_count)
{
    f->segment_count = 0;
    for (int param = 0; param < PARAMS; param++) {
        int64_t begin = fixture_begin[param] > first ? fixture_begin[param] : first;
        int64_t end = fixture_begin[param + 1] < last ? fixture_begin[param + 1] : last;
        for (int c = 0; c < cut_count && begin < end; c++) {
            if (cuts[c] > begin && cuts[c] < end) {
                f->segments[f->segment_count++] = fixture_segment(f, param, begin, cuts[c]);
                begin = cuts[c];
            }
        }
        // A rank without a part of a matrix still takes part in its gather.
        if (begin < end || fixture_shapes[param].ndim == 2) {
            bool is_empty = begin >= end;
            f->segments[f->segment_count++] =
                is_empty ? fixture_segment(f, param, fixture_begin[param], fixture_begin[param])
                         : fixture_segment(f, param, begin, end);
        }
    }
}

static inline void fixture_cut(fixture *f, const int64_t *cuts, int cut_count)
{
    fixture_cut_part(f, 0, fixture_begin[PARAMS], cuts, cut_count);
}

/* The step of update `number` over the fixture's segments. */
static inline cero_optim_step fixture_step(fixture *f, int64_t number)
{
    size_t scratch = 0;

    assert_ok(cero_optim_plan(f->optim, f->segments, f->segment_count, &scratch));
    assert_true(scratch <= SCRATCH_BYTES);
    // Scratch of any contents will do.
    memset(f->scratch, 0xff, scratch);
    for (int p = 0; p < PARAMS; p++) {
        cero_exact_clear(&f->norms[p].param);
        cero_exact_clear(&f->norms[p].update);
    }
    return (cero_optim_step){
        .number = number,
        .lr = f->spec.lr,
        .grad_scale = 0.5,
        .segments = f->segments,
        .segment_count = f->segment_count,
        .norms = f->norms,
        .scratch = f->scratch,
    };
}

/* One whole update. */
static inline void fixture_update(fixture *f, int64_t number)
{
    fixture_set_grads(f, number);
    cero_optim_step step = fixture_step(f, number);
    assert_ok(cero_optim_prepare(f->optim, &step));
    assert_ok(cero_optim_apply(f->optim, &step));
}

static inline void assert_same_states(const fixture *a, const fixture *b)
{
    assert_memory_equal(a->master, b->master, sizeof(a->master));
    assert_memory_equal(a->exp_avg, b->exp_avg, sizeof(a->exp_avg));
    assert_memory_equal(a->exp_avg_sq, b->exp_avg_sq, sizeof(a->exp_avg_sq));
    assert_memory_equal(a->copy, b->copy, sizeof(a->copy));
}

/* The sums are equal to the last bit, however their limbs carry. */
static inline void assert_same_sum(const cero_exact *a, const cero_exact *b)
{
    cero_exact difference = *a;

    for (int i = 0; i < CERO_EXACT_LIMBS; i++) {
        difference.limb[i] -= b->limb[i];
    }
    assert_true(cero_exact_round(&difference) == 0.0);
}

/* Norms are compared as sums: what the states show of them is rounded to f32. */
static inline void assert_same_norms(const fixture *a, const fixture *b)
{
    for (int p = 0; p < PARAMS; p++) {
        assert_same_sum(&a->norms[p].param, &b->norms[p].param);
        assert_same_sum(&a->norms[p].update, &b->norms[p].update);
    }
}

#endif
