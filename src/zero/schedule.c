/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pass of schedule.h: finds the intervals in which units are used and when gradients are ready, and puts
 * the nodes of schedule_ops.c into the program. How far they go ahead of need is schedule_limits.c's business.
 */
#include "zero/schedule_impl.h"

#include <stdlib.h>

/* True when node i reads a parameter of `unit`, or of any gathered unit but it. */
static bool node_uses(const cero_zero_schedule *s, int64_t i, int64_t unit, bool *uses_other)
{
    const cero_node *node = s->graph->nodes[i];
    bool uses = false;

    for (int k = 0; k < node->input_count; k++) {
        const cero_value *v = node->input[k];
        if (v->kind != CERO_VALUE_PARAM) {
            continue;
        }
        int64_t u = s->zero->layout.params[v->param].unit;
        uses = uses || u == unit;
        *uses_other = *uses_other || (u != unit && !s->zero->place[u].is_whole);
    }
    return uses;
}

static cero_status add_interval(cero_zero_schedule *s, int64_t unit, int64_t first)
{
    CERO_TRY(cero_grow((void **)&s->intervals, s->interval_count, &s->interval_capacity,
                       sizeof(cero_zero_interval)));
    s->intervals[s->interval_count++] =
        (cero_zero_interval){.unit = unit, .first = first, .last = first};
    return CERO_OK;
}

/*
 * Uses of a unit with no other gathered unit between them are one interval. Recomputation comes back to a unit
 * after the rest of its group: within a group the unit is kept, if there is room for a group. No interval passes
 * so many units that a transport could not keep their exchanges apart.
 */
static cero_status find_intervals_of(cero_zero_schedule *s, int64_t unit, bool keeps_groups)
{
    int64_t passed = 0;
    bool has_open = false;
    bool has_gap = false;

    for (int64_t i = 0; i < s->graph->node_count; i++) {
        passed += i > 0 && s->graph->nodes[i]->unit != s->graph->nodes[i - 1]->unit ? 1 : 0;
        if (!node_uses(s, i, unit, &has_gap)) {
            continue;
        }
        cero_zero_interval *last = has_open ? &s->intervals[s->interval_count - 1] : NULL;
        bool is_group = has_open && keeps_groups &&
                        s->graph->nodes[last->last]->phase == CERO_PHASE_RECOMPUTE &&
                        s->graph->nodes[i]->phase != CERO_PHASE_FORWARD;
        if (last == NULL || (has_gap && !is_group) || passed > 2 * CERO_ZERO_AHEAD) {
            CERO_TRY(add_interval(s, unit, i));
            last = &s->intervals[s->interval_count - 1];
            has_open = true;
            passed = 0;
        }
        last->last = i;
        has_gap = false;
    }
    return CERO_OK;
}

static int compare_intervals(const void *a, const void *b)
{
    const cero_zero_interval *x = a;
    const cero_zero_interval *y = b;

    if (x->first != y->first) {
        return x->first < y->first ? -1 : 1;
    }
    return x->unit < y->unit ? -1 : x->unit > y->unit;
}

static cero_status find_intervals(cero_zero_schedule *s)
{
    bool keeps_groups = s->zero->stage == 3 && cero_zero_can_keep_groups(s->zero);

    for (int64_t u = 0; u < s->zero->layout.unit_count; u++) {
        if (!s->zero->place[u].is_whole) {
            CERO_TRY(find_intervals_of(s, u, keeps_groups));
        }
    }
    if (s->interval_count > 0) {
        qsort(s->intervals, (size_t)s->interval_count, sizeof(cero_zero_interval),
              compare_intervals);
        cero_zero_choose_starts(s);
    }
    return CERO_OK;
}

/*
 * The value that becomes a gradient where it is added to in place: it lies in the room already. (If it cannot
 * after all, the room is taken to live longer than it does.)
 */
static const cero_value *first_form(const cero_value *grad)
{
    const cero_value *v = grad;

    while (v->producer != NULL) {
        const cero_node *node = v->producer;
        const cero_value *before = NULL;
        for (int k = 0; k < node->output_count; k++) {
            if (node->output[k] == v && node->in_place[k] > 0 &&
                node->in_place[k] <= node->input_count) {
                before = node->input[node->in_place[k] - 1];
            }
        }
        if (before == NULL || before->kind != CERO_VALUE_ACTIVATION) {
            break;
        }
        v = before;
    }
    return v;
}

static int64_t node_of(const cero_zero_schedule *s, const cero_node *node)
{
    int64_t i = 0;

    while (s->graph->nodes[i] != node) {
        i++;
    }
    return i;
}

/* From the first node that writes to the gradients of a unit to the last; false: none does. */
static bool find_grads(const cero_zero_schedule *s, int64_t unit, cero_zero_staged *out)
{
    const cero_zero_unit *u = &s->zero->layout.units[unit];
    bool is_found = false;

    *out = (cero_zero_staged){.unit = unit, .first = s->graph->node_count};
    for (int64_t i = 0; i < s->graph->node_count; i++) {
        const cero_node *node = s->graph->nodes[i];
        for (int k = 0; k < node->output_count; k++) {
            const cero_value *v = node->output[k];
            if (v->kind == CERO_VALUE_GRAD && v->param >= u->first_param &&
                v->param < u->first_param + u->param_count) {
                int64_t first = node_of(s, first_form(v)->producer);
                out->first = first < out->first ? first : out->first;
                out->ready = i;
                is_found = true;
            }
        }
    }
    return is_found;
}

static int compare_staged(const void *a, const void *b)
{
    const cero_zero_staged *x = a;
    const cero_zero_staged *y = b;
    return x->ready < y->ready ? -1 : x->ready > y->ready;
}

/* Gives every gradient its place in a room of its unit. */
static cero_status find_staged(cero_zero_schedule *s)
{
    cero_zero *zero = s->zero;
    size_t size = cero_dtype_size(zero->dtype);

    for (int64_t u = 0; u < zero->layout.unit_count && zero->has_sums; u++) {
        s->staged_count += find_grads(s, u, &s->staged[s->staged_count]) ? 1 : 0;
    }
    if (s->staged_count > 0) {
        qsort(s->staged, (size_t)s->staged_count, sizeof(cero_zero_staged), compare_staged);
    }
    for (int64_t k = 0; k < s->staged_count; k++) {
        cero_zero_staged *staged = &s->staged[k];
        const cero_zero_unit *unit = &zero->layout.units[staged->unit];
        staged->room = cero_graph_room(s->graph, zero->dtype,
                                       cero_zero_round_up(unit->range[CERO_ZERO_TRAINED].numel));
        CERO_TRY(cero_graph_status(s->graph));
        for (int p = unit->first_param; p < unit->first_param + unit->param_count; p++) {
            cero_value *grad = s->graph->params[p].grad_value;
            if (grad != NULL) {
                grad->home = staged->room;
                grad->home_offset =
                    (size_t)cero_zero_param_begin(&zero->layout, &zero->layout.params[p]) * size;
            }
        }
    }
    return CERO_OK;
}

/* Turns the uses within an interval to the room's copies. */
static cero_status use_room(cero_zero_schedule *s, cero_zero_interval *interval)
{
    const cero_zero *zero = s->zero;
    const cero_zero_unit *unit = &zero->layout.units[interval->unit];
    size_t size = cero_dtype_size(zero->dtype);

    interval->room =
        cero_graph_room(s->graph, zero->dtype, cero_zero_room_numel(zero, interval->unit));
    for (int p = unit->first_param; p < unit->first_param + unit->param_count; p++) {
        const cero_zero_param *param = &zero->layout.params[p];
        int64_t at = cero_zero_param_begin(&zero->layout, param) +
                     (param->is_frozen ? cero_zero_room_frozen_at(zero, interval->unit) : 0);
        cero_value *copy = cero_graph_param_copy(s->graph, p, interval->room, (size_t)at * size);
        CERO_TRY(cero_graph_status(s->graph));
        for (int64_t i = interval->first; i <= interval->last; i++) {
            cero_node *node = s->graph->nodes[i];
            for (int k = 0; k < node->input_count; k++) {
                if (node->input[k] == s->graph->params[p].value) {
                    node->input[k] = copy;
                }
            }
        }
    }
    return CERO_OK;
}

/* A node to be put before node `before`; among equals in the order of insertion. */
typedef struct insertion {
    int64_t before;
    int64_t order;
    cero_node *node;
} insertion;

typedef struct inserter {
    cero_zero_schedule *schedule;
    int64_t node_count; /* of the graph before the pass */
    insertion *list;
    int64_t count;
    int64_t capacity;
} inserter;

static cero_status insert(inserter *in, cero_zero_node_kind kind, int64_t index, int64_t unit,
                          cero_value *room, int64_t before)
{
    cero_graph *g = in->schedule->graph;
    int64_t neighbour = before < in->node_count ? before : in->node_count - 1;

    CERO_TRY(cero_grow((void **)&in->list, in->count, &in->capacity, sizeof(insertion)));
    g->phase = g->nodes[neighbour]->phase;
    g->open_unit = cero_to_int(unit);
    cero_status st = cero_zero_node_append(in->schedule, kind, index, room);
    g->open_unit = -1;
    g->phase = CERO_PHASE_FORWARD;
    CERO_TRY(st);
    in->list[in->count] =
        (insertion){.before = before, .order = in->count, .node = g->nodes[g->node_count - 1]};
    in->count++;
    return CERO_OK;
}

static int compare_insertions(const void *a, const void *b)
{
    const insertion *x = a;
    const insertion *y = b;

    if (x->before != y->before) {
        return x->before < y->before ? -1 : 1;
    }
    return x->order < y->order ? -1 : x->order > y->order;
}

/* Releases come first, so that what starts at the same place may take the memory. */
static cero_status insert_gathers(inserter *in)
{
    cero_zero_schedule *s = in->schedule;

    for (int64_t k = 0; k < s->interval_count; k++) {
        const cero_zero_interval *x = &s->intervals[k];
        CERO_TRY(insert(in, CERO_ZERO_GATHER_RELEASE, k, x->unit, x->room, x->last + 1));
    }
    for (int64_t k = 0; k < s->interval_count; k++) {
        const cero_zero_interval *x = &s->intervals[k];
        if (x->starter == k) {
            CERO_TRY(insert(in, CERO_ZERO_GATHER_START, k, x->unit, x->room, x->first));
        }
        CERO_TRY(insert(in, CERO_ZERO_GATHER_FINISH, k, x->unit, x->room, x->first));
        for (int64_t ahead = k + 1; ahead < s->interval_count; ahead++) {
            const cero_zero_interval *next = &s->intervals[ahead];
            if (next->starter == k) {
                CERO_TRY(
                    insert(in, CERO_ZERO_GATHER_START, ahead, next->unit, next->room, x->first));
            }
        }
    }
    return CERO_OK;
}

static cero_status insert_refreshes(inserter *in)
{
    cero_zero_schedule *s = in->schedule;
    bool ignored = false;

    for (int64_t u = 0; u < s->zero->layout.unit_count && s->staged_count > 0; u++) {
        for (int64_t i = 0; i < in->node_count && s->zero->place[u].is_whole; i++) {
            if (node_uses(s, i, u, &ignored)) {
                CERO_TRY(insert(in, CERO_ZERO_REFRESH_FINISH, u, u, NULL, i));
                break;
            }
        }
    }
    return CERO_OK;
}

/* With overlap a unit's sum is completed while the next unit is computed, and its room freed one later. */
static cero_status insert_reductions(inserter *in)
{
    cero_zero_schedule *s = in->schedule;
    bool overlaps = s->zero->overlaps;
    int64_t count = s->staged_count;

    for (int64_t k = 0; k < count + 2; k++) {
        int64_t at = k < count ? s->staged[k].ready + 1 : in->node_count;
        int64_t finish = overlaps ? k - 1 : k;
        int64_t release = overlaps ? k - 2 : k;
        if (overlaps && release >= 0 && release < count) {
            CERO_TRY(insert(in, CERO_ZERO_REDUCE_RELEASE, release, s->staged[release].unit,
                            s->staged[release].room, at));
        }
        if (k < count) {
            CERO_TRY(
                insert(in, CERO_ZERO_REDUCE_START, k, s->staged[k].unit, s->staged[k].room, at));
        }
        if (finish >= 0 && finish < count) {
            CERO_TRY(insert(in, CERO_ZERO_REDUCE_FINISH, finish, s->staged[finish].unit,
                            s->staged[finish].room, at));
        }
        if (!overlaps && k < count) {
            CERO_TRY(
                insert(in, CERO_ZERO_REDUCE_RELEASE, k, s->staged[k].unit, s->staged[k].room, at));
        }
    }
    return CERO_OK;
}

/* The new nodes stand at the end of the program: puts each where it belongs. */
static cero_status merge(inserter *in)
{
    cero_graph *g = in->schedule->graph;
    cero_node **nodes = cero_new((size_t)g->node_count, sizeof(cero_node *));
    int64_t next = 0;
    int64_t count = 0;

    if (nodes == NULL) {
        return CERO_FAIL(CERO_ERR_NOMEM, "no memory for %lld instructions",
                         (long long)g->node_count);
    }
    if (in->count > 0) {
        qsort(in->list, (size_t)in->count, sizeof(insertion), compare_insertions);
    }
    for (int64_t i = 0; i <= in->node_count; i++) {
        while (next < in->count && in->list[next].before == i) {
            nodes[count++] = in->list[next++].node;
        }
        if (i < in->node_count) {
            nodes[count++] = g->nodes[i];
        }
    }
    CERO_ASSERT(count == g->node_count);
    for (int64_t i = 0; i < count; i++) {
        g->nodes[i] = nodes[i];
    }
    cero_delete(nodes);
    return CERO_OK;
}

static cero_status lower(cero_zero_schedule *s)
{
    cero_status st = CERO_OK;
    inserter in = {.schedule = s};

    cero_graph_prune(s->graph);
    in.node_count = s->graph->node_count;
    CERO_TRY(find_intervals(s));
    CERO_TRY(find_staged(s));
    CERO_TRY(cero_zero_choose_overlap(s));
    for (int64_t k = 0; k < s->interval_count; k++) {
        CERO_TRY(use_room(s, &s->intervals[k]));
    }
    CERO_TRY_GOTO(insert_gathers(&in), out);
    CERO_TRY_GOTO(insert_refreshes(&in), out);
    CERO_TRY_GOTO(insert_reductions(&in), out);
    CERO_TRY_GOTO(merge(&in), out);
out:
    cero_delete(in.list);
    return st;
}

cero_status cero_zero_schedule_create(cero_zero *zero, cero_graph *graph, cero_zero_schedule **out)
{
    cero_status st = CERO_OK;
    cero_zero_schedule *s = cero_new(1, sizeof(*s));

    if (s == NULL) {
        return CERO_FAIL(CERO_ERR_NOMEM, "no memory for a schedule");
    }
    s->zero = zero;
    s->graph = graph;
    s->staged = cero_new((size_t)zero->layout.unit_count, sizeof(cero_zero_staged));
    if (s->staged == NULL) {
        CERO_FAIL_GOTO(fail, CERO_ERR_NOMEM, "no memory for a schedule");
    }
    CERO_TRY_GOTO(lower(s), fail);
    CERO_TRY_GOTO(cero_zero_schedule_count(s), fail);
    *out = s;
    return CERO_OK;

fail:
    cero_zero_schedule_destroy(&s);
    return st;
}

void cero_zero_schedule_destroy(cero_zero_schedule **schedule)
{
    if (schedule == NULL || *schedule == NULL) {
        return;
    }
    cero_zero_schedule *s = *schedule;
    for (int64_t k = 0; k < s->interval_count; k++) {
        for (int part = 0; part < CERO_ZERO_PARTS; part++) {
            cero_exchange_destroy(&s->intervals[k].exchange[part]);
        }
    }
    for (int64_t k = 0; s->staged != NULL && k < s->staged_count; k++) {
        cero_exchange_destroy(&s->staged[k].exchange);
    }
    cero_delete(s->intervals);
    cero_delete(s->staged);
    cero_delete(s);
    *schedule = NULL;
}

/* One part of a unit, from the shards of all ranks into the room. */
static cero_status bind_part(cero_zero_schedule *s, cero_zero_interval *x, cero_zero_part part,
                             const int64_t *border, const size_t *source_at)
{
    cero_zero *zero = s->zero;
    size_t size = cero_dtype_size(zero->dtype);
    int64_t at = part == CERO_ZERO_FROZEN ? cero_zero_room_frozen_at(zero, x->unit) : 0;
    cero_gather_params params = {.name = zero->layout.units[x->unit].name,
                                 .device = zero->device,
                                 .element_size = size,
                                 .border = border,
                                 .source = zero->param_buffer,
                                 .source_at = source_at,
                                 .dest = zero->arena,
                                 .dest_offset = x->room_at + (size_t)at * size};

    return cero_gather_create(zero->comm, &params, &x->exchange[part]);
}

/* All gathers, in the order in which shards lie: of every rank it is known where the next one begins. */
static cero_status bind_intervals(cero_zero_schedule *s, int64_t *border, size_t *source_at)
{
    const cero_zero *zero = s->zero;
    size_t size = cero_dtype_size(zero->dtype);

    for (int r = 0; r < zero->size; r++) {
        source_at[r] = (size_t)zero->whole_numel * size;
    }
    for (int part = 0; part < CERO_ZERO_PARTS; part++) {
        for (int64_t u = 0; u < zero->layout.unit_count; u++) {
            if (zero->place[u].is_whole || zero->layout.units[u].range[part].numel == 0) {
                continue;
            }
            cero_zero_borders(zero, u, (cero_zero_part)part, border);
            for (int64_t k = 0; k < s->interval_count; k++) {
                cero_zero_interval *x = &s->intervals[k];
                if (x->unit == u) {
                    CERO_TRY(bind_part(s, x, (cero_zero_part)part, border, source_at));
                }
            }
            for (int r = 0; r < zero->size; r++) {
                source_at[r] += (size_t)cero_zero_shard_room(border + r) * size;
            }
        }
    }
    return CERO_OK;
}

cero_status cero_zero_reduce_bind(cero_zero *zero, int64_t k, cero_zero_staged *staged,
                                  int64_t *border)
{
    cero_zero_held sum = cero_zero_held_sum(zero, staged->unit);
    cero_zero_held own = cero_zero_own(zero, staged->unit, CERO_ZERO_TRAINED);

    cero_zero_borders(zero, staged->unit, CERO_ZERO_TRAINED, border);
    cero_reduce_params params = {
        .name = zero->layout.units[staged->unit].name,
        .device = zero->device,
        .dtype = zero->is_local ? CERO_DTYPE_F32 : zero->dtype,
        .border = border,
        .source = zero->is_local ? zero->sum_buffer : zero->arena,
        .source_offset = zero->is_local ? (size_t)sum.at * sizeof(float) : staged->source_at,
        .sum = (float *)zero->grad + sum.at + (own.begin - sum.begin),
        .bucket = zero->spec->reduce_bucket_size,
        .order = zero->order,
        .landing = (char *)zero->landing + (zero->overlaps && k % 2 == 1 ? zero->landing_bytes : 0),
    };
    return cero_reduce_create(zero->comm, &params, &staged->exchange);
}

cero_status cero_zero_schedule_bind(cero_zero_schedule *s, const cero_program *program)
{
    cero_status st = CERO_OK;
    size_t size = (size_t)s->zero->size;
    int64_t *border = cero_new(size + 1, sizeof(int64_t));
    size_t *source_at = cero_new(size, sizeof(size_t));

    if (border == NULL || source_at == NULL) {
        CERO_FAIL_GOTO(out, CERO_ERR_NOMEM, "no memory for the shards of %zu ranks", size);
    }
    for (int64_t k = 0; k < s->interval_count; k++) {
        s->intervals[k].room_at = cero_program_room_offset(program, s->intervals[k].room);
    }
    CERO_TRY_GOTO(bind_intervals(s, border, source_at), out);
    for (int64_t k = 0; k < s->staged_count; k++) {
        s->staged[k].source_at = cero_program_room_offset(program, s->staged[k].room);
        CERO_TRY_GOTO(cero_zero_reduce_bind(s->zero, k, &s->staged[k], border), out);
    }
out:
    cero_delete(border);
    cero_delete(source_at);
    return st;
}
