/* SPDX-License-Identifier: Apache-2.0 */
/* Offsets of units and parameters in the two flat spaces; see layout.h. */
#include "zero/layout.h"

#include <string.h>

int64_t cero_zero_round_up(int64_t n)
{
    return (n + CERO_ZERO_ALIGNMENT - 1) / CERO_ZERO_ALIGNMENT * CERO_ZERO_ALIGNMENT;
}

int64_t cero_zero_border(int64_t numel, int size, int j)
{
    int64_t blocks = cero_zero_round_up(numel) / CERO_ZERO_ALIGNMENT;
    int64_t border = blocks / size * j + blocks % size * j / size;

    return border * CERO_ZERO_ALIGNMENT < numel ? border * CERO_ZERO_ALIGNMENT : numel;
}

cero_zero_part cero_zero_param_part(const cero_zero_param *param)
{
    return param->is_frozen ? CERO_ZERO_FROZEN : CERO_ZERO_TRAINED;
}

int64_t cero_zero_param_begin(const cero_zero_layout *layout, const cero_zero_param *param)
{
    return param->offset - layout->units[param->unit].range[cero_zero_param_part(param)].offset;
}

cero_status cero_zero_layout_check_patterns(const cero_zero_layout *layout,
                                            const cero_patterns *patterns, const char *key)
{
    for (int i = 0; patterns != NULL && i < patterns->count; i++) {
        bool has_match = false;
        for (int64_t p = 0; p < layout->param_count && !has_match; p++) {
            has_match = cero_text_match(patterns->pattern[i], layout->params[p].name);
        }
        CERO_CHECK(has_match, CERO_ERR_INVALID,
                   "cero.%s: the pattern \"%s\" matches none of the model's %lld parameters (the "
                   "first is %s)",
                   key, patterns->pattern[i], (long long)layout->param_count,
                   layout->param_count > 0 ? layout->params[0].name : "absent");
    }
    return CERO_OK;
}

static cero_status param_init(const cero_param *from, const cero_patterns *no_decay,
                              cero_zero_layout *layout, cero_zero_param *to)
{
    *to = (cero_zero_param){
        .name = cero_strdup(from->name),
        .shape = from->shape,
        .numel = from->numel,
        .init = from->init,
        .std = from->std,
        .unit = from->unit,
        .is_frozen = from->is_frozen,
        .has_decay = !cero_patterns_match(no_decay, from->name),
        .is_matrix = from->shape.ndim == 2 && !from->is_embedding,
    };
    if (to->name == NULL) {
        return CERO_FAIL(CERO_ERR_NOMEM, "no memory for the name %s", from->name);
    }
    layout->numel += to->numel;
    if (!to->is_frozen) {
        layout->trained_numel += to->numel;
        layout->decay_tensors += to->has_decay ? 1 : 0;
        layout->decay_numel += to->has_decay ? to->numel : 0;
    }
    return CERO_OK;
}

/* Places one part of all units behind what is placed already. */
static void place_part(cero_zero_layout *layout, cero_zero_part part)
{
    for (int64_t u = 0; u < layout->unit_count; u++) {
        cero_zero_unit *unit = &layout->units[u];
        cero_zero_range *range = &unit->range[part];
        range->offset = layout->padded;
        for (int i = unit->first_param; i < unit->first_param + unit->param_count; i++) {
            cero_zero_param *p = &layout->params[i];
            if (cero_zero_param_part(p) == part) {
                p->offset = range->offset + range->numel;
                range->numel += p->numel;
            }
        }
        layout->padded += cero_zero_round_up(range->numel);
    }
}

cero_status cero_zero_layout_create(const cero_graph *graph, const cero_patterns *no_decay,
                                    cero_zero_layout *out)
{
    cero_status st = CERO_OK;
    cero_zero_layout layout = {
        .params = cero_new((size_t)graph->param_count, sizeof(cero_zero_param)),
        .units = cero_new((size_t)graph->unit_count, sizeof(cero_zero_unit)),
    };

    if (layout.params == NULL || layout.units == NULL) {
        CERO_FAIL_GOTO(fail, CERO_ERR_NOMEM, "no memory for the layout of %lld parameters",
                       (long long)graph->param_count);
    }
    for (int64_t i = 0; i < graph->param_count; i++) {
        layout.param_count++;
        CERO_TRY_GOTO(param_init(&graph->params[i], no_decay, &layout, &layout.params[i]), fail);
    }
    for (int64_t u = 0; u < graph->unit_count; u++) {
        layout.units[u].first_param = graph->units[u].first_param;
        layout.units[u].param_count = graph->units[u].param_count;
        layout.units[u].name = cero_strdup(graph->units[u].name);
        layout.unit_count++;
        if (layout.units[u].name == NULL) {
            CERO_FAIL_GOTO(fail, CERO_ERR_NOMEM, "no memory for unit %s", graph->units[u].name);
        }
    }
    place_part(&layout, CERO_ZERO_TRAINED);
    layout.trained_padded = layout.padded;
    place_part(&layout, CERO_ZERO_FROZEN);
    CERO_TRY_GOTO(cero_zero_layout_check_patterns(&layout, no_decay, "no_decay"), fail);
    *out = layout;
    return CERO_OK;

fail:
    cero_zero_layout_cleanup(&layout);
    return st;
}

void cero_zero_layout_cleanup(cero_zero_layout *layout)
{
    for (int64_t i = 0; layout->params != NULL && i < layout->param_count; i++) {
        cero_delete(layout->params[i].name);
    }
    for (int64_t i = 0; layout->units != NULL && i < layout->unit_count; i++) {
        cero_delete(layout->units[i].name);
    }
    cero_delete(layout->params);
    cero_delete(layout->units);
    *layout = (cero_zero_layout){0};
}

int64_t cero_zero_layout_find(const cero_zero_layout *layout, const char *name)
{
    for (int64_t i = 0; i < layout->param_count; i++) {
        if (strcmp(layout->params[i].name, name) == 0) {
            return i;
        }
    }
    return -1;
}
