/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The calls of a step whose forward and backward are the caller's: gradients in, the update, weights out. What
 * moves between ranks is zero's (zero/external.h).
 */
#include "engine/engine_impl.h"

#include "base/clock.h"
#include "base/fault.h"

#include <string.h>

int cero_engine_rank(const cero_engine *engine)
{
    return cero_comm_rank(engine->context->comm);
}

int cero_engine_size(const cero_engine *engine)
{
    return cero_comm_size(engine->context->comm);
}

double cero_engine_loss_scale(cero_engine *engine)
{
    if (engine->external != NULL) {
        engine->external->knows_scale = true;
    }
    return cero_zero_loss_scale(engine->zero);
}

void cero_engine_external_fill(void *context, int64_t unit, void *room)
{
    cero_engine *engine = context;
    const cero_zero_layout *layout = cero_zero_get_layout(engine->zero);
    cero_dtype dtype = engine->spec->compute_dtype;

    for (int k = 0; k < layout->units[unit].param_count; k++) {
        int64_t i = layout->units[unit].first_param + k;
        const cero_zero_param *p = &layout->params[i];
        const cero_engine_outside *outside = &engine->external->params[i];
        if (!p->is_frozen && outside->grad != NULL) {
            char *to =
                (char *)room + (size_t)cero_zero_param_begin(layout, p) * cero_dtype_size(dtype);
            cero_device_convert(engine->context->device, outside->dtype, dtype, p->numel,
                                outside->grad, to);
        }
    }
}

/* What the first gradients of a micro-batch need; says which micro-batch they are of. */
static cero_status begin_micro_batch(cero_engine *engine)
{
    cero_engine_external *x = engine->external;
    const cero_zero_layout *layout = cero_zero_get_layout(engine->zero);

    if (x->has_begun) {
        return CERO_OK;
    }
    CERO_CHECK(x->backwards < engine->micro_batch_count, CERO_ERR_INVALID,
               "the step's %lld micro-batches are complete; call cero_engine_step before more "
               "gradients (gradient_accumulation_steps says how many there are)",
               (long long)engine->micro_batch_count);
    CERO_CHECK(engine->spec->compute_dtype != CERO_DTYPE_F16 || x->knows_scale, CERO_ERR_INVALID,
               "the config computes in fp16, and the program did not ask for the loss scale: "
               "multiply gradients by cero_engine_loss_scale, asked for after each step, or use "
               "bf16");
    for (int64_t u = 0; u < layout->unit_count; u++) {
        CERO_CHECK(!cero_zero_external_is_cut(x->rooms, u) || x->was_gathered[u] ||
                       layout->units[u].range[CERO_ZERO_TRAINED].numel == 0,
                   CERO_ERR_INVALID,
                   "unit %s is cut at ZeRO stage 3 and was not gathered since the last update: its "
                   "weights are old; call cero_engine_gather_unit before they are used, or use "
                   "stage 2",
                   layout->units[u].name);
    }
    cero_zero_begin_micro_batch(engine->zero, x->backwards);
    x->has_begun = true;
    return CERO_OK;
}

static cero_status grad_ready(cero_engine *engine, int64_t i)
{
    cero_engine_external *x = engine->external;
    const cero_zero_layout *layout = cero_zero_get_layout(engine->zero);

    CERO_CHECK(i >= 0 && i < layout->param_count, CERO_ERR_INVALID, "parameter %lld of %lld",
               (long long)i, (long long)layout->param_count);
    const cero_zero_param *p = &layout->params[i];
    if (p->is_frozen) {
        return CERO_OK; // the config may freeze what the program trains
    }
    CERO_CHECK(!x->params[i].is_ready, CERO_ERR_INVALID,
               "the gradient of %s was ready before in this micro-batch", p->name);
    CERO_TRY(begin_micro_batch(engine));
    x->params[i].is_ready = true;
    cero_comm_poll(engine->context->comm);
    return --x->waiting[p->unit] == 0 ? cero_zero_external_ready(x->rooms, p->unit) : CERO_OK;
}

cero_status cero_engine_grad_ready(cero_engine *engine, int64_t i)
{
    CERO_TRY(cero_engine_check_external(engine, "cero_engine_grad_ready"));
    return cero_engine_external_fail(engine, grad_ready(engine, i), "cero_engine_grad_ready");
}

static cero_status backward(cero_engine *engine, double loss)
{
    cero_engine_external *x = engine->external;
    const cero_zero_layout *layout = cero_zero_get_layout(engine->zero);

    CERO_TRY(begin_micro_batch(engine));
    cero_fault_at("backward");
    CERO_TRY(cero_zero_external_reduce(x->rooms));
    memset(x->waiting, 0, (size_t)layout->unit_count * sizeof(int64_t));
    for (int64_t i = 0; i < layout->param_count; i++) {
        x->params[i].is_ready = false;
        x->waiting[layout->params[i].unit] += layout->params[i].is_frozen ? 0 : 1;
    }
    if (x->backwards == 0) {
        cero_exact_clear(&x->loss);
    }
    cero_exact_add(&x->loss, loss);
    x->backwards++;
    x->has_begun = false;
    x->has_backward = true;
    return CERO_OK;
}

cero_status cero_engine_backward(cero_engine *engine, double loss)
{
    CERO_TRY(cero_engine_check_external(engine, "cero_engine_backward"));
    return cero_engine_external_fail(engine, backward(engine, loss), "cero_engine_backward");
}

bool cero_engine_is_boundary(const cero_engine *engine)
{
    const cero_engine_external *x = engine->external;

    return x != NULL && x->backwards + (x->has_backward ? 0 : 1) == engine->micro_batch_count;
}

cero_status cero_engine_external_set(cero_engine *engine, int64_t i, int64_t begin, int64_t n,
                                     const float *values)
{
    enum {
        SPAN = 4096
    };
    const cero_zero_layout *layout = cero_zero_get_layout(engine->zero);
    const cero_engine_external *x = engine->external;
    cero_device *device = engine->context->device;
    cero_dtype dtype = engine->spec->compute_dtype;
    float rounded[SPAN]; // of the compute dtype

    CERO_CHECK(i < 0 || i >= layout->param_count ||
                   !cero_zero_external_is_gathered(x->rooms, layout->params[i].unit),
               CERO_ERR_INVALID,
               "cero_engine_set_param: unit %s is gathered; call cero_engine_release_unit first",
               layout->units[layout->params[i].unit].name);
    CERO_TRY(cero_zero_set_param(engine->zero, i, begin, n, values));
    const cero_engine_outside *p = &x->params[i];
    for (int64_t at = 0; p->data != NULL && at < n; at += SPAN) {
        int64_t count = n - at < SPAN ? n - at : SPAN;
        char *to = (char *)p->data + (size_t)(begin + at) * cero_dtype_size(p->dtype);
        cero_device_from_f32(device, dtype, count, values + at, rounded);
        cero_device_convert(device, dtype, p->dtype, count, rounded, to);
    }
    return CERO_OK;
}

static cero_status check_released(const cero_engine *engine)
{
    const cero_zero_layout *layout = cero_zero_get_layout(engine->zero);

    for (int64_t u = 0; u < layout->unit_count; u++) {
        CERO_CHECK(!cero_zero_external_is_gathered(engine->external->rooms, u), CERO_ERR_INVALID,
                   "unit %s is still gathered, and its weights are about to change; call "
                   "cero_engine_release_unit first",
                   layout->units[u].name);
    }
    return CERO_OK;
}

static void set_stats(cero_engine *engine, const cero_zero_step_result *result, double loss,
                      double seconds, cero_step_stats *stats)
{
    cero_engine_external *x = engine->external;
    double exchanged = cero_zero_exchange_seconds(engine->zero);

    *stats = (cero_step_stats){
        .step = engine->step,
        .loss = loss,
        .lr = result->lr,
        .grad_norm = result->grad_norm,
        .clip_coef = result->clip_coef,
        .loss_scale = result->loss_scale,
        .is_applied = result->is_applied,
        .bad_tensor = result->bad_tensor,
        .applied = cero_zero_applied(engine->zero),
        .skipped = cero_zero_skipped(engine->zero),
        .seconds_exchange = exchanged - x->exchanged,
        .seconds_update = seconds,
    };
    x->exchanged = exchanged;
}

/* Every contribution is the gradient of a mean: the step's is the mean of these means. */
static cero_status update(cero_engine *engine, cero_step_stats *stats)
{
    cero_engine_external *x = engine->external;
    cero_comm *comm = engine->context->comm;
    double contributions = (double)engine->micro_batch_count * cero_comm_size(comm);
    cero_zero_step_result result;
    cero_step_stats ignored;

    CERO_TRY(cero_comm_all_reduce_exact(comm, &x->loss, 1));
    double start = cero_clock_now();
    cero_fault_at("update");
    CERO_TRY(cero_zero_step(engine->zero, contributions, &result));
    CERO_TRY(cero_zero_settle(engine->zero));
    if (result.is_applied) {
        cero_engine_external_give(engine, true);
    }
    engine->step++;
    set_stats(engine, &result, cero_exact_round(&x->loss) / contributions, cero_clock_now() - start,
              stats != NULL ? stats : &ignored);
    x->backwards = 0;
    x->knows_scale = x->knows_scale && result.loss_scale == cero_zero_loss_scale(engine->zero);
    for (int64_t u = 0; u < cero_zero_get_layout(engine->zero)->unit_count; u++) {
        x->was_gathered[u] = x->was_gathered[u] && !result.is_applied;
    }
    return CERO_OK;
}

cero_status cero_engine_step(cero_engine *engine, cero_step_stats *stats)
{
    static const char call[] = "cero_engine_step";
    cero_status st = CERO_OK;

    CERO_TRY(cero_engine_check_external(engine, call));
    cero_engine_external *x = engine->external;
    if (!x->has_backward) {
        st = CERO_FAIL(
            CERO_ERR_INVALID,
            "no micro-batch came in since the last call; call cero_engine_backward first");
        return cero_engine_external_fail(engine, st, call);
    }
    if (x->backwards == engine->micro_batch_count) {
        st = cero_engine_meet(engine, CERO_ENGINE_STEP, 0, 0, check_released(engine));
        if (st != CERO_OK) {
            return cero_error_prefix(st, "%s: ", call);
        }
        st = cero_engine_external_fail(engine, update(engine, stats), call);
    }
    x->has_backward = false;
    return st;
}
