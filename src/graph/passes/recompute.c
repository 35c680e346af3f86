/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Activation checkpointing (Chen et al., "Training deep nets with sublinear memory cost", 2016) as a pass.
 *
 * Units that allow it are taken `group` at a time. What forward nodes outside the group read is stored (the
 * border); everything else that backward reads is computed again by clones of the group's forward nodes,
 * placed before the group's first backward node. Clones carry the same attributes, so dropout draws the
 * same mask and every bit is the same.
 */
#include "graph/graph.h"

#include <string.h>

typedef struct recompute {
    cero_graph *graph;
    int64_t group;      /* units per group */
    int *group_of_unit; /* [unit_count], -1: not recomputed */
    int group_count;
    bool *is_border;   /* [value_count]: stored although inside a group */
    cero_value **twin; /* [value_count]: the recomputed value; NULL: none yet */
    int64_t old_value_count;
    cero_node **list; /* the new program */
    int64_t list_count;
    int64_t list_capacity;
} recompute;

static int node_group(const recompute *r, const cero_node *node)
{
    return node->unit >= 0 ? r->group_of_unit[node->unit] : -1;
}

static int value_group(const recompute *r, const cero_value *value)
{
    const cero_node *producer = value->producer;

    if (producer == NULL || producer->phase != CERO_PHASE_FORWARD) {
        return -1;
    }
    return node_group(r, producer);
}

static void assign_groups(recompute *r)
{
    int64_t in_group = 0;

    r->group_count = 0;
    for (int64_t u = 0; u < r->graph->unit_count; u++) {
        if (!r->graph->units[u].can_recompute) {
            r->group_of_unit[u] = -1;
            in_group = 0;
            continue;
        }
        if (in_group == 0) {
            r->group_count++;
        }
        r->group_of_unit[u] = r->group_count - 1;
        in_group = (in_group + 1) % r->group;
    }
}

/* A value of a group that forward nodes elsewhere read, or that is an output, is a border. */
static void find_borders(recompute *r)
{
    const cero_graph *g = r->graph;

    for (int64_t i = 0; i < g->node_count; i++) {
        const cero_node *node = g->nodes[i];
        if (node->phase != CERO_PHASE_FORWARD && node_group(r, node) >= 0) {
            continue;
        }
        for (int k = 0; k < node->input_count; k++) {
            if (value_group(r, node->input[k]) != node_group(r, node)) {
                r->is_border[node->input[k]->id] = true;
            }
        }
    }
    for (int64_t i = 0; i < g->output_count; i++) {
        r->is_border[g->outputs[i].value->id] = true;
    }
}

static cero_status list_push(recompute *r, cero_node *node)
{
    CERO_TRY(cero_grow((void **)&r->list, r->list_count, &r->list_capacity, sizeof(cero_node *)));
    r->list[r->list_count++] = node;
    return CERO_OK;
}

/* A list that does not become the program: its clones belong to nobody else. */
static void list_cleanup(recompute *r)
{
    for (int64_t i = 0; i < r->list_count; i++) {
        if (r->list[i]->phase == CERO_PHASE_RECOMPUTE) {
            cero_delete(r->list[i]->attr);
            cero_delete(r->list[i]);
        }
    }
    cero_delete(r->list);
}

static bool must_recompute(const recompute *r, const cero_value *value, int group)
{
    return value->id < r->old_value_count && value_group(r, value) == group && group >= 0 &&
           !r->is_border[value->id];
}

/* The twin of `value`, cloning its producer (and, first, what that needs) into the list. */
static cero_status make_twin(recompute *r, cero_value *value, int group, cero_value **out)
{
    if (!must_recompute(r, value, group)) {
        *out = value;
        return CERO_OK;
    }
    if (r->twin[value->id] == NULL) {
        const cero_node *producer = value->producer;
        cero_node *clone = NULL;
        cero_value *inputs[CERO_MAX_INPUTS] = {0};

        for (int k = 0; k < producer->input_count; k++) {
            CERO_TRY(make_twin(r, producer->input[k], group, &inputs[k]));
        }
        CERO_TRY(list_push(r, NULL)); // room first, so that a clone always has an owner
        r->list_count--;
        CERO_TRY(cero_graph_clone_node(r->graph, producer, CERO_PHASE_RECOMPUTE, &clone));
        memcpy(clone->input, inputs, sizeof(inputs));
        r->list[r->list_count++] = clone;
        for (int k = 0; k < producer->output_count; k++) {
            r->twin[producer->output[k]->id] = clone->output[k];
        }
    }
    *out = r->twin[value->id];
    return CERO_OK;
}

/* All clones of a group, before the group's first backward node. */
static cero_status recompute_group(recompute *r, int group, int64_t first)
{
    cero_graph *g = r->graph;

    // What backward reads is cloned as it is met, each value after those it is made of.
    for (int64_t i = first; i < g->node_count; i++) {
        cero_node *node = g->nodes[i];
        if (node->phase != CERO_PHASE_BACKWARD || node_group(r, node) != group) {
            continue;
        }
        for (int k = 0; k < node->input_count; k++) {
            cero_value *twin = NULL;
            CERO_TRY(make_twin(r, node->input[k], group, &twin));
            node->input[k] = twin;
        }
    }
    return CERO_OK;
}

static cero_status rewrite(recompute *r)
{
    cero_graph *g = r->graph;
    bool *is_done = cero_new((size_t)r->group_count, sizeof(*is_done));
    cero_status st = CERO_OK;

    if (is_done == NULL) {
        return CERO_FAIL(CERO_ERR_NOMEM, "no memory to plan %d recomputed groups", r->group_count);
    }
    for (int64_t i = 0; i < g->node_count; i++) {
        cero_node *node = g->nodes[i];
        int group = node_group(r, node);
        if (node->phase == CERO_PHASE_BACKWARD && group >= 0 && !is_done[group]) {
            is_done[group] = true;
            CERO_TRY_GOTO(recompute_group(r, group, i), out);
        }
        CERO_TRY_GOTO(list_push(r, node), out);
    }
out:
    cero_delete(is_done);
    return st;
}

cero_status cero_graph_recompute(cero_graph *graph, int64_t group)
{
    cero_status st = CERO_OK;

    if (group <= 0) {
        return CERO_OK;
    }
    recompute r = {.graph = graph, .group = group, .old_value_count = graph->value_count};
    r.group_of_unit = cero_new((size_t)graph->unit_count, sizeof(*r.group_of_unit));
    r.is_border = cero_new((size_t)graph->value_count, sizeof(*r.is_border));
    r.twin = cero_new((size_t)graph->value_count, sizeof(cero_value *));
    if (r.group_of_unit == NULL || r.is_border == NULL || r.twin == NULL) {
        CERO_FAIL_GOTO(out, CERO_ERR_NOMEM, "no memory to plan activation checkpointing");
    }
    assign_groups(&r);
    find_borders(&r);
    CERO_TRY_GOTO(rewrite(&r), out);
    cero_delete(graph->nodes);
    graph->nodes = r.list;
    graph->node_count = r.list_count;
    graph->node_capacity = r.list_capacity;
    r.list = NULL;
    r.list_count = 0;
out:
    if (st != CERO_OK) {
        graph->status = st; // backward nodes may already read twins: the graph is of no use
    }
    list_cleanup(&r);
    cero_delete(r.twin);
    cero_delete(r.is_border);
    cero_delete(r.group_of_unit);
    return st;
}
