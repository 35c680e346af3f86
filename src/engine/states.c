/* SPDX-License-Identifier: Apache-2.0 */
/* What checkpoints read and set in an engine besides its weights. */
#include "engine/engine_impl.h"

#include <stdio.h>
#include <string.h>

void cero_engine_get_counters(const cero_engine *engine, cero_engine_counters *out)
{
    out->step = engine->step;
    cero_zero_get_counters(engine->zero, &out->zero);
}

void cero_engine_set_counters(cero_engine *engine, const cero_engine_counters *counters)
{
    engine->step = counters->step;
    cero_zero_set_counters(engine->zero, &counters->zero);
    if (engine->external != NULL) {
        engine->external->knows_scale = false;
    }
}

cero_status cero_engine_can_checkpoint(const cero_engine *engine)
{
    const cero_engine_external *x = engine->external;
    const cero_zero_layout *layout = cero_zero_get_layout(engine->zero);

    CERO_CHECK(!engine->is_poisoned, CERO_ERR_INVALID,
               "the engine failed before and can only be destroyed");
    CERO_CHECK(!cero_device_is_meta(engine->context->device), CERO_ERR_INVALID,
               "on the device meta there are no weights");
    CERO_CHECK(x == NULL || x->backwards == 0, CERO_ERR_INVALID,
               "%lld of the %lld micro-batches of step %lld are complete, and their sums are in no "
               "checkpoint; call it after cero_engine_step",
               (long long)x->backwards, (long long)engine->micro_batch_count,
               (long long)engine->step + 1);
    for (int64_t u = 0; x != NULL && u < layout->unit_count; u++) {
        CERO_CHECK(!cero_zero_external_is_gathered(x->rooms, u), CERO_ERR_INVALID,
                   "unit %s is still gathered; call cero_engine_release_unit first",
                   layout->units[u].name);
    }
    return CERO_OK;
}

int cero_engine_moment_count(const cero_engine *engine, int64_t i)
{
    return cero_zero_moment_count(engine->zero, i);
}

const char *cero_engine_moment_name(const cero_engine *engine, int moment)
{
    return cero_zero_moment_name(engine->zero, moment);
}

cero_status cero_engine_get_moment(cero_engine *engine, int64_t i, int moment, int64_t begin,
                                   int64_t n, float *values)
{
    return cero_zero_get_moment(engine->zero, i, moment, begin, n, values);
}

void cero_engine_poison(cero_engine *engine)
{
    engine->is_poisoned = true;
}

void cero_engine_own_range(const cero_engine *engine, int64_t i, int moment, int64_t *begin,
                           int64_t *n)
{
    cero_zero_own_range(engine->zero, i, moment, begin, n);
}

const float *cero_engine_own_values(const cero_engine *engine, int64_t i, int moment, int64_t begin,
                                    int64_t n, float *room)
{
    return cero_zero_own_values(engine->zero, i, moment, begin, n, room);
}

size_t cero_engine_own_bytes(const cero_engine *engine)
{
    size_t nbytes = 0;

    for (int64_t i = 0; i < cero_engine_param_count(engine); i++) {
        for (int m = -1; m < cero_engine_moment_count(engine, i); m++) {
            int64_t begin;
            int64_t n;
            cero_engine_own_range(engine, i, m, &begin, &n);
            nbytes += (size_t)n * sizeof(float);
        }
    }
    return nbytes;
}

cero_status cero_engine_load_begin(cero_engine *engine)
{
    return cero_zero_load_begin(engine->zero);
}

void cero_engine_load_range(const cero_engine *engine, int64_t i, int moment, int64_t *begin,
                            int64_t *n)
{
    cero_zero_load_range(engine->zero, i, moment, begin, n);
}

float *cero_engine_load_memory(const cero_engine *engine, int64_t i, int moment, int64_t begin)
{
    return cero_zero_load_memory(engine->zero, i, moment, begin);
}

void cero_engine_load_values(cero_engine *engine, int64_t i, int moment, int64_t begin, int64_t n,
                             const float *values)
{
    cero_zero_load_values(engine->zero, i, moment, begin, n, values);
}

cero_status cero_engine_load_end(cero_engine *engine, float *room, int64_t numel)
{
    cero_engine_external *x = engine->external;

    CERO_TRY(cero_zero_load_end(engine->zero, room, numel));
    if (x != NULL) {
        cero_engine_external_give(engine, false);
        // What the program gathered before are other weights.
        memset(x->was_gathered, 0,
               (size_t)cero_zero_get_layout(engine->zero)->unit_count * sizeof(bool));
    }
    return CERO_OK;
}

void cero_engine_clear_moments(cero_engine *engine)
{
    cero_zero_clear_moments(engine->zero);
}

void cero_engine_clear_counters(cero_engine *engine)
{
    cero_engine_counters counters = {0};

    cero_zero_clear_counters(engine->zero);
    cero_zero_get_counters(engine->zero, &counters.zero);
    cero_engine_set_counters(engine, &counters);
}

const char *cero_engine_run(const cero_engine *engine)
{
    return engine->run;
}

void cero_engine_set_run(cero_engine *engine, const char *run)
{
    (void)snprintf(engine->run, sizeof(engine->run), "%s", run);
}

cero_comm *cero_engine_comm(const cero_engine *engine)
{
    return engine->context->comm;
}

cero_context *cero_engine_context(const cero_engine *engine)
{
    return engine->context;
}

const cero_config *cero_engine_config(const cero_engine *engine)
{
    return engine->config;
}
