/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The calls of a step whose forward and backward are the caller's: gradients in, units gathered and released, the
 * update, weights out. What moves between ranks is zero's (zero/external.h).
 *
 * A call that a rank alone makes wrongly poisons its engine and tells the others, whose waits end. Calls that all
 * ranks make together first agree that they are the same call (cero_engine_meet).
 */
#include "engine/engine_impl.h"

#include "base/clock.h"

#include <stdio.h>
#include <string.h>

/* The other ranks may be anywhere in the step: they are told, and end their waits. */
static cero_status fail(cero_engine *engine, cero_status status, const char *call)
{
    if (status == CERO_OK) {
        return CERO_OK;
    }
    engine->is_poisoned = true;
    status = cero_error_prefix(status, "step %lld, %s: ", (long long)engine->step + 1, call);
    return cero_comm_fail(engine->context->comm, status);
}

static cero_status check_engine(const cero_engine *engine, const char *call)
{
    CERO_CHECK(engine != NULL, CERO_ERR_INVALID, "%s: the engine is NULL", call);
    CERO_CHECK(
        engine->external != NULL, CERO_ERR_INVALID,
        "%s: the engine has a model of its own; call cero_engine_train_batch, or create it by "
        "cero_engine_create_external",
        call);
    CERO_CHECK(!cero_device_is_meta(engine->context->device), CERO_ERR_INVALID,
               "%s: on the device meta nothing runs", call);
    CERO_CHECK(!engine->is_poisoned, CERO_ERR_INVALID,
               "%s: the engine failed before and can only be destroyed", call);
    return CERO_OK;
}

static const char *const call_names[CERO_ENGINE_CALLS] = {
    [CERO_ENGINE_STEP] = "cero_engine_step",
    [CERO_ENGINE_GATHER] = "cero_engine_gather_unit",
    [CERO_ENGINE_SAVE] = "cero_engine_save",
    [CERO_ENGINE_LOAD] = "cero_engine_load",
};

/* What ranks compare: the least of these over ranks shows the least and the greatest of each value. */
enum {
    MEET_FAILED = 0, /* 0: a rank failed before */
    MEET_CALL = 1,   /* call, number and rank in one value, and the same negated but for the rank */
    MEET_CALL_MAX = 2,
    MEET_PLACE = 3,
    MEET_PLACE_MAX = 4,
    MEET_VALUES = 5
};

/* "cero_engine_gather_unit(h.0)" of a call and its number. */
static const char *describe_call(const cero_engine *engine, int64_t code, char *text, size_t size)
{
    const cero_zero_layout *layout = cero_zero_get_layout(engine->zero);
    int64_t call = code >> 32;
    int64_t number = code & 0xffffffff;
    bool is_unit = call == CERO_ENGINE_GATHER && number < layout->unit_count;

    (void)snprintf(text, size, "%s(%s)",
                   call >= 0 && call < CERO_ENGINE_CALLS ? call_names[call] : "another function",
                   is_unit ? layout->units[number].name : "");
    return text;
}

cero_status cero_engine_meet(cero_engine *engine, cero_engine_call call, int64_t number,
                             int64_t place, cero_status local)
{
    cero_comm *comm = engine->context->comm;
    int64_t size = cero_comm_size(comm);
    int64_t rank = cero_comm_rank(comm);
    int64_t code = ((int64_t)call << 32) + number;
    int64_t least[MEET_VALUES] = {local == CERO_OK, code * size + rank, -code * size + rank, place,
                                  -place};
    char texts[2][160];

    if (size == 1) {
        return local;
    }
    CERO_TRY(cero_comm_all_reduce_i64(comm, CERO_COMM_MIN, least, MEET_VALUES));
    if (least[MEET_FAILED] == 0) {
        return cero_comm_agree(comm, local);
    }
    int64_t low = least[MEET_CALL] / size;
    int64_t high_rank = (least[MEET_CALL_MAX] % size + size) % size;
    int64_t high = -(least[MEET_CALL_MAX] - high_rank) / size;
    CERO_CHECK(
        low == high, CERO_ERR_INVALID,
        "rank %lld calls %s and rank %lld calls %s: all ranks make the same calls in the same "
        "order",
        (long long)(least[MEET_CALL] % size),
        describe_call(engine, low, texts[0], sizeof(texts[0])), (long long)high_rank,
        describe_call(engine, high, texts[1], sizeof(texts[1])));
    CERO_CHECK(least[MEET_PLACE] == -least[MEET_PLACE_MAX], CERO_ERR_INVALID,
               "%s: ranks have different units gathered; all ranks gather and release the same",
               describe_call(engine, low, texts[0], sizeof(texts[0])));
    return CERO_OK;
}

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
    CERO_TRY(check_engine(engine, "cero_engine_grad_ready"));
    return fail(engine, grad_ready(engine, i), "cero_engine_grad_ready");
}

static cero_status backward(cero_engine *engine, double loss)
{
    cero_engine_external *x = engine->external;
    const cero_zero_layout *layout = cero_zero_get_layout(engine->zero);

    CERO_TRY(begin_micro_batch(engine));
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
    CERO_TRY(check_engine(engine, "cero_engine_backward"));
    return fail(engine, backward(engine, loss), "cero_engine_backward");
}

bool cero_engine_is_boundary(const cero_engine *engine)
{
    const cero_engine_external *x = engine->external;

    return x != NULL && x->backwards + (x->has_backward ? 0 : 1) == engine->micro_batch_count;
}

/* The weights of a unit that the program holds, from compute copies that are whole here. */
static void give_unit(cero_engine *engine, int64_t unit, bool is_trained_only)
{
    const cero_zero_layout *layout = cero_zero_get_layout(engine->zero);
    const cero_engine_external *x = engine->external;

    for (int k = 0; k < layout->units[unit].param_count; k++) {
        int64_t i = layout->units[unit].first_param + k;
        const void *copy = cero_zero_external_param(x->rooms, i);
        bool is_wanted = !is_trained_only || !layout->params[i].is_frozen;
        if (copy != NULL && x->params[i].data != NULL && is_wanted) {
            cero_device_convert(engine->context->device, engine->spec->compute_dtype,
                                x->params[i].dtype, layout->params[i].numel, copy,
                                x->params[i].data);
        }
    }
}

void cero_engine_external_give(cero_engine *engine, bool is_trained_only)
{
    for (int64_t u = 0; u < cero_zero_get_layout(engine->zero)->unit_count; u++) {
        give_unit(engine, u, is_trained_only);
    }
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

    CERO_TRY(check_engine(engine, call));
    cero_engine_external *x = engine->external;
    if (!x->has_backward) {
        st = CERO_FAIL(
            CERO_ERR_INVALID,
            "no micro-batch came in since the last call; call cero_engine_backward first");
        return fail(engine, st, call);
    }
    if (x->backwards == engine->micro_batch_count) {
        st = cero_engine_meet(engine, CERO_ENGINE_STEP, 0, 0, check_released(engine));
        if (st != CERO_OK) {
            return cero_error_prefix(st, "%s: ", call);
        }
        st = fail(engine, update(engine, stats), call);
    }
    x->has_backward = false;
    return st;
}

static cero_status find_unit(const cero_engine *engine, const char *name, int64_t *unit)
{
    const cero_zero_layout *layout = cero_zero_get_layout(engine->zero);

    for (int64_t u = 0; name != NULL && u < layout->unit_count; u++) {
        if (strcmp(layout->units[u].name, name) == 0) {
            *unit = u;
            return CERO_OK;
        }
    }
    return CERO_FAIL(CERO_ERR_INVALID, "there is no unit %s; the first of %lld is %s",
                     name != NULL ? name : "(NULL)", (long long)layout->unit_count,
                     layout->units[0].name);
}

static cero_status gather(cero_engine *engine, int64_t unit, int64_t at)
{
    CERO_TRY(cero_zero_external_gather(engine->external->rooms, unit, at));
    engine->external->was_gathered[unit] = true;
    give_unit(engine, unit, false);
    return CERO_OK;
}

cero_status cero_engine_gather_unit(cero_engine *engine, const char *unit)
{
    int64_t u = 0;
    int64_t at = 0;

    CERO_TRY(check_engine(engine, "cero_engine_gather_unit"));
    cero_status st = find_unit(engine, unit, &u);
    if (st == CERO_OK && !cero_zero_external_is_cut(engine->external->rooms, u)) {
        return CERO_OK;
    }
    if (st == CERO_OK) {
        st = cero_zero_external_place(engine->external->rooms, u, &at);
    }
    st = cero_engine_meet(engine, CERO_ENGINE_GATHER, u, at, st);
    if (st != CERO_OK) {
        return cero_error_prefix(st, "cero_engine_gather_unit: ");
    }
    return fail(engine, gather(engine, u, at), "cero_engine_gather_unit");
}

static cero_status release(cero_engine *engine, const char *unit)
{
    int64_t u = 0;

    CERO_TRY(find_unit(engine, unit, &u));
    return cero_zero_external_is_cut(engine->external->rooms, u)
               ? cero_zero_external_release(engine->external->rooms, u)
               : CERO_OK;
}

cero_status cero_engine_release_unit(cero_engine *engine, const char *unit)
{
    CERO_TRY(check_engine(engine, "cero_engine_release_unit"));
    return fail(engine, release(engine, unit), "cero_engine_release_unit");
}

static bool has_param(const cero_engine *engine, int64_t i)
{
    return engine->external != NULL && i >= 0 &&
           i < cero_zero_get_layout(engine->zero)->param_count &&
           !cero_device_is_meta(engine->context->device);
}

const void *cero_engine_param_data(const cero_engine *engine, int64_t i)
{
    if (!has_param(engine, i)) {
        return NULL;
    }
    const cero_engine_external *x = engine->external;
    return x->params[i].data != NULL ? x->params[i].data : cero_zero_external_param(x->rooms, i);
}

void *cero_engine_param_grad(const cero_engine *engine, int64_t i)
{
    if (!has_param(engine, i)) {
        return NULL;
    }
    const cero_engine_external *x = engine->external;
    return x->params[i].grad != NULL ? x->params[i].grad : cero_zero_external_grad(x->rooms, i);
}
