/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reverse-mode differentiation: walks the program backwards and lets each op append its backward.
 *
 * A parameter's gradient is finished (cast to the compute dtype, marked GRAD) right after the backward of
 * its first use, so that a partition can exchange it while the rest of backward runs.
 */
#include "graph/graph.h"

#include "graph/ops/ops.h"

cero_value *cero_graph_grad(cero_graph *graph, const cero_value *value)
{
    CERO_UNUSED(graph);
    return value->grad;
}

void cero_graph_set_grad(cero_graph *graph, cero_value *value, cero_value *grad)
{
    CERO_UNUSED(graph);
    value->grad = grad;
}

bool cero_graph_needs_grad(const cero_graph *graph, const cero_value *value)
{
    CERO_UNUSED(graph);
    return value != NULL && value->requires_grad;
}

cero_status cero_graph_add_grad(cero_graph *graph, cero_value *value, cero_value *grad)
{
    if (grad == NULL || !cero_graph_needs_grad(graph, value)) {
        return graph->status;
    }
    if (!cero_shape_equal(&value->desc.shape, &grad->desc.shape)) {
        char a[128];
        char b[128];
        (void)cero_graph_fail(graph, CERO_ERR_SHAPE,
                              "a gradient of shape %s for a value of shape %s",
                              cero_shape_format(&grad->desc.shape, a, sizeof(a)),
                              cero_shape_format(&value->desc.shape, b, sizeof(b)));
        return graph->status;
    }
    if (value->grad == NULL) {
        value->grad = grad;
        return CERO_OK;
    }
    cero_value *a = value->grad;
    cero_value *b = grad;
    if (a->desc.dtype != b->desc.dtype) {
        a = cero_graph_cast(graph, a, CERO_DTYPE_F32);
        b = cero_graph_cast(graph, b, CERO_DTYPE_F32);
    }
    value->grad = cero_graph_add(graph, a, b);
    return graph->status;
}

/* Gives a parameter its staged gradient; several values may not share one staging place. */
static cero_status param_finish(cero_graph *graph, cero_param *param)
{
    cero_value *grad = param->value->grad;

    if (param->is_frozen || param->grad_value != NULL) {
        return CERO_OK;
    }
    if (grad == NULL) {
        param->is_unused = true;
        grad = cero_op_zeros_append(graph, param->value->desc);
    } else if (grad->desc.dtype != graph->compute_dtype || grad->kind != CERO_VALUE_ACTIVATION) {
        grad = cero_op_cast_append(graph, grad, graph->compute_dtype);
    } else {
        // Another value's gradient may be this same tensor (add passes its gradient on).
        for (int64_t i = 0; i < graph->value_count; i++) {
            const cero_value *v = graph->values[i];
            if (v != param->value && v->grad == grad) {
                grad = cero_op_cast_append(graph, grad, graph->compute_dtype);
                break;
            }
        }
    }
    if (grad == NULL) {
        return graph->status;
    }
    grad->kind = CERO_VALUE_GRAD;
    grad->param = param->value->param;
    param->grad_value = grad;
    return CERO_OK;
}

/* For each parameter the first node that reads it; -1: none. */
static void find_first_uses(const cero_graph *graph, int64_t count, int64_t *first)
{
    for (int64_t i = 0; i < graph->param_count; i++) {
        first[i] = -1;
    }
    for (int64_t i = count - 1; i >= 0; i--) {
        const cero_node *node = graph->nodes[i];
        for (int k = 0; k < node->input_count; k++) {
            if (node->input[k]->kind == CERO_VALUE_PARAM) {
                first[node->input[k]->param] = i;
            }
        }
    }
}

static cero_status differentiate_node(cero_graph *graph, const cero_node *node)
{
    bool has_grad = false;
    bool wants_grad = false;

    for (int k = 0; k < node->output_count; k++) {
        has_grad = has_grad || node->output[k]->grad != NULL;
    }
    for (int k = 0; k < node->input_count; k++) {
        wants_grad = wants_grad || node->input[k]->requires_grad;
    }
    if (!has_grad || !wants_grad || node->op->differentiate == NULL) {
        return CERO_OK;
    }
    graph->open_unit = node->unit;
    cero_status st = node->op->differentiate(graph, node);
    st = st != CERO_OK ? st : graph->status;
    return st == CERO_OK ? st : cero_error_prefix(st, "gradient of %s: ", node->op->name);
}

static cero_status walk_back(cero_graph *graph, const int64_t *first)
{
    for (int64_t i = graph->node_count - 1; i >= 0; i--) {
        if (graph->nodes[i]->phase != CERO_PHASE_FORWARD) {
            continue;
        }
        CERO_TRY(differentiate_node(graph, graph->nodes[i]));
        for (int64_t p = 0; p < graph->param_count; p++) {
            if (first[p] == i) {
                graph->open_unit = graph->params[p].unit;
                CERO_TRY(param_finish(graph, &graph->params[p]));
            }
        }
    }
    for (int64_t p = 0; p < graph->param_count; p++) {
        graph->open_unit = graph->params[p].unit;
        CERO_TRY(param_finish(graph, &graph->params[p]));
    }
    return CERO_OK;
}

cero_status cero_graph_autodiff(cero_graph *graph, cero_value *loss)
{
    cero_status st = CERO_OK;
    char text[128];

    CERO_CHECK(graph->status == CERO_OK, graph->status, "the graph has an error: %s",
               cero_error_message());
    CERO_CHECK(loss != NULL && loss->desc.dtype == CERO_DTYPE_F32 && loss->desc.shape.ndim == 1,
               CERO_ERR_SHAPE, "the loss is %s %s; expected f32 with one element per row",
               loss == NULL ? "missing" : cero_dtype_name(loss->desc.dtype),
               loss == NULL ? "" : cero_shape_format(&loss->desc.shape, text, sizeof(text)));
    CERO_CHECK(loss->requires_grad, CERO_ERR_INVALID,
               "nothing to train: no parameter that is not frozen takes part in the loss");
    int64_t *first = cero_new((size_t)graph->param_count, sizeof(*first));
    if (first == NULL) {
        return CERO_FAIL(CERO_ERR_NOMEM, "no memory to differentiate %lld parameters",
                         (long long)graph->param_count);
    }
    find_first_uses(graph, graph->node_count, first);
    graph->phase = CERO_PHASE_BACKWARD;
    loss->grad = cero_op_seed_append(graph, loss->desc);
    if (loss->grad == NULL) {
        st = graph->status;
        goto out;
    }
    CERO_TRY_GOTO(walk_back(graph, first), out);
out:
    graph->open_unit = -1;
    graph->phase = CERO_PHASE_FORWARD;
    cero_delete(first);
    return st;
}
