/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is held where, its memory, and the weights' setter and getter. What moves between ranks is in
 * exchange.c and schedule.c, how gradients become an update in update.c.
 */
#include "zero/zero_impl.h"

#include <string.h>

cero_zero_held cero_zero_own(const cero_zero *zero, int64_t unit, cero_zero_part part)
{
    int64_t numel = zero->layout.units[unit].range[part].numel;

    return (cero_zero_held){.begin = cero_zero_border(numel, zero->size, zero->rank),
                            .end = cero_zero_border(numel, zero->size, zero->rank + 1)};
}

static cero_zero_held held(const cero_zero *zero, int64_t unit, cero_zero_part part, bool is_whole,
                           int64_t at)
{
    cero_zero_held h = {.end = zero->layout.units[unit].range[part].numel};

    h = is_whole ? h : cero_zero_own(zero, unit, part);
    h.at = at;
    return h;
}

cero_zero_held cero_zero_held_copy(const cero_zero *zero, int64_t unit, cero_zero_part part)
{
    const cero_zero_place *place = &zero->place[unit];
    return held(zero, unit, part, place->is_whole, place->copy[part]);
}

static bool is_state_whole(const cero_zero *zero)
{
    return zero->stage == 0;
}

/* Without a shared order of single micro-batches a rank adds its own first, and needs room for all. */
static bool is_sum_whole(const cero_zero *zero)
{
    return zero->stage == 0 || zero->is_local || !zero->has_sums;
}

cero_zero_held cero_zero_held_state(const cero_zero *zero, int64_t unit)
{
    return held(zero, unit, CERO_ZERO_TRAINED, is_state_whole(zero), zero->place[unit].state);
}

cero_zero_held cero_zero_held_sum(const cero_zero *zero, int64_t unit)
{
    return held(zero, unit, CERO_ZERO_TRAINED, is_sum_whole(zero), zero->place[unit].sum);
}

cero_zero_cut cero_zero_intersect(cero_zero_held h, int64_t begin, int64_t n)
{
    int64_t first = begin > h.begin ? begin : h.begin;
    int64_t last = begin + n < h.end ? begin + n : h.end;

    return last > first
               ? (cero_zero_cut){.begin = first, .n = last - first, .at = h.at + first - h.begin}
               : (cero_zero_cut){.begin = begin};
}

cero_dtype cero_zero_grad_dtype(const cero_zero *zero)
{
    return zero->has_sums ? CERO_DTYPE_F32 : zero->dtype;
}

void *cero_zero_sum_at(const cero_zero *zero, int64_t at)
{
    return (char *)zero->grad + (size_t)at * cero_dtype_size(cero_zero_grad_dtype(zero));
}

void *cero_zero_copy_at(const cero_zero *zero, int64_t at)
{
    return (char *)zero->param + (size_t)at * cero_dtype_size(zero->dtype);
}

void cero_zero_borders(const cero_zero *zero, int64_t unit, cero_zero_part part, int64_t *border)
{
    for (int j = 0; j <= zero->size; j++) {
        border[j] = cero_zero_border(zero->layout.units[unit].range[part].numel, zero->size, j);
    }
}

int64_t cero_zero_shard_room(const int64_t *border)
{
    return cero_zero_round_up(border[1] - border[0]);
}

/* The same of a rank's shard of a range of a unit. */
static int64_t room_of(const cero_zero *zero, int rank, int64_t unit, cero_zero_part part)
{
    int64_t numel = zero->layout.units[unit].range[part].numel;
    const int64_t border[] = {cero_zero_border(numel, zero->size, rank),
                              cero_zero_border(numel, zero->size, rank + 1)};
    return cero_zero_shard_room(border);
}

int64_t cero_zero_shard_at(const cero_zero *zero, int rank, int64_t unit, cero_zero_part part)
{
    int64_t at = zero->whole_numel;

    for (int p = 0; p <= (int)part; p++) {
        int64_t units = p == (int)part ? unit : zero->layout.unit_count;
        for (int64_t u = 0; u < units; u++) {
            at += zero->place[u].is_whole ? 0 : room_of(zero, rank, u, (cero_zero_part)p);
        }
    }
    return at;
}

int64_t cero_zero_room_frozen_at(const cero_zero *zero, int64_t unit)
{
    return cero_zero_round_up(zero->layout.units[unit].range[CERO_ZERO_TRAINED].numel);
}

int64_t cero_zero_room_numel(const cero_zero *zero, int64_t unit)
{
    return cero_zero_room_frozen_at(zero, unit) +
           cero_zero_round_up(zero->layout.units[unit].range[CERO_ZERO_FROZEN].numel);
}

/* A unit that is small stays whole at stage 3: a gather would cost more than it saves. */
static bool is_unit_whole(const cero_zero *zero, const cero_zero_unit *unit)
{
    int64_t numel = unit->range[CERO_ZERO_TRAINED].numel + unit->range[CERO_ZERO_FROZEN].numel;

    return zero->stage < 3 || zero->size == 1 ||
           numel <= zero->spec->stage3_param_persistence_threshold;
}

/* What every rank saves at least when a unit is cut: all but the largest shard. */
static int64_t saved_numel(const cero_zero *zero, int64_t unit)
{
    int64_t saved = 0;

    for (int part = 0; part < CERO_ZERO_PARTS; part++) {
        int64_t whole = cero_zero_round_up(zero->layout.units[unit].range[part].numel);
        int64_t blocks = whole / CERO_ZERO_ALIGNMENT;
        saved += whole - (blocks + zero->size - 1) / zero->size * CERO_ZERO_ALIGNMENT;
    }
    return saved;
}

/*
 * Cutting costs rooms to gather in, one of the largest cut unit at least. So that stage 3 holds no more than
 * stage 2 would, rooms may take what cutting saves, and a mebibyte that even the smallest model can spare; a
 * unit whose room would take more stays whole (an embedding that is most of the model, on two ranks).
 */
static void limit_rooms(cero_zero *zero)
{
    const cero_zero_layout *l = &zero->layout;
    int64_t spare = (int64_t)((1 << 20) / cero_dtype_size(zero->dtype));
    int64_t largest = -1;

    do {
        zero->room_limit = spare;
        if (largest >= 0) {
            zero->place[largest].is_whole = true;
            largest = -1;
        }
        for (int64_t u = 0; u < l->unit_count; u++) {
            if (zero->place[u].is_whole) {
                continue;
            }
            zero->room_limit += saved_numel(zero, u);
            if (largest < 0 ||
                cero_zero_room_numel(zero, u) > cero_zero_room_numel(zero, largest)) {
                largest = u;
            }
        }
    } while (largest >= 0 && cero_zero_room_numel(zero, largest) > zero->room_limit);
}

/* Whole copies first, at the same place on every rank; then this rank's shards. */
static void place_copies(cero_zero *zero)
{
    const cero_zero_layout *l = &zero->layout;

    for (int64_t u = 0; u < l->unit_count; u++) {
        zero->place[u].is_whole = is_unit_whole(zero, &l->units[u]);
    }
    limit_rooms(zero);
    for (int part = 0; part < CERO_ZERO_PARTS; part++) {
        for (int64_t u = 0; u < l->unit_count; u++) {
            if (zero->place[u].is_whole) {
                zero->place[u].copy[part] = zero->whole_numel;
                zero->whole_numel += cero_zero_round_up(l->units[u].range[part].numel);
            }
        }
    }
    zero->copy_numel = zero->whole_numel;
    for (int part = 0; part < CERO_ZERO_PARTS; part++) {
        for (int64_t u = 0; u < l->unit_count; u++) {
            if (!zero->place[u].is_whole) {
                zero->place[u].copy[part] = zero->copy_numel;
                zero->copy_numel += room_of(zero, zero->rank, u, (cero_zero_part)part);
            }
        }
    }
}

static void place_states(cero_zero *zero)
{
    const cero_zero_layout *l = &zero->layout;

    for (int64_t u = 0; u < l->unit_count; u++) {
        int64_t whole = cero_zero_round_up(l->units[u].range[CERO_ZERO_TRAINED].numel);
        int64_t shard = room_of(zero, zero->rank, u, CERO_ZERO_TRAINED);
        zero->place[u].state = zero->state_numel;
        zero->place[u].sum = zero->sum_numel;
        zero->state_numel += is_state_whole(zero) ? whole : shard;
        zero->sum_numel += is_sum_whole(zero) ? whole : shard;
    }
}

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

static int count_moments(const cero_zero *zero)
{
    int most = 0;

    for (int64_t i = 0; i < zero->layout.param_count; i++) {
        const cero_zero_param *p = &zero->layout.params[i];
        int n = p->is_frozen ? 0 : cero_optim_moment_count(&zero->spec->optimizer, p->is_matrix);
        most = n > most ? n : most;
    }
    return most;
}

/* Appends the part of parameter i that this rank updates, or lengthens the segment before it. */
static void add_segment(cero_zero *zero, int64_t i)
{
    const cero_optim_spec *spec = &zero->spec->optimizer;
    bool needs_matrices = cero_optim_needs_matrices(spec);
    bool is_elementwise = !cero_optim_needs_norms(spec) && !needs_matrices;
    const cero_zero_param *p = &zero->layout.params[i];
    int64_t begin = cero_zero_param_begin(&zero->layout, p);
    cero_zero_cut cut = cero_zero_intersect(cero_zero_held_state(zero, p->unit), begin, p->numel);
    cero_optim_segment *before =
        zero->segment_count > 0 ? &zero->segments[zero->segment_count - 1] : NULL;

    if (is_elementwise && before != NULL && cut.n > 0 &&
        zero->layout.params[before->param].unit == p->unit && before->has_decay == p->has_decay &&
        before->flat_offset + before->numel == cut.begin) {
        before->numel += cut.n;
        before->shape = cero_shape_1d(before->numel); // elements are all that counts
        before->offset = 0;
    } else if (cut.n > 0 || (needs_matrices && p->is_matrix)) {
        // Muon completes a matrix on every rank, also where none of it is owned.
        zero->segments[zero->segment_count++] = (cero_optim_segment){
            .numel = cut.n,
            .offset = cut.n > 0 ? cut.begin - begin : 0,
            .flat_offset = cut.begin,
            .param = i,
            .shape = p->shape,
            .has_decay = p->has_decay,
            .is_matrix = p->is_matrix,
            .grad_dtype = cero_zero_grad_dtype(zero),
            .copy_dtype = zero->dtype,
        };
    }
}

/*
 * One segment for each parameter, or for each run of neighbours that are treated alike when elements are
 * updated alone. Addresses follow when memory exists.
 */
static void make_segments(cero_zero *zero)
{
    for (int64_t i = 0; i < zero->layout.param_count; i++) {
        if (!zero->layout.params[i].is_frozen) {
            add_segment(zero, i);
        }
    }
}

static void set_segment_addresses(cero_zero *zero)
{
    for (int64_t i = 0; i < zero->segment_count; i++) {
        cero_optim_segment *s = &zero->segments[i];
        int64_t unit = zero->layout.params[s->param].unit;
        int64_t n = s->numel > 0 ? s->numel : 0;
        cero_zero_cut state =
            cero_zero_intersect(cero_zero_held_state(zero, unit), s->flat_offset, n);
        cero_zero_cut sum = cero_zero_intersect(cero_zero_held_sum(zero, unit), s->flat_offset, n);
        cero_zero_cut copy = cero_zero_intersect(cero_zero_held_copy(zero, unit, CERO_ZERO_TRAINED),
                                                 s->flat_offset, n);
        float *weights = cero_zero_copy_at(zero, copy.at);
        s->grad = cero_zero_sum_at(zero, sum.at);
        s->master = zero->has_master ? zero->master + state.at : weights;
        s->exp_avg = zero->exp_avg != NULL ? zero->exp_avg + state.at : NULL;
        s->exp_avg_sq = zero->exp_avg_sq != NULL ? zero->exp_avg_sq + state.at : NULL;
        s->copy = zero->has_master ? cero_zero_copy_at(zero, copy.at) : NULL;
    }
}

static cero_status create_optimizer(cero_zero *zero)
{
    size_t count = (size_t)zero->layout.param_count;

    CERO_TRY(cero_optim_create(zero->device, &zero->spec->optimizer, &zero->optim));
    zero->moment_count = count_moments(zero);
    zero->segments = cero_new(count, sizeof(cero_optim_segment));
    if (zero->segments == NULL) {
        return CERO_FAIL(CERO_ERR_NOMEM, "no memory for %zu segments", count);
    }
    make_segments(zero);
    if (cero_optim_needs_norms(&zero->spec->optimizer)) {
        zero->norms = cero_new(count, sizeof(cero_optim_norms));
        if (zero->norms == NULL) {
            return CERO_FAIL(CERO_ERR_NOMEM, "no memory for the norms of %zu parameters", count);
        }
    }
    CERO_TRY(
        cero_optim_plan(zero->optim, zero->segments, zero->segment_count, &zero->scratch_bytes));
    cero_loss_scaler_init(&zero->scaler, &zero->spec->loss_scale);
    return CERO_OK;
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
    place_copies(zero);
    place_states(zero);
    if (!trains) {
        return CERO_OK;
    }
    CERO_TRY(cero_zero_layout_check_patterns(&zero->layout, &zero->spec->frozen, "frozen"));
    CERO_TRY(create_optimizer(zero));
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
        set_segment_addresses(zero);
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
