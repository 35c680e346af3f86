/* SPDX-License-Identifier: Apache-2.0 */
/* A context: the world, the device and the account of memory that engines share. */
#include "engine/engine.h"

cero_status cero_context_create(const cero_context_params *params, cero_context **out)
{
    cero_status st = CERO_OK;
    cero_context_params p = params != NULL ? *params : (cero_context_params){0};

    CERO_CHECK(out != NULL, CERO_ERR_INVALID, "cero_context_create: out is NULL");
    CERO_CHECK(p.threads >= 0 && p.memory_budget >= 0, CERO_ERR_INVALID,
               "cero_context_create: threads %d and memory_budget %lld must not be negative",
               p.threads, (long long)p.memory_budget);
    cero_context *context = cero_new(1, sizeof(*context));
    if (context == NULL) {
        return CERO_FAIL(CERO_ERR_NOMEM, "no memory for a context");
    }
    CERO_TRY_GOTO(cero_mem_create((size_t)p.memory_budget, &context->mem), fail);
    CERO_TRY_GOTO(cero_comm_create_self(&context->comm), fail);
    CERO_TRY_GOTO(cero_device_create(&(cero_device_params){.name = p.device, .threads = p.threads},
                                     &context->device),
                  fail);
    *out = context;
    return CERO_OK;

fail:
    cero_context_destroy(&context);
    return st;
}

void cero_context_destroy(cero_context **context)
{
    if (context == NULL || *context == NULL) {
        return;
    }
    cero_device_destroy(&(*context)->device);
    cero_comm_destroy(&(*context)->comm);
    cero_mem_destroy(&(*context)->mem);
    cero_delete(*context);
    *context = NULL;
}

cero_device *cero_context_device(cero_context *context)
{
    return context->device;
}

void cero_context_memory(const cero_context *context, cero_mem_category category, size_t *current,
                         size_t *peak)
{
    cero_mem_usage usage = cero_mem_get(context->mem, category);

    *current = usage.current;
    *peak = usage.peak;
}

cero_status cero_config_create(const char *path, const char *const *overrides, int override_count,
                               cero_config **out)
{
    CERO_CHECK(out != NULL, CERO_ERR_INVALID, "cero_config_create: out is NULL");
    return cero_train_config_create(&(cero_train_config_params){.path = path,
                                                                .overrides = overrides,
                                                                .override_count = override_count},
                                    out);
}

void cero_config_destroy(cero_config **config)
{
    cero_train_config_destroy(config);
}
