/* SPDX-License-Identifier: Apache-2.0 */
/* A context: the world, the device and the account of memory that engines share. */
#include "engine/engine.h"

#include "base/clock.h"

#include <string.h>

/* The world: the one this process was started in, the caller's, or one that does not exist. */
static cero_status join(cero_context *context, const cero_context_params *p, const void *mpi_comm,
                        size_t nbytes)
{
    cero_comm_params params = {.timeout_seconds = p->timeout,
                               .ranks_per_node = p->ranks_per_node,
                               .no_shared_memory = p->no_shared_memory};
    bool is_meta = p->device != NULL && strcmp(p->device, "meta") == 0;

    CERO_CHECK(
        p->world_size == 0 || is_meta, CERO_ERR_INVALID,
        "cero_context_create: world_size %d with device %s; worlds that do not exist are for "
        "the device \"meta\"",
        p->world_size, p->device != NULL ? p->device : "cpu");
    if (p->world_size > 0) {
        return cero_comm_create_virtual(p->world_rank, p->world_size, &params, &context->comm);
    }
    if (is_meta) {
        return cero_comm_create_self(&context->comm);
    }
    return mpi_comm != NULL ? cero_comm_create_from(mpi_comm, nbytes, &params, &context->comm)
                            : cero_comm_create_world(&params, &context->comm);
}

/* Ranks of a node that may use the same cores divide them. */
static cero_status choose_threads(const cero_context *context, int asked, int *threads)
{
    cero_comm *comm = context->comm;
    int size = cero_comm_size(comm);
    uint64_t mine[2] = {(uint64_t)cero_comm_node_of(comm, cero_comm_rank(comm)), 0};
    int cores = cero_device_cores(&mine[1]);
    int sharing = 0;

    *threads = asked;
    if (asked > 0 || size == 1 || cero_comm_is_virtual(comm) || cero_device_has_thread_setting()) {
        return CERO_OK;
    }
    uint64_t *all = cero_new((size_t)size, sizeof(mine));
    CERO_TRY(cero_comm_agree(
        comm, all != NULL ? CERO_OK : CERO_FAIL(CERO_ERR_NOMEM, "no memory for %d ranks", size)));
    cero_status st = cero_comm_all_gather(comm, mine, sizeof(mine), all);
    for (int r = 0; r < size; r++) {
        sharing += memcmp(all + 2 * r, mine, sizeof(mine)) == 0 ? 1 : 0;
    }
    cero_delete(all);
    *threads = st == CERO_OK && cores / sharing > 1 ? cores / sharing : 1;
    return st;
}

static cero_status create(const cero_context_params *params, const void *mpi_comm, size_t nbytes,
                          cero_context **out)
{
    cero_status st = CERO_OK;
    cero_context_params p = params != NULL ? *params : (cero_context_params){0};
    int threads = 0;

    CERO_CHECK(out != NULL, CERO_ERR_INVALID, "cero_context_create: out is NULL");
    CERO_CHECK(p.threads >= 0 && p.memory_budget >= 0, CERO_ERR_INVALID,
               "cero_context_create: threads %d and memory_budget %lld must not be negative",
               p.threads, (long long)p.memory_budget);
    cero_context *context = cero_new(1, sizeof(*context));
    if (context == NULL) {
        return CERO_FAIL(CERO_ERR_NOMEM, "no memory for a context");
    }
    CERO_TRY_GOTO(cero_mem_create((size_t)p.memory_budget, &context->mem), fail);
    CERO_TRY_GOTO(join(context, &p, mpi_comm, nbytes), fail);
    CERO_TRY_GOTO(choose_threads(context, p.threads, &threads), fail);
    st = cero_device_create(&(cero_device_params){.name = p.device, .threads = threads},
                            &context->device);
    CERO_TRY_GOTO(cero_comm_agree(context->comm, st), fail);
    *out = context;
    return CERO_OK;

fail:
    cero_context_destroy(&context);
    return st;
}

cero_status cero_context_create(const cero_context_params *params, cero_context **out)
{
    return create(params, NULL, 0, out);
}

cero_status cero_context_create_from(const void *mpi_comm, size_t nbytes,
                                     const cero_context_params *params, cero_context **out)
{
    CERO_CHECK(mpi_comm != NULL, CERO_ERR_INVALID,
               "cero_context_create_mpi: the communicator is missing");
    return create(params, mpi_comm, nbytes, out);
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

int cero_context_rank(const cero_context *context)
{
    return cero_comm_rank(context->comm);
}

int cero_context_size(const cero_context *context)
{
    return cero_comm_size(context->comm);
}

cero_status cero_context_agree(cero_context *context, cero_status local)
{
    return cero_comm_agree(context->comm, local);
}

bool cero_context_speaks(cero_context *context, cero_status status)
{
    enum {
        SETTLE_MS = 300 /* in which other ranks' failures of the same moment become known */
    };
    cero_comm *comm = context->comm;

    if (cero_comm_size(comm) == 1) {
        return true;
    }
    if (cero_comm_fail(comm, status) == CERO_ERR_REMOTE) {
        return false;
    }
    for (int ms = 0; ms < SETTLE_MS; ms++) {
        (void)cero_comm_failed_rank(comm);
        cero_clock_sleep(1e-3);
    }
    int first = cero_comm_failed_rank(comm);
    return first < 0 || first >= cero_comm_rank(comm);
}

void cero_context_abort(cero_context *context, int code)
{
    cero_comm_abort(context->comm, code);
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

cero_status cero_config_create(const cero_context *context, const char *path,
                               const char *const *overrides, int override_count, cero_config **out)
{
    cero_train_config_params params = {.path = path,
                                       .overrides = overrides,
                                       .override_count = override_count,
                                       .dp_size =
                                           context != NULL ? cero_comm_size(context->comm) : 1};

    CERO_CHECK(out != NULL, CERO_ERR_INVALID, "cero_config_create: out is NULL");
    return cero_train_config_create(&params, out);
}

void cero_config_destroy(cero_config **config)
{
    cero_train_config_destroy(config);
}
