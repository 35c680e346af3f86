/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Building graphs: values, nodes, units, parameters and the sticky first error. What operations mean is in
 * ops/; what is done to a finished graph is in autodiff.c and passes/.
 */
#include "graph/graph.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

cero_status cero_graph_create(cero_device *device, cero_dtype compute_dtype, cero_graph **out)
{
    CERO_CHECK(device != NULL, CERO_ERR_INVALID, "a graph needs a device");
    CERO_CHECK(compute_dtype == CERO_DTYPE_F32 || compute_dtype == CERO_DTYPE_BF16 ||
                   compute_dtype == CERO_DTYPE_F16,
               CERO_ERR_INVALID, "compute dtype %s: expected f32, bf16 or f16",
               cero_dtype_name(compute_dtype));
    cero_graph *graph = cero_new(1, sizeof(*graph));
    if (graph == NULL) {
        return CERO_FAIL(CERO_ERR_NOMEM, "no memory for a graph");
    }
    graph->device = device;
    graph->compute_dtype = compute_dtype;
    graph->open_unit = -1;
    *out = graph;
    return CERO_OK;
}

static void delete_text(const char *text)
{
    union {
        const char *readable;
        void *writable;
    } both = {.readable = text};
    cero_delete(both.writable);
}

static void node_destroy(cero_node *node)
{
    if (node != NULL) {
        cero_delete(node->attr);
        cero_delete(node);
    }
}

void cero_graph_destroy(cero_graph **graph)
{
    if (graph == NULL || *graph == NULL) {
        return;
    }
    cero_graph *g = *graph;
    for (int64_t i = 0; i < g->node_count; i++) {
        node_destroy(g->nodes[i]);
    }
    for (int64_t i = 0; i < g->value_count; i++) {
        delete_text(g->values[i]->name);
        cero_delete(g->values[i]->fill_context);
        cero_delete(g->values[i]);
    }
    for (int64_t i = 0; i < g->unit_count; i++) {
        delete_text(g->units[i].name);
    }
    for (int64_t i = 0; i < g->param_count; i++) {
        delete_text(g->params[i].name);
    }
    for (int64_t i = 0; i < g->output_count; i++) {
        delete_text(g->outputs[i].name);
    }
    cero_delete(g->nodes);
    cero_delete(g->values);
    cero_delete(g->units);
    cero_delete(g->params);
    cero_delete(g->outputs);
    cero_delete(g);
    *graph = NULL;
}

cero_status cero_graph_status(const cero_graph *graph)
{
    return graph->status;
}

/* Makes a status sticky; the message is the one just written. */
static cero_value *graph_stop(cero_graph *graph, cero_status status)
{
    if (graph->status == CERO_OK) {
        graph->status = status;
    }
    return NULL;
}

cero_value *cero_graph_fail(cero_graph *graph, cero_status status, const char *fmt, ...)
{
    char message[512];
    va_list args;

    if (graph->status != CERO_OK) {
        return NULL;
    }
    va_start(args, fmt);
    (void)vsnprintf(message, sizeof(message), fmt, args);
    va_end(args);
    return graph_stop(graph, CERO_FAIL(status, "%s", message));
}

static cero_status value_create(cero_graph *graph, const char *name, cero_tensor_desc desc,
                                cero_value_kind kind, cero_value **out)
{
    cero_status st = CERO_OK;
    cero_value *value = cero_new(1, sizeof(*value));

    if (value == NULL) {
        return CERO_FAIL(CERO_ERR_NOMEM, "no memory for a value of the graph");
    }
    *value = (cero_value){.id = graph->value_count, .desc = desc, .kind = kind, .param = -1};
    if (name != NULL) {
        value->name = cero_strdup(name);
        if (value->name == NULL) {
            CERO_FAIL_GOTO(fail, CERO_ERR_NOMEM, "no memory for the name %s", name);
        }
    }
    CERO_TRY_GOTO(cero_grow((void **)&graph->values, graph->value_count, &graph->value_capacity,
                            sizeof(cero_value *)),
                  fail);
    graph->values[graph->value_count++] = value;
    *out = value;
    return CERO_OK;

fail:
    delete_text(value->name);
    cero_delete(value);
    return st;
}

static bool shape_is_valid(const cero_shape *shape)
{
    int64_t numel = 1;

    if (shape->ndim < 0 || shape->ndim > CERO_MAX_NDIM) {
        return false;
    }
    for (int i = 0; i < shape->ndim; i++) {
        if (!cero_mul_i64(numel, shape->dim[i], &numel)) {
            return false;
        }
    }
    return numel <= INT64_MAX / 16;
}

void cero_graph_begin_unit(cero_graph *graph, const char *name, bool can_recompute)
{
    if (graph->status != CERO_OK) {
        return;
    }
    if (graph->open_unit >= 0) {
        (void)cero_graph_fail(graph, CERO_ERR_INVALID, "unit %s is opened inside unit %s", name,
                              graph->units[graph->open_unit].name);
        return;
    }
    cero_status st = cero_grow((void **)&graph->units, graph->unit_count, &graph->unit_capacity,
                               sizeof(cero_unit));
    char *copy = st == CERO_OK ? cero_strdup(name) : NULL;
    if (copy == NULL) {
        (void)cero_graph_fail(graph, CERO_ERR_NOMEM, "no memory for unit %s", name);
        return;
    }
    graph->units[graph->unit_count] = (cero_unit){.name = copy,
                                                  .can_recompute = can_recompute,
                                                  .first_param = cero_to_int(graph->param_count)};
    graph->open_unit = cero_to_int(graph->unit_count++);
}

void cero_graph_end_unit(cero_graph *graph)
{
    if (graph->status == CERO_OK && graph->open_unit < 0) {
        (void)cero_graph_fail(graph, CERO_ERR_INVALID, "a unit is closed and none is open");
    }
    graph->open_unit = -1;
}

static cero_param *param_find(const cero_graph *graph, const char *name)
{
    for (int64_t i = 0; i < graph->param_count; i++) {
        if (strcmp(graph->params[i].name, name) == 0) {
            return &graph->params[i];
        }
    }
    return NULL;
}

/* A second registration ties: same shape, or an error. */
static cero_value *param_tie(cero_graph *graph, const cero_param *found,
                             const cero_param_params *params)
{
    char a[128];
    char b[128];

    if (!cero_shape_equal(&found->shape, &params->shape)) {
        return cero_graph_fail(graph, CERO_ERR_SHAPE,
                               "parameter %s is registered as %s and used again as %s",
                               params->name, cero_shape_format(&found->shape, a, sizeof(a)),
                               cero_shape_format(&params->shape, b, sizeof(b)));
    }
    return found->value;
}

cero_value *cero_graph_param(cero_graph *graph, const cero_param_params *params)
{
    if (graph->status != CERO_OK) {
        return NULL;
    }
    if (params->name == NULL || !shape_is_valid(&params->shape)) {
        return cero_graph_fail(graph, CERO_ERR_INVALID,
                               "parameter %s: a name and a shape of at most %d dimensions, none "
                               "negative, are needed",
                               params->name == NULL ? "(none)" : params->name, CERO_MAX_NDIM);
    }
    const cero_param *found = param_find(graph, params->name);
    if (found != NULL) {
        return param_tie(graph, found, params);
    }
    if (cero_shape_numel(&params->shape) == 0) {
        return cero_graph_fail(graph, CERO_ERR_INVALID,
                               "parameter %s has no elements; leave it out of the model",
                               params->name);
    }
    if (graph->open_unit < 0) {
        return cero_graph_fail(graph, CERO_ERR_INVALID,
                               "parameter %s is registered outside a unit; call "
                               "cero_graph_begin_unit first",
                               params->name);
    }
    cero_value *value = NULL;
    bool is_frozen =
        params->is_frozen ||
        (graph->is_frozen != NULL && graph->is_frozen(graph->is_frozen_context, params->name));
    cero_tensor_desc desc = {.dtype = graph->compute_dtype, .shape = params->shape};
    cero_status st = cero_grow((void **)&graph->params, graph->param_count, &graph->param_capacity,
                               sizeof(cero_param));
    st = st != CERO_OK ? st : value_create(graph, params->name, desc, CERO_VALUE_PARAM, &value);
    char *name = st == CERO_OK ? cero_strdup(params->name) : NULL;
    if (name == NULL) {
        return cero_graph_fail(graph, CERO_ERR_NOMEM, "no memory for parameter %s", params->name);
    }
    graph->params[graph->param_count] = (cero_param){
        .name = name,
        .shape = params->shape,
        .numel = cero_shape_numel(&params->shape),
        .init = params->init,
        .std = params->std,
        .is_embedding = params->is_embedding,
        .is_frozen = is_frozen,
        .unit = graph->open_unit,
        .value = value,
    };
    value->param = cero_to_int(graph->param_count++);
    value->requires_grad = !is_frozen;
    graph->units[graph->open_unit].param_count++;
    return value;
}

cero_value *cero_graph_room(cero_graph *graph, cero_dtype dtype, int64_t numel)
{
    cero_value *value = NULL;
    cero_tensor_desc desc = {.dtype = dtype, .shape = cero_shape_1d(numel)};

    if (graph->status != CERO_OK) {
        return NULL;
    }
    cero_status st = value_create(graph, NULL, desc, CERO_VALUE_ROOM, &value);
    return st == CERO_OK ? value : graph_stop(graph, st);
}

cero_value *cero_graph_param_copy(cero_graph *graph, int64_t param, cero_value *room, size_t offset)
{
    cero_value *value = NULL;

    if (graph->status != CERO_OK || room == NULL) {
        return NULL;
    }
    cero_status st =
        value_create(graph, NULL, graph->params[param].value->desc, CERO_VALUE_PARAM, &value);
    if (st != CERO_OK || value == NULL) {
        return graph_stop(graph, st);
    }
    value->param = cero_to_int(param);
    value->home = room;
    value->home_offset = offset;
    return value;
}

static cero_value *source(cero_graph *graph, const char *name, cero_dtype dtype, cero_shape shape,
                          cero_value_kind kind)
{
    cero_value *value = NULL;

    if (graph->status != CERO_OK) {
        return NULL;
    }
    if (!shape_is_valid(&shape)) {
        return cero_graph_fail(graph, CERO_ERR_INVALID, "%s: not a shape", name);
    }
    if (cero_graph_find_value(graph, name) != NULL) {
        return cero_graph_fail(graph, CERO_ERR_INVALID, "the name %s is used twice in the graph",
                               name);
    }
    cero_tensor_desc desc = {.dtype = dtype, .shape = shape};
    cero_status st = value_create(graph, name, desc, kind, &value);
    return st == CERO_OK ? value : graph_stop(graph, st);
}

cero_value *cero_graph_input(cero_graph *graph, const char *name, cero_dtype dtype,
                             cero_shape shape)
{
    return source(graph, name, dtype, shape, CERO_VALUE_INPUT);
}

cero_value *cero_graph_state(cero_graph *graph, const char *name, cero_dtype dtype,
                             cero_shape shape)
{
    return source(graph, name, dtype, shape, CERO_VALUE_STATE);
}

cero_value *cero_graph_constant(cero_graph *graph, const char *name, cero_dtype dtype,
                                cero_shape shape, cero_fill fill, const void *context,
                                size_t context_size)
{
    cero_value *value = source(graph, name, dtype, shape, CERO_VALUE_CONSTANT);

    if (value == NULL) {
        return NULL;
    }
    value->fill = fill;
    value->fill_context = cero_new(1, context_size);
    if (value->fill_context == NULL) {
        return cero_graph_fail(graph, CERO_ERR_NOMEM, "no memory for constant %s", name);
    }
    if (context_size > 0) {
        memcpy(value->fill_context, context, context_size);
    }
    return value;
}

void cero_graph_set_output(cero_graph *graph, const char *name, cero_value *value)
{
    if (graph->status != CERO_OK || value == NULL) {
        return;
    }
    cero_status st = cero_grow((void **)&graph->outputs, graph->output_count,
                               &graph->output_capacity, sizeof(cero_named_value));
    char *copy = st == CERO_OK ? cero_strdup(name) : NULL;
    if (copy == NULL) {
        (void)cero_graph_fail(graph, CERO_ERR_NOMEM, "no memory for output %s", name);
        return;
    }
    graph->outputs[graph->output_count++] = (cero_named_value){.name = copy, .value = value};
}

cero_value *cero_graph_find_output(const cero_graph *graph, const char *name)
{
    for (int64_t i = 0; i < graph->output_count; i++) {
        if (strcmp(graph->outputs[i].name, name) == 0) {
            return graph->outputs[i].value;
        }
    }
    return NULL;
}

cero_value *cero_graph_find_value(const cero_graph *graph, const char *name)
{
    for (int64_t i = 0; i < graph->value_count; i++) {
        const cero_value *v = graph->values[i];
        if (v->kind != CERO_VALUE_PARAM && v->name != NULL && strcmp(v->name, name) == 0) {
            return graph->values[i];
        }
    }
    return NULL;
}

cero_tensor_desc cero_value_desc(const cero_value *value)
{
    return value->desc;
}

cero_dtype cero_graph_compute_dtype(const cero_graph *graph)
{
    return graph->compute_dtype;
}

void cero_graph_set_training(cero_graph *graph, bool is_training)
{
    graph->is_training = is_training;
}

void cero_graph_set_frozen(cero_graph *graph, cero_is_frozen is_frozen, const void *context)
{
    graph->is_frozen = is_frozen;
    graph->is_frozen_context = context;
}

int cero_graph_next_random(cero_graph *graph)
{
    return graph->random_count++;
}

cero_shape cero_shape_1d(int64_t a)
{
    return (cero_shape){.ndim = 1, .dim = {a}};
}

cero_shape cero_shape_2d(int64_t a, int64_t b)
{
    return (cero_shape){.ndim = 2, .dim = {a, b}};
}

/* Puts a node at the end of the program. On error the node is destroyed. */
static cero_status node_push(cero_graph *graph, cero_node *node)
{
    cero_status st = cero_grow((void **)&graph->nodes, graph->node_count, &graph->node_capacity,
                               sizeof(cero_node *));

    if (st != CERO_OK) {
        node_destroy(node);
        return st;
    }
    graph->nodes[graph->node_count++] = node;
    return CERO_OK;
}

/* Creates the outputs that infer described. */
static cero_status node_infer(cero_graph *graph, cero_node *node)
{
    cero_op_infer infer = {
        .device = graph->device, .attr = node->attr, .input_count = node->input_count};
    bool requires_grad = false;

    for (int i = 0; i < node->input_count; i++) {
        infer.input[i] = node->input[i]->desc;
        requires_grad = requires_grad || node->input[i]->requires_grad;
    }
    CERO_TRY(node->op->infer(&infer));
    CERO_ASSERT(infer.output_count >= 0 && infer.output_count <= CERO_MAX_OUTPUTS);
    node->output_count = infer.output_count;
    node->scratch_bytes = infer.scratch_bytes;
    for (int i = 0; i < infer.output_count; i++) {
        CERO_TRY(
            value_create(graph, NULL, infer.output[i], CERO_VALUE_ACTIVATION, &node->output[i]));
        node->output[i]->producer = node;
        node->output[i]->requires_grad = requires_grad && node->op->differentiate != NULL;
        node->in_place[i] = infer.in_place[i];
    }
    return CERO_OK;
}

static cero_status node_create(cero_graph *graph, const cero_op *op, const void *attr,
                               cero_node **out)
{
    cero_status st = CERO_OK;
    cero_node *node = cero_new(1, sizeof(*node));

    if (node == NULL) {
        return CERO_FAIL(CERO_ERR_NOMEM, "no memory for a node");
    }
    node->op = op;
    node->unit = graph->open_unit;
    node->phase = graph->phase;
    if (op->attr_size > 0) {
        node->attr = cero_new(1, op->attr_size);
        if (node->attr == NULL) {
            CERO_FAIL_GOTO(fail, CERO_ERR_NOMEM, "no memory for the attributes of %s", op->name);
        }
        memcpy(node->attr, attr, op->attr_size);
    }
    *out = node;
    return CERO_OK;

fail:
    node_destroy(node);
    return st;
}

cero_value *cero_graph_append(cero_graph *graph, const cero_op *op, const void *attr,
                              cero_value *const *inputs, int input_count, cero_value **outputs)
{
    cero_node *node = NULL;

    if (graph->status != CERO_OK) {
        return NULL;
    }
    cero_status st = node_create(graph, op, attr, &node);
    if (st != CERO_OK) {
        return graph_stop(graph, st);
    }
    while (input_count > 0 && inputs[input_count - 1] == NULL) {
        input_count--;
    }
    if (input_count > CERO_MAX_INPUTS) {
        node_destroy(node);
        return cero_graph_fail(graph, CERO_ERR_INVALID, "%s: %d inputs, at most %d", op->name,
                               input_count, CERO_MAX_INPUTS);
    }
    for (int i = 0; i < input_count; i++) {
        if (inputs[i] == NULL) {
            node_destroy(node);
            return cero_graph_fail(graph, CERO_ERR_INVALID, "%s: input %d is missing", op->name, i);
        }
        node->input[i] = inputs[i];
    }
    node->input_count = input_count;
    st = node_infer(graph, node);
    if (st != CERO_OK) {
        st = cero_error_prefix(
            st, "%s%s%s: ", graph->open_unit >= 0 ? graph->units[graph->open_unit].name : "",
            graph->open_unit >= 0 ? ": " : "", op->name);
        node_destroy(node);
        return graph_stop(graph, st);
    }
    st = node_push(graph, node);
    if (st != CERO_OK) {
        return graph_stop(graph, st);
    }
    for (int i = 0; outputs != NULL && i < node->output_count; i++) {
        outputs[i] = node->output[i];
    }
    return node->output_count > 0 ? node->output[0] : NULL;
}

cero_status cero_graph_clone_node(cero_graph *graph, const cero_node *node, cero_phase phase,
                                  cero_node **out)
{
    cero_status st = CERO_OK;
    cero_node *copy = NULL;

    st = node_create(graph, node->op, node->attr, &copy);
    if (copy == NULL) {
        return st;
    }
    copy->unit = node->unit;
    copy->phase = phase;
    copy->input_count = node->input_count;
    memcpy(copy->input, node->input, sizeof(copy->input));
    CERO_TRY_GOTO(node_infer(graph, copy), fail);
    *out = copy;
    return CERO_OK;

fail:
    node_destroy(copy);
    return st;
}

cero_value *cero_node_input(const cero_node *node, int i)
{
    return i < node->input_count ? node->input[i] : NULL;
}

cero_value *cero_node_output(const cero_node *node, int i)
{
    return i < node->output_count ? node->output[i] : NULL;
}

int cero_node_input_count(const cero_node *node)
{
    return node->input_count;
}

const void *cero_node_attr(const cero_node *node)
{
    return node->attr;
}

void cero_graph_replace_value(cero_graph *graph, cero_value *from, cero_value *to)
{
    for (int64_t i = 0; i < graph->node_count; i++) {
        cero_node *node = graph->nodes[i];
        for (int k = 0; k < node->input_count; k++) {
            if (node->input[k] == from) {
                node->input[k] = to;
            }
        }
    }
    for (int64_t i = 0; i < graph->output_count; i++) {
        if (graph->outputs[i].value == from) {
            graph->outputs[i].value = to;
        }
    }
}

void cero_run_parallel_for(const cero_op_run *run, int64_t count,
                           void (*task)(void *context, int64_t begin, int64_t end, int thread),
                           void *context)
{
    cero_device_parallel_for(run->device, count, task, context);
}
