/* SPDX-License-Identifier: Apache-2.0 */
/* Drops nodes whose outputs nobody reads, last first, so that chains disappear in one walk. */
#include "graph/graph.h"

static bool node_is_live(const cero_node *node, const bool *is_read)
{
    if (node->op->has_effect) {
        return true;
    }
    for (int k = 0; k < node->output_count; k++) {
        if (node->output[k]->kind == CERO_VALUE_GRAD || is_read[node->output[k]->id]) {
            return true;
        }
    }
    return false;
}

void cero_graph_prune(cero_graph *graph)
{
    bool *is_read = cero_new((size_t)graph->value_count, sizeof(*is_read));
    int64_t kept = graph->node_count;

    if (is_read == NULL) {
        return; // an unpruned program is slower, not wrong
    }
    for (int64_t i = 0; i < graph->output_count; i++) {
        is_read[graph->outputs[i].value->id] = true;
    }
    // Live nodes are moved to the end of the array, then to its front; dead ones are destroyed.
    for (int64_t i = graph->node_count - 1; i >= 0; i--) {
        cero_node *node = graph->nodes[i];
        if (!node_is_live(node, is_read)) {
            cero_delete(node->attr);
            for (int k = 0; k < node->output_count; k++) {
                node->output[k]->producer = NULL;
            }
            cero_delete(node);
            continue;
        }
        for (int k = 0; k < node->input_count; k++) {
            is_read[node->input[k]->id] = true;
        }
        graph->nodes[--kept] = node;
    }
    for (int64_t i = kept; i < graph->node_count; i++) {
        graph->nodes[i - kept] = graph->nodes[i];
    }
    graph->node_count -= kept;
    cero_delete(is_read);
}
