/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The world a model's states are part of, the order of sums, and memory. What is held where is in hold.c, what
 * moves between ranks in exchange.c and schedule.c, how gradients become an update in update.c.
 */
#include "zero/zero_impl.h"

#include <string.h>

/* The most that the reduction of one unit takes for what comes in by message. */
static cero_status plan_landing(cero_zero *zero)
{
    int64_t *border = cero_new((size_t)zero->size + 1, sizeof(int64_t));

    if (border == NULL) {
        return CERO_FAIL(CERO_ERR_NOMEM, "no memory for the shards of %d ranks", zero->size);
    }
    for (int64_t u = 0; u < zero->layout.unit_count; u++) {
        cero_zero_borders(zero, u, CERO_ZERO_TRAINED, border);
        cero_reduce_params params = {.dtype = zero->is_local ? CERO_DTYPE_F32 : zero->dtype,
                                     .border = border,
                                     .bucket = zero->spec->reduce_bucket_size,
                                     .order = zero->order};
        size_t nbytes = cero_reduce_landing_bytes(zero->comm, &params);
        nbytes = (nbytes + CERO_MEM_ALIGNMENT - 1) / CERO_MEM_ALIGNMENT * CERO_MEM_ALIGNMENT;
        zero->landing_bytes = nbytes > zero->landing_bytes ? nbytes : zero->landing_bytes;
    }
    zero->overlaps = zero->spec->overlap_comm;
    cero_delete(border);
    return CERO_OK;
}

static size_t landing_bytes(const cero_zero *zero)
{
    return zero->landing_bytes * (zero->overlaps ? 2 : 1);
}

void cero_zero_bytes(const cero_zero *zero, size_t exchange_bytes, size_t bytes[CERO_MEM_COUNT])
{
    size_t size = cero_dtype_size(zero->dtype);
    size_t f32 = (size_t)zero->state_numel * sizeof(float);

    memset(bytes, 0, CERO_MEM_COUNT * sizeof(size_t));
    bytes[CERO_MEM_PARAM] =
        cero_comm_buffer_bytes(zero->comm, (size_t)zero->copy_numel * size, zero->is_shared);
    bytes[CERO_MEM_COMM] = exchange_bytes;
    if (zero->contributions == 0) {
        return;
    }
    bytes[CERO_MEM_COMM] += landing_bytes(zero);
    bytes[CERO_MEM_GRAD] = (size_t)zero->sum_numel * cero_dtype_size(cero_zero_grad_dtype(zero));
    bytes[CERO_MEM_MASTER] = zero->has_master ? f32 : 0;
    bytes[CERO_MEM_OPTIM] = f32 * (size_t)zero->moment_count;
    bytes[CERO_MEM_OTHER] =
        CERO_ZERO_NORM_SPAN / CERO_SQUARE_BLOCK * sizeof(double) + zero->scratch_bytes;
}

static cero_status allocate_cleared(cero_zero *zero, size_t nbytes, cero_mem_category category,
                                    const char *what, void **out)
{
    CERO_TRY(cero_mem_alloc(zero->mem, nbytes, category, what, out));
    memset(*out, 0, nbytes);
    return CERO_OK;
}

/* Memory of this rank alone. Padding is zero and stays zero: it never counts in a norm. */
static cero_status allocate_private(cero_zero *zero, const size_t bytes[CERO_MEM_COUNT])
{
    size_t f32 = (size_t)zero->state_numel * sizeof(float);

    if (zero->sum_buffer == NULL) {
        CERO_TRY(allocate_cleared(zero, bytes[CERO_MEM_GRAD], CERO_MEM_GRAD, "gradient sums",
                                  &zero->grad));
    }
    if (zero->has_master) {
        CERO_TRY(
            allocate_cleared(zero, f32, CERO_MEM_MASTER, "master weights", (void **)&zero->master));
    }
    if (zero->moment_count > 0) {
        CERO_TRY(
            allocate_cleared(zero, f32, CERO_MEM_OPTIM, "first moments", (void **)&zero->exp_avg));
    }
    if (zero->moment_count > 1) {
        CERO_TRY(allocate_cleared(zero, f32, CERO_MEM_OPTIM, "second moments",
                                  (void **)&zero->exp_avg_sq));
    }
    CERO_TRY(cero_mem_alloc(zero->mem, CERO_ZERO_NORM_SPAN / CERO_SQUARE_BLOCK * sizeof(double),
                            CERO_MEM_OTHER, "norm of the gradient", (void **)&zero->block_sums));
    CERO_TRY(cero_mem_alloc(zero->mem, landing_bytes(zero), CERO_MEM_COMM,
                            "messages of the exchange", &zero->landing));
    return cero_mem_alloc(zero->mem, zero->scratch_bytes, CERO_MEM_OTHER,
                          "scratch of the optimizer", &zero->scratch);
}

/* Memory that peers read. */
static cero_status allocate_shared(cero_zero *zero, size_t exchange_bytes,
                                   const size_t bytes[CERO_MEM_COUNT])
{
    cero_comm_buffer_params params = {.mem = zero->mem,
                                      .category = CERO_MEM_PARAM,
                                      .nbytes =
                                          (size_t)zero->copy_numel * cero_dtype_size(zero->dtype),
                                      .is_one_per_node = zero->is_shared,
                                      .what = "parameters"};

    CERO_TRY(cero_comm_buffer_create(zero->comm, &params, &zero->param_buffer));
    zero->param = cero_comm_buffer_data(zero->param_buffer);
    params = (cero_comm_buffer_params){.mem = zero->mem,
                                       .category = CERO_MEM_COMM,
                                       .nbytes = exchange_bytes,
                                       .what = "gathered parameters and staged gradients"};
    if (exchange_bytes > 0) {
        CERO_TRY(cero_comm_buffer_create(zero->comm, &params, &zero->arena));
    }
    bool is_sum_read = zero->contributions > 0 && (zero->stage == 0 || zero->is_local);
    if (is_sum_read && zero->size > 1) {
        params.category = CERO_MEM_GRAD;
        params.nbytes = bytes[CERO_MEM_GRAD];
        params.what = "gradient sums";
        CERO_TRY(cero_comm_buffer_create(zero->comm, &params, &zero->sum_buffer));
        zero->grad = cero_comm_buffer_data(zero->sum_buffer);
    }
    return CERO_OK;
}

static void set_addresses(cero_zero *zero)
{
    for (int64_t i = 0; i < zero->layout.param_count; i++) {
        const cero_zero_param *p = &zero->layout.params[i];
        const cero_zero_place *place = &zero->place[p->unit];
        int64_t begin = cero_zero_param_begin(&zero->layout, p);
        if (place->is_whole) {
            zero->param_address[i] =
                cero_zero_copy_at(zero, place->copy[cero_zero_param_part(p)] + begin);
        }
        if (!p->is_frozen && zero->contributions > 0 && !zero->has_sums) {
            zero->grad_address[i] = cero_zero_sum_at(zero, place->sum + begin);
        }
    }
}

bool cero_zero_has_node_order(const cero_zero *zero)
{
    int nodes = cero_comm_node_count(zero->comm);

    return nodes > 1 && nodes < zero->size && cero_comm_has_shared_memory(zero->comm);
}

/* auto: local saves most where a rank adds several micro-batches; node where nodes have several ranks. */
static cero_status choose_order(cero_zero *zero)
{
    cero_gradient_order order = zero->spec->gradient_order;
    int nodes = cero_comm_node_count(zero->comm);

    CERO_CHECK(
        order != CERO_GRADIENT_ORDER_LOCAL || zero->stage < 2, CERO_ERR_INVALID,
        "cero.gradient_order is local with ZeRO stage %d; sums of a rank's own need room for "
        "all gradients: use stage 0 or 1, or another order",
        zero->stage);
    if (order == CERO_GRADIENT_ORDER_AUTO) {
        bool is_local = zero->stage < 2 && zero->micro_batches > 1;
        order = is_local                         ? CERO_GRADIENT_ORDER_LOCAL
                : cero_zero_has_node_order(zero) ? CERO_GRADIENT_ORDER_NODE
                                                 : CERO_GRADIENT_ORDER_GLOBAL;
    }
    CERO_CHECK(order != CERO_GRADIENT_ORDER_NODE || nodes == 1 || nodes == zero->size ||
                   cero_zero_has_node_order(zero),
               CERO_ERR_INVALID,
               "cero.gradient_order is node, and the %d ranks on %d nodes share no memory within a "
               "node: use global, or shared memory",
               zero->size, nodes);
    zero->order = order == CERO_GRADIENT_ORDER_NODE ? CERO_EXCHANGE_NODE : CERO_EXCHANGE_FLAT;
    // With one micro-batch, or one rank, there is nothing to add before the exchange.
    zero->is_local =
        order == CERO_GRADIENT_ORDER_LOCAL && zero->micro_batches > 1 && zero->size > 1;
    return CERO_OK;
}

/* The world this zero is part of: parameters alone are this rank's own business. */
static cero_status join(cero_zero *zero, const cero_zero_params *params)
{
    zero->comm = params->comm;
    if (params->micro_batches == 0) {
        CERO_TRY(cero_comm_create_self(&zero->own_comm));
        zero->comm = zero->own_comm;
    }
    zero->rank = cero_comm_rank(zero->comm);
    zero->size = cero_comm_size(zero->comm);
    zero->micro_batches = params->micro_batches;
    zero->contributions = params->micro_batches * zero->size;
    zero->has_sums = zero->contributions > 1;
    if (zero->contributions > 0) {
        zero->stage = zero->size > 1 ? params->spec->zero_stage : 0;
        zero->has_master = zero->dtype != CERO_DTYPE_F32;
        zero->is_shared = params->spec->share_within_node && zero->size > 1 &&
                          (zero->stage == 1 || zero->stage == 2);
        CERO_CHECK(!zero->is_shared || cero_comm_has_shared_memory(zero->comm), CERO_ERR_INVALID,
                   "cero.share_within_node is true, and the %d ranks share no memory within a "
                   "node: set it to false, or use shared memory",
                   zero->size);
        CERO_TRY(choose_order(zero));
    }
    return CERO_OK;
}

static cero_status plan(cero_zero *zero, const cero_graph *graph)
{
    bool trains = zero->contributions > 0;

    CERO_TRY(cero_zero_layout_create(graph, trains ? &zero->spec->no_decay : NULL, &zero->layout));
    zero->place = cero_new((size_t)zero->layout.unit_count, sizeof(cero_zero_place));
    if (zero->place == NULL) {
        return CERO_FAIL(CERO_ERR_NOMEM, "no memory for the places of %lld units",
                         (long long)zero->layout.unit_count);
    }
    cero_zero_place_all(zero);
    if (!trains) {
        return CERO_OK;
    }
    CERO_TRY(cero_zero_layout_check_patterns(&zero->layout, &zero->spec->frozen, "frozen"));
    CERO_TRY(cero_zero_create_optimizer(zero));
    CERO_TRY(plan_landing(zero));
    return cero_zero_count(zero);
}

cero_status cero_zero_create(const cero_zero_params *params, cero_zero **out)
{
    cero_status st = CERO_OK;
    cero_zero *zero = cero_new(1, sizeof(*zero));

    if (zero == NULL) {
        return CERO_FAIL(CERO_ERR_NOMEM, "no memory for the states of a model");
    }
    zero->device = params->device;
    zero->mem = params->mem;
    zero->spec = params->spec;
    zero->dtype = params->graph->compute_dtype;
    CERO_TRY_GOTO(join(zero, params), fail);
    CERO_TRY_GOTO(plan(zero, params->graph), fail);
    *out = zero;
    return CERO_OK;

fail:
    cero_zero_destroy(&zero);
    return st;
}

cero_status cero_zero_allocate(cero_zero *zero, size_t exchange_bytes)
{
    size_t count = (size_t)zero->layout.param_count;
    size_t units = (size_t)zero->layout.unit_count;
    size_t bytes[CERO_MEM_COUNT];
    cero_status st = CERO_OK;

    cero_zero_bytes(zero, exchange_bytes, bytes);
    zero->param_address = cero_new(count, sizeof(void *));
    zero->grad_address = cero_new(count, sizeof(void *));
    zero->refresh = cero_new(units, sizeof(cero_exchange *));
    zero->spread = cero_new(units, sizeof(cero_exchange *));
    zero->refresh_state = cero_new(units, 1);
    if (zero->param_address == NULL || zero->grad_address == NULL || zero->refresh == NULL ||
        zero->spread == NULL || zero->refresh_state == NULL) {
        st = CERO_FAIL(CERO_ERR_NOMEM, "no memory for %zu addresses", count);
    }
    CERO_TRY(cero_comm_agree(zero->comm, st));
    CERO_TRY(allocate_shared(zero, exchange_bytes, bytes));
    if (zero->contributions > 0) {
        CERO_TRY(cero_comm_agree(zero->comm, allocate_private(zero, bytes)));
    }
    set_addresses(zero);
    if (zero->contributions > 0) {
        cero_zero_set_segment_addresses(zero);
        CERO_TRY(cero_zero_create_exchanges(zero));
    }
    return CERO_OK;
}

void cero_zero_destroy(cero_zero **zero)
{
    if (zero == NULL || *zero == NULL) {
        return;
    }
    cero_zero *z = *zero;
    if (z->refresh_state != NULL && cero_zero_refresh_release(z) != CERO_OK) {
        // An error ended the exchanges: nobody reads this memory any more.
    }
    cero_zero_destroy_exchanges(z);
    if (z->sum_buffer == NULL) {
        cero_mem_free(z->mem, z->grad);
    }
    cero_mem_free(z->mem, z->scratch);
    cero_mem_free(z->mem, z->landing);
    cero_mem_free(z->mem, z->block_sums);
    cero_mem_free(z->mem, z->exp_avg_sq);
    cero_mem_free(z->mem, z->exp_avg);
    cero_mem_free(z->mem, z->master);
    cero_comm_buffer_destroy(&z->sum_buffer);
    cero_comm_buffer_destroy(&z->arena);
    cero_comm_buffer_destroy(&z->param_buffer);
    cero_optim_destroy(&z->optim);
    cero_delete(z->norms);
    cero_delete(z->segments);
    cero_delete(z->refresh_state);
    cero_delete(z->spread);
    cero_delete(z->refresh);
    cero_delete(z->grad_address);
    cero_delete(z->param_address);
    cero_delete(z->place);
    cero_zero_layout_cleanup(&z->layout);
    cero_comm_destroy(&z->own_comm);
    cero_delete(z);
    *zero = NULL;
}

const cero_zero_layout *cero_zero_get_layout(const cero_zero *zero)
{
    return &zero->layout;
}

void *const *cero_zero_param_addresses(const cero_zero *zero)
{
    return zero->param_address;
}

void *const *cero_zero_grad_addresses(const cero_zero *zero)
{
    return zero->grad_address;
}

void *cero_zero_arena(const cero_zero *zero)
{
    return zero->arena != NULL ? cero_comm_buffer_data(zero->arena) : NULL;
}

void cero_zero_begin_micro_batch(cero_zero *zero, int64_t index)
{
    zero->micro_batch = index;
}

double cero_zero_exchange_seconds(const cero_zero *zero)
{
    return zero->exchange_seconds;
}

double cero_zero_loss_scale(const cero_zero *zero)
{
    return zero->dtype == CERO_DTYPE_F16 ? zero->scaler.scale : 1.0;
}

int64_t cero_zero_applied(const cero_zero *zero)
{
    return zero->applied;
}

int64_t cero_zero_skipped(const cero_zero *zero)
{
    return zero->skipped;
}
