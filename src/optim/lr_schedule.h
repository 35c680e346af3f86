/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Learning-rate schedules as pure functions of the update's number: there is no state to save.
 *
 * Updates are counted 1, 2, … and only applied ones count. DeepSpeed's schedulers hold
 * t = last_batch_iteration, -1 at first and +1 after each applied update, so update k runs with the rate
 * of t = k - 2. That is why the first two updates of every warm-up run at the minimum.
 */
#ifndef CERO_OPTIM_LR_SCHEDULE_H
#define CERO_OPTIM_LR_SCHEDULE_H

#include "spec/train.h"

/*
 * The rate of applied update number `update` (1, 2, …); below 1 it is that of update 1, so that asking
 * before training starts gives the rate the first update will use.
 *
 * Finite for every spec with finite numbers: a warm-up of 0 or 1 counts as 2, as DeepSpeed does.
 */
double cero_lr_schedule_at(const cero_lr_schedule_spec *spec, int64_t update);

/*
 * The betas that OneCycle with cycle_momentum sets for this update; false, and nothing written, for
 * every other schedule. beta2 is always 0.99. Only optimizers with betas are meant.
 */
bool cero_lr_schedule_momentum_at(const cero_lr_schedule_spec *spec, int64_t update, double *beta1,
                                  double *beta2);

#endif
