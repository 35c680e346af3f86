/* SPDX-License-Identifier: Apache-2.0 */
/* Lifetimes, aliases and offsets; see plan.h. */
#include "graph/plan.h"

#include <stdlib.h>

typedef struct block {
    bool is_room;  /* in the exchange arena */
    int64_t value; /* id of the root value; -1: scratch of instruction `first` */
    int64_t first;
    int64_t last;
    size_t nbytes;
    size_t offset;
} block;

typedef struct planner {
    const cero_graph *graph;
    cero_plan *plan;
    int64_t *first; /* [value_count]: instruction that writes a root; -1: never */
    int64_t *last;  /* [value_count]: last instruction that touches a root */
    block *blocks;
    int64_t block_count;
} planner;

size_t cero_plan_value_bytes(const cero_value *value)
{
    size_t nbytes =
        (size_t)cero_shape_numel(&value->desc.shape) * cero_dtype_size(value->desc.dtype);
    return (nbytes + CERO_MEM_ALIGNMENT - 1) / CERO_MEM_ALIGNMENT * CERO_MEM_ALIGNMENT;
}

static const cero_value *root_of(const planner *p, const cero_value *value)
{
    while (p->plan->place[value->id].root != value) {
        value = p->plan->place[value->id].root;
    }
    return value;
}

/* Last instruction that reads each value itself, aliases not yet considered. */
static void find_last_reads(planner *p)
{
    const cero_graph *g = p->graph;

    for (int64_t i = 0; i < g->value_count; i++) {
        p->first[i] = -1;
        p->last[i] = -1;
        p->plan->place[i].root = g->values[i];
    }
    for (int64_t i = 0; i < g->node_count; i++) {
        const cero_node *node = g->nodes[i];
        for (int k = 0; k < node->output_count; k++) {
            p->first[node->output[k]->id] = i;
            p->last[node->output[k]->id] = i;
        }
        for (int k = 0; k < node->input_count; k++) {
            p->last[node->input[k]->id] = i;
        }
    }
    for (int64_t i = 0; i < g->output_count; i++) {
        p->last[g->outputs[i].value->id] = g->node_count;
    }
}

/*
 * An output takes over its input's memory when the input dies there. When the output is a staged gradient,
 * the input (and what it was made from in place) moves into the staging memory instead.
 */
static void alias_node(planner *p, int64_t i)
{
    const cero_node *node = p->graph->nodes[i];

    for (int k = 0; k < node->output_count; k++) {
        if (node->in_place[k] == 0 || node->in_place[k] > node->input_count) {
            continue;
        }
        const cero_value *out = node->output[k];
        const cero_value *in = root_of(p, node->input[node->in_place[k] - 1]);
        if (in->kind != CERO_VALUE_ACTIVATION || p->last[in->id] != i ||
            cero_plan_value_bytes(in) != cero_plan_value_bytes(out)) {
            continue;
        }
        if (out->kind == CERO_VALUE_GRAD) {
            p->plan->place[in->id].root = out;
        } else if (out->kind == CERO_VALUE_ACTIVATION) {
            p->plan->place[out->id].root = in;
            p->last[in->id] = p->last[out->id];
        }
    }
}

static void touch_room(planner *p, const cero_value *value, int64_t i)
{
    const cero_value *root = root_of(p, value);
    const cero_value *room = root->kind == CERO_VALUE_ROOM ? root : root->home;

    if (room != NULL) {
        p->first[room->id] = p->first[room->id] < 0 ? i : p->first[room->id];
        p->last[room->id] = i;
    }
}

/* A room lives as long as anything that lies in it, aliases included. */
static void find_room_lives(planner *p)
{
    const cero_graph *g = p->graph;

    for (int64_t i = 0; i < g->value_count; i++) {
        if (g->values[i]->kind == CERO_VALUE_ROOM) {
            p->first[i] = -1;
        }
    }
    for (int64_t i = 0; i < g->node_count; i++) {
        const cero_node *node = g->nodes[i];
        for (int k = 0; k < node->input_count; k++) {
            touch_room(p, node->input[k], i);
        }
        for (int k = 0; k < node->output_count; k++) {
            touch_room(p, node->output[k], i);
        }
    }
}

static void collect_blocks(planner *p)
{
    const cero_graph *g = p->graph;

    for (int64_t i = 0; i < g->value_count; i++) {
        const cero_value *v = g->values[i];
        bool is_room = v->kind == CERO_VALUE_ROOM;
        if ((is_room || v->kind == CERO_VALUE_ACTIVATION) && p->plan->place[i].root == v &&
            p->first[i] >= 0) {
            p->blocks[p->block_count++] = (block){.is_room = is_room,
                                                  .value = i,
                                                  .first = p->first[i],
                                                  .last = p->last[i],
                                                  .nbytes = cero_plan_value_bytes(v)};
        }
    }
    for (int64_t i = 0; i < g->node_count; i++) {
        size_t nbytes = (g->nodes[i]->scratch_bytes + CERO_MEM_ALIGNMENT - 1) / CERO_MEM_ALIGNMENT *
                        CERO_MEM_ALIGNMENT;
        if (nbytes > 0) {
            p->blocks[p->block_count++] =
                (block){.value = -1, .first = i, .last = i, .nbytes = nbytes};
        }
    }
}

/* Largest first; then earliest, so that the order is total and the plan the same everywhere. */
static int compare_blocks(const void *a, const void *b)
{
    const block *x = a;
    const block *y = b;

    if (x->nbytes != y->nbytes) {
        return x->nbytes > y->nbytes ? -1 : 1;
    }
    if (x->first != y->first) {
        return x->first < y->first ? -1 : 1;
    }
    return x->value < y->value ? -1 : x->value > y->value;
}

static int compare_offsets(const void *a, const void *b)
{
    const block *x = *(const block *const *)a;
    const block *y = *(const block *const *)b;
    return x->offset < y->offset ? -1 : x->offset > y->offset;
}

/* Lowest offset where `wanted` meets no placed block that lives at the same time. */
static size_t find_offset(const block *wanted, const block **placed, int64_t count)
{
    size_t offset = 0;

    for (int64_t i = 0; i < count; i++) { // by rising offset
        const block *b = placed[i];
        if (b->last < wanted->first || b->first > wanted->last) {
            continue;
        }
        if (offset + wanted->nbytes <= b->offset) {
            break;
        }
        if (b->offset + b->nbytes > offset) {
            offset = b->offset + b->nbytes;
        }
    }
    return offset;
}

static void insert_placed(const block **placed, int64_t count, const block *b)
{
    int64_t at = count;

    while (at > 0 && compare_offsets(&placed[at - 1], &b) > 0) {
        placed[at] = placed[at - 1];
        at--;
    }
    placed[at] = b;
}

/* Places the blocks of one arena; they are sorted. */
static cero_status place_blocks(planner *p, bool is_room, size_t *arena_bytes)
{
    const block **placed = cero_new((size_t)p->block_count, sizeof(block *));
    int64_t count = 0;

    if (placed == NULL) {
        return CERO_FAIL(CERO_ERR_NOMEM, "no memory to place %lld buffers",
                         (long long)p->block_count);
    }
    for (int64_t i = 0; i < p->block_count; i++) {
        block *b = &p->blocks[i];
        if (b->is_room != is_room) {
            continue;
        }
        b->offset = find_offset(b, placed, count);
        insert_placed(placed, count++, b);
        if (b->value >= 0) {
            p->plan->place[b->value].offset = b->offset;
        } else {
            p->plan->scratch_offset[b->first] = b->offset;
        }
        if (b->offset + b->nbytes > *arena_bytes) {
            *arena_bytes = b->offset + b->nbytes;
        }
    }
    cero_delete(placed);
    return CERO_OK;
}

static cero_status find_lower_bound(planner *p)
{
    int64_t count = p->graph->node_count + 2;
    int64_t *change = cero_new((size_t)count, sizeof(*change));
    int64_t alive = 0;

    if (change == NULL) {
        return CERO_FAIL(CERO_ERR_NOMEM, "no memory for the lifetimes of %lld instructions",
                         (long long)count);
    }
    for (int64_t i = 0; i < p->block_count; i++) {
        int64_t nbytes = p->blocks[i].is_room ? 0 : (int64_t)p->blocks[i].nbytes;
        change[p->blocks[i].first] += nbytes;
        change[p->blocks[i].last + 1] -= nbytes;
    }
    for (int64_t i = 0; i < count; i++) {
        alive += change[i];
        if ((size_t)alive > p->plan->lower_bound) {
            p->plan->lower_bound = (size_t)alive;
        }
    }
    cero_delete(change);
    return CERO_OK;
}

static void planner_cleanup(planner *p)
{
    cero_delete(p->first);
    cero_delete(p->last);
    cero_delete(p->blocks);
}

cero_status cero_plan_create(const cero_graph *graph, cero_plan *out)
{
    cero_status st = CERO_OK;
    size_t values = (size_t)graph->value_count;
    cero_plan plan = {.place = cero_new(values, sizeof(cero_place)),
                      .scratch_offset = cero_new((size_t)graph->node_count, sizeof(size_t))};
    planner p = {
        .graph = graph,
        .plan = &plan,
        .first = cero_new(values, sizeof(int64_t)),
        .last = cero_new(values, sizeof(int64_t)),
        .blocks = cero_new(values + (size_t)graph->node_count, sizeof(block)),
    };

    if (plan.place == NULL || plan.scratch_offset == NULL || p.first == NULL || p.last == NULL ||
        p.blocks == NULL) {
        CERO_FAIL_GOTO(fail, CERO_ERR_NOMEM, "no memory to plan %zu values", values);
    }
    find_last_reads(&p);
    for (int64_t i = 0; i < graph->node_count; i++) {
        alias_node(&p, i);
    }
    for (int64_t i = 0; i < graph->value_count; i++) {
        plan.place[i].root = root_of(&p, graph->values[i]);
    }
    find_room_lives(&p);
    collect_blocks(&p);
    qsort(p.blocks, (size_t)p.block_count, sizeof(block), compare_blocks);
    CERO_TRY_GOTO(place_blocks(&p, false, &plan.arena_bytes), fail);
    CERO_TRY_GOTO(place_blocks(&p, true, &plan.exchange_bytes), fail);
    CERO_TRY_GOTO(find_lower_bound(&p), fail);
    planner_cleanup(&p);
    *out = plan;
    return CERO_OK;

fail:
    planner_cleanup(&p);
    cero_plan_cleanup(&plan);
    return st;
}

void cero_plan_cleanup(cero_plan *plan)
{
    cero_delete(plan->place);
    cero_delete(plan->scratch_offset);
    *plan = (cero_plan){0};
}
