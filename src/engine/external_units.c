/* SPDX-License-Identifier: Apache-2.0 */
/* Parameters of a program that are at hand: units gathered and released at stage 3, and where memory is. */
#include "engine/engine_impl.h"

#include <string.h>

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

    CERO_TRY(cero_engine_check_external(engine, "cero_engine_gather_unit"));
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
    return cero_engine_external_fail(engine, gather(engine, u, at), "cero_engine_gather_unit");
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
    CERO_TRY(cero_engine_check_external(engine, "cero_engine_release_unit"));
    return cero_engine_external_fail(engine, release(engine, unit), "cero_engine_release_unit");
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
