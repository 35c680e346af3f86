/* SPDX-License-Identifier: Apache-2.0 */
/* A context: the world, the device and the account of memory that engines share. */
#include "engine/engine.h"

#include "base/clock.h"
#include "base/log.h"

#include <stdio.h>
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

/* Where a rank sits, and what it was told. */
typedef struct seat {
    uint64_t node;
    uint64_t cores; /* equal for the same ones */
    uint64_t threads;
} seat;

/*
 * Ranks of a node that may use the same cores divide them, unless they were told how many threads to use; what
 * there is to warn of says the first of those that sit alike.
 */
static cero_status choose_threads(const cero_context *context, cero_device_params *params)
{
    cero_comm *comm = context->comm;
    int size = cero_comm_size(comm);
    int rank = cero_comm_rank(comm);
    seat mine = {.node = (uint64_t)cero_comm_node_of(comm, rank),
                 .threads = (uint64_t)params->threads};
    int cores = cero_device_cores(&mine.cores);
    int sharing = 0;

    if (size == 1 || cero_comm_is_virtual(comm)) {
        return CERO_OK;
    }
    seat *all = cero_new((size_t)size, sizeof(mine));
    CERO_TRY(cero_comm_agree(
        comm, all != NULL ? CERO_OK : CERO_FAIL(CERO_ERR_NOMEM, "no memory for %d ranks", size)));
    cero_status st = cero_comm_all_gather(comm, &mine, sizeof(mine), all);
    for (int r = 0; r < size && st == CERO_OK; r++) {
        bool is_here = all[r].node == mine.node && all[r].cores == mine.cores;
        sharing += is_here ? 1 : 0;
        params->is_quiet |= is_here && r < rank && all[r].threads == mine.threads;
    }
    cero_delete(all);
    if (st == CERO_OK && params->threads == 0 && !cero_device_has_thread_setting()) {
        params->threads = cores / sharing > 1 ? cores / sharing : 1;
    }
    return st;
}

/* When all ranks fail alike there will be no context to ask who speaks: for all but the first it is REMOTE. */
static cero_status name_the_first(const cero_comm *comm, cero_status st)
{
    char message[512];
    int first = comm != NULL ? cero_comm_agreed_failure(comm) : -1;

    if (first < 0 || first == cero_comm_rank(comm) || st == CERO_ERR_REMOTE) {
        return st;
    }
    (void)snprintf(message, sizeof(message), "%s", cero_error_message());
    return CERO_FAIL(CERO_ERR_REMOTE, "rank %d failed, and this one alike: %s", first, message);
}

static cero_status create(const cero_context_params *params, const void *mpi_comm, size_t nbytes,
                          cero_context **out)
{
    cero_status st = CERO_OK;
    cero_context_params p = params != NULL ? *params : (cero_context_params){0};
    cero_device_params device = {.name = p.device, .threads = p.threads};

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
    if (!cero_comm_is_virtual(context->comm)) {
        cero_log_set_rank(cero_comm_rank(context->comm), cero_comm_size(context->comm));
    }
    CERO_TRY_GOTO(choose_threads(context, &device), fail);
    st = cero_device_create(&device, &context->device);
    CERO_TRY_GOTO(cero_comm_agree(context->comm, st), fail);
    *out = context;
    return CERO_OK;

fail:
    st = name_the_first(context->comm, st);
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

/* Ranks that fail in one moment do not know of each other yet; the lowest of them is the first. */
static bool is_first_of_moment(cero_comm *comm)
{
    enum {
        SETTLE_MS = 300
    };

    for (int ms = 0; ms < SETTLE_MS; ms++) {
        (void)cero_comm_failed_rank(comm);
        cero_clock_sleep(1e-3);
    }
    int first = cero_comm_failed_rank(comm);
    return first < 0 || first >= cero_comm_rank(comm);
}

bool cero_context_speaks(cero_context *context, cero_status status)
{
    cero_comm *comm = context->comm;

    if (cero_comm_size(comm) == 1) {
        return true;
    }
    int agreed = cero_comm_agreed_failure(comm);
    if (cero_comm_fail(comm, status) == CERO_ERR_REMOTE) {
        return false;
    }
    if (agreed >= 0) {
        return agreed == cero_comm_rank(comm);
    }
    return !cero_comm_is_late(comm) && is_first_of_moment(comm);
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
