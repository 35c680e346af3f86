/* SPDX-License-Identifier: Apache-2.0 */
/*
 * DeepSpeed's schedules (deepspeed/runtime/lr_schedules.py, 0.19): each function below is f(t) of one
 * type, with t as in the header.
 */
#include "optim/lr_schedule.h"

#include <math.h>

static const double pi = 3.14159265358979323846;

static int64_t at_least(int64_t value, int64_t minimum)
{
    return value > minimum ? value : minimum;
}

/* Part of the warm-up that is behind at t, 0 .. 1; 1 when it is over. */
static double warmup_part(const cero_lr_schedule_spec *spec, int64_t t)
{
    int64_t steps = at_least(spec->warmup_num_steps, 2);

    if (t < 0) {
        return 0.0;
    }
    if (t >= steps) {
        return 1.0;
    }
    if (spec->warmup_is_linear) {
        return (double)t / (double)steps;
    }
    return log((double)(t + 1)) / log((double)steps);
}

static double warmup_lr(const cero_lr_schedule_spec *spec, double part)
{
    return spec->warmup_min_lr + (spec->warmup_max_lr - spec->warmup_min_lr) * part;
}

static double warmup_decay_lr(const cero_lr_schedule_spec *spec, int64_t t)
{
    int64_t steps = at_least(spec->warmup_num_steps, 2);

    if (t < steps) {
        return warmup_lr(spec, warmup_part(spec, t));
    }
    double left = (double)(spec->total_num_steps - t);
    double length = (double)at_least(spec->total_num_steps - steps, 1);
    return warmup_lr(spec, fmax(0.0, left / length));
}

static double warmup_cosine_lr(const cero_lr_schedule_spec *spec, int64_t t)
{
    int64_t steps = at_least(spec->warmup_num_steps, 2);

    // Whatever the minimum ratio is, the first update runs at 0.
    if (t < 0) {
        return 0.0;
    }
    if (t < steps) {
        double min = spec->warmup_min_ratio;
        return spec->base_lr * (min + (1.0 - min) * warmup_part(spec, t));
    }
    double length = (double)at_least(spec->total_num_steps - steps, 1);
    double progress = fmin(1.0, (double)(t - steps + 1) / length);
    double min = spec->cos_min_ratio;
    double ratio = min + (1.0 - min) * (1.0 + cos(pi * progress)) / 2.0;
    return spec->base_lr * fmax(0.0, ratio);
}

/* Steps of a OneCycle period, completed where the spec leaves them out. */
typedef struct cycle {
    int64_t first;
    int64_t second;
} cycle;

static cycle cycle_of(const cero_lr_schedule_spec *spec)
{
    int64_t first = at_least(spec->cycle_first_step_size, 1);

    return (cycle){first, spec->cycle_second_step_size > 0 ? spec->cycle_second_step_size : first};
}

/* Where in the cycle step t is, 0 at its ends and 1 at its peak, in stairs when they are asked for. */
static double cycle_position(const cero_lr_schedule_spec *spec, cycle c, int64_t t)
{
    int64_t length = c.first + c.second;
    int64_t step = (t + 1) % length;
    bool is_rising = step <= c.first;
    int64_t stairs = is_rising ? spec->cycle_first_stair_count : spec->cycle_second_stair_count;
    double distance = is_rising ? (double)step : (double)(length - step);
    double size = is_rising ? (double)c.first : (double)c.second;

    if (stairs > 0) {
        return floor(distance * (double)stairs / size) / (double)stairs;
    }
    return distance / size;
}

/* How many decay steps lie behind after the cycle; 0 without decay. */
static double cycle_decay(const cero_lr_schedule_spec *spec, cycle c, int64_t t)
{
    if (spec->decay_step_size <= 0) {
        return 0.0;
    }
    return (double)(t - (c.first + c.second) + 1) / (double)spec->decay_step_size;
}

static double one_cycle_lr(const cero_lr_schedule_spec *spec, int64_t t)
{
    cycle c = cycle_of(spec);

    if (t < 0) {
        return spec->cycle_min_lr;
    }
    if (t < c.first + c.second) {
        return spec->cycle_min_lr +
               (spec->cycle_max_lr - spec->cycle_min_lr) * cycle_position(spec, c, t);
    }
    return spec->cycle_min_lr / (1.0 + spec->decay_lr_rate * cycle_decay(spec, c, t));
}

static double range_test_lr(const cero_lr_schedule_spec *spec, int64_t t)
{
    double size = (double)at_least(spec->lr_range_test_step_size, 1);
    double interval = (double)at_least(t + 1, 0) / size;

    if (spec->lr_range_test_staircase) {
        interval = floor(interval);
    }
    return spec->lr_range_test_min_lr * (1.0 + spec->lr_range_test_step_rate * interval);
}

/* t of an update's number; everything before the first update looks like the first. */
static int64_t iteration_of(int64_t update)
{
    return at_least(update, 1) - 2;
}

double cero_lr_schedule_at(const cero_lr_schedule_spec *spec, int64_t update)
{
    int64_t t = iteration_of(update);

    switch (spec->type) {
    case CERO_LR_WARMUP:
        return warmup_lr(spec, warmup_part(spec, t));
    case CERO_LR_WARMUP_DECAY:
        return warmup_decay_lr(spec, t);
    case CERO_LR_WARMUP_COSINE:
        return warmup_cosine_lr(spec, t);
    case CERO_LR_ONE_CYCLE:
        return one_cycle_lr(spec, t);
    case CERO_LR_RANGE_TEST:
        return range_test_lr(spec, t);
    case CERO_LR_CONSTANT:
    case CERO_LR_COUNT:
        break;
    }
    return spec->base_lr;
}

bool cero_lr_schedule_momentum_at(const cero_lr_schedule_spec *spec, int64_t update, double *beta1,
                                  double *beta2)
{
    if (spec->type != CERO_LR_ONE_CYCLE || !spec->cycle_momentum) {
        return false;
    }
    int64_t t = iteration_of(update);
    cycle c = cycle_of(spec);
    double range = spec->cycle_max_mom - spec->cycle_min_mom;

    *beta2 = 0.99;
    if (t < 0) {
        // The constructor sets the minimum, though the rate is at its minimum too.
        *beta1 = spec->cycle_min_mom;
    } else if (t < c.first + c.second) {
        *beta1 = spec->cycle_max_mom - range * cycle_position(spec, c, t);
    } else {
        *beta1 = spec->cycle_max_mom * (1.0 + spec->decay_mom_rate * cycle_decay(spec, c, t));
    }
    return true;
}
